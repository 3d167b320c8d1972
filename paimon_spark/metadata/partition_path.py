"""Directory names of partitions. Only for finding files: values are never read from names.

The text of a FLOAT or DOUBLE depends on who wrote it (Java's on the JDK), so `PartitionDirectories` looks up which
directories there are of such a value.

Source: Paimon spec, chapter File Layout; Java `InternalRowPartitionComputer`, `PartitionPathUtils`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_spark.errors import UnsupportedFeatureError
from paimon_spark.format import binary_row
from paimon_spark.format.arrays import arrow_numpy
from paimon_spark.format.arrays.arrow_numpy import array_of
from paimon_spark.format.arrays.arrow_types import arrow_type
from paimon_spark.format.casts.text import float_of_text, float_text
from paimon_spark.format.metadata_files.index_manifest import IndexManifestEntry
from paimon_spark.metadata.external_files import index_files_of
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.options.table import TableOptions
from paimon_spark.storage.store import Store
from paimon_spark.types import (
    AtomicType,
    BinaryType,
    CharType,
    DataField,
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
    return "/".join(_segments(partition_type, values, options))


def partition_path_of(handle: TableHandle, partition: bytes) -> str:
    """The name of a partition, given as BinaryRow bytes: its directories, with floating-point numbers as we write them.

    Empty for an unpartitioned table. Files are found by `PartitionDirectories`.
    """
    return "/".join(_segments(handle.schema.partition_type, _decoded(handle, partition), handle.options))


class PartitionDirectories:
    """The directories of a table's partitions, however the writers spelled their FLOAT and DOUBLE values.

    A directory belongs to a value when its text rounds to it. More than one may: of writers with different JDKs.
    For one operation, as each parent directory is listed once; without such partition columns nothing is listed.
    Picklable.
    """

    def __init__(self, handle: TableHandle) -> None:
        self._handle = handle
        self._types = handle.schema.partition_type
        self._paths: dict[bytes, list[str]] = {}
        self._spelled: dict[str, dict[bytes, list[str]]] = {}
        self._strays: dict[tuple[bytes, int], dict[str, str]] = {}

    def paths(self, partition: bytes) -> list[str]:
        """All directories of a partition; new files go into the first one. Nothing else is known of it to exist.

        It is the one with the text of JDK 19 and later, unless there are only others. Raises StorageError.
        """
        if partition not in self._paths:
            columns, values = self._types.fields, _decoded(self._handle, partition)
            numbers = [_number(c, v) for c, v in zip(columns, values, strict=True)]
            self._paths[partition] = self._found(columns, numbers, _segments(self._types, values, self._handle.options))
        return self._paths[partition]

    def bucket_paths(self, partition: bytes, bucket: int) -> list[str]:
        """All directories that may hold files of a bucket; new files go into the first one. Raises StorageError."""
        return [self._handle.layout.bucket_path(path, bucket) for path in self.paths(partition)]

    def bucket_path(self, partition: bytes, bucket: int) -> str:
        """The directory for new files of a bucket, which holds most often all of them. Raises StorageError."""
        return self.bucket_paths(partition, bucket)[0]

    def elsewhere(self, partition: bytes, bucket: int, names: Iterable[str]) -> tuple[tuple[str, str], ...]:
        """Files among `names` that are not in `bucket_path`, with their directories.

        Raises StorageError.
        """
        if len(self.paths(partition)) == 1:
            return ()
        _, *others = self.bucket_paths(partition, bucket)
        place = partition, bucket
        if place not in self._strays:
            self._strays[place] = {info.name: path for path in others for info in self._handle.store.list(path)}
        strays = self._strays[place]
        return tuple((name, strays[name]) for name in names if name in strays)

    def of_files(
        self, partitions: pa.BinaryArray, buckets: pa.Array, names: pa.Array
    ) -> tuple[list[str], npt.NDArray[np.int64]]:
        """Directories, and for each file, given by partition, bucket and name, the number of its own.

        Raises StorageError.
        """
        encoded = partitions.dictionary_encode()
        rows, codes = encoded.dictionary.to_pylist(), arrow_numpy.values(encoded.indices).astype(np.int64)
        numbers = arrow_numpy.values(buckets).astype(np.int64)
        low, high = (int(numbers.min()), int(numbers.max())) if len(numbers) else (0, 0)
        count = high - low + 1
        distinct, which = np.unique(codes * count + (numbers - low), return_inverse=True)
        where = which.reshape(-1).astype(np.int64)
        places = [(rows[n // count], low + n % count) for n in distinct.tolist()]
        out = [self.bucket_path(*place) for place in places]
        for number, place in enumerate(places):
            if len(self.paths(place[0])) > 1:
                files = {names[i].as_py(): i for i in np.flatnonzero(where == number).tolist()}
                for name, path in self.elsewhere(*place, files):
                    where[files[name]] = len(out)
                    out.append(path)
        return out, where

    def named(self, texts: Sequence[str]) -> str:
        """The directory of the partitions whose first columns have values of these texts. Raises StorageError."""
        columns = self._types.fields[: len(texts)]
        numbers = [
            float_of_text(t, single=_is_single(c)) if _is_float(c) else None
            for t, c in zip(texts, columns, strict=True)
        ]
        segments = [f"{escape(c.name)}={escape(text)}" for c, text in zip(columns, texts, strict=True)]
        return self._found(columns, numbers, segments)[0]

    def _found(self, columns: Sequence[DataField], numbers: Sequence[Any], segments: Sequence[str]) -> list[str]:
        """Directories of `segments`, or with other names where there are numbers."""
        found = [""]
        for column, number, segment in zip(columns, numbers, segments, strict=True):
            found = [
                f"{parent}/{name}" if parent else name
                for parent in found
                for name in ((segment,) if number is None else self._spellings(parent, column, number, segment))
            ]
        if len(found) > 1:
            root = self._handle.layout.data_root
            found = [path for path in found if self._handle.store.exists(f"{root}/{path}")] or found[:1]
        return found

    def _spellings(self, parent: str, column: DataField, number: Any, segment: str) -> list[str]:
        """The names of the existing directories of a number, `segment` first; else `segment` alone."""
        level = f"{parent}/{column.name}"
        if level not in self._spelled:
            self._spelled[level] = self._listed(parent, column)
        return sorted(self._spelled[level].get(_bits(number), [segment]), key=lambda name: name != segment)

    def _listed(self, parent: str, column: DataField) -> dict[bytes, list[str]]:
        """Names of the directories of a FLOAT or DOUBLE column below `parent`, by the bits of their numbers."""
        root, prefix = self._handle.layout.data_root, f"{escape(column.name)}="
        out: dict[bytes, list[str]] = {}
        for info in self._handle.store.list(f"{root}/{parent}" if parent else root):
            if info.is_directory and info.name.startswith(prefix):
                number = float_of_text(info.name[len(prefix) :], single=_is_single(column))
                if number is not None:
                    out.setdefault(_bits(number), []).append(info.name)
        return out


def _is_float(column: DataField) -> bool:
    return isinstance(column.type, AtomicType) and column.type.name in ("FLOAT", "DOUBLE")


def _is_single(column: DataField) -> bool:
    return isinstance(column.type, AtomicType) and column.type.name == "FLOAT"


def _number(column: DataField, value: Any) -> Any:
    """The value of a FLOAT or DOUBLE column as numpy has it; None for null and other columns."""
    if value is None or not _is_float(column):
        return None
    return np.float32(value) if _is_single(column) else np.float64(value)


def _bits(number: Any) -> bytes:
    """Bits shared by the numbers of one directory: 0.0 and -0.0 differ, all NaN are the same."""
    return b"NaN" if np.isnan(number) else bytes(number.tobytes())


def _decoded(handle: TableHandle, partition: bytes) -> Sequence[Any]:
    types = [f.type for f in handle.schema.partition_type]
    return binary_row.decode(partition, types, raw_timestamps=True) if types else ()


def partition_texts(handle: TableHandle, partition: bytes, *, legacy: bool) -> dict[str, str | None]:
    """The values of a partition as text by column, None for null; `legacy` as in `value_text`."""
    columns = handle.schema.partition_type.fields
    return {
        column.name: None if value is None else value_text(column.type, value, legacy=legacy)
        for column, value in zip(columns, _decoded(handle, partition), strict=True)
    }


def partition_spec(handle: TableHandle, partition: bytes) -> dict[str, str]:
    """The values of a partition as catalogs have them: by column, as in directory names but not escaped."""
    return dict(_texts(handle.schema.partition_type, _decoded(handle, partition), handle.options))


def _segments(partition_type: RowType, values: Sequence[Any], options: TableOptions) -> list[str]:
    return [f"{escape(name)}={escape(text)}" for name, text in _texts(partition_type, values, options)]


def _texts(partition_type: RowType, values: Sequence[Any], options: TableOptions) -> Iterator[tuple[str, str]]:
    for column, value in zip(partition_type.fields, values, strict=True):
        text = None if value is None else value_text(column.type, value, legacy=options.partition_legacy_name)
        if text is None or all(c in _JAVA_BLANK for c in text):
            text = options.partition_default_name
        yield column.name, text


def index_file_place(
    handle: TableHandle, entry: IndexManifestEntry, directories: PartitionDirectories | None = None
) -> tuple[Store, str]:
    """The store and path of an index file that is read.

    Raises:
        UnsupportedFeatureError: it lies outside the table, where it may not be read.
        CorruptFileError, StorageError: as `index_file_path`.
    """
    if entry.external_path is not None:
        allowed = index_files_of(handle, entry.index_type)
        return allowed.open(handle.store, entry.external_path, handle.name)
    return handle.store, index_file_path(handle, entry, directories)


def index_file_path(
    handle: TableHandle, entry: IndexManifestEntry, directories: PartitionDirectories | None = None
) -> str:
    """Where an index file without an external path lies, or will.

    `directories` saves listings when many are asked for. Raises CorruptFileError: its name would lead elsewhere;
    StorageError.
    """
    if not handle.options.index_in_data_dir:
        return handle.layout.index_path(entry.file_name)
    found = directories or PartitionDirectories(handle)
    for _, path in found.elsewhere(entry.partition, entry.bucket, (entry.file_name,)):
        return handle.layout.index_path(entry.file_name, path)
    return handle.layout.index_path(entry.file_name, found.bucket_path(entry.partition, entry.bucket))


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
        case "FLOAT" | "DOUBLE":
            return str(float_text(array_of([value], arrow_type(data_type)))[0])
        case "DATE":
            days = (value - _EPOCH_DATE).days if isinstance(value, date) else int(value)
            return str(days) if legacy else (_EPOCH_DATE + timedelta(days=days)).isoformat()
    raise UnsupportedFeatureError(
        f"a partition column cannot be of type {data_type}", feature=f"partition column of type {data_type}"
    )


def _timestamp_text(data_type: TimestampType, value: Any, legacy: bool) -> str:
    moment, nanos = _moment(value)
    if data_type.local_zone and not legacy:  # the cast speaks of the zone of the machine, ours as theirs
        moment = moment.replace(tzinfo=UTC).astimezone().replace(tzinfo=None)
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
        naive = value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
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
