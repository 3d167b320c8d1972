"""Validation of a schema: columns, keys and buckets; `option_rules` has the rest.

Source: Java `schema/SchemaValidation` and the constructors of `schema/Schema`, `schema/TableSchema`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from paimon_spark.errors import InvalidInputError, InvalidOptionError, UnsupportedFeatureError
from paimon_spark.format.metadata_files.table_schema import TableSchema
from paimon_spark.metadata.definition.option_rules import check_options
from paimon_spark.metadata.features import check_definition
from paimon_spark.metadata.layout import POSTPONE_BUCKET
from paimon_spark.options.core import BUCKET
from paimon_spark.options.descriptor import did_you_mean
from paimon_spark.options.known import check_values
from paimon_spark.options.table import parse_table_options
from paimon_spark.types import (
    KEY_PREFIX,
    ROW_ID,
    ROW_KIND_COLUMN,
    SEQUENCE_NUMBER,
    VALUE_KIND,
    VARIANT,
    ArrayType,
    DataType,
    MapType,
    MultisetType,
    OpaqueType,
    RowType,
    VectorType,
)

SYSTEM_COLUMNS: Final = (SEQUENCE_NUMBER, VALUE_KIND, "_LEVEL", ROW_KIND_COLUMN, ROW_ID)
_NO_KEY: Final = (ArrayType, MapType, MultisetType, RowType, VectorType, OpaqueType)


def validate(schema: TableSchema, table: str = "the table") -> None:
    """Check a definition as Paimon does before it is stored; `table` is how messages call the table.

    Raises:
        InvalidInputError, InvalidOptionError: Paimon has no such table.
        UnsupportedFeatureError: it has a feature that this package lacks.
    """
    try:
        _check_columns(schema.row_type)
        _check_keys(schema)
        check_values(schema.options)
        check_definition(schema, table)
        _check_buckets(schema)
        check_options(schema, parse_table_options(schema.options))
    except (InvalidInputError, UnsupportedFeatureError) as e:
        if "table" in e.context:
            raise
        raise type(e)(f"{table}: {e.message}", **{**e.context, "table": table}) from e


def is_system_column(name: str) -> bool:
    """Whether Paimon keeps the name of a column for itself."""
    return name in SYSTEM_COLUMNS or name.startswith(KEY_PREFIX)


def _check_columns(row_type: RowType) -> None:
    if not row_type.fields:
        raise InvalidInputError("a table has at least one column")
    for name in row_type.names:
        if not name.strip():
            raise InvalidInputError("the name of a column is blank", column=name)
        if is_system_column(name):
            raise InvalidInputError(
                f"column {name!r} has a name that Paimon keeps for itself: {', '.join(SYSTEM_COLUMNS)} and names "
                f"that start with {KEY_PREFIX}; give it another name",
                column=name,
            )
    _check_distinct(row_type.names, "")
    for f in row_type:
        _check_nested(f.name, f.type)


def _check_nested(where: str, t: DataType) -> None:
    match t:
        case RowType():
            if not t.fields:
                raise InvalidInputError(f"row {where} has no fields; a row has at least one", column=where)
            _check_distinct(t.names, f"{where}.")
            for f in t:
                _check_nested(f"{where}.{f.name}", f.type)
        case ArrayType() | MultisetType():
            _check_nested(f"{where}.element", t.element)
        case MapType():
            _check_nested(f"{where}.key", t.key)
            _check_nested(f"{where}.value", t.value)


def _check_distinct(names: Iterable[str], prefix: str) -> None:
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        column = prefix + twice[0]
        raise InvalidInputError(f"column {column} is there twice; give one of them another name", column=column)


def check_case(names: Sequence[str]) -> None:
    """Refuse new columns whose names Spark cannot tell apart. Raises InvalidInputError."""
    counted = Counter(n.lower() for n in names)
    twice = [n for n in names if counted[n.lower()] > 1]
    if twice:
        raise InvalidInputError(
            f"columns {' and '.join(map(repr, twice))} differ at most in upper and lower case, and Spark cannot tell "
            "them apart; give them other names",
            column=twice[0],
        )


def _check_keys(schema: TableSchema) -> None:
    for keys, what in ((schema.primary_keys, "primary key"), (schema.partition_keys, "partition key")):
        check_keys_exist(schema.row_type, keys, what)
        for key in keys:
            _check_key_type(key, schema.row_type.field(key).type, what)
    if schema.primary_keys and not schema.trimmed_primary_keys:
        raise InvalidInputError(
            f"the primary key {list(schema.primary_keys)} holds only partition keys, so that a partition would have "
            "one row; add a column to it"
        )


def check_keys_exist(row_type: RowType, keys: Sequence[str], what: str) -> None:
    """Check that keys are columns, each named once. Raises InvalidInputError."""
    for key in keys:
        if key not in row_type.names:
            raise InvalidInputError(
                f"{what} {key!r} is not among the columns {', '.join(row_type.names)}"
                + did_you_mean(key, row_type.names),
                column=key,
            )
    if len(set(keys)) != len(keys):
        raise InvalidInputError(f"a column is named twice in the {what} {list(keys)}")


def _check_key_type(key: str, t: DataType, what: str) -> None:
    if isinstance(t, _NO_KEY) or t.with_nullable(True) == VARIANT:
        raise InvalidInputError(f"{what} {key!r} is of type {t}, whose values cannot be compared", column=key)


def _check_buckets(schema: TableSchema) -> None:
    bucket, text = BUCKET.get(schema.options), schema.options.get("bucket-key")
    _check_bucket_key(schema, text)
    if bucket == -1:
        if text is not None:
            raise InvalidOptionError(
                f"option bucket-key = {text!r} needs a number of buckets; set option bucket, or leave bucket-key out",
                option="bucket-key",
            )
    elif bucket == POSTPONE_BUCKET and schema.primary_keys:
        return
    elif bucket < 1:
        raise InvalidOptionError(
            f"option bucket = {bucket}: a number of at least 1, or -1"
            + (" (dynamic), or -2 (postponed)" if schema.primary_keys else " (no buckets)"),
            option="bucket",
        )
    elif not schema.bucket_keys:
        raise InvalidOptionError(
            f"option bucket = {bucket} of a table without primary key needs option bucket-key, "
            "the columns that choose a row's bucket",
            option="bucket-key",
        )


def _check_bucket_key(schema: TableSchema, text: str | None) -> None:
    if not (text or "").strip():
        return
    # Java does not trim the names between commas, so that "a, b" names a column " b" for it.
    for key in (text or "").split(","):
        if key not in schema.row_type.names:
            raise InvalidOptionError(
                f"option bucket-key = {text!r}: {key!r} is not among the columns {', '.join(schema.row_type.names)}",
                option="bucket-key",
            )
        if key in schema.partition_keys:
            raise InvalidOptionError(
                f"option bucket-key = {text!r}: {key!r} is a partition key, the same in all rows of a partition",
                option="bucket-key",
            )
        if schema.primary_keys and key not in schema.primary_keys:
            raise InvalidOptionError(
                f"option bucket-key = {text!r}: {key!r} is not in the primary key {list(schema.primary_keys)}, so rows "
                "of one key would be in several buckets",
                option="bucket-key",
            )
        _check_key_type(key, schema.row_type.field(key).type, "bucket key")
