"""CHAR(n) key columns whose values are padded with spaces, as in the table's files.

Keys and partitions are equal when their bytes are. Java's core, Flink and pypaimon store text as it comes; Paimon's
Spark connector pads it to n characters. A write follows the table's files, so that a row written again replaces the
old one.
"""

from __future__ import annotations

from enum import Flag, auto

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.format.arrays.arrow_numpy import Bool, boolean_array, values
from paimon_spark.format.arrays.arrow_types import arrow_schema
from paimon_spark.format.binary_row import decode_column
from paimon_spark.format.bucket_hash import buckets as buckets_of
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.live_files import live_entries
from paimon_spark.metadata.manifests import data_manifests
from paimon_spark.text import logger
from paimon_spark.types import CharType, DataField

_LOG = logger(__name__)


class _Found(Flag):
    """The forms of values that were seen: padded to their length, or shorter than it."""

    NONE = 0
    PADDED = auto()
    SHORT = auto()

    @classmethod
    def of(cls, padded: Bool, short: Bool) -> _Found:
        return (cls.PADDED if padded.any() else cls.NONE) | (cls.SHORT if short.any() else cls.NONE)


def padded_keys(handle: TableHandle, base: Snapshot | None) -> frozenset[str]:
    """The columns of the primary key and of partitions whose values must be padded.

    Looks at the first and the last key of every file of `base`, and at the partitions. Where a column has both forms,
    values are written as they come, with a warning.
    """
    schema = handle.schema
    names = {*schema.primary_keys, *schema.partition_keys}
    columns = [f for f in schema.fields if f.name in names and isinstance(f.type, CharType) and not f.type.varying]
    if base is None or not columns:
        return frozenset()
    entries = live_entries(handle, data_manifests(handle, base)).combine_chunks()
    out = set()
    for field in columns:
        found = _of_column(handle, entries, field)
        if found == _Found.PADDED | _Found.SHORT:
            _LOG.warning(
                "column %s of %s is %s, and its values are padded with spaces in some keys and not in others; new ones "
                "are not padded: write each as the table has it, or it becomes another key",
                field.name,
                handle.describe(),
                field.type,
            )
        elif found is _Found.PADDED:
            out.add(field.name)
    return frozenset(out)


def _of_column(handle: TableHandle, entries: pa.Table, field: DataField) -> _Found:
    schema = handle.schema
    if field.name in schema.partition_keys:
        partitions = pc.unique(entries.column("partition"))
        return _of_values(decode_column(partitions, schema.partition_keys.index(field.name), field.type), field)
    place = schema.trimmed_primary_keys.index(field.name)
    orc = pc.ends_with(entries.column("file_name"), ".orc")
    # ORC readers drop trailing spaces: the keys of compacted files do not show whether there were any.
    fresh = values(pc.fill_null(pc.equal(entries.column("file_source"), 0), False).combine_chunks())
    exact = ~values(orc.combine_chunks()) | fresh
    shown = entries.filter(boolean_array(exact))
    found = _Found.NONE
    for end in ("min_key", "max_key"):
        found |= _of_values(decode_column(shown.column(end), place, field.type), field)
    return (
        found if _Found.PADDED in found else found | _of_buckets(handle, entries.filter(boolean_array(~exact)), field)
    )


def _of_values(texts: pa.Array, field: DataField) -> _Found:
    lengths = values(pc.fill_null(pc.utf8_length(texts), 0))
    filled = values(pc.fill_null(pc.ends_with(texts, " "), False)) & (lengths == _length(field))
    return _Found.of(filled, lengths < _length(field))


def _of_buckets(handle: TableHandle, entries: pa.Table, field: DataField) -> _Found:
    """The forms that the buckets of keys show, which depend on the hash of the whole text."""
    schema = handle.schema
    key = schema.bucket_keys
    if handle.options.bucket in (0, 1, -1) or field.name not in key or not set(key) <= set(schema.trimmed_primary_keys):
        return _Found.NONE
    found = _Found.NONE
    total, bucket = (values(entries.column(c).combine_chunks()) for c in ("total_buckets", "bucket"))
    for count in np.unique(total[total > 1]).tolist():
        here = (total == count) & (bucket >= 0)
        for end in ("min_key", "max_key"):
            found |= _of_hashes(handle, entries.filter(boolean_array(here)).column(end), bucket[here], count)
    return found


def _of_hashes(handle: TableHandle, rows: pa.ChunkedArray, bucket: Bool, count: int) -> _Found:
    schema = handle.schema
    key_type = schema.row_type.project(schema.bucket_keys)
    arrays = [decode_column(rows, schema.trimmed_primary_keys.index(f.name), f.type) for f in key_type]
    filled = [_padded(a, f) for a, f in zip(arrays, key_type, strict=True)]
    as_is, as_padded = (
        buckets_of(pa.RecordBatch.from_arrays(x, schema=arrow_schema(key_type)), count, handle.options.bucket_function)
        for x in (arrays, filled)
    )
    tells = as_is != as_padded
    return _Found.of(tells & (bucket == as_padded), tells & (bucket == as_is))


def _padded(array: pa.Array, field: DataField) -> pa.Array:
    if isinstance(field.type, CharType) and not field.type.varying:
        return pc.utf8_rpad(array, width=_length(field))
    return array


def _length(field: DataField) -> int:
    assert isinstance(field.type, CharType)
    return field.type.length
