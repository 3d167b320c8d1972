"""Metadata files of a table, encoded and decoded without I/O; a module per kind of file."""
