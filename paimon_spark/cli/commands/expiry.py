"""What expires or is cleaned beside snapshots and tags: changelogs, partitions, orphan files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from paimon_spark.cli.answer import Answer, lines, plain, rows, sentence
from paimon_spark.cli.call import Call
from paimon_spark.cli.command import Argument, Command, Kind, flag
from paimon_spark.cli.commands.snapshot import MAX_DELETES, OLDER_THAN, RETAIN_MAX, RETAIN_MIN, moment_of
from paimon_spark.cli.failure import UsageError
from paimon_spark.cli.removed import names, removal
from paimon_spark.cli.text import counted, safe, size

if TYPE_CHECKING:
    from paimon_spark.api.table import Table
    from paimon_spark.jobs.maintain import DroppedPartitions
    from paimon_spark.maintenance.expire_partitions import ExpiredPartitions
    from paimon_spark.maintenance.orphans import RemovedOrphans

PARTITION = Argument(
    "partition",
    "partition, by values of all or some partition columns: dt=2024-01-01,hour=5; may be repeated",
    required=True,
    repeated=True,
    metavar="COLUMN=VALUE,…",
)


def _expire_changelogs(call: Call) -> Answer:
    table = call.table()
    chosen = {
        "retain_min": call["retain_min"],
        "older_than": moment_of(call["older_than"]),
        "max_deletes": call["max_deletes"],
        "delete_all": call["delete_all"],
    }
    return call.deleting(
        f"expire changelogs of {table.name}",
        plan=lambda: table.expire_changelogs(call["retain_max"], **chosen, dry_run=True),
        act=lambda: table.expire_changelogs(call["retain_max"], **chosen),
        answer=lambda removed, dry_run: removal("expired", "would expire", removed, dry_run),
    )


def _partitions(table: Table) -> list[dict[str, Any]]:
    from paimon_spark.api.table import load

    listing = load(f"{table.location}$partitions", dict(table.option_text))
    columns = ["partition", "record_count", "file_count", "file_size_in_bytes", "last_update_time"]
    found: list[dict[str, Any]] = listing.scan(columns=columns).to_arrow().to_pylist()
    return sorted(found, key=lambda row: row["partition"] or "")


def _list(call: Call) -> Answer:
    found = _partitions(call.table())
    shown = [
        (
            row["partition"] or "(all)",
            row["record_count"],
            row["file_count"],
            size(row["file_size_in_bytes"]),
            str(row["last_update_time"] or "-").partition(".")[0],
        )
        for row in found
    ]
    return rows(("partition", "rows", "files", "size", "updated"), shown, data=found, empty="no partitions")


def _expire(call: Call) -> Answer:
    table = call.table()
    chosen = {
        "timestamp_formatter": call["timestamp_formatter"],
        "timestamp_pattern": call["timestamp_pattern"],
        "expire_strategy": call["expire_strategy"],
        "max_expires": call["max_expires"],
    }
    return call.deleting(
        f"expire partitions of {table.name}",
        plan=lambda: table.expire_partitions(call["expiration_time"], **chosen, dry_run=True),
        act=lambda: table.expire_partitions(call["expiration_time"], **chosen),
        answer=_expired,
    )


def _expired(done: ExpiredPartitions, dry_run: bool) -> Answer:
    verb = "would drop" if dry_run else "dropped"
    told = f"{verb} {names(done.partitions, 'partition')}: " if done.partitions else "no partition is old enough"
    if done.partitions:
        told += f"{counted(done.rows, 'row')} in {counted(done.data_files, 'file')}, {size(done.bytes)}"
    return sentence(told, {"dry_run": dry_run, **plain(done)})


def _drop(call: Call) -> Answer:
    table = call.table()
    return call.deleting(
        f"drop partitions of {table.name}",
        plan=lambda: table.drop_partitions(call["partition"], dry_run=True),
        act=lambda: table.drop_partitions(call["partition"]),
        answer=_dropped,
    )


def _dropped(done: DroppedPartitions, dry_run: bool) -> Answer:
    if not done.partitions:
        return sentence("there is no such partition", {"dry_run": dry_run, **plain(done)})
    made = "" if done.snapshot_id is None else f"; snapshot {done.snapshot_id}"
    told = f"{'would drop' if dry_run else 'dropped'} {names(done.partitions, 'partition')}{made}"
    return sentence(told, {"dry_run": dry_run, **plain(done)})


def _remove_orphans(call: Call) -> Answer:
    every, older = _tables(call), moment_of(call["older_than"])
    if every is None:
        table = call.table()
        return call.deleting(
            f"remove orphan files of {table.name}",
            plan=lambda: table.remove_orphan_files(older, dry_run=True),
            act=lambda: table.remove_orphan_files(older),
            answer=_orphans,
        )
    return call.deleting(
        f"remove orphan files of {names([t.name for t in every], 'table')}",
        plan=lambda: {t.name: t.remove_orphan_files(older, dry_run=True) for t in every},
        act=lambda: {t.name: t.remove_orphan_files(older) for t in every},
        answer=_orphans_by_table,
    )


def _tables(call: Call) -> list[Table] | None:
    """All tables of the database where `db.*` is named, as Paimon's action has it; None for a single table."""
    text = "" if call["path"] else str(call["table"])
    if text != "*" and not text.endswith(".*"):
        return None
    database = call["database"] or text.removesuffix("*").removesuffix(".").strip("`")
    if not database:
        raise UsageError(f"{call.what}: all tables of which database? Give db.*, or --database with --table '*'")
    return [call.table(f"`{database}`.`{name}`") for name in call.catalog().list_tables(database)]


def _orphans(done: RemovedOrphans, dry_run: bool) -> Answer:
    return sentence(_orphans_told(done, dry_run), {"dry_run": dry_run, **plain(done)}, *_paths(done, dry_run))


def _orphans_by_table(done: dict[str, RemovedOrphans], dry_run: bool) -> Answer:
    told = []
    for name, of_table in done.items():
        told += [f"{safe(name)}: {_orphans_told(of_table, dry_run)}", *_paths(of_table, dry_run)]
    data = [{"table": name, "dry_run": dry_run, **plain(of_table)} for name, of_table in done.items()]
    return lines(told or ["the database has no tables"], data)


def _orphans_told(done: RemovedOrphans, dry_run: bool) -> str:
    return f"{'would delete' if dry_run else 'deleted'} {counted(done.files, 'file')}, {size(done.bytes)}"


def _paths(done: RemovedOrphans, dry_run: bool) -> list[str]:
    return [f"  {safe(p)}" for p in done.paths] if dry_run else []


COMMANDS = (
    Command(
        "changelog",
        "expire",
        "let old changelogs of expired snapshots expire",
        _expire_changelogs,
        (RETAIN_MAX, RETAIN_MIN, OLDER_THAN, MAX_DELETES, flag("delete_all", "all of them go, whatever else is said")),
        Kind.DELETE,
        aliases=("expire-changelogs",),
    ),
    Command("partition", "list", "list the partitions of a branch", _list),
    Command(
        "partition",
        "expire",
        "drop old partitions",
        _expire,
        (
            Argument("expiration_time", "age at which a partition goes, such as `30 d`"),
            Argument("timestamp_formatter", "how times are written in partitions, such as yyyy-MM-dd"),
            Argument("timestamp_pattern", "how columns make a time, such as `$year-$month-$day`"),
            Argument("expire_strategy", "by what a partition is old", choices=("values-time", "update-time")),
            Argument("max_expires", "so many go at most", parse=int),
        ),
        Kind.DELETE,
        aliases=("expire-partitions",),
    ),
    Command(
        "partition",
        "drop",
        "remove the rows of partitions; earlier snapshots, tags and branches still have them",
        _drop,
        (PARTITION,),
        Kind.DELETE,
        aliases=("drop-partition", "drop-partitions"),
    ),
    Command(
        "orphan",
        "remove",
        "delete files that no version of any branch names",
        _remove_orphans,
        (Argument("older_than", "only files last changed before this time; else one day ago"),),
        Kind.DELETE,
        aliases=("remove-orphan-files",),
        details="A table db.* stands for all tables of a database.",
    ),
)
