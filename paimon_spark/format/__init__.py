"""Paimon's file formats: bytes to values and Arrow arrays, and back.

metadata_files/  snapshots, schemas, manifests, index manifests, deletion vectors, statistics
data_files/      Parquet, ORC and Avro files: readers, writers
casts/           values of one type as another: writes, changed columns, decoded files
avro_codec/      Avro containers to Arrow columns and back
arrays/          Arrow types and arrays: numpy views, nested arrays, Python values
binary_row.py    BinaryRow, by row and by column
bucket_hash.py   the bucket of a key
compression.py   decompression with limits
"""
