"""Plan, read, merge, write, commit, compact and change the rows of a table.

tasks.py     values that cross process boundaries: splits, read requests, commit messages
scan/        plan reads: a snapshot → splits
read/        read splits: a split → Arrow batches
merge/       merge sorted runs of primary-key tables
write/       write data files: rows → commit messages
commit/      commit messages → a snapshot
compaction/  rewrite files into fewer ones
row_level/   DELETE, UPDATE and MERGE
"""
