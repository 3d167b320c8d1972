"""Pipelines: tables and the jobs between them, branched and published together.

Scope: which tables and jobs belong to a pipeline. Start: from which snapshot the branch of each table starts. A branch
of a pipeline is a branch of that name on each of its tables, and a record of them in the warehouse. A release is what
one publication made main of its tables. Changes of several tables are `maintenance.change.change_tables`.

Files are in `<warehouse>/paimon.db/_pipelines/`; see `records`.
"""
