"""SQL on the tables of a catalog: what `catalog.sql` runs.

Flow: text → substitutions → tokens → Statement (`grammar`) → result (`commands`). Statements on Paimon tables are run
here, by the methods of Catalog and Table. Everything else is a query (`run`): classic sessions plan it themselves, and
Spark Connect gets DataFrames in place of the Paimon tables (`connect`).

execute.py        parses a statement and runs it
grammar/          text → statements
commands/         run statements: CREATE, ALTER, INSERT, MERGE, SHOW, DESCRIBE …
run.py            runs queries, and all that Spark runs
queries/          what queries name, and their errors
connect/          queries in Spark Connect
procedures.py     CALL sys.…, with the operations of `paimon_spark.operations`
functions.py      functions in queries, and those for plain spark.sql
substitutions.py  Flink's hints, `t#savepoints`, IDENTIFIER(…), current_database() → what they stand for
session.py        one call of catalog.sql: catalog, Spark session, settings, current database
names.py          names → tables, databases and columns of the catalog, or Spark's
lineage_job.py    the lineage job of a statement
cursor.py         reads a statement token by token
tokens.py         tokens with positions, brackets, splitting at `;`
literals.py       literals → values
statement.py      base class of statements
requests.py       what statements and writes of DataFrames ask for, as plain values
messages.py       messages in terms of SQL
"""
