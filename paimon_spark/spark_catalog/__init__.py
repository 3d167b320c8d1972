"""Attached catalogs: Python objects with the Java interfaces that Spark plans with.

Read: SQL or DataFrame → Spark's analyzer → CatalogProxy → TableProxy → ScanBuilderProxy (columns, conditions) →
TableScanProxy → partitions for Spark's own readers, or for those of the data source (spark).
Write: DataFrame → WriteBuilderProxy → Table.write. Statements that Spark does not plan → ParserProxy → command → `sql`.

session/        sessions and their catalogs, Spark's parser, statements of catalog.sql
connect/        sessions of Spark Connect, whose clients have no JVM
catalog.py      databases, tables and procedures by name
views.py        permanent views, which Spark 4.3 and later looks up
definitions.py  CREATE and ALTER TABLE in Spark's objects → definitions and changes
procedures.py   CALL sys.…
functions.py    sys.max_pt, paimon_incremental_query and other functions
table.py        a table, branch or system table: columns, capabilities, reads, writes
writes/         writes of DataFrames and streams, CREATE and REPLACE TABLE AS SELECT
reads/          scans: columns, conditions, partitions, readers
jvm/            classes and objects of the JVM, and Python objects that it calls
"""
