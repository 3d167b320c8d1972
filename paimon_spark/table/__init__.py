"""Tables as a program sees them. Only forwards: what is done is done below.

loading.py   text → Table: where it lies, which branch
table.py     Table: a branch of a table, at a version
scan.py      Scan: one read, planned lazily; to Arrow, pandas, Spark
catalog.py   Catalog: the databases and tables of a warehouse
"""
