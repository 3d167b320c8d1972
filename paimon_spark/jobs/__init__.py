"""Jobs of one table: reads, writes, changes, comparisons and upkeep.

opened_table.py     OpenedTable: from a path and options to a branch, at its head or at a version
branch_access.py    open a branch to change it, at its head, or as it is defined now
lineage_port.py     port to lineage: notes of reads, provenance for commits, reports of commits
partition_specs.py  partitions that users name: by column values, by text or by a condition
read/               scans of tables and system tables; the stream that options ask for
write/              batch and streaming writes: the table, the tasks, the commit
row_level/          DELETE, UPDATE and MERGE as one commit; partitions deleted whole
row_diff/           the rows that differ between two versions
rebase/             the changes of a branch put on top of main, as one commit
definition/         ALTER TABLE and REPLACE TABLE
upkeep/             compaction, and the maintenance that is due after a commit
"""
