"""Readers and writers of data files: Parquet, ORC and Avro from and to Arrow arrays.

registry.py                    the reader of a file, by its name, and the writer of a new one
requests.py                    what readers and writers take and give
parquet.py, orc.py, avro.py    one format each
orc_footer.py                  facts of ORC footers, and how long texts of dictionaries are
parquet_footer.py              changes of Parquet footers
parquet_memory.py              bounds of the memory for decoding Parquet files
"""
