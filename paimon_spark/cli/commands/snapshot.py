"""Snapshots of a branch: list, look, let expire, go back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paimon_spark.cli.answer import Answer, facts, plain, rows, sentence
from paimon_spark.cli.call import Call
from paimon_spark.cli.command import Argument, Command, Kind, flag
from paimon_spark.cli.failure import UsageError
from paimon_spark.cli.removed import files_of, names, removal
from paimon_spark.cli.text import moment, safe

if TYPE_CHECKING:
    from paimon_spark.format.metadata_files.snapshot import Snapshot
    from paimon_spark.versioning.rollback import RolledBack

LIMIT = Argument("limit", "at most so many, the newest", spellings=("-n",), parse=int)
RETAIN_MAX = Argument("retain_max", "snapshots beyond so many go, however young", parse=int)
RETAIN_MIN = Argument("retain_min", "so many of the newest stay, however old", parse=int)
OLDER_THAN = Argument("older_than", "only older ones go: text such as `2024-01-31 12:30:00`, or epoch milliseconds")
MAX_DELETES = Argument("max_deletes", "so many go at most", parse=int)


def moment_of(text: str | None) -> int | str | None:
    """A moment as the library takes it: digits are epoch milliseconds."""
    return int(text) if text is not None and text.lstrip("-").isdigit() else text


def _list(call: Call) -> Answer:
    from paimon_spark.metadata.handle import current
    from paimon_spark.metadata.snapshots import find_snapshot, list_snapshot_ids

    limit = call["limit"]
    if limit is not None and limit < 1:
        raise UsageError(f"--limit {limit}: expected 1 or more")
    handle = current(call.table().handle)
    found = sorted(list_snapshot_ids(handle), reverse=True)
    wanted = found if limit is None else found[:limit]
    # One that expires meanwhile is left out.
    chosen = [s for s in (find_snapshot(handle, i) for i in wanted) if s is not None]
    shown = [
        (
            s.id,
            s.commit_kind.value,
            moment(s.time_ms),
            s.total_record_count,
            s.delta_record_count,
            s.schema_id,
            s.commit_user,
        )
        for s in chosen
    ]
    columns = ("id", "kind", "committed", "rows", "added", "schema", "user")
    left = len(found) - len(wanted)
    note = f"and {left:,} older" if left else ""
    return rows(columns, shown, data=chosen, empty="no snapshots", note=note)


def _show(call: Call) -> Answer:
    table = call.table()
    found = _found(call, str(call["version"]))
    tags = [t.name for t in table.tags() if t.snapshot.id == found.id and t.guards is None]
    pairs = {
        "snapshot": found.id,
        "committed": moment(found.time_ms),
        "kind": found.commit_kind.value,
        "user": found.commit_user,
        "identifier": found.commit_identifier,
        "schema": found.schema_id,
        "rows": found.total_record_count,
        "rows added": found.delta_record_count,
        "changelog rows": found.changelog_record_count,
        "watermark": found.watermark,
        "tags": tags,
        "operation": found.operation,
        "manifest lists": [found.base_manifest_list, found.delta_manifest_list],
        **(found.properties or {}),
    }
    return facts({k: v for k, v in pairs.items() if v not in (None, [])}, {**plain(found), "tags": tags})


def _found(call: Call, version: str) -> Snapshot:
    from paimon_spark.metadata.resolve import resolve
    from paimon_spark.metadata.version import from_options

    found = resolve(call.table().handle, from_options([("versionAsOf", version)], None)).snapshot
    if found is None:
        raise UsageError(f"{version} of {call.table_text} has no snapshot yet")
    return found


def _expire(call: Call) -> Answer:
    table = call.table()
    chosen = {
        "retain_min": call["retain_min"],
        "older_than": moment_of(call["older_than"]),
        "max_deletes": call["max_deletes"],
    }
    return call.deleting(
        f"expire snapshots of {table.name}",
        plan=lambda: table.expire_snapshots(call["retain_max"], **chosen, dry_run=True),
        act=lambda: table.expire_snapshots(call["retain_max"], **chosen),
        answer=lambda removed, dry_run: removal("expired", "would expire", removed, dry_run),
    )


def _rollback(call: Call) -> Answer:
    table, version = call.table(), call["version"]
    if call["as_latest"]:
        if call["dry_run"]:
            raise UsageError("--as-latest takes nothing away and has no dry run; leave --dry-run out")
        done = table.rollback_to_as_latest(version)
        return sentence(
            f"snapshot {done.snapshot.id} of {safe(table.name)} has the state of snapshot {done.target.id}",
            done,
        )
    return call.deleting(
        f"roll {table.name} back to {version}",
        plan=lambda: table.rollback_to(version, dry_run=True),
        act=lambda: table.rollback_to(version),
        answer=_rolled_back,
    )


def _rolled_back(done: RolledBack, dry_run: bool) -> Answer:
    lines = [f"the head {'would be' if dry_run else 'is'} snapshot {done.snapshot.id}"]
    gone = [
        names(f, n) for f, n in ((done.snapshots, "snapshot"), (done.tags, "tag"), (done.changelogs, "changelog")) if f
    ]
    verb = "would delete" if dry_run else "deleted"
    lines.append(f"{verb}: {', '.join([*gone, files_of(done.removed)])}")
    if done.branches:
        lines.append(f"branches that left it later: {names(done.branches, 'branch')}")
    return Answer({"dry_run": dry_run, **plain(done)}, lambda room: lines)


VERSION = Argument(
    "version",
    "snapshot id, tag, or any version: snapshot.5, v1, savepoint.3",
    positional=True,
    required=True,
    spellings=("--snapshot", "--snapshot-id", "--tag"),
)

COMMANDS = (
    Command("snapshot", "list", "list the snapshots of a branch, newest first", _list, (LIMIT,)),
    Command("snapshot", "show", "show one snapshot", _show, (VERSION,)),
    Command(
        "snapshot",
        "expire",
        "let old snapshots expire, and delete the files that nothing else needs",
        _expire,
        (RETAIN_MAX, RETAIN_MIN, OLDER_THAN, MAX_DELETES),
        Kind.DELETE,
        aliases=("expire-snapshots",),
        details="What is not given is as the table's options say.",
    ),
    Command(
        "snapshot",
        "rollback",
        "make a version of the branch its head again; what is later goes",
        _rollback,
        (VERSION, flag("as_latest", "by a new snapshot with the state of that version; nothing goes")),
        Kind.DELETE,
        aliases=("rollback-to", "rollback"),
    ),
)
