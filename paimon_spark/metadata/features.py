"""Checks that a table can be read and written: one row per feature that is not supported.

What can only be seen in a data file (its format, shredded columns, the encoding of deletion vectors) is
refused where the file is opened.

Source: Java `CoreOptions`, `TableType`, `schema/SchemaValidation`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from paimon_spark.errors import InvalidOptionError, UnsupportedFeatureError
from paimon_spark.format.metadata_files.table_schema import TableSchema
from paimon_spark.options.core import (
    BUCKET,
    BUCKET_FUNCTION,
    CHANGELOG_PRODUCER,
    DELETION_VECTORS,
    IGNORE_DELETE,
    MERGE_ENGINE,
    MERGE_ON_READ,
    PRIMARY_KEY_NULLABLE,
    SEQUENCE_ORDER,
)
from paimon_spark.options.descriptor import Option, boolean
from paimon_spark.options.lineage import check_job_options
from paimon_spark.options.table import TableOptions
from paimon_spark.options.write import MANIFEST_FORMAT, SEQUENCE_INIT, SNAPSHOT_ORDERING, starts_from_snapshot
from paimon_spark.redaction import get_logger
from paimon_spark.types import (
    DataType,
    OpaqueType,
    VectorType,
    types_in,
)

_LOG: Final = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Refusal:
    """A feature that makes a table unreadable here.

    Attributes:
        option: the option that switches it on.
        applies: whether a table with this schema and these options has it.
        why: what would go wrong, and what to do instead.
    """

    option: str
    applies: Callable[[TableSchema, Mapping[str, str]], bool]
    why: str


def _if_on(key: str, why: str, *, keyed: bool = False) -> _Refusal:
    """A boolean option, with `keyed` only of a table with a primary key."""
    option = Option(key, boolean, False, "")
    return _Refusal(key, lambda schema, options: option.get(options) and bool(schema.primary_keys or not keyed), why)


def _if_given(key: str, why: str, harmless: Collection[str] = ()) -> _Refusal:
    """An option with any value but blank and `harmless` ones."""
    return _Refusal(key, lambda schema, options: options.get(key, "").strip().lower() not in ("", *harmless), why)


def _merges_by_snapshot_order(schema: TableSchema, options: Mapping[str, str]) -> bool:
    merged_already = DELETION_VECTORS.get(options) and not MERGE_ON_READ.get(options)
    return bool(schema.primary_keys) and SNAPSHOT_ORDERING.get(options) and not merged_already


IMMUTABLE_OPTIONS: Final = frozenset(
    (
        "type", "bucket", "bucket-key", "bucket-function.type", "data-file.path-directory", "merge-engine",
        "ignore-delete", "sequence.snapshot-ordering", "aggregation.remove-record-on-delete",
        "partial-update.remove-record-on-delete", "partial-update.remove-record-on-sequence-group",
        "rowkind.field", "primary-key", "primary-key.nullable", "partition", "force-lookup",
        "row-tracking.enabled", "data-evolution.enabled", "index-file-in-data-file-dir", "blob-field",
        "blob-descriptor-field", "blob-view-field", "pk-clustering-override", "deletion-vectors.enabled",
        "manifest.format",
    )
)  # fmt: skip
"""Options that say how a table's files were written: a read cannot give them other values.

`manifest.format` is not among Java's, but Java reads all manifests of a table in the format that the option names at
the time: a table with manifests in two formats cannot be read by it.

Source: Java `CoreOptions.IMMUTABLE_OPTIONS`, `SchemaManager.checkAlterTableOption`.
"""

_CHAIN: Final = "its rows come from several branches at once; read each branch by itself with option branch"
_OTHER_TYPE: Final = _if_given(
    "type",
    "only Paimon's own tables are kept here, as other kinds belong to Hive and REST catalogs; read the files of such "
    "a table with the format that they have, for example with spark.read.csv",
    harmless=("table", "materialized-table"),
)
REFUSALS: Final[tuple[_Refusal, ...]] = (
    _OTHER_TYPE,
    _if_on("chain-table.enabled", _CHAIN),
    _if_given("scan.fallback-snapshot-branch", _CHAIN),
    _if_given("scan.fallback-delta-branch", _CHAIN),
    _if_on(
        "pk-clustering-override",
        "its files are not sorted by the primary key, so they cannot be merged; copy it with Java Paimon "
        "to a table without the option",
    ),
    _Refusal(
        SNAPSHOT_ORDERING.key,
        _merges_by_snapshot_order,
        "rows of one key would be merged in the wrong order; read it with Java Paimon",
    ),
    _if_given(
        "scan.bucket", "Java reads one bucket of it only; remove the option, and give option where to choose rows"
    ),
    _if_on(
        "query-auth.enabled",
        "a catalog server decides which rows and columns may be seen, and paimon_spark does not ask it",
    ),
)


def crosses_partitions(schema: TableSchema, options: TableOptions) -> bool:
    """Whether a key may move between partitions, which no index on disk tells (Java `BucketMode.KEY_DYNAMIC`)."""
    return _crosses_partitions(schema, options.bucket)


def _crosses_partitions(schema: TableSchema, bucket: int) -> bool:
    dynamic = bool(schema.primary_keys) and bucket == -1
    return dynamic and not set(schema.partition_keys) <= set(schema.primary_keys)


def _orders_moving_keys(schema: TableSchema, options: Mapping[str, str]) -> bool:
    return _crosses_partitions(schema, BUCKET.get(options)) and bool(options.get("sequence.field", "").strip())


_INDEXED: Final = "its index files would not know the new rows; write it with Java Paimon"
WRITE_REFUSALS: Final[tuple[_Refusal, ...]] = (
    _Refusal(
        "sequence.field",
        _orders_moving_keys,
        "its primary key lacks a partition column, and a row that moves from one partition to another cannot be "
        "ordered among those it leaves; make a table whose primary key has all partition columns",
    ),
    _if_on(
        SNAPSHOT_ORDERING.key,
        "rows of one key are ordered by commits, which is not supported; write it with Java Paimon",
        keyed=True,
    ),
    _Refusal(
        SEQUENCE_INIT.key,
        lambda schema, options: starts_from_snapshot(options),
        "sequence numbers continue from a property of snapshots, which is not supported; write it with Java Paimon",
    ),
    _Refusal(
        PRIMARY_KEY_NULLABLE.key,
        lambda schema, options: PRIMARY_KEY_NULLABLE.get(options) and _crosses_partitions(schema, BUCKET.get(options)),
        "its primary key lacks a partition column, and keys with nulls are not found again in other partitions; make a "
        "table whose primary key has all partition columns",
    ),
    _if_given(
        "metadata.iceberg.storage",
        "each commit has to write Iceberg metadata too, which is not supported; write it with Java Paimon",
        harmless=("disabled",),
    ),
    _if_given(
        "data-file.external-paths",
        "its new files belong outside the table, which is not supported; write it with Java Paimon",
    ),
    *(
        _if_given(f"pk-{kind}.index.columns", _INDEXED)
        for kind in ("vector", "btree", "bitmap", "multivalue", "full-text")
    ),
)
"""What stands against writing besides `REFUSALS`. What data files are asked for is refused where they are opened."""

_READ_ONLY_MATTERS: Final = frozenset(("sequence.snapshot-ordering", "scan.bucket"))
"""Rows of `REFUSALS` that say how a table is read, not what its files are."""

WITHOUT_SIDE_EFFECTS: Final = (
    "commit.callbacks", "tag.callbacks", "metastore.partitioned-table", "visibility-callback.enabled",
    "metadata.iceberg-compatible", "partition.timestamp-format.strict",
)  # fmt: skip
"""Options whose side effects do not happen here; a write says so, and goes on."""

_OUTSIDE: Final = ("data-file.external-paths", "global-index.external-path", "metadata.iceberg.storage")

_ENUMERATIONS: Final[tuple[Option[Any], ...]] = (
    MERGE_ENGINE,
    BUCKET_FUNCTION,
    CHANGELOG_PRODUCER,
    SEQUENCE_ORDER,
    MANIFEST_FORMAT,
)


def check_files_inside(schema: TableSchema, table: str) -> None:
    """Refuse the definition of a new table whose files would lie outside its directory, where DROP leaves them.

    Raises UnsupportedFeatureError.
    """
    for key in _OUTSIDE:
        value = schema.options.get(key, "").strip()
        if value and value != "disabled":
            raise UnsupportedFeatureError(
                f"table {table} cannot be made with {key} = {value!r}: it would have files outside its directory, "
                "which this package neither writes nor drops; leave the option out, or make the table with Java Paimon",
                feature=key,
                table=table,
            )


def check_definition(schema: TableSchema, table: str) -> None:
    """Refuse a stored option whose value this package does not know, before options are parsed.

    Raises:
        UnsupportedFeatureError: such as a merge engine of a later Paimon.
    """
    for option in _ENUMERATIONS:
        text = schema.options.get(option.key)
        known = [str(m.value) for m in type(option.default)]
        if text is not None and text.strip().lower().replace("_", "-") not in known:
            raise UnsupportedFeatureError(
                f"table {table} has {option.key} = {text!r}, which is not known here; known are "
                f"{', '.join(known)}. Use a newer paimon-spark, or read the table with Java Paimon",
                feature=f"{option.key}={text}",
                table=table,
            )


def check_type(schema: TableSchema, table: str) -> None:
    """Refuse to make a table of another type, whose options mean other things. Raises UnsupportedFeatureError."""
    _refuse((_OTHER_TYPE,), schema, schema.options, table, "made")


def check_overrides(schema: TableSchema, overrides: Mapping[str, str], table: str) -> None:
    """Refuse options of one read or write that would make the table's files mean something else.

    Raises:
        InvalidOptionError: an option of the table's definition, with another value than it has; or a wrong option
            of a job.
    """
    check_job_options(overrides)
    stored = {
        **schema.options,
        "primary-key": ",".join(schema.primary_keys),
        "partition": ",".join(schema.partition_keys),
    }
    if IGNORE_DELETE.is_set(stored):  # under one of its older names
        stored[IGNORE_DELETE.key] = str(IGNORE_DELETE.get(stored)).lower()
    given = {IGNORE_DELETE.key if k in IGNORE_DELETE.fallbacks else k: v for k, v in overrides.items()}
    for key in sorted((IMMUTABLE_OPTIONS - _OF_ROWS) & given.keys()):
        found = stored.get(key, "")
        if _bare(given[key]) != (_bare(found) or _DEFAULTS[key]):
            raise InvalidOptionError(
                f"option {key} = {given[key]!r} cannot be given to one read or write: table {table} was made "
                f"with {repr(found) if found else 'its default'}; leave the option out",
                option=key,
                value=given[key],
            )


_OF_ROWS: Final = frozenset(("rowkind.field",))
"""Options that say how the rows of a write are meant; files do not change by them, so each write may have its own."""
_DEFAULTS: Final = {
    **dict.fromkeys(IMMUTABLE_OPTIONS, ""),
    "bucket": "-1",
    "bucket-function.type": "default",
    "merge-engine": "deduplicate",
    "manifest.format": "avro",
    **{k: "false" for k in IMMUTABLE_OPTIONS if k.endswith((".enabled", "-delete", "-ordering", "-dir", "-lookup"))},
}
"""What an option means that is not given, as `_bare` text; empty where it means nothing."""


def _bare(text: str) -> str:
    return "".join(text.split()).lower()


def check_readable(
    schema: TableSchema, options: Mapping[str, str], table: str, columns: Iterable[str] | None = None
) -> None:
    """Refuse a table, or columns of it, that this package would misread.

    Args:
        schema: the schema read with.
        options: all table options in force, as text (`TableOptions.raw`).
        table: how messages call the table.
        columns: names that are read, for output or in a predicate; None means all columns.

    Raises:
        UnsupportedFeatureError: names the feature, the table and what to do instead.
    """
    _refuse(REFUSALS, schema, options, table, "read")
    wanted = None if columns is None else set(columns)
    for field in schema.fields:
        opaque = unreadable_part(field.type)
        if opaque is None or (wanted is not None and field.name not in wanted):
            continue
        others = [f.name for f in schema.fields if unreadable_part(f.type) is None]
        choice = f"choose other columns with option columns, such as {', '.join(others[:5])}"
        raise UnsupportedFeatureError(
            f"column {field.name!r} of table {table} is of type {opaque}, which cannot be read here; "
            + (choice if others else "the table has no column that can be read"),
            feature=f"type {opaque}",
            table=table,
            column=field.name,
        )


def check_writable(schema: TableSchema, options: Mapping[str, str], table: str) -> None:
    """Refuse a table that this package would write so that others read it wrong. As `check_readable`."""
    as_read = tuple(r for r in REFUSALS if r.option not in _READ_ONLY_MATTERS)
    _refuse((*as_read, *WRITE_REFUSALS), schema, options, table, "written")
    for field in schema.fields:
        opaque = unreadable_part(field.type)
        if opaque is not None:
            raise UnsupportedFeatureError(
                f"table {table} cannot be written: its column {field.name!r} is of type {opaque}, which is not "
                "written here; write it with Java Paimon",
                feature=f"type {opaque}",
                table=table,
                column=field.name,
            )
    for key in WITHOUT_SIDE_EFFECTS:
        if options.get(key, "").strip() not in ("", "false"):
            _LOG.warning("table %s has %s = %r; this write does not cause what it asks for", table, key, options[key])


def _refuse(
    refusals: Iterable[_Refusal], schema: TableSchema, options: Mapping[str, str], table: str, verb: str
) -> None:
    for refusal in refusals:
        if refusal.applies(schema, options):
            raise UnsupportedFeatureError(
                f"table {table} cannot be {verb}: it has {refusal.option} = "
                f"{options.get(refusal.option, 'default')!r}; " + refusal.why,
                feature=refusal.option,
                table=table,
            )


def unreadable_part(data_type: DataType) -> DataType | None:
    """The first type inside `data_type`, or itself, whose values cannot be read; None when all can."""
    return next((t for t in types_in(data_type) if isinstance(t, (OpaqueType, VectorType))), None)
