"""The classes that users hold: Catalog, Table and Lineage. They only forward.

catalog.py            Catalog: databases, tables, SQL, lineage
table.py              Table: reading, writing, changing the definition; load_table
table_tags.py         its tags
table_refs.py         its savepoints, branches and rolling back
table_maintenance.py  its compaction, expiry, clean-up and inspection
notebook.py           HTML of tables and catalogs
lineage_verbs.py      Lineage: questions about which snapshot came from which
pipeline.py           Pipeline: the tables and jobs downstream of tables
pipeline_branch.py    PipelineBranch: a branch of each table of a pipeline
release.py            Release: what was published together
"""
