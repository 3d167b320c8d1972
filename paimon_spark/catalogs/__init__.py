"""Catalogs: which databases and tables there are, by directories or by a metastore.

open.py         the catalog that options name
file_system.py  FileSystemCatalog: names are those of directories
registered.py   RegisteredCatalog: names are in a metastore, tables in directories
registry.py     Registry and CatalogLock: what a metastore must do
table_store.py  the store of a table that a metastore lists: commits under its lock
jdbc.py         JdbcRegistry: SQLite and PostgreSQL
hive.py         HiveRegistry: a Hive metastore
hive_types.py   types of columns as Hive names them
"""
