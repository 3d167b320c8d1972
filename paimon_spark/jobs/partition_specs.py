"""Partitions that users name: by column values, by text or by a condition.

Source: Java `utils/ParameterUtils.getPartitions`, Spark's `SparkProcedureUtils`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from paimon_spark.advice import ALL_PARTITIONS
from paimon_spark.errors import InvalidInputError, InvalidOptionError, PaimonError, PredicateSyntaxError
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.options.descriptor import did_you_mean
from paimon_spark.options.write_request import OVERWRITE_PARTITION, BatchWriteOptions, parse_partition
from paimon_spark.predicate.ast import Column, NullSafeEqual, Predicate, names_of
from paimon_spark.predicate.literals import partition_equal, zone_of
from paimon_spark.spark_port import session_time_zone
from paimon_spark.text import sql_quoted

Asked = Mapping[str, object] | str | Sequence[Mapping[str, object] | str]
"""One partition or several: values by column, or text such as `dt=2024-01-01,hr=5;dt=2024-01-02`."""

_PARTS: Final = re.compile(r"""((?:[^;'"`]|'[^']*'|"[^"]*"|`[^`]*`)*)(?:;|$)""")
"""Parts between semicolons outside of quotes."""


class Chosen(NamedTuple):
    """Partitions, as `compact_branch` takes them. Both None: all."""

    specs: tuple[Mapping[str, object], ...] | None
    where: Predicate | None


def chosen_partitions(
    handle: TableHandle, partitions: Asked | None, where: str | None, time_zone: str | None = None
) -> Chosen:
    """The partitions that `partitions` or `where` choose; arguments as of `Table.compact`.

    Raises:
        InvalidInputError: both are given, the table has no partitions, a partition is malformed, or the condition
            names other columns.
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
            f"{handle.describe()} has no partitions to choose from{ALL_PARTITIONS}", table=handle.name
        )
    if partitions is not None:
        return Chosen(_specs(handle, partitions), None)
    if not isinstance(where, str):
        raise InvalidInputError(
            f"partitions of {handle.describe()} are chosen by a condition as text, found {where!r}", table=handle.name
        )
    # Importing the parser takes longer than planning most compactions.
    from paimon_spark.predicate.parse import parse_predicate

    predicate = parse_predicate(where, handle.schema.row_type, time_zone)
    others = sorted(names_of(predicate) - set(handle.schema.partition_keys))
    if others:
        raise InvalidInputError(
            f"the condition {where!r} names {', '.join(others)}, but only whole partitions of {handle.describe()} "
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
            _refuse_name_of_null(handle, one)
            specs.append(one)
        else:
            raise _malformed(handle, one)
    if not specs or not all(specs):
        raise InvalidInputError(
            f"no partition of {handle.describe()} is named; name at least one, or leave partitions out for all",
            table=handle.name,
        )
    return tuple(specs)


def _refuse_name_of_null(handle: TableHandle, spec: Mapping[str, object]) -> None:
    """Refuse the text by which paths name the null partition where a value is asked for, as it may be one.

    Raises InvalidInputError.
    """
    for name, value in spec.items():
        if value == handle.options.partition_default_name:
            raise InvalidInputError(
                f"{name} = {value!r} may be a text or the null partition of {handle.describe()}; name the null "
                f"partition by None (in SQL by NULL) or '{name}={value}', and delete rows with the text by a condition",
                column=name,
                table=handle.name,
            )


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


def typed_partition(handle: TableHandle, spec: Mapping[str, object], time_zone: str | None) -> dict[str, Any]:
    """Values of partition columns, named in any case, in the types of the columns.

    A value may be text; None and `partition.default-name` mean null.

    Raises:
        InvalidInputError: a name is not a partition column, or a value does not fit its column.
    """
    keys = handle.schema.partition_keys
    out: dict[str, Any] = {}
    for name, value in spec.items():
        key = name if name in keys else next((k for k in keys if k.lower() == name.lower()), None)
        if key is None:
            raise InvalidInputError(
                f"{name!r} is not a partition column of {handle.describe()}{did_you_mean(name, keys)}; it is "
                f"partitioned by {', '.join(keys) or 'nothing'}",
                column=name,
                table=handle.name,
            )
        is_null = value is None or value == handle.options.partition_default_name
        out[key] = None if is_null else _typed_value(handle, key, value, time_zone)
    return out


def _typed_value(handle: TableHandle, key: str, value: Any, time_zone: str | None) -> Any:
    data_type = handle.schema.row_type.field(key).type
    text = (
        f"{sql_quoted(value)} is not a value of partition column {key!r} of {handle.describe()}, which is {data_type}"
    )
    try:
        match partition_equal(Column((key,), data_type), value, zone_of(time_zone or session_time_zone())):
            case NullSafeEqual(_, found) if found is not None:
                return found
    except PredicateSyntaxError as e:
        raise InvalidInputError(f"{text}: {e}", column=key, table=handle.name) from e
    raise InvalidInputError(text, column=key, table=handle.name)


def partition_values(handle: TableHandle, options: BatchWriteOptions) -> dict[str, Any]:
    """The partition that `overwrite.partition` names, as values of its columns.

    Raises:
        InvalidOptionError: a name is not a partition column, or a text not a value of it.
    """
    try:
        return typed_partition(handle, options.overwrite_partition or {}, options.time_zone)
    except PaimonError as e:
        raise InvalidOptionError(f"option {OVERWRITE_PARTITION.key}: {e}", option=OVERWRITE_PARTITION.key) from e
