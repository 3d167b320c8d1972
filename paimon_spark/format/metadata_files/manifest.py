"""Reading of manifests into Arrow columns and of manifest lists into `ManifestFileMeta`.

Entries stay columns until files are chosen: a table may have a million of them.

Source: Paimon spec, chapter Manifest; Java `manifest/ManifestEntry`, `manifest/ManifestFileMeta`,
`io/DataFileMeta` and their serializers.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import IntEnum
from functools import partial
from itertools import islice, repeat
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.errors import CorruptFileError, FormatError, UnknownFormatVersionError
from paimon_spark.format.arrays import arrow_numpy
from paimon_spark.format.arrays.arrow_numpy import objects
from paimon_spark.format.arrays.arrow_types import no_rows
from paimon_spark.format.avro_codec import decoder
from paimon_spark.format.avro_codec.container import Container, open_container
from paimon_spark.format.binary_row import EMPTY
from paimon_spark.format.metadata_files import manifest_format
from paimon_spark.format.metadata_files.data_file import DataFileMeta, SimpleStats

VERSION: Final = 2
"""`_VERSION` of manifests and manifest lists. Version 1 was before Paimon; Java refuses it too."""


MAX_BYTES: Final = 2 << 30
"""What the entries of manifests decoded together may occupy: far more than writers make of them."""


class FileKind(IntEnum):
    """Whether an entry adds or deletes its file."""

    ADD = 0
    DELETE = 1


class ManifestFileMeta(NamedTuple):
    """A row of a manifest list. Counts and ranges cover all entries, DELETE entries included.

    Attributes:
        partition_stats: over the partition columns.
        schema_id: greatest schema id among the entries; -2**63 when there are none.
        min_bucket, max_bucket, min_level, max_level: None when the writer was older than 1.1.
        min_row_id, max_row_id: inclusive; None unless every entry has a first row id.
    """

    file_name: str
    file_size: int
    num_added_files: int
    num_deleted_files: int
    partition_stats: SimpleStats
    schema_id: int
    min_bucket: int | None = None
    max_bucket: int | None = None
    min_level: int | None = None
    max_level: int | None = None
    min_row_id: int | None = None
    max_row_id: int | None = None


class _Column(NamedTuple):
    path: tuple[str, ...]
    type: pa.DataType
    required: bool = True


_STRINGS: Final = pa.list_(pa.string())
_LONGS: Final = pa.list_(pa.int64())
_COLUMNS: Final[dict[str, _Column]] = {
    "kind": _Column(("_KIND",), pa.int8()),
    "partition": _Column(("_PARTITION",), pa.binary()),
    "bucket": _Column(("_BUCKET",), pa.int32()),
    "total_buckets": _Column(("_TOTAL_BUCKETS",), pa.int32()),
    "file_name": _Column(("_FILE", "_FILE_NAME"), pa.string()),
    "file_size": _Column(("_FILE", "_FILE_SIZE"), pa.int64()),
    "row_count": _Column(("_FILE", "_ROW_COUNT"), pa.int64()),
    "min_key": _Column(("_FILE", "_MIN_KEY"), pa.binary()),
    "max_key": _Column(("_FILE", "_MAX_KEY"), pa.binary()),
    "key_min": _Column(("_FILE", "_KEY_STATS", "_MIN_VALUES"), pa.binary()),
    "key_max": _Column(("_FILE", "_KEY_STATS", "_MAX_VALUES"), pa.binary()),
    "key_nulls": _Column(("_FILE", "_KEY_STATS", "_NULL_COUNTS"), _LONGS, False),
    "value_min": _Column(("_FILE", "_VALUE_STATS", "_MIN_VALUES"), pa.binary()),
    "value_max": _Column(("_FILE", "_VALUE_STATS", "_MAX_VALUES"), pa.binary()),
    "value_nulls": _Column(("_FILE", "_VALUE_STATS", "_NULL_COUNTS"), _LONGS, False),
    "min_sequence_number": _Column(("_FILE", "_MIN_SEQUENCE_NUMBER"), pa.int64()),
    "max_sequence_number": _Column(("_FILE", "_MAX_SEQUENCE_NUMBER"), pa.int64()),
    "schema_id": _Column(("_FILE", "_SCHEMA_ID"), pa.int64()),
    "level": _Column(("_FILE", "_LEVEL"), pa.int32()),
    "extra_files": _Column(("_FILE", "_EXTRA_FILES"), _STRINGS, False),
    "creation_time_ms": _Column(("_FILE", "_CREATION_TIME"), pa.int64(), False),
    "delete_row_count": _Column(("_FILE", "_DELETE_ROW_COUNT"), pa.int64(), False),
    "embedded_index": _Column(("_FILE", "_EMBEDDED_FILE_INDEX"), pa.binary(), False),
    "file_source": _Column(("_FILE", "_FILE_SOURCE"), pa.int32(), False),
    "value_stats_cols": _Column(("_FILE", "_VALUE_STATS_COLS"), _STRINGS, False),
    "external_path": _Column(("_FILE", "_EXTERNAL_PATH"), pa.string(), False),
    "first_row_id": _Column(("_FILE", "_FIRST_ROW_ID"), pa.int64(), False),
    "write_cols": _Column(("_FILE", "_WRITE_COLS"), _STRINGS, False),
    "write_cols_sequences": _Column(("_FILE", "_WRITE_COLS_SEQUENCES"), _LONGS, False),
}

COLUMN_PATHS: Final = {name: c.path for name, c in _COLUMNS.items()}
"""Where each column of `ENTRY_SCHEMA` lies in the records on disk."""

ENTRY_SCHEMA: Final = pa.schema([pa.field(name, c.type) for name, c in _COLUMNS.items()])
"""Columns of manifest entries, flat: `kind` is a `FileKind`, the others as in `DataFileMeta`.

Fields that the writer did not know are null. Row bytes have the arity prefix.
"""

STATISTICS: Final = ("key_min", "key_max", "key_nulls", "value_min", "value_max", "value_nulls", "value_stats_cols")
"""The columns by which files are skipped; most of the memory of entries."""

BARE_SCHEMA: Final = pa.schema([field for field in ENTRY_SCHEMA if field.name not in STATISTICS])
"""`ENTRY_SCHEMA` without `STATISTICS`."""

_STATISTICS_PATHS: Final = frozenset(COLUMN_PATHS[name][:2] for name in STATISTICS)


def decode_manifests(files: Sequence[tuple[str, bytes]], *, statistics: bool = True) -> tuple[pa.Table, list[int]]:
    """Entries of manifests given as (path, bytes), in that order, and how many each manifest has.

    Without `statistics` the columns `STATISTICS` are left out, which takes less time and memory.

    A manifest is read in the format it has: a table may have manifests from before `manifest.format` was altered.

    Raises:
        CorruptFileError: names the manifest that cannot be decoded or names files outside its table.
        UnknownFormatVersionError: an entry is not of version 2.
        UnsupportedFeatureError: an unknown Avro codec.
    """
    containers = {
        i: open_container(data, path) for i, (path, data) in enumerate(files) if manifest_format.format_of(data) is None
    }
    by_schema: dict[bytes, list[int]] = {}
    for i, c in containers.items():
        by_schema.setdefault(c.schema_text, []).append(i)
    schema = ENTRY_SCHEMA if statistics else BARE_SCHEMA
    groups = list(by_schema.values())
    tables = [_entries([containers[i] for i in group], schema) for group in groups]
    counts = [containers[i].count if i in containers else 0 for i in range(len(files))]
    for i, (path, data) in enumerate(files):
        if i not in containers:
            groups.append([i])
            try:
                records = manifest_format.decode(data, path)
                tables.append(pa.Table.from_batches([_flat(r, schema) for r in records], schema))
            except _BadEntryError as e:
                raise e.error(path) from e
            counts[i] = len(tables[-1])
    if not tables:
        return no_rows(schema), counts
    entries = pa.concat_tables(tables)
    if [i for group in groups for i in group] == list(range(len(files))):
        return entries, counts
    order = _interleaved(groups, np.array(counts, np.int64))
    return entries.take(arrow_numpy.take_indices(order)), counts


def _interleaved(groups: list[list[int]], counts: Any) -> Any:
    """For every entry in file order, where it lies when the groups' entries follow each other."""
    file_order = np.concatenate([np.array(g, np.int64) for g in groups])
    grouped = counts[file_order]
    start = np.empty(len(counts), np.int64)
    start[file_order] = np.cumsum(grouped) - grouped
    return arrow_numpy.ranges(start, counts)


def _entries(containers: Sequence[Container], schema: pa.Schema) -> pa.Table:
    batches: list[pa.RecordBatch] = []
    size = 0
    try:
        without = () if schema is ENTRY_SCHEMA else _STATISTICS_PATHS
        for records in decoder.iter_arrays(containers, without=without):
            batches.append(_flat(records, schema))
            size += batches[-1].nbytes
            if size > MAX_BYTES:
                raise _BadEntryError(f"with those read beside it, it unpacks to more than {MAX_BYTES} bytes")
        return pa.Table.from_batches(batches, schema)
    except _BadEntryError as e:
        if len(containers) > 1:
            # Find the manifest: one by one, the first bad one raises with its name.
            for c in containers:
                _entries([c], schema)
        raise e.error(containers[0].path) from e


class _BadEntryError(Exception):
    """An entry that cannot be; `error` makes it one of ours once the manifest is known."""

    def __init__(self, what: str, kind: Callable[..., FormatError] = CorruptFileError) -> None:
        super().__init__(what)
        self.kind = kind

    def error(self, path: str) -> FormatError:
        return self.kind(f"{path} is not a readable manifest: {self}", path=path)


def _flat(records: pa.StructArray, schema: pa.Schema) -> pa.RecordBatch:
    _check_version(_at(records, ("_VERSION",)), len(records))
    columns = [_column(records, name, _COLUMNS[name]) for name in schema.names]
    batch = pa.RecordBatch.from_arrays(columns, schema=schema)
    _check(batch)
    return batch


def _at(records: pa.StructArray, path: tuple[str, ...]) -> pa.Array | None:
    """The nested field; None when the writer had no such field."""
    array: pa.Array = records
    for name in path:
        if array.null_count:
            raise _BadEntryError(f"the record around {name} is null")
        index = array.type.get_field_index(name) if pa.types.is_struct(array.type) else -1
        if index < 0:
            return None
        array = array.field(index)
    return array


def _column(records: pa.StructArray, name: str, column: _Column) -> pa.Array:
    array = _at(records, column.path)
    if array is None or array.null_count == len(array):
        if column.required and len(records):
            raise _BadEntryError(f"field {'.'.join(column.path)} is missing")
        return pa.nulls(len(records), column.type)
    if column.required and array.null_count:
        raise _BadEntryError(f"field {'.'.join(column.path)} is null")
    if array.type == column.type:
        return array
    try:
        return array.cast(column.type)
    except pa.ArrowException as e:
        raise _BadEntryError(f"field {'.'.join(column.path)}: {e}") from e


def _check_version(version: pa.Array | None, rows: int) -> None:
    if rows == 0:
        return
    if version is None:
        raise _BadEntryError("field _VERSION is missing")
    found = pc.unique(version).to_pylist()
    if found != [VERSION]:
        raise _BadEntryError(
            f"its entries have version {found}, and this package knows version {VERSION}; "
            "newer ones need a newer paimon-spark, a table of version 1 must be created again",
            UnknownFormatVersionError,
        )


def _check(batch: pa.RecordBatch) -> None:
    kinds = arrow_numpy.values(batch.column("kind"))
    if not ((kinds == FileKind.ADD) | (kinds == FileKind.DELETE)).all():
        raise _BadEntryError(f"an entry is of kind {sorted(set(kinds.tolist()))}; known are 0 and 1")
    for name in ("file_size", "row_count", "level"):
        if (arrow_numpy.values(batch.column(name)) < 0).any():
            raise _BadEntryError(f"a file has a negative {name}")
    for names in (batch.column("file_name"), batch.column("extra_files").flatten()):
        bad = first_unsafe_name(names)
        if bad is not None:
            raise _BadEntryError(f"it names the file {bad!r}, which is not a plain file name")


def first_unsafe_name(names: pa.StringArray) -> str | None:
    """The first of `names` that is not one plain path segment; None when all are."""
    offsets, data = arrow_numpy.byte_slices(names)
    if len(names) == 0:
        return None
    used = data[offsets[0] : offsets[-1]].tobytes()
    valid = arrow_numpy.validity(names)
    short = (offsets[1:] - offsets[:-1])[valid] <= 2
    if not short.any() and not any(c in used for c in (b"/", b"\\", b"\0")):
        return None
    return next((n for n in names.to_pylist() if n is not None and not manifest_format.is_plain_name(n)), None)


def decode_manifest_list(data: bytes, path: str) -> list[ManifestFileMeta]:
    """The manifests a list names, in order.

    Raises:
        CorruptFileError: not a manifest list, or it names files outside its table.
        UnknownFormatVersionError: a row is not of version 2.
    """
    try:
        return [_manifest_file_meta(r, path) for r in manifest_format.rows(data, path)]
    except (KeyError, TypeError, AttributeError) as e:
        raise CorruptFileError(f"{path} is not a readable manifest list: {type(e).__name__}: {e}", path=path) from e


def _manifest_file_meta(row: dict[str, Any], path: str) -> ManifestFileMeta:
    if row["_VERSION"] != VERSION:
        raise UnknownFormatVersionError(
            f"{path} has a row of version {row['_VERSION']}, and this package knows version {VERSION}; "
            "newer ones need a newer paimon-spark, a table of version 1 must be created again",
            path=path,
        )
    name = row["_FILE_NAME"]
    if not isinstance(name, str) or not manifest_format.is_plain_name(name):
        raise CorruptFileError(f"{path} names a manifest {name!r}, which is not a plain file name", path=path)
    stats = row["_PARTITION_STATS"]
    nulls = stats.get("_NULL_COUNTS")
    partition_stats = SimpleStats(stats["_MIN_VALUES"], stats["_MAX_VALUES"], None if nulls is None else tuple(nulls))
    return manifest_format.value_of(ManifestFileMeta, {**row, "_PARTITION_STATS": partition_stats})


def files_of(entries: pa.Table) -> list[DataFileMeta]:
    """The file of every entry, in order; columns that only entries have (kind, partition…) may be absent.

    Without the columns `STATISTICS` files have no statistics, as deleted files of Java with the option
    `manifest.delete-file-drop-stats`.
    """
    if len(entries) == 0:
        return []
    columns = {n: objects(entries.column(n)) for n in entries.column_names if n not in _ENTRY_ONLY}
    if STATISTICS[0] not in columns:
        columns |= {name: repeat(() if name.endswith(("nulls", "cols")) else EMPTY) for name in STATISTICS}
    if entries.column("extra_files").null_count:
        columns["extra_files"] = (names or () for names in columns["extra_files"])
    with collector_paused():
        for kind in ("key", "value"):
            parts = [columns[f"{kind}_{part}"] for part in ("min", "max", "nulls")]
            columns[f"{kind}_stats"] = built(SimpleStats, parts)
        # The lengths bound columns that repeat one value for ever.
        files = built(DataFileMeta, [columns[name] for name in DataFileMeta._fields])
        return list(islice(files, len(entries)))


def built(kind: type[Any], columns: Sequence[Iterable[Any]]) -> Iterable[Any]:
    """Tuples of `kind` as `kind(*values)` makes them, but without a call of Python's for each."""
    if all(isinstance(c, repeat) for c in columns):
        return repeat(kind(*(next(iter(c)) for c in columns)))
    return map(partial(tuple.__new__, kind), zip(*columns, strict=False))


_ENTRY_ONLY: Final = frozenset(("kind", "partition", "bucket", "total_buckets"))


@contextlib.contextmanager
def collector_paused() -> Iterator[None]:
    """Without the garbage collector, which would walk a growing heap of tuples again and again."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
