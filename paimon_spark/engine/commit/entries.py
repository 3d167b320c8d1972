"""Manifest entries of commit messages, as columns in numpy; entries of some partitions.

Source: Java `operation/commit/ManifestEntryChanges`, `operation/FileStoreCommitImpl.abort`.

Tests: tests/unit/engine/commit/test_entries.py, test_committer.py.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.engine.merge.ordering import column_words, sort_rows
from paimon_spark.engine.tasks import CommitMessage, Increment
from paimon_spark.errors import PaimonError
from paimon_spark.format import binary_row
from paimon_spark.format.arrays import arrow_numpy
from paimon_spark.format.arrays.arrow_numpy import Bool, array_of, fixed_array, validity, values
from paimon_spark.format.arrays.arrow_types import no_rows
from paimon_spark.format.binary_row import decode_column
from paimon_spark.format.metadata_files.data_file import DataFileMeta
from paimon_spark.format.metadata_files.index_manifest import IndexManifestEntry
from paimon_spark.format.metadata_files.manifest import ENTRY_SCHEMA, FileKind, ManifestFileMeta
from paimon_spark.format.metadata_files.manifest_writer import FilesOfBucket, entries
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.live_files import live_entries
from paimon_spark.metadata.manifests import data_manifests, delta_manifests, read_manifests
from paimon_spark.metadata.partition_path import PartitionDirectories, index_file_path
from paimon_spark.redaction import get_logger
from paimon_spark.types import DataType

I64 = npt.NDArray[np.int64]


@cache
def no_entries() -> pa.Table:
    """No manifest entry. One table for all: it cannot change, and its forty columns take time to make."""
    return no_rows(ENTRY_SCHEMA)


def live_at(handle: TableHandle, snapshot: Snapshot | None) -> pa.Table:
    """The live entries of a snapshot; none without one. Raises as `live_entries`."""
    return no_entries() if snapshot is None else live_entries(handle, data_manifests(handle, snapshot))


def together(*tables: pa.Table) -> pa.Table:
    """Concatenate entries, in one chunk."""
    return pa.concat_tables([no_entries(), *tables]).combine_chunks()


def column(entries: pa.Table, name: str) -> pa.Array:
    """A column in one piece."""
    return arrow_numpy.one_chunk(entries.column(name))


def numbers(entries: pa.Table, name: str) -> npt.NDArray[Any]:
    """A column of numbers; slots of nulls hold anything."""
    return arrow_numpy.values(column(entries, name))


def present(entries: pa.Table, name: str) -> Bool:
    """Where a column is not null."""
    return arrow_numpy.validity(column(entries, name))


def where(entries: pa.Table, mask: Bool) -> pa.Table:
    """The entries where `mask` is True."""
    return entries if mask.all() else entries.filter(arrow_numpy.boolean_array(mask))


def named_in(entries: pa.Table, others: pa.Table) -> Bool:
    """Which entries are of a file that `others` name too, at whatever level. No two files share a name."""
    return arrow_numpy.values(pc.is_in(column(entries, "file_name"), value_set=column(others, "file_name")))


def adds(entries: pa.Table) -> Bool:
    """Which entries add their file."""
    return np.asarray(numbers(entries, "kind") == FileKind.ADD)


def with_numbers(entries: pa.Table, name: str, values: npt.NDArray[Any], valid: Bool | None = None) -> pa.Table:
    """The entries with a column of numbers replaced."""
    field = ENTRY_SCHEMA.field(name)
    array = arrow_numpy.fixed_array(values.astype(np.dtype(str(field.type))), field.type, valid)
    return entries.set_column(entries.schema.get_field_index(name), field, array)


def without_value_stats(entries: pa.Table, mask: Bool) -> pa.Table:
    """The entries, without statistics of columns where `mask` is True.

    Source: Java `DataFileMeta.copyWithoutStats`.
    """
    if not mask.any():
        return entries
    own_or_empty = arrow_numpy.take_indices(np.where(mask, len(entries), np.arange(len(entries))))
    empty_row = array_of([binary_row.EMPTY], pa.binary())
    for name in ("value_min", "value_max", "value_nulls", "value_stats_cols"):
        field = ENTRY_SCHEMA.field(name)
        empty = _empty_list(field.type) if pa.types.is_list(field.type) else empty_row
        values = pa.concat_arrays([column(entries, name), empty]).take(own_or_empty)
        entries = entries.set_column(entries.schema.get_field_index(name), field, values)
    return entries


def _empty_list(type: pa.DataType) -> pa.Array:
    """One list without items."""
    offsets = pa.py_buffer(np.zeros(2, np.int32))
    return pa.Array.from_buffers(type, 1, [None, offsets], children=[pa.nulls(0, type.value_type)])


def of_kind(entries: pa.Table, kind: FileKind) -> pa.Table:
    """The entries, all with one kind."""
    return with_numbers(entries, "kind", np.full(len(entries), int(kind), np.int8))


def codes(array: pa.Array) -> I64:
    """A number per value from 0 up, by first appearance; null is a value."""
    if len(array) == 0:
        return np.empty(0, np.int64)
    return arrow_numpy.values(array.dictionary_encode(null_encoding="encode").indices).astype(np.int64)


def row_total(entries: pa.Table) -> int:
    """Rows of files added minus rows of files deleted."""
    rows = numbers(entries, "row_count")
    return int(np.where(adds(entries), rows, -rows).sum()) if len(entries) else 0


_MOST_COMPARED: Final = 1 << 22
"""Manifests times partitions up to which each pair is looked at; beyond, only the span of the partitions is."""


class Touched:
    """A set of partitions.

    Attributes:
        rows: their BinaryRow bytes, each once.
    """

    def __init__(self, handle: TableHandle, partitions: pa.Array) -> None:
        self._handle = handle
        self.rows: pa.BinaryArray = pc.unique(partitions)
        self.bytes: frozenset[bytes] = frozenset(self.rows.to_pylist())

    def __bool__(self) -> bool:
        return len(self.rows) > 0

    def entries(self, entries: pa.Table) -> Bool:
        """Which entries are of these partitions."""
        return values(pc.is_in(column(entries, "partition"), value_set=self.rows))

    def manifests(self, metas: Sequence[ManifestFileMeta]) -> Bool:
        """Which manifests may hold entries of these partitions, by the partition statistics of their lists."""
        possible = np.full((len(metas), max(len(self.rows), 1)), bool(self))
        if not self or not metas or possible.size > _MOST_COMPARED:
            return np.asarray(possible.any(axis=1))
        low = array_of([m.partition_stats.min_values for m in metas], pa.binary())
        high = array_of([m.partition_stats.max_values for m in metas], pa.binary())
        for i, field in enumerate(self._handle.schema.partition_type):
            possible &= self._column(metas, low, high, i, field.type)
        return np.asarray(possible.any(axis=1))

    def _column(
        self, metas: Sequence[ManifestFileMeta], low: pa.Array, high: pa.Array, i: int, dtype: DataType
    ) -> npt.NDArray[Any]:
        wanted = decode_column(self.rows, i, dtype, exact=False)  # what Arrow cannot hold is looked for everywhere
        lows, highs = (decode_column(rows, i, dtype, exact=False) for rows in (low, high))
        ranks = _ranks(pa.concat_arrays([wanted, lows, highs]))
        w, m = len(wanted), len(metas)
        value, least, most = ranks[:w], ranks[w : w + m], ranks[w + m :]
        unknown = ~(validity(lows) & validity(highs))
        inside = (least[:, None] <= value[None, :]) & (value[None, :] <= most[:, None]) | unknown[:, None]
        return np.where(validity(wanted)[None, :], inside, True)

    def live(self, snapshot: Snapshot) -> pa.Table:
        """The live entries of these partitions in a snapshot."""
        metas = data_manifests(self._handle, snapshot)
        return self._only(live_entries(self._handle, _where(metas, self.manifests(metas)), passing=True))

    def delta(self, snapshot: Snapshot) -> pa.Table:
        """The entries of these partitions that a snapshot's commit made."""
        metas = delta_manifests(self._handle, snapshot)
        return self._only(read_manifests(self._handle, _where(metas, self.manifests(metas))))

    def _only(self, entries: pa.Table) -> pa.Table:
        return together(where(entries, self.entries(entries))) if len(entries) else entries


def _where(metas: Sequence[ManifestFileMeta], mask: Bool) -> list[ManifestFileMeta]:
    return [m for m, wanted in zip(metas, mask.tolist(), strict=True) if wanted]


def _ranks(array: pa.Array) -> npt.NDArray[np.int64]:
    """A number per value, in the order of the values, equal for equal ones; of two zeros either may be a bound."""
    if pa.types.is_floating(array.type):
        array = fixed_array(values(array) + 0.0, array.type, validity(array))
    order, ties = sort_rows(column_words(array), len(array))
    ranks = np.empty(len(array), np.int64)
    ranks[order] = np.cumsum(~ties)
    return ranks


_LOG = get_logger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class Changes:
    """The changes of one snapshot.

    Attributes:
        files: ADD and DELETE entries, as `ENTRY_SCHEMA` in one chunk.
        changelog: ADD entries of changelog files.
        index: index files added and deleted; their `kind` says which.
    """

    files: pa.Table
    changelog: pa.Table
    index: tuple[IndexManifestEntry, ...] = ()

    def __bool__(self) -> bool:
        return bool(len(self.files) or len(self.changelog) or self.index)


def data_changes(messages: Sequence[CommitMessage]) -> Changes:
    """The changes of written rows: new files first, then those they replace."""
    return _changes([(m, m.data) for m in messages], adds_first=True)


def compact_changes(messages: Sequence[CommitMessage]) -> Changes:
    """The changes of compactions: deleted files first, then new ones."""
    return _changes([(m, m.compact) for m in messages], adds_first=False)


def _changes(increments: Sequence[tuple[CommitMessage, Increment]], *, adds_first: bool) -> Changes:
    files: list[FilesOfBucket] = []
    changelog: list[FilesOfBucket] = []
    index: list[IndexManifestEntry] = []
    for message, done in increments:
        place = message.partition, message.bucket, message.total_buckets
        parts = [
            FilesOfBucket(FileKind.ADD, *place, done.new_files),
            FilesOfBucket(FileKind.DELETE, *place, done.deleted_files),
        ]
        files += parts if adds_first else parts[::-1]
        changelog.append(FilesOfBucket(FileKind.ADD, *place, done.changelog_files))
        index += _of_kind(FileKind.DELETE, done.deleted_index_files)
        index += _of_kind(FileKind.ADD, done.new_index_files)
    return Changes(_entries(files), _entries(changelog), tuple(index))


def _entries(parts: Sequence[FilesOfBucket]) -> pa.Table:
    return entries(parts) if any(p.files for p in parts) else no_entries()


def _of_kind(kind: FileKind, index: Iterable[IndexManifestEntry]) -> list[IndexManifestEntry]:
    return [e._replace(kind=int(kind)) for e in index]


def new_files(increment: Increment) -> set[str]:
    """Names of the new files of an increment."""
    files = (*increment.new_files, *increment.changelog_files)
    return {f.file_name for f in files} | {e.file_name for e in increment.new_index_files}


def remove_files(handle: TableHandle, messages: Sequence[CommitMessage], keep: Collection[str]) -> None:
    """Delete the new files of messages, except names in `keep`. Failures leave orphans and are logged.

    A file that an increment also names as deleted is not new (only its level changed) and stays.
    """
    by_path: list[str] = []
    directories = PartitionDirectories(handle)
    try:
        for message in messages:
            by_path += _paths(handle, directories, message, keep)
        handle.store.delete_many(by_path)
    except PaimonError as e:
        _LOG.warning("files of a failed commit to %s remain: %s", handle.describe(), e)


def _paths(
    handle: TableHandle, directories: PartitionDirectories, message: CommitMessage, keep: Collection[str]
) -> Iterator[str]:
    buckets = directories.bucket_paths(message.partition, message.bucket)
    for increment in (message.data, message.compact):
        old = {f.file_name for f in increment.deleted_files} | {e.file_name for e in increment.deleted_index_files}
        for file in (*increment.new_files, *increment.changelog_files):
            if file.file_name not in keep and file.file_name not in old:
                yield from (path for bucket in buckets for path in _file_paths(handle, bucket, file))
        for entry in increment.new_index_files:
            if entry.file_name not in keep and entry.file_name not in old and entry.external_path is None:
                yield index_file_path(handle, entry, directories)


def _file_paths(handle: TableHandle, bucket: str, file: DataFileMeta) -> Iterator[str]:
    if file.external_path is not None:  # outside the table; writers of this package make none
        return
    yield handle.layout.data_path(bucket, file.file_name)
    for extra in file.extra_files:
        yield handle.layout.data_path(bucket, extra)
