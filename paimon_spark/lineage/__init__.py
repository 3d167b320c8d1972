"""Which snapshot of which table came from which: told by the snapshots themselves, and indexed in the warehouse.

Record: a sink's snapshot carries its `Provenance` in its properties, so it is there if and only if the commit is. A
Recorder, a listener of commits, writes the rows of PIP-5's tables from it, a little later and for many batches at once.
Whatever it had not written when its process died is found again from the snapshots alive.

model.py       TableRef, SourceRange, Provenance
properties.py  Provenance ↔ properties of a snapshot
place.py       Home: the warehouse, database and name that a table has by its path; where lineage keeps its own files
tables.py      the lineage tables: columns, keys, options; provenance → rows; Index, the door to them
rows.py        rows on their way into them; sql.py: conditions on their rows
switch.py      whether lineage is on in a warehouse
spark_log.py   what each source had read at the end of a micro-batch, from Spark's checkpoint
notes.py       what tasks that read note of batch jobs, and of queries whose sink is none of ours; note.py: a note
left_notes.py  rows of notes that nobody turned into rows
jobs.py        whose a job's name is; barriers.py: the numbers of batch runs; forgotten.py: jobs that were forgotten
recorder.py    Recorder: rows of commits, written together; recorder_state.py: what its threads share
said.py        what snapshots say of whence they came, told apart from what they copied of others
catch_up.py    rows that a process died before it wrote; walked.py: how far was looked already
rebuild.py     the lineage tables as far as snapshots, tags and checkpoints tell them
graph.py       rows of one or more warehouses as a graph of snapshots
series.py      the batches of one job and the snapshots of one table that they read or made
asking.py      upstream, downstream; impact.py where a snapshot has gone, readers.py the batches that read it, ways.py
               shortest ways, answers.py the answers
unrecorded.py  snapshots that were written without recorded lineage, which answers name
told.py        what a batch read, by its snapshot or else by rows of another warehouse
unified.py     the newest snapshots of tables that stem from the same source snapshots; alignment.py searches them
results.py     answers as Arrow, pandas and Spark tables
drawing.py     the graph as a picture
picture.py     boxes and arrows as Mermaid, SVG, HTML; picture_layout.py and picture_layers.py place them,
               picture_svg.py draws them
open_lineage.py  the graph as OpenLineage events

Nothing here writes a Paimon table: `table/lineage_index.py` does, as everybody else does.

Source: PIP-5; docs/design/lineage.md for what it leaves open.
"""
