"""Merge sorted runs of primary-key tables: sorted Arrow batches in, merged batches out.

runs.py                  sections and sorted runs of files (interval partition)
ordering.py              columns → integer words in Java's order; stable sorting of rows
key_value.py             rows grouped by key
sorted_merge.py          sorted runs → windows of complete keys → merged batches, in a budget of memory; key masks
spill.py                 batches spilled to local disk
functions.py             deduplicate, first-row and partial-update, and the choice of an engine by the table's options
aggregators.py           the aggregation engine, and aggregate functions on whole columns
aggregators_exact.py     aggregate functions value by value
aggregators_collections.py  those of lists, maps and nested tables
exact_values.py          columns as Python values, compared as in Java; sketches and bitmaps
changelog.py             differences of two merged states; changelogs of compactions

No files are read or written here.

Source: Java `mergetree/**`.
"""
