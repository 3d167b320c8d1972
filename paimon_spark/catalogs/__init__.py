"""Catalogs: which databases and tables there are, by directories or by a metastore.

open.py         the catalog that options name
file_system.py  FileSystemCatalog: names are those of directories
dropping.py     files of tables and folders of databases deleted; files of others stay
registered.py   RegisteredCatalog: names are in a metastore, tables in directories; commits under its lock
registry.py     Registry: what a metastore must do
jdbc.py         JdbcRegistry: SQLite and PostgreSQL
hive.py         HiveRegistry: a Hive metastore
"""
