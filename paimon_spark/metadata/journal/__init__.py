"""Lock and journal of changes to snapshots, tags and branches; on disk in `intent/`.

lock.py       LockFile, HeldLock: one operation at a time on a table, taken over from dead processes
change.py     TableChange: an operation as steps that can be repeated, written down before they run
execution.py  run a step
"""
