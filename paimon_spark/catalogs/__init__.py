"""Catalogs: the names of databases and tables, in directories or in a metastore, and where the tables are.

open.py         the catalog that options name
file_system.py  FileSystemCatalog: names are those of directories
registered.py   RegisteredCatalog: names are in a metastore, tables in directories
registry.py     Registry and CatalogLock: what a metastore must do
table_store.py  the store of a table that a metastore lists: commits under its lock
jdbc.py         JdbcRegistry: SQLite and PostgreSQL
"""
