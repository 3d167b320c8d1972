"""Definitions of tables and changes of them, from the objects of Spark."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Final

from pyspark.sql.types import StructType

from paimon_spark.errors import UnsupportedFeatureError
from paimon_spark.metadata.definition.ddl import default_text
from paimon_spark.metadata.definition.schema_changes import (
    AddColumn,
    After,
    DropColumn,
    First,
    MoveColumn,
    Position,
    RemoveOption,
    RenameColumn,
    SchemaChange,
    SetOption,
    UpdateComment,
    UpdateDefault,
    UpdateNullability,
    UpdateTableComment,
    UpdateType,
)
from paimon_spark.options.location import TableName
from paimon_spark.spark.schema import column, row_type
from paimon_spark.spark_catalog.jvm.gateway import CATALOG, Gateway
from paimon_spark.sql.commands.create import PROVIDERS, TableDefinition, check_location, table_definition
from paimon_spark.sql.grammar.clauses import constraint_advice
from paimon_spark.sql.session import Session
from paimon_spark.text import with_article
from paimon_spark.types import DataType

_DEFAULT_SOURCE: Final = "spark.sql.sources.default"
_OF_SPARK: Final = ("provider", "owner", "location", "comment", "external", "is_managed_location", "table_type")
_OPTION: Final = "option."
_OF_HIVE: Final = "hive."
_COLLATIONS: Final = "__COLLATIONS"
"""Spark's key, in the metadata of columns, for collations other than that by bytes."""
_COMMENT: Final = "comment"
_PIPELINES: Final = "org.apache.spark.sql.pipelines."


def definition_of(gateway: Gateway, session: Session, name: TableName, given: tuple[Any, ...]) -> TableDefinition:
    """Definition from the arguments of `createTable`: a `TableInfo`, or columns, partitions and properties.

    Raises:
        UnsupportedFeatureError: another format, another place, a generated column, or a partition by an expression.
        InvalidInputError, InvalidOptionError: clauses contradict each other, or a key is not a table property.
    """
    if len(given) == 1:
        info = given[0]
        columns, partitions, properties = info.columns(), info.partitions(), info.properties()
        if len(info.constraints()):
            key = _primary_key(info.constraints())
            kind = info.constraints()[0].getClass().getSimpleName().upper()
            found = ("PRIMARY", key) if key is not None else (kind, "column,…")
            what, advice = constraint_advice(*found)
            raise UnsupportedFeatureError(f"Paimon tables do not support {what}, as of {name}: {advice}", feature=what)
    else:
        columns, partitions, properties = given
    options = gateway.text_map(properties)
    _check_provider(session, name, options.get("provider"))
    check_location(session.catalog, name, options.get("location"))
    wanted = _without_spark_keys(options)
    keys = _partition_keys(name, partitions, wanted)
    return table_definition(row_type(_struct(gateway, name, columns)), keys, wanted, options.get(_COMMENT))


def _primary_key(constraints: Any) -> str | None:
    """The columns of PRIMARY KEY; None without one."""
    for c in constraints:
        if c.getClass().getSimpleName() == "PrimaryKey":
            return ",".join(".".join(reference.fieldNames()) for reference in c.columns())
    return None


def _struct(gateway: Gateway, name: TableName, columns: Any) -> StructType:
    """The columns as a `StructType`, with comments and default values as metadata."""
    if hasattr(columns, "json") and not hasattr(columns, "__len__"):
        text = columns.json()
    else:
        for c in columns:
            if c.generationExpression() is not None or c.identityColumnSpec() is not None:
                raise UnsupportedFeatureError(
                    f"column {c.name()} of {name} cannot be generated; compute it in the query",
                    feature="generated columns",
                )
        text = gateway.static(CATALOG + "CatalogV2Util", "v2ColumnsToStructType")(columns).json()
    found = json.loads(text)
    for c in found["fields"]:
        if _COLLATIONS in (c.get("metadata") or {}):
            raise UnsupportedFeatureError(
                f"column {c['name']} of {name} cannot have a collation: texts compare by their bytes; leave COLLATE "
                f"out, or select {c['name']} COLLATE UTF8_BINARY",
                feature="COLLATE",
            )
    return StructType.fromJson(found)


def _check_provider(session: Session, name: TableName, provider: str | None) -> None:
    """Check that no other format is asked for; `saveAsTable` names the session's default format."""
    if provider is None or provider.lower() in PROVIDERS:
        return
    if provider.lower() == str(session.spark.conf.get(_DEFAULT_SOURCE)).lower():
        return
    raise UnsupportedFeatureError(
        f"{name} cannot be {with_article(provider)} table: catalog {session.catalog_name} holds Paimon tables; write "
        "USING paimon, or name a table of Spark's catalog, spark_catalog",
        feature=f"USING {provider}",
    )


def _without_spark_keys(options: dict[str, str]) -> dict[str, str]:
    """The table properties; OPTIONS(…) come twice, with and without a prefix."""
    if any(k.startswith(_OF_HIVE) for k in options):
        raise UnsupportedFeatureError(
            "Paimon tables do not support STORED AS and ROW FORMAT: the format is a property, 'file.format' = "
            "'parquet'",
            feature="STORED AS",
        )
    return {k: v for k, v in options.items() if k not in _OF_SPARK and not k.startswith(_OPTION)}


def _partition_keys(name: TableName, transforms: Any, options: dict[str, str]) -> tuple[str, ...]:
    keys: list[str] = []
    for transform in transforms:
        columns = [".".join(r.fieldNames()) for r in transform.references()]
        if transform.name() == "identity":
            keys += columns
        elif transform.name() == "cluster_by":
            raise UnsupportedFeatureError(
                "Paimon tables do not support CLUSTER BY: it is a property, TBLPROPERTIES ('clustering.columns' = "
                "'column,…')",
                feature="CLUSTER BY",
            )
        elif transform.name() == "bucket":
            options.setdefault("bucket", str(transform.arguments()[0].value()))
            options.setdefault("bucket-key", ",".join(columns))
        else:
            raise UnsupportedFeatureError(
                f"{name} cannot be partitioned by {transform.toString()}: partitions are by columns; add a column with "
                "that value",
                feature="PARTITIONED BY an expression",
            )
    return tuple(keys)


def schema_changes(
    gateway: Gateway, changes: Any, primary_key: Callable[[], Sequence[str]]
) -> tuple[SchemaChange, ...]:
    """Our changes for Spark's `TableChange`s. Raises UnsupportedFeatureError: constraints and clustering.

    Spark Declarative Pipelines names the format again and makes each column nullable when it brings a table to its
    definition: the columns of `primary_key` stay NOT NULL then.
    """
    found = tuple(_change(gateway, c) for c in changes if not _is_format(c))
    nullable = {c.path for c in found if isinstance(c, UpdateNullability) and c.nullable}
    if not nullable or not gateway.is_called_from(_PIPELINES):
        return found
    keys = nullable & {(k,) for k in primary_key()}
    return tuple(c for c in found if not (isinstance(c, UpdateNullability) and c.path in keys))


def _is_format(change: Any) -> bool:
    """Whether a change names the format that all tables have."""
    return (
        change.getClass().getSimpleName() == "SetProperty"
        and change.property() == "provider"
        and change.value().lower() in PROVIDERS
    )


def _change(gateway: Gateway, change: Any) -> SchemaChange:
    kind = change.getClass().getSimpleName()
    if kind in ("SetProperty", "RemoveProperty"):
        return _property(kind, change)
    if not hasattr(change, "fieldNames") or kind in ("AddConstraint", "DropConstraint", "ClusterBy"):
        raise UnsupportedFeatureError(
            f"Paimon tables do not support {kind}; nothing was changed", feature=f"ALTER TABLE: {kind}"
        )
    path = tuple(change.fieldNames())
    match kind:
        case "AddColumn":
            default = change.defaultValue()
            return AddColumn(
                path,
                _type(change.dataType(), path).with_nullable(change.isNullable()),
                change.comment(),
                None if default is None else default_text(default.getSql(), ".".join(path)),
                _position(change.position()),
            )
        case "RenameColumn":
            return RenameColumn(path, change.newName())
        case "DeleteColumn":
            return DropColumn(path)
        case "UpdateColumnType":
            return UpdateType(path, _type(change.newDataType(), path), keep_nullability=True)
        case "UpdateColumnNullability":
            return UpdateNullability(path, change.nullable())
        case "UpdateColumnComment":
            return UpdateComment(path, change.newComment())
        case "UpdateColumnPosition":
            position = _position(change.position())
            assert position is not None
            return MoveColumn(path, position)
        case "UpdateColumnDefaultValue":
            text = change.newDefaultValue()
            return UpdateDefault(path, default_text(text, ".".join(path)) if text else None)
    raise UnsupportedFeatureError(f"Paimon tables do not support {kind}", feature=f"ALTER TABLE: {kind}")


def _property(kind: str, change: Any) -> SchemaChange:
    key = change.property()
    if kind == "RemoveProperty":
        return UpdateTableComment(None) if key == _COMMENT else RemoveOption(key)
    return UpdateTableComment(change.value()) if key == _COMMENT else SetOption(key, change.value())


def _type(data_type: Any, path: tuple[str, ...]) -> DataType:
    from pyspark.sql.types import _parse_datatype_json_string

    return column(".".join(path), _parse_datatype_json_string(data_type.json())).type


def _position(position: Any) -> Position | None:
    if position is None:
        return None
    return After(position.column()) if position.getClass().getSimpleName() == "After" else First()
