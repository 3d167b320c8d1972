"""Partitions that users name: as values by column, as text `dt=a,hr=1;dt=b`, or by a condition.

Source: Java `utils/ParameterUtils.getPartitions`, Spark's `SparkProcedureUtils`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from paimon_spark.errors import InvalidInputError, InvalidOptionError, PaimonError
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.options.batch_write import OVERWRITE_PARTITION, BatchWriteOptions, parse_partition
from paimon_spark.options.descriptor import did_you_mean
from paimon_spark.predicate.ast import Column, NullSafeEqual, Predicate, names_of
from paimon_spark.predicate.literals import partition_equal, zone_of

Asked = Mapping[str, object] | str | Sequence[Mapping[str, object] | str]
"""One partition or several: values by column, or text such as `dt=2024-01-01,hr=5;dt=2024-01-02`."""

_PARTS: Final = re.compile(r"""((?:[^;'"`]|'[^']*'|"[^"]*"|`[^`]*`)*)(?:;|$)""")
"""What semicolons part, but for those in quotes."""


class Chosen(NamedTuple):
    """Partitions, as `compact_table` takes them. Both None: all."""

    specs: tuple[Mapping[str, object], ...] | None
    where: Predicate | None


def chosen_partitions(
    handle: TableHandle, partitions: Asked | None, where: str | None, time_zone: str | None = None
) -> Chosen:
    """What `partitions` or `where` choose.

    Args:
        handle: the branch.
        partitions: partitions by values of all or some partition columns.
        where: a SQL condition over partition columns.
        time_zone: zone of timestamp text without one; None is the machine's.

    Raises:
        InvalidInputError: both are given, the table has no partitions, a partition is not said as it must be, or the
            condition looks at other columns.
        PredicateSyntaxError, ColumnNotFoundError: the condition is wrong.
    """
    if partitions is None and where is None:
        return Chosen(None, None)
    if partitions is not None and where is not None:
        raise InvalidInputError(
            f"partitions and where both choose partitions of {handle.describe()}; give one of them", table=handle.name
        )
    if not handle.schema.partition_keys:
        raise InvalidInputError(
            f"{handle.describe()} has no partitions to choose from; leave partitions and where out", table=handle.name
        )
    if partitions is not None:
        return Chosen(_specs(handle, partitions), None)
    if not isinstance(where, str):
        raise InvalidInputError(
            f"partitions of {handle.describe()} are chosen by a condition as text, found {where!r}", table=handle.name
        )
    # Its parser takes longer to import than most compactions to plan.
    from paimon_spark.predicate.parse import parse_predicate

    predicate = parse_predicate(where, handle.schema.row_type, time_zone)
    others = sorted(names_of(predicate) - set(handle.schema.partition_keys))
    if others:
        raise InvalidInputError(
            f"the condition {where!r} looks at {', '.join(others)}, but only whole partitions of {handle.describe()} "
            f"can be chosen; its partition columns are {', '.join(handle.schema.partition_keys)}",
            table=handle.name,
            columns=others,
        )
    return Chosen(None, predicate)


def _specs(handle: TableHandle, asked: Asked) -> tuple[Mapping[str, object], ...]:
    if not isinstance(asked, Iterable):
        raise _malformed(handle, asked)
    many = (asked,) if isinstance(asked, str | Mapping) else tuple(asked)
    specs: list[Mapping[str, object]] = []
    for one in many:
        if isinstance(one, str):
            specs += _parsed(handle, one)
        elif isinstance(one, Mapping):
            specs.append(one)
        else:
            raise _malformed(handle, one)
    if not specs or not all(specs):
        raise InvalidInputError(
            f"no partition of {handle.describe()} is named; name at least one, or leave partitions out for all",
            table=handle.name,
        )
    return tuple(specs)


def _parsed(handle: TableHandle, text: str) -> list[Mapping[str, object]]:
    out: list[Mapping[str, object]] = []
    position = 0
    while position < len(text):
        part = _PARTS.match(text, position)
        if part is None or not part[1].strip():
            raise _malformed(handle, text)
        try:
            out.append(dict(parse_partition(part[1])))
        except InvalidOptionError as e:
            raise _malformed(handle, text) from e
        position = part.end()
    if not out:
        raise _malformed(handle, text)
    return out


def _malformed(handle: TableHandle, found: object) -> InvalidInputError:
    keys = ", ".join(handle.schema.partition_keys)
    return InvalidInputError(
        f"a partition of {handle.describe()} is named by values of {keys}, as {{'dt': '2024-01-01'}} or text such as "
        f"dt=2024-01-01,hr=5;dt=2024-01-02, each column once; found {found!r}. Put values that hold a comma, a "
        "semicolon or a quote into '…'",
        table=handle.name,
    )


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
