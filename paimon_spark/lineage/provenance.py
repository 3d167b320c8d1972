"""What a commit says of whence it came.

Source: PIP-5; ranges and branches are this package's own.

Provenance ↔ the properties of a snapshot. What one release wrote, every later one reads (`_VERSION`).

The job and the barrier are properties of their own, for people who look at a snapshot; the ranges are JSON.

Source: own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

_BRANCH = "$branch_"
_MAIN = "main"


class TableRef(NamedTuple):
    """A branch of a table of a warehouse, as the lineage tables name it.

    Attributes:
        table: `t`; `t$branch_fix` for a branch other than main.
    """

    database: str
    table: str

    @staticmethod
    def of(database: str, table: str, branch: str) -> TableRef:
        return TableRef(database, table if branch == _MAIN else f"{table}{_BRANCH}{branch}")

    @staticmethod
    def parse(name: str, database: str | None = None) -> TableRef:
        """From `db.t` or `db.t$branch_fix`. The database ends at the first dot, if it is not given."""
        if database is not None:
            return TableRef(database, name.removeprefix(f"{database}."))
        database, _, table = name.partition(".")
        return TableRef(database, table)

    @property
    def name(self) -> str:
        """`db.t` or `db.t$branch_fix`."""
        return f"{self.database}.{self.table}"

    @property
    def told(self) -> dict[str, str]:
        """The name as JSON tells it; the database too, where the name alone does not say where that ends."""
        return {"table": self.name} | ({"database": self.database} if "." in self.database else {})

    @property
    def bare(self) -> str:
        """The table's name without its branch."""
        return self.table.partition(_BRANCH)[0]

    @property
    def branch(self) -> str:
        return self.table.partition(_BRANCH)[2] or _MAIN


@dataclass(frozen=True, slots=True)
class SourceRange:
    """What a batch read of one source, and how far the job had come in it at the batch's end.

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
    """Whence the rows of a commit came.

    Attributes:
        job: as the lineage tables call it.
        barrier: the micro-batch id; of a batch job the number of its run.
        sources: how far the job had read each of its Paimon sources, also those that this batch read nothing of.
        query_id: of a streaming query; None for a batch job.
        knows_sources: False when it could not be found out what was read.
    """

    job: str
    barrier: int
    sources: tuple[SourceRange, ...] = ()
    query_id: str | None = None
    knows_sources: bool = True


JOB: Final = "paimon-spark.lineage.job"
BARRIER: Final = "paimon-spark.lineage.barrier"
SOURCES: Final = "paimon-spark.lineage.sources"
_VERSION: Final = 1
_RANGE_FIELDS: Final = ("warehouse", "location", "after", "last", "within")


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
    """What the properties of a snapshot say of whence it came; None when they say nothing that can be understood.

    A snapshot is never unreadable for what its properties hold: anybody may write them.
    """
    if not properties or JOB not in properties:
        return None
    try:
        raw = json.loads(properties[SOURCES])
        if raw["version"] > _VERSION:
            return None
        return Provenance(
            properties[JOB],
            int(properties[BARRIER]),
            tuple(_decode_source(s) for s in raw["sources"]),
            raw.get("query"),
            not raw.get("unknown", False),
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def _encode_source(source: SourceRange) -> dict[str, Any]:
    out: dict[str, Any] = {} if source.ref is None else dict(source.ref.told)
    return out | {k: v for k in _RANGE_FIELDS if (v := getattr(source, k)) is not None}


def _decode_source(raw: Mapping[str, Any]) -> SourceRange:
    name = raw.get("table")
    ref = None if name is None else TableRef.parse(name, raw.get("database"))
    return SourceRange(ref, **{k: raw.get(k) for k in _RANGE_FIELDS})
