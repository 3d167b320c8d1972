"""Unified version: the newest snapshots of tables that stem from the same source snapshots.

Source: PIP-5, "Query Data Lineage"; docs/design/lineage.md.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from paimon_spark.errors import LineageError
from paimon_spark.lineage.asking.alignment import Alignment
from paimon_spark.lineage.asking.batch_sequence import FAR
from paimon_spark.lineage.asking.graph import Graph, Node
from paimon_spark.lineage.asking.reach import upstream
from paimon_spark.lineage.asking.snapshot_facts import SnapshotFacts

ROWS_ONLY: Final = SnapshotFacts()
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
    facts: SnapshotFacts = ROWS_ONLY,
    ignoring: Collection[str] = (),
    older_than: Mapping[Node, int] | None = None,
) -> Unified:
    """The newest snapshots of `tables` such that every table above them is met at one snapshot only.

    Args:
        graph: loaded with `Direction.UP`.
        tables: to be queried together.
        facts: about the snapshots of the tables of the graph.
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
    asked = tuple(dict.fromkeys(tables))
    alignment = Alignment(graph, tables, facts, ignoring)
    search = _Search(graph, asked, facts, ignoring, alignment)
    for node, snapshot in (older_than or {}).items():
        if node in alignment.tables:
            alignment.drop(node, snapshot)
    while True:
        alignment.lower()
        chosen = {node: search.newest_alive(node) for node in asked}
        if all(chosen.values()):
            break
        # An expired snapshot is no answer: the table goes on to an older one, and the others follow it.
        for node, snapshot in chosen.items():
            if not snapshot:
                alignment.drop(node, search.snapshot_before(node))
    sources = {n: alignment.recorded(n) for n in alignment.tables if n not in chosen}
    barriers = {pair: _barrier(graph, *pair, bound) for pair, bound in alignment.barriers.items()}
    return Unified(chosen, sources, barriers)


def start_snapshots(
    graph: Graph, tables: Sequence[Node], facts: SnapshotFacts = ROWS_ONLY, ignoring: Collection[str] = ()
) -> Mapping[Node, int]:
    """The snapshots that a new job starts from which reads these tables whole at first, and their changes from then on.

    The unified version of those that jobs write or read; a table that no job knows starts from its head, as
    `newest_between` tells. Arguments and errors as of `unified_version`.
    """
    known = [n for n in tables if n in graph.read_by or n in graph.written_by]
    found: dict[Node, int] = {}
    if known:
        found.update(unified_version(graph, known, facts, ignoring).snapshots)
    for node in tables:
        if node in found:
            continue
        if facts.newest_between is None:
            graph.check_table(node)
        elif head := facts.newest_between(node, 1, None):
            found[node] = head
        else:
            raise LineageError(
                f"table {node.name!r} has no snapshot yet to start from; write it first, or leave it out",
                table=node.name,
            )
    return {node: found[node] for node in tables}


def _barrier(graph: Graph, node: Node, job: str, bound: int) -> int:
    """The newest recorded batch of a job up to a bound; -1 without any."""
    if bound < FAR:
        return bound
    return max([graph.sinks(job, node).newest, *(graph.sources(job, s).newest for s in graph.sources_of(job, node))])


@dataclass(slots=True)
class _Search:
    """Search for a state whose snapshots are alive, and the error when there is none.

    Attributes:
        asked: the tables to be queried together, each once.
        expired: table → its first recorded snapshot that fits and is not alive any more.
    """

    graph: Graph
    asked: Sequence[Node]
    facts: SnapshotFacts
    ignoring: Collection[str]
    alignment: Alignment
    expired: dict[Node, int] = field(default_factory=dict)

    def newest_alive(self, node: Node) -> int:
        """The newest snapshot alive of a table in the state that the alignment has found; 0 when none is."""
        alignment, newest_between = self.alignment, self.facts.newest_between
        recorded = alignment.recorded(node)
        if newest_between is None:
            return recorded
        first, bound = max(recorded, 1), alignment.snapshot(node)
        head = newest_between(node, first, None if bound == FAR else bound) or 0
        if head <= recorded or not alignment.is_written(node):
            return head
        # Snapshots without rows have the content of the state only as far as each has no provenance: one of a job
        # whose rows are late must not pass for a manual write.
        same = recorded
        while same < min(head, recorded + _SEARCHED) and (
            alignment.is_compaction(node, same + 1) or alignment.lacks_provenance(node, same + 1)
        ):
            same += 1
        return (newest_between(node, first, same) or 0) if same < head else head

    def snapshot_before(self, node: Node) -> int:
        """The snapshot that a table is to be older than, as none of its present state is alive.

        Raises LineageError: no older one is alive.
        """
        recorded, newest_between = self.alignment.recorded(node), self.facts.newest_between
        head = self._head(node)
        if recorded and (head is None or recorded <= head):  # else a merge or a roll-back took it
            self.expired.setdefault(node, recorded)
        before = newest_between(node, 1, recorded) if recorded and newest_between is not None else None
        if not before:
            raise self._no_version(node)
        return min(before + 1, recorded)

    def _head(self, node: Node) -> int | None:
        newest_between = self.facts.newest_between
        return None if newest_between is None else newest_between(node, 1, None)

    def _no_version(self, without: Node) -> LineageError:
        """The error when no snapshots fit; `without`: a table that has none left."""
        made = {n: s for n in self.asked if (s := self.graph.newest(n))}
        was_recorded = self.alignment.recorded(without) > 0
        if without not in made:
            why = (
                f"no snapshot of {without.name} is recorded; run a job that writes it with lineage switched on, or "
                "leave the table out"
            )
        elif was_recorded and self.facts.newest_between is not None and self._head(without) is None:
            why = f"{without.name} has no snapshots any more, or is gone itself; leave it out"
        elif self.expired:
            why = (
                "the newest recorded snapshots that stem from the same snapshots have expired: "
                f"{', '.join(f'{n.name} at {s}' for n, s in self.expired.items())}; keep snapshots longer "
                "(snapshot.time-retained), or tag them"
            )
        else:
            why = self._why_none_fits(made)
        names = [node.name for node in self.asked]
        return LineageError(f"no unified version of {', '.join(names)}: {why}", tables=names)

    def _why_none_fits(self, made: Mapping[Node, int]) -> str:
        """Name a table upstream that is met at different snapshots, and what helps."""
        met: dict[Node, dict[int, str]] = {}
        for node, snapshot in made.items():
            if node in self.alignment.tables:
                met.setdefault(node, {}).setdefault(snapshot, "itself")
            for above in upstream(self.graph, node, snapshot, self.facts.provenance_of).tables:
                for m in above.met:
                    if m.job not in self.ignoring:
                        last = self.alignment.canonical(above.node, m.last)
                        met.setdefault(above.node, {}).setdefault(last, f"{node.name}, job {m.job!r}")
        differing = {node: at for node, at in met.items() if len(at) > 1}
        helps = "wait for the job behind, or leave out a job that has ended (ignoring=[…])"
        if not differing:
            return f"they share no snapshots of their sources; {helps}"
        node, at = next(iter(differing.items()))
        shown = " and ".join(f"{s} ({by})" for s, by in sorted(at.items())[:_SHOWN])
        shown += f" and {len(at) - _SHOWN} more" if len(at) > _SHOWN else ""
        return f"they hold {node.name} up to different snapshots: {shown}; {helps}"
