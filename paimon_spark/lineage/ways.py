"""Ways through the graph, breadth first: which tables and jobs are reached, how far off, and how.

Source: own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from paimon_spark.lineage.graph import Node

Beyond: TypeAlias = Callable[[str, Node], Sequence[Node]]
"""(job, table on this side of it) → the tables on its other side."""


@dataclass(frozen=True, slots=True)
class Way:
    """A shortest way from what was asked about.

    Attributes:
        depth: jobs on it; a job itself counts.
        path: names of jobs and tables by turns, both ends included.
    """

    depth: int
    path: tuple[str, ...]


def walk(
    asked: Node | str, jobs_of: Mapping[Node, Sequence[str]], tables_of: Mapping[str, Sequence[Node]], beyond: Beyond
) -> tuple[dict[Node, Way], dict[str, Way]]:
    """Tables and jobs reached from a table or a job, nearest first. What was asked about is in it only by a ring.

    Args:
        asked: a table, or a job by its name.
        jobs_of: table → the jobs next to it.
        tables_of: job → the tables next to it.
        beyond: those of them that it joins with a table.
    """
    tables: dict[Node, Way] = {}
    jobs: dict[str, Way] = {}
    ends: list[tuple[Node, Way]] = []
    if isinstance(asked, Node):
        ends = [(asked, Way(0, (asked.name,)))]
    else:
        for node in tables_of.get(asked, ()):
            tables[node] = Way(1, (asked, node.name))
        ends = list(tables.items())
    while ends:
        reached: list[tuple[Node, Way]] = []
        for node, way in ends:
            for job in jobs_of.get(node, ()):
                jobs.setdefault(job, Way(way.depth + 1, (*way.path, job)))
                if job == asked:
                    continue
                for further in beyond(job, node):
                    if further not in tables:
                        tables[further] = Way(way.depth + 1, (*way.path, job, further.name))
                        reached.append((further, tables[further]))
        ends = reached
    return tables, jobs


def in_order(asked: Node, jobs_of: Mapping[Node, Sequence[str]], beyond: Beyond) -> dict[Node, int]:
    """A table and those reached from it → their places in an order: each after all it is reached by, but for rings."""
    last_first: list[Node] = []
    seen = {asked}
    on_the_way = [(asked, _next(asked, jobs_of, beyond))]
    while on_the_way:
        node, further = on_the_way[-1]
        for table in further:
            if table not in seen:
                seen.add(table)
                on_the_way.append((table, _next(table, jobs_of, beyond)))
                break
        else:
            last_first.append(node)
            on_the_way.pop()
    return {node: place for place, node in enumerate(reversed(last_first))}


def _next(node: Node, jobs_of: Mapping[Node, Sequence[str]], beyond: Beyond) -> Iterator[Node]:
    return (table for job in jobs_of.get(node, ()) for table in beyond(job, node))
