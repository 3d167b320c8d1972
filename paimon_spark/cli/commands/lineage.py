"""Lineage of a warehouse: which snapshot of which table came from which."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from paimon_spark.cli.answer import Answer, lines, plain, rows, sentence
from paimon_spark.cli.call import Call
from paimon_spark.cli.command import Argument, Command, Kind, Scope, flag, key_value
from paimon_spark.cli.failure import UsageError
from paimon_spark.cli.removed import names
from paimon_spark.cli.text import counted, safe, shown

if TYPE_CHECKING:
    from paimon_spark.lineage.results import LineageStatus, Result
    from paimon_spark.lineage.unrecorded_writes import Unrecorded

_TABLES = Argument(
    "tables", "tables: db.t or db.t$branch_fix", positional=True, required=True, repeated=True, metavar="TABLE"
)
_TABLE = Argument("table", "table: db.t or db.t$branch_fix", positional=True, metavar="TABLE")
_SNAPSHOT = Argument("snapshot", "snapshot id, tag or any version of the table")
_JOB = Argument("job", "job", positional=True, required=True)
_OF_JOB = Argument("job", "ask about a job instead of a table")
_IGNORING = Argument("ignoring", "job that does not count; may be repeated", repeated=True, metavar="JOB")


def _told(result: Result, unrecorded: Unrecorded | None = None) -> Answer:
    text = str(result)
    found = [{"kind": "unrecorded", **table.to_dict()} for table in unrecorded or ()]
    return Answer(
        plain([*result.to_arrow().to_pylist(), *found]), lambda room: [safe(line) for line in text.splitlines()]
    )


def _switched(found: LineageStatus) -> Answer:
    what = "off" if not found.table else "on, tables and snapshots" if found.data else "on, tables only"
    told = f"lineage of {safe(found.warehouse)} is {what}; {counted(found.jobs, 'job')} recorded"
    return sentence(told, found.to_arrow().to_pylist()[0])


def _status(call: Call) -> Answer:
    return _switched(call.catalog().lineage.status())


def _enable(call: Call) -> Answer:
    return _switched(call.catalog().lineage.enable(table=True, data=not call["tables_only"]))


def _disable(call: Call) -> Answer:
    return _switched(call.catalog().lineage.disable())


def _jobs(call: Call) -> Answer:
    return _told(call.catalog().lineage.jobs())


def _of_what(call: Call) -> None:
    if (call["table"] is None) == (call["job"] is None) or (call["job"] is not None and call["snapshot"] is not None):
        raise UsageError(f"{call.what} needs TABLE, with or without --snapshot, or --job alone")


def _upstream(call: Call) -> Answer:
    _of_what(call)
    found = call.catalog().lineage.upstream(call["table"], snapshot=call["snapshot"], job=call["job"])
    return _told(found, found.unrecorded)


def _downstream(call: Call) -> Answer:
    _of_what(call)
    found = call.catalog().lineage.downstream(call["table"], snapshot=call["snapshot"], job=call["job"])
    return _told(found, found.unrecorded)


def _impact(call: Call) -> Answer:
    found = call.catalog().lineage.impact(call["table"], call["of"])
    return _told(found, found.unrecorded)


def _unified(call: Call) -> Answer:
    found = call.catalog().lineage.unified_version(call["tables"], ignoring=call["ignoring"])
    note = "\n".join(map(safe, found.unrecorded.lines()))
    return rows(("table", "snapshot"), list(found.items()), data=dict(found), note=note)


def _start_options(call: Call) -> Answer:
    found = call.catalog().lineage.start_options(
        call["tables"], call["job"], streaming=not call["batch"], ignoring=call["ignoring"]
    )
    told = [f"{safe(table)}: {shown(options)}" for table, options in found.items()]
    return lines(told, found)


def _graph(call: Call) -> Answer:
    picture = call.catalog().lineage.graph(*call["tables"])
    if call["output"] is not None:
        path = str(picture.save(call["output"]))
        return sentence(f"saved {safe(path)}", {"path": path})
    return lines([safe(line) for line in picture.to_mermaid().splitlines()], picture)


def _sync(call: Call) -> Answer:
    return _counts(call.catalog().lineage.sync(), "wrote")


def _rebuild(call: Call) -> Answer:
    return _counts(call.catalog().lineage.rebuild(dict(call["checkpoint"])), "rebuilt")


def _counts(done: Any, verb: str) -> Answer:
    total = sum(done.rows.values())
    told = [f"{verb} {counted(total, 'row')}: {shown(dict(done.rows))}" if total else "nothing is missing"]
    told += [f"could not be read: {safe(text)}" for text in done.unreadable]
    return lines(told, done)


def _forget(call: Call) -> Answer:
    lineage, job = call.catalog().lineage, call["job"]

    def plan() -> int | None:
        if job not in [j.name for j in lineage.jobs().jobs]:
            lineage.downstream(job=job)  # says which jobs there are
        return None

    def answer(count: int | None, dry_run: bool) -> Answer:
        what = "rows" if count is None else names(range(count), "row").partition(" (")[0]
        told = f"{'would forget' if dry_run else 'forgot'} job {safe(job)}: {what} of lineage"
        return sentence(told, {"dry_run": dry_run, "job": job, "rows": count})

    return call.deleting(f"forget job {job}", plan=plan, act=lambda: lineage.forget_job(job), answer=answer)


def _command(verb: str, told: str, run: Any, *arguments: Argument, kind: Kind = Kind.READ) -> Command:
    return Command("lineage", verb, told, run, arguments, kind, Scope.WAREHOUSE)


COMMANDS = (
    _command("status", "say whether lineage is on in the warehouse", _status),
    _command(
        "enable",
        "switch lineage on for all jobs of the warehouse",
        _enable,
        flag("tables_only", "record which jobs read and write which tables, and no snapshots"),
        kind=Kind.WRITE,
    ),
    _command("disable", "switch lineage off; what was recorded stays", _disable, kind=Kind.WRITE),
    _command("jobs", "list the jobs that are recorded, and what they read and wrote last", _jobs),
    _command("upstream", "list what a table, a snapshot or a job comes from", _upstream, _TABLE, _SNAPSHOT, _OF_JOB),
    _command(
        "downstream", "list what comes from a table, a snapshot or a job", _downstream, _TABLE, _SNAPSHOT, _OF_JOB
    ),
    _command(
        "impact",
        "list everything that holds what a snapshot brought",
        _impact,
        Argument("table", "table: db.t or db.t$branch_fix", positional=True, required=True),
        Argument(
            "of",
            "snapshot id, tag or any version of the table",
            positional=True,
            required=True,
            metavar="SNAPSHOT",
            spellings=("--snapshot",),
        ),
    ),
    _command(
        "unified",
        "say the newest snapshots of tables that stem from the same snapshots of their sources",
        _unified,
        _IGNORING,
        _TABLES,
    ),
    _command(
        "start-options",
        "say what each source of a new job starts from, and keep it",
        _start_options,
        Argument("job", "the new job", required=True),
        flag("batch", "for a batch job, not a stream"),
        _IGNORING,
        _TABLES,
        kind=Kind.WRITE,
    ),
    _command(
        "graph",
        "draw tables and jobs",
        _graph,
        Argument("output", "file to save as .mmd, .md or .html"),
        Argument("format", "what is printed without a file", default="mermaid", choices=("mermaid",)),
        Argument("tables", "tables; else all", positional=True, repeated=True, metavar="TABLE"),
    ),
    _command("sync", "write the rows of lineage that are missing", _sync, kind=Kind.WRITE),
    _command(
        "rebuild",
        "make the lineage tables anew from snapshots, tags and checkpoints",
        _rebuild,
        Argument("checkpoint", "checkpoint of a job's query", repeated=True, parse=key_value, metavar="JOB=URL"),
        kind=Kind.WRITE,
    ),
    _command("forget", "remove the rows of a job that came to its end", _forget, _JOB, kind=Kind.DELETE),
)
