"""Grammar of the statements that are run here: text → frozen values.

Expressions and queries in them stay text.

The forms are those of Spark's `SqlBaseParser.g4` and Paimon's extensions, which sqlglot does not fully know.
"""
