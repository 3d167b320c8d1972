"""Recording: what jobs read and wrote becomes rows of the lineage tables.

listener.py             the functions that jobs call, as `jobs/lineage_port.py` declares them
batch_recording.py      reads and commits of batch jobs and statements
stream_recording.py     commits of streaming queries
read_recording.py       reads whose sink records no sources
read_notes.py           notes of tasks about what they read
checkpoints.py          offsets of sources in the checkpoints of streaming queries
commit_recording.py     one commit, prepared before it
recorder.py             Recorder: writes rows in the background; the recorders of a process, one for each warehouse
row_queue.py            rows that wait to be written, and those written last
catch_up.py             rows that a process died before it wrote, and how far each branch was searched for them
snapshot_provenance.py  provenance in snapshots of a branch, without copies
maintenance.py          sync, forget a job, rebuild the lineage tables

Imports nothing of `asking`.
"""
