"""Queries that Spark runs, with DataFrames in place of their Paimon tables.

clauses.py     versions and options after names, unquoted `$`
scopes.py      scopes of SELECTs: relations, columns, common table expressions
parse.py       the query of a statement, as sqlglot's trees
errors.py      more helpful errors than Spark's
references.py  the tables that a query reads, with their positions
filters.py     conditions that a scan may use
scans.py       the read of each table: version, columns, condition
rewrite.py     DataFrames in place of tables, in the text of the query
run.py         running a query
"""
