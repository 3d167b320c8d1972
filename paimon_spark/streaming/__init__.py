"""Streams of a branch: what a micro-batch reads, and what became of those that a query wrote.

offset.py     StreamOffset ↔ what Spark keeps in its checkpoint
start.py      where a stream begins: scan modes, consumers; start_search.py finds the snapshots
refusals.py   options that do not go with the table
history.py    the snapshots after an offset; whether they still follow on it
parting.py    errors of snapshots that expired, or went with the history that a branch had
contents.py   what of a snapshot a stream reads
limits.py     how much one micro-batch may read
source.py     StreamSource: first, next and newest offset
reading.py    Reading: offsets → units → splits
consumer.py   progress that keeps snapshots from expiring
columns.py    schema changes under a running query
sink_log.py   which batch of a query is in which snapshot, written down beside the branch
batches.py    whether a batch is in the branch: by snapshots, tags and the log
"""
