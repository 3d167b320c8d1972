"""Procedures on branches, and those that look after a table's refs."""

from __future__ import annotations

from typing import Final

from paimon_spark.errors import InvalidInputError
from paimon_spark.sql.call_context import CallContext
from paimon_spark.sql.messages import in_sql
from paimon_spark.sql.procedures.procedure import DONE, TABLE, Arguments, Kind, Parameter, Procedure, Rows

_BRANCH: Final = Parameter("branch", required=True, doc="Name of the branch.")
_BACKUP: Final = Parameter("backup", Kind.BOOLEAN, doc="Keep what main loses as a branch.", default="true", is_own=True)
_PUBLISHED: Final = (
    "result BOOLEAN, published_snapshot_id BIGINT, discarded_snapshots INT, backup_branch STRING, "
    "already_merged BOOLEAN"
)
_REPLACED: Final = "result BOOLEAN, discarded_snapshots INT, backup_branch STRING, warning STRING"


def _create(place: CallContext, a: Arguments) -> Rows:
    ignore = (a.text_or_none("ignoreIfExists") or "false").strip().lower()
    if ignore not in ("true", "false"):
        raise InvalidInputError(f"{a.caller} takes ignoreIfExists as true or false, found {ignore!r}")
    a.table(place).create_branch(
        a.text("branch"),
        tag=a.text_or_none("tag"),
        snapshot_id=a.number_or_none("snapshot"),
        ignore_if_exists=ignore == "true",
    )
    return [(True,)]


def _delete(place: CallContext, a: Arguments) -> Rows:
    table = a.table(place)
    names = [name.strip() for name in a.text("branch").split(",")]
    there = {b.name for b in table.branches()}
    for name in sorted(names, key=lambda name: name in there):
        # One that is not there comes first, and is refused before any is deleted.
        table.delete_branch(name)
    return [(True,)]


def _rename(place: CallContext, a: Arguments) -> Rows:
    a.table(place).rename_branch(a.text("from_branch"), a.text("to_branch"))
    return [(True,)]


def _fast_forward(place: CallContext, a: Arguments) -> Rows:
    a.table(place).fast_forward(a.text("branch"), backup=a.truth("backup", True))
    return [(True,)]


def _merge(place: CallContext, a: Arguments) -> Rows:
    done = a.table(place).merge_branch(a.text("branch"), backup=a.truth("backup", True))
    discarded = len(done.discarded_snapshots)
    return [(True, done.published_snapshot_id, discarded, done.backup_branch, done.already_merged)]


def _append(place: CallContext, a: Arguments) -> Rows:
    a.table(place).append_branch(a.text("source_branch"), a.text_or_none("target_branch") or "main")
    return [(True,)]


def _replace_main(place: CallContext, a: Arguments) -> Rows:
    done = a.table(place).replace_main(a.text("branch"), backup=a.truth("backup", True))
    return [(True, len(done.discarded_snapshots), done.backup_branch, done.warning)]


def _doctor(place: CallContext, a: Arguments) -> Rows:
    found = a.table(place).doctor(repair=a.truth("repair"))
    return [
        (f.kind, f.severity.value, f.branch, *(in_sql(t, is_call=True) for t in (f.message, f.remedy)), f.repaired)
        for f in found
    ]


_SOURCES: Final = (
    TABLE,
    Parameter("source_branch", required=True, doc="The branch whose new files are added."),
    Parameter("target_branch", doc="The branch that gets them.", default="main"),
)
_APPEND_DOC: Final = "Add the files that were appended to a branch since it was created to another. Append tables only."

PROCEDURES: Final = (
    Procedure(
        "create_branch",
        "Make a branch that begins with a tag or snapshot, or an empty one.",
        (
            TABLE,
            _BRANCH,
            Parameter("tag", doc="The tag to begin with.", default="none: an empty branch"),
            Parameter("ignoreIfExists", doc="Leave an existing branch as it is: true or false.", default="false"),
            Parameter("snapshot", Kind.BIGINT, doc="Id of the snapshot to begin with.", is_own=True),
        ),
        DONE,
        _create,
    ),
    Procedure(
        "delete_branch",
        "Delete branches, and the files that only they used.",
        (TABLE, Parameter("branch", required=True, doc="Name of the branch, or several with commas between.")),
        DONE,
        _delete,
    ),
    Procedure(
        "rename_branch",
        "Give a branch another name.",
        (
            TABLE,
            Parameter("from_branch", required=True, doc="Its name."),
            Parameter("to_branch", required=True, doc="The new name."),
        ),
        DONE,
        _rename,
    ),
    Procedure(
        "fast_forward",
        "Make main what a branch is, also when that takes main back. What main loses is kept as a branch.",
        (TABLE, _BRANCH, _BACKUP),
        DONE,
        _fast_forward,
    ),
    Procedure(
        "merge_branch",
        "Make a branch's history main's, as PIP-14 proposes; nothing happens when main has every commit of the branch. "
        "With source_branch it is Paimon 2.1's: see append_branch.",
        (TABLE, _BRANCH, _BACKUP),
        _PUBLISHED,
        _merge,
        other=Procedure("merge_branch", _APPEND_DOC, _SOURCES, DONE, _append),
    ),
    Procedure("append_branch", _APPEND_DOC, _SOURCES, DONE, _append, is_own=True),
    Procedure(
        "replace_main",
        "Make main mean a branch; what the former main had after the branch left it is kept as a branch.",
        (TABLE, _BRANCH, _BACKUP),
        _REPLACED,
        _replace_main,
        is_own=True,
    ),
    Procedure(
        "doctor",
        "Tell what is wrong with the table's tags, branches and history.",
        (TABLE, Parameter("repair", Kind.BOOLEAN, doc="Mend what can be mended.", default="false")),
        "kind STRING, severity STRING, branch STRING, message STRING, remedy STRING, repaired BOOLEAN",
        _doctor,
        is_own=True,
    ),
)
