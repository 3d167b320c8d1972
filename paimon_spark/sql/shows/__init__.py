"""SHOW, DESCRIBE, USE, ANALYZE, REFRESH.

grammar.py       text → statements.py
describe.py      DESCRIBE of tables, columns, partitions and databases
definition.py    SHOW CREATE TABLE, COLUMNS, PARTITIONS, TBLPROPERTIES
listing.py       SHOW TABLES, TABLE EXTENDED, DATABASES
current.py       USE, SET CATALOG, SHOW CURRENT NAMESPACE, REFRESH TABLE
analyze.py       ANALYZE TABLE: counted by Spark, kept by a snapshot
facts.py         properties, columns and partitions of a table, as they are shown
types.py         types of columns as text
"""
