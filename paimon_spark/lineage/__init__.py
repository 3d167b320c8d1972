"""Lineage: which snapshots were made from which, recorded with commits and indexed.

Record: jobs call `listener` through `jobs/lineage_port.py`. A snapshot carries its `Provenance` in its properties; a
`Recorder` writes it to the lineage tables of PIP-5 in the background. Rows that a process died before it wrote are
found again in snapshots, checkpoints and notes of reads.
Ask: rows of one or more warehouses become a `Graph`, from which questions are answered.

Source: PIP-5; docs/design/lineage.md for what it leaves open.
"""
