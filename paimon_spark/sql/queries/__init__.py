"""Queries that Spark runs, with DataFrames in place of their Paimon tables."""
