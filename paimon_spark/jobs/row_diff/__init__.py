"""The rows that differ between two versions of a table, or of two tables.

comparison.py  RowComparison: two versions whose rows are compared; planned, then run here or in Spark
row_diff.py    RowDiff: the rows that differ, counted, shown and read
"""
