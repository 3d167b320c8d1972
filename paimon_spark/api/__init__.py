"""Tables as a program sees them. Only forwards: what is done is done below.

loading.py   text → Table: where it lies, which branch
table.py     Table: a branch of a table, at a version; its verbs of version control and care in
             tag_verbs.py, branch_verbs.py, merge_verbs.py, expiry_verbs.py, compaction_verbs.py
head.py      what verbs are called on: a branch at its head
scan.py      Scan: one read, planned lazily; to Arrow, pandas, Spark
expired.py   a read whose snapshot expired under it
system_table.py  SystemTable and SystemScan: `t$files` and its kin
writing.py   Table.write: whatever holds rows → WriteJob, or Spark
batch_write.py   WriteJob: one write from plan to snapshot, here and in Spark
batch_recording.py  what its commit says of whence its rows came, where the job is named
recording.py     Recording: how one commit is recorded; stream_recording.py: that of a batch of a stream
task_write.py   TaskWrite: what its tasks run
write_target.py  the table written: opened, made, its schema grown
to_change.py  a branch opened to be changed, once what others left is finished
after_commit.py  what a table does for itself after each job: tags, savepoints, expiry
expiry.py   Table.expire_snapshots and its kin; moments.py: moments as callers name them
compact_written.py  the compaction that a write may need after it
compaction.py  Table.compact: here, or as a Spark job
chosen_partitions.py  the partitions that a verb of maintenance is asked for
replaced_partition.py  the partition that an overwrite names
catalog.py   Catalog: the databases and tables of a warehouse
"""
