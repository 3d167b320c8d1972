"""Streaming reads of a branch by micro-batch; committed batches of streaming writes.

offset.py     StreamOffset and its JSON in Spark's checkpoint
start.py      the first offset: scan modes, times, versions; progress in a consumer file, which keeps snapshots
history.py    snapshots after an offset, and whether the branch still has the history that was read
reader.py     plan what a micro-batch reads between two offsets, within its limits and columns
source.py     StreamSource: first, next and newest offset
batches.py    the sink log, and whether a batch of a streaming write is already committed
"""
