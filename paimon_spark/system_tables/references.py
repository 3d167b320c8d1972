"""Refs and consumers: $tags, $branches, $savepoints, $consumers.

After Paimon's columns come those of the proposals: which branch was made from which tag, and which tags guard one.

Source: Java `table/system/TagsTable`, `BranchesTable`, `ConsumersTable` of Paimon 2.0; PIP-14, PIP-4.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa

from paimon_spark.maintenance.consumers import list_consumers
from paimon_spark.metadata.branches import Branch, list_branches, list_tag_infos, tag_info
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.schemas import list_schema_ids, read_schema
from paimon_spark.metadata.tags import TagInfo, list_savepoints, list_tags
from paimon_spark.system_tables.listing import TIMESTAMP, Asked, Listing, batch_of_rows, columns, required
from paimon_spark.types import BIGINT, STRING, ArrayType

_TAGS: Final = columns(
    ("tag_name", required(STRING)),
    ("snapshot_id", required(BIGINT)),
    ("schema_id", required(BIGINT)),
    ("commit_time", required(TIMESTAMP)),
    ("record_count", BIGINT),
    ("create_time", TIMESTAMP),
    ("time_retained", STRING),
    ("tagged_snapshot_id", BIGINT),
    ("branches", ArrayType(element=STRING)),
    ("guarded_branch", STRING),
)
_BRANCHES: Final = columns(
    ("branch_name", required(STRING)),
    ("create_time", required(TIMESTAMP)),
    ("name", STRING),
    ("tag_name", STRING),
    ("tagged_snapshot_id", BIGINT),
)
_SAVEPOINTS: Final = columns(
    ("savepoint_id", required(BIGINT)),
    ("schema_id", required(BIGINT)),
    ("save_time", required(BIGINT)),
    ("record_count", BIGINT),
)
_CONSUMERS: Final = columns(("consumer_id", required(STRING)), ("next_snapshot_id", required(BIGINT)))


def _read_tags(asked: Asked) -> Iterator[pa.RecordBatch]:
    if "branches" in asked.wanted:
        tags = list_tag_infos(asked.handle)
    else:  # where branches come from need not be looked up
        tags = [tag_info(tag) for tag in list_tags(asked.handle)]
    rows = [_tag_row(asked, t) for t in sorted(tags, key=lambda t: t.name)]
    yield batch_of_rows(_TAGS, asked, rows)


def _tag_row(asked: Asked, t: TagInfo) -> tuple[Any, ...]:
    s = t.snapshot
    return (
        t.name,
        s.id,
        s.schema_id,
        asked.wall_clock(s.time_ms),
        s.total_record_count,
        t.create_time,
        None if t.time_retained_s is None else duration_text(t.time_retained_s),
        s.id,
        t.branches,
        t.guards,
    )


def duration_text(seconds: float) -> str:
    """As `java.time.Duration` prints: `PT24H`, `PT1H30M`, `PT0.5S`."""
    nanos = round(seconds * 10**9)
    sign = "-" if nanos < 0 else ""
    whole, fraction = divmod(abs(nanos), 10**9)
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    parts = [f"{sign}{hours}H"] if hours else []
    parts += [f"{sign}{minutes}M"] if minutes else []
    if rest or fraction or not parts:
        digits = f".{fraction:09d}".rstrip("0") if fraction else ""
        parts.append(f"{sign}{rest}{digits}S")
    return "PT" + "".join(parts)


def _read_branches(asked: Asked) -> Iterator[pa.RecordBatch]:
    rows = [_branch_row(asked, b) for b in list_branches(asked.handle)]
    yield batch_of_rows(_BRANCHES, asked, rows)


def _branch_row(asked: Asked, b: Branch) -> tuple[Any, ...]:
    made_ms = _definition_ms(asked.handle, b.name) if b.modified_ms is None else b.modified_ms
    return b.name, asked.wall_clock(made_ms), b.name, b.created_from_tag, b.created_from_snapshot_id


def _definition_ms(handle: TableHandle, branch: str) -> int:
    """When the branch's oldest schema was made, for stores without modification times of directories."""
    layout = handle.layout.with_branch(branch)
    ids = list_schema_ids(handle.store, layout)
    return read_schema(handle.store, layout, ids[0]).time_ms if ids else 0


def _read_savepoints(asked: Asked) -> Iterator[pa.RecordBatch]:
    found = list_savepoints(asked.handle)
    rows = [(s.id, s.snapshot.schema_id, s.snapshot.time_ms, s.snapshot.total_record_count) for s in found]
    yield batch_of_rows(_SAVEPOINTS, asked, rows)


def _read_consumers(asked: Asked) -> Iterator[pa.RecordBatch]:
    rows = [(c.name, c.next_snapshot) for c in list_consumers(asked.handle)]
    yield batch_of_rows(_CONSUMERS, asked, rows)


LISTINGS: Final = (
    Listing("tags", _TAGS, ("tag_name",), False, _read_tags),
    Listing("branches", _BRANCHES, ("branch_name",), False, _read_branches),
    Listing("savepoints", _SAVEPOINTS, ("savepoint_id",), False, _read_savepoints),
    Listing("consumers", _CONSUMERS, ("consumer_id",), False, _read_consumers),
)
"""The system tables of this module."""
