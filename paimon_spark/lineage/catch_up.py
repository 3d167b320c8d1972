"""Catch-up: rows that a process died before it wrote, found in the snapshots alive and in checkpoints.

A streaming query commits its batches one after another, and the row of a sink's snapshot is written last. So its rows
are missing from some batch on, and the walk back from the head ends at the first snapshot that has its row. Runs of a
batch job overtake each other: there the walk goes back to where the last one began (`walked.py`).

Source: own.

What snapshots say of whence they came, told apart from what they copied of others.

A rollback to the latest, and a compaction of manifests, give a new snapshot the properties of an older one. A commit's
identifier is its barrier; that of a copy is not. Of the snapshots of one batch the newest counts, and a copy only
where no other is known.

Source: own; Java `operation/FileStoreCommitImpl` (`rollbackToAsLatest`, `compactManifest`) for the copies.

How far a warehouse was looked through for missing rows, and which branches are sinks.

    _lineage/sinks/<branch>.json    a branch that recorded jobs commit to, and its head before the first of them did
    _lineage/walked/<branch>.json   the snapshot up to which every row is in the lineage tables
    _lineage/read/<query id>.json   the batch of a query's checkpoint up to which its source rows are

Source: own.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from paimon_spark.errors import FileAlreadyThereError, FileMissingError, PaimonError
from paimon_spark.lineage.job_registry import all_forgotten, forgotten_before_ms, read_json_files
from paimon_spark.lineage.provenance import Provenance, TableRef, decode_provenance
from paimon_spark.lineage.settings import records_data
from paimon_spark.lineage.tables import (
    SINK_JOB,
    SINK_SNAPSHOT,
    Rows,
    job_barriers_between,
    merge_rows,
    rows_of,
    table_is,
)
from paimon_spark.lineage.warehouse import is_lineage_table, quote_name

if TYPE_CHECKING:
    from paimon_spark.format.metadata_files.snapshot import Snapshot
    from paimon_spark.lineage.tables import Index
    from paimon_spark.lineage.warehouse import Warehouse

_LOG = logging.getLogger(__name__)
_FIRST_CHUNK: Final = 4
_LARGEST_CHUNK: Final = 1024
_NEVER: Final = -1


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """Rows that are missing, and what is to be noted once they are written (`settle`).

    Attributes:
        rows: to upsert, older batches first.
        searched: up to which snapshot branches were searched.
        read: up to which batch checkpoints were, by the query's id.
    """

    rows: Rows = field(default_factory=dict)
    searched: Mapping[TableRef, SearchedTo] = field(default_factory=dict)
    read: Mapping[str, int] = field(default_factory=dict)


def catch_up(
    index: Index, job: str, sink: TableRef, *, query_id: str | None = None, checkpoint: str | None = None
) -> CaughtUp:
    """The rows of a job and a sink that are missing. Writes nothing.

    Args:
        index: the lineage tables.
        job: as they call it.
        sink: the branch that it commits to.
        query_id: of a streaming query. None for a batch job: then all jobs of the branch are looked for.
        checkpoint: URL of the query's checkpoint; None where none is known: then batches without rows stay missing.

    Raises:
        StorageError: a snapshot or the lineage tables cannot be read.
        CorruptFileError: a snapshot cannot be decoded.
    """
    if query_id is None:
        return missing_of_branch(index, sink, all_forgotten(index.warehouse))
    forgotten = forgotten_before_ms(index.warehouse, job)
    rows = rows_of_snapshots(_of_stream(index, job, sink, _NEVER if forgotten is None else forgotten), sink)
    read: dict[str, int] = {}
    if checkpoint is not None:
        try:
            more, last = missing_of_checkpoint(index.warehouse, job, query_id, checkpoint, forgotten)
        except PaimonError as e:
            _LOG.warning("lineage of job %r: batches without rows are not looked for: %s", job, e)
        else:
            rows, read = merge_rows([more, rows]), {} if last is None else {query_id: last}
    return CaughtUp(rows, read=read)


def mark_searched(index: Index, caught: CaughtUp) -> None:
    """Note up to where was looked, once the rows found are written. Raises StorageError."""
    for ref, to in caught.searched.items():
        write_searched_to(index.warehouse, ref, to)
    for query_id, batch in caught.read.items():
        write_searched_batch(index.warehouse, query_id, batch)


def checkpoint_rows(
    warehouse: Warehouse,
    job: str,
    query_id: str,
    checkpoint: str,
    after: int = -1,
    forgotten_ms: int | None = None,
) -> tuple[dict[str, list[tuple[Any, ...]]], int | None]:
    """Source rows of the batches that a checkpoint says are committed, and the newest of them.

    Nothing when the checkpoint is another query's by now: where it lay, one was begun anew.

    Args:
        warehouse: of the sink; sources elsewhere are left out.
        job: as the lineage tables call the query.
        query_id: of the query.
        checkpoint: URL of the checkpoint.
        after: batches up to this one are passed over.
        forgotten_ms: batches not newer than that are too.

    Raises:
        StorageError, CorruptFileError, OffsetError: the checkpoint cannot be read.
    """
    from paimon_spark.errors import FileMissingError
    from paimon_spark.lineage.checkpoints import Ends, open_checkpoint, source_ranges

    found = open_checkpoint(warehouse.store, checkpoint)
    times = {i.name: i.modified_ms for i in found.store.list(f"{found.root}/commits")}
    batches = sorted(int(n) for n in times if n.isascii() and n.isdigit() and int(n) > after)
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


def missing_of_checkpoint(
    warehouse: Warehouse, job: str, query_id: str, checkpoint: str, forgotten_ms: int | None
) -> tuple[dict[str, list[tuple[Any, ...]]], int | None]:
    """As `checkpoint_rows`, of the batches since the last search."""
    return checkpoint_rows(warehouse, job, query_id, checkpoint, read_searched_batch(warehouse, query_id), forgotten_ms)


def known_sinks(index: Index) -> set[TableRef]:
    """The branches that jobs were recorded to commit to. Raises StorageError."""
    recorded = index.read(SINK_JOB).select(["database", "table"]).group_by(["database", "table"]).aggregate([])
    refs = {TableRef(*row.values()) for row in recorded.to_pylist()} | registered_sinks(index.warehouse)
    return {ref for ref in refs if not is_lineage_table(ref)}


def _of_stream(index: Index, job: str, sink: TableRef, forgotten_ms: int) -> list[SnapshotProvenance]:
    """Batches of a query whose rows are missing."""
    newest = NewestSnapshots()
    missing: list[SnapshotProvenance] = []
    for chunk in _growing_chunks(_of_job(index.snapshots(sink), job, forgotten_ms)):
        recorded = recorded_snapshots(index, sink, chunk)
        for said in chunk:
            if recorded.get(said.batch) == said.snapshot_id:
                return missing
            if newest.offer(said):
                missing.append(said)
    return missing


def _of_job(snapshots: Iterator[Snapshot], job: str, forgotten_ms: int) -> Iterator[SnapshotProvenance]:
    for snapshot in snapshots:
        said = read_snapshot_provenance(snapshot)
        if said is None or said.provenance.job != job or said.is_copy:
            continue
        if said.time_ms <= forgotten_ms:
            return
        yield said
        if said.provenance.barrier == 0:  # its first batch
            return


def missing_of_branch(index: Index, ref: TableRef, forgotten: Mapping[str, int]) -> CaughtUp:
    """What is missing of all jobs since the branch was last looked through."""
    data = records_data(index)
    before = read_searched_to(index.warehouse, ref)
    if before is not None and data and not before.data:
        before = None
    head: list[SearchedTo] = []
    newest = NewestSnapshots()
    missing: list[SnapshotProvenance] = []
    copied: dict[tuple[str, int], int] = {}
    for chunk in _growing_chunks(_provenances(_since(index, ref, before), head, forgotten, data=data)):
        recorded = recorded_snapshots(index, ref, chunk)
        missing += [s for s in chunk if newest.offer(s) and recorded.get(s.batch) != s.snapshot_id]
        copied.update((s.batch, recorded[s.batch]) for s in chunk if s.is_copy and s.batch in recorded)
    if not head or head[0] == before:
        return CaughtUp()
    missing += [s for s in newest.copies() if s.batch not in copied]
    return CaughtUp(rows_of_snapshots(missing, ref), {ref: head[0]})


def _since(index: Index, ref: TableRef, before: SearchedTo | None) -> Iterator[Snapshot]:
    """Snapshots newer than the last one looked at, newest first. All that are alive, if it is not of this history."""
    if before is None:
        yield from index.snapshots(ref)
        return
    oldest: int | None = None
    for snapshot in index.snapshots(ref, before.snapshot_id - 1):
        if snapshot.id == before.snapshot_id and snapshot.delta_manifest_list == before.made:
            if oldest is None:
                yield snapshot  # it is the head still
            return
        oldest = snapshot.id
        yield snapshot
    if oldest is None or oldest <= before.snapshot_id:  # rolled back; else it expired
        yield from (s for s in index.snapshots(ref) if oldest is None or s.id < oldest)


def _provenances(
    snapshots: Iterator[Snapshot], head: list[SearchedTo], forgotten: Mapping[str, int], *, data: bool
) -> Iterator[SnapshotProvenance]:
    """What snapshots say of whence they came. The first of them is put into `head`."""
    for snapshot in snapshots:
        if not head:
            head.append(SearchedTo(snapshot.id, snapshot.delta_manifest_list, data))
        said = read_snapshot_provenance(snapshot)
        if said is not None and said.time_ms > forgotten.get(said.provenance.job, _NEVER):
            yield said


def _growing_chunks(found: Iterator[SnapshotProvenance]) -> Iterator[list[SnapshotProvenance]]:
    """In pieces that grow: mostly the first few snapshots tell that nothing is missing."""
    size = _FIRST_CHUNK
    while chunk := list(islice(found, size)):
        yield chunk
        size = min(_LARGEST_CHUNK, size * 4)


_TOGETHER: Final = 20
"""Jobs that are asked for together."""


class SnapshotProvenance(NamedTuple):
    """A snapshot that says whence it came.

    Attributes:
        time_ms: epoch milliseconds of the snapshot.
        is_copy: whether it says what another snapshot said before.
    """

    provenance: Provenance
    snapshot_id: int
    time_ms: int
    is_copy: bool

    @property
    def batch(self) -> tuple[str, int]:
        """Job and barrier."""
        return self.provenance.job, self.provenance.barrier


def read_snapshot_provenance(snapshot: Snapshot) -> SnapshotProvenance | None:
    """What a snapshot says; None when it says nothing that can be understood."""
    provenance = decode_provenance(snapshot.properties)
    if provenance is None:
        return None
    return SnapshotProvenance(
        provenance, snapshot.id, snapshot.time_ms, snapshot.commit_identifier != provenance.barrier
    )


class NewestSnapshots:
    """Of each batch of a branch the snapshot that counts. They are offered newest first."""

    def __init__(self) -> None:
        self._made: set[tuple[str, int]] = set()
        self._copies: dict[tuple[str, int], SnapshotProvenance] = {}

    def offer(self, said: SnapshotProvenance) -> bool:
        """Whether it counts, as far as can be told now: a copy may, when all have been offered (`copies`)."""
        if said.batch in self._made:
            return False
        if said.is_copy:
            self._copies.setdefault(said.batch, said)
            return False
        self._made.add(said.batch)
        self._copies.pop(said.batch, None)
        return True

    def copies(self) -> list[SnapshotProvenance]:
        """Copies of which no original was offered, newest first."""
        return sorted(self._copies.values(), key=lambda s: s.snapshot_id, reverse=True)


def rows_of_snapshots(found: Iterable[SnapshotProvenance], ref: TableRef) -> dict[str, list[tuple[Any, ...]]]:
    """Rows of snapshots of a branch, oldest first."""
    oldest_first = sorted(found, key=lambda s: s.snapshot_id)
    return merge_rows(rows_of(said.provenance, ref, said.snapshot_id) for said in oldest_first)


def recorded_snapshots(index: Index, ref: TableRef, some: Sequence[SnapshotProvenance]) -> dict[tuple[str, int], int]:
    """Snapshots of the rows that are there of some batches, by job and barrier. Raises StorageError."""
    bounds: dict[str, tuple[int, int]] = {}
    for job, barrier in (s.batch for s in some):
        low, high = bounds.get(job, (barrier, barrier))
        bounds[job] = min(low, barrier), max(high, barrier)
    found: dict[tuple[str, int], int] = {}
    conditions = job_barriers_between(bounds)
    while those := list(islice(conditions, _TOGETHER)):
        rows = index.read(SINK_SNAPSHOT, f"{table_is(ref)} AND ({' OR '.join(those)})")
        jobs, barriers, snapshots = (rows.column(n).to_pylist() for n in ("job", "barrier_id", "snapshot_id"))
        found.update(zip(zip(jobs, barriers, strict=True), snapshots, strict=True))
    return found


_PROGRESS_VERSION: Final = 1
_PROBED: Final = 8
"""Snapshots that tell whether a branch was recorded before: those of compactions say nothing."""


@dataclass(frozen=True, slots=True)
class SearchedTo:
    """A snapshot up to which all rows of a branch are in the lineage tables.

    Attributes:
        made: name of its delta manifest list, which no two commits share.
        data: whether rows of snapshots were written; False where only those of jobs were wanted.
    """

    snapshot_id: int
    made: str
    data: bool = True


def register_sink(index: Index, ref: TableRef) -> None:
    """Note that a branch is a sink, so that rows about it are looked for. One small read, if it is noted.

    Called before the first commit of a job to the branch: what is newer than its head at that moment is looked through.
    All of it is, when it was recorded before: under another name, as that of a branch that was merged.

    Raises:
        StorageError: it cannot be noted.
        CorruptFileError: the head cannot be decoded.
    """
    store, path = index.warehouse.store, f"{index.warehouse.own}/sinks/{quote_name(ref.name)}.json"
    try:
        store.read(path)
    except FileMissingError:
        newest = list(islice(index.snapshots(ref), _PROBED))
        head = newest[0] if newest and not any(map(read_snapshot_provenance, newest)) else None
        raw = {"database": ref.database, "table": ref.table}
        since = {} if head is None else {"snapshot": head.id, "made": head.delta_manifest_list}
        # Whoever is later than another knows of snapshots that the other has made.
        with suppress(FileAlreadyThereError):
            store.create_exclusive(path, _encode_progress(raw | since))


def registered_sinks(warehouse: Warehouse) -> set[TableRef]:
    """The branches that were noted as sinks. Raises StorageError."""
    found = (_decode_progress(data) for _, data in read_json_files(warehouse, f"{warehouse.own}/sinks"))
    return {TableRef(raw["database"], raw["table"]) for raw in found if _has_texts(raw, "database", "table")}


def read_searched_to(warehouse: Warehouse, ref: TableRef) -> SearchedTo | None:
    """Up to where a branch was looked through; None when it was not. Raises StorageError."""
    name = quote_name(ref.name)
    raw = _read_progress(warehouse, f"walked/{name}") or _read_progress(warehouse, f"sinks/{name}")
    if isinstance(raw.get("snapshot"), int) and _has_texts(raw, "made"):
        return SearchedTo(raw["snapshot"], raw["made"], raw.get("data") is not False)
    return None


def write_searched_to(warehouse: Warehouse, ref: TableRef, to: SearchedTo) -> None:
    """Note up to where a branch was looked through. Raises StorageError."""
    raw = {"table": ref.name, "snapshot": to.snapshot_id, "made": to.made, "data": to.data}
    warehouse.store.write(f"{warehouse.own}/walked/{quote_name(ref.name)}.json", _encode_progress(raw))


def read_searched_batch(warehouse: Warehouse, query_id: str) -> int:
    """The batch up to which a query's checkpoint was looked through; -1 when it was not. Raises StorageError."""
    batch = _read_progress(warehouse, f"read/{quote_name(query_id)}").get("batch")
    return batch if isinstance(batch, int) else -1


def write_searched_batch(warehouse: Warehouse, query_id: str, batch: int) -> None:
    """Note up to which batch a query's checkpoint was looked through. Raises StorageError."""
    raw = {"query": query_id, "batch": batch}
    warehouse.store.write(f"{warehouse.own}/read/{quote_name(query_id)}.json", _encode_progress(raw))


def _encode_progress(raw: dict[str, Any]) -> bytes:
    return json.dumps({"version": _PROGRESS_VERSION, **raw}, ensure_ascii=True).encode()


def _read_progress(warehouse: Warehouse, name: str) -> dict[str, Any]:
    try:
        return _decode_progress(warehouse.store.read(f"{warehouse.own}/{name}.json"))
    except FileMissingError:
        return {}


def _decode_progress(data: bytes) -> dict[str, Any]:
    """What a file says; nothing when it cannot be understood: then everything is looked through again."""
    try:
        raw = json.loads(data)
    except ValueError:
        return {}
    return raw if isinstance(raw, dict) and raw.get("version") == _PROGRESS_VERSION else {}


def _has_texts(raw: dict[str, Any], *names: str) -> bool:
    return all(isinstance(raw.get(n), str) for n in names)
