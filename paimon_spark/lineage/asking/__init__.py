"""Asking: rows of one or more warehouses become a graph, which answers questions.

graph.py              Graph: jobs between tables, and what their batches read and made
batch_sequence.py     batches of a job, with the snapshots that they read or made
reach.py              upstream, downstream and impact
readers.py            batches that read a snapshot, at every level
unified_version.py    the newest snapshots of tables that stem from the same snapshots
alignment.py          the search for them
writers.py            jobs that count as writers of a table, and their batches
snapshot_facts.py     facts about snapshots that rows do not hold, such as which branches share one
following.py          the next batch of another job, for a query that follows it
table_history.py      snapshots, tags and branches of the tables of a graph
unrecorded_writes.py  snapshots without provenance
results.py            values of answers, and how they are shown
recorded_jobs.py      the list of jobs
picture.py            Mermaid flowcharts
open_lineage.py       events for OpenLineage
"""
