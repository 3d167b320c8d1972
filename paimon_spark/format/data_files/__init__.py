"""File formats: a data file in, runs of rows as canonical Arrow arrays out, and back. Spec chapter: Data file.

registry.py          the reader of a file, by its name, and the writer of a new one; every failure names the file
rows.py              what readers take (FileRead) and give (Rows)
parquet.py           row groups skipped by statistics (bounds.py), the others streamed
orc.py               stripe by stripe; orc_timestamps.py for years that 64-bit nanoseconds lack
avro.py              groups of blocks, columns at a time
compacted_changelog.py  parts of files, called like files
conform.py           what Arrow's libraries decode → canonical types
writing.py           what writers take (FileWrite, batches) and give (WrittenFile)
write_parquet.py, write_orc.py, write_avro.py  the writers; avro_schema.py, field_ids.py, leaves.py what types become
row_groups.py        batches of any size → row groups of the right one
stats.py             what manifests keep of columns, collected while rows go by
"""
