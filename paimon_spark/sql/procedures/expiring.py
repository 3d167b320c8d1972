"""Procedures that let snapshots, partitions and consumers go, and delete files."""

from __future__ import annotations

from typing import Final
from urllib.parse import unquote

from paimon_spark.errors import InvalidInputError
from paimon_spark.sql.place import Place
from paimon_spark.sql.procedures.procedure import DONE, OPTIONS, TABLE, Arguments, Kind, Parameter, Procedure, Rows

_NOTHING_EXPIRED: Final = "No expired partitions."
_MODES: Final = ("distributed", "local")
_RETAINED: Final = (
    Parameter("retain_max", Kind.INT, doc="Beyond so many expire, however young.", default="as options say"),
    Parameter("retain_min", Kind.INT, doc="So many of the newest stay, however old.", default="as options say"),
    Parameter("older_than", doc="Only what is older than this moment expires.", default="as options say"),
    Parameter("max_deletes", Kind.INT, doc="How many may expire at most.", default="snapshot.expire.limit"),
)
_CONSUMERS: Final = "as a regular expression"


def _snapshots(place: Place, a: Arguments) -> Rows:
    table = a.table(place, a.options())
    most = a.number_or_none("max_deletes")
    gone = table.expire_snapshots(
        a.number_or_none("retain_max"),
        retain_min=a.number_or_none("retain_min"),
        older_than=a.moment("older_than"),
        max_deletes=table.options.expiry.snapshots.limit if most is None else most,
    )
    return [(len(gone.snapshots),)]


def _changelogs(place: Place, a: Arguments) -> Rows:
    table = a.table(place)
    gone = table.expire_changelogs(
        a.number_or_none("retain_max"),
        retain_min=a.number_or_none("retain_min"),
        older_than=a.moment("older_than"),
        max_deletes=a.number_or_none("max_deletes"),
        delete_all=a.truth("delete_all"),
    )
    return [(len(gone.changelogs),)]


def _partitions(place: Place, a: Arguments) -> Rows:
    table = a.table(place, a.options())
    gone = table.expire_partitions(
        a.text_or_none("expiration_time"),
        timestamp_formatter=a.text_or_none("timestamp_formatter"),
        timestamp_pattern=a.text_or_none("timestamp_pattern"),
        expire_strategy=a.text_or_none("expire_strategy"),
        max_expires=a.number_or_none("max_expires"),
    )
    return [(", ".join(map(unquote, path.split("/"))),) for path in gone.partitions] or [(_NOTHING_EXPIRED,)]


def _orphans(place: Place, a: Arguments) -> Rows:
    mode = (a.text_or_none("mode") or _MODES[0]).lower()
    if mode not in _MODES:
        raise InvalidInputError(f"{a.caller} takes mode as {' or '.join(_MODES)}, found {mode!r}")
    text = a.text("table")
    if text.endswith(".*"):
        database = text[:-2].strip("`")
        tables = [place.table(f"`{database}`.`{t}`", a.caller) for t in place.catalog.list_tables(database)]
    else:
        tables = [a.table(place)]
    gone = [t.remove_orphan_files(a.moment("older_than"), dry_run=a.truth("dry_run")) for t in tables]
    return [(sum(g.files for g in gone), sum(g.bytes for g in gone))]


def _purge(place: Place, a: Arguments) -> Rows:
    a.table(place).purge()
    return [("Success",)]


def _reset_consumer(place: Place, a: Arguments) -> Rows:
    a.table(place).reset_consumer(a.text("consumerId"), a.number_or_none("nextSnapshotId"))
    return [(True,)]


def _clear_consumers(place: Place, a: Arguments) -> Rows:
    including = a.text_or_none("includingConsumers") or ".*"
    a.table(place).clear_consumers(including, a.text_or_none("excludingConsumers"))
    return [(True,)]


PROCEDURES: Final = (
    Procedure(
        "expire_snapshots",
        "Let old snapshots of the branch expire, and delete the files that nothing else needs.",
        (TABLE, *_RETAINED, OPTIONS),
        "deleted_snapshots_count INT NOT NULL",
        _snapshots,
    ),
    Procedure(
        "expire_changelogs",
        "Let old changelogs of expired snapshots expire. Paimon's Flink connector has it too.",
        (TABLE, *_RETAINED, Parameter("delete_all", Kind.BOOLEAN, doc="All of them go.", default="false")),
        "deleted_changelogs_count INT NOT NULL",
        _changelogs,
        is_own=True,
    ),
    Procedure(
        "expire_partitions",
        "Drop the branch's old partitions, by a commit.",
        (
            TABLE,
            Parameter("expiration_time", doc="Age at which a partition goes, as in `30 d`.", default="as options say"),
            Parameter("timestamp_formatter", doc="How times are written in partitions, as in `yyyyMMdd`."),
            Parameter("timestamp_pattern", doc="How columns make a time, as in `$year-$month-$day`."),
            Parameter("expire_strategy", doc="values-time or update-time.", default="values-time"),
            Parameter("max_expires", Kind.INT, doc="How many may go at most.", default="as options say"),
            OPTIONS,
        ),
        "expired_partitions STRING",
        _partitions,
    ),
    Procedure(
        "remove_orphan_files",
        "Delete files that no version of any branch names: what broken-off jobs left behind.",
        (
            Parameter("table", required=True, doc="Name of the table, or `db.*` for all of a database."),
            Parameter("older_than", doc="Only files last changed before this moment.", default="one day ago"),
            Parameter("dry_run", Kind.BOOLEAN, doc="Only tell what would go.", default="false"),
            Parameter("parallelism", Kind.INT, doc="Taken and not needed."),
            Parameter("mode", doc="distributed or local; both are done in this process.", default="distributed"),
        ),
        "deletedFileCount BIGINT, deletedFileTotalLenInBytes BIGINT",
        _orphans,
    ),
    Procedure(
        "purge_files",
        "Delete everything but the definition: rows, history, tags, consumers and branches.",
        (TABLE,),
        "result STRING",
        _purge,
    ),
    Procedure(
        "reset_consumer",
        "Let a consumer go on with a snapshot, or remove it.",
        (
            TABLE,
            Parameter("consumerId", required=True, doc="Name of the consumer."),
            Parameter("nextSnapshotId", Kind.BIGINT, doc="The snapshot to read next.", default="none: it is removed"),
        ),
        DONE,
        _reset_consumer,
    ),
    Procedure(
        "clear_consumers",
        "Remove consumers.",
        (
            TABLE,
            Parameter("includingConsumers", doc=f"Those to remove, {_CONSUMERS}.", default="all"),
            Parameter("excludingConsumers", doc=f"Those that stay, {_CONSUMERS}.", default="none"),
        ),
        DONE,
        _clear_consumers,
    ),
)
