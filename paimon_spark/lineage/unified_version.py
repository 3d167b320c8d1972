"""Unified version: the newest snapshots of tables that stem from the same source snapshots.

Source: PIP-5, "Query Data Lineage"; docs/design/lineage.md.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from paimon_spark.errors import LineageError
from paimon_spark.lineage.alignment import Alignment, History, NewestBetween
from paimon_spark.lineage.batch_sequence import FAR
from paimon_spark.lineage.graph import Graph, Node
from paimon_spark.lineage.reach import upstream

ROWS_ONLY: Final = History()
_SEARCHED: Final = 1000
"""Most snapshots checked that no job recorded and that may be newer ones of the same content."""
_SHOWN: Final = 2
"""Snapshots of a table that an error names."""


@dataclass(frozen=True, slots=True)
class Unified:
    """Snapshots that stem from the same snapshots.

    Attributes:
        snapshots: of the tables asked about.
        sources: of the tables they come from, at every level: the one snapshot at which all of them met it; 0 where
            nothing had been read of it yet.
        barriers: (table, job that writes it) → the newest batch in `snapshots`; -1: none yet.
    """

    snapshots: Mapping[Node, int]
    sources: Mapping[Node, int]
    barriers: Mapping[tuple[Node, str], int]


def unified_version(
    graph: Graph,
    tables: Sequence[Node],
    history: History = ROWS_ONLY,
    ignoring: Collection[str] = (),
    older_than: Mapping[Node, int] | None = None,
) -> Unified:
    """The newest snapshots of `tables` such that every table above them is met at one snapshot only.

    Args:
        graph: loaded with `Direction.UP`.
        tables: to be queried together.
        history: of the tables of the graph.
        ignoring: jobs whose rows do not count: such as have ended, and whose tables another job goes on writing. What
            they made after the others is left out: the answer is the newest snapshot that the others made.
        older_than: table → the snapshot that its answer is to be older than; other tables are not bounded.

    Raises:
        LineageError: an unknown table, or no consistent snapshots; names the tables that differ, and what helps.
    """
    if not tables:
        raise LineageError("a unified version needs at least one table")
    for node in tables:
        graph.check_table(node)
    search = Alignment(graph, tables, history, ignoring)
    for node, snapshot in (older_than or {}).items():
        if node in search.tables:
            search.drop(node, snapshot)
    newest_between = history.newest_between
    expired: dict[Node, int] = {}
    while True:
        search.lower()
        chosen: dict[Node, int] = {}
        older: dict[Node, int] = {}
        for node in dict.fromkeys(tables):
            recorded = search.recorded(node)
            if found := _alive(search, node, recorded, newest_between):
                chosen[node] = found
                continue
            head = newest_between(node, 1, None) if newest_between else None
            if recorded and (head is None or recorded <= head):  # else a merge or a roll-back took it
                expired.setdefault(node, recorded)
            if not recorded or newest_between is None or not (before := newest_between(node, 1, recorded)):
                gone = recorded > 0 and newest_between is not None and head is None
                raise _no_version(graph, tables, node, search, ignoring, expired, history, gone=gone)
            older[node] = before
        if not older:
            break
        for node, before in older.items():
            search.drop(node, min(before + 1, search.recorded(node)))
    sources = {n: search.recorded(n) for n in search.tables if n not in chosen}
    barriers = {pair: _barrier(graph, *pair, bound) for pair, bound in search.barriers.items()}
    return Unified(chosen, sources, barriers)


def start_snapshots(
    graph: Graph, tables: Sequence[Node], history: History = ROWS_ONLY, ignoring: Collection[str] = ()
) -> Mapping[Node, int]:
    """The snapshots that a new job starts from which reads these tables whole at first, and their changes from then on.

    The unified version of those that jobs write or read; a table that no job knows starts from its head, as
    `newest_between` tells. Arguments and errors as of `unified_version`.
    """
    known = [n for n in tables if n in graph.read_by or n in graph.written_by]
    found: dict[Node, int] = {}
    if known:
        found.update(unified_version(graph, known, history, ignoring).snapshots)
    for node in tables:
        if node in found:
            continue
        if history.newest_between is None:
            graph.check_table(node)
        elif head := history.newest_between(node, 1, None):
            found[node] = head
        else:
            raise LineageError(
                f"table {node.name!r} has no snapshot yet to start from; write it first, or leave it out",
                table=node.name,
            )
    return {node: found[node] for node in tables}


def _alive(search: Alignment, node: Node, recorded: int, newest_between: NewestBetween | None) -> int | None:
    """The newest snapshot alive of a state; None when none is."""
    if newest_between is None:
        return recorded or None
    first, bound = max(recorded, 1), search.snapshot(node)
    head = newest_between(node, first, None if bound == FAR else bound)
    if head is None or head <= recorded or not search.is_written(node):
        return head
    same = recorded
    while same < min(head, recorded + _SEARCHED) and (
        search.is_compaction(node, same + 1) or search.lacks_provenance(node, same + 1)
    ):
        same += 1
    return newest_between(node, first, same) if same < head else head


def _barrier(graph: Graph, node: Node, job: str, bound: int) -> int:
    """The newest recorded batch of a job up to a bound; -1 without any."""
    if bound < FAR:
        return bound
    return max([graph.sinks(job, node).newest, *(graph.sources(job, s).newest for s in graph.sources_of(job, node))])


def _no_version(
    graph: Graph,
    tables: Sequence[Node],
    without: Node,
    search: Alignment,
    ignoring: Collection[str],
    expired: Mapping[Node, int],
    history: History,
    *,
    gone: bool,
) -> LineageError:
    """The error when no snapshots fit."""
    asked = ", ".join(n.name for n in tables)
    made = {n: s for n in tables if (s := graph.newest(n))}
    if without not in made:
        why = (
            f"no snapshot of {without.name} is recorded; run a job that writes it with lineage switched on, or leave "
            "the table out"
        )
    elif gone:
        why = f"{without.name} has no snapshots any more, or is gone itself; leave it out"
    elif expired:
        why = (
            "the newest recorded snapshots that stem from the same snapshots have expired: "
            f"{', '.join(f'{n.name} at {s}' for n, s in expired.items())}; keep snapshots longer "
            "(snapshot.time-retained), or tag them"
        )
    else:
        why = _why_none_fits(graph, made, search, ignoring, history)
    return LineageError(f"no unified version of {asked}: {why}", tables=[n.name for n in tables])


def _why_none_fits(
    graph: Graph, made: Mapping[Node, int], search: Alignment, ignoring: Collection[str], history: History
) -> str:
    """Name a table upstream that is met at different snapshots, and what helps."""
    met: dict[Node, dict[int, str]] = {}
    for node, snapshot in made.items():
        if node in search.tables:
            met.setdefault(node, {}).setdefault(snapshot, "itself")
        for above in upstream(graph, node, snapshot, history.provenance_of).tables:
            for m in above.met:
                if m.job not in ignoring:
                    last = search.canonical(above.node, m.last)
                    met.setdefault(above.node, {}).setdefault(last, f"{node.name}, job {m.job!r}")
    differing = {node: at for node, at in met.items() if len(at) > 1}
    helps = "wait for the job behind, or leave out a job that has ended (ignoring=[…])"
    if not differing:
        return f"they share no snapshots of their sources; {helps}"
    node, at = next(iter(differing.items()))
    shown = " and ".join(f"{s} ({by})" for s, by in sorted(at.items())[:_SHOWN])
    shown += f" and {len(at) - _SHOWN} more" if len(at) > _SHOWN else ""
    return f"they hold {node.name} up to different snapshots: {shown}; {helps}"
