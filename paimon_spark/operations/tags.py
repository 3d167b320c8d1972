"""Operations on tags and savepoints of a branch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from paimon_spark.errors import InvalidInputError
from paimon_spark.operations.answer import Answer, expired, lines, removal, rows
from paimon_spark.operations.operation import Argument, Effect, Operation, Request, Rows, Type, command_flag, positional
from paimon_spark.operations.shared_arguments import SIZE, sizes_of, with_sizes
from paimon_spark.redaction import get_logger
from paimon_spark.text import duration, moment, safe

if TYPE_CHECKING:
    from paimon_spark.format.metadata_files.snapshot import Snapshot
    from paimon_spark.maintenance.removal import Removed
    from paimon_spark.metadata.tags import Savepoint, TagInfo

_LOG = get_logger(__name__)


def _show_list(a: Request, found: list[TagInfo]) -> Answer:
    columns = ("name", "kind", "snapshot", "committed", "rows", "lives for", "branches")
    sizes, on = sizes_of(a, "tag", "savepoint"), a.table().handle.layout.directory_branch
    each = [sizes.get((_ref_name(t.name), on)) for t in found]
    shown = with_sizes(a, columns, [_row(t) for t in found], each)
    return rows(*shown, data=[size for size in each if size is not None] if a["size"] else found, empty="no tags")


def _ref_name(tag: str) -> str:
    """The name of a tag, the id of a savepoint."""
    from paimon_spark.metadata.tags import savepoint_id_of

    savepoint = savepoint_id_of(tag)
    return tag if savepoint is None else str(savepoint)


def _row(tag: TagInfo) -> tuple[object, ...]:
    lives = None if tag.time_retained_s is None else duration(tag.time_retained_s)
    branches = ", ".join(tag.branches) or (tag.guards or "")
    snapshot = tag.snapshot
    return tag.name, tag.kind, snapshot.id, moment(snapshot.time_ms), snapshot.total_record_count, lives, branches


def _create(a: Request) -> TagInfo:
    return a.table().create_tag(
        a["tag"],
        snapshot_id=a["snapshot"],
        version=a["version"],
        time_retained=a["time_retained"],
        ignore_if_exists=a["if_not_exists"],
    )


def _show_tag(a: Request, tag: TagInfo) -> Answer:
    on = "" if tag.branch is None else f"branch {safe(tag.branch)} of "
    return lines(f"tag {safe(tag.name)} of {on}{safe(a.table().name)} is snapshot {tag.snapshot.id}", tag)


def _create_from_timestamp(a: Request) -> Rows:
    from paimon_spark.metadata.snapshots import snapshot_at_or_after_ms

    table, start_ms = a.table(), a["timestamp"]
    if start_ms is None:
        raise InvalidInputError(f"{a.caller} needs timestamp, in epoch milliseconds")
    snapshots = [t.snapshot for t in table.tags(include_internal=True) if t.snapshot.time_ms >= start_ms]
    found = snapshot_at_or_after_ms(table.handle, start_ms)
    if found is not None:
        snapshots.append(found)
    return _tag_first(a, snapshots, f"committed at or after {start_ms}")


def _create_from_watermark(a: Request) -> Rows:
    table, watermark = a.table(), a["watermark"]
    snapshots = [*(t.snapshot for t in table.tags(include_internal=True)), *table.snapshots()]
    late = [s for s in snapshots if s.watermark is not None and s.watermark >= watermark]
    return _tag_first(a, late, f"with a watermark of at least {watermark}")


def _tag_first(a: Request, snapshots: Sequence[Snapshot], which: str) -> Rows:
    table = a.table()
    if not snapshots:
        raise a.no_snapshot(table, which)
    first = min(snapshots, key=lambda s: (s.time_ms, s.id))
    table.create_tag(a["tag"], snapshot_id=first.id, time_retained=a["time_retained"])
    return [(a["tag"], first.id, first.time_ms, "null" if first.watermark is None else str(first.watermark))]


def _replace(a: Request) -> TagInfo | Removed:
    table = a.table()
    chosen = {"snapshot_id": a["snapshot"], "version": a["version"], "time_retained": a["time_retained"]}
    return table.replace_tag(a["tag"], **chosen, dry_run=True) if a.dry_run else table.replace_tag(a["tag"], **chosen)


def _show_replaced(a: Request, result: Any) -> Answer:
    if a.dry_run:
        return removal(a, f"would move tag {safe(a['tag'])} of {safe(a.table().name)}", result)
    return _show_tag(a, result)


def _given(a: Request, there: set[str]) -> list[str]:
    """The tags to delete; a text with commas names several unless one tag is called that, as in Java."""
    return [a["tag"]] if a["tag"] in there else [n.strip() for n in a["tag"].split(",") if n.strip()]


def _delete(a: Request) -> Removed | None:
    table = a.table()
    there = {t.name for t in table.tags(include_internal=True)}
    asked = _given(a, there)
    missing = [name for name in asked if name not in there]
    if a.is_call and missing:  # as in Paimon, so that a clean-up can run twice
        _LOG.warning("%s has no tags %s to delete", table.handle.describe(), ", ".join(missing))
        asked = [name for name in asked if name in there]
    return table.delete_tag(asked, dry_run=a.dry_run) if asked else None


def _show_deleted(a: Request, removed: Removed | None) -> Answer:
    if removed is None:
        return lines("no such tag", {})
    return removal(a, f"{a.did('deleted', 'delete')} {_described(a)}", removed)


def _described(a: Request) -> str:
    table = a.table()
    return f"tag {safe(', '.join(n.strip() for n in a['tag'].split(',') if n.strip()))} of {safe(table.name)}"


def _show_savepoints(a: Request, found: list[Savepoint]) -> Answer:
    shown = [(s.id, moment(s.snapshot.time_ms), s.snapshot.schema_id, s.snapshot.total_record_count) for s in found]
    sizes, on = sizes_of(a, "savepoint"), a.table().handle.layout.directory_branch
    each = [sizes.get((str(s.id), on)) for s in found]
    listed = with_sizes(a, ("id", "committed", "schema", "rows"), shown, each)
    return rows(*listed, data=each if a["size"] else found, empty="no savepoints")


def _savepoint(a: Request) -> str:
    return f"savepoint {a['savepoint_id']} of {safe(a.table().name)}"


_TAG = positional("tag", "name of the tag", "name", "--tag-name", "--tag")
_TAG_OF_ACTION = positional("tag", "name of the tag")
_SNAPSHOT = Argument(
    "snapshot", "id of the snapshot to tag", Type.BIGINT, otherwise="the head", spellings=("--snapshot-id",)
)
_RETAINED = Argument("time_retained", "how long the tag lives, such as `7 d`", otherwise="from the table options")
_VERSION = Argument(
    "version", "version of any branch to tag, such as fix.v1; the tag is on a branch that has it", is_own=True
)
_FIRST = "tagName STRING, snapshot BIGINT, commit_time BIGINT, watermark STRING"

OPERATIONS = (
    Operation(
        "list the tags of a branch, savepoints included",
        lambda a: a.table().tags(include_internal=a["all"]),
        (command_flag("all", "list the guard tags of branches, too", "-a"), SIZE),
        command="tag list",
        show=_show_list,
    ),
    Operation(
        "tag the head of the branch, a snapshot, or a version of any branch",
        _create,
        (
            _TAG,
            _SNAPSHOT,
            _RETAINED,
            _VERSION,
            command_flag("if_not_exists", "do nothing if the tag exists", "--ignore-if-exists"),
        ),
        Effect.WRITE,
        procedure="create_tag",
        command="tag create",
        show=_show_tag,
    ),
    Operation(
        "move a tag to the head, another snapshot, or a version",
        _replace,
        (
            _TAG,
            _SNAPSHOT,
            replace(_RETAINED, otherwise="no limit"),
            _VERSION,
        ),
        Effect.DELETE,
        procedure="replace_tag",
        command="tag replace",
        show=_show_replaced,
        question=lambda a: f"move tag {a['tag']} of {a.table().name}",
    ),
    Operation(
        "rename a tag",
        lambda a: a.table().rename_tag(a["tag"], a["target_tag"]),
        (_TAG, positional("target_tag", "the new name", "new_name", "--target-tag-name")),
        Effect.WRITE,
        procedure="rename_tag",
        command="tag rename",
        show=_show_tag,
    ),
    Operation(
        "delete a tag, and the files that nothing else needs",
        _delete,
        (_TAG,),
        Effect.DELETE,
        details="Separate the names of several tags with commas. The procedure ignores tags that do not exist.",
        procedure="delete_tag",
        command="tag delete",
        show=_show_deleted,
        question=lambda a: f"delete {_described(a)}",
    ),
    Operation(
        "delete expired tags",
        lambda a: a.table().expire_tags(a.moment("older_than"), dry_run=a.dry_run),
        (
            Argument(
                "older_than",
                "delete tags created before this time, or older than an age such as `7 d`, too",
                is_moment=True,
            ),
        ),
        Effect.DELETE,
        procedure="expire_tags",
        result="expired_tags STRING NOT NULL",
        rows=lambda a, removed: [(name,) for name in removed.tags] or [("No expired tags.",)],
        command="tag expire",
        searches=True,
        show=expired,
        question=lambda a: f"expire tags of {a.table().name}",
    ),
    Operation(
        "create the tags that are due by option tag.automatic-creation",
        lambda a: a.table().create_automatic_tags(),
        effect=Effect.WRITE,
        procedure="trigger_tag_automatic_creation",
        command="tag auto",
        show=lambda a, done: lines(done.text_lines(), done),
    ),
    Operation(
        "tag the first snapshot that was committed at or after a time",
        _create_from_timestamp,
        (_TAG_OF_ACTION, Argument("timestamp", "epoch milliseconds; must be given", Type.BIGINT), _RETAINED),
        Effect.WRITE,
        procedure="create_tag_from_timestamp",
        result=_FIRST,
        rows=lambda a, found: found,
        command="create-tag-from-timestamp",
        is_action=True,
    ),
    Operation(
        "tag the first snapshot with a watermark at or after a time",
        _create_from_watermark,
        (_TAG_OF_ACTION, Argument("watermark", "epoch milliseconds", Type.BIGINT, required=True), _RETAINED),
        Effect.WRITE,
        result=_FIRST,
        rows=lambda a, found: found,
        command="create-tag-from-watermark",
        is_action=True,
    ),
    Operation(
        "list the savepoints of a branch",
        lambda a: a.table().savepoints(),
        (SIZE,),
        command="savepoint list",
        show=_show_savepoints,
    ),
    Operation(
        "compact the branch fully, and keep the resulting snapshot until the savepoint is deleted",
        lambda a: a.table().create_savepoint(),
        effect=Effect.WRITE,
        procedure="create_savepoint",
        result="savepoint_id BIGINT",
        rows=lambda a, made: [(made.id,)],
        is_own=True,
        command="savepoint create",
        show=lambda a, made: lines(f"savepoint {made.id} of {safe(a.table().name)}", made),
    ),
    Operation(
        "delete a savepoint, and the files that nothing else needs",
        lambda a: a.table().delete_savepoint(a["savepoint_id"], dry_run=a.dry_run),
        (positional("savepoint_id", "id of the savepoint, which is that of its snapshot", "id", type=Type.BIGINT),),
        Effect.DELETE,
        procedure="delete_savepoint",
        is_own=True,
        command="savepoint delete",
        show=lambda a, removed: removal(a, f"{a.did('deleted', 'delete')} {_savepoint(a)}", removed),
        question=lambda a: f"delete {_savepoint(a)}",
    ),
)
