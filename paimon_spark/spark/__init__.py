"""Spark data sources, DataFrames and jobs. Only spark, sql and cli import pyspark.

source.py          the data sources `paimon` and `paimon_py`; imports nothing heavy
schema.py          Paimon types ↔ Spark types; what `.schema(…)` may ask for
batch_read.py      DataSourceReader: plans beside the driver, packs splits into partitions
task_read.py       the reading tasks on executors
stream_read.py     DataSourceStreamReader; stream_limits.py: its read limits, from PySpark 4.2 on
batch_write.py     DataSourceArrowWriter: a WriteJob planned and committed beside the driver, written by executors
row_level_write.py the same for rows of append tables that are deleted or updated
stream_write.py    DataSourceStreamArrowWriter: one commit for each micro-batch
dataframe.py       Scan → DataFrame
dataframe_write.py Table.write of a DataFrame, distributed by bucket
row_level.py       DELETE and UPDATE; merge.py: MERGE
compaction.py      tasks of a compaction as a Spark job
worker_errors.py   errors in Spark's Python workers, shown as one line
session.py         sessions: found, configured, with the sources registered
jobs.py            the port by which the library reaches all this
"""
