"""Find rows that dead processes did not write, in snapshots and in checkpoints of queries.

A streaming query commits its batches one after another, and the row of a sink's snapshot is written last. So its rows
are missing from some batch on, and the search from the head back ends at the first snapshot that has its row. Runs of a
batch job overtake each other: there the search goes back to where the last one ended. Files keep that:

    _lineage/sinks/<branch>.json    a branch that recorded jobs commit to, and its head before the first of them did
    _lineage/walked/<branch>.json   the snapshot up to which every row is in the lineage tables
    _lineage/read/<query id>.json   the batch of a query's checkpoint up to which its source rows are

A file that is lost or unreadable only means that all is searched again. Batches that made no snapshot are in the
checkpoints of their queries alone.

Tests: tests/unit/lineage/recording/test_catch_up.py
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final

from paimon_spark.errors import FileAlreadyThereError, FileMissingError, PaimonError
from paimon_spark.format.json_files import find_object
from paimon_spark.lineage.index.job_registry import all_forgotten, forgotten_before_ms, read_json_files
from paimon_spark.lineage.index.provenance import Provenance, TableRef
from paimon_spark.lineage.index.tables import (
    SINK_JOB,
    SINK_SNAPSHOT,
    RowLists,
    Rows,
    job_barriers_between,
    merge_rows,
    records_data,
    rows_of,
    table_is,
)
from paimon_spark.lineage.index.warehouse import FILE_VERSION, encode_file, is_lineage_table, quote_name
from paimon_spark.lineage.recording.checkpoints import Ends, open_checkpoint, source_ranges
from paimon_spark.lineage.recording.snapshot_provenance import (
    NewestSnapshots,
    SnapshotProvenance,
    read_snapshot_provenance,
    rows_of_snapshots,
    unforgotten,
)
from paimon_spark.metadata.small_files import numbers
from paimon_spark.redaction import get_logger

if TYPE_CHECKING:
    from paimon_spark.format.metadata_files.snapshot import Snapshot
    from paimon_spark.lineage.index.tables import Index
    from paimon_spark.lineage.index.warehouse import Warehouse
    from paimon_spark.lineage.recording.row_queue import ExpectedJob

_PROBED: Final = 8
"""Newest snapshots that show whether a branch was recorded before: those of compactions hold no provenance."""
_LOG = get_logger(__name__)
_FIRST_CHUNK: Final = 4
_LARGEST_CHUNK: Final = 1024
_JOBS_TOGETHER: Final = 20
"""Jobs in one condition on the lineage tables."""


@dataclass(frozen=True, slots=True)
class SearchedTo:
    """A snapshot up to which all rows of a branch, or with `data` False those of jobs, are in the lineage tables.

    `made` is the name of its delta manifest list, which no two commits share.
    """

    snapshot_id: int
    made: str
    data: bool = True


def known_sinks(index: Index) -> set[TableRef]:
    """The branches that recorded jobs commit to."""
    recorded = index.read(SINK_JOB).select(["database", "table"]).group_by(["database", "table"]).aggregate([])
    files = read_json_files(index.warehouse, f"{index.warehouse.lineage_dir}/sinks")
    registered = [raw for _, data in files if _has_texts(raw := _decode(data), "database", "table")]
    refs = {TableRef(row["database"], row["table"]) for row in (*recorded.to_pylist(), *registered)}
    return {ref for ref in refs if not is_lineage_table(ref)}


def register_sink(index: Index, ref: TableRef) -> None:
    """Register a branch as a sink, before the first commit of a job to it. One small read, if it is registered.

    Later searches begin at its head of this moment; at its first snapshot when it was recorded before under another
    name, as a branch that was merged is.
    """
    store, path = index.warehouse.store, f"{index.warehouse.lineage_dir}/sinks/{quote_name(ref.name)}.json"
    try:
        store.read(path)
    except FileMissingError:
        newest = list(islice(index.snapshots(ref), _PROBED))
        head = newest[0] if newest and not any(map(read_snapshot_provenance, newest)) else None
        since = {} if head is None else {"snapshot": head.id, "made": head.delta_manifest_list}
        # The first file stays: a later process may see snapshots that an earlier one made.
        with suppress(FileAlreadyThereError):
            store.create_exclusive(path, encode_file(database=ref.database, table=ref.table, **since))


def read_searched_to(warehouse: Warehouse, ref: TableRef) -> SearchedTo | None:
    """Up to where a branch was searched; None when it was not."""
    name = quote_name(ref.name)
    raw = _read_file(warehouse, f"walked/{name}") or _read_file(warehouse, f"sinks/{name}")
    if isinstance(raw.get("snapshot"), int) and _has_texts(raw, "made"):
        return SearchedTo(raw["snapshot"], raw["made"], raw.get("data") is not False)
    return None


def read_searched_batch(warehouse: Warehouse, query_id: str) -> int:
    """The batch up to which a query's checkpoint was searched; -1 when it was not."""
    batch = _read_file(warehouse, f"read/{quote_name(query_id)}").get("batch")
    return batch if isinstance(batch, int) else -1


def write_searched_to(warehouse: Warehouse, ref: TableRef, to: SearchedTo) -> None:
    """Write up to where a branch was searched, once the rows found are written."""
    path = f"{warehouse.lineage_dir}/walked/{quote_name(ref.name)}.json"
    warehouse.store.write(path, encode_file(table=ref.name, snapshot=to.snapshot_id, made=to.made, data=to.data))


def write_searched_batch(warehouse: Warehouse, query_id: str, batch: int) -> None:
    """Write up to which batch a query's checkpoint was searched, once the rows found are written."""
    path = f"{warehouse.lineage_dir}/read/{quote_name(query_id)}.json"
    warehouse.store.write(path, encode_file(query=query_id, batch=batch))


def _read_file(warehouse: Warehouse, name: str) -> dict[str, Any]:
    try:
        return _decode(warehouse.store.read(f"{warehouse.lineage_dir}/{name}.json"))
    except FileMissingError:
        return {}


def _decode(data: bytes) -> dict[str, Any]:
    """The content of a file; empty when it is unreadable, so that everything is searched again."""
    raw = find_object(data, dict) or {}
    return raw if raw.get("version") == FILE_VERSION else {}


def _has_texts(raw: dict[str, Any], *names: str) -> bool:
    return all(isinstance(raw.get(n), str) for n in names)


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """Rows that are missing, older batches first, and what to mark as searched once they are written.

    Attributes:
        searched: the snapshot up to which each branch was searched.
        read: query id → the batch up to which its checkpoint was searched.
    """

    rows: Rows = field(default_factory=dict)
    searched: Mapping[TableRef, SearchedTo] = field(default_factory=dict)
    read: Mapping[str, int] = field(default_factory=dict)


def catch_up(index: Index, expected: ExpectedJob) -> CaughtUp:
    """Find the missing rows of a job and a sink. Writes nothing.

    For a batch job all jobs of the branch are searched for. Without a checkpoint batches without rows stay missing.

    Raises:
        StorageError, CorruptFileError: a snapshot, or the lineage tables, cannot be read.
    """
    job, sink, query_id, checkpoint = expected.job, expected.sink, expected.query_id, expected.checkpoint
    if query_id is None:
        return missing_of_branch(index, sink, all_forgotten(index.warehouse))
    forgotten_ms = forgotten_before_ms(index.warehouse, job)
    of_snapshots = rows_of_snapshots(_missing_of_stream(index, job, sink, forgotten_ms), sink)
    if checkpoint is None:
        return CaughtUp(of_snapshots)
    try:
        found = missing_of_checkpoint(index.warehouse, job, query_id, checkpoint, forgotten_ms)
    except PaimonError as e:
        # A checkpoint may be where the driver cannot read; what the snapshots give is written all the same.
        _LOG.warning("lineage of job %r: cannot search for batches without rows: %s", job, e)
        return CaughtUp(of_snapshots)
    # Where both have a row, that of the snapshot stays: it is what was committed.
    return CaughtUp(merge_rows([found.rows, of_snapshots]), read=found.read)


def missing_of_branch(index: Index, ref: TableRef, forgotten: Mapping[str, int]) -> CaughtUp:
    """Find the missing rows of all jobs since the branch was last searched."""
    data = records_data(index)
    before = read_searched_to(index.warehouse, ref)
    if before is not None and data and not before.data:
        before = None  # only rows of jobs were written, so those of snapshots are missing from the beginning
    since = _since(index, ref, before)
    head = next(since, None)
    searched_to = None if head is None else SearchedTo(head.id, head.delta_manifest_list, data)
    if head is None or searched_to is None or searched_to == before:
        return CaughtUp()
    newest = NewestSnapshots()
    missing: list[SnapshotProvenance] = []
    recorded_copies: set[tuple[str, int]] = set()
    for chunk in _growing_chunks(unforgotten(chain([head], since), forgotten)):
        recorded = recorded_snapshots(index, ref, chunk)
        missing += [s for s in chunk if newest.offer(s) and recorded.get(s.batch) != s.snapshot_id]
        recorded_copies.update(s.batch for s in chunk if s.is_copy and s.batch in recorded)
    missing += [s for s in newest.copies() if s.batch not in recorded_copies]
    return CaughtUp(rows_of_snapshots(missing, ref), {ref: searched_to})


def missing_of_checkpoint(
    warehouse: Warehouse, job: str, query_id: str, checkpoint: str, forgotten_ms: int | None
) -> CaughtUp:
    """Find the source rows of batches since the checkpoint was last searched. Raises as `checkpoint_rows`."""
    after = read_searched_batch(warehouse, query_id)
    rows, last = checkpoint_rows(warehouse, job, query_id, checkpoint, after, forgotten_ms)
    return CaughtUp(rows, read={} if last is None else {query_id: last})


def checkpoint_rows(
    warehouse: Warehouse, job: str, query_id: str, checkpoint: str, after: int = -1, forgotten_ms: int | None = None
) -> tuple[RowLists, int | None]:
    """The source rows of the committed batches of a checkpoint, and the newest batch; of the sink's warehouse only.

    Skips batches up to `after`, and those not newer than `forgotten_ms`. Nothing when the checkpoint is of another
    query by now.

    Raises:
        StorageError, CorruptFileError, OffsetError: the checkpoint cannot be read.
    """
    found = open_checkpoint(warehouse.store, checkpoint)
    times = {i.name: i.modified_ms for i in found.store.list(f"{found.root}/commits")}
    batches = [n for n in numbers(times, "") if n > after]
    if not batches or found.query_id() != query_id:
        return {}, None
    parts = []
    last: tuple[int, Ends] | None = None
    for batch in batches:
        time_ms = times.get(str(batch))
        if forgotten_ms is not None and time_ms is not None and time_ms <= forgotten_ms:
            continue
        try:
            before = last[1] if last is not None and last[0] == batch - 1 else found.ends_before(batch)
            last = batch, found.ends(batch)
        except FileMissingError:  # Spark removed it meanwhile
            continue
        parts.append(rows_of(Provenance(job, batch, source_ranges(before, last[1], warehouse)), None, None))
    return merge_rows(parts), batches[-1]


def mark_searched(index: Index, caught: CaughtUp) -> None:
    """Write how far was searched, once the rows found are written."""
    for ref, to in caught.searched.items():
        write_searched_to(index.warehouse, ref, to)
    for query_id, batch in caught.read.items():
        write_searched_batch(index.warehouse, query_id, batch)


def recorded_snapshots(index: Index, ref: TableRef, some: Sequence[SnapshotProvenance]) -> dict[tuple[str, int], int]:
    """(job, barrier) → the snapshot in the sink row of that batch, where there is one."""
    found: dict[tuple[str, int], int] = {}
    conditions = job_barriers_between(s.batch for s in some)
    while together := list(islice(conditions, _JOBS_TOGETHER)):
        rows = index.read(SINK_SNAPSHOT, f"{table_is(ref)} AND ({' OR '.join(together)})")
        jobs, barriers, snapshots = (rows.column(n).to_pylist() for n in ("job", "barrier_id", "snapshot_id"))
        found.update(zip(zip(jobs, barriers, strict=True), snapshots, strict=True))
    return found


def _missing_of_stream(index: Index, job: str, sink: TableRef, forgotten_ms: int | None) -> list[SnapshotProvenance]:
    """The newest snapshots of a streaming query, down to the first that has its row."""
    newest = NewestSnapshots()
    missing: list[SnapshotProvenance] = []
    for chunk in _growing_chunks(_of_stream(index.snapshots(sink), job, forgotten_ms)):
        recorded = recorded_snapshots(index, sink, chunk)
        for found in chunk:
            if recorded.get(found.batch) == found.snapshot_id:
                return missing
            if newest.offer(found):
                missing.append(found)
    return missing


def _of_stream(snapshots: Iterable[Snapshot], job: str, forgotten_ms: int | None) -> Iterator[SnapshotProvenance]:
    """The snapshots, without copies, of a streaming query, newest first, down to its first batch."""
    for snapshot in snapshots:
        found = read_snapshot_provenance(snapshot)
        if found is None or found.provenance.job != job or found.is_copy:
            continue
        if forgotten_ms is not None and found.time_ms <= forgotten_ms:
            return
        yield found
        if found.provenance.barrier == 0:
            return


def _since(index: Index, ref: TableRef, before: SearchedTo | None) -> Iterator[Snapshot]:
    """Snapshots newer than the last one searched, newest first; all that are alive, if it is of another history.

    Where it still is the head, it alone: what was searched for in it may be less than now.
    """
    if before is None:
        yield from index.snapshots(ref)
        return
    oldest: int | None = None
    for snapshot in index.snapshots(ref, before.snapshot_id - 1):
        if snapshot.id == before.snapshot_id and snapshot.delta_manifest_list == before.made:
            if oldest is None:
                yield snapshot
            return
        oldest = snapshot.id
        yield snapshot
    # Not met: it was rolled back, so that older snapshots may be new too, unless it expired behind newer ones.
    if oldest is None or oldest <= before.snapshot_id:
        yield from (s for s in index.snapshots(ref) if oldest is None or s.id < oldest)


def _growing_chunks(found: Iterator[SnapshotProvenance]) -> Iterator[list[SnapshotProvenance]]:
    """Chunks that grow: mostly the first few snapshots show that nothing is missing."""
    size = _FIRST_CHUNK
    while chunk := list(islice(found, size)):
        yield chunk
        size = min(_LARGEST_CHUNK, size * 4)
