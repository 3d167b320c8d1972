"""Definition of a table: its schema created, validated and changed.

from_arrow.py      Arrow schema to columns, and the changes that `write.merge-schema` needs
ddl.py             Spark DDL text to columns
merge_rules.py     aggregate functions and sequence groups of a schema
option_rules.py    which options go together, and with which columns
validate.py        what Paimon requires of columns, keys and buckets
create.py          columns, keys and options to schema-0
schema_changes.py  changes of a schema, as values
column_changes.py  changes of columns applied to a schema
alter.py           changes applied and committed
three_way.py       the changes that a branch made, as changes of main's schema
"""
