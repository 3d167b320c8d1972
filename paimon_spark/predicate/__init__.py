"""Predicates: conditions on rows, parsed from SQL, evaluated on statistics and Arrow data.

ast.py       the tree, its SQL text, LIKE patterns
literals.py  comparisons of a column with a value of any type
parse.py     SQL text and sqlglot trees to predicates
stats.py     predicates on the statistics of files and row groups
arrow.py     predicates on Arrow data
"""
