"""Merge: the LSM logic of primary-key tables on Arrow columns. Sorted batches in, merged batches out; no files.

    runs.py            files → sections and sorted runs (interval partition)
    ordering.py        columns → integer words in Java's order; stable sorting of rows by words
    key_value.py       rows gathered by key: Groups, and what a merge makes of them
    sorted_merge.py    sorted runs → windows of complete keys → merged batches, in bounded memory
    spill.py           batches put aside on local disk
    key_mask.py        which rows survive, decided from keys alone
    functions.py       merge engines: deduplicate, first-row, aggregation, and the choice of one
    partial_update.py  the engine of that name; sequence_groups.py, partial_update_exact.py belong to it
    aggregators.py     aggregate functions on columns; aggregators_exact.py value by value
    exact_values.py    columns as Python values, ordered and compared as Java does
    sketches.py        aggregate functions of sketches and bitmaps
    changelog.py       difference of two merged states
    lookup.py          compaction that makes level 0 visible: rows after, and their changelog
Source: Java `mergetree/**`.
"""
