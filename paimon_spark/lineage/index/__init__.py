"""Index: the lineage tables of a warehouse, files beside them, properties of snapshots.

provenance.py    job, batch, sources and SQL statement of a commit, in the properties of its snapshot
warehouse.py     Warehouse: locations of tables and of the files of lineage
tables.py        the lineage tables: columns, rows, conditions, settings
table_index.py   TableIndex: reads and writes them
job_registry.py  names, queries and run numbers of jobs
"""
