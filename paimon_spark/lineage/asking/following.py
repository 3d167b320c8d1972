"""Follower: which batch of another job a source of a streaming query reads up to next.

A query with several sources must not take one batch of the job for one source and the next batch for another. Spark
asks the sources of a micro-batch one after the other, in the same order as long as the query runs. So the source that
is asked first leads: it chooses the next batch of the job and writes it to a file; the others do what the file says.
Readers of a run all exist before the first of them is asked, so a leader chosen since a reader was made is of its run.

    _lineage/follow/<name of the query>.json   its leader, and the batch of the job that it reads up to

The batch is kept in the offsets too, so nothing is lost with the file.

Source: PIP-5, "ETL 2 will consume the same snapshots"; docs/design/lineage.md.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow.compute as pc

from paimon_spark.errors import CorruptFileError, LineageError
from paimon_spark.lineage.asking.graph import Node
from paimon_spark.lineage.asking.table_history import TableHistory
from paimon_spark.lineage.index.job_registry import checked_object, registrations
from paimon_spark.lineage.index.provenance import Provenance, TableRef, decode_provenance
from paimon_spark.lineage.index.table_index import open_index
from paimon_spark.lineage.index.tables import (
    SINK_JOB,
    SINK_SNAPSHOT,
    SOURCE_JOB,
    SOURCE_SNAPSHOT,
    column_equals,
    newest_barrier,
    read_settings,
    table_is,
)
from paimon_spark.lineage.index.warehouse import (
    WarehouseTable,
    encode_file,
    find_warehouse_table,
    quote_name,
    warn_once,
)
from paimon_spark.metadata.small_files import find_decoded
from paimon_spark.options.lineage import FOLLOW, parse_lineage_options
from paimon_spark.redaction import get_logger

if TYPE_CHECKING:
    from paimon_spark.lineage.index.tables import Index
    from paimon_spark.metadata.handle import TableHandle
    from paimon_spark.streaming.offset import StreamOffset

_LOG = get_logger(__name__)
_READ_AGAIN_S: Final = 1.0
"""Pause between two reads of the lineage tables for new batches."""
_CHECK_AGAIN_S: Final = 60.0
"""Time without a new batch after which the job is looked up again."""
_MOST_SEARCHED: Final = 100
"""Snapshots of a table that are searched for a batch whose row is not written yet."""
_NONE: Final = -1
"""No batch."""


class FollowedBatch(NamedTuple):
    """A batch of the job, and the last snapshot of the branch that the job had read at its end; 0: none yet."""

    barrier: int
    snapshot_id: int


class _Turn(NamedTuple):
    """Entry of the leader: its id, start (nanoseconds since 1970) and batch; -1 before its first batch."""

    leader: str
    since_ns: int
    barrier: int


def follower(handle: TableHandle, job: str, made_ns: int) -> Follower:
    """The follower for one source of a streaming query. Reads nothing.

    Args:
        handle: the branch that the source reads.
        job: that is followed.
        made_ns: when the reader of the source was made, in nanoseconds since 1970.

    Raises:
        LineageError: the branch is outside any warehouse.
    """
    home = find_warehouse_table(handle)
    name = parse_lineage_options(handle.overrides).job
    if home is None or name is None:
        raise LineageError(
            f"option {FOLLOW.key} = {job!r}: {handle.describe()} is outside any warehouse "
            "(<warehouse>/<database>.db/<table>), so that no lineage of it is recorded",
            table=handle.name,
        )
    return Follower(home, open_index(home.warehouse), job, name, made_ns)


@dataclass(slots=True)
class Follower:
    """The batches of `job` for one source of the query `name`. On the driver; not for several threads.

    Attributes:
        home: the branch that the source reads.
        index: the lineage tables of its warehouse.
        made_ns: when the reader of the source was made; before any source of the query is asked.
        clock_s: monotonic seconds.
        clock_ns: nanoseconds since 1970.
    """

    home: WarehouseTable
    index: Index
    job: str
    name: str
    made_ns: int
    clock_s: Callable[[], float] = time.monotonic
    clock_ns: Callable[[], int] = time.time_ns
    _token: str = field(default_factory=lambda: uuid.uuid4().hex)
    _leads: bool | None = None
    _leader: str | None = None
    _since_ns: int = 0
    _written: int | None = None
    _last_barrier: int | None = None
    _ahead: list[int] = field(default_factory=list)
    _read_s: float = float("-inf")
    _checked_s: float = float("-inf")

    def stop_at_newest(self) -> None:
        """Follow no further than the newest batch that is recorded now."""
        self._check_job()
        self._last_barrier = newest_barrier(self.index, SOURCE_SNAPSHOT, column_equals("job", self.job))

    def next_batch(self, start: StreamOffset) -> FollowedBatch | None:
        """Batch of the job up to which the micro-batch after `start` reads; None before there is one.

        Raises:
            LineageError: lineage is off, the job is not known or does not read the branch, it was forgotten and started
                anew, or another query has the same name.
            StorageError: the lineage tables cannot be read.
        """
        turn = self._turn()
        if self._leads is None:
            self._check_job(start)
            self._leads = turn is None or turn.since_ns < self.made_ns
        elif turn is not None and turn.leader != self._leader:
            raise LineageError(
                f"another streaming query with lineage.job = {self.name!r} follows job {self.job!r}; give each query "
                "a name of its own, and run it once at a time",
                job=self.name,
            )
        if self._leads:
            self._leader = self._token
            return self._lead(start, is_lost=turn is None)
        self._leader = self._leader if turn is None else turn.leader
        if turn is None or turn.barrier <= (_NONE if start.barrier is None else start.barrier):
            self._check_sometimes(start)
            return None
        return self._batch(start, turn.barrier)

    def _lead(self, start: StreamOffset, *, is_lost: bool) -> FollowedBatch | None:
        """The next batch, written for the other sources; `is_lost`: the file is not there, or not any more."""
        if is_lost:
            self._written = None
        barrier = self._next_barrier(start)
        now = start.barrier if barrier is None else barrier
        if self._written != (_NONE if now is None else now):
            self._write(_NONE if now is None else now)
        return None if barrier is None else self._batch(start, barrier)

    def _next_barrier(self, start: StreamOffset) -> int | None:
        """The batch of the job after `start`; a new query begins with the newest."""
        is_new = start.barrier is None and start.snapshot_id is None
        after = _NONE if start.barrier is None else start.barrier
        self._ahead = [b for b in self._ahead if b > after] if not is_new else []
        if not self._ahead:
            if self.clock_s() - self._read_s < _READ_AGAIN_S:
                return None
            self._ahead = self._read_ahead(start, after)
        for barrier in reversed(self._ahead) if is_new else self._ahead:
            if not self._ended_within_a_snapshot(barrier):
                return barrier
        self._read_s = self.clock_s()
        self._check_sometimes(start)
        return None

    def _read_ahead(self, start: StreamOffset, after: int) -> list[int]:
        """The recorded batches of the job after one, ascending."""
        where = f"{column_equals('job', self.job)} AND barrier_id > {after}"
        if self._last_barrier is not None:
            where += f" AND barrier_id <= {self._last_barrier}"
        if start.barrier is None and start.snapshot_id:  # the query read on its own before, maybe further than the job
            own = f"{where} AND {table_is(self.home.ref)} AND snapshot_id >= {start.snapshot_id}"
            found = pc.min(self.index.read(SOURCE_SNAPSHOT, own).column("barrier_id")).as_py()
            if found is None:
                return []
            where += f" AND barrier_id >= {found}"
        return sorted(pc.unique(self.index.read(SOURCE_SNAPSHOT, where).column("barrier_id")).to_pylist())

    def _batch(self, start: StreamOffset, barrier: int) -> FollowedBatch:
        """The batch, with the newest snapshot of the branch that the job had read at its end."""
        where = f"{column_equals('job', self.job)} AND barrier_id <= {barrier}"
        if start.barrier is not None:
            where += f" AND barrier_id > {start.barrier}"
        rows = self.index.read(SOURCE_SNAPSHOT, f"{where} AND {table_is(self.home.ref)}").sort_by("barrier_id")
        newest = rows.column("snapshot_id")[-1].as_py() if len(rows) else start.snapshot_id or 0
        return FollowedBatch(barrier, newest)

    def _ended_within_a_snapshot(self, barrier: int) -> bool:
        """Whether a batch is known to have read a snapshot only in part: then its rows are at no snapshot."""
        where = f"{column_equals('job', self.job)} AND barrier_id = {barrier}"
        rows = self.index.read(SINK_SNAPSHOT, where).to_pylist()
        if not rows:
            return self._is_within(barrier, self._newest_provenance(barrier))
        warehouse = self.home.warehouse
        history = TableHistory({warehouse.url: warehouse})
        nodes = ((Node(warehouse.url, TableRef(row["database"], row["table"])), row["snapshot_id"]) for row in rows)
        return self._is_within(barrier, (history.provenance(node, snapshot_id) for node, snapshot_id in nodes))

    def _is_within(self, barrier: int, found: Iterable[Provenance | None]) -> bool:
        of_batch = next((p for p in found if p is not None and p.batch == (self.job, barrier)), None)
        return of_batch is not None and any(source.within is not None for source in of_batch.sources)

    def _newest_provenance(self, barrier: int) -> Iterator[Provenance]:
        """The provenance of the job's newest snapshots, back to those of batches before `barrier`.

        Rows of sinks are written after those of sources: a batch without one made no snapshot, or will have its row.
        """
        for row in self.index.read(SINK_JOB, column_equals("job", self.job)).to_pylist():
            newest = self.index.snapshots(TableRef(row["database"], row["table"]))
            for snapshot in islice(newest, _MOST_SEARCHED):
                found = decode_provenance(snapshot.properties)
                if found is not None and found.job == self.job:
                    yield found
                    if found.barrier < barrier:
                        break

    def _check_sometimes(self, start: StreamOffset) -> None:
        """Notice that the job was forgotten, which would be waited for without an end."""
        if self.clock_s() - self._checked_s >= _CHECK_AGAIN_S:
            self._check_job(start)
            known = registrations(self.home.warehouse).values()
            if any(r.job == self.job and r.ended_ms is not None for r in known):
                warn_once(
                    self.home.warehouse.url,
                    f"job {self.job!r} has ended; query {self.name!r}, which follows it, waits until it runs again. "
                    f"To read on alone, start the query again without {FOLLOW.key}",
                )

    def _check_job(self, start: StreamOffset | None = None) -> None:
        """Raises LineageError: the job cannot be followed here, or not from `start`."""
        self._checked_s = self.clock_s()
        url, asked = self.home.warehouse.url, f"option {FOLLOW.key} = {self.job!r}"
        if not read_settings(self.index).data:
            raise LineageError(
                f"{asked}: warehouse {url} does not record which snapshots jobs read; switch it on with "
                "catalog.lineage.enable()",
                job=self.job,
            )
        of_job = column_equals("job", self.job)
        reads = self.index.read(SOURCE_JOB, of_job).to_pylist()
        tables = sorted(f"{row['database']}.{row['table']}" for row in reads)
        if not tables:
            known = sorted(set(self.index.read(SOURCE_JOB).column("job").to_pylist()))
            shown = ", ".join(map(repr, known[:5])) + (f" and {len(known) - 5} more" if len(known) > 5 else "")
            raise LineageError(
                f"{asked}: no such job is recorded in warehouse {url} (there are {shown or 'none'}); start it first, "
                "or start this query without the option",
                job=self.job,
            )
        if self.home.ref.name not in tables:
            raise LineageError(
                f"{asked}: the job does not read {self.home.ref.name}; it reads {', '.join(tables)}", job=self.job
            )
        if not len(self.index.read(SINK_JOB, of_job)):
            raise LineageError(
                f"{asked}: the job writes no table of warehouse {url}, so that what it read of several tables is not "
                "recorded together; follow a job that writes a table there",
                job=self.job,
            )
        if start is not None and start.barrier is not None:
            newest = newest_barrier(self.index, SOURCE_SNAPSHOT, of_job)
            if newest < start.barrier:
                raise LineageError(
                    f"{asked}: the query has followed the job up to batch {start.barrier}, and the newest that is "
                    f"recorded is {'none' if newest == _NONE else newest}, as the job was forgotten and started again "
                    "with a new checkpoint; start this query with a new checkpoint too",
                    job=self.job,
                )

    @property
    def _path(self) -> str:
        return f"{self.home.warehouse.lineage_dir}/follow/{quote_name(self.name)}.json"

    def _turn(self) -> _Turn | None:
        return find_decoded(self.home.warehouse.store, self._path, _decode)

    def _write(self, barrier: int) -> None:
        if self._written is None:
            self._since_ns = self.clock_ns()
        data = encode_file(job=self.name, leader=self._token, sinceNs=self._since_ns, barrier=barrier)
        self.home.warehouse.store.write(self._path, data)
        self._written = barrier


def _decode(data: bytes, path: str) -> _Turn:
    raw: dict[str, Any] = checked_object(data, path)
    leader, since_ns, barrier = raw.get("leader"), raw.get("sinceNs"), raw.get("barrier")
    if not isinstance(leader, str) or not isinstance(since_ns, int) or not isinstance(barrier, int):
        raise CorruptFileError(f"{path} does not hold which batch a streaming query follows; remove it", path=path)
    return _Turn(leader, since_ns, barrier)
