"""Predicates: what rows a read wants, and what of a file can be skipped without reading it.

ast.py     the tree, three-valued as in SQL
parse.py   SQL text → tree, literals cast to the columns' types
stats.py   tree over file statistics and partitions: may any row match?
arrow.py   tree over Arrow batches: which rows match, exactly as Spark would say
"""
