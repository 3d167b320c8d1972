"""Branches of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paimon_spark.cli.answer import Answer, plain, rows, sentence
from paimon_spark.cli.call import Call
from paimon_spark.cli.command import Argument, Command, Kind, flag
from paimon_spark.cli.removed import files_of, names, removal
from paimon_spark.cli.text import moment, safe

if TYPE_CHECKING:
    from paimon_spark.maintenance.removal import Removed
    from paimon_spark.versioning.merge import MergeResult
    from paimon_spark.versioning.replace_main import ReplaceResult

NAME = Argument("name", "branch", positional=True, required=True, spellings=("--branch-name",))


def _list(call: Call) -> Answer:
    found = call.table().branches()
    columns = ("name", "main", "tag", "snapshot", "modified")
    shown = [
        (b.name, "yes" if b.is_main else "", b.created_from_tag, b.created_from_snapshot_id, moment(b.modified_ms))
        for b in found
    ]
    return rows(columns, shown, data=found, empty="no branches but main")


def _create(call: Call) -> Answer:
    table = call.table()
    made = table.create_branch(
        call["name"], tag=call["tag"], snapshot_id=call["snapshot"], ignore_if_exists=call["if_not_exists"]
    )
    if made.created_from_tag is not None:
        base = f" from tag {safe(made.created_from_tag)}"
    elif made.created_from_snapshot_id is not None:
        base = f" from snapshot {made.created_from_snapshot_id}"
    else:
        base = ", empty"
    return sentence(f"branch {safe(made.name)} of {safe(table.name)}{base}", made)


def _delete(call: Call) -> Answer:
    table = call.table()
    names_given = [n.strip() for n in call["name"].split(",") if n.strip()]
    told = f"branch {safe(', '.join(names_given))} of {safe(table.name)}"

    def answer(removed: list[Removed], dry_run: bool) -> Answer:
        each = [removal(f"deleted {told}", f"would delete {told}", one, dry_run) for one in removed]
        if len(each) == 1:
            return each[0]
        text = [line for one in each for line in one.text(None)]
        return Answer([one.data for one in each], lambda room: text)

    return call.deleting(
        f"delete {told}",
        plan=lambda: [table.delete_branch(n, dry_run=True) for n in names_given],
        act=lambda: [table.delete_branch(n) for n in names_given],
        answer=answer,
    )


def _rename(call: Call) -> Answer:
    table = call.table()
    table.rename_branch(call["name"], call["new_name"])
    return sentence(
        f"branch {safe(call['name'])} of {safe(table.name)} is {safe(call['new_name'])}",
        {"old": call["name"], "new": call["new_name"]},
    )


def merge(call: Call) -> Answer:
    """Publish a branch as main, as PIP-14's merge does."""
    table, name, backup = call.table(), call["name"], not call["no_backup"]
    return call.deleting(
        f"merge branch {name} into main of {table.name}",
        plan=lambda: table.merge_branch(name, snapshot=call["snapshot"], backup=backup, dry_run=True),
        act=lambda: table.merge_branch(name, snapshot=call["snapshot"], backup=backup),
        answer=_merged,
    )


def _merged(result: MergeResult, dry_run: bool) -> Answer:
    if result.already_merged:
        told = f"branch {safe(result.branch)} is already merged: main has every commit of it"
        return _answer(result, [f"{told}, and stays at snapshot {result.published_snapshot_id}"], dry_run)
    return _published(result, dry_run)


def _fast_forward(call: Call) -> Answer:
    table, name, backup = call.table(), call["name"], not call["no_backup"]
    return call.deleting(
        f"fast-forward main of {table.name} to branch {name}",
        plan=lambda: table.fast_forward(name, snapshot=call["snapshot"], backup=backup, dry_run=True),
        act=lambda: table.fast_forward(name, snapshot=call["snapshot"], backup=backup),
        answer=_forwarded,
    )


def _forwarded(result: MergeResult, dry_run: bool) -> Answer:
    if result.already_merged:
        told = f"main is branch {safe(result.branch)} at snapshot {result.published_snapshot_id} already"
        return _answer(result, [told], dry_run)
    return _published(result, dry_run)


def _published(result: MergeResult, dry_run: bool) -> Answer:
    verb = "would become" if dry_run else "is"
    lines = [f"main {verb} branch {safe(result.branch)} at snapshot {result.published_snapshot_id}"]
    if result.moved_snapshots:
        lines.append(f"new on main: {names(result.moved_snapshots, 'snapshot')}")
    return _answer(result, [*lines, *_lost(result, dry_run)], dry_run)


def _answer(result: MergeResult | ReplaceResult, lines: list[str], dry_run: bool) -> Answer:
    return Answer({"dry_run": dry_run, **plain(result)}, lambda room: lines)


def _lost(result: MergeResult | ReplaceResult, dry_run: bool) -> list[str]:
    lines = []
    if result.discarded_snapshots:
        lines.append(f"main {'would lose' if dry_run else 'lost'}: {names(result.discarded_snapshots, 'snapshot')}")
    if result.discarded_tags:
        lines.append(f"and {names(result.discarded_tags, 'tag')}")
    if result.backup_branch is not None:
        lines.append(f"{'to be ' if dry_run else ''}kept as branch {safe(result.backup_branch)}")
    if result.removed.paths:
        lines.append(f"{'would delete' if dry_run else 'deleted'}: {files_of(result.removed)}")
    return lines


def _replace_main(call: Call) -> Answer:
    table, name, backup = call.table(), call["name"], not call["no_backup"]
    return call.deleting(
        f"make main of {table.name} mean branch {name}",
        plan=lambda: table.replace_main(name, backup=backup, dry_run=True),
        act=lambda: table.replace_main(name, backup=backup),
        answer=_replaced,
    )


def _replaced(result: ReplaceResult, dry_run: bool) -> Answer:
    lines = [f"main {'would mean' if dry_run else 'means'} branch {safe(result.branch)}; it was {result.former_main}"]
    return _answer(result, [*lines, *_lost(result, dry_run), safe(result.warning)], dry_run)


def append(call: Call) -> Answer:
    """Add a branch's new files to another."""
    table = call.table()
    done = table.append_branch(call["name"], call["to"])
    if done.snapshot_id is None:
        return sentence(f"{safe(done.target)} has all of {safe(done.source)} already", done)
    return sentence(
        f"{done.record_count:,} rows in {done.data_files:,} files of {safe(done.source)} are in snapshot "
        f"{done.snapshot_id} of {safe(done.target)}",
        done,
    )


PUBLISHED = Argument("snapshot", "publish this snapshot id, tag or version of the branch, and nothing after it")
NO_BACKUP = flag("no_backup", "do not keep what main loses as a branch; its files go at once")

COMMANDS = (
    Command("branch", "list", "list the branches of a table", _list),
    Command(
        "branch",
        "create",
        "create a branch from a tag, from a snapshot, or empty",
        _create,
        (
            NAME,
            Argument("tag", "tag to begin with", spellings=("--tag-name",)),
            Argument("snapshot", "snapshot id to begin with", parse=int, spellings=("--snapshot-id",)),
            flag("if_not_exists", "leave an existing branch as it is", "--ignore-if-exists"),
        ),
        Kind.WRITE,
        aliases=("create-branch",),
        details="Nothing of the data is read or copied. Without a tag or snapshot the branch is empty.",
    ),
    Command(
        "branch",
        "delete",
        "delete a branch, and the files that only it used",
        _delete,
        (NAME,),
        Kind.DELETE,
        aliases=("delete-branch",),
        details="Several branches may be named, with commas between.",
    ),
    Command(
        "branch",
        "rename",
        "give a branch another name",
        _rename,
        (NAME, Argument("new_name", "the new name", positional=True, required=True, spellings=("--to-branch",))),
        Kind.WRITE,
        aliases=("rename-branch",),
    ),
    Command(
        "branch",
        "merge",
        "make a branch's history main's; what main loses is kept as a branch",
        merge,
        (NAME, PUBLISHED, NO_BACKUP),
        Kind.DELETE,
        details="Nothing happens when main has every commit of the branch already.",
    ),
    Command(
        "branch",
        "fast-forward",
        "make main what a branch is, also when that takes main back; what main loses is kept as a branch",
        _fast_forward,
        (NAME, PUBLISHED, NO_BACKUP),
        Kind.DELETE,
        aliases=("fast-forward",),
    ),
    Command(
        "branch",
        "replace-main",
        "make main mean a branch; the former main goes",
        _replace_main,
        (NAME, NO_BACKUP),
        Kind.DELETE,
        aliases=("replace-main-branch",),
        details="Java Paimon 0.9 and newer does not read the file that says so, and finds no main any more.",
    ),
    Command(
        "branch",
        "append",
        "add the files that were appended to a branch to another one; append tables only",
        append,
        (NAME, Argument("to", "branch that gets them", default="main", spellings=("--target-branch",))),
        Kind.WRITE,
        aliases=("append-branch",),
    ),
)
