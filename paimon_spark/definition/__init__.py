"""What a table is: its schema made, checked and changed. Data files are not touched.

from_arrow.py  Arrow schema → columns of a table
ddl.py         Spark DDL text → columns of a table
create.py      a new table: columns, keys, options → schema-0
validate.py    what Paimon demands of a schema and its options
alter.py       changes of a schema: pure, then committed
casts.py       which column types may become which
widen.py       the schema after `write.merge-schema`
"""
