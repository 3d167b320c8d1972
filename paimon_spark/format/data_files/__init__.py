"""Readers and writers of data files: rows as canonical Arrow arrays from and to Parquet, ORC and Avro.

registry.py             the reader of a file, by its name, and the writer of a new one; every failure names the file
requests.py             what readers and writers take and give
parquet_reader.py, parquet_writer.py, parquet_footer.py
orc.py, orc_footer.py
avro.py
compacted_changelog.py  parts of files that are named like files
"""
