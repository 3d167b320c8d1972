"""Grammar of the statements that are run here: text → frozen values. What follows as expressions or queries is text.

The forms are those of Spark's `SqlBaseParser.g4` and Paimon's extensions, which sqlglot does not fully know.
"""
