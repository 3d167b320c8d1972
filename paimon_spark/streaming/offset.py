"""StreamOffset: how far a stream has read a branch, and its JSON in Spark's checkpoint.

Checkpoints belong to users: every release reads what earlier ones wrote (`_VERSION`). A snapshot is identified by its
id and its delta manifest list, whose name no two commits share, so that another history is noticed.

Source: own.

Tests: tests/unit/streaming/test_offset.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

from paimon_spark.errors import OffsetError
from paimon_spark.metadata.small_files import checked_number, checked_text

START: Final = "start"
"""Key in the end of a query's first batch, whose value is the offset where the query began."""
_VERSION: Final = 1
_SHOWN: Final = 300
"""Characters of a foreign offset that a message shows."""


class Phase(StrEnum):
    """Part of a snapshot that is read: all rows alive in it, or its changes."""

    STATE = "state"
    CHANGES = "changes"


@dataclass(frozen=True, slots=True)
class Part:
    """How much of one snapshot has been read.

    Attributes:
        units: how many of its units (`scan.stream_units`) have been read, in their order.
        of: how many it has.
        digest: of the units' order and files; when it differs, the units read before are unknown.
    """

    phase: Phase
    units: int
    of: int
    digest: str


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """Everything up to a snapshot has been read, or a part of it.

    Attributes:
        table: URL of the table's directory.
        branch: as the reader called it.
        snapshot_id: None while the branch has no snapshot; 0 before the first.
        made: name of its delta manifest list; None for 0 and None, and when the stream started after an expired one.
        rows: its `total_record_count`, on which the next snapshot builds; None when unknown.
        part: the part of it that was read; None for all. Everything before it was read, or is not of the stream.
        begins_with: what is read of the first snapshot, when `snapshot_id` is None.
        barrier: of a stream that follows a job, the batch of that job up to which both have read; else None.
    """

    table: str
    branch: str
    snapshot_id: int | None
    made: str | None = None
    rows: int | None = None
    part: Part | None = None
    begins_with: Phase = Phase.CHANGES
    barrier: int | None = None

    @property
    def position(self) -> StreamOffset:
        """The same offset without the barrier: between offsets of one position are no rows."""
        return self if self.barrier is None else replace(self, barrier=None)


def encode(offset: StreamOffset) -> dict[str, Any]:
    """Encode for Spark's checkpoint: small, JSON, with a version."""
    out: dict[str, Any] = {
        "version": _VERSION,
        "table": offset.table,
        "branch": offset.branch,
        "snapshot": offset.snapshot_id,
    }
    if offset.made is not None:
        out["made"] = offset.made
    if offset.rows is not None:
        out["rows"] = offset.rows
    if offset.part is not None:
        part = offset.part
        out["part"] = {"phase": part.phase.value, "units": part.units, "of": part.of, "digest": part.digest}
    if offset.snapshot_id is None:
        out["beginsWith"] = offset.begins_with.value
    if offset.barrier is not None:
        out["barrier"] = offset.barrier
    return out


def decode(raw: Mapping[str, Any]) -> StreamOffset:
    """The offset of a checkpoint. Raises OffsetError."""
    try:
        version = _count(raw["version"])
        if version > _VERSION:
            raise OffsetError(
                f"the checkpoint holds an offset of version {version}, known is {_VERSION}: it was written by a later "
                "release of paimon-spark; use that one",
                version=version,
            )
        return _of_version_1(raw)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError, RecursionError) as e:
        shown = repr(raw)
        raise OffsetError(
            f"the checkpoint holds {shown if len(shown) < _SHOWN else shown[:_SHOWN] + '…'}, which is not an offset of "
            f"a Paimon table ({type(e).__name__}: {e}); give the query a checkpointLocation of its own"
        ) from e


def _of_version_1(raw: Mapping[str, Any]) -> StreamOffset:
    snapshot_id, made, rows, part = raw["snapshot"], raw.get("made"), raw.get("rows"), raw.get("part")
    barrier = raw.get("barrier")
    if part is not None and not snapshot_id:
        raise ValueError("a part of no snapshot")
    return StreamOffset(
        table=checked_text(raw["table"]),
        branch=checked_text(raw["branch"]),
        snapshot_id=None if snapshot_id is None else _count(snapshot_id),
        made=None if made is None else checked_text(made),
        rows=None if rows is None else checked_number(rows),
        part=None if part is None else _part(part),
        begins_with=Phase(raw.get("beginsWith", Phase.CHANGES.value)),
        barrier=None if barrier is None else _count(barrier),
    )


def _part(raw: Mapping[str, Any]) -> Part:
    units, of = _count(raw["units"]), _count(raw["of"])
    digest = checked_text(raw["digest"]) if units or raw["digest"] != "" else ""
    if units > of:
        raise ValueError(f"{units} units of {of}")
    return Part(Phase(raw["phase"]), units, of, digest)


def _count(value: Any) -> int:
    count = checked_number(value)
    if count < 0:
        raise ValueError(f"{value!r} is negative")
    return count
