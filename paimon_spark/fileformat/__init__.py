"""File formats: a data file in, runs of rows as canonical Arrow arrays out. Spec chapter: Data file.

registry.py          the reader of a file, by its name; every failure names the file
rows.py              what readers take (FileRead) and give (Rows)
parquet.py           row groups skipped by statistics (bounds.py), the others streamed
orc.py               stripe by stripe; orc_timestamps.py for years that 64-bit nanoseconds lack
avro.py              groups of blocks, columns at a time
compacted_changelog.py  parts of files, called like files
conform.py           what Arrow's libraries decode → canonical types
"""
