"""Reads of one table, from options to Arrow batches, a dataset or a stream.

scan.py            Scan: one read, planned when first needed
table_scan.py      scans of opened tables and of paths, with more options; the statistics of a scan
system_scan.py     SystemScan: one read of a system table, such as `t$files`
dataset.py         ScanDataset: a read as a PyArrow Dataset
stream.py          the stream that a user's options ask for
schema_display.py  the columns of a table for notebooks
"""
