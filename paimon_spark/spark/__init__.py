"""Spark words to ours and back. With sql and cli the only packages that import pyspark.

Flow: options and path → Scan → plan → SplitsPartition → executors → Arrow batches in Spark's schema.

source.py       the data sources `paimon` and `paimon_py`; imports nothing heavy
register.py     adds them to a session that cannot find them
options.py      what Spark hands over → Scan
schema.py       Paimon types → Spark types; what `.schema(…)` may ask
batch_read.py   DataSourceReader: plans on the driver
system_read.py  the same for system tables
task_read.py    what executors run
packing.py      splits → partitions
batches.py      Arrow batches → exactly the schema Spark checks
dataframe.py    Scan → DataFrame
batch_write.py  DataSourceArrowWriter: a WriteJob planned and committed beside the driver, written by executors
dataframe_write.py  Table.write of a DataFrame
clustering.py   rows → the task that writes their bucket
compaction.py   tasks of a compaction as a job; committed by who planned them
session.py      settings under which this is fastest
"""
