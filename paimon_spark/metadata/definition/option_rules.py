"""Rules for table options: which go together, and with which columns and keys.

Source: Java `schema/SchemaValidation`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from paimon_spark.errors import InvalidOptionError, UnsupportedFeatureError
from paimon_spark.foreign.options import instead_of_guarantee, instead_of_property
from paimon_spark.format.data_files.registry import READABLE
from paimon_spark.format.metadata_files.manifest_format import check_codec
from paimon_spark.format.metadata_files.table_schema import TableSchema
from paimon_spark.metadata.definition.merge_rules import check_merging
from paimon_spark.metadata.features import IMMUTABLE_OPTIONS
from paimon_spark.options.compaction import CLUSTERS, RECORD_TIME_FIELD
from paimon_spark.options.core import FALLBACK_BRANCH, PRIMARY_BRANCH, ChangelogProducer, MergeEngine
from paimon_spark.options.data_files import FILE_FORMAT_PER_LEVEL, INDEX_PREFIX, TARGET_FILE_ROWS
from paimon_spark.options.descriptor import (
    COLUMN_PREFIX,
    Option,
    boolean,
    did_you_mean,
    is_one_edit_away,
    names,
    string,
)
from paimon_spark.options.known import TABLE_OPTION_PREFIXES, TABLE_OPTIONS, is_storage_option
from paimon_spark.options.lineage import OF_ONE_USE
from paimon_spark.options.retention import TAG_TO_PARTITION
from paimon_spark.options.stream_read import READ_OVERWRITE
from paimon_spark.options.table import TableOptions
from paimon_spark.options.write import BUCKET_APPEND_ORDERED, SNAPSHOT_ORDERING
from paimon_spark.redaction import get_logger
from paimon_spark.types import (
    AtomicType,
    CharType,
    DataType,
    MapType,
    RowType,
    TimestampType,
    TimeType,
    types_in,
)

_LOG = get_logger(__name__)
_PLACES: Final = ("path", "branch", "warehouse")
_DEFAULT_AGGREGATE: Final = "default-aggregate-function"
_DOTS_OF_A_COLUMN: Final = 2
_VERSIONS: Final = (
    "scan.timestamp-millis", "scan.timestamp", "scan.snapshot-id", "scan.tag-name", "scan.watermark", "scan.version",
    "scan.file-creation-time-millis", "scan.creation-time-millis", "incremental-between",
    "incremental-between-timestamp", "incremental-to-auto-tag",
)  # fmt: skip
_MODE_VERSIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "from-timestamp": ("scan.timestamp-millis", "scan.timestamp"),
    "from-snapshot": ("scan.snapshot-id", "scan.tag-name", "scan.watermark", "scan.version"),
    "from-snapshot-full": ("scan.snapshot-id",),
    "from-file-creation-time": ("scan.file-creation-time-millis",),
    "from-creation-timestamp": ("scan.creation-time-millis",),
    "incremental": ("incremental-between", "incremental-between-timestamp", "incremental-to-auto-tag"),
}
_NOT_INFERRED: Final = ("from-snapshot-full",)
_NOT_HERE: Final = (
    "pk-vector.index.columns", "pk-btree.index.columns", "pk-bitmap.index.columns", "pk-full-text.index.columns",
    "pk-multivalue.index.columns", "vector-field", "vector.file.format", "blob-field", "blob-descriptor-field",
    "blob-view-field", "blob.stored-descriptor-fields",
)  # fmt: skip
"""Options of columns and indexes that this package neither writes nor keeps up to date."""

_DEFINITION: Final = (IMMUTABLE_OPTIONS - {"type"}) | {"sequence.field", "changelog-producer"}
"""Options that say what a table is; one that is misspelt would make another table."""


def check_options(schema: TableSchema, options: TableOptions) -> None:
    """Check options against each other, columns and keys. Raises InvalidOptionError, UnsupportedFeatureError."""
    for rule in _RULES:
        rule(schema, options)


def warn_of_unknown(keys: Iterable[str], table: str) -> None:
    """Log options that Paimon does not know. Tables store them, as some engines have their own."""
    for key in sorted(keys):
        if key not in TABLE_OPTIONS and not key.startswith(TABLE_OPTION_PREFIXES):
            instead = instead_of_property(key)
            hint = did_you_mean(key, TABLE_OPTIONS) if instead is None else f": {instead.text}"
            _LOG.warning("%s: %s is not a Paimon option%s; stored anyway", table, key, hint)


def misspelt_definition(key: str) -> str | None:
    """The option that defines a table and that `key` nearly is; None where `key` is known, or near to none."""
    if key in TABLE_OPTIONS or is_storage_option(key):
        return None
    return next((known for known in sorted(_DEFINITION) if is_one_edit_away(key, known)), None)


def warn_without_effect(options: Mapping[str, str], table: str) -> None:
    """Log options that are stored for other engines, and cause nothing in a warehouse without a metastore.

    Source: Java `AbstractFileStore.createTagCallbacks`, which passes over them without one.
    """
    for key in (TAG_TO_PARTITION, f"{TAG_TO_PARTITION}.preview"):
        if options.get(key, "none").strip() not in ("", "none"):
            _LOG.warning(
                "%s: option %s has no effect: it makes tags partitions of a Hive metastore, and a warehouse of files "
                "has none; stored anyway",
                table,
                key,
            )


def check_storable(key: str, value: str) -> None:
    """Refuse options that tables do not store, that misspell one that defines the table, or whose promise is not kept.

    Raises InvalidOptionError.
    """
    wanted = misspelt_definition(key)
    if wanted is not None:
        raise InvalidOptionError(
            f"unknown table option {key!r}; did you mean {wanted!r}? That option defines the table and would have no "
            "effect under another name",
            option=key,
        )
    promise = instead_of_guarantee(key, value)
    if promise is not None:
        raise InvalidOptionError(
            f"table property {promise.name} = {value!r} is not supported, and would be stored without any effect; "
            f"{promise.text}",
            option=promise.name,
        )
    if key in _PLACES or is_storage_option(key):
        raise InvalidOptionError(
            f"option {key} says where a table lies or how it is reached, and is not stored in it; "
            "give it to the catalog or to the write",
            option=key,
        )
    if key in OF_ONE_USE:
        raise InvalidOptionError(
            f"option {key} is of one job and is not stored in a table, whose every reader and writer would have it; "
            "give it to the read, the write or the catalog",
            option=key,
        )


def _flag(options: TableOptions, key: str) -> bool:
    return Option(key, boolean, False, "").get(options.raw)


def _text(options: TableOptions, key: str) -> str:
    return Option(key, string, "", "").get(options.raw).strip()


def _refuse(message: str, option: str) -> InvalidOptionError:
    return InvalidOptionError(f"option {message}", option=option)


def _counts(schema: TableSchema, options: TableOptions) -> None:
    for kind, kept in (("snapshot", options.expiry.snapshots), ("changelog", options.expiry.changelogs)):
        low, high = f"{kind}.num-retained.min", f"{kind}.num-retained.max"
        least, most = kept.retain_min, kept.retain_max
        if least < 1:
            raise _refuse(f"{low} = {least}: at least 1", low)
        if least > most:
            raise _refuse(f"{low} = {least} is more than {high} = {most}; raise {high} or lower {low}", low)
    TARGET_FILE_ROWS.get(options.raw)  # refuses less than 1


def _scan_mode(schema: TableSchema, options: TableOptions) -> None:
    """A stored start of scans must be complete, and not two at once."""
    given = [key for key in _VERSIONS if key in options.raw]
    mode = _text(options, "scan.mode").lower().replace("_", "-") or "default"
    if mode == "default":
        mode = next(
            (m for m, keys in _MODE_VERSIONS.items() if m not in _NOT_INFERRED and set(keys) & set(given)), mode
        )
    wanted = _MODE_VERSIONS.get(mode, ())
    if wanted and sum(key in options.raw for key in wanted) != 1:
        raise _refuse(f"scan.mode = {mode!r} needs exactly one of {', '.join(wanted)}", "scan.mode")
    for key in given:
        if key not in wanted:
            raise _refuse(f"{key} does not go with {_start(options, mode, wanted)}; leave one of them out", key)


def _start(options: TableOptions, mode: str, wanted: Sequence[str]) -> str:
    found = [key for key in wanted if key in options.raw]
    return f"scan.mode = {mode!r}" if "scan.mode" in options.raw or not found else found[0]


def _field_options(schema: TableSchema, options: TableOptions) -> None:
    for key in options.raw:
        if not key.startswith(COLUMN_PREFIX):
            continue
        columns = key.split(".")[1].split(",")
        for column in columns:
            if column not in (*schema.row_type.names, _DEFAULT_AGGREGATE):
                raise _refuse(f"{key}: the table has no column {column!r}{_near(column, schema)}", key)
        rows = [f.name for f in schema.fields if isinstance(f.type, RowType)]
        if len(columns) == 1 and columns[0] in rows and key.count(".") > _DOTS_OF_A_COLUMN:
            raise _refuse(f"{key}: options of fields inside the row {columns[0]!r} have no effect", key)


def _near(column: str, schema: TableSchema) -> str:
    return did_you_mean(column, schema.row_type.names)


def _column(schema: TableSchema, key: str, column: str) -> DataType:
    if column not in schema.row_type.names:
        raise _refuse(f"{key} = {column!r}: the table has no such column{_near(column, schema)}", key)
    return schema.row_type.field(column).type


def _sequence_fields(schema: TableSchema, options: TableOptions) -> None:
    key, fields = "sequence.field", options.sequence_fields
    for column in fields:
        _column(schema, key, column)
        if f"{COLUMN_PREFIX}{column}.aggregate-function" in options.raw:
            raise _refuse(f"{key} = {column!r}: a sequence field has no aggregate function of its own", key)
    if len(set(fields)) != len(fields):
        raise _refuse(f"{key} names a column twice: {', '.join(fields)}", key)
    if not fields:
        return
    if options.merge_engine is MergeEngine.FIRST_ROW:
        raise _refuse(f"{key} does not go with merge-engine = first-row, which keeps the row that came first", key)
    if schema.primary_keys and not set(schema.partition_keys) <= set(schema.primary_keys):
        raise _refuse(
            f"{key} needs all partition keys {list(schema.partition_keys)} in the primary key "
            f"{list(schema.primary_keys)}, since rows may move between partitions otherwise",
            key,
        )


def _merging(schema: TableSchema, options: TableOptions) -> None:
    if schema.primary_keys:
        check_merging(schema, options)
    if options.merge_engine is MergeEngine.FIRST_ROW:
        producer = options.changelog_producer
        if producer not in (ChangelogProducer.NONE, ChangelogProducer.LOOKUP):
            raise _refuse(
                f"changelog-producer = {producer.value}: with merge-engine = first-row only none or lookup",
                "changelog-producer",
            )
    kind = (options.write.rowkind_field or "").strip()
    if kind and not isinstance(_column(schema, "rowkind.field", kind), CharType):
        raise _refuse(
            f"rowkind.field = {kind!r}: the column holds +I, -U, +U or -D, so it is a STRING", "rowkind.field"
        )


def _changelog(schema: TableSchema, options: TableOptions) -> None:
    producer, key = options.changelog_producer, "changelog-producer"
    if not schema.primary_keys and producer is not ChangelogProducer.NONE:
        raise _refuse(f"{key} = {producer.value} needs a table with a primary key", key)
    if READ_OVERWRITE.get(options.raw):
        if not schema.primary_keys:
            raise _refuse(
                "streaming-read-overwrite needs a primary key; use streaming-read-append-overwrite for this table",
                "streaming-read-overwrite",
            )
        if producer in (ChangelogProducer.LOOKUP, ChangelogProducer.FULL_COMPACTION):
            raise _refuse(
                f"streaming-read-overwrite does not go with {key} = {producer.value}: changes would be read twice",
                "streaming-read-overwrite",
            )
    if "full-compaction.delta-commits" in options.raw:
        if producer is ChangelogProducer.LOOKUP:
            raise _refuse(
                f"full-compaction.delta-commits does not go with {key} = lookup; use {key} = full-compaction",
                "full-compaction.delta-commits",
            )
        if not schema.primary_keys and options.bucket == -1:
            raise _refuse(
                "full-compaction.delta-commits needs buckets; set option bucket", "full-compaction.delta-commits"
            )


def _formats(schema: TableSchema, options: TableOptions) -> None:
    used = {"file.format": _text(options, "file.format") or "parquet"}
    changelog = _text(options, "changelog-file.format")
    if changelog:
        used["changelog-file.format"] = changelog
    for level, name in FILE_FORMAT_PER_LEVEL.get(options.raw).items():
        used[f"file.format.per.level ({level})"] = name
    for where, name in used.items():
        if name.lower() not in READABLE:
            raise UnsupportedFeatureError(
                f"option {where} = {name!r} is no format of data files here; use {', '.join(READABLE)}",
                feature=f"file format {name}",
            )
        for f in schema.fields:
            wrong = _unfit(name.lower(), f.type)
            if wrong is not None:
                raise InvalidOptionError(
                    f"option {where} = {name}: column {f.name!r} holds values of type {wrong}, which {name} files do "
                    "not; use parquet, or another type",
                    option="file.format",
                    column=f.name,
                )


def _unfit(file_format: str, t: DataType) -> DataType | None:
    """The first type inside `t` whose values Paimon does not write to files of the format."""
    for part in types_in(t):
        match part:
            case TimestampType() if file_format == "avro" and part.precision > 6:
                return part
            case TimeType() if file_format == "avro" and part.precision > 3:
                return part
            case AtomicType(name="VARIANT") if file_format != "parquet":
                return part
    return None


def _expiry_of_records(schema: TableSchema, options: TableOptions) -> None:
    key = RECORD_TIME_FIELD.key
    column = (RECORD_TIME_FIELD.get(options.raw) or "").strip()
    if not column:
        return
    t = _column(schema, key, column)
    if not (isinstance(t, TimestampType) or (isinstance(t, AtomicType) and t.name in ("INT", "BIGINT"))):
        raise _refuse(f"{key} = {column!r}: the column is {t}; INT, BIGINT or TIMESTAMP can tell a time", key)


def _deletion_vectors(schema: TableSchema, options: TableOptions) -> None:
    if not options.deletion_vectors:
        return
    key, producer = "deletion-vectors.enabled", options.changelog_producer
    if producer is ChangelogProducer.FULL_COMPACTION:
        raise _refuse(f"{key} goes with changelog-producer none, input or lookup, not full-compaction", key)
    if options.merge_engine is MergeEngine.FIRST_ROW:
        raise _refuse(f"{key} does not go with merge-engine = first-row, which never deletes a row", key)


def _snapshot_ordering(schema: TableSchema, options: TableOptions) -> None:
    key = SNAPSHOT_ORDERING.key
    if not options.commit.snapshot_sequence_ordering:
        return
    if not schema.primary_keys:
        raise _refuse(f"{key} needs a primary key", key)
    if options.sequence_fields:
        raise _refuse(f"{key} does not go with sequence.field: the snapshot alone tells which row is newer", key)
    if not options.commit.write_only:
        raise _refuse(
            f"{key} needs write-only = true, since writers cannot know their snapshot while they compact", key
        )


def _row_tracking(schema: TableSchema, options: TableOptions) -> None:
    if options.row_tracking:
        if schema.primary_keys:
            raise _refuse("row-tracking.enabled needs a table without primary key", "row-tracking.enabled")
        if options.bucket != -1:
            raise _refuse("row-tracking.enabled needs bucket = -1", "row-tracking.enabled")
    if options.data_evolution:
        if not options.row_tracking:
            raise _refuse("data-evolution.enabled needs row-tracking.enabled = true", "data-evolution.enabled")
        if CLUSTERS.get(options.raw):
            raise _refuse("data-evolution.enabled does not go with clustering.incremental", "data-evolution.enabled")


def _clustering(schema: TableSchema, options: TableOptions) -> None:
    key = CLUSTERS.key
    for column in names(_text(options, "clustering.columns")):
        _column(schema, "clustering.columns", column)
    if not CLUSTERS.get(options.raw):
        return
    if schema.primary_keys:
        raise _refuse(f"{key} needs a table without primary key", key)
    if options.bucket != -1:
        if BUCKET_APPEND_ORDERED.get(options.raw):
            raise _refuse(f"{key} with buckets needs bucket-append-ordered = false", key)
        if options.deletion_vectors:
            raise _refuse(f"{key} with buckets does not go with deletion-vectors.enabled", key)


def _upsert_key(schema: TableSchema, options: TableOptions) -> None:
    keys = names(options.write.upsert_key)
    for column in keys:
        _column(schema, "upsert-key", column)
    if keys and schema.primary_keys:
        raise _refuse(f"upsert-key does not go with the primary key {list(schema.primary_keys)}", "upsert-key")


def _manifests(schema: TableSchema, options: TableOptions) -> None:
    manifests = options.manifests
    check_codec(manifests.format.value, manifests.compression)
    if not _flag(options, "manifest-sort.enabled"):
        return
    if not options.data_evolution and not schema.partition_keys:
        raise _refuse("manifest-sort.enabled needs a partitioned table", "manifest-sort.enabled")
    column = _text(options, "manifest-sort.partition-field")
    if column and column not in schema.partition_keys:
        raise _refuse(
            f"manifest-sort.partition-field = {column!r} is not among the partition keys {list(schema.partition_keys)}",
            "manifest-sort.partition-field",
        )


def _file_indexes(schema: TableSchema, options: TableOptions) -> None:
    for key, text in options.raw.items():
        if key.startswith(INDEX_PREFIX) and key.endswith(".columns"):
            for name in names(text):
                column, bracket, _ = name.partition("[")
                if bracket and not isinstance(_column(schema, key, column), MapType):
                    raise _refuse(f"{key} = {name!r}: only a MAP has keys to index", key)
                _column(schema, key, column)


def _others(schema: TableSchema, options: TableOptions) -> None:
    if options.shows_sequence_number and not schema.primary_keys:
        raise _refuse("table-read.sequence-number.enabled needs a primary key", "table-read.sequence-number.enabled")
    if _flag(options, "auto-create"):
        raise _refuse("auto-create is not a table option; leave it out", "auto-create")
    if options.fallback_branch and options.primary_branch:
        raise _refuse(f"{FALLBACK_BRANCH.key} and {PRIMARY_BRANCH.key} exclude each other", FALLBACK_BRANCH.key)
    for key in _NOT_HERE:
        if _text(options, key):
            raise UnsupportedFeatureError(
                f"option {key} = {options.raw[key]!r}: these columns or indexes are not written here; "
                "leave the option out",
                feature=key,
            )
    for key, text in options.raw.items():
        if key.startswith(COLUMN_PREFIX) and key.endswith(".map.storage-layout") and text.strip().lower() != "default":
            raise UnsupportedFeatureError(
                f"option {key} = {text!r}: maps are stored only in the default layout here", feature=key
            )


_RULES: Final[tuple[Callable[[TableSchema, TableOptions], None], ...]] = (
    _counts,
    _scan_mode,
    _field_options,
    _sequence_fields,
    _formats,
    _changelog,
    _merging,
    _expiry_of_records,
    _deletion_vectors,
    _snapshot_ordering,
    _row_tracking,
    _clustering,
    _upsert_key,
    _manifests,
    _file_indexes,
    _others,
)
