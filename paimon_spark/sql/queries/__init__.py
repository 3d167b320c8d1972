"""Tables, versions and options in queries, and errors of queries.

clauses.py     versions and options after names, unquoted `$`
scopes.py      scopes of SELECTs: relations, columns, common table expressions
parse.py       the query of a statement, as sqlglot's trees
errors.py      more helpful errors than Spark's
references.py  the tables that a query reads, with their positions
"""
