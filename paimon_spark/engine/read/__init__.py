"""Read: a DataSplit and a ReadRequest in, Arrow batches out. Executors run it; it touches no metadata file.

split_reader.py      the entry: dispatch by SplitMode, exact filtering, output schema
raw.py               files as they lie, and changes with their kinds
merged.py            files of a bucket merged by key, and differences of two such states
evolved.py           data evolution: columns of a row id range from several files
file_reader.py       one data file as rows of the schema being read
evolution.py         old columns → columns of that schema, by field id
deletions.py         deletion vectors          defaults.py          read-time defaults of old tables
precision.py         timestamps cut to microseconds before files are opened, for Spark
metadata_columns.py  file path, row index, partition, bucket, row id, sequence number
parallel.py          several splits at once in one process

Spec chapters: Data file, Schema (evolution), Table Index (deletion vectors), Row Tracking, Data Evolution.
"""
