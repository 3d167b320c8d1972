"""Queries in Spark Connect: DataFrames in place of Paimon tables.

The server does not know the catalog. Classic sessions do without this package: there Spark plans queries
(`spark_catalog`).

frames.py   running a query
scans.py    the read of each table: version, columns, condition
filters.py  conditions that a scan may use
rewrite.py  DataFrames in place of tables, in the text of the query
"""
