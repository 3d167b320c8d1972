"""Pipelines: tables and the jobs between them, branched and published together.

scope.py        the tables and jobs that belong to a pipeline
branching.py    create and delete the branches of a pipeline, and choose the snapshots that they start from
replay.py       which jobs and recorded SQL statements to run again on a pipeline branch, and from where they read
preparation.py  whether tables keep enough history for corrections, and what makes them do so
publishing.py   make the branches main of all tables, and undo that
rebasing.py     publish on top of a main that has moved
records.py      records of branches and releases; completes interrupted changes

A branch of a pipeline is a branch of that name on each of its tables, and a record of them in the warehouse. A release
is what one publication made main of its tables. Changes of several tables are `maintenance.change.change_tables`.

Files are in `<warehouse>/paimon.db/_pipelines/`; see `records`.
"""
