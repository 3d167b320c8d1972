"""Snapshots that were written without recorded lineage, so that their sources are unknown.

Answers name them, as they cannot join them. Compactions and analyses do not count, as they add no rows; neither do
snapshots that only removed rows, that hold none, or whose batch another engine wrote into the lineage tables. A job
that is recorded may not know all its sources: its snapshots are among them, with its name.

Cost: of each branch that is looked at its newest snapshots, at most 100, several branches at a time; what was seen is
remembered, so the next question of the process reads the head of each branch and what is new.

A declared source (`catalog.lineage.declare_source`) has no unrecorded snapshots, on any of its branches.

Source: own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from paimon_spark.engine.commit.requests import ROWS_STAY
from paimon_spark.errors import PaimonError
from paimon_spark.format.metadata_files.snapshot import CommitKind
from paimon_spark.lineage.asking.graph import Node
from paimon_spark.lineage.index.provenance import JOB, decode_provenance
from paimon_spark.lineage.index.tables import SINK_JOB, SINK_SNAPSHOT, job_is_in, read_settings, settings_of
from paimon_spark.lineage.index.warehouse import quote_name
from paimon_spark.metadata.branches import is_internal_branch
from paimon_spark.metadata.layout import MAIN
from paimon_spark.redaction import get_logger

if TYPE_CHECKING:
    from paimon_spark.format.metadata_files.snapshot import Snapshot
    from paimon_spark.lineage.index.provenance import TableRef
    from paimon_spark.lineage.index.tables import Index

_LOG = get_logger(__name__)
_LOOKED_BACK: Final = 100
"""Newest snapshots of a branch that are looked at."""
_THREADS: Final = 16
_MOST_NAMES: Final = 1000
"""Snapshots of a branch that are remembered."""
_MOST: Final = 10_000
"""Branches that are remembered."""
CLOCK_SKEW_MS: Final = 600_000
"""By how much the clocks of two writers may differ."""
_REMOVING: Final = ("DELETE", "TRUNCATE")
_SHOWN_TABLES: Final = 2


@dataclass(frozen=True, slots=True)
class UnrecordedSnapshot:
    """A snapshot of which not all sources are known.

    Attributes:
        time_ms: when it was committed, epoch milliseconds.
        operation: the writer's name for the commit, where it gave one.
        job: the recorded job that made it without knowing all its sources; None: no job recorded it.
    """

    id: int
    time_ms: int
    commit_user: str
    operation: str | None = None
    job: str | None = None


@dataclass(frozen=True, slots=True)
class UnrecordedTable:
    """The unrecorded snapshots of a branch of a table, ascending by id; the newest 100 of the branch were looked at."""

    node: Node
    snapshots: tuple[UnrecordedSnapshot, ...]

    def to_dict(self) -> dict[str, Any]:
        """The same as plain values that JSON can hold."""
        snapshots = [asdict(s) for s in self.snapshots]
        return {"name": self.node.name, "warehouse": self.node.warehouse, "snapshots": snapshots}


@dataclass(frozen=True, slots=True)
class Unrecorded:
    """Writes without recorded lineage, in the tables of a question. Iterates over the tables.

    Attributes:
        tables: those with unrecorded snapshots, by name.
        is_whole: False when older snapshots, or a table that could not be read, were not looked at.
    """

    tables: tuple[UnrecordedTable, ...] = ()
    is_whole: bool = True

    def __iter__(self) -> Iterator[UnrecordedTable]:
        return iter(self.tables)

    def __len__(self) -> int:
        return len(self.tables)

    def lines(self) -> list[str]:
        """A line for all tables, and one for those of recorded jobs, as answers show them; details are in `tables`."""
        tables = [t for t in self.tables if not is_internal_branch(t.node.ref.branch)]
        foreign = [(t, [s for s in t.snapshots if s.job is None]) for t in tables]
        of_jobs = [(t, [s for s in t.snapshots if s.job is not None]) for t in tables]
        foreign, of_jobs = ([(t, some) for t, some in found if some] for found in (foreign, of_jobs))
        out = []
        if foreign:
            first = foreign[0][0].node.ref.on_branch(MAIN).name
            out.append(
                f"sources unknown: {_few_tables(foreign)}, written without recorded lineage; for rows from "
                f"outside: catalog.lineage.declare_source({first!r})"
            )
        if of_jobs:
            jobs = dict.fromkeys(s.job for _, some in of_jobs for s in some if s.job is not None)
            out.append(f"not all sources known: {_few_tables(of_jobs)}, written by {_few_jobs(list(jobs))}")
        if not self.is_whole:
            out.append(
                f"snapshots before the newest {_LOOKED_BACK} of a table, or tables that could not be read, were not "
                "searched for unrecorded writes"
            )
        return out


NOTHING: Final = Unrecorded()


def find_unrecorded(
    indexes: Sequence[Index],
    nodes: Mapping[Node, int | None] | None = None,
    *,
    since_ms: int = 0,
    besides: Node | None = None,
) -> Unrecorded:
    """The unrecorded snapshots of tables. Never raises: what cannot be read is left out, and `is_whole` is False.

    Args:
        indexes: the lineage tables of each warehouse.
        nodes: branches to look at, with the newest snapshot that counts (None: the head); None: all of the warehouses.
        since_ms: snapshots from this moment on, in epoch milliseconds, but for differences of clocks.
        besides: a branch that does not count.
    """
    since_ms = max(0, since_ms - CLOCK_SKEW_MS)
    found: list[UnrecordedTable] = []
    is_whole = True
    for index in indexes:
        url = index.warehouse.url
        try:
            looked = _without_declared(index, _search(index, nodes, since_ms))
            by_ref = {ref: list(some.snapshots) for ref, some in looked.items() if some is not None}
            by_rows = _of_other_engines(index, {ref for ref, some in by_ref.items() if some})
        except PaimonError as e:
            _LOG.warning("cannot search %s for writes without lineage: %s", url, e)
            is_whole = False
            continue
        is_whole &= all(some is not None and some.is_whole for some in looked.values())
        for ref, snapshots in sorted(by_ref.items()):
            node = Node(url, ref)
            newest = None if nodes is None else nodes[node]
            kept = [
                s
                for s in snapshots
                if s.time_ms >= since_ms
                and (newest is None or s.id <= newest)
                and (s.job is not None or not by_rows(ref, s.id))
            ]
            if kept and node != besides:
                found.append(UnrecordedTable(node, tuple(sorted(kept, key=lambda s: s.id))))
    return Unrecorded(tuple(found), is_whole)


@dataclass(frozen=True, slots=True)
class _Looked:
    """Result of searching a branch.

    Attributes:
        head_id, made: its newest snapshot then, with the name of its delta manifest list; 0 when it had none.
        since_ms: older snapshots were not looked at.
        snapshots: the unrecorded ones.
        names: id and delta manifest list of each snapshot that was looked at.
        is_whole: whether all snapshots alive since then were.
    """

    head_id: int
    made: str
    since_ms: int
    snapshots: tuple[UnrecordedSnapshot, ...] = ()
    names: frozenset[tuple[int, str]] = frozenset()
    is_whole: bool = True


_REMEMBERED: Final[dict[tuple[tuple[str, str], TableRef], _Looked]] = {}


def _search(index: Index, nodes: Iterable[Node] | None, since_ms: int) -> dict[TableRef, _Looked | None]:
    """Some branches, or all of all tables: a snapshot that a branch has of main is main's."""
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="paimon-lineage-look") as pool:
        if nodes is not None:
            refs = sorted({n.ref for n in nodes if n.warehouse == index.warehouse.url})
            return dict(zip(refs, pool.map(lambda ref: _look_or_none(index, ref, since_ms), refs), strict=True))
        tables = list(index.table_names())
        by_table = pool.map(lambda table: _look_at_table(index, table[0], table[1], since_ms), tables)
        return {ref: looked for some in by_table for ref, looked in some.items()}


def _without_declared(index: Index, looked: dict[TableRef, _Looked | None]) -> dict[TableRef, _Looked | None]:
    """Without the branches of declared sources. Raises StorageError."""
    if all(some is not None and some.is_whole and not some.snapshots for some in looked.values()):
        return looked
    declared = read_settings(index).declared
    return {ref: some for ref, some in looked.items() if ref.on_branch(MAIN).name not in declared}


def _look_at_table(index: Index, database: str, table: str, since_ms: int) -> dict[TableRef, _Looked | None]:
    try:
        refs = sorted(index.branches(database, table))
    except PaimonError as e:
        _LOG.warning("cannot search %s.%s for writes without lineage: %s", database, table, e)
        return {}
    out = {ref: _look_or_none(index, ref, since_ms) for ref in refs}
    main = next((some for ref, some in out.items() if ref.table == ref.bare and some is not None), None)
    for ref, some in out.items():
        if main is not None and some is not None and some is not main:
            shared = {i for i, _ in some.names & main.names}
            out[ref] = replace(some, snapshots=tuple(s for s in some.snapshots if s.id not in shared))
    return out


def _look_or_none(index: Index, ref: TableRef, since_ms: int) -> _Looked | None:
    try:
        return _look(index, ref, since_ms)
    except PaimonError as e:
        _LOG.warning("cannot search %s for writes without lineage: %s", ref.name, e)
        return None


def _look(index: Index, ref: TableRef, since_ms: int) -> _Looked:
    """A branch: what is new since the last look at it, else its newest snapshots. Raises StorageError."""
    key = index.warehouse.identity, ref
    known = _REMEMBERED.get(key)
    if known is not None and known.head_id and known.since_ms <= since_ms and len(known.names) < _MOST_NAMES:
        newer: list[Snapshot] = []
        for snapshot in index.snapshots(ref, known.head_id - 1):
            if snapshot.id == known.head_id:
                if snapshot.delta_manifest_list == known.made:
                    return _remember(key, _joined(newer, known))
                break  # rolled back, and written again
            if len(newer) == _LOOKED_BACK:
                break
            newer.append(snapshot)
    taken: list[Snapshot] = []
    searched = _Looked(0, "", since_ms=0)
    for snapshot in index.snapshots(ref):
        if snapshot.time_ms < since_ms:
            searched = replace(searched, since_ms=since_ms)
            break
        if len(taken) == _LOOKED_BACK:
            searched = replace(searched, is_whole=False)
            break
        taken.append(snapshot)
    return _remember(key, _joined(taken, searched))


def _joined(newer: Sequence[Snapshot], known: _Looked) -> _Looked:
    """Findings joined with newer snapshots, newest first."""
    if not newer:
        return known
    found = tuple(u for s in newer if (u := _unrecorded(s)) is not None)
    names = known.names.union((s.id, s.delta_manifest_list) for s in newer)
    head_id, made = newer[0].id, newer[0].delta_manifest_list
    return replace(known, head_id=head_id, made=made, snapshots=(*found, *known.snapshots), names=names)


def _remember(key: tuple[tuple[str, str], TableRef], looked: _Looked) -> _Looked:
    if len(_REMEMBERED) >= _MOST:
        _REMEMBERED.clear()
    _REMEMBERED[key] = looked
    return looked


def _unrecorded(s: Snapshot) -> UnrecordedSnapshot | None:
    """A snapshot that brought rows in of which not all sources are known; None for any other."""
    if s.commit_kind in (CommitKind.COMPACT, CommitKind.ANALYZE) or ROWS_STAY in (s.properties or {}):
        return None
    provenance = decode_provenance(s.properties)
    job = None if provenance is None else provenance.job
    found = UnrecordedSnapshot(s.id, s.time_ms, s.commit_user, s.operation, job)
    if provenance is not None:
        return None if provenance.knows_sources else found
    if JOB in (s.properties or {}):  # of a later release
        return None
    is_empty = s.total_record_count == 0 or (s.commit_kind is CommitKind.APPEND and s.delta_record_count == 0)
    return None if is_empty or s.operation in _REMOVING else found


def _of_other_engines(index: Index, refs: set[TableRef]) -> Callable[[TableRef, int], bool]:
    """Whether there are rows of a snapshot without provenance, as of those of other engines. Raises StorageError.

    Snapshots of our own jobs always have provenance, where snapshots are recorded.
    """
    if not refs:
        return lambda ref, snapshot_id: False
    rows = index.read(SINK_JOB).to_pylist()
    of_refs = [(row["job"], (row["database"], row["table"])) for row in rows if (row["database"], row["table"]) in refs]
    if not settings_of(index).data:  # only tables are recorded
        written = {ref for _, ref in of_refs}
        return lambda ref, snapshot_id: ref in written
    folder = f"{index.warehouse.lineage_dir}/jobs"
    registered = {i.name for i in index.warehouse.store.list(folder)} if of_refs else set()
    foreign = {job for job, _ in of_refs if f"{quote_name(job)}.json" not in registered}
    if not foreign:
        return lambda ref, snapshot_id: False
    table = index.read(SINK_SNAPSHOT, job_is_in(foreign))
    columns = (table[name].to_pylist() for name in ("database", "table", "snapshot_id"))
    known = set(zip(*columns, strict=True))
    return lambda ref, snapshot_id: (*ref, snapshot_id) in known


def _few_tables(found: Sequence[tuple[UnrecordedTable, Sequence[UnrecordedSnapshot]]]) -> str:
    """The first tables, with how many snapshots each has."""
    shown = []
    for table, some in found[:_SHOWN_TABLES]:
        count = "snapshot" if len(some) == 1 else f"{len(some)} snapshots, newest"
        shown.append(f"{table.node.name} ({count} {some[-1].id})")
    left = len(found) - len(shown)
    return ", ".join(shown) + (f" and {left} more table{'' if left == 1 else 's'}" if left else "")


def _few_jobs(jobs: Sequence[str]) -> str:
    """The first job, and how many others."""
    left = len(jobs) - 1
    return f"job {jobs[0]}" + (f" and {left} more" if left else "")
