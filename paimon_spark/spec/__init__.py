"""Spec: the format's values and their bytes, one module per chapter of the Paimon spec. No I/O.

    table_schema.py     schema files            snapshot.py         snapshot, changelog and tag files
    manifest.py         manifests and lists     data_file.py        DataFileMeta
    index_manifest.py   index manifests         deletion_vector.py  bitmaps of deleted rows
    binary_row.py       BinaryRow               simple_stats.py     SimpleStats
    bucket_hash.py      key → bucket            avro.py             Avro containers; avro_columns.py the fast decoder
    arrow.py            types ↔ Arrow           arrow_numpy.py      Arrow ↔ numpy buffers
"""
