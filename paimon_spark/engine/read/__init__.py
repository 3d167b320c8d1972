"""Read splits: a DataSplit and a ReadRequest in, Arrow batches out.

Runs on executors and in process, and reads no metadata file.

split_reader.py      entry: dispatch by split mode, exact filtering, output schema; several splits in parallel
raw.py               files as they are, and changes with their row kinds
merged.py            files of a bucket merged by key, and differences of two merged states
data_evolution.py    columns of a row id range from several files
file_reader.py       one data file as rows of the read schema, without its deleted rows
evolution.py         columns of the file schema → columns of the read schema
metadata_columns.py  file path, row index, partition, bucket, row id, sequence number

Spec chapters: Data File, Schema (evolution), Table Index (deletion vectors), Row Tracking, Data Evolution.
"""
