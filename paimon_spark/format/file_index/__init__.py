"""Indexes of single data files: bloom filters, bitmaps and range bitmaps of their columns.

An index belongs to one data file and is stored in the manifest entry of the file, or beside it as `<data file>.index`.

Source: Paimon spec, chapter File Index.
"""
