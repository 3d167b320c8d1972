"""Operations on branches of a table."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from paimon_spark.errors import InvalidInputError
from paimon_spark.operations.answer import Answer, change, lines, removal, result, rows
from paimon_spark.operations.operation import (
    DRY_RUN,
    Argument,
    Effect,
    Operation,
    Request,
    Rows,
    Style,
    Type,
    UsageError,
    command_flag,
    positional,
)
from paimon_spark.operations.shared_arguments import (
    CHECK,
    IF_MAIN_MOVED,
    ON_CONFLICT,
    SIZE,
    checks_of,
    sizes_of,
    with_sizes,
)
from paimon_spark.redaction import get_logger
from paimon_spark.text import moment, safe

if TYPE_CHECKING:
    from paimon_spark.maintenance.removal import Removed
    from paimon_spark.metadata.branches import Branch
    from paimon_spark.versioning.append_branch import Appended
    from paimon_spark.versioning.merge import MergeResult

_LOG: Final = get_logger(__name__)


def _show_list(a: Request, found: list[Branch]) -> Answer:
    columns = ("name", "main", "tag", "snapshot", "modified")
    shown = [
        (b.name, "yes" if b.is_main else "", b.created_from_tag, b.created_from_snapshot_id, moment(b.modified_ms))
        for b in found
    ]
    sizes = sizes_of(a, "branch")
    return rows(
        *with_sizes(a, columns, shown, [sizes.get((b.name, b.name)) for b in found]),
        data=found if not a["size"] else [size for b in found if (size := sizes.get((b.name, b.name))) is not None],
        empty="no branches but main",
    )


def _create(a: Request) -> Branch:
    ignore = str(a["ignoreIfExists"] or "false").strip().lower()
    if ignore not in ("true", "false"):
        raise InvalidInputError(f"{a.caller} takes ignoreIfExists as true or false, found {ignore!r}")
    starts = {"tag": a["tag"], "snapshot_id": a["snapshot"], "version": a["version"]}
    empty = a["empty"]
    if empty is None:  # as Paimon has it
        empty = all(start is None for start in starts.values())
    return a.table().create_branch(a["branch"], **starts, empty=empty, ignore_if_exists=ignore == "true")


def _show_created(a: Request, made: Branch) -> Answer:
    return lines(f"branch {safe(made.name)} of {safe(a.table().name)}{made.base_text}", made)


def _given(a: Request) -> list[str]:
    return [name.strip() for name in a["branch"].split(",") if name.strip()] or [a["branch"]]


def _delete(a: Request) -> list[Removed]:
    table = a.table()
    there = {b.name for b in table.branches(include_internal=True)}
    # A missing one comes first, and is refused before any is deleted.
    return [table.delete_branch(n, dry_run=a.dry_run) for n in sorted(_given(a), key=lambda name: name in there)]


def _described(a: Request) -> str:
    return f"branch {safe(', '.join(_given(a)))} of {safe(a.table().name)}"


def _show_deleted(a: Request, removed: list[Removed]) -> Answer:
    each = [removal(a, f"{a.did('deleted', 'delete')} {_described(a)}", one) for one in removed]
    if len(each) == 1:
        return each[0]
    return lines([line for one in each for line in one.text(None)], [one.data for one in each])


def _rename(a: Request) -> dict[str, str]:
    a.table().rename_branch(a["from_branch"], a["to_branch"])
    return {"old": a["from_branch"], "new": a["to_branch"]}


def _keeps_backup(a: Request) -> bool:
    return bool(a["backup"]) and not a["no_backup"]


def _is_append(a: Request) -> bool:
    """Whether Paimon's merge_branch is meant, which appends."""
    return a["source_branch"] is not None


def _merge(a: Request) -> MergeResult | Appended:
    if (a["branch"] is None) != _is_append(a):
        raise UsageError(f"{a.caller} needs one of --name, PIP-14's merge, and --source-branch, Paimon's")
    if not _is_append(a):
        return a.table().merge_branch(
            a["branch"],
            snapshot=a["version"],
            if_main_moved=a["if_main_moved"],
            only_if_main_is=a["only_if_main_is"],
            on_conflict=a["on_conflict"],
            target=a["target_branch"],
            backup=_keeps_backup(a),
            checks=checks_of(a),
            dry_run=a.dry_run,
        )
    if a.dry_run:
        raise UsageError(f"{a.caller} --source-branch deletes nothing and has no dry run; leave --dry-run out")
    return _append(a)


def _forwarded_rows(a: Request, done: MergeResult) -> Rows:
    """Rows of Paimon's procedure, which has no columns for main's losses."""
    if done.backup_branch is not None:
        _LOG.warning("%s of %s: %s", a.caller, a.table().name, "; ".join(done.text_lines()))
    return [(True,)]


def _merged_rows(a: Request, done: MergeResult) -> Rows:
    change = done.change
    rows = (
        (None, done.rebased_rows, None) if change is None else (change.rows_lost, change.rows_gained, change.rows_text)
    )
    discarded = len(done.discarded_snapshots)
    return [(True, done.published_snapshot_id, discarded, done.backup_branch, done.already_merged, *rows)]


def _show_forwarded(a: Request, done: MergeResult) -> Answer:
    if not done.already_merged:
        return result(a, done)
    return change(a, f"main is branch {safe(done.branch)} at snapshot {done.published_snapshot_id} already", done)


def _append(a: Request) -> Appended:
    return a.table().append_branch(a["source_branch"], target=a["target_branch"])


_BRANCH = positional("branch", "name of the branch", "name", "--branch-name")
_VERSION = Argument(
    "version",
    "publish this snapshot id, tag or version of the branch, and nothing after it",
    option="snapshot",
    style=Style.COMMAND,
)
_BACKUP = (
    Argument(
        "backup", "keep what main loses as a backup branch", Type.BOOLEAN, default=True, style=Style.CALL, is_own=True
    ),
    command_flag("no_backup", "do not keep what main loses as a backup branch; its files are deleted at once"),
)
_CALL_DRY_RUN = replace(DRY_RUN, help="only return what would be done")
_ONLY_IF_MAIN_IS = Argument(
    "only_if_main_is",
    "publish only while main's head is this snapshot, which also a compaction moves",
    Type.BIGINT,
    is_own=True,
    metavar="SNAPSHOT",
)
_TARGET = Argument(
    "target_branch", "branch to add them to", default="main", option="to", spellings=("--target-branch",)
)

OPERATIONS = (
    Operation(
        "list the branches of a table",
        lambda a: a.table().branches(include_internal=a["all"]),
        (command_flag("all", "list backup branches, too", "-a"), SIZE),
        command="branch list",
        show=_show_list,
    ),
    Operation(
        "create a branch from the head, from a tag, snapshot or version, or empty",
        _create,
        (
            _BRANCH,
            Argument("tag", "tag to start from", spellings=("--tag-name",)),
            Argument(
                "ignoreIfExists",
                "do nothing if the branch exists",
                default="false",
                is_flag=True,
                option="if_not_exists",
                spellings=("--ignore-if-exists",),
            ),
            Argument(
                "snapshot", "id of the snapshot to start from", Type.BIGINT, is_own=True, spellings=("--snapshot-id",)
            ),
            Argument("version", "version of any branch to start from, such as fix.v1", is_own=True),
            command_flag("empty", "start without rows, with the columns and options of the table"),
        ),
        Effect.WRITE,
        details="No data is read or copied. The procedure and the action create-branch start empty unless told where "
        "to start, as in Paimon; `branch create` starts from the head.",
        procedure="create_branch",
        as_paimon={"empty": None},
        command="branch create",
        show=_show_created,
    ),
    Operation(
        "delete a branch, and the files that only it uses",
        _delete,
        (_BRANCH,),
        Effect.DELETE,
        details="Separate the names of several branches with commas.",
        procedure="delete_branch",
        command="branch delete",
        show=_show_deleted,
        question=lambda a: f"delete {_described(a)}",
    ),
    Operation(
        "rename a branch",
        _rename,
        (
            positional("from_branch", "name of the branch", "name", "--branch-name"),
            positional("to_branch", "the new name", "new_name", "--to-branch"),
        ),
        Effect.WRITE,
        procedure="rename_branch",
        command="branch rename",
        show=lambda a, done: lines(
            f"branch {safe(done['old'])} of {safe(a.table().name)} is {safe(done['new'])}", done
        ),
    ),
    Operation(
        "replace main by a branch, even one that is behind main; what main loses is kept as a backup branch",
        lambda a: a.table().fast_forward(
            a["branch"], snapshot=a["version"], backup=_keeps_backup(a), checks=checks_of(a), dry_run=a.dry_run
        ),
        (_BRANCH, _VERSION, *_BACKUP, CHECK),
        Effect.DELETE,
        procedure="fast_forward",
        rows=_forwarded_rows,
        command="branch fast-forward",
        show=_show_forwarded,
        question=lambda a: f"fast-forward main of {a.table().name} to branch {a['branch']}",
    ),
    Operation(
        "publish a branch as main, as PIP-14 proposes; what main loses is kept as a backup branch",
        _merge,
        (
            Argument("branch", "name of the branch", required=True, style=Style.CALL),
            replace(_BRANCH, required=False, style=Style.COMMAND),
            _VERSION,
            IF_MAIN_MOVED,
            _ONLY_IF_MAIN_IS,
            ON_CONFLICT,
            *_BACKUP,
            CHECK,
            _CALL_DRY_RUN,
            Argument("source_branch", "as Paimon's action: add the new files of this branch", style=Style.COMMAND),
            Argument("target_branch", "branch that gets them, or the changes of a rebase", default="main", is_own=True),
        ),
        Effect.DELETE,
        details="Nothing happens when main has every commit of the branch already. When main has commits of its own, "
        "the procedure and the action merge-branch replace them, as PIP-14 proposes; `branch merge` refuses.",
        procedure="merge_branch",
        as_paimon={"if_main_moved": "replace"},
        result="result BOOLEAN, published_snapshot_id BIGINT, discarded_snapshots INT, backup_branch STRING, "
        "already_merged BOOLEAN, rows_lost BIGINT, rows_gained BIGINT, rows_by_partition STRING",
        rows=_merged_rows,
        command="branch merge",
        show=lambda a, done: lines(str(done), done) if _is_append(a) else result(a, done),
        question=lambda a: None if _is_append(a) else f"merge branch {a['branch']} into main of {a.table().name}",
    ),
    Operation(
        "add the files that were appended to a branch since it was created to another; append tables only",
        _append,
        (positional("source_branch", "branch whose new files are added", "name", "--branch-name"), _TARGET),
        Effect.WRITE,
        procedure="append_branch",
        is_own=True,
        command="branch append",
        show=lambda a, done: lines(str(done), done),
    ),
    Operation(
        "point main to a branch; commits of the former main after the fork are kept as a backup branch",
        lambda a: a.table().replace_main(a["branch"], backup=_keeps_backup(a), dry_run=a.dry_run),
        (_BRANCH, *_BACKUP),
        Effect.DELETE,
        details="Java Paimon 0.9 and newer does not read the file that points to the branch, and no longer finds main.",
        procedure="replace_main",
        result="result BOOLEAN, discarded_snapshots INT, backup_branch STRING, warning STRING",
        rows=lambda a, done: [(True, len(done.discarded_snapshots), done.backup_branch, done.warning)],
        is_own=True,
        command="branch replace-main",
        actions=("replace-main-branch",),
        show=result,
        question=lambda a: f"point main of {a.table().name} to branch {a['branch']}",
    ),
)
