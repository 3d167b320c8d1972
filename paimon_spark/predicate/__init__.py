"""Predicates: conditions on rows, parsed from SQL, evaluated on statistics and Arrow data.

ast.py            the tree of predicates and expressions, its SQL text
literals.py       comparisons of a column with a value of any type
patterns.py       LIKE and RLIKE as regular expressions of RE2
tokens.py         SQL text as tokens with positions
parse.py          SQL text and sqlglot trees to predicates
terms.py          sqlglot trees to expressions
coercion.py       the types of expressions, with the casts that Spark inserts
stats.py          predicates on the statistics and indexes of files and row groups
other_engines.py  conditions of Arrow and Polars as SQL
arrow.py          predicates on Arrow data
evaluate.py       expressions on Arrow data
casts.py          casts of expressions
zones.py          instants and wall clocks of time zones
"""
