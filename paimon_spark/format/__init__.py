"""Spec: the format's values and their bytes, one module per chapter of the Paimon spec. No I/O.

table_schema.py     schema files            snapshot.py         snapshot, changelog and tag files
manifest.py         manifests and lists     data_file.py        DataFileMeta
index_manifest.py   index manifests         deletion_vector.py  bitmaps of deleted rows
binary_row.py       BinaryRow by row        binary_row_columns  BinaryRow by column
simple_stats.py     SimpleStats             bucket_hash.py      key → bucket; hive_hash.py Hive's way
manifest_format.py  Avro schemas            manifest_writer.py  manifests and lists written
manifest_format.py  the same as ORC, Parquet
avro.py             Avro containers         decoder.py     Avro → Arrow; block_decoder.py many blocks at once
encoder.py      containers written      encoder.py        Arrow → Avro
arrow.py            types ↔ Arrow           arrow_nested.py     nested arrays taken apart and put together
float_text.py       floats as Java prints them
arrow_numpy.py      Arrow ↔ numpy buffers   arrow_values.py     Python values → Arrow; arrow_objects.py back
roaring.py          bitmaps in columns      roaring.py    the form both bitmaps share
"""
