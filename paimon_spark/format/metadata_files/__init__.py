"""Metadata files of a table: one module per kind of file, values to bytes and back, without I/O."""
