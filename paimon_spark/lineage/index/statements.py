"""SQL statements that wrote snapshots, as the snapshots keep them in a property.

Source: own.
Tests: tests/spark/test_recorded_statements.py
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from paimon_spark.format.json_files import find_object

PROPERTY: Final = "paimon-spark.lineage.statement"
_NAMED: Final = re.compile(r":[a-z]+:[0-9a-f]{8}")
_MOST_CHARACTERS: Final = 16_384
"""Longer statements are not kept: each reader of a snapshot reads its properties."""


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

    return find_object((properties or {}).get(PROPERTY, ""), build)
