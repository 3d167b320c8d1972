"""Data files of a version, and their sums: $files $file_key_ranges $partitions $buckets.

Statistics are shown in the columns of the read schema: those of older schemas are cast, and a column that a file lacks
is null in all its rows.

Source: Java `table/system/FilesTable`, `FileKeyRangesTable`, `stats/SimpleStatsEvolution`, `PartitionsTable`,
`BucketsTable` of Paimon 2.0; `manifest/PartitionEntry`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.engine.scan.fallback import in_order, other_branch
from paimon_spark.engine.scan.file_stats import Partitions, list_items
from paimon_spark.engine.scan.prune import one_batch
from paimon_spark.errors import DataError, UnsupportedFeatureError
from paimon_spark.format.arrays.arrow_numpy import array_of, boolean_array, fixed_array, take_indices, values
from paimon_spark.format.arrays.arrow_types import arrow_type
from paimon_spark.format.binary_row import decode_column
from paimon_spark.format.casts.evolution import caster
from paimon_spark.format.metadata_files.data_file import FileSource
from paimon_spark.format.metadata_files.index_manifest import DELETION_VECTORS
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.format.metadata_files.table_schema import TableSchema
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.layout import POSTPONE_BUCKET
from paimon_spark.metadata.live_files import NEVER, EntryTotals, entry_totals, live_entries
from paimon_spark.metadata.manifests import data_manifests, read_index_manifest, read_manifests
from paimon_spark.metadata.schemas import schemas_by_id
from paimon_spark.system_tables.java_text import concatenated, joined, map_text, object_text, sql_text, text
from paimon_spark.system_tables.listing import TIMESTAMP, Asked, Listing, Thunk, batch_of, columns, required
from paimon_spark.types import BIGINT, BOOLEAN, INT, STRING, ArrayType, DataField, RowType

_BATCH_FILES: Final = 1 << 16
"""Files in a batch: their texts are much larger than the manifests."""
_COMPRESSED: Final = r"(gz|bz2|deflate|snappy|lz4|zst)"
"""Extensions of compressed text files."""

_FILES: Final = columns(
    ("partition", STRING),
    ("bucket", required(INT)),
    ("file_path", required(STRING)),
    ("file_format", required(STRING)),
    ("schema_id", required(BIGINT)),
    ("level", required(INT)),
    ("record_count", required(BIGINT)),
    ("file_size_in_bytes", required(BIGINT)),
    ("min_key", STRING),
    ("max_key", STRING),
    ("null_value_counts", required(STRING)),
    ("min_value_stats", required(STRING)),
    ("max_value_stats", required(STRING)),
    ("min_sequence_number", BIGINT),
    ("max_sequence_number", BIGINT),
    ("creation_time", TIMESTAMP),
    ("deleteRowCount", BIGINT),
    ("file_source", STRING),
    ("first_row_id", BIGINT),
    ("write_cols", ArrayType(element=STRING)),
)
_KEY_RANGES: Final = (*_FILES.names[:10], "first_row_id")
_FILE_KEY_RANGES: Final = columns(*((f.name, f.type) for f in _FILES if f.name in _KEY_RANGES))
_STORED: Final = {
    "bucket": "bucket",
    "schema_id": "schema_id",
    "level": "level",
    "record_count": "row_count",
    "file_size_in_bytes": "file_size",
    "min_sequence_number": "min_sequence_number",
    "max_sequence_number": "max_sequence_number",
    "deleteRowCount": "delete_row_count",
    "first_row_id": "first_row_id",
    "write_cols": "write_cols",
}
"""Columns that manifests hold as they are."""


def _read(row_type: RowType, asked: Asked) -> Iterator[pa.RecordBatch]:
    if asked.snapshot is None:
        return
    handle = asked.handle
    entries = without_postponed(handle, one_batch(live_entries(handle, data_manifests(handle, asked.snapshot))))
    schemas = schemas_by_id(handle, pc.unique(entries.column("schema_id")).to_pylist())
    for start in range(0, entries.num_rows, _BATCH_FILES):
        piece = entries.slice(start, _BATCH_FILES)
        yield batch_of(row_type, asked, piece.num_rows, _columns(asked, piece, schemas))


def without_postponed(handle: TableHandle, entries: pa.RecordBatch) -> pa.RecordBatch:
    """The entries without those of a postponed bucket, whose files wait for a compaction and are not read."""
    if handle.options.bucket != POSTPONE_BUCKET:
        return entries
    return entries.filter(boolean_array(values(entries.column("bucket")) >= 0))


def _columns(asked: Asked, entries: pa.RecordBatch, schemas: Mapping[int, TableSchema]) -> dict[str, Thunk]:
    partitions = Partitions(asked.handle, entries.column("partition"))
    texts = FileTexts(entries, asked.handle.schema, schemas)
    made: dict[str, Thunk] = {name: partial(entries.column, stored) for name, stored in _STORED.items()}
    made["partition"] = lambda: partition_texts(partitions).take(take_indices(partitions.codes))
    made["file_path"] = lambda: _paths(asked.handle, entries, partitions)
    made["file_format"] = lambda: _formats(entries.column("file_name"))
    made["min_key"] = lambda: texts.keys("min_key")
    made["max_key"] = lambda: texts.keys("max_key")
    made["null_value_counts"] = texts.null_counts
    made["min_value_stats"] = lambda: texts.bounds("value_min")
    made["max_value_stats"] = lambda: texts.bounds("value_max")
    made["creation_time"] = lambda: entries.column("creation_time_ms").cast(arrow_type(TIMESTAMP))
    made["file_source"] = lambda: _sources(entries.column("file_source"))
    return made


def partition_texts(partitions: Partitions) -> pa.Array:
    """`{v1, v2}` of each distinct partition; `{}` where there are no partition columns."""
    parts = [sql_text(c, f.type) for c, f in zip(partitions.batch.columns, partitions.type, strict=True)]
    return joined(parts, "{", "}", len(partitions.rows))


def _paths(handle: TableHandle, entries: pa.RecordBatch, partitions: Partitions) -> pa.Array:
    """Full URLs of the files."""
    columns = (entries.column(name) for name in ("partition", "bucket", "file_name"))
    directories, numbers = partitions.directories.of_files(*columns)
    of_files = array_of([handle.store.url(path) for path in directories], pa.string()).take(take_indices(numbers))
    inside = concatenated(of_files, text("/"), entries.column("file_name"))
    return pc.coalesce(entries.column("external_path"), inside)


def _formats(names: pa.Array) -> pa.Array:
    """The extension of each file, without that of a compression around it."""
    return pc.replace_substring_regex(names, rf"^.*?([^.]*)(?:\.{_COMPRESSED})?$", r"\1")


def _sources(codes: pa.Array) -> pa.Array:
    named = {source.value: source.name for source in FileSource}
    encoded = codes.dictionary_encode()
    shown = [named.get(code) for code in encoded.dictionary.to_pylist()]
    return array_of(shown, pa.string()).take(encoded.indices)


class _Group(NamedTuple):
    """Files of one schema that have the same columns and statistics of the same columns.

    Attributes:
        positions: where the statistics have each column.
    """

    files: pa.RecordBatch
    schema: TableSchema
    columns: RowType
    with_stats: Sequence[str] | None
    positions: Mapping[str, int]


class FileTexts(NamedTuple):
    """Texts about the files of manifest entries, by the columns of `schema`; `file_schemas` are by id."""

    entries: pa.RecordBatch
    schema: TableSchema
    file_schemas: Mapping[int, TableSchema]

    def keys(self, name: str) -> pa.Array:
        """`[1, a]` of column `min_key` or `max_key`; null for files without keys."""
        return self._by_group(("schema_id",), lambda g: _key_text(g, name))

    def bounds(self, name: str) -> pa.Array:
        """`{a=1, b=x}` of column `value_min` or `value_max`; null where not known."""
        return self._maps(name, lambda group, field: _bound_text(group, name, field))

    def null_counts(self) -> pa.Array:
        """`{a=0, b=3}`; null where not counted."""
        return self._maps("value_min", _null_count_text)

    def _maps(self, bounds: str, make: Callable[[_Group, DataField], pa.Array]) -> pa.Array:
        """Maps of texts by column; `{}` where column `bounds` shows that a file has no statistics."""

        def of_group(group: _Group) -> pa.Array:
            count = group.files.num_rows
            if group.with_stats is None and not _has_fields(group.files.column(bounds)):
                return pa.repeat(text("{}"), count)
            return map_text(self.schema.row_type.names, [make(group, f) for f in self.schema.fields], count)

        return self._by_group(("schema_id", "value_stats_cols", "write_cols"), of_group)

    def _by_group(self, names: Sequence[str], make: Callable[[_Group], pa.Array]) -> pa.Array:
        rows, texts = [], []
        for places in _groups([self.entries.column(n) for n in names]):
            whole = len(places) == self.entries.num_rows
            files = self.entries if whole else self.entries.take(take_indices(places))
            rows.append(places)
            texts.append(make(self._group(files)))
        if len(texts) == 1:
            return texts[0]
        order = np.argsort(np.concatenate(rows), kind="stable") if rows else np.empty(0, np.int64)
        return pa.concat_arrays(texts).take(take_indices(order)) if texts else pa.nulls(0, pa.string())

    def _group(self, files: pa.RecordBatch) -> _Group:
        schema = self.file_schemas[int(values(files.column("schema_id"))[0])]
        written = files.column("write_cols")[0].as_py()
        columns = schema.row_type
        if written is not None:
            known = set(columns.names)
            columns = columns.project([n for n in written if n in known])
        with_stats = files.column("value_stats_cols")[0].as_py()
        names = columns.names if with_stats is None else with_stats
        positions = {name: i for i, name in reversed([*enumerate(names)])}
        return _Group(files, schema, columns, with_stats, positions)


def _groups(columns: Sequence[pa.Array]) -> Iterator[np.ndarray]:
    """Row numbers grouped by equal values of all columns."""
    codes = np.stack([_codes(c) for c in columns], axis=1)
    if not len(codes):
        return
    if bool((codes == codes[0]).all()):
        yield np.arange(len(codes))
        return
    _, kinds = np.unique(codes, axis=0, return_inverse=True)
    kinds = np.asarray(kinds).reshape(-1)
    for kind in range(int(kinds.max()) + 1):
        yield np.flatnonzero(kinds == kind)


def _codes(column: pa.Array) -> np.ndarray:
    """A number for each value, equal for equal values; null is a value. Lists hold names, which have no NUL."""
    if pa.types.is_list(column.type):
        column = pc.binary_join(column, text("\0"))
    encoded = column.dictionary_encode(null_encoding="encode")
    return values(encoded.indices).astype(np.int64)


def _has_fields(rows: pa.Array) -> bool:
    """Whether statistics rows have any field; those of files without statistics are empty. One kind in a group."""
    return bool(rows[0].as_py()[:4] != b"\0\0\0\0") if len(rows) else False


def _key_text(group: _Group, name: str) -> pa.Array:
    rows = group.files.column(name)
    key = group.schema.key_type if group.schema.trimmed_primary_keys else group.schema.row_type
    if not _has_fields(rows):
        return pa.nulls(len(rows), pa.string())
    parts = [object_text(decode_column(rows, i, f.type, exact=False), f.type) for i, f in enumerate(key)]
    return joined(parts, "[", "]", len(rows))


def _bound_text(group: _Group, name: str, field: DataField) -> pa.Array:
    nothing = pa.nulls(group.files.num_rows, pa.string())
    old = group.columns.find_by_id(field.id)
    position = None if old is None else _position(group, old)
    if old is None or position is None:
        return nothing
    try:
        return object_text(_cast(decode_column(group.files.column(name), position, old.type, exact=False), old, field),
                           field.type)  # fmt: skip
    except (UnsupportedFeatureError, DataError):
        return nothing  # the files may not be readable as the new type either; then their read fails


def _cast(array: pa.Array, old: DataField, new: DataField) -> pa.Array:
    stored, wanted = old.type.with_nullable(True), new.type.with_nullable(True)
    if stored == wanted or not array.type.equals(arrow_type(stored)):
        return array
    return caster(stored, wanted)(array)


def _null_count_text(group: _Group, field: DataField) -> pa.Array:
    old = group.columns.find_by_id(field.id)
    if old is None:
        return group.files.column("row_count").cast(pa.string())
    position = _position(group, old)
    if position is None:
        return pa.nulls(group.files.num_rows, pa.string())
    counts = list_items(group.files.column("value_nulls"), position)
    return fixed_array(counts, pa.int64(), counts >= 0).cast(pa.string())


def _position(group: _Group, old: DataField) -> int | None:
    """Where the statistics have the column; None when they leave it out."""
    return group.positions.get(old.name)


_I64 = npt.NDArray[np.int64]
_PARTITIONS: Final = columns(
    ("partition", STRING),
    ("record_count", required(BIGINT)),
    ("file_size_in_bytes", required(BIGINT)),
    ("file_count", required(BIGINT)),
    ("last_update_time", TIMESTAMP),
    ("created_at", TIMESTAMP),
    ("created_by", STRING),
    ("updated_by", STRING),
    ("options", STRING),
    ("total_buckets", required(INT)),
    ("done", required(BOOLEAN)),
    ("deleted_record_count", BIGINT),
)
_BUCKETS: Final = columns(
    ("partition", STRING),
    ("bucket", required(INT)),
    ("record_count", required(BIGINT)),
    ("file_size_in_bytes", required(BIGINT)),
    ("file_count", required(BIGINT)),
    ("last_update_time", TIMESTAMP),
)


def _read_partitions(asked: Asked) -> Iterator[pa.RecordBatch]:
    pieces = list(_pieces(asked))
    if not pieces:
        return
    entries = one_batch(pa.Table.from_batches([entries for _, _, entries in pieces]))
    partitions = Partitions(asked.handle, entries.column("partition"))
    sums = entry_totals(pa.Table.from_batches([entries]), partitions.codes.astype(np.int64), len(partitions.rows))
    names = _partition_names(asked.handle, partitions)
    order = _shown_order(sums, names)
    count, take = len(order), take_indices(order)
    made = _sum_columns(sums, order)
    made["partition"] = lambda: names.take(take)
    for name in ("created_at", "created_by", "updated_by", "options"):  # a catalog's, which no file holds
        made[name] = partial(pa.nulls, count, arrow_type(_PARTITIONS.field(name).type))
    made["total_buckets"] = lambda: fixed_array(sums.total_buckets[order], pa.int64()).cast(pa.int32())
    made["done"] = lambda: boolean_array(np.zeros(count, np.bool_))
    made["deleted_record_count"] = lambda: _deleted_counts(
        [(h, s) for h, s, _ in pieces], [partitions.row_bytes[i] for i in order.tolist()]
    )
    yield batch_of(_PARTITIONS, asked, count, made)


def _pieces(asked: Asked) -> Iterator[tuple[TableHandle, Snapshot, pa.RecordBatch]]:
    """The branch and its entries, and a fallback branch with the entries of partitions that are read from it."""
    sources: tuple[tuple[TableHandle, Snapshot | None], ...] = ((asked.handle, asked.snapshot),)
    other = other_branch(asked.handle)
    if other is not None:
        sources = in_order(asked.handle, asked.snapshot, other, travelled=asked.travelled)
    taken: Any = None
    for handle, snapshot in sources:
        if snapshot is None:
            continue
        # A partition with rows only in a postponed bucket has no readable rows yet.
        entries = without_postponed(handle, _entries(handle, snapshot))
        if taken is not None:
            entries = entries.filter(pc.invert(pc.is_in(entries.column("partition"), value_set=taken)))
        taken = entries.column("partition").unique()
        yield handle, snapshot, entries


def _read_buckets(asked: Asked) -> Iterator[pa.RecordBatch]:
    if asked.snapshot is None:
        return
    entries = _entries(asked.handle, asked.snapshot)
    partitions = Partitions(asked.handle, entries.column("partition"))
    buckets = values(entries.column("bucket")).astype(np.int64)
    places = np.stack([partitions.codes.astype(np.int64), buckets], axis=1)
    distinct, which = np.unique(places, axis=0, return_inverse=True)
    sums = entry_totals(pa.Table.from_batches([entries]), np.asarray(which).reshape(-1), len(distinct))
    names = partition_texts(partitions).take(take_indices(distinct[:, 0]))
    order = _shown_order(sums, names, distinct[:, 1])
    take = take_indices(order)
    made = _sum_columns(sums, order)
    made["partition"] = lambda: names.take(take)
    made["bucket"] = lambda: fixed_array(distinct[order, 1], pa.int64()).cast(pa.int32())
    yield batch_of(_BUCKETS, asked, len(order), made)


def _entries(handle: TableHandle, snapshot: Snapshot) -> pa.RecordBatch:
    """All entries of the snapshot's manifests, ADD and DELETE: a removal counts as an update."""
    return one_batch(read_manifests(handle, data_manifests(handle, snapshot)))


def _shown_order(sums: EntryTotals, names: pa.Array, buckets: _I64 | None = None) -> _I64:
    """The groups that have files, sorted by name and bucket."""
    keys = {"name": names, "bucket": fixed_array(sums.files * 0 if buckets is None else buckets, pa.int64())}
    by_name = pc.sort_indices(pa.table(keys), sort_keys=[("name", "ascending"), ("bucket", "ascending")])
    order: _I64 = values(by_name).astype(np.int64)
    return order[sums.files[order] > 0]


def _sum_columns(sums: EntryTotals, order: _I64) -> dict[str, Thunk]:
    updated = sums.updated_ms[order]
    return {
        "record_count": lambda: fixed_array(sums.rows[order], pa.int64()),
        "file_size_in_bytes": lambda: fixed_array(sums.sizes[order], pa.int64()),
        "file_count": lambda: fixed_array(sums.files[order], pa.int64()),
        "last_update_time": lambda: fixed_array(updated, arrow_type(TIMESTAMP), updated != NEVER),
    }


def _partition_names(handle: TableHandle, partitions: Partitions) -> pa.Array:
    """`k1=v1/k2=v2`, values unescaped; blank ones and nulls have the default name."""
    default = text(handle.options.partition_default_name)
    out: Any = None
    for column, f in zip(partitions.batch.columns, partitions.type, strict=True):
        shown = sql_text(column, f.type)
        blank = pc.fill_null(pc.match_substring_regex(shown, r"^\s*$"), True)
        part = concatenated(text(f"{f.name}="), pc.if_else(blank, default, shown))
        out = part if out is None else concatenated(out, text("/"), part)
    return pa.repeat(text(""), len(partitions.rows)) if out is None else out


def _deleted_counts(sources: Sequence[tuple[TableHandle, Snapshot]], partitions: Sequence[bytes]) -> pa.Array:
    """Rows that deletion vectors delete in each partition; null where a writer did not count them."""
    counts: dict[bytes, int | None] = {}
    for handle, snapshot in reversed(sources):  # the partitions of the first are read from there
        counts.update(_deleted_rows(handle, snapshot))
    return array_of([counts.get(p, 0) for p in partitions], pa.int64())


def _deleted_rows(handle: TableHandle, snapshot: Snapshot) -> dict[bytes, int | None]:
    """Rows that deletion vectors delete, by partition; None where a writer did not count them."""
    out: dict[bytes, int | None] = {}
    if not handle.options.deletion_vectors or snapshot.index_manifest is None:
        return out
    for entry in read_index_manifest(handle, snapshot.index_manifest):
        if entry.index_type != DELETION_VECTORS:
            continue
        counts = [v.cardinality for v in entry.deletion_vectors or ()]
        before = out.get(entry.partition, 0)
        known = [c for c in counts if c is not None]
        out[entry.partition] = None if before is None or len(known) < len(counts) else before + sum(known)
    return out


LISTINGS: Final = (
    Listing("files", _FILES, ("file_path",), True, partial(_read, _FILES)),
    Listing("file_key_ranges", _FILE_KEY_RANGES, ("file_path",), True, partial(_read, _FILE_KEY_RANGES)),
    Listing("partitions", _PARTITIONS, ("partition",), True, _read_partitions),
    Listing("buckets", _BUCKETS, ("partition", "bucket"), True, _read_buckets),
)
"""The system tables of this module."""
