"""Readers and writers of data files: rows as canonical Arrow arrays from and to Parquet, ORC and Avro.

registry.py                    the reader of a file, by its name, and the writer of a new one
requests.py                    what readers and writers take and give
parquet.py, orc.py, avro.py    one format each
parquet_footer.py              changes of Parquet footers
"""
