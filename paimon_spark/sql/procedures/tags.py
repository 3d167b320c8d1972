"""Procedures on tags and savepoints."""

from __future__ import annotations

import logging
from typing import Final

from paimon_spark.errors import InvalidInputError, SnapshotNotFoundError
from paimon_spark.metadata.snapshots import alive_range, snapshot_at_or_after_ms
from paimon_spark.sql.call_context import CallContext
from paimon_spark.sql.procedures.procedure import DONE, TABLE, Arguments, Kind, Parameter, Procedure, Rows

_LOG = logging.getLogger(__name__)

_TAG: Final = Parameter("tag", required=True, doc="Name of the tag.")
_SNAPSHOT: Final = Parameter("snapshot", Kind.BIGINT, doc="Id of the snapshot to tag.", default="the head")
_RETAINED: Final = Parameter("time_retained", doc="How long the tag lives, as in `7 d`.", default="as options say")
_NOTHING_EXPIRED: Final = "No expired tags."


def _create(place: CallContext, a: Arguments) -> Rows:
    a.table(place).create_tag(
        a.text("tag"), snapshot_id=a.number_or_none("snapshot"), time_retained=a.text_or_none("time_retained")
    )
    return [(True,)]


def _create_from_timestamp(place: CallContext, a: Arguments) -> Rows:
    table, moment = a.table(place), a.number_or_none("timestamp")
    if moment is None:
        raise InvalidInputError(f"{a.caller} needs timestamp, in epoch milliseconds")
    found = snapshot_at_or_after_ms(table.handle, moment)
    snapshots = [t.snapshot for t in table.tags() if t.snapshot.time_ms >= moment]
    if found is not None:
        snapshots.append(found)
    if not snapshots:
        raise SnapshotNotFoundError(
            f"{a.caller}: {table.handle.describe()} has no snapshot committed at or after {moment}; "
            f"{alive_range(table.handle)}",
            table=table.name,
        )
    first = min(snapshots, key=lambda s: (s.time_ms, s.id))
    table.create_tag(a.text("tag"), snapshot_id=first.id, time_retained=a.text_or_none("time_retained"))
    watermark = "null" if first.watermark is None else str(first.watermark)
    return [(a.text("tag"), first.id, first.time_ms, watermark)]


def _replace(place: CallContext, a: Arguments) -> Rows:
    a.table(place).replace_tag(
        a.text("tag"), snapshot_id=a.number_or_none("snapshot"), time_retained=a.text_or_none("time_retained")
    )
    return [(True,)]


def _rename(place: CallContext, a: Arguments) -> Rows:
    a.table(place).rename_tag(a.text("tag"), a.text("target_tag"))
    return [(True,)]


def _delete(place: CallContext, a: Arguments) -> Rows:
    table = a.table(place)
    there = {t.name for t in table.tags()}
    asked = [name.strip() for name in a.text("tag").split(",")]
    missing = [name for name in asked if name not in there]
    if missing:  # as in Paimon, so that a clean-up can run twice
        _LOG.warning("%s has no tags %s to delete", table.handle.describe(), ", ".join(missing))
    if len(missing) < len(asked):
        table.delete_tag([name for name in asked if name in there])
    return [(True,)]


def _expire(place: CallContext, a: Arguments) -> Rows:
    gone = a.table(place).expire_tags(a.moment("older_than")).tags
    return [(name,) for name in gone] or [(_NOTHING_EXPIRED,)]


def _trigger(place: CallContext, a: Arguments) -> Rows:
    a.table(place).create_automatic_tags()
    return [(True,)]


def _create_savepoint(place: CallContext, a: Arguments) -> Rows:
    return [(a.table(place).create_savepoint().id,)]


def _delete_savepoint(place: CallContext, a: Arguments) -> Rows:
    a.table(place).delete_savepoint(a.number("savepoint_id"))
    return [(True,)]


PROCEDURES: Final = (
    Procedure("create_tag", "Tag the head, or a snapshot.", (TABLE, _TAG, _SNAPSHOT, _RETAINED), DONE, _create),
    Procedure(
        "create_tag_from_timestamp",
        "Tag the first snapshot that was committed at or after a moment.",
        (
            TABLE,
            _TAG,
            Parameter("timestamp", Kind.BIGINT, doc="The moment, in epoch milliseconds. It must be given."),
            _RETAINED,
        ),
        "tagName STRING, snapshot BIGINT, commit_time BIGINT, watermark STRING",
        _create_from_timestamp,
    ),
    Procedure(
        "replace_tag",
        "Move a tag to the head, or to another snapshot.",
        (TABLE, _TAG, _SNAPSHOT, Parameter("time_retained", doc="How long the tag lives.", default="for ever")),
        DONE,
        _replace,
    ),
    Procedure(
        "rename_tag",
        "Give a tag another name.",
        (TABLE, _TAG, Parameter("target_tag", required=True, doc="The new name.")),
        DONE,
        _rename,
    ),
    Procedure(
        "delete_tag",
        "Delete tags, and the files that nothing else needs. Tags that are not there are passed over.",
        (TABLE, Parameter("tag", required=True, doc="Name of the tag, or several with commas between.")),
        DONE,
        _delete,
    ),
    Procedure(
        "expire_tags",
        "Delete the tags whose time to live is over.",
        (TABLE, Parameter("older_than", doc="Tags that were created before this moment go too.")),
        "expired_tags STRING NOT NULL",
        _expire,
    ),
    Procedure(
        "trigger_tag_automatic_creation",
        "Make the tags that are due by option tag.automatic-creation.",
        (TABLE,),
        DONE,
        _trigger,
    ),
    Procedure(
        "create_savepoint",
        "Compact the branch fully and keep the snapshot that this makes, until the savepoint is deleted.",
        (TABLE,),
        "savepoint_id BIGINT",
        _create_savepoint,
        is_own=True,
    ),
    Procedure(
        "delete_savepoint",
        "Delete a savepoint, and the files that nothing else needs.",
        (TABLE, Parameter("savepoint_id", Kind.BIGINT, required=True, doc="Its id, which is that of its snapshot.")),
        DONE,
        _delete_savepoint,
        is_own=True,
    ),
)
