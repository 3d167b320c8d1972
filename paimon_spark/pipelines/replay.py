"""Replay plan: how each job and SQL statement of a pipeline runs again on the branches.

A stream starts after the last snapshot of each source that the branch of its sink holds, by lineage. A batch statement
runs again as a whole. A branch has the changes of its first snapshot and later ones: a stream that needs earlier ones
cannot run again from it.

Each snapshot that a statement wrote keeps it. A statement that was run again keeps which snapshot of main it stands
for, so that it is not run twice, also when a process dies in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from paimon_spark.display import ShownAsFacts
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.lineage.asking.graph import NOWHERE, Graph, Node
from paimon_spark.lineage.asking.reach import read_by_job
from paimon_spark.lineage.asking.results import Met, ProvenanceOf
from paimon_spark.lineage.index.job_registry import Registration
from paimon_spark.lineage.index.provenance import StatementRecord, decode_statement
from paimon_spark.lineage.recording.snapshot_provenance import read_snapshot_provenance
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.layout import MAIN
from paimon_spark.metadata.snapshots import list_snapshot_ids, read_alive
from paimon_spark.pipelines.scope import Scope
from paimon_spark.text import counted, moment, safe

STREAM: Final = "stream"
BATCH: Final = "batch"
SNAPSHOT_ID: Final = "scan.snapshot-id"


@dataclass(frozen=True, slots=True, repr=False)
class ReplayStep(ShownAsFacts):
    """How one job runs again.

    Attributes:
        job: its name in lineage.
        kind: `stream` or `batch`.
        sources: the tables that it reads: `db.t$branch_fix` where the table has the branch, else `db.t`.
        start_options: source, named as in `sources` → options of its read. Empty: it reads the source from its
            beginning, or a batch reads it whole.
        sinks: the branches that it writes.
        order: its place, from 1; jobs with the same number may run side by side.
        checkpoint: a new location for a stream: the job's own one, which production goes on using, with the branch's
            name; None for batch jobs, and where the job's own is not known.
        missing: source, named as in `sources` → why the stream cannot run again: its branch begins too late.
        notes: what to look at before it runs.
        statements: number of its SQL statements that can be run again from their recorded text.
    """

    job: str
    kind: str
    sources: tuple[str, ...]
    start_options: Mapping[str, Mapping[str, str]]
    sinks: tuple[str, ...]
    order: int
    checkpoint: str | None = None
    missing: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = field(default=())
    statements: int = 0

    @property
    def settings(self) -> dict[str, str]:
        """Settings of a Spark session in which the unchanged job starts there: the branch, and `start_options`.

        They hold for the reads of attached catalogs by name, as of `spark.readStream.table("paimon.shop.orders")`, and
        only for a new checkpoint. In classic sessions a query with the name of the job needs only the branch.
        """
        branch = next((parts[1] for sink in self.sinks if (parts := sink.partition("$branch_")[::2])[1]), "")
        starts = {
            f"spark.paimon.*.{source.partition('$branch_')[0]}.{key}": value
            for source, options in self.start_options.items()
            for key, value in options.items()
        }
        return {"spark.paimon.branch": branch, **starts}

    def text_lines(self) -> list[str]:
        out = [f"{self.order}. {self.kind} {safe(self.job)}: writes {safe(', '.join(self.sinks))}"]
        for source in self.sources:
            options = self.start_options.get(source)
            how = ", ".join(f"{k}={v}" for k, v in options.items()) if options else "from its beginning"
            how = "not possible, see below" if source in self.missing else how
            out.append(f"   reads {safe(source)}" + (f": {how}" if self.kind == STREAM else ""))
        if self.checkpoint is not None:
            out.append(f"   checkpoint {safe(self.checkpoint)}")
        if self.statements:
            out.append(f"   {counted(self.statements, 'recorded statement')}, which `pipeline rerun` runs again")
        out += [f"   cannot run: {safe(why)}" for why in self.missing.values()]
        return [*out, *(f"   note: {safe(note)}" for note in self.notes)]


def replay_plan(
    scope: Scope,
    graph: Graph,
    branch: str,
    starts: Mapping[Node, int | None],
    queries: Mapping[str, tuple[str, Registration]],
    provenance_of: ProvenanceOf | None,
) -> list[ReplayStep]:
    """The steps, in the order of the data flow.

    Args:
        scope: of the pipeline.
        graph: loaded with the rows of snapshots upstream of its tables.
        branch: name of the pipeline branch.
        starts: tables that have the branch → the snapshot of main that it starts from.
        queries: streaming jobs → query id and registration.
        provenance_of: as of `lineage.asking.reach.upstream`.
    """
    steps = []
    for job, same in _by_job(scope.jobs, queries).items():
        inside = [one for one in same if one in scope.sinks]
        sinks = list(dict.fromkeys(node for one in inside for node in scope.sinks[one] if node in starts))
        if not sinks:
            continue
        is_stream = any(one in queries for one in same)
        names = {node: _name(node, branch, starts) for one in inside for node in scope.sources[one]}
        options: dict[str, dict[str, str]] = {}
        notes: list[str] = []
        missing: dict[str, str] = {}
        newest = job
        if is_stream:
            newest = _newest(graph, same, sinks, starts, provenance_of)
            for node, name in names.items():
                options[name], note = _start(graph, same, node, sinks, starts, provenance_of)
                notes += [note] if note else []
                if why := _missing(options[name], node, job, branch, starts):
                    options[name], missing[name] = {}, why
        elif not graph.is_batch(job):
            notes.append("lineage does not know whether it is a stream; if it is, give it a new checkpoint")
        steps.append(
            ReplayStep(
                job,
                STREAM if is_stream else BATCH,
                tuple(names.values()),
                {name: found for name, found in options.items() if found},
                tuple(_name(node, branch, starts) for node in sinks),
                max(scope.order[one] for one in inside),
                _checkpoint(queries[newest][1].checkpoint if newest in queries else None, branch),
                missing,
                tuple(notes),
            )
        )
    return steps


def _by_job(jobs: Iterable[str], queries: Mapping[str, tuple[str, Registration]]) -> dict[str, list[str]]:
    """Names of jobs by the job that they are: a query that replayed a job on a branch is that job.

    A published branch may have made main of a query that lineage knows on the branch alone.
    """
    found: dict[str, list[str]] = {}
    for job in jobs:
        replayed = queries[job][1].replays if job in queries else None
        found.setdefault(replayed or job, []).append(job)
    for job, (_, registration) in sorted(queries.items()):
        if registration.replays in found and job not in found[registration.replays]:
            found[registration.replays].append(job)
    return found


def _newest(
    graph: Graph,
    same: Sequence[str],
    sinks: Sequence[Node],
    starts: Mapping[Node, int | None],
    provenance_of: ProvenanceOf | None,
) -> str:
    """Of the queries that ran a job, the one that read most of what its sinks hold."""

    def read(job: str) -> int:
        return sum(met.last for sink in sinks for met in _met(graph, job, sink, starts[sink], provenance_of).values())

    return max(same, key=read)


def _met(
    graph: Graph, job: str, sink: Node, start: int | None, provenance_of: ProvenanceOf | None
) -> Mapping[Node, Met]:
    """Positions of a query in main of each source; branches published with its sink count as main."""
    found = {} if start is None else read_by_job(graph, job, sink, start, provenance_of)
    mains = {Node(n.warehouse, n.ref.on_branch(MAIN)): met for n, met in found.items() if n.ref != NOWHERE}
    return {**mains, **found}


def _name(node: Node, branch: str, starts: Mapping[Node, int | None]) -> str:
    return f"{node.name}$branch_{branch}" if node in starts else node.name


def _checkpoint(own: str | None, branch: str) -> str | None:
    return None if own is None else f"{own.rstrip('/')}-{branch}"


def _start(
    graph: Graph,
    same: Sequence[str],
    source: Node,
    sinks: Iterable[Node],
    starts: Mapping[Node, int | None],
    provenance_of: ProvenanceOf | None,
) -> tuple[dict[str, str], str | None]:
    """Options by which a stream reads what its sinks lack of a source, and a note where that is not exact."""
    read: dict[Node, int] = {}
    within = None
    for sink in sinks:
        every = [_met(graph, job, sink, starts[sink], provenance_of).get(source) for job in same]
        found = max((m for m in every if m is not None), key=lambda m: m.last, default=None)
        read[sink] = 0 if found is None else found.last
        within = within or (None if found is None else found.within)
    first = min(read.values()) + 1
    note = None
    if len(set(read.values())) > 1:
        ends = ", ".join(f"{sink.name} up to {last}" for sink, last in read.items())
        note = f"its sinks hold {source.name} to different snapshots ({ends}); rows between them are written again"
    elif within is not None:
        note = f"its sinks hold a part of {source.name}, snapshot {within}; that part is written again"
    if first == 1:
        return {}, note
    return {"scan.mode": "from-snapshot", SNAPSHOT_ID: str(first)}, note


def _missing(
    options: Mapping[str, str], source: Node, job: str, branch: str, starts: Mapping[Node, int | None]
) -> str | None:
    """Why a stream cannot start there: the branch of the source begins with a later snapshot."""
    first, begins = int(options.get(SNAPSHOT_ID, 0)), starts.get(source)
    if not first or begins is None or first >= begins:
        return None
    return (
        f"stream {job!r} must read {source.name} from snapshot {first} on, but its branch begins at {begins}; delete "
        f"the pipeline branch, and make it without {source.name}: the stream then reads main"
    )


@dataclass(frozen=True, slots=True, repr=False)
class RecordedStatement(ShownAsFacts):
    """A statement that wrote a snapshot of main of a table.

    Attributes:
        job: its name in lineage.
        table: that it wrote, `db.t`.
        snapshot_id: that it made.
        time_ms: when, in epoch milliseconds.
        statement: and what its names mean.
        is_done: whether it was run again on the branch.
        is_known: whether the warehouse's registry of jobs knows the job. Else another writer has put it there.
    """

    job: str
    table: str
    snapshot_id: int
    time_ms: int
    statement: StatementRecord
    is_done: bool = False
    is_known: bool = True

    @property
    def sql(self) -> str:
        """The statement, with the values of its parameters if its snapshot keeps them."""
        return self.statement.sql

    @property
    def to_run(self) -> StatementRecord:
        """The statement, as it is run again: recorded under the job that wrote it."""
        return replace(self.statement, again=(self.table, self.snapshot_id), job=self.job)

    def text_lines(self) -> list[str]:
        done = ", run again" if self.is_done else ""
        known = "" if self.is_known else ", a job that this warehouse has not registered"
        return [
            f"{safe(self.table)}, snapshot {self.snapshot_id}, {moment(self.time_ms)}{done}: {safe(self.job)}{known}",
            f"  {safe(' '.join(self.sql.split()))}",
        ]

    def to_dict(self) -> dict[str, object]:
        """The same as plain values that JSON can hold."""
        return {
            "job": self.job,
            "table": self.table,
            "snapshot_id": self.snapshot_id,
            "time_ms": self.time_ms,
            "sql": self.sql,
            "is_done": self.is_done,
            "is_known": self.is_known,
        }


def recorded_statements(
    mains: Mapping[str, TableHandle],
    branches: Mapping[str, TableHandle],
    starts: Mapping[str, int | None],
    is_registered: Callable[[str], bool],
) -> list[RecordedStatement]:
    """The statements that made snapshots of main after those that the branches start from, in the order of commits.

    Those of expired snapshots are unknown.

    Args:
        mains: main of each table.
        branches: the branch of each table; none of a pipeline branch that is only planned.
        starts: table → the snapshot of main that its branch starts from; None: it starts empty.
        is_registered: whether the registry of jobs has a name.
    """
    found = []
    for table, main in mains.items():
        branch = branches.get(table)
        done = set() if branch is None else {s.again for s in _statements(branch, starts[table] or 0)}
        for snapshot in _after(main, starts[table] or 0):
            provenance, statement = read_snapshot_provenance(snapshot), decode_statement(snapshot.properties)
            if statement is None or provenance is None or provenance.is_copy:
                continue
            found.append(
                RecordedStatement(
                    provenance.provenance.job,
                    table,
                    snapshot.id,
                    snapshot.time_ms,
                    replace(statement, again=None),
                    (table, snapshot.id) in done,
                    is_registered(provenance.provenance.job),
                )
            )
    return sorted(found, key=lambda s: (s.time_ms, s.table, s.snapshot_id))


def _statements(branch: TableHandle, after: int) -> Iterator[StatementRecord]:
    for snapshot in _after(branch, after):
        statement = decode_statement(snapshot.properties)
        if statement is not None:
            yield statement


def _after(handle: TableHandle, snapshot_id: int) -> list[Snapshot]:
    return read_alive(handle, [i for i in list_snapshot_ids(handle) if i > snapshot_id])
