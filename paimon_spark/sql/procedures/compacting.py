"""Procedures that rewrite files without changing rows, and the one that marks partitions as done."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from typing import Final

from paimon_spark.api.catalog import chosen_tables
from paimon_spark.api.table import Table
from paimon_spark.errors import InvalidInputError, PaimonError, UnsupportedFeatureError
from paimon_spark.format import binary_row
from paimon_spark.jobs.partition_specs import chosen_partitions
from paimon_spark.maintenance.partition_done import mark_done
from paimon_spark.metadata.live_files import live_entries
from paimon_spark.metadata.manifests import data_manifests
from paimon_spark.metadata.snapshots import latest_snapshot
from paimon_spark.options.descriptor import duration_ms
from paimon_spark.sql.place import Place
from paimon_spark.sql.procedures.procedure import DONE, OPTIONS, TABLE, Arguments, Kind, Parameter, Procedure, Rows

_LOG = logging.getLogger(__name__)
_STRATEGIES: Final = ("full", "minor")


def _compact(place: Place, a: Arguments) -> Rows:
    a.refuse_two("partitions", "where")
    _refuse_sorting(a)
    strategy = (a.text_or_none("compact_strategy") or "").lower()
    if strategy not in ("", *_STRATEGIES):
        raise InvalidInputError(f"{a.caller} takes compact_strategy as full or minor, found {strategy!r}")
    table = a.table(place, a.options())
    full = strategy == "full" or (not strategy and is_full_by_default(table))
    idle = a.text_or_none("partition_idle_time")
    partitions: str | Sequence[Mapping[str, object]] | None = a.text_or_none("partitions")
    where = a.text_or_none("where")
    if idle is not None:
        if partitions is not None or where is not None:
            raise InvalidInputError(f"{a.caller}: partition_idle_time cannot be used with partitions or where")
        partitions = _idle_partitions(table, duration_ms(idle))
        if not partitions:
            return [(True,)]
    table.compact(full, partitions=partitions, where=where)
    return [(True,)]


def is_full_by_default(table: Table) -> bool:
    """Whether Paimon compacts such a table fully when it is told nothing: with keys, or of a number of buckets.

    Source: Java `CompactAction`, `CompactDatabaseAction`: batch jobs compact fully; `AppendTableCompact` never does.
    """
    return bool(table.handle.schema.primary_keys) or table.options.bucket > 0


def _refuse_sorting(a: Arguments) -> None:
    order = (a.text_or_none("order_strategy") or "none").lower()
    if order == "none" and a.text_or_none("order_by") is not None:
        raise InvalidInputError(f'{a.caller}: order_strategy "none" cannot work with order_by columns')
    if order != "none":
        raise UnsupportedFeatureError(
            f"{a.caller}: compaction does not sort rows here, as order_strategy = {order!r} asks; leave it out, or "
            "overwrite the table with its rows in order",
            feature="order_strategy",
        )
    if a.text_or_none("buckets") is not None:
        raise UnsupportedFeatureError(
            f"{a.caller}: single buckets cannot be chosen; choose partitions, or leave buckets out", feature="buckets"
        )


def _idle_partitions(table: Table, idle_ms: int) -> list[Mapping[str, object]]:
    """The partitions whose youngest file is older than that."""
    head = latest_snapshot(table.handle)
    columns = table.handle.schema.partition_type.fields
    if not columns:
        raise InvalidInputError(f"{table.handle.describe()} has no partitions that could be idle", table=table.name)
    if head is None:
        return []
    entries = live_entries(table.handle, data_manifests(table.handle, head))
    now_ms = int(time.time() * 1000)
    # Times of files are local wall clocks.
    limit_ms = now_ms + time.localtime(now_ms / 1000).tm_gmtoff * 1000 - idle_ms
    newest = entries.group_by("partition").aggregate([("creation_time_ms", "max"), ("creation_time_ms", "count")])
    types = [c.type for c in columns]
    return [
        dict(zip((c.name for c in columns), binary_row.decode(row["partition"], types), strict=True))
        for row in newest.to_pylist()
        if row["creation_time_ms_max"] is not None and row["creation_time_ms_max"] <= limit_ms
    ]


def _compact_database(place: Place, a: Arguments) -> Rows:
    patterns = (a.text_or_none(name) for name in ("including_databases", "including_tables", "excluding_tables"))
    done = failed = 0
    options = a.options()
    for database, name in chosen_tables(place.catalog, *patterns):
        text = f"`{database}`.`{name}`"
        try:
            table = place.table(text, a.caller, options)
            table.compact(is_full_by_default(table))
            done += 1
        except PaimonError as e:
            _LOG.error("table %s was not compacted: %s", text, e)
            failed += 1
    return [(f"Compact database finished. Success: {done}, Failed: {failed}",)]


def _compact_manifest(place: Place, a: Arguments) -> Rows:
    for name in ("manifest_sort_partition_field", "manifest_sort_max_rewrite_size"):
        if a.text_or_none(name) is not None:
            raise _no_sorting(a, name)
    if a.truth("manifest_sort_enabled"):
        raise _no_sorting(a, "manifest_sort_enabled")
    table = a.table(place, a.options())
    if a.truth("dry_run"):
        head = latest_snapshot(table.handle)
        count = 0 if head is None else len(data_manifests(table.handle, head))
        _LOG.info("%s has %d manifests", table.handle.describe(), count)
    else:
        table.compact_manifest()
    return [(True,)]


def _no_sorting(a: Arguments, name: str) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(
        f"{a.caller}: manifests are not sorted here; leave {name} out: they are put together by partition as they are",
        feature=name,
    )


def _mark_done(place: Place, a: Arguments) -> Rows:
    table = a.table(place)
    specs, _ = chosen_partitions(table.handle, a.text("partitions"), None)
    mark_done(table.handle, specs or ())
    return [(True,)]


_WHICH: Final = (
    Parameter("partitions", doc="Only these, as in `dt=2024-01-01,hr=5;dt=2024-01-02`.", default="all"),
    Parameter("where", doc="Only partitions for which this condition is true, instead of partitions.", default="all"),
)

PROCEDURES: Final = (
    Procedure(
        "compact",
        "Make files of the branch fewer without changing its rows.",
        (
            TABLE,
            _WHICH[0],
            Parameter("compact_strategy", doc="full or minor.", default="full; of tables without buckets, minor"),
            Parameter("order_strategy", doc="Only none: rows are not sorted.", default="none"),
            Parameter("order_by", doc="Refused, as rows are not sorted."),
            _WHICH[1],
            OPTIONS,
            Parameter("partition_idle_time", doc="Only partitions without new files for so long, as in `1 d`."),
            Parameter("buckets", doc="Refused: whole partitions are chosen."),
        ),
        DONE,
        _compact,
    ),
    Procedure(
        "compact_database",
        "Compact the tables of several databases: fully, those without buckets as is worth it. What fails is logged.",
        (
            Parameter("including_databases", doc="Databases, as a regular expression.", default=".*"),
            Parameter("including_tables", doc="Tables as `db.t`, as a regular expression.", default=".*"),
            Parameter("excluding_tables", doc="Tables that are left out, as a regular expression.", default="none"),
            OPTIONS,
        ),
        "result STRING",
        _compact_database,
    ),
    Procedure(
        "compact_manifest",
        "Put the branch's list of files into as few manifests as can be.",
        (
            TABLE,
            OPTIONS,
            Parameter("dry_run", Kind.BOOLEAN, doc="Only log how many there are.", default="false"),
            Parameter("manifest_sort_enabled", Kind.BOOLEAN, doc="Only false.", default="false"),
            Parameter("manifest_sort_partition_field", doc="Refused."),
            Parameter("manifest_sort_max_rewrite_size", doc="Refused."),
        ),
        DONE,
        _compact_manifest,
    ),
    Procedure(
        "mark_partition_done",
        "Put a file _SUCCESS into the directories of partitions.",
        (TABLE, Parameter("partitions", required=True, doc="Partitions, as in `dt=2024-01-01;dt=2024-01-02`.")),
        DONE,
        _mark_done,
    ),
)
