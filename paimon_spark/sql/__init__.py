"""SQL over the tables of a catalog: what `catalog.sql` runs.

Flow: text → words (`text`) → statement (`parse`, by its first words) → what it does (`execute`, by its class). A
statement on Paimon's tables is done here, by the verbs of Catalog and Table. Everything else is a query: the Paimon
tables in it are put in as DataFrames, the rest of its text stays as it was written, and Spark runs it.

text.py        SQL as sqlglot's tokens, each with its place in the text; text cut out and put in by place
brackets.py    which brackets belong together, and what stands in none
cursor.py      reading a statement word by word
names.py       names of tables → of the catalog, of a branch, a system table; or Spark's
subject.py     the same for statements on what must exist
columns.py     names of columns, in any case → as the table has them
values.py      literals → values; what is no literal is left to Spark
place.py       where procedures and functions run: a catalog, with or without a session
statement.py   what a family of statements gives: readers of text, and runners
session.py     one call of catalog.sql: catalog, Spark session, current database, options of the session
scripts.py     several statements in one text → each, a script of BEGIN … END being one
parse.py       text → statement
execute.py     statement → DataFrame
wording.py     messages that speak of Python's arguments, in the words of SQL
queries/       SELECT and all that Spark runs: Paimon tables found, columns and conditions that they need, replaced
tables/        CREATE, REPLACE, ALTER, DROP of tables and databases
shows/         SHOW, DESCRIBE, USE, ANALYZE, REFRESH
refs/          tags and branches in ALTER TABLE, SHOW TAGS, SHOW BRANCHES
rows/          INSERT, DELETE, UPDATE, MERGE, TRUNCATE
procedures/    CALL sys.…: the procedures, their arguments and results
functions/     table functions: paimon_incremental_query and its kin, in catalog.sql and in plain spark.sql
"""
