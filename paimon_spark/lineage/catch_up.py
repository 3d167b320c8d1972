"""Catch-up: rows that a process died before it wrote, found in the snapshots alive and in checkpoints.

A streaming query commits its batches one after another, and the row of a sink's snapshot is written last. So its rows
are missing from some batch on, and the walk back from the head ends at the first snapshot that has its row. Runs of a
batch job overtake each other: there the walk goes back to where the last one began (`walked.py`).

Source: own.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from paimon_spark.errors import PaimonError
from paimon_spark.lineage.forgotten import all_forgotten, forgotten_before_ms
from paimon_spark.lineage.jobs import registrations
from paimon_spark.lineage.model import Provenance, TableRef
from paimon_spark.lineage.place import is_of_lineage
from paimon_spark.lineage.rows import joined, only_jobs, records_data, write
from paimon_spark.lineage.said import Newest, Said, recorded_of, rows_of_all, said_by
from paimon_spark.lineage.tables import SINK_JOB, Rows, rows_of
from paimon_spark.lineage.walked import Walked, batch_read, note_batch_read, note_walked, sinks, walked

if TYPE_CHECKING:
    from paimon_spark.format.metadata_files.snapshot import Snapshot
    from paimon_spark.lineage.place import Warehouse
    from paimon_spark.lineage.tables import Index

_LOG = logging.getLogger(__name__)
_FIRST_CHUNK: Final = 4
_LARGEST_CHUNK: Final = 1024
_NEVER: Final = -1


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """Rows that are missing, and what is to be noted once they are written (`settle`).

    Attributes:
        rows: to upsert, older batches first.
        walked: up to where branches were looked through.
        read: up to which batch checkpoints were, by the query's id.
    """

    rows: Rows = field(default_factory=dict)
    walked: Mapping[TableRef, Walked] = field(default_factory=dict)
    read: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Synced:
    """What a sync wrote.

    Attributes:
        rows: how many, by lineage table.
        unreadable: what could not be looked through, and why.
    """

    rows: Mapping[str, int]
    unreadable: tuple[str, ...] = ()


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
        return _of_branch(index, sink, all_forgotten(index.warehouse))
    forgotten = forgotten_before_ms(index.warehouse, job)
    rows = rows_of_all(_of_stream(index, job, sink, _NEVER if forgotten is None else forgotten), sink)
    read: dict[str, int] = {}
    if checkpoint is not None:
        try:
            more, last = _of_checkpoint(index.warehouse, job, query_id, checkpoint, forgotten)
        except PaimonError as e:
            _LOG.warning("lineage of job %r: batches without rows are not looked for: %s", job, e)
        else:
            rows, read = joined([more, rows]), {} if last is None else {query_id: last}
    return CaughtUp(rows, read=read)


def settle(index: Index, caught: CaughtUp) -> None:
    """Note up to where was looked, once the rows found are written. Raises StorageError."""
    for ref, to in caught.walked.items():
        note_walked(index.warehouse, ref, to)
    for query_id, batch in caught.read.items():
        note_batch_read(index.warehouse, query_id, batch)


def sync(index: Index) -> Synced:
    """Write the rows that are missing of all jobs: of snapshots, of checkpoints, and of notes whose reader died.

    One walk for each branch that is a sink, only over what came since the last one.

    Args:
        index: the lineage tables.

    Returns:
        What was written. A branch or checkpoint that cannot be read is told there, and holds up no other.

    Raises:
        StorageError, CommitError: the lineage tables, or lineage's own files, cannot be read or written.
    """
    from paimon_spark.lineage.left_notes import rows_of_left_notes
    from paimon_spark.lineage.recorder import flush_of

    warehouse = index.warehouse
    flush_of(warehouse)
    forgotten = all_forgotten(warehouse)
    counts: dict[str, int] = {}
    unreadable: list[str] = []
    for ref in sorted(known_sinks(index)):
        _attempt(index, ref.name, lambda ref=ref: _of_branch(index, ref, forgotten), counts, unreadable)  # type: ignore[misc]
    for query_id, known in registrations(warehouse).items():
        if known.checkpoint is None or not known.sink_records_sources:
            continue

        def of_query(query_id: str = query_id, job: str = known.job, checkpoint: str = known.checkpoint) -> CaughtUp:
            rows, last = _of_checkpoint(warehouse, job, query_id, checkpoint, forgotten.get(job))
            return CaughtUp(rows, read={} if last is None else {query_id: last})

        _attempt(index, f"checkpoint {known.checkpoint} of job {known.job!r}", of_query, counts, unreadable)
    _attempt(index, "notes of reads", lambda: CaughtUp(rows_of_left_notes(index)), counts, unreadable)
    return Synced(counts, tuple(unreadable))


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
    from paimon_spark.lineage.spark_log import Ends, open_checkpoint, ranges

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
        parts.append(rows_of(Provenance(job, batch, ranges(before, last[1], warehouse)), None, None))
    return joined(parts), batches[-1]


def _of_checkpoint(
    warehouse: Warehouse, job: str, query_id: str, checkpoint: str, forgotten_ms: int | None
) -> tuple[dict[str, list[tuple[Any, ...]]], int | None]:
    return checkpoint_rows(warehouse, job, query_id, checkpoint, batch_read(warehouse, query_id), forgotten_ms)


def _attempt(
    index: Index, what: str, find: Callable[[], CaughtUp], counts: dict[str, int], unreadable: list[str]
) -> None:
    try:
        caught = find()
    except PaimonError as e:
        unreadable.append(f"{what}: {type(e).__name__}: {e}")
        return
    write(index, caught.rows if records_data(index) else only_jobs(caught.rows), counts)
    settle(index, caught)


def known_sinks(index: Index) -> set[TableRef]:
    """The branches that jobs were recorded to commit to. Raises StorageError."""
    recorded = index.read(SINK_JOB).select(["database", "table"]).group_by(["database", "table"]).aggregate([])
    refs = {TableRef(*row.values()) for row in recorded.to_pylist()} | sinks(index.warehouse)
    return {ref for ref in refs if not is_of_lineage(ref)}


def _of_stream(index: Index, job: str, sink: TableRef, forgotten_ms: int) -> list[Said]:
    """Batches of a query whose rows are missing."""
    newest = Newest()
    missing: list[Said] = []
    for chunk in _chunks(_of_job(index.snapshots(sink), job, forgotten_ms)):
        recorded = recorded_of(index, sink, chunk)
        for said in chunk:
            if recorded.get(said.batch) == said.snapshot_id:
                return missing
            if newest.offer(said):
                missing.append(said)
    return missing


def _of_job(snapshots: Iterator[Snapshot], job: str, forgotten_ms: int) -> Iterator[Said]:
    for snapshot in snapshots:
        said = said_by(snapshot)
        if said is None or said.provenance.job != job or said.is_copy:
            continue
        if said.time_ms <= forgotten_ms:
            return
        yield said
        if said.provenance.barrier == 0:  # its first batch
            return


def _of_branch(index: Index, ref: TableRef, forgotten: Mapping[str, int]) -> CaughtUp:
    """What is missing of all jobs since the branch was last looked through."""
    data = records_data(index)
    before = walked(index.warehouse, ref)
    if before is not None and data and not before.data:
        before = None
    head: list[Walked] = []
    newest = Newest()
    missing: list[Said] = []
    copied: dict[tuple[str, int], int] = {}
    for chunk in _chunks(_said(_since(index, ref, before), head, forgotten, data=data)):
        recorded = recorded_of(index, ref, chunk)
        missing += [s for s in chunk if newest.offer(s) and recorded.get(s.batch) != s.snapshot_id]
        copied.update((s.batch, recorded[s.batch]) for s in chunk if s.is_copy and s.batch in recorded)
    if not head or head[0] == before:
        return CaughtUp()
    missing += [s for s in newest.copies() if s.batch not in copied]
    return CaughtUp(rows_of_all(missing, ref), {ref: head[0]})


def _since(index: Index, ref: TableRef, before: Walked | None) -> Iterator[Snapshot]:
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


def _said(
    snapshots: Iterator[Snapshot], head: list[Walked], forgotten: Mapping[str, int], *, data: bool
) -> Iterator[Said]:
    """What snapshots say of whence they came. The first of them is put into `head`."""
    for snapshot in snapshots:
        if not head:
            head.append(Walked(snapshot.id, snapshot.delta_manifest_list, data))
        said = said_by(snapshot)
        if said is not None and said.time_ms > forgotten.get(said.provenance.job, _NEVER):
            yield said


def _chunks(found: Iterator[Said]) -> Iterator[list[Said]]:
    """In pieces that grow: mostly the first few snapshots tell that nothing is missing."""
    size = _FIRST_CHUNK
    while chunk := list(islice(found, size)):
        yield chunk
        size = min(_LARGEST_CHUNK, size * 4)
