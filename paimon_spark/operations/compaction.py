"""Operations that rewrite files without changing rows."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from paimon_spark.errors import InvalidInputError, PaimonError, UnsupportedFeatureError
from paimon_spark.operations.answer import Answer, lines, plain, rows
from paimon_spark.operations.cleanup import partitions_text
from paimon_spark.operations.operation import (
    OPTIONS,
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
)
from paimon_spark.redaction import get_logger

if TYPE_CHECKING:
    from paimon_spark.api.catalog import Catalog
    from paimon_spark.api.table import Table
    from paimon_spark.engine.compaction.task import CompactResult
    from paimon_spark.format.metadata_files.snapshot import Snapshot

_LOG = get_logger(__name__)
_STRATEGIES: Final = ("full", "minor")


def _compact(a: Request) -> CompactResult | None:
    _refuse_buckets(a)
    strategy = _strategy(a)
    table = a.table()
    partitions: str | Sequence[Mapping[str, object]] | None = partitions_text(a)
    if a["partition_idle_time"] is not None:
        if partitions is not None or a["where"] is not None:
            raise InvalidInputError(f"{a.caller}: partition_idle_time cannot be used with partitions or where")
        partitions = _idle_partitions(table, a["partition_idle_time"])
        if not partitions:
            return None
    return table.compact(
        _is_full(table, strategy),
        partitions=partitions,
        where=a["where"],
        order_by=a["order_by"],
        order_strategy=a["order_strategy"] or "none",
    )


def _strategy(a: Request) -> str:
    """`full`, `minor`, or empty where the table decides."""
    strategy = (a["compact_strategy"] or "").lower()
    if strategy not in ("", *_STRATEGIES):
        raise InvalidInputError(f"{a.caller} takes compact_strategy as full or minor, found {strategy!r}")
    if a["full"] and strategy == "minor":
        raise UsageError(f"{a.caller}: --full and --compact-strategy minor cannot be used together; give one of them")
    return "full" if a["full"] else strategy


def _is_full(table: Table, strategy: str) -> bool:
    """Whether to compact fully: tables with keys or a number of buckets are, unless the strategy says otherwise.

    Source: Java `CompactAction`, `CompactDatabaseAction`: batch jobs compact fully; `AppendTableCompact` never does.
    """
    return strategy == "full" or (not strategy and (bool(table.handle.schema.primary_keys) or table.options.bucket > 0))


def _refuse_buckets(a: Request) -> None:
    if a["buckets"] is not None:
        raise UnsupportedFeatureError(
            f"{a.caller}: single buckets cannot be chosen; choose partitions, or leave buckets out", feature="buckets"
        )


def _idle_partitions(table: Table, idle: str) -> list[Mapping[str, object]]:
    """The partitions whose newest file is at least as old as `idle`."""
    from paimon_spark.format import binary_row
    from paimon_spark.format.metadata_files.data_file import wall_clock_of
    from paimon_spark.metadata.live_files import live_entries
    from paimon_spark.metadata.manifests import data_manifests
    from paimon_spark.metadata.retry import now_ms
    from paimon_spark.metadata.snapshots import latest_snapshot
    from paimon_spark.options.descriptor import duration_ms

    idle_ms = duration_ms(idle)
    head = latest_snapshot(table.handle)
    columns = table.handle.schema.partition_type.fields
    if not columns:
        raise InvalidInputError(f"{table.handle.describe()} has no partitions that could be idle", table=table.name)
    if head is None:
        return []
    entries = live_entries(table.handle, data_manifests(table.handle, head))
    limit_ms = wall_clock_of(now_ms()) - idle_ms
    newest = entries.group_by("partition").aggregate([("creation_time_ms", "max"), ("creation_time_ms", "count")])
    types = [c.type for c in columns]
    return [
        dict(zip((c.name for c in columns), binary_row.decode(row["partition"], types), strict=True))
        for row in newest.to_pylist()
        if row["creation_time_ms_max"] is not None and row["creation_time_ms_max"] <= limit_ms
    ]


def _rescale(a: Request) -> CompactResult:
    return a.table().rescale(a["bucket_num"], partitions=partitions_text(a), where=a["where"])


def _described(done: CompactResult | None) -> str:
    return "no partition has been idle for so long" if done is None else str(done)


def _compact_database(a: Request) -> dict[str, Any]:
    """Compact each table, and return its result or its error by its name."""
    if a["partition_idle_time"] is not None:
        raise UnsupportedFeatureError(
            f"{a.caller}: idle partitions cannot be chosen in several tables; use compact with partition_idle_time",
            feature="partition_idle_time",
        )
    strategy = _strategy(a)
    patterns = (a[name] for name in ("including_databases", "including_tables", "excluding_tables"))
    return {f"{d}.{t}": _compact_one(a, d, t, strategy) for d, t in _matching_tables(a.catalog(), *patterns)}


def _matching_tables(
    catalog: Catalog, databases: str | None = None, including: str | None = None, excluding: str | None = None
) -> list[tuple[str, str]]:
    """Database and name of each table that regular expressions match as a whole, in order.

    Args:
        catalog: whose tables are meant.
        databases: expression of databases; None is all.
        including: of tables, as `db.t`; None is all.
        excluding: of tables that are left out; None is none.

    Raises:
        InvalidInputError: one is not a regular expression.
    """
    chosen, wanted, unwanted = (_compiled(text) for text in (databases or ".*", including or ".*", excluding or ""))
    found = [(d, t) for d in catalog.list_databases() if chosen.fullmatch(d) for t in catalog.list_tables(d)]
    return [(d, t) for d, t in found if wanted.fullmatch(f"{d}.{t}") and not unwanted.fullmatch(f"{d}.{t}")]


def _compiled(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as e:
        raise InvalidInputError(f"{text!r} is not a regular expression: {e}", pattern=text) from e


def _compact_one(a: Request, database: str, name: str, strategy: str) -> CompactResult | PaimonError:
    try:
        table = a.table(f"`{database}`.`{name}`")
        return table.compact(_is_full(table, strategy))
    except PaimonError as e:
        _LOG.error("table %s.%s was not compacted: %s", database, name, e)
        return e


def _count_row(a: Request, found: dict[str, Any]) -> Rows:
    failed = sum(isinstance(done, PaimonError) for done in found.values())
    return [(f"Compact database finished. Success: {len(found) - failed}, Failed: {failed}",)]


def _show_databases(a: Request, found: dict[str, Any]) -> Answer:
    out, data = [], []
    error = next((e for e in found.values() if isinstance(e, PaimonError)), None)
    for name, done in found.items():
        if isinstance(done, PaimonError):
            out.append((name, f"failed: {done.kind}"))
            data.append({"table": name, "error": {"kind": done.kind, "message": str(done)}})
        else:
            out.append((name, _described(done)))
            data.append({"table": name, **plain(done)})
    return rows(("table", "result"), out, data=data, empty="no such table", error=error)


def _compact_manifest(a: Request) -> Snapshot | None:
    for name in ("manifest_sort_partition_field", "manifest_sort_max_rewrite_size", "manifest_sort_enabled"):
        if a[name]:
            raise UnsupportedFeatureError(
                f"{a.caller}: manifests are not sorted here; leave {name} out: they are merged by partition as they "
                "are",
                feature=name,
            )
    table = a.table()
    if not a.dry_run:
        return table.compact_manifest()
    from paimon_spark.metadata.manifests import data_manifests
    from paimon_spark.metadata.snapshots import latest_snapshot

    head = latest_snapshot(table.handle)
    count = 0 if head is None else len(data_manifests(table.handle, head))
    _LOG.info("%s has %d manifests", table.handle.describe(), count)
    return None


_FULL = command_flag("full", "merge everything, also in tables without buckets")
_STRATEGY = Argument(
    "compact_strategy",
    "full, or minor: only where files are small or many",
    otherwise="full; of tables without buckets, minor",
    choices=_STRATEGIES,
)
_IDLE = Argument("partition_idle_time", "only partitions without new files for so long, such as `1 d`")
_STRATEGIES_TEXT = (
    "Tables with buckets are compacted fully, as Paimon's own actions do; others, and all with strategy minor, only "
    "where files are small or many."
)

_PARTITIONS = Argument(
    "partitions",
    "only this partition: dt=2024-01-01,hour=5; several in a call as `dt=a;dt=b`, else repeat --partition",
    repeated=True,
    option="partition",
    spellings=("--partitions",),
    metavar="COLUMN=VALUE,…",
    otherwise="all",
)
_WHERE = Argument("where", "only partitions for which this SQL condition is true", otherwise="all")

OPERATIONS = (
    Operation(
        "reduce the number of files of the branch without changing its rows",
        _compact,
        (
            _PARTITIONS,
            _STRATEGY,
            Argument(
                "order_strategy",
                "how rows are sorted: order, zorder, hilbert or none",
                otherwise="none",
            ),
            Argument("order_by", "columns to sort the rows of each partition by, with commas between"),
            _WHERE,
            OPTIONS,
            _IDLE,
            Argument("buckets", "refused: whole partitions are chosen"),
            _FULL,
        ),
        Effect.WRITE,
        details=f"{_STRATEGIES_TEXT} Large tables are compacted by a Spark job where a session is active.",
        procedure="compact",
        command="compact",
        show=lambda a, done: lines(_described(done), done),
    ),
    Operation(
        "compact the tables of several databases",
        _compact_database,
        (
            Argument("including_databases", "regular expression of databases", otherwise=".*"),
            Argument("including_tables", "regular expression of db.t", otherwise=".*"),
            Argument("excluding_tables", "regular expression of db.t to leave out", otherwise="none"),
            OPTIONS,
            _FULL,
            replace(_STRATEGY, style=Style.COMMAND),
            Argument("mode", "accepted and ignored", choices=("divided", "combined"), style=Style.COMMAND),
            Argument("partition_idle_time", "refused", style=Style.COMMAND),
        ),
        Effect.WRITE,
        Subject.WAREHOUSE,
        details=f"{_STRATEGIES_TEXT} A table that fails is logged, and the others are compacted.",
        procedure="compact_database",
        result="result STRING",
        rows=_count_row,
        command="compact-database",
        show=_show_databases,
    ),
    Operation(
        "put the rows of partitions into another number of buckets",
        _rescale,
        (
            Argument("bucket_num", "the new number", Type.INT, otherwise="that of option bucket", option="buckets"),
            _PARTITIONS,
            _WHERE,
        ),
        Effect.WRITE,
        details="Option bucket stays: change it first with ALTER TABLE, as later writes need it. Partitions that have "
        "the number already stay as they are. Writes to the same partitions while it runs make it begin again.",
        procedure="rescale",
        command="rescale",
        show=lambda a, done: lines("nothing to rescale" if not done.snapshot_ids else str(done), done),
    ),
    Operation(
        "merge the manifests of the branch into as few as possible",
        _compact_manifest,
        (
            OPTIONS,
            Argument("dry_run", "only log how many there are", Type.BOOLEAN, default=False, style=Style.CALL),
            Argument("manifest_sort_enabled", "only false", Type.BOOLEAN, default=False, style=Style.CALL),
            Argument("manifest_sort_partition_field", "refused", style=Style.CALL),
            Argument("manifest_sort_max_rewrite_size", "refused", style=Style.CALL),
        ),
        Effect.WRITE,
        procedure="compact_manifest",
        command="compact-manifest",
        show=lambda a, made: lines(
            "nothing to do" if made is None else f"snapshot {made.id} has fewer manifests", made
        ),
    ),
)
