"""The manifests, manifest lists and counts of one attempt, and the Snapshot to publish.

Numbers that only the commit knows are given here: row ids, and sequence numbers that are snapshot ids.

Source: Java `operation/FileStoreCommitImpl.tryCommitOnce`, `operation/SequenceSnapshotProperties`,
`operation/commit/RowTrackingCommitUtils`.

Tests: tests/unit/engine/commit/test_snapshot.py, test_committer.py, test_latency.py.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.engine.commit import manifest_merge
from paimon_spark.engine.commit.entries import (
    Changes,
    adds,
    codes,
    column,
    named_in,
    numbers,
    present,
    row_total,
    together,
    where,
    with_numbers,
    without_value_stats,
)
from paimon_spark.engine.commit.index_files import write_index
from paimon_spark.engine.commit.manifest_merge import MergedManifests
from paimon_spark.engine.commit.requests import Adopt, CompactManifests, Restore, SetStatistics, SnapshotRequest
from paimon_spark.errors import CommitConflictError, CorruptFileError, StorageError, UnsupportedFeatureError
from paimon_spark.format.arrays import arrow_numpy
from paimon_spark.format.arrays.arrow_numpy import Bool
from paimon_spark.format.metadata_files.data_file import FileSource
from paimon_spark.format.metadata_files.manifest import ManifestFileMeta
from paimon_spark.format.metadata_files.snapshot import CommitKind, Snapshot
from paimon_spark.format.metadata_files.statistics import decode as decode_statistics
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.live_files import live_entries
from paimon_spark.metadata.manifests import data_manifests, read_manifests, write_manifest, write_manifest_list
from paimon_spark.options.write import CommitOptions
from paimon_spark.redaction import get_logger
from paimon_spark.storage.ahead import side_by_side
from paimon_spark.text import integer_of

_LOG = get_logger(__name__)

WRITER_VERSION: Final = "paimon-spark-0.1.0"
MAX_SEQUENCE_NUMBER: Final = "sequence.generation.max-sequence-number"
_ROW_ID: Final = "_ROW_ID"


@dataclass(frozen=True, slots=True, eq=False)
class _Listed:
    """A manifest list that was written, and what it names.

    Attributes:
        rows: rows of files added minus rows of files deleted.
        max_sequence_number: over the files added; None without such files.
    """

    name: str
    size: int
    manifests: tuple[ManifestFileMeta, ...]
    rows: int
    max_sequence_number: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """Everything of a snapshot is written but its own file.

    Attributes:
        merged: what became of the head's manifests; None when this attempt did not try.
        delta, changelog: lists that an attempt on another head may use again.
    """

    snapshot: Snapshot
    merged: MergedManifests | None
    base: _Listed
    delta: _Listed
    changelog: _Listed | None

    def paths(self, handle: TableHandle) -> Iterator[str]:
        """Metadata files that the snapshot needs."""
        for listed in (self.base, self.delta, self.changelog):
            if listed is not None:
                yield handle.layout.manifest_path(listed.name)
                yield from (handle.layout.manifest_path(m.file_name) for m in listed.manifests)
        if self.snapshot.index_manifest is not None:
            yield handle.layout.manifest_path(self.snapshot.index_manifest)


class SnapshotWriter:
    """Writes the manifests and lists of one requested snapshot, attempt by attempt. Removes nothing after a failure."""

    def __init__(self, handle: TableHandle, options: CommitOptions, request: SnapshotRequest, commit_user: str) -> None:
        self._handle, self._options, self._request, self._commit_user = handle, options, request, commit_user
        self._earlier: Prepared | None = None

    def prepare(self, changes: Changes, head: Snapshot | None, schema_id: int, time_ms: int) -> Prepared | None:
        """Write all but the snapshot file of the next snapshot after `head`; None when there is nothing to change.

        `changes` are those of the request on top of `head`, `schema_id` is the newest schema of the branch.

        Raises:
            CommitConflictError: index changes do not fit those of the head, or the schema is newer than an adopted one.
            StorageError: a file cannot be read or written.
        """
        # Nothing reads a manifest or a list before the snapshot names it, so they may come to be in any order.
        with side_by_side(self._handle.store):
            return self._prepared(changes, head, schema_id, time_ms)

    def _prepared(self, changes: Changes, head: Snapshot | None, schema_id: int, time_ms: int) -> Prepared | None:
        if isinstance(self._request, Adopt):
            return self._adopted(self._request, schema_id, time_ms)
        before = [] if head is None else data_manifests(self._handle, head)
        match self._request:
            case Restore() as restore if head is not None:
                return self._restored(restore, changes, head, time_ms)
            case CompactManifests():
                everything = replace(self._options, manifest_merge_min_count=1, manifest_full_compaction_bytes=1)
                merged: MergedManifests | None = manifest_merge.merge(self._handle, before, everything)
                if head is None or merged is None or not _is_less(merged):
                    return None
                schema_id = head.schema_id
            case _:
                merged = self._merged(before)
        self._earlier = self._next(changes, head, before, merged, schema_id, time_ms)
        return self._earlier

    def _next(
        self,
        changes: Changes,
        head: Snapshot | None,
        before: list[ManifestFileMeta],
        merged: MergedManifests | None,
        schema_id: int,
        time_ms: int,
    ) -> Prepared:
        handle, request = self._handle, self._request
        base = _listed(handle, merged.after if merged else tuple(before))
        delta, next_row_id = self._delta(changes, head)
        changelog = self._changelog(changes)
        total = 0 if head is None else head.total_record_count
        if total is None:
            total = row_total(live_entries(handle, before))
        snapshot = Snapshot(
            id=1 if head is None else head.id + 1,
            schema_id=schema_id,
            base_manifest_list=base.name,
            base_manifest_list_size=base.size,
            delta_manifest_list=delta.name,
            delta_manifest_list_size=delta.size,
            changelog_manifest_list=None if changelog is None else changelog.name,
            changelog_manifest_list_size=None if changelog is None else changelog.size,
            index_manifest=write_index(handle, head, changes.index),
            commit_user=self._commit_user,
            commit_identifier=request.identifier,
            commit_kind=request.kind,
            time_ms=time_ms,
            total_record_count=total + delta.rows,
            delta_record_count=delta.rows,
            changelog_record_count=None if changelog is None else changelog.rows,
            watermark=_watermark(request.watermark, head),
            statistics=self._statistics(head, schema_id),
            properties=self._properties(head, before, delta) or None,
            next_row_id=next_row_id,
            uuid=str(uuid.uuid4()),
            writer_version=WRITER_VERSION,
            operation=request.operation,
        )
        return Prepared(snapshot, merged, base, delta, changelog)

    def _adopted(self, request: Adopt, schema_id: int, time_ms: int) -> Prepared:
        """The snapshot of another branch; its manifests are there already."""
        found = request.snapshot
        if found.schema_id != schema_id:
            raise CommitConflictError(
                f"{self._handle.describe()} was altered to schema {schema_id} since snapshot {found.id} of schema "
                f"{found.schema_id} was made for it",
                **self._handle.context,
            )
        properties = {**(found.properties or {}), **request.properties}
        base = _Listed(found.base_manifest_list, found.base_manifest_list_size or 0, (), 0)
        delta = _Listed(
            found.delta_manifest_list, found.delta_manifest_list_size or 0, (), found.delta_record_count or 0
        )
        return Prepared(replace(found, time_ms=time_ms, properties=properties or None), None, base, delta, None)

    def _restored(self, request: Restore, changes: Changes, head: Snapshot, time_ms: int) -> Prepared:
        """The snapshot after `head` that has the state of an earlier one.

        The manifests before it name no file that is gone: one that comes again would look deleted beside them. A file
        that is at another level in both is named before it as it is in the earlier one, since a DELETE of it there
        would stay, and hide it again when a compaction moves it back.

        Source: Java `operation/FileStoreCommitImpl.rollbackToAsLatest`, but for files that changed their level.
        """
        target, back = request.target, request.live
        live = live_entries(self._handle, data_manifests(self._handle, head))
        before = together(where(live, ~named_in(live, back)), where(back, named_in(back, live)))
        base = _listed(self._handle, tuple(write_manifest(self._handle, before)) if len(before) else ())
        delta = _written(self._handle, self._without_stats_of_deleted(changes.files))
        total = target.total_record_count
        row_ids = [n for n in (head.next_row_id, target.next_row_id) if n is not None]
        snapshot = Snapshot(
            id=head.id + 1,
            schema_id=target.schema_id,
            base_manifest_list=base.name,
            base_manifest_list_size=base.size,
            delta_manifest_list=delta.name,
            delta_manifest_list_size=delta.size,
            index_manifest=target.index_manifest,
            commit_user=self._commit_user,
            commit_identifier=request.identifier,
            commit_kind=request.kind,
            time_ms=time_ms,
            total_record_count=row_total(live) + delta.rows if total is None else total,
            delta_record_count=delta.rows,
            watermark=target.watermark,
            statistics=target.statistics,
            properties=target.properties,
            next_row_id=max(row_ids, default=None),
            uuid=str(uuid.uuid4()),
            writer_version=WRITER_VERSION,
        )
        return Prepared(snapshot, None, base, delta, None)

    def _merged(self, before: list[ManifestFileMeta]) -> MergedManifests | None:
        """The head's manifests merged. A second attempt only uses the merge of the first: it is in a hurry."""
        if self._earlier is None:
            return manifest_merge.merge(self._handle, before, self._options)
        return None if self._earlier.merged is None else manifest_merge.reuse(self._earlier.merged, before)

    def _delta(self, changes: Changes, head: Snapshot | None) -> tuple[_Listed, int]:
        """The list of what the snapshot changes, and the next free row id."""
        options, tracks_rows = self._options, self._handle.options.row_tracking
        snapshot_id, next_row_id = (1, 0) if head is None else (head.id + 1, head.next_row_id or 0)
        stamps = options.snapshot_sequence_ordering and self._request.kind is not CommitKind.COMPACT
        depends_on_head = tracks_rows or stamps or self._request.depends_on_head or options.discard_duplicate_files
        if self._earlier is not None and not depends_on_head:
            return self._earlier.delta, next_row_id
        files = self._without_stats_of_deleted(changes.files)
        if tracks_rows:
            files, next_row_id = assign_row_ids(
                files, snapshot_id, next_row_id, by_partition=options.row_tracking_groups
            )
        if stamps:
            files = stamp_sequence_numbers(files, snapshot_id)
        return _written(self._handle, files), next_row_id

    def _without_stats_of_deleted(self, files: pa.Table) -> pa.Table:
        return without_value_stats(files, ~adds(files)) if self._options.delete_drop_stats else files

    def _changelog(self, changes: Changes) -> _Listed | None:
        if self._earlier is not None and not self._request.depends_on_head:
            return self._earlier.changelog
        return _written(self._handle, changes.changelog) if len(changes.changelog) else None

    def _statistics(self, head: Snapshot | None, schema_id: int) -> str | None:
        """The new statistics file, else the head's while it is of the newest schema."""
        if isinstance(self._request, SetStatistics):
            return self._request.file_name
        if head is None or head.statistics is None:
            return None
        path = self._handle.layout.statistics_path(head.statistics)
        try:
            of_schema = decode_statistics(self._handle.store.read(path), path).schema_id
        except (StorageError, CorruptFileError) as e:
            _LOG.warning("cannot read the statistics %s of %s, dropped: %s", path, self._handle.describe(), e)
            return None
        return head.statistics if of_schema == schema_id else None

    def _properties(self, head: Snapshot | None, before: list[ManifestFileMeta], delta: _Listed) -> Mapping[str, str]:
        given = self._request.properties
        if isinstance(self._request, CompactManifests) and head is not None:
            return head.properties or {}
        if not self._options.sequence_in_properties:
            return given
        largest = _max_sequence_number(self._handle, head, before), delta.max_sequence_number
        known = [n for n in largest if n is not None]
        return {**given, MAX_SEQUENCE_NUMBER: str(max(known))} if known else given


def _is_less(merged: MergedManifests) -> bool:
    """Whether there are fewer manifests, or fewer entries in them. As many files of other sizes are no gain."""
    return len(merged.after) < len(merged.before) or any(m.num_deleted_files for m in merged.before)


def _written(handle: TableHandle, entries: pa.Table) -> _Listed:
    metas = tuple(write_manifest(handle, entries)) if len(entries) else ()
    name, size = write_manifest_list(handle, metas)
    return _Listed(name, size, metas, row_total(entries), _largest(entries))


def _listed(handle: TableHandle, metas: tuple[ManifestFileMeta, ...]) -> _Listed:
    """A list of manifests before the snapshot's own changes."""
    name, size = write_manifest_list(handle, metas)
    return _Listed(name, size, metas, 0)


def _watermark(given: int | None, head: Snapshot | None) -> int | None:
    known = [w for w in (given, None if head is None else head.watermark) if w is not None]
    return max(known, default=None)


def _max_sequence_number(handle: TableHandle, head: Snapshot | None, before: list[ManifestFileMeta]) -> int | None:
    """The property of the head, else the largest number in its manifests."""
    said = (head.properties or {}).get(MAX_SEQUENCE_NUMBER) if head is not None else None
    number = None if said is None else integer_of(said)
    if number is not None:
        return number
    largest = [_largest(read_manifests(handle, [m])) for m in before]
    return max((n for n in largest if n is not None), default=None)


def _largest(entries: pa.Table) -> int | None:
    new = numbers(entries, "max_sequence_number")[adds(entries)]
    return int(new.max()) if len(new) else None


def assign_row_ids(
    entries: pa.Table, snapshot_id: int, next_row_id: int, *, by_partition: bool
) -> tuple[pa.Table, int]:
    """Entries with sequence numbers and first row ids where they were left open, and the next free row id.

    A file whose smallest sequence number is 0 is all new; one whose largest is 0 has changed rows among old ones.

    Args:
        entries: ADD and DELETE entries.
        snapshot_id: of the snapshot being made.
        next_row_id: first id that no row has.
        by_partition: whether files are put together by partition first, so that ids of one are in a row.

    Raises:
        UnsupportedFeatureError: files that share the row ids of others (blobs, vectors) among the new ones.
    """
    if by_partition and len(entries):
        order = np.argsort(codes(column(entries, "partition")), kind="stable")
        entries = entries.take(arrow_numpy.take_indices(order)).combine_chunks()
    entries = _stamped(entries, snapshot_id)
    wanted = _without_row_ids(entries)
    if not wanted.any():
        return entries, next_row_id
    _refuse_shared_ids(entries, wanted)
    rows = np.where(wanted, numbers(entries, "row_count"), 0)
    ends = next_row_id + np.cumsum(rows)
    valid = present(entries, "first_row_id")
    ids = np.where(wanted, ends - rows, np.where(valid, numbers(entries, "first_row_id"), 0) if valid.any() else 0)
    return with_numbers(entries, "first_row_id", ids, valid | wanted), int(ends[-1])


def stamp_sequence_numbers(entries: pa.Table, snapshot_id: int) -> pa.Table:
    """Entries whose new files have the snapshot's id as the sequence number of all rows."""
    new = adds(entries)
    for name in ("min_sequence_number", "max_sequence_number"):
        entries = with_numbers(entries, name, np.where(new, snapshot_id, numbers(entries, name)))
    return entries


def _stamped(entries: pa.Table, snapshot_id: int) -> pa.Table:
    least, most = numbers(entries, "min_sequence_number"), numbers(entries, "max_sequence_number")
    all_new = least == 0
    entries = with_numbers(entries, "min_sequence_number", np.where(all_new, snapshot_id, least))
    return with_numbers(entries, "max_sequence_number", np.where(all_new | (most == 0), snapshot_id, most))


def _without_row_ids(entries: pa.Table) -> Bool:
    if len(entries) == 0:
        return np.zeros(0, np.bool_)
    appended = present(entries, "file_source") & (numbers(entries, "file_source") == FileSource.APPEND)
    wanted = adds(entries) & appended & ~present(entries, "first_row_id")
    written = column(entries, "write_cols")
    if written.null_count < len(written):
        wanted &= ~np.array([_ROW_ID in (names or ()) for names in written.to_pylist()], np.bool_)
    return np.asarray(wanted)


def _refuse_shared_ids(entries: pa.Table, wanted: Bool) -> None:
    names = column(entries, "file_name").filter(arrow_numpy.boolean_array(wanted))
    for ending in (".blob", ".vector"):
        if arrow_numpy.values(pc.match_substring(names, ending)).any():
            raise UnsupportedFeatureError(
                f"a commit cannot give row ids to files of the format {ending[1:]}; write such columns with Paimon",
                feature=f"{ending[1:]} files",
            )
