"""Provenance of a commit, and its encoding in the properties of a snapshot.

Job and barrier are properties of their own, for people who look at a snapshot; the source ranges are JSON. What one
release wrote every later one reads.

Source: PIP-5; ranges, branches and the encoding are this package's own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from paimon_spark.format.json_files import find_object

JOB: Final = "paimon-spark.lineage.job"
BARRIER: Final = "paimon-spark.lineage.barrier"
SOURCES: Final = "paimon-spark.lineage.sources"
_VERSION: Final = 1
_RANGE_FIELDS: Final = ("warehouse", "location", "after", "last", "within")
_BRANCH: Final = "$branch_"
_MAIN: Final = "main"


class TableRef(NamedTuple):
    """A branch of a table of a warehouse; `table` is `t`, or `t$branch_fix` for a branch other than main."""

    database: str
    table: str

    @staticmethod
    def of(database: str, table: str, branch: str) -> TableRef:
        return TableRef(database, table if branch == _MAIN else f"{table}{_BRANCH}{branch}")

    @staticmethod
    def parse(name: str, database: str | None = None) -> TableRef:
        """Parse `db.t` or `db.t$branch_fix`. The database ends at the first dot, unless it is given."""
        if database is not None:
            return TableRef(database, name.removeprefix(f"{database}."))
        database, _, table = name.partition(".")
        return TableRef(database, table)

    @property
    def name(self) -> str:
        """`db.t` or `db.t$branch_fix`."""
        return f"{self.database}.{self.table}"

    @property
    def as_json(self) -> dict[str, str]:
        """The name for JSON; also the database, where it contains a dot."""
        return {"table": self.name} | ({"database": self.database} if "." in self.database else {})

    @property
    def bare(self) -> str:
        """The table's name without its branch."""
        return self.table.partition(_BRANCH)[0]

    @property
    def branch(self) -> str:
        return self.table.partition(_BRANCH)[2] or _MAIN

    def on_branch(self, branch: str) -> TableRef:
        """Another branch of the same table."""
        return TableRef.of(self.database, self.bare, branch)


@dataclass(frozen=True, slots=True)
class SourceRange:
    """Range that a batch read of one source, and the job's position in it at the batch's end.

    Attributes:
        ref: the branch; None for a table outside any warehouse.
        warehouse: URL of its warehouse; None for that of the sink, so that a warehouse can be moved as a whole.
        location: URL of a table outside any warehouse; None for all others.
        after: the last snapshot that had been read whole before the batch; 0 or None when there was none.
        last: the last snapshot that was read whole at its end; 0 or None when there was none. Equal to `after` where
            the batch read nothing of this source, or only a part of a snapshot.
        within: the snapshot of which a part was read when the batch ended; None when it ended between two.
    """

    ref: TableRef | None
    warehouse: str | None = None
    location: str | None = None
    after: int | None = None
    last: int | None = None
    within: int | None = None


@dataclass(frozen=True, slots=True)
class Provenance:
    """The job, batch and sources of a commit.

    Attributes:
        job: its name in the lineage tables.
        barrier: the micro-batch id; of a batch job the number of its run.
        sources: how far the job had read each of its Paimon sources, also those that this batch read nothing of.
        query_id: of a streaming query; None for a batch job.
        knows_sources: False when the sources could not be found out.
    """

    job: str
    barrier: int
    sources: tuple[SourceRange, ...] = ()
    query_id: str | None = None
    knows_sources: bool = True

    @property
    def batch(self) -> tuple[str, int]:
        """Job and barrier."""
        return self.job, self.barrier


def encode_provenance(provenance: Provenance) -> dict[str, str]:
    """Properties for the snapshot of a commit."""
    raw: dict[str, Any] = {"version": _VERSION, "sources": [_encode_source(s) for s in provenance.sources]}
    if provenance.query_id is not None:
        raw["query"] = provenance.query_id
    if not provenance.knows_sources:
        raw["unknown"] = True
    return {
        JOB: provenance.job,
        BARRIER: str(provenance.barrier),
        SOURCES: json.dumps(raw, ensure_ascii=False, separators=(",", ":")),
    }


def decode_provenance(properties: Mapping[str, str] | None) -> Provenance | None:
    """Read the provenance of a snapshot from its properties; None without readable provenance.

    Anybody may write properties, so they never make a snapshot unreadable.
    """
    if not properties or JOB not in properties:
        return None

    def build(raw: dict[str, Any]) -> Provenance | None:
        if raw["version"] > _VERSION:
            return None
        return Provenance(
            properties[JOB],
            int(properties[BARRIER]),
            tuple(_decode_source(s) for s in raw["sources"]),
            raw.get("query"),
            not raw.get("unknown", False),
        )

    return find_object(properties.get(SOURCES, ""), build)


def _encode_source(source: SourceRange) -> dict[str, Any]:
    out: dict[str, Any] = {} if source.ref is None else dict(source.ref.as_json)
    return out | {k: v for k in _RANGE_FIELDS if (v := getattr(source, k)) is not None}


def _decode_source(raw: Mapping[str, Any]) -> SourceRange:
    name = raw.get("table")
    ref = None if name is None else TableRef.parse(name, raw.get("database"))
    return SourceRange(ref, **{k: raw.get(k) for k in _RANGE_FIELDS})
