"""The partition that option `overwrite.partition` names."""

from __future__ import annotations

from typing import Any

from paimon_spark.errors import InvalidOptionError, PaimonError
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.options.batch_write import OVERWRITE_PARTITION, BatchWriteOptions
from paimon_spark.options.descriptor import did_you_mean
from paimon_spark.predicate.ast import Column, NullSafeEqual
from paimon_spark.predicate.literals import partition_equal, zone_of


def partition_values(handle: TableHandle, options: BatchWriteOptions) -> dict[str, Any]:
    """The partition that `overwrite.partition` names, as values of its columns.

    Raises:
        InvalidOptionError: a name is no partition column, or a text no value of it.
    """
    out: dict[str, Any] = {}
    keys = handle.schema.partition_keys
    for name, text in (options.overwrite_partition or {}).items():
        column = name if name in keys else next((k for k in keys if k.lower() == name.lower()), None)
        if column is None:
            raise InvalidOptionError(
                f"option {OVERWRITE_PARTITION.key} names {name!r}, which is no partition column of {handle.describe()}"
                f"{did_you_mean(name, keys)}; its partition columns are {', '.join(keys) or 'none'}",
                option=OVERWRITE_PARTITION.key,
                column=name,
            )
        is_null = text == handle.options.partition_default_name
        out[column] = None if is_null else _value(handle, column, text, options.time_zone)
    return out


def _value(handle: TableHandle, name: str, text: str, time_zone: str | None) -> Any:
    data_type = handle.schema.row_type.field(name).type
    try:
        match partition_equal(Column((name,), data_type), text, zone_of(time_zone)):
            case NullSafeEqual(_, value) if value is not None:
                return value
    except PaimonError as e:
        raise _no_value(handle, name, text) from e
    raise _no_value(handle, name, text)


def _no_value(handle: TableHandle, name: str, text: str) -> InvalidOptionError:
    return InvalidOptionError(
        f"option {OVERWRITE_PARTITION.key}: {text!r} is no value of column {name}, which is "
        f"{handle.schema.row_type.field(name).type} in {handle.describe()}",
        option=OVERWRITE_PARTITION.key,
        value=text,
    )
