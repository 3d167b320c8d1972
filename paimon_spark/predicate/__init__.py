"""Predicates: what rows a read wants, and what of a file can be skipped without reading it.

ast.py       the tree, three-valued as in SQL
literals.py  a column against a value of any type → a leaf whose literal is of the column's type
like.py      LIKE patterns
parse.py     SQL text → tree; the one door to sqlglot
show.py      tree → SQL text, for people
stats.py     tree over file statistics and partitions: may any row match?
arrow.py     tree over Arrow batches: which rows match, exactly as Spark would say
"""
