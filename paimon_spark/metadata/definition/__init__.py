"""What a table is: its schema made, checked and changed. Data files are not touched.

from_arrow.py       Arrow schema → columns of a table
ddl.py              Spark DDL text → columns of a table
field_ids.py        ids of new columns and of what is inside them
create.py           a new table: columns, keys, options → schema-0
validate.py         what Paimon demands of columns, keys and buckets
option_rules.py     which options go together, and with which columns
changes.py          what can be changed, as values
alter.py            changes applied to a schema: pure, then committed
edit.py             changes of single columns
renaming.py         options that follow a renamed column
option_changes.py   which options may still change once there are rows
casts.py            which column types may become which
widen.py            the changes that `write.merge-schema` needs
"""
