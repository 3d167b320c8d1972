"""Upkeep: compaction, the doctor, and emptying a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paimon_spark.cli.answer import Answer, plain, rows, sentence
from paimon_spark.cli.call import Call, warn
from paimon_spark.cli.command import Argument, Command, Kind, Scope, flag
from paimon_spark.cli.failure import Exit, UsageError, exit_code
from paimon_spark.cli.removed import removal
from paimon_spark.cli.text import counted, safe, size
from paimon_spark.errors import PaimonError

if TYPE_CHECKING:
    from paimon_spark.api.table import Table
    from paimon_spark.engine.compaction.run import CompactResult
    from paimon_spark.versioning.doctor.findings import Finding

_FULL = flag("full", "merge everything: what is done anyway, but for tables without buckets")
_STRATEGY = Argument("compact_strategy", "full, or minor: only what is worth it by now", choices=("full", "minor"))


def _compact(call: Call) -> Answer:
    _only_supported(call)
    table = call.table()
    partitions = ";".join(call["partition"]) or None
    done = table.compact(_is_full(call, table), partitions=partitions, where=call["where"])
    return sentence(_compacted(done), done)


def _only_supported(call: Call) -> None:
    if call["full"] and call["compact_strategy"] == "minor":
        raise UsageError(f"{call.what}: --full and --compact-strategy minor exclude each other; give one of them")
    for name in ("order_strategy", "order_by", "partition_idle_time", "buckets"):
        if call.get(name) and (name, str(call[name]).lower()) != ("order_strategy", "none"):
            raise UsageError(
                f"--{name.replace('_', '-')} is not supported here; leave it out, and choose partitions with "
                "--partition or --where",
                option=name,
            )


def _is_full(call: Call, table: Table) -> bool:
    """As the procedures `sys.compact` and `sys.compact_database` decide it where nothing is said."""
    from paimon_spark.sql.procedures.compacting import is_full_by_default

    if call["compact_strategy"] is not None:
        return bool(call["compact_strategy"] == "full")
    return bool(call["full"]) or is_full_by_default(table)


def _compacted(done: CompactResult) -> str:
    if not done.snapshot_ids:
        return "nothing to compact" if done.snapshot is not None else "nothing to compact: there is no snapshot yet"
    return (
        f"{counted(done.files_before, 'file')} ({size(done.bytes_before)}) became "
        f"{counted(done.files_after, 'file')} ({size(done.bytes_after)}) in {counted(done.buckets, 'bucket')}, "
        f"snapshot {', '.join(map(str, done.snapshot_ids))}"
    )


def _compact_manifest(call: Call) -> Answer:
    made = call.table().compact_manifest()
    return sentence("nothing to do" if made is None else f"snapshot {made.id} has fewer manifests", made)


def _compact_database(call: Call) -> Answer:
    _only_supported(call)
    catalog = call.catalog()
    from paimon_spark.api.catalog import chosen_tables

    patterns = (call["including_databases"], call["including_tables"], call["excluding_tables"])
    found, told, code = [], [], 0
    for database, table in chosen_tables(catalog, *patterns):
        name = f"{database}.{table}"
        try:
            opened = catalog.table(f"`{database}`.`{table}`")
            done = opened.compact(_is_full(call, opened))
        except PaimonError as e:
            code = code or exit_code(e)
            warn(f"error: {name}: {e}")
            told.append({"table": name, "error": {"kind": e.kind, "message": str(e)}})
            found.append((name, f"failed: {e.kind}"))
        else:
            told.append({"table": name, **plain(done)})
            found.append((name, _compacted(done)))
    answer = rows(("table", "result"), found, data=told, empty="no such table")
    return Answer(answer.data, answer.text, code)


def _purge(call: Call) -> Answer:
    table = call.table()
    what = safe(table.name)
    return call.deleting(
        f"delete all rows, snapshots, tags and branches of {table.name}",
        plan=lambda: table.purge(dry_run=True),
        act=lambda: table.purge(),
        answer=lambda removed, dry_run: removal(f"purged {what}", f"would purge {what}", removed, dry_run),
    )


def _doctor(call: Call) -> Answer:
    table = call.table()
    found = table.doctor(repair=call["repair"])
    left = [f for f in found if not f.repaired]
    lines = [line for finding in found for line in _finding(finding)]
    if not found:
        lines = [f"nothing is wrong with {safe(table.name)}"]
    return Answer(plain(found), lambda room: lines, Exit.FOUND if left else Exit.DONE)


def _finding(finding: Finding) -> list[str]:
    state = "repaired" if finding.repaired else finding.severity.value
    lines = [f"{state}: {finding.kind} on {safe(finding.branch)}: {safe(finding.message)}"]
    return lines if finding.repaired else [*lines, f"  {safe(finding.remedy)}"]


_NOT_HERE = tuple(
    Argument(name, "not supported; refused")
    for name in ("order_strategy", "order_by", "partition_idle_time", "buckets")
)

_STRATEGIES = (
    "Tables with buckets are compacted fully, as the procedures of SQL and Paimon's own actions do; others, and all "
    "with --compact-strategy minor, only where files are small or many."
)

COMMANDS = (
    Command(
        "doctor", None, "say what is wrong with a table's refs", _doctor, (flag("repair", "mend what can be mended"),)
    ),
    Command(
        "compact",
        None,
        "make files fewer without changing rows",
        _compact,
        (
            _FULL,
            Argument(
                "partition",
                "only this partition: dt=2024-01-01,hour=5; may be repeated",
                repeated=True,
                metavar="COLUMN=VALUE,…",
                spellings=("--partitions",),
            ),
            Argument("where", "only partitions for which this SQL condition is true"),
            _STRATEGY,
            *_NOT_HERE,
        ),
        Kind.WRITE,
        details=_STRATEGIES + " Large tables are compacted by a Spark job where it runs under spark-submit.",
    ),
    Command(
        "compact-manifest",
        None,
        "put the list of files into as few manifests as can be",
        _compact_manifest,
        kind=Kind.WRITE,
    ),
    Command(
        "compact-database",
        None,
        "compact all tables of some databases",
        _compact_database,
        (
            Argument("including_databases", "regular expression of databases; else all"),
            Argument("including_tables", "regular expression of db.t; else all"),
            Argument("excluding_tables", "regular expression of db.t that are left out"),
            _FULL,
            _STRATEGY,
            Argument("mode", "taken for other engines' sake; changes nothing", choices=("divided", "combined")),
            *(a for a in _NOT_HERE if a.name == "partition_idle_time"),
        ),
        Kind.WRITE,
        Scope.WAREHOUSE,
        details=_STRATEGIES,
    ),
    Command(
        "purge",
        None,
        "delete everything of a table but its definition",
        _purge,
        kind=Kind.DELETE,
        aliases=("purge-files",),
    ),
)
