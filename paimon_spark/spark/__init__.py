"""Spark data sources, DataFrames and jobs.

Only spark, sql, spark_catalog and cli import pyspark.

source.py           the data sources `paimon` and `paimon_py`; imports nothing heavy
schema.py           Paimon types ↔ Spark types; what `.schema(…)` may ask for
batch_read.py       DataSourceReader: plans beside the driver, packs splits into partitions
task_read.py        the reading tasks on executors
stream_read.py      DataSourceStreamReader
stream_limits.py    the same with Spark's read limits, from PySpark 4.2 on
batch_write.py      DataSourceArrowWriter: a WriteJob planned and committed beside the driver, written by executors
row_level_write.py  the same for rows of append tables that are deleted or updated
stream_write.py     DataSourceStreamArrowWriter: one commit for each micro-batch
dataframe.py        Scan → DataFrame
dataframe_write.py  Table.write of a DataFrame, distributed by bucket
row_change.py       a change of rows: the rows read, those that change, and their commit
row_level.py        DELETE and UPDATE
merge.py            MERGE
merge_clauses.py    the clauses of MERGE
row_diff.py         the rows of two versions, compared
sort_compaction.py  rows sorted and written anew
tasks.py            work on many items, and the removal of files after a failed job
checks.py           SQL or functions that check the rows of versions
query_watch.py      reports of streaming queries that begin and end
worker_errors.py    errors in Spark's Python workers, shown as one line
session.py          sessions: found, configured, with the sources registered
jobs.py             the port by which the library reaches all this
"""
