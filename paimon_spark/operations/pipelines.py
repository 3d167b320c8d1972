"""Operations on pipelines, and on the releases of a warehouse."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from paimon_spark.operations.answer import Answer, lines, removal, result, results, rows
from paimon_spark.operations.operation import (
    Argument,
    Effect,
    Operation,
    Request,
    Style,
    Subject,
    Type,
    UsageError,
    command_flag,
    flag,
    positional,
    repeated,
    table_names,
)
from paimon_spark.operations.shared_arguments import (
    CHECK,
    IF_MAIN_MOVED,
    ON_CONFLICT,
    checks_of,
    required_checks,
    show_checks,
)
from paimon_spark.text import id_of, moment, safe

if TYPE_CHECKING:
    from paimon_spark.api.pipeline import Pipeline
    from paimon_spark.api.pipeline_branch import PipelineBranch
    from paimon_spark.api.release import Release
    from paimon_spark.maintenance.removal import Removed
    from paimon_spark.pipelines.preparation import Preparation
    from paimon_spark.pipelines.replay import RecordedStatement


def _pipeline(a: Request) -> Pipeline:
    tables = [a.table_name(t) for t in a["tables"]]
    stop_at = [a.table_name(t) for t in a["stop_at"] or ()]
    return a.catalog().pipeline(*tables, downstream=not a["only"], upstream=bool(a["upstream"]), stop_at=stop_at)


def _prepare(a: Request) -> Preparation:
    return a.catalog().prepare(
        *table_names(a),
        keep=None if a["keep"] in (None, "none") else a["keep"],
        tags=a["tags"],
        savepoint_days=a["savepoint_days"],
        downstream=not a["only"],
        dry_run=a.dry_run,
    )


def _prepare_question(a: Request) -> str | None:
    found = _prepare(a.planned())
    return "set these options" if found.enables_lineage or found.settings() else None


def _show_pipeline(a: Request, found: Pipeline) -> Answer:
    if a["graph"]:
        picture = found.graph()
        return lines(picture.text_lines(), picture)
    return lines(list(found.text_lines()), found.to_dict())


def _branch(a: Request) -> PipelineBranch:
    given = [name for name in ("before", "tag", "timestamp") if a[name] is not None]
    if len(given) > 1:
        raise UsageError(f"{a.caller} takes one of {' and '.join(f'--{name}' for name in given)}")
    before = None
    if a["before"] is not None:
        table, equals, version = a["before"].rpartition("=")
        if not equals or not table or not version:
            raise UsageError(f"{a.caller} --before takes TABLE=SNAPSHOT, such as shop.sales=2, found {a['before']!r}")
        before = a.table_name(table), version
    return _pipeline(a).branch(
        a["branch"], before=before, tag=a["tag"], timestamp=a.moment("timestamp"), dry_run=a.dry_run
    )


def _of_name(a: Request) -> PipelineBranch:
    return a.catalog().pipeline_branch(a["branch"])


def _show_branches(a: Request, found: list[PipelineBranch]) -> Answer:
    shown = [(b.name, len(b.tables), b.record.start, moment(b.record.created_ms)) for b in found]
    return rows(
        ("name", "tables", "from", "created"), shown, data=[b.to_dict() for b in found], empty="no pipeline branches"
    )


def _rerun(a: Request) -> list[RecordedStatement]:
    branch = _of_name(a)
    if not a.dry_run:
        a.start_spark()
    return branch.run_statements(*(a["job"] or ()), dry_run=a.dry_run)


def _show_rerun(a: Request, done: list[RecordedStatement]) -> Answer:
    return results(done, "no statement is left to run", {"dry_run": a.dry_run, "statements": done})


def _show_diff(a: Request, found: dict[str, Any]) -> Answer:
    same = all(diff.is_same for diff in found.values())
    return lines(
        [line for diff in found.values() for line in diff.text_lines()],
        {t: d.to_dict() for t, d in found.items()},
        exit_code=0 if same else 1,
    )


def _publish(a: Request) -> Release:
    return _of_name(a).publish(
        if_main_moved=a["if_main_moved"],
        only_if_main_is=_heads_of(a),
        on_conflict=a["on_conflict"],
        replace=[a.table_name(t) for t in a["replace"] or ()],
        checks=checks_of(a),
        dry_run=a.dry_run,
    )


def _heads_of(a: Request) -> dict[str, int] | None:
    """The heads that main must have, by table; None for any. Raises UsageError."""
    given: dict[str, int] = {}
    for text in a["only_if_main_is"] or ():
        table, _, snapshot = text.rpartition("=")
        snapshot_id = id_of(snapshot)
        if not table or not snapshot_id:
            raise UsageError(f"{a.caller} --only-if-main-is takes TABLE=SNAPSHOT, such as shop.sales=7; found {text!r}")
        if given.setdefault(a.table_name(table), snapshot_id) != snapshot_id:
            raise UsageError(f"{a.caller}: --only-if-main-is names two snapshots of {table}; give one")
    return given or None


def _show_releases(a: Request, found: list[Release]) -> Answer:
    def shown(r: Release) -> tuple[Any, ...]:
        what = f"undo of {r.record.undoes}" if r.record.undoes else r.record.branch
        undone = "" if r.record.undone_by is None else f"by {r.record.undone_by}"
        return r.id, what, moment(r.time_ms), len(r.tables), undone

    columns = ("id", "branch", "published", "tables", "undone")
    return rows(columns, [shown(r) for r in found], data=[r.to_dict() for r in found], empty="no releases")


def _undo(a: Request) -> Release:
    release = a.catalog().release(a["release"]) if a["release"] is not None else _newest(a)
    return release.undo(if_main_moved=a["if_main_moved"], dry_run=a.dry_run)


def _newest(a: Request) -> Release:
    """The newest release that may be undone."""
    found = [r for r in a.catalog().releases() if r.record.undone_by is None]
    if not found:
        raise UsageError(f"{a.caller}: there is no release to undo; `release list` shows all")
    return found[-1]


def _show_deleted(a: Request, removed: Removed) -> Answer:
    return removal(a, f"{a.did('deleted', 'delete')} pipeline branch {safe(a['branch'])}", removed)


_TABLES = positional("tables", "table where the pipeline begins", repeated=True, metavar="TABLE")
_SCOPE = (
    command_flag("upstream", "follow jobs from what they write to what they read, too"),
    command_flag("only", "only the tables that are given, without those downstream"),
    repeated("stop_at", "table beyond which the pipeline does not go", "TABLE"),
)
_CHECK = replace(
    CHECK, help="SQL that must return no row, with {db.table} for the branch of a table, as NAME=SQL; may be repeated"
)
_NAME = positional("branch", "name of the pipeline branch", "name")
_IF_MAIN_MOVED = replace(
    IF_MAIN_MOVED,
    help="when main of a table has commits, schemas or tags of its own: refuse, replace them, or rebase: put the "
    "branch's changes on top of them",
    is_own=False,
)
_IF_MOVED_SINCE = replace(
    _IF_MAIN_MOVED,
    help="when main of a table has commits, schemas or tags after the release: refuse, or replace them",
    metavar="refuse|replace",
)


def _of_pipeline(help: str, run: Any, *arguments: Argument, command: str, **more: Any) -> Operation:
    return Operation(
        help,
        run,
        tuple(replace(argument, style=Style.COMMAND) for argument in arguments),
        subject=Subject.WAREHOUSE,
        command=command,
        **more,
    )


OPERATIONS = (
    Operation(
        "keep snapshots of the tables of a pipeline long enough for corrections, and switch lineage on",
        _prepare,
        (
            replace(_TABLES, help="table of the pipeline; those downstream are prepared, too"),
            Argument("keep", "how long snapshots are kept, or none to leave that as it is", default="7 d"),
            Argument("tags", "period of automatic tags, kept for 30 days", choices=("daily", "two-hours", "hourly")),
            Argument("savepoint_days", "days between automatic savepoints", Type.INT),
            flag("only", "only the tables that are given"),
        ),
        subject=Subject.WAREHOUSE,
        command="prepare",
        effect=Effect.DELETE,
        procedure="prepare",
        result="table_name STRING, setting STRING, value STRING",
        rows=lambda a, done: done.settings(),
        is_own=True,
        details="What a table keeps already, or longer, stays. Files that compactions replaced are kept as long, which "
        "takes space. A call separates the tables with commas.",
        show=result,
        question=_prepare_question,
    ),
    _of_pipeline(
        "show the tables and jobs downstream of tables, from lineage",
        _pipeline,
        *_SCOPE,
        command_flag("graph", "print a Mermaid flowchart"),
        _TABLES,
        command="pipeline show",
        show=_show_pipeline,
    ),
    _of_pipeline(
        "create a branch of each table of a pipeline: of all of them, or of none",
        _branch,
        _NAME,
        Argument(
            "before",
            "start from the newest snapshots without rows of this snapshot, by lineage",
            metavar="TABLE=SNAPSHOT",
        ),
        Argument("tag", "start from this tag of each table"),
        Argument("timestamp", "start from the newest snapshots at or before this time", is_moment=True),
        command_flag("dry_run", "print where each branch would start, and change nothing"),
        *_SCOPE,
        _TABLES,
        command="pipeline branch",
        effect=Effect.WRITE,
        details="Without --before, --tag and --timestamp the branches start from the heads. --dry-run shows from which "
        "snapshot each table would start, and why.",
        show=result,
    ),
    _of_pipeline(
        "list the pipeline branches",
        lambda a: a.catalog().pipeline_branches(),
        command="pipeline list",
        show=_show_branches,
    ),
    _of_pipeline(
        "show how each job runs again on the branches: sources, start options, order",
        lambda a: _of_name(a).replay_plan(),
        _NAME,
        command="pipeline replay",
        show=lambda a, steps: results(steps, "no job of the pipeline is recorded"),
    ),
    _of_pipeline(
        "list the SQL statements of the jobs since the branches start",
        lambda a: _of_name(a).statements(),
        _NAME,
        command="pipeline statements",
        show=lambda a, found: results(found, "no statement is recorded"),
    ),
    _of_pipeline(
        "run the SQL statements of the jobs again on the branches, oldest first",
        _rerun,
        _NAME,
        repeated("job", "run only the statements of this job", ""),
        command="pipeline rerun",
        effect=Effect.DELETE,
        details="Statements that were run again before are skipped. `pipeline statements` lists them all. Whoever may "
        "write a table may have written its statements: they are shown before they run, and only writes of that table "
        "with built-in functions and tables of attached catalogs run.",
        show=_show_rerun,
        question=lambda a: f"run these statements on pipeline branch {a['branch']}",
    ),
    _of_pipeline(
        "compare the branch of each table with its main; exit code 1 when any differ",
        lambda a: _of_name(a).diff(rows=False) if a["files"] else _of_name(a).diff(),
        _NAME,
        command_flag("files", "compare files, not rows"),
        command="pipeline diff",
        show=_show_diff,
    ),
    _of_pipeline(
        "run checks on the branches of the tables; exit code 1 when any fails",
        lambda a: _of_name(a).check(required_checks(a)),
        _NAME,
        _CHECK,
        command="pipeline check",
        show=show_checks,
    ),
    _of_pipeline(
        "make the branches main of their tables: of all of them, or of none",
        _publish,
        _NAME,
        _IF_MAIN_MOVED,
        repeated("only_if_main_is", "publish only while main's head of the table is this snapshot", "TABLE=SNAPSHOT"),
        ON_CONFLICT,
        repeated("replace", "table whose main is replaced in any case", "TABLE"),
        _CHECK,
        command="pipeline publish",
        effect=Effect.DELETE,
        details="Main of each table is kept as a backup branch; `release undo` goes back to it. --dry-run prints what "
        "main of each table would lose and gain. Where main has every commit of the branches already, no release is "
        "made.",
        show=result,
        question=lambda a: f"publish pipeline branch {a['branch']} as main",
    ),
    _of_pipeline(
        "delete a pipeline branch: the branch of each table, and the files that only they use",
        lambda a: _of_name(a).delete(dry_run=a.dry_run),
        _NAME,
        command="pipeline delete",
        effect=Effect.DELETE,
        show=_show_deleted,
        question=lambda a: f"delete pipeline branch {a['branch']}",
    ),
    _of_pipeline(
        "list the releases: what was published or undone together",
        lambda a: a.catalog().releases(),
        command="release list",
        show=_show_releases,
    ),
    _of_pipeline(
        "give main of each table of a release its former history back: of all of them, or of none",
        _undo,
        positional("release", "number of the release", "id", type=Type.BIGINT, required=False, otherwise="the newest"),
        _IF_MOVED_SINCE,
        command="release undo",
        effect=Effect.DELETE,
        show=result,
        question=lambda a: f"undo release {a['release'] or '(the newest)'}",
    ),
)
