"""Tables as a program sees them. Only forwards: what is done is done below.

loading.py   text → Table: where it lies, which branch
table.py     Table: a branch of a table, at a version
scan.py      Scan: one read, planned lazily; to Arrow, pandas, Spark
writing.py   Table.write: whatever holds rows → WriteJob, or Spark
batch_write.py   WriteJob: one write from plan to snapshot, here and in Spark
task_write.py   TaskWrite: what its tasks run
write_target.py  the table written: opened, made, its schema grown
level0.py    the compaction that some tables need after a write
replaced_partition.py  the partition that an overwrite names
catalog.py   Catalog: the databases and tables of a warehouse
"""
