"""Question: the warehouses, tables and rows that one question about lineage is answered from.

Source: own.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict

from paimon_spark.api.lineage_history import History
from paimon_spark.api.lineage_places import Asked, Places, TableLike, Version
from paimon_spark.errors import CommitError, InvalidInputError, LineageError, StorageError, VersionNotFoundError
from paimon_spark.jobs.branch_access import refuse_version
from paimon_spark.jobs.lineage_index import TableIndex
from paimon_spark.lineage.alignment import NewestBetween
from paimon_spark.lineage.answers import ProvenanceOf
from paimon_spark.lineage.graph import NOWHERE, Graph, Node, Walk, load
from paimon_spark.lineage.jobs import registrations
from paimon_spark.lineage.sql import is_, of_table
from paimon_spark.lineage.tables import JOB_STARTUP
from paimon_spark.lineage.unified import IsCompaction
from paimon_spark.lineage.unrecorded import Unrecorded, find_unrecorded

if TYPE_CHECKING:
    from paimon_spark.api.catalog import Catalog
    from paimon_spark.lineage.catch_up import Synced

_LOG = logging.getLogger(__name__)


class Told(TypedDict):
    """What unified versions ask of the tables themselves."""

    is_compaction: IsCompaction
    newest_between: NewestBetween
    provenance_of: ProvenanceOf


@dataclass(frozen=True, slots=True)
class Question:
    """What one question is answered from."""

    places: Places
    history: History

    @staticmethod
    def of(own: Catalog, others: Sequence[Catalog], tables: Iterable[TableLike] = ()) -> Question:
        """A question about the warehouses of catalogs and of opened tables, once their missing rows are written.

        Raises:
            LineageError: lineage was never switched on in one of them.
            InvalidInputError: `others` holds something else than catalogs.
            StorageError: a store failed.
        """
        places = Places.of(own, others, tables)
        for index in places.indexes:
            refuse_never_on(index)
        for index in places.indexes:
            _write_missing(index)
        return Question(places, History(places))

    def load(
        self,
        tables: Sequence[Node] = (),
        jobs: Sequence[str] = (),
        walk: Walk = Walk.UP,
        *,
        snapshots: bool = True,
        startup: bool = False,
    ) -> Graph:
        """The graph that is needed. Raises StorageError."""
        return load(self.places.indexes, tables, jobs, walk=walk, snapshots=snapshots, startup=startup)

    def about(self, table: TableLike, version: Version | None, walk: Walk) -> tuple[Asked, int | None, Graph]:
        """A table, the snapshot of it that is asked about, and the graph.

        Upstream, a snapshot that a branch shares with the one it was made from is that one's.

        Raises:
            VersionNotFoundError: the snapshot is newer than all that there are or were. Others as `Places.asked` and
                `Places.at`.
        """
        asked, snapshot_id = self.places.at(self.places.asked(table, self.load(snapshots=False)), version)
        graph = self.load([asked.node], walk=walk)
        while walk is Walk.UP and snapshot_id is not None and (parent := self._maker(graph, asked.node, snapshot_id)):
            asked = asked._replace(node=parent, handle=None)
            graph = self.load([asked.node], walk=walk)
        if snapshot_id is not None:
            self._check_snapshot(graph, asked, snapshot_id)
        return asked, snapshot_id, graph

    def _maker(self, graph: Graph, node: Node, snapshot_id: int) -> Node | None:
        """The branch that another shares a snapshot with; None where jobs wrote that one up to the snapshot."""
        written = (graph.sinks(job, node).row_of(snapshot_id) for job in graph.written_by.get(node, ()))
        return None if any(row >= 0 for row in written) else self.history.parent(node, snapshot_id)

    def _check_snapshot(self, graph: Graph, asked: Asked, snapshot_id: int) -> None:
        """Of a table that is gone any snapshot may have been."""
        graph.check_table(asked.node)
        newest, head = graph.newest(asked.node), self.history.newest_between(asked.node, 1, None)
        if head is not None and snapshot_id > max(newest, head) and not self.history.is_there(asked.node, snapshot_id):
            later = f", the newest that a job recorded is {newest}" if newest > head else ""
            raise VersionNotFoundError(
                f"table {asked.given} has no snapshot {snapshot_id}: its newest is {head}{later}; give an id up to "
                "that, or a tag",
                table=asked.given,
                snapshot=snapshot_id,
            )

    def align(self, tables: Sequence[TableLike]) -> dict[str, Asked]:
        """Tables by the names as given.

        Raises:
            InvalidInputError: one twice, or one opened at a version. Others as `Places.asked`.
        """
        known = self.load(snapshots=False)
        found: dict[str, Asked] = {}
        for table in tables:
            if not isinstance(table, str):
                refuse_version(table)
            asked = self.places.asked(table, known)
            if asked.node in {a.node for a in found.values()}:
                raise InvalidInputError(f"table {asked.given} is given twice", table=asked.given)
            # Two warehouses may have a table of the same name.
            found[asked.given if asked.given not in found else f"{asked.node.warehouse}/{asked.given}"] = asked
        return found

    def unrecorded_after(self, asked: Node | None, snapshot_id: int | None) -> Unrecorded:
        """What was written without lineage to any table, but to the one asked about, since one of its snapshots."""
        since_ms = 0 if asked is None or snapshot_id is None else self.history.time_ms(asked, snapshot_id)
        return find_unrecorded(self.places.indexes, since_ms=since_ms, besides=asked)

    def unrecorded_in(self, nodes: Mapping[Node, int | None]) -> Unrecorded:
        """What was written without lineage to some tables, up to a snapshot of each; None: up to its head."""
        here = {n: newest for n, newest in nodes.items() if n.warehouse in self.places.warehouses and n.ref != NOWHERE}
        return find_unrecorded(self.places.indexes, here)

    @property
    def told(self) -> Told:
        """What snapshots, tags and branches tell."""
        history = self.history
        return {
            "is_compaction": history.is_compaction,
            "newest_between": history.newest_between,
            "provenance_of": history.provenance,
        }

    def queries(self) -> dict[str, str]:
        """Job → the streaming query that is recorded as it. Raises StorageError."""
        found: dict[str, str] = {}
        for warehouse in self.places.warehouses.values():
            found.update({known.job: query_id for query_id, known in registrations(warehouse).items()})
        return found

    def write_startup(self, job: str, starts: Sequence[tuple[Asked, int]]) -> None:
        """Keep what a job starts from, in the warehouse of each source; what it was to start from before goes.

        Raises:
            StorageError, CommitError: it cannot be written.
        """
        for index in self.places.indexes:
            here = [(a.node.ref, i) for a, i in starts if a.node.warehouse == index.warehouse.url]
            if here:
                index.upsert({JOB_STARTUP.name: [(job, *ref, snapshot_id) for ref, snapshot_id in here]})
            others = "".join(f" AND NOT ({of_table(ref)})" for ref, _ in here)
            index.delete(JOB_STARTUP, is_("job", job) + others)


def refuse_never_on(index: TableIndex) -> None:
    """Raises LineageError when there are no lineage tables."""
    if not index.exists():
        url = index.warehouse.url
        raise LineageError(
            f"nothing is recorded in warehouse {url}: lineage was never switched on there. Switch it on with "
            f"paimon_spark.load_catalog({url!r}).lineage.enable(), in a shell: "
            "paimon-spark lineage enable; jobs record from then on",
            warehouse=url,
        )


def sync_of(index: TableIndex) -> Synced:
    """Write the rows that are missing. Raises as `catch_up.sync`."""
    from paimon_spark.lineage.catch_up import sync

    return sync(index)


def started(graph: Graph) -> dict[str, dict[str, int]]:
    """Job → name of a table → the snapshot that it was to start from."""
    found: dict[str, dict[str, int]] = {}
    for part in graph.parts:
        for row in [] if part.startup is None else part.startup.to_pylist():
            found.setdefault(row["job"], {})[f"{row['database']}.{row['table']}"] = row["snapshot_id"]
    return found


def listed(tables: Sequence[TableLike]) -> Sequence[TableLike]:
    """Raises InvalidInputError for no tables, and for one instead of a list."""
    given: object = tables
    if isinstance(given, str) or not isinstance(given, Sequence) or not given:
        raise InvalidInputError(f"tables={tables!r}: expected a list of tables, by name or opened")
    return tables


def job_named(job: str) -> str:
    """Raises InvalidInputError for something else than a text, and for a blank one."""
    given: object = job
    if not isinstance(given, str) or not given.strip():
        raise InvalidInputError(f"job={job!r} is no name of a job; give the name that it has, or is to have", job=job)
    return job


def jobs_named(names: Sequence[str]) -> Sequence[str]:
    """Raises InvalidInputError for one text instead of a list of jobs."""
    if isinstance(names, str):
        raise InvalidInputError(f"ignoring={names!r}: expected a list of jobs")
    return names


def _write_missing(index: TableIndex) -> None:
    try:
        found = sync_of(index)
    except (StorageError, CommitError) as e:
        _LOG.warning(
            "lineage of %s is answered from the rows that are there; what is missing could not be written: %s",
            index.warehouse.url,
            e,
        )
        return
    if found.unreadable:
        _LOG.warning(
            "lineage of %s is answered without what could not be read: %s",
            index.warehouse.url,
            "; ".join(found.unreadable[:5]),
        )
