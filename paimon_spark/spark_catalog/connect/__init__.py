"""Attached catalogs in sessions of Spark Connect, whose clients have no JVM.

The server does not know the catalogs. Methods of PySpark's classes that take the name of a table, or a statement, are
wrapped once per process: in a session with attached catalogs they see to names of these catalogs, and hand on all
other calls. Sessions that PySpark makes by `cloneSession` or `newSession` have the catalogs too. Code that runs on the
server, such as a function of `foreachBatch`, has a session of its own: it calls `attach` itself.

hooks.py          the wrapped methods, and what each of them calls
statements.py     spark.sql
catalog_calls.py  spark.catalog
writes.py         writeTo, saveAsTable, insertInto, toTable, mergeInto
expressions.py    columns of DataFrames → names and conditions of partitions
reads.py          spark.table, read.table, readStream.table
attached.py       the catalogs of each session
"""
