"""SQL on the tables of a catalog: what `catalog.sql` runs.

Flow: text → tokens → Statement (`grammar`) → result (`commands`). Statements on Paimon tables are run here, by the
methods of Catalog and Table. Everything else is a query, which Spark runs with DataFrames in place of the Paimon
tables (`queries`).

execute.py          parses a statement and runs it
grammar/            text → statements
commands/           run statements: CREATE, ALTER, INSERT, MERGE, SHOW, DESCRIBE …
queries/            SELECT, and all that Spark runs
procedures/         CALL sys.…
functions.py        functions in queries: paimon_incremental_query and others, sys.max_pt
spark_functions.py  the table functions for plain spark.sql
session.py          one call of catalog.sql: catalog, Spark session, settings, current database
call_context.py     catalog with or without a session, for procedures and functions
names.py            names → tables, databases and columns of the catalog, or Spark's
lineage_job.py      the lineage job of a statement
cursor.py           reads a statement token by token
tokens.py           tokens with positions, brackets, splitting at `;`
literals.py         literals → values
statement.py        base class of statements
messages.py         messages in terms of SQL
"""
