"""The rows that differ between two versions of a table, or of two tables.

row_diff.py  RowDiff, and the comparison that it comes from
"""
