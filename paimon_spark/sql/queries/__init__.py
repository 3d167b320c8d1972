"""Queries that Spark runs: Paimon tables in them are replaced by DataFrames, the rest of the text stays as written."""
