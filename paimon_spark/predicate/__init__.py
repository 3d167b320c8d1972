"""Predicates: conditions on rows, parsed from SQL and evaluated on statistics and on Arrow data.

ast.py         the tree, its SQL text, LIKE patterns
literals.py    comparisons of a column with a value of any type
parse.py       SQL text and sqlglot trees to predicates
stats.py       predicates on the statistics of many files
row_groups.py  predicates on the statistics of one row group
arrow.py       predicates on Arrow data
"""
