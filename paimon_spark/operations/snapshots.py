"""Operations on snapshots and changelogs of a branch: list, show, expire, roll back, undo."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from paimon_spark.errors import InvalidInputError
from paimon_spark.operations.answer import Answer, expired, facts, lines, plain, result, rows
from paimon_spark.operations.operation import (
    OPTIONS,
    Argument,
    Effect,
    Operation,
    Request,
    Rows,
    Style,
    Type,
    UsageError,
    command_flag,
    flag,
    positional,
)
from paimon_spark.text import id_of, moment, safe

if TYPE_CHECKING:
    from paimon_spark.format.metadata_files.snapshot import Snapshot
    from paimon_spark.maintenance.removal import Removed
    from paimon_spark.versioning.rollback import Restored, RolledBack
    from paimon_spark.versioning.undo import Undone


def check_limit(a: Request) -> int | None:
    """The value of `--limit`. Raises UsageError: it is below 1."""
    limit: int | None = a["limit"]
    if limit is not None and limit < 1:
        raise UsageError(f"--limit {limit}: expected 1 or more")
    return limit


def _list(a: Request) -> tuple[list[Snapshot], int]:
    from paimon_spark.metadata.handle import current
    from paimon_spark.metadata.snapshots import find_snapshot, list_snapshot_ids

    limit = check_limit(a)
    handle = current(a.table().handle)
    ids = sorted(list_snapshot_ids(handle), reverse=True)
    wanted = ids[:limit]
    # One that expires meanwhile is left out.
    return [s for s in (find_snapshot(handle, i) for i in wanted) if s is not None], len(ids) - len(wanted)


def _row(s: Snapshot) -> tuple[Any, ...]:
    kind, rows = s.commit_kind.value, s.total_record_count
    return s.id, kind, moment(s.time_ms), rows, s.rows_changed, s.schema_id, s.commit_user


def _show_list(a: Request, listed: tuple[list[Snapshot], int]) -> Answer:
    found, older = listed
    columns = ("id", "kind", "committed", "rows", "added", "schema", "user")
    note = f"and {older:,} older; use --limit N" if older else ""
    return rows(columns, [_row(s) for s in found], data=found, empty="no snapshots", note=note)


def _get(a: Request) -> Snapshot:
    from paimon_spark.metadata.resolve import resolve
    from paimon_spark.metadata.version import text_version

    found = resolve(a.table().handle, text_version(a["version"])).snapshot
    if found is None:
        raise UsageError(f"{a['version']} of {a.table_text} has no snapshot yet")
    return found


def _show(a: Request, found: Snapshot) -> Answer:
    tags = [t.name for t in a.table().tags() if t.snapshot.id == found.id]
    pairs = {
        "snapshot": found.id,
        "committed": moment(found.time_ms),
        "kind": found.commit_kind.value,
        "user": found.commit_user,
        "identifier": found.commit_identifier,
        "schema": found.schema_id,
        "rows": found.total_record_count,
        "rows added": found.rows_changed,
        "changelog rows": found.changelog_record_count,
        "watermark": found.watermark,
        "tags": tags,
        "operation": found.operation,
        "manifest lists": [found.base_manifest_list, found.delta_manifest_list],
        **(found.properties or {}),
    }
    return facts({k: v for k, v in pairs.items() if v not in (None, [])}, {**plain(found), "tags": tags})


def _expire(a: Request) -> Removed:
    table, given = a.table(), _retention(a)
    if a.is_call and given["max_deletes"] is None:
        given["max_deletes"] = table.options.expiry.snapshots.limit
    return table.expire_snapshots(**given)


def _retention(a: Request) -> dict[str, Any]:
    """The arguments that both expiries share."""
    chosen = {name: a[name] for name in ("retain_max", "retain_min", "max_deletes")}
    return {**chosen, "older_than": a.moment("older_than"), "dry_run": a.dry_run}


def _rollback(a: Request) -> Any:
    given = [n for n in ("version", "snapshot", "tag") if a[n] is not None]
    if len(given) != 1:
        found = " and ".join(given) or "none of them"
        raise InvalidInputError(f"{a.caller} takes exactly one of version, snapshot and tag, found {found}")
    if a["as_latest"]:
        if a.dry_run:
            raise UsageError("--as-latest deletes nothing and has no dry run; leave --dry-run out")
        if a["backup"]:
            raise UsageError("--as-latest deletes nothing, so --backup has nothing to keep; leave it out")
        return a.table().rollback_to_as_latest(a["version"])
    return _roll_to(a, f"tag-name.{a['tag']}" if given == ["tag"] else a[given[0]])


def _roll_to(a: Request, version: str | int) -> tuple[int | None, RolledBack]:
    """Roll back, and return the former head and what was removed."""
    table = a.table()
    before = max((s.id for s in table.snapshots()), default=None)
    if isinstance(version, str):
        version = version.strip()
        snapshot_id = id_of(version)
        version = version if snapshot_id is None else snapshot_id
    return before, table.rollback_to(version, backup=bool(a["backup"]), dry_run=a.dry_run)


def _heads(a: Request, done: tuple[int | None, RolledBack]) -> Rows:
    before, rolled = done
    return [(rolled.snapshot.id if before is None else before, rolled.snapshot.id)]


def _show_rolled_back(a: Request, done: Any) -> Answer:
    if a["as_latest"]:
        table = safe(a.table().name)
        return lines(f"snapshot {done.snapshot.id} of {table} has the state of snapshot {done.target.id}", done)
    return result(a, done[1])


def _as_latest(a: Request) -> Restored:
    version = a["version"].strip()
    snapshot_id = id_of(version)
    return a.table().rollback_to_as_latest(version if snapshot_id is None else snapshot_id)


def _to_timestamp(a: Request) -> tuple[int | None, RolledBack]:
    from paimon_spark.metadata.snapshots import snapshot_at_or_before_ms

    table, time_ms = a.table(), a["timestamp"]
    found = snapshot_at_or_before_ms(table.handle, time_ms)
    if found is None:
        raise a.no_snapshot(table, f"committed at or before {time_ms}")
    return _roll_to(a, found.id)


def _to_watermark(a: Request) -> tuple[int | None, RolledBack]:
    table, watermark = a.table(), a["watermark"]
    found = [s.id for s in table.snapshots() if s.watermark is not None and s.watermark <= watermark]
    if not found:
        raise a.no_snapshot(table, f"with a watermark of at most {watermark}")
    return _roll_to(a, max(found))


def _show_planned_only(a: Request, done: Any) -> Answer | None:
    return _show_rolled_back(a, done) if a.dry_run else None


def _undo(a: Request) -> Undone:
    return a.table().undo(if_main_moved=a["if_main_moved"], dry_run=a.dry_run)


def _undo_question(a: Request) -> str:
    return f"undo the {safe(_undo(a.planned()).operation)} of {safe(a.table().name)}"


_HEADS: Final = "previous_snapshot_id BIGINT NOT NULL, current_snapshot_id BIGINT NOT NULL"
_ANY_VERSION = "snapshot id, tag, or any version: snapshot.5, v1, savepoint.3"
_SPELLINGS = ("--snapshot", "--snapshot-id", "--tag")
_BACKUP: Final = flag("backup", "keep main's later snapshots and tags as a branch, which undo restores", is_own=True)
_AS_OPTIONS = "from the table options"
_RETAINED: Final = (
    Argument("retain_max", "how many to keep at most, however young", Type.INT, otherwise=_AS_OPTIONS),
    Argument("retain_min", "how many of the newest to keep at least, however old", Type.INT, otherwise=_AS_OPTIONS),
    Argument(
        "older_than",
        "expire only older ones: an age such as `7 d`, text such as `2024-01-31 12:30:00`, or epoch milliseconds",
        otherwise=_AS_OPTIONS,
        is_moment=True,
    ),
    Argument("max_deletes", "how many to expire at most", Type.INT),
)


def _rollback_action(point: str, help: str, run: Callable[[Request], Any]) -> Operation:
    return Operation(
        help,
        run,
        (Argument(point, "epoch milliseconds", Type.BIGINT, required=True), _BACKUP),
        Effect.DELETE,
        procedure=f"rollback_to_{point}",
        result=_HEADS,
        rows=_heads,
        command=f"rollback-to-{point}",
        is_action=True,
        show=_show_planned_only,
        question=lambda a: f"roll {a.table_text} back to {point} {a[point]}",
    )


OPERATIONS = (
    Operation(
        "list the snapshots of a branch, newest first",
        _list,
        (Argument("limit", "list only the newest", Type.INT, spellings=("-n",)),),
        command="snapshot list",
        show=_show_list,
    ),
    Operation(
        "show one snapshot",
        _get,
        (positional("version", _ANY_VERSION, "", *_SPELLINGS),),
        command="snapshot show",
        show=_show,
    ),
    Operation(
        "expire old snapshots of the branch, and delete the files that nothing else needs",
        _expire,
        (*_RETAINED, OPTIONS),
        Effect.DELETE,
        details="Without max_deletes the procedure expires at most as many as option snapshot.expire.limit says.",
        procedure="expire_snapshots",
        result="deleted_snapshots_count INT NOT NULL",
        rows=lambda a, removed: [(len(removed.snapshots),)],
        command="snapshot expire",
        searches=True,
        show=expired,
        question=lambda a: f"expire snapshots of {a.table().name}",
    ),
    Operation(
        "make a version of the branch its head again, and delete its later snapshots and tags",
        _rollback,
        (
            Argument("version", "snapshot id, tag, or a version as after VERSION AS OF", style=Style.CALL),
            positional("version", _ANY_VERSION, "", *_SPELLINGS, style=Style.COMMAND),
            Argument("snapshot", "snapshot id, instead of version", Type.BIGINT, style=Style.CALL),
            Argument("tag", "tag, instead of version", style=Style.CALL),
            _BACKUP,
            command_flag("as_latest", "add a new snapshot with the state of that version, and delete nothing"),
        ),
        Effect.DELETE,
        procedure="rollback",
        result=_HEADS,
        rows=_heads,
        command="snapshot rollback",
        actions=("rollback-to",),
        show=_show_rolled_back,
        question=lambda a: None if a["as_latest"] else f"roll {a.table().name} back to {a['version']}",
    ),
    _rollback_action(
        "timestamp", "make the newest snapshot committed at or before a time the head again", _to_timestamp
    ),
    _rollback_action(
        "watermark", "make the newest snapshot with a watermark at or before a time the head again", _to_watermark
    ),
    Operation(
        "add a new snapshot with the state of an earlier version; nothing is deleted",
        _as_latest,
        (Argument("version", _ANY_VERSION, required=True),),
        Effect.WRITE,
        procedure="rollback_to_as_latest",
        result=_HEADS,
        rows=lambda a, done: [(done.previous.id, done.snapshot.id)],
        is_own=True,
    ),
    Operation(
        "expire old changelogs of expired snapshots",
        lambda a: a.table().expire_changelogs(**_retention(a), delete_all=a["delete_all"]),
        (*_RETAINED, flag("delete_all", "expire all of them")),
        Effect.DELETE,
        details="The procedure is one of Paimon's Flink connector.",
        procedure="expire_changelogs",
        result="deleted_changelogs_count INT NOT NULL",
        rows=lambda a, removed: [(len(removed.changelogs),)],
        is_own=True,
        command="changelog expire",
        searches=True,
        show=expired,
        question=lambda a: f"expire changelogs of {a.table().name}",
    ),
    Operation(
        "undo the newest merge, fast-forward, replacement or rollback of main that kept a backup",
        _undo,
        (
            Argument(
                "if_main_moved",
                "what to do when main has commits since: refuse, or replace, which keeps them in a new backup branch",
                default="refuse",
                choices=("refuse", "replace"),
                is_own=True,
            ),
        ),
        Effect.DELETE,
        details="What the operation brought is kept as a new backup branch, so that an undo can be undone.",
        procedure="undo",
        result="operation STRING, snapshot_id BIGINT, backup_branch STRING",
        rows=lambda a, done: [(done.operation, done.snapshot_id, done.backup_branch)],
        is_own=True,
        command="undo",
        show=result,
        question=_undo_question,
    ),
)
