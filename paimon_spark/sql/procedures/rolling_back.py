"""Procedures that make an earlier state of a branch its head."""

from __future__ import annotations

from typing import Final

from paimon_spark.api.table import Table
from paimon_spark.errors import InvalidInputError, SnapshotNotFoundError
from paimon_spark.metadata.snapshots import alive_range, snapshot_at_or_before_ms
from paimon_spark.sql.call_context import CallContext
from paimon_spark.sql.procedures.procedure import TABLE, Arguments, Kind, Parameter, Procedure, Rows

_HEADS: Final = "previous_snapshot_id BIGINT NOT NULL, current_snapshot_id BIGINT NOT NULL"


def _rollback(place: CallContext, a: Arguments) -> Rows:
    given = [n for n in ("version", "snapshot", "tag") if a.text_or_none(n) is not None]
    if len(given) != 1:
        found = " and ".join(given) or "none of them"
        raise InvalidInputError(f"{a.caller} takes exactly one of version, snapshot and tag, found {found}")
    if given == ["tag"]:
        return _rolled(a.table(place), f"tag-name.{a.text('tag')}")
    version = a.text(given[0]).strip()
    return _rolled(a.table(place), int(version) if version.isascii() and version.isdigit() else version)


def _to_timestamp(place: CallContext, a: Arguments) -> Rows:
    table, moment = a.table(place), a.number("timestamp")
    found = snapshot_at_or_before_ms(table.handle, moment)
    if found is None:
        raise _none(a, table, f"committed at or before {moment}")
    return _rolled(table, found.id)


def _to_watermark(place: CallContext, a: Arguments) -> Rows:
    table, watermark = a.table(place), a.number("watermark")
    found = [s.id for s in table.snapshots() if s.watermark is not None and s.watermark <= watermark]
    if not found:
        raise _none(a, table, f"with a watermark of at most {watermark}")
    return _rolled(table, max(found))


def _as_latest(place: CallContext, a: Arguments) -> Rows:
    version = a.text("version").strip()
    done = a.table(place).rollback_to_as_latest(int(version) if version.isdecimal() else version)
    return [(done.previous.id, done.snapshot.id)]


def _rolled(table: Table, version: str | int) -> Rows:
    before = max((s.id for s in table.snapshots()), default=None)
    done = table.rollback_to(version)
    return [(done.snapshot.id if before is None else before, done.snapshot.id)]


def _none(a: Arguments, table: Table, what: str) -> SnapshotNotFoundError:
    return SnapshotNotFoundError(
        f"{a.caller}: {table.handle.describe()} has no snapshot {what}; {alive_range(table.handle)}", table=table.name
    )


PROCEDURES: Final = (
    Procedure(
        "rollback",
        "Make a version of the branch its head again; later snapshots and tags of the branch go.",
        (
            TABLE,
            Parameter("version", doc="A snapshot id, a tag, or a version as after VERSION AS OF."),
            Parameter("snapshot", Kind.BIGINT, doc="A snapshot id, instead of version."),
            Parameter("tag", doc="A tag, instead of version."),
        ),
        _HEADS,
        _rollback,
    ),
    Procedure(
        "rollback_to_timestamp",
        "Make the newest snapshot committed at or before a moment the head again.",
        (TABLE, Parameter("timestamp", Kind.BIGINT, required=True, doc="The moment, in epoch milliseconds.")),
        _HEADS,
        _to_timestamp,
    ),
    Procedure(
        "rollback_to_watermark",
        "Make the newest snapshot whose watermark is not later than one the head again.",
        (TABLE, Parameter("watermark", Kind.BIGINT, required=True, doc="The watermark, in epoch milliseconds.")),
        _HEADS,
        _to_watermark,
    ),
    Procedure(
        "rollback_to_as_latest",
        "Make the state of an earlier version the newest, by a new snapshot; nothing of the history goes.",
        (TABLE, Parameter("version", required=True, doc="A snapshot id, a tag, or a version as after VERSION AS OF.")),
        _HEADS,
        _as_latest,
        is_own=True,
    ),
)
