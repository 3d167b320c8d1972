"""Tags of a branch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paimon_spark.cli.answer import Answer, plain, rows, sentence
from paimon_spark.cli.call import Call
from paimon_spark.cli.command import Argument, Command, Kind, flag
from paimon_spark.cli.removed import names, removal
from paimon_spark.cli.text import duration, moment, safe

if TYPE_CHECKING:
    from paimon_spark.maintenance.removal import Removed
    from paimon_spark.metadata.tags import TagInfo

NAME = Argument("name", "tag", positional=True, required=True, spellings=("--tag-name", "--tag"))
SNAPSHOT = Argument("snapshot", "snapshot id to tag; else the head", parse=int, spellings=("--snapshot-id",))
RETAINED = Argument("time_retained", "how long the tag lives, such as `7 d`; else as the table's options say")


def _row(tag: TagInfo) -> tuple[object, ...]:
    what = "savepoint" if tag.is_savepoint else "guard" if tag.guards is not None else "tag"
    until = None if tag.time_retained_s is None else duration(tag.time_retained_s)
    branches = ", ".join(tag.branches) or (tag.guards or "")
    return (
        tag.name,
        what,
        tag.snapshot.id,
        moment(tag.snapshot.time_ms),
        tag.snapshot.total_record_count,
        until,
        branches,
    )


def _list(call: Call) -> Answer:
    found = [t for t in call.table().tags() if call["all"] or t.guards is None]
    columns = ("name", "kind", "snapshot", "committed", "rows", "lives for", "branches")
    return rows(columns, [_row(t) for t in found], data=found, empty="no tags")


def _create(call: Call) -> Answer:
    table = call.table()
    made = table.create_tag(
        call["name"],
        snapshot_id=call["snapshot"],
        time_retained=call["time_retained"],
        ignore_if_exists=call["if_not_exists"],
    )
    return _told(table.name, made)


def _told(table: str, tag: TagInfo) -> Answer:
    return sentence(f"tag {safe(tag.name)} of {safe(table)} is snapshot {tag.snapshot.id}", tag)


def _replace(call: Call) -> Answer:
    table, name = call.table(), call["name"]
    chosen = {"snapshot_id": call["snapshot"], "time_retained": call["time_retained"]}

    def answer(result: TagInfo | Removed, dry_run: bool) -> Answer:
        from paimon_spark.metadata.tags import TagInfo

        if isinstance(result, TagInfo):
            return _told(table.name, result)
        return removal("", f"would move tag {safe(name)} of {safe(table.name)}", result, dry_run)

    return call.deleting(
        f"move tag {name} of {table.name}",
        plan=lambda: table.replace_tag(name, **chosen, dry_run=True),
        act=lambda: table.replace_tag(name, **chosen),
        answer=answer,
    )


def _rename(call: Call) -> Answer:
    table = call.table()
    return _told(table.name, table.rename_tag(call["name"], call["new_name"]))


def _delete(call: Call) -> Answer:
    table = call.table()
    # A tag may hold a comma; a text with commas is several tags where it is none itself, as in Java.
    known = {t.name for t in table.tags()}
    named = [call["name"]] if call["name"] in known else [n.strip() for n in call["name"].split(",") if n.strip()]
    what = f"tag {safe(', '.join(named))} of {safe(table.name)}"
    return call.deleting(
        f"delete {what}",
        plan=lambda: table.delete_tag(named, dry_run=True),
        act=lambda: table.delete_tag(named),
        answer=lambda removed, dry_run: removal(f"deleted {what}", f"would delete {what}", removed, dry_run),
    )


def _expire(call: Call) -> Answer:
    table, older = call.table(), call["older_than"]
    return call.deleting(
        f"expire tags of {table.name}",
        plan=lambda: table.expire_tags(older, dry_run=True),
        act=lambda: table.expire_tags(older),
        answer=lambda removed, dry_run: removal("expired", "would expire", removed, dry_run),
    )


def _auto(call: Call) -> Answer:
    table = call.table()
    done = table.create_automatic_tags()
    lines = [f"created {names(done.created, 'tag')}"] if done.created else ["no automatic tag is due"]
    lines += [f"deleted {names(done.deleted, 'tag')}"] if done.deleted else []
    return Answer(plain(done), lambda room: lines)


COMMANDS = (
    Command(
        "tag",
        "list",
        "list the tags of a branch, savepoints included",
        _list,
        (flag("all", "list the guards of branches, too", "-a"),),
    ),
    Command(
        "tag",
        "create",
        "tag the head of the branch, or a snapshot",
        _create,
        (NAME, SNAPSHOT, RETAINED, flag("if_not_exists", "leave an existing tag as it is", "--ignore-if-exists")),
        Kind.WRITE,
        aliases=("create-tag",),
    ),
    Command(
        "tag",
        "replace",
        "move a tag to the head, or to another snapshot",
        _replace,
        (NAME, SNAPSHOT, RETAINED),
        Kind.DELETE,
        aliases=("replace-tag",),
    ),
    Command(
        "tag",
        "rename",
        "give a tag another name",
        _rename,
        (NAME, Argument("new_name", "the new name", positional=True, required=True, spellings=("--target-tag-name",))),
        Kind.WRITE,
        aliases=("rename-tag",),
    ),
    Command(
        "tag",
        "delete",
        "delete a tag, and the files that nothing else needs",
        _delete,
        (NAME,),
        Kind.DELETE,
        aliases=("delete-tag",),
        details="Several tags may be named, with commas between.",
    ),
    Command(
        "tag",
        "expire",
        "delete the tags whose time to live is over",
        _expire,
        (Argument("older_than", "tags made before this time go too"),),
        Kind.DELETE,
        aliases=("expire-tags",),
    ),
    Command(
        "tag",
        "auto",
        "make the tags that are due by option tag.automatic-creation",
        _auto,
        kind=Kind.WRITE,
        aliases=("trigger-tag-automatic-creation",),
    ),
)
