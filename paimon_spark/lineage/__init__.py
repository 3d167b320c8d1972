"""Lineage: which snapshots were made from which, recorded with commits and indexed.

recording/  what jobs read and wrote becomes rows
asking/     rows of one or more warehouses become a graph, from which questions are answered
index/      the lineage tables, files and snapshot properties that both use

Record: jobs call `recording.listener` through `jobs/lineage_port.py`. A snapshot carries its `Provenance` in its
properties; a `Recorder` writes it to the lineage tables of PIP-5 in the background. Rows that a process died before it
wrote are found again in snapshots, checkpoints and notes of reads.
Ask: rows become a `Graph`; `reach` and `unified_version` answer from it.

Source: PIP-5; docs/design/lineage.md for what it leaves open.
"""
