"""Operations on the lineage of a warehouse: which snapshot of which table came from which."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from paimon_spark.operations.answer import Answer, lines, rows
from paimon_spark.operations.operation import (
    Argument,
    Effect,
    Operation,
    Request,
    Rows,
    Style,
    Subject,
    Type,
    UsageError,
    command_flag,
    key_value,
    positional,
    repeated,
    table_names,
)
from paimon_spark.redaction import get_logger
from paimon_spark.text import counted, safe, shown

if TYPE_CHECKING:
    from paimon_spark.lineage.asking.results import LineageStatus

_LOG = get_logger(__name__)


def _show_result(a: Request, result: Any) -> Answer:
    unrecorded = [{"kind": "unrecorded", **table.to_dict()} for table in getattr(result, "unrecorded", None) or ()]
    return lines([safe(line) for line in str(result).splitlines()], [*result.to_arrow().to_pylist(), *unrecorded])


def _show_status(a: Request, found: LineageStatus) -> Answer:
    state = "off" if not found.table else "on, tables and snapshots" if found.data else "on, tables only"
    out = f"lineage of {safe(found.warehouse)} is {state}; {counted(found.jobs, 'job')} recorded"
    text = [out] if found.warning is None else [out, f"warning: {safe(found.warning)}"]
    return lines(
        text, {**found.to_arrow().to_pylist()[0], **({} if found.warning is None else {"warning": found.warning})}
    )


def _rows_of_enabled(a: Request, found: LineageStatus) -> Rows:
    if found.warning is not None:
        _LOG.warning("%s", found.warning)
    return [(True,)]


def _start(a: Request) -> dict[str, Any]:
    """Where to follow the lineage from."""
    if (a["table"] is None) == (a["job"] is None) or (a["job"] is not None and a["snapshot"] is not None):
        raise UsageError(f"{a.caller} needs TABLE, with or without --snapshot, or --job alone")
    return {"table": a["table"], "snapshot": a["snapshot"], "job": a["job"]}


def _show_unified(a: Request, found: Any) -> Answer:
    note = "\n".join(map(safe, found.unrecorded.lines()))
    return rows(("table", "snapshot"), list(found.items()), data=dict(found), note=note)


def _show_graph(a: Request, picture: Any) -> Answer:
    if a["output"] is not None:
        path = str(picture.save(a["output"]))
        return lines(f"saved {safe(path)}", {"path": path})
    return lines(picture.text_lines(), picture)


def _forget(a: Request) -> int | None:
    """Remove the rows of the job, and return how many; None in a dry run."""
    lineage, job = a.catalog().lineage, a["job"]
    if not a.dry_run:
        return lineage.forget_job(job)
    if job not in [j.name for j in lineage.jobs(include_internal=True)]:
        lineage.downstream(job=job)  # raises an error that lists the jobs
    return None


def _show_forgotten(a: Request, count: int | None) -> Answer:
    out = f"{a.did('removed', 'remove')} job {safe(a['job'])} from the lineage"
    out += "" if count is None else f": {counted(count, 'row')}"
    return lines(out, {"dry_run": a.dry_run, "job": a["job"], "rows": count})


def _show_sources(a: Request, found: list[str]) -> Answer:
    out = [safe(name) for name in found] or ["no declared sources"]
    return lines(out, [{"table": name} for name in found])


_TABLES = positional("tables", "tables: db.t or db.t$branch_fix", repeated=True, metavar="TABLE")
_SOURCE = (
    positional("table", "table: db.t or db.t$branch_fix", required=False, metavar="TABLE"),
    Argument("snapshot", "snapshot id, tag or any version of the table"),
    Argument("job", "a job instead of a table"),
)
_DECLARED = positional("table", "table: db.t", metavar="TABLE")
_DECLARED_ROWS: dict[str, Any] = {
    "result": "table STRING",
    "rows": lambda a, found: [(name,) for name in found],
    "is_own": True,
    "show": _show_sources,
}
_IGNORING = repeated("ignoring", "job to ignore", "JOB", style=Style.COMMAND)
_RECORD = "record which {} each job of the warehouse reads and writes"


def _lineage(help: str, run: Any, *arguments: Argument, verb: str, **more: Any) -> Operation:
    return Operation(help, run, arguments, subject=Subject.WAREHOUSE, command=f"lineage {verb}", **more)


OPERATIONS = (
    _lineage(
        "show whether lineage is on in the warehouse",
        lambda a: a.catalog().lineage.status(),
        verb="status",
        show=_show_status,
    ),
    _lineage(
        "switch lineage on for all jobs of the warehouse",
        lambda a: a.catalog().lineage.enable(table=a["table_lineage"], data=a["data_lineage"] and not a["tables_only"]),
        Argument("table_lineage", _RECORD.format("tables"), Type.BOOLEAN, default=True, style=Style.CALL),
        Argument("data_lineage", _RECORD.format("snapshots"), Type.BOOLEAN, default=True, style=Style.CALL),
        command_flag("tables_only", "record which jobs read and write which tables, and no snapshots"),
        verb="enable",
        effect=Effect.WRITE,
        procedure="enable_lineage",
        rows=_rows_of_enabled,
        is_own=True,
        show=_show_status,
    ),
    _lineage(
        "switch lineage off; what was recorded stays",
        lambda a: a.catalog().lineage.disable(),
        verb="disable",
        effect=Effect.WRITE,
        procedure="disable_lineage",
        is_own=True,
        show=_show_status,
    ),
    _lineage(
        "declare that rows which outside jobs write to a table come from no other table",
        lambda a: a.catalog().lineage.declare_source(a.table_name(a["table"])),
        _DECLARED,
        verb="declare-source",
        effect=Effect.WRITE,
        procedure="declare_lineage_source",
        **_DECLARED_ROWS,
    ),
    _lineage(
        "take back the declaration of a source",
        lambda a: a.catalog().lineage.retract_source(a.table_name(a["table"])),
        _DECLARED,
        verb="retract-source",
        effect=Effect.WRITE,
        procedure="retract_lineage_source",
        **_DECLARED_ROWS,
    ),
    _lineage(
        "list the declared sources",
        lambda a: a.catalog().lineage.declared_sources(),
        verb="sources",
        show=_show_sources,
    ),
    _lineage(
        "list the recorded jobs, and what they read and wrote last",
        lambda a: a.catalog().lineage.jobs(include_internal=a["all"]),
        command_flag("all", "list deleted branches, too", "-a"),
        verb="jobs",
        show=_show_result,
    ),
    _lineage(
        "list the sources of a table, a snapshot or a job",
        lambda a: a.catalog().lineage.upstream(**_start(a)),
        *_SOURCE,
        verb="upstream",
        show=_show_result,
    ),
    _lineage(
        "list what was made from a table, a snapshot or a job",
        lambda a: a.catalog().lineage.downstream(**_start(a)),
        *_SOURCE,
        verb="downstream",
        show=_show_result,
    ),
    _lineage(
        "list everything that holds rows which a snapshot added",
        lambda a: a.catalog().lineage.impact(a["table"], snapshot=a["snapshot"], include_internal=a["all"]),
        positional("table", "table: db.t or db.t$branch_fix"),
        positional("snapshot", "snapshot id, tag or any version of the table", "of", "--snapshot", metavar="SNAPSHOT"),
        command_flag("all", "list guard tags, backup branches and deleted branches, too", "-a"),
        verb="impact",
        show=_show_result,
    ),
    _lineage(
        "list the newest snapshots of tables that come from the same snapshots of their common sources",
        lambda a: a.catalog().lineage.unified_version(table_names(a), ignoring=a["ignoring"]),
        _IGNORING,
        _TABLES,
        verb="unified",
        procedure="unified_version",
        result="table STRING, snapshot_id BIGINT",
        rows=lambda a, found: list(found.items()),
        is_own=True,
        details="A call separates the tables with commas.",
        show=_show_unified,
    ),
    _lineage(
        "choose the snapshot from which each source of a new job starts, and record it",
        lambda a: a.catalog().lineage.start_options(
            a["tables"], a["job"], streaming=not a["batch"], ignoring=a["ignoring"]
        ),
        Argument("job", "the new job", required=True),
        command_flag("batch", "for a batch job, not a stream"),
        _IGNORING,
        _TABLES,
        verb="start-options",
        effect=Effect.WRITE,
        show=lambda a, found: lines([f"{safe(table)}: {shown(o)}" for table, o in found.items()], found),
    ),
    _lineage(
        "draw tables and jobs",
        lambda a: a.catalog().lineage.graph(*a["tables"]),
        Argument("output", "file to save: .mmd, .md or .html"),
        Argument("format", "what to print without a file", default="mermaid", choices=("mermaid",)),
        positional("tables", "tables", required=False, repeated=True, metavar="TABLE", otherwise="all"),
        verb="graph",
        show=_show_graph,
    ),
    _lineage(
        "write the rows of lineage that are missing",
        lambda a: a.catalog().lineage.sync(),
        verb="sync",
        effect=Effect.WRITE,
        show=lambda a, done: lines(done.text_lines(), done),
    ),
    _lineage(
        "rebuild the lineage tables from all existing snapshots, tags and checkpoints",
        lambda a: a.catalog().lineage.rebuild(dict(a["checkpoint"])),
        repeated("checkpoint", "checkpoint of a job's query", "JOB=URL", parse=key_value, style=Style.COMMAND),
        verb="rebuild",
        effect=Effect.WRITE,
        procedure="rebuild_lineage",
        is_own=True,
        show=lambda a, done: lines(done.text_lines(), done),
    ),
    _lineage(
        "remove the rows of a finished job, and free its name",
        _forget,
        positional("job", "name of the job"),
        verb="forget",
        effect=Effect.DELETE,
        procedure="forget_lineage_job",
        result="removed_rows BIGINT",
        rows=lambda a, count: [(count,)],
        is_own=True,
        show=_show_forgotten,
        question=lambda a: f"forget job {a['job']}",
    ),
)
