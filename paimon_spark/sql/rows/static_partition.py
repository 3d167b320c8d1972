"""`PARTITION (k = constant, …)`: constants → values of the table's partition columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from paimon_spark.errors import InvalidInputError, SqlSyntaxError
from paimon_spark.format.arrays.arrow_types import arrow_type
from paimon_spark.format.arrays.python_values import array_of
from paimon_spark.jobs.partition_specs import partition_values
from paimon_spark.options.batch_write import BatchWriteOptions
from paimon_spark.options.descriptor import did_you_mean
from paimon_spark.spark.schema import spark_type
from paimon_spark.sql.rows.target import Target
from paimon_spark.sql.values import values_of
from paimon_spark.types import in_any_case


@dataclass(frozen=True, slots=True)
class StaticPartition:
    """Values that a statement states for partition columns.

    Attributes:
        texts: by column, as option `overwrite.partition` takes them.
        values: by column, as `commit.overwrite.NamedPartitions` takes them.
    """

    texts: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)

    @property
    def option(self) -> str:
        """As option `overwrite.partition`."""
        pairs = ((k.replace("`", "``"), v.replace("'", "''")) for k, v in self.texts.items())
        return ",".join(f"`{k}`='{v}'" for k, v in pairs)


def static_partition(target: Target, constants: Mapping[str, str | None]) -> StaticPartition:
    """The partition that constants state; columns without one are left out.

    Raises:
        InvalidInputError: a column is none of the partition's, or its constant no value of it.
        SqlSyntaxError: a value is no constant.
    """
    handle, keys = target.table.handle, target.partition_keys
    default = handle.options.partition_default_name
    by_column: dict[str, str] = {}
    for name, text in constants.items():
        column = in_any_case(name, keys)
        if column is None:
            raise InvalidInputError(
                f"PARTITION names {name!r}, which is no partition column of {handle.describe()}"
                f"{did_you_mean(name, keys)}; its partition columns are {', '.join(keys) or 'none'}",
                column=name,
            )
        if text is not None:
            by_column[column] = text
    found = values_of(target.session, list(by_column.values()))
    texts = {column: _text(value, default) for column, value in zip(by_column, found, strict=True)}
    asked = BatchWriteOptions(time_zone=target.session.time_zone, overwrite_partition=texts)
    return StaticPartition(texts, partition_values(handle, asked))


def constant(target: Target, name: str, value: Any) -> Column:
    """A value of a partition column, as a column of a DataFrame."""
    data_type = target.column(name).type
    kind = spark_type(data_type, name)
    shown = array_of([value], arrow_type(data_type))[0].as_py()
    if shown is None or isinstance(shown, bytes):
        return F.lit(shown).cast(kind)
    text = shown.isoformat(sep=" ") if isinstance(shown, datetime) else str(shown)
    return F.lit(text).cast(kind)


def _text(value: object, default: str) -> str:
    match value:
        case None:
            return default
        case bool():
            return str(value).lower()
        case datetime():
            return value.isoformat(sep=" ")
        case str() | int() | float() | date():
            return str(value)
    if hasattr(value, "as_tuple"):
        return str(value)
    raise SqlSyntaxError(f"{value!r} is no constant that a partition can be named by", value=value)
