"""Provenance and SQL statement of a commit, encoded in the properties of its snapshot.

Job and barrier are properties of their own, for people who look at a snapshot; the source ranges are JSON. What one
release wrote every later one reads.

Source: PIP-5; ranges, branches, statements and the encodings are this package's own.
Tests: tests/unit/lineage/index/test_provenance.py, tests/spark/test_recorded_statements.py
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from paimon_spark.format.json_files import find_object

JOB: Final = "paimon-spark.lineage.job"
BARRIER: Final = "paimon-spark.lineage.barrier"
SOURCES: Final = "paimon-spark.lineage.sources"
STATEMENT: Final = "paimon-spark.lineage.statement"
_NAMED: Final = re.compile(r":[a-z]+:[0-9a-f]{8}")
_MOST_CHARACTERS: Final = 16_384
"""Longer statements are not kept: each reader of a snapshot reads its properties."""
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
        raw["unknown"] = True  # not an empty list of sources, which says that nothing was read
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
        # Of a later release: its ranges may mean something else, and a wrong source is worse than an unknown one.
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
    """The source as JSON values, without empty fields: each reader of a snapshot reads its properties."""
    table: dict[str, Any] = {} if source.ref is None else dict(source.ref.as_json)
    fields = {name: getattr(source, name) for name in _RANGE_FIELDS}
    return table | {name: value for name, value in fields.items() if value is not None}


def _decode_source(raw: Mapping[str, Any]) -> SourceRange:
    name = raw.get("table")
    ref = None if name is None else TableRef.parse(name, raw.get("database"))
    return SourceRange(ref, **{field: raw.get(field) for field in _RANGE_FIELDS})


@dataclass(frozen=True, slots=True)
class StatementRecord:
    """A statement, and what its names mean.

    Attributes:
        sql: with the values of its parameters, unless `lacks_values`.
        catalog: the first of three parts of a name.
        database: of names of one part.
        again: table and snapshot that the statement wrote when it was run before; None when it was not.
        lacks_values: whether `sql` has parameters without values, so that it cannot be run again.
        job: that wrote it, under which it is recorded when it is run again; None: the one of the session. Beside the
            text in the snapshot, not in it.
    """

    sql: str
    catalog: str
    database: str
    again: tuple[str, int] | None = None
    lacks_values: bool = False
    job: str | None = None


def is_statement_job(job: str, sink: str) -> bool:
    """Whether a job has the name that a statement into main of a table is given, as in `db.t:insert:1a2b3c4d`."""
    return job.startswith(sink) and _NAMED.fullmatch(job, len(sink)) is not None


def encode_statement(statement: StatementRecord) -> str | None:
    """The statement as text; None for one that is too long to be kept."""
    if len(statement.sql) > _MOST_CHARACTERS:
        return None
    raw = {"sql": statement.sql, "catalog": statement.catalog, "database": statement.database}
    again = {} if statement.again is None else {"again": list(statement.again)}
    return json.dumps({**raw, **again, **({"values": False} if statement.lacks_values else {})})


def decode_statement(properties: Mapping[str, str] | None) -> StatementRecord | None:
    """The statement among the properties of a snapshot; None without a readable one, as anybody may write them."""

    def build(raw: dict[str, Any]) -> StatementRecord:
        again = raw.get("again")
        before = None if again is None else (str(again[0]), int(again[1]))
        return StatementRecord(
            str(raw["sql"]), str(raw["catalog"]), str(raw["database"]), before, raw.get("values") is False
        )

    return find_object((properties or {}).get(STATEMENT, ""), build)
