"""The jobs that lineage has recorded, as a result that is shown.

Source: PIP-5.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from paimon_spark.display import ShownAsFacts
from paimon_spark.errors import JobNotFoundError
from paimon_spark.lineage.asking.graph import Graph, Node, newest_of
from paimon_spark.lineage.asking.results import LONG, TEXT, Result, arrow_table, cell, left_out, marked, with_snapshot
from paimon_spark.text import counted, safe


@dataclass(frozen=True, slots=True, repr=False)
class Job(ShownAsFacts):
    """A recorded job.

    Attributes:
        sources: name of each table it reads → the newest snapshot read whole; None where none is recorded.
        sinks: name of each table it writes → the newest snapshot it made; None where none is recorded.
        barrier: its newest batch; None when none is recorded.
        query_id: of a streaming query; None for a batch job, and where it is not known.
        start: name of each table → the snapshot that `start_options` gave it to start from.
        ended_ms: when a streaming query was noticed to have ended (`watch`), in epoch milliseconds; None where it runs,
            may run, or is a batch job.
        deleted: names among `sources` and `sinks` of branches that were deleted.
    """

    name: str
    sources: Mapping[str, int | None]
    sinks: Mapping[str, int | None]
    barrier: int | None = None
    query_id: str | None = None
    start: Mapping[str, int] | None = None
    ended_ms: int | None = None
    deleted: frozenset[str] = frozenset()

    def without_deleted(self) -> Job | None:
        """The same without deleted branches; None for a job that wrote only these."""
        sources, sinks = ({n: s for n, s in t.items() if n not in self.deleted} for t in (self.sources, self.sinks))
        is_gone = bool(self.deleted) and not sinks and (bool(self.sinks) or not sources)
        return None if is_gone else replace(self, sources=sources, sinks=sinks, deleted=frozenset())

    def text_lines(self) -> list[str]:
        ends = ((self.sources, "reads"), (self.sinks, "writes"))
        said = [
            f"{verb} {safe(', '.join(with_snapshot(self.shown(n), i) for n, i in found.items()))}"
            for found, verb in ends
            if found
        ]
        return [", ".join([f"job {safe(self.name)}", *said])]

    def shown(self, table: str) -> str:
        """The name of a table, as it is shown: with a mark on deleted branches."""
        return marked(table, is_deleted=table in self.deleted)


@dataclass(frozen=True, slots=True, repr=False)
class Jobs(Result):
    """The recorded jobs, by name.

    Attributes:
        deleted: names of deleted branches that were left out.
        left_out: names of jobs that were left out, as they wrote only these.
    """

    jobs: tuple[Job, ...]
    deleted: frozenset[str] = frozenset()
    left_out: tuple[str, ...] = ()

    @staticmethod
    def of(
        graph: Graph,
        starts: Mapping[str, Mapping[str, int]],
        queries: Mapping[str, tuple[str, int | None]],
        is_deleted: Callable[[Node], bool],
    ) -> Jobs:
        """The jobs of a graph that was loaded with its snapshots. `queries`: job → id of its query, and its end."""
        newest = newest_of(graph)
        gone = {node for node in graph.tables if is_deleted(node)}
        return Jobs(
            tuple(
                Job(
                    name,
                    {n.name: newest.read.get((name, n)) for n in graph.reads.get(name, ())},
                    {n.name: newest.made.get((name, n)) for n in graph.writes.get(name, ())},
                    newest.barriers.get(name),
                    queries[name][0] if name in queries else None,
                    starts.get(name),
                    queries[name][1] if name in queries else None,
                    frozenset(n.name for n in (*graph.reads.get(name, ()), *graph.writes.get(name, ())) if n in gone),
                )
                for name in graph.jobs
            )
        )

    def without_deleted(self) -> Jobs:
        """The same without deleted branches, and jobs that wrote only these."""
        found = {job.name: job.without_deleted() for job in self.jobs}
        return Jobs(
            tuple(job for job in found.values() if job is not None),
            frozenset(name for job in self.jobs for name in job.deleted),
            tuple(name for name, job in found.items() if job is None),
        )

    def __iter__(self) -> Iterator[Job]:
        return iter(self.jobs)

    def __len__(self) -> int:
        return len(self.jobs)

    def __contains__(self, name: object) -> bool:
        return any(job.name == name for job in self.jobs)

    def __getitem__(self, name: str) -> Job:
        """The job of a name. Raises JobNotFoundError."""
        for job in self.jobs:
            if job.name == name:
                return job
        if name in self.left_out:
            raise JobNotFoundError(
                f"job {name!r} wrote only branches that are deleted: jobs(include_internal=True) has it", job=name
            )
        names = ", ".join(repr(j.name) for j in self.jobs[:20]) or "none"
        raise JobNotFoundError(f"there is no job {name!r} in lineage; jobs are {names}", job=name)

    def to_arrow(self) -> pa.Table:
        """A row for each table of a job.

        Columns job, kind (`source` or `sink`), table, snapshot, barrier, query_id, ended_ms.
        """
        rows = [
            (job.name, kind, table, snapshot, job.barrier, job.query_id, job.ended_ms)
            for job in self.jobs
            for kind, tables in (("source", job.sources), ("sink", job.sinks))
            for table, snapshot in tables.items()
        ]
        texts, numbers = ("job", "kind", "table"), ("snapshot", "barrier")
        types = {**dict.fromkeys(texts, TEXT), **dict.fromkeys(numbers, LONG), "query_id": TEXT, "ended_ms": LONG}
        return arrow_table(types, rows)

    def _cells(self, row: Mapping[str, Any]) -> list[Any]:
        return [self[row["job"]].shown(v) if n == "table" else cell(n, v) for n, v in row.items()]

    def _remarks(self) -> list[str]:
        of_jobs = f", with {counted(len(self.left_out), 'job')} that wrote nothing else" if self.left_out else ""
        return left_out(len(self.deleted), "deleted branch is", "deleted branches are", f"left out{of_jobs}")
