"""Operations on partitions, orphan files, consumers, and on all rows of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from paimon_spark.display import amount
from paimon_spark.errors import InvalidInputError, NotFoundError
from paimon_spark.operations.answer import Answer, change, lines, plain, removal, result, rows
from paimon_spark.operations.operation import (
    OPTIONS,
    Argument,
    Effect,
    Operation,
    Request,
    Style,
    Type,
    UsageError,
    positional,
    repeated,
)
from paimon_spark.text import counted, named, safe

if TYPE_CHECKING:
    from paimon_spark.maintenance.consumers import Consumer
    from paimon_spark.maintenance.orphan_files import RemovedOrphans
    from paimon_spark.maintenance.partitions import ExpiredPartitions

_MODES: Final = ("distributed", "local")


def _list_partitions(a: Request) -> list[dict[str, Any]]:
    from paimon_spark.api.table import load

    table = a.table()
    listing = load(f"{table.handle.load_path}$partitions", {**table.option_text, **table.handle.load_options})
    columns = ["partition", "record_count", "file_count", "file_size_in_bytes", "last_update_time"]
    found: list[dict[str, Any]] = listing.scan(columns=columns).to_arrow().to_pylist()
    return sorted(found, key=lambda row: row["partition"] or "")


def _show_partitions(a: Request, found: list[dict[str, Any]]) -> Answer:
    def shown(row: dict[str, Any]) -> tuple[Any, ...]:
        size, updated = amount(row["file_size_in_bytes"]), str(row["last_update_time"] or "-").partition(".")[0]
        return row["partition"] or "(all)", row["record_count"], row["file_count"], size, updated

    columns = ("partition", "rows", "files", "size", "updated")
    return rows(columns, [shown(row) for row in found], data=found, empty="no partitions")


def _expire_partitions(a: Request) -> ExpiredPartitions:
    given = ("expiration_time", "timestamp_formatter", "timestamp_pattern", "expire_strategy", "max_expires")
    return a.table().expire_partitions(**{name: a[name] for name in given}, dry_run=a.dry_run)


def _mark_done(a: Request) -> None:
    from paimon_spark.jobs.partition_specs import chosen_partitions
    from paimon_spark.maintenance.partitions import mark_done

    table = a.table()
    specs, _ = chosen_partitions(table.handle, partitions_text(a), None)
    mark_done(table.handle, specs or ())


def partitions_text(a: Request) -> str | None:
    """Argument `partitions`, which the command line takes several times, as one text."""
    given = a["partitions"]
    return (";".join(given) or None) if isinstance(given, list) else given


def _remove_orphans(a: Request) -> dict[str, RemovedOrphans]:
    mode = (a["mode"] or _MODES[0]).lower()
    if mode not in _MODES:
        raise InvalidInputError(f"{a.caller} takes mode as {' or '.join(_MODES)}, found {mode!r}")
    older = a.moment("older_than")
    tables = [a.table()] if not _is_database(a) else [a.table(text) for text in _tables(a)]
    here = mode == "local"
    return {t.name: t.remove_orphan_files(older, dry_run=a.dry_run, use_spark=not here) for t in tables}


def _is_database(a: Request) -> bool:
    """Whether `db.*` is named, or `*` with a database."""
    text = "" if a["path"] else a["table"]
    return text.endswith(".*") or (text == "*" and not a.is_call)


def _tables(a: Request) -> list[str]:
    database = a["database"] or a["table"].removesuffix("*").removesuffix(".").strip("`")
    if not database:
        raise UsageError(f"{a.caller}: name the database: db.*, or --database with --table '*'")
    return [f"`{database}`.`{name}`" for name in a.catalog().list_tables(database)]


def _show_orphans(a: Request, done: dict[str, RemovedOrphans]) -> Answer:
    out = []
    every = _is_database(a)
    for name, found in done.items():
        head = f"{safe(name)}: " if every else ""
        out.append(f"{head}{a.did('deleted', 'delete')} {counted(found.files, 'file')}, {amount(found.bytes)}")
        out += [f"  {safe(p)}" for p in found.paths] if a.dry_run else []
    if not every:
        return change(a, out, next(iter(done.values())))
    data = [{"table": name, "dry_run": a.dry_run, **plain(found)} for name, found in done.items()]
    return lines(out or ["the database has no tables"], data)


def _orphans_question(a: Request) -> str:
    what = f"all tables of {a['database'] or a['table']}" if _is_database(a) else a.table().name
    return f"remove orphan files of {what}"


def _show_consumers(a: Request, found: list[Consumer]) -> Answer:
    shown = [(c.name, c.reads_next, "rows of that snapshot" if c.in_state else "") for c in found]
    return rows(("name", "reads next", "still reading"), shown, data=found, empty="no consumers")


def _reset_consumer(a: Request) -> Any:
    table, name, following = a.table(), a["consumerId"], a["nextSnapshotId"]
    if following is None and not a.is_call:
        known = [c.name for c in table.consumers()]
        if name not in known:
            raise NotFoundError(
                f"{table.name} has no consumer {name!r}; its consumers are {', '.join(known) or 'none'}", consumer=name
            )
    return None if a.dry_run else table.reset_consumer(name, next_snapshot=following)


def _show_reset(a: Request, made: Any) -> Answer:
    name, following = safe(a["consumerId"]), a["nextSnapshotId"]
    if following is None:
        out = f"{a.did('removed', 'remove')} consumer {name} of {safe(a.table().name)}"
        return lines(out, {"dry_run": a.dry_run, "removed": [a["consumerId"]]})
    if a.dry_run:
        return lines(f"consumer {name} would read snapshot {following} next", {"dry_run": True})
    return lines(f"consumer {name} of {safe(a.table().name)} reads snapshot {following} next", made)


def _clear_consumers(a: Request) -> tuple[str, ...]:
    from paimon_spark.maintenance.consumers import matching_consumers

    table, including, excluding = a.table(), a["includingConsumers"] or ".*", a["excludingConsumers"]
    if a.dry_run:
        return tuple(matching_consumers(table.handle, including, excluding))
    return table.clear_consumers(including, excluding=excluding)


def _show_cleared(a: Request, found: tuple[str, ...]) -> Answer:
    out = f"{a.did('removed', 'remove')} {named(found, 'consumer')}" if found else "no such consumer"
    return lines(out, {"dry_run": a.dry_run, "removed": found})


_VALUES = "COLUMN=VALUE,…"
_PARTITIONS = Argument(
    "partitions",
    "partitions, as in `dt=2024-01-01;dt=2024-01-02`; --partition may be repeated",
    required=True,
    repeated=True,
    spellings=("--partition",),
    metavar=_VALUES,
)


def _pattern(option: str, help: str, otherwise: str) -> Argument:
    spelling = f"--{option}-consumers"
    return Argument(f"{option}Consumers", help, otherwise=otherwise, option=option, spellings=(spelling,))


OPERATIONS = (
    Operation("list the partitions of a branch", _list_partitions, command="partition list", show=_show_partitions),
    Operation(
        "drop the old partitions of the branch by a commit",
        _expire_partitions,
        (
            Argument(
                "expiration_time",
                "age at which a partition is dropped, such as `30 d`",
                otherwise="from the table options",
            ),
            Argument("timestamp_formatter", "how times are written in partitions, such as yyyy-MM-dd"),
            Argument("timestamp_pattern", "how columns make a time, such as `$year-$month-$day`"),
            Argument(
                "expire_strategy",
                "what makes a partition old: its values or its last update",
                otherwise="values-time",
                choices=("values-time", "update-time"),
            ),
            Argument("max_expires", "how many to drop at most", Type.INT, otherwise="from the table options"),
            OPTIONS,
        ),
        Effect.DELETE,
        procedure="expire_partitions",
        result="expired_partitions STRING",
        rows=lambda a, done: (
            [(", ".join(map(unquote, path.split("/"))),) for path in done.partitions] or [("No expired partitions.",)]
        ),
        command="partition expire",
        searches=True,
        show=result,
        question=lambda a: f"expire partitions of {a.table().name}",
    ),
    Operation(
        "delete the rows of partitions; earlier snapshots, tags and branches still have them",
        lambda a: a.table().drop_partitions(a["partition"], dry_run=a.dry_run),
        (
            repeated(
                "partition", "values of all or some partition columns: dt=2024-01-01,hour=5", _VALUES, required=True
            ),
        ),
        Effect.DELETE,
        command="partition drop",
        actions=("drop-partition", "drop-partitions"),
        show=result,
        question=lambda a: f"drop partitions of {a.table().name}",
    ),
    Operation(
        "write a file _SUCCESS into the directories of partitions",
        _mark_done,
        (_PARTITIONS,),
        Effect.WRITE,
        procedure="mark_partition_done",
        command="mark-partition-done",
        is_action=True,
    ),
    Operation(
        "delete files that no version of any branch refers to, such as those of failed jobs",
        _remove_orphans,
        (
            Argument(
                "older_than",
                "only files last changed before this time, or older than an age such as `2 d`",
                otherwise="one day ago",
                is_moment=True,
            ),
            Argument("dry_run", "only count what would be deleted", Type.BOOLEAN, default=False, style=Style.CALL),
            Argument("parallelism", "accepted and ignored", Type.INT, style=Style.CALL),
            Argument(
                "mode",
                "distributed: executors look at large tables; local: this process alone",
                otherwise="distributed",
                style=Style.CALL,
            ),
        ),
        Effect.DELETE,
        details="A table `db.*` stands for all tables of a database.",
        procedure="remove_orphan_files",
        result="deletedFileCount BIGINT, deletedFileTotalLenInBytes BIGINT",
        rows=lambda a, done: [(sum(g.files for g in done.values()), sum(g.bytes for g in done.values()))],
        command="orphan remove",
        searches=True,
        show=_show_orphans,
        question=_orphans_question,
    ),
    Operation(
        "delete everything of a table but its definition: rows, history, tags, consumers and branches",
        lambda a: a.table().purge(dry_run=a.dry_run),
        effect=Effect.DELETE,
        procedure="purge_files",
        result="result STRING",
        rows=lambda a, removed: [("Success",)],
        command="purge",
        show=lambda a, removed: removal(a, f"{a.did('purged', 'purge')} {safe(a.table().name)}", removed),
        question=lambda a: f"delete all rows, snapshots, tags and branches of {a.table().name}",
    ),
    Operation(
        "list the consumers of a branch", lambda a: a.table().consumers(), command="consumer list", show=_show_consumers
    ),
    Operation(
        "set the snapshot that a consumer reads next, or remove the consumer",
        _reset_consumer,
        (
            positional("consumerId", "name of the consumer", "name", "--consumer-id"),
            Argument(
                "nextSnapshotId",
                "id of the snapshot to read next",
                Type.BIGINT,
                option="next_snapshot",
                otherwise="the consumer is removed",
            ),
        ),
        Effect.DELETE,
        procedure="reset_consumer",
        command="consumer reset",
        show=_show_reset,
        question=lambda a: (
            None if a["nextSnapshotId"] is not None else f"remove consumer {a['consumerId']} of {a.table().name}"
        ),
    ),
    Operation(
        "remove consumers by their names",
        _clear_consumers,
        (
            _pattern("including", "regular expression of names to remove", "all"),
            _pattern("excluding", "regular expression of names to keep", "none"),
        ),
        Effect.DELETE,
        procedure="clear_consumers",
        command="consumer clear",
        searches=True,
        show=_show_cleared,
        question=lambda a: f"remove consumers of {a.table().name}",
    ),
)
