"""Catalogs: which databases and tables there are, by directories or by a metastore.

open.py         the catalog that options name
file_system.py  FileSystemCatalog: names are those of directories
dropping.py     files of tables and folders of databases deleted, external files too; files of others stay
registered.py   RegisteredCatalog: names are in a metastore, tables in directories; commits under its lock; Registry
jdbc.py         JdbcRegistry: SQLite and PostgreSQL
hive.py         HiveRegistry: a Hive metastore
"""
