"""Reads that Spark plans.

dataframes.py       scans as DataFrames that Spark plans in the same way
scan_builder.py     one read: columns, conditions, LIMIT and count(*) of a query
scan.py             a planned read: partitions, readers
statistics.py       estimates of a read for the optimizer
file_scan.py        partitions and readers of files that Spark's own readers can read
python_scan.py      partitions and readers of the data source, planned in the driver
readable_files.py   which files Spark's own readers can read as they lie
footers.py          what Parquet footers say about that
hadoop.py           stores → Hadoop's URLs and configuration
results.py          rows of the driver as scans
predicates.py       conditions of Spark → predicates
row_conditions.py   predicates → conditions of Spark
"""
