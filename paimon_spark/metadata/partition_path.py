"""Partition values as directory names. Only for finding files: values are never read back from directories.

Source: Paimon spec, chapter File Layout; Java `InternalRowPartitionComputer`, `PartitionPathUtils`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import date, datetime, timedelta, timezone
from decimal import Context, Decimal
from typing import Any, Final

import numpy as np

from paimon_spark.errors import UnsupportedFeatureError
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.options.table import TableOptions
from paimon_spark.spec import binary_row
from paimon_spark.spec.index_manifest import IndexManifestEntry
from paimon_spark.types import (
    AtomicType,
    BinaryType,
    CharType,
    DataType,
    DecimalType,
    RowType,
    TimestampType,
    TimeType,
)

_ESCAPED: Final = str.maketrans({c: f"%{ord(c):02X}" for c in [*map(chr, range(0x20)), "\x7f", *"\"#%'*/:=?\\{}[]^"]})
_EPOCH: Final = datetime(1970, 1, 1)
_ALL_DIGITS: Final = Context(prec=80)
_EPOCH_DATE: Final = date(1970, 1, 1)
_JAVA_BLANK: Final = frozenset(
    map(chr, (*range(0x09, 0x0E), *range(0x1C, 0x20), 0x20, 0x1680, *range(0x2000, 0x2007),
              *range(0x2008, 0x200B), 0x2028, 0x2029, 0x205F, 0x3000))
)  # fmt: skip
"""What Java's `Character.isWhitespace` accepts; it leaves out the non-breaking spaces that Python counts."""


def partition_path(partition_type: RowType, values: Sequence[Any], options: TableOptions) -> str:
    """`key=value` directories of one partition, joined by `/`; empty for an unpartitioned table.

    Args:
        partition_type: the partition columns.
        values: one per column: None, or the column's Python value as `spec.binary_row` decodes it. DATE may
            be days since 1970 too, TIMESTAMP also (milliseconds, nanoseconds of the millisecond).
        options: decide the text form of values and the name of null.

    Raises:
        UnsupportedFeatureError: the column's type has no text form that can be known.
    """
    parts = []
    for column, value in zip(partition_type.fields, values, strict=True):
        text = None if value is None else value_text(column.type, value, legacy=options.partition_legacy_name)
        if text is None or all(c in _JAVA_BLANK for c in text):
            text = options.partition_default_name
        parts.append(f"{escape(column.name)}={escape(text)}")
    return "/".join(parts)


def partition_path_of(handle: TableHandle, partition: bytes) -> str:
    """Directories of a partition, given as BinaryRow bytes; empty for an unpartitioned table."""
    partition_type = handle.schema.partition_type
    if not partition_type.fields:
        return ""
    decoded = binary_row.decode(partition, [f.type for f in partition_type], raw_timestamps=True)
    return partition_path(partition_type, decoded, handle.options)


def bucket_path_of(handle: TableHandle, partition: bytes, bucket: int) -> str:
    """The directory of a bucket's data files; `partition` as BinaryRow bytes."""
    return handle.layout.bucket_path(partition_path_of(handle, partition), bucket)


def index_file_path(handle: TableHandle, entry: IndexManifestEntry) -> str:
    """Where an index file lies. Raises CorruptFileError: its name would lead elsewhere."""
    in_bucket = handle.options.index_in_data_dir
    bucket_path = bucket_path_of(handle, entry.partition, entry.bucket) if in_bucket else None
    return handle.layout.index_path(entry.file_name, bucket_path, entry.external_path)


def escape(text: str) -> str:
    """`text` with the characters that a directory name may not hold as `%XX`."""
    return text.translate(_ESCAPED)


def value_text(data_type: DataType, value: Any, *, legacy: bool) -> str:
    """The text of a partition value: Java's internal form when `legacy`, else that of a SQL cast to STRING.

    Raises:
        UnsupportedFeatureError: the column's type has no text form that can be known.
    """
    match data_type:
        case CharType():
            return str(value)
        case DecimalType():
            return format(Decimal(value).quantize(Decimal(1).scaleb(-data_type.scale), context=_ALL_DIGITS), "f")
        case TimestampType():
            return _timestamp_text(data_type, value, legacy)
        case TimeType():
            return str(int(value)) if legacy else _time_text(int(value), data_type.precision)
        case BinaryType() if not legacy:
            return bytes(value).decode("utf-8", "replace")
        case AtomicType():
            return _atomic_text(data_type, value, legacy)
    raise UnsupportedFeatureError(
        f"partitions by a column of type {data_type} have directory names that cannot be derived",
        feature=f"partition column of type {data_type}",
    )


def _atomic_text(data_type: AtomicType, value: Any, legacy: bool) -> str:
    match data_type.name:
        case "BOOLEAN":
            return "true" if value else "false"
        case "TINYINT" | "SMALLINT" | "INT" | "BIGINT":
            return str(int(value))
        case "FLOAT":
            return _java_floating(np.float32(value))
        case "DOUBLE":
            return _java_floating(np.float64(value))
        case "DATE":
            days = (value - _EPOCH_DATE).days if isinstance(value, date) else int(value)
            return str(days) if legacy else (_EPOCH_DATE + timedelta(days=days)).isoformat()
    raise UnsupportedFeatureError(
        f"a partition column cannot be of type {data_type}", feature=f"partition column of type {data_type}"
    )


def _timestamp_text(data_type: TimestampType, value: Any, legacy: bool) -> str:
    moment, nanos = _moment(value)
    if data_type.local_zone and not legacy:  # the cast speaks of the zone of the machine, ours as theirs
        moment = moment.replace(tzinfo=timezone.utc).astimezone().replace(tzinfo=None)
    if not legacy:
        fraction = f"{nanos:09d}"
        while len(fraction) > data_type.precision and fraction.endswith("0"):
            fraction = fraction[:-1]
        return moment.isoformat(" ", "seconds") + (f".{fraction}" if fraction else "")
    text = moment.isoformat("T", "minutes")  # as Java's LocalDateTime.toString
    if moment.second or nanos:
        text += f":{moment.second:02d}"
    if nanos:
        digits = 3 if nanos % 1_000_000 == 0 else 6 if nanos % 1_000 == 0 else 9
        text += "." + f"{nanos:09d}"[:digits]
    return text


def _moment(value: Any) -> tuple[datetime, int]:
    """A timestamp as a naive UTC datetime of whole seconds, and nanoseconds of the second."""
    if isinstance(value, datetime):
        naive = value.astimezone(timezone.utc).replace(tzinfo=None) if value.tzinfo else value
        return naive.replace(microsecond=0), naive.microsecond * 1000
    millis, nanos = value
    seconds, rest = divmod(int(millis), 1000)
    return _EPOCH + timedelta(seconds=seconds), rest * 1_000_000 + int(nanos)


def _time_text(millis: int, precision: int) -> str:
    """Java's form of a time of day: the fraction stops at `precision`, or where only zeros follow."""
    seconds, rest = divmod(millis % 86_400_000, 1000)
    text = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    if precision > 0:
        text += "." + (f"{rest:03d}"[:precision].rstrip("0") or "0")
    return text


def _java_floating(value: Any) -> str:
    """Java's `Float.toString` and `Double.toString`: shortest digits, an exponent outside 10^-3 … 10^7."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return np.format_float_positional(value, unique=True, trim="0")
    mantissa, _, exponent = np.format_float_scientific(value, unique=True, trim="0").partition("e")
    return f"{mantissa}E{int(exponent)}"
