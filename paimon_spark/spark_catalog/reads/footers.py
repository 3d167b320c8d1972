"""Checks of Parquet footers for what Spark reads differently than this package, or refuses.

Most types have one form in the files of Paimon's writers. Timestamps and nested types have several, and files of a
migrated table may have any, so their footers are read, once per process: data files never change.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from paimon_spark.errors import PaimonError
from paimon_spark.format.arrays.arrow_types import arrow_type
from paimon_spark.types import (
    VALUE_KIND,
    ArrayType,
    AtomicType,
    BinaryType,
    CharType,
    DataField,
    DataType,
    MapType,
    RowKind,
    RowType,
    TimestampType,
)

PAIMON_FILE: Final = "data-"
"""Prefix of files that writers of Paimon make; a migration to Paimon keeps the names that files have."""
_SPARK_VERSION: Final = b"org.apache.spark.version"
_SHIFTED: Final = b"org.apache.spark.legacyDateTime"
_FIRST_CORRECT: Final = 3
_DIGITS: Final = 9
"""The first major version of Spark whose dates before 1582 are those of everyone else."""
_KEPT: Final = (RowKind.INSERT, RowKind.UPDATE_AFTER)
_SHORT: Final = ("TINYINT", "SMALLINT")
_INT_BITS: Final = 32
_BYTES: Final = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
_ID: Final = b"PARQUET:field_id"
_THREADS: Final = 16
_MOST_FOOTERS: Final = 100_000


class Footer(NamedTuple):
    """Relevant parts of a footer.

    Attributes:
        types: Arrow types by column.
        ids: field ids by column.
        has_shifted_dates: whether Spark takes dates before 1582 for those of its old releases.
        has_only_inserts: whether statistics prove that no row of a table with keys is a retract.
    """

    types: Mapping[str, pa.DataType]
    ids: Mapping[str, int]
    has_shifted_dates: bool
    has_only_inserts: bool


_FOOTERS: Final[dict[tuple[str, str], Footer]] = {}
"""By store and path; the oldest goes first."""


def footers(store: Any, paths: Sequence[str]) -> Iterator[Footer | None]:
    """The footer of each file; None for one that cannot be read."""
    if len(paths) == 1:
        yield _found(store, paths[0])
        return
    with ThreadPoolExecutor(_THREADS) as pool:
        yield from pool.map(lambda path: _found(store, path), paths)


def _found(store: Any, path: str) -> Footer | None:
    try:
        key = store.identity, path
        known = _FOOTERS.get(key)
        if known is None:
            known = _FOOTERS[key] = _read(store, path)
            if len(_FOOTERS) > _MOST_FOOTERS:
                _FOOTERS.pop(next(iter(_FOOTERS)), None)
        return known
    except (PaimonError, pa.ArrowException, OSError):
        return None


def _read(store: Any, path: str) -> Footer:
    with store.open(path) as source:
        metadata = pq.read_metadata(source)
    schema = metadata.schema.to_arrow_schema()
    ids = {f.name: int(f.metadata[_ID]) for f in schema if f.metadata and _ID in f.metadata}
    shifted = _has_shifted_dates(metadata.metadata or {})
    return Footer({f.name: f.type for f in schema}, ids, shifted, _has_only_inserts(metadata))


def _has_only_inserts(metadata: Any) -> bool:
    """Whether each row group has rows of one kind, and none retracts."""
    columns = [i for i in range(metadata.num_columns) if metadata.schema.column(i).path == VALUE_KIND]
    if not columns:
        return False
    groups = (metadata.row_group(n).column(columns[0]) for n in range(metadata.num_row_groups))
    stats = [group.statistics if group.is_stats_set else None for group in groups]
    return all(
        s is not None and s.has_min_max and s.has_null_count and not s.null_count and s.min == s.max in _KEPT
        for s in stats
    )


def _has_shifted_dates(metadata: Mapping[bytes, bytes]) -> bool:
    """Whether Spark takes dates before 1582 for those of its old releases. Source: Spark `DataSourceUtils`."""
    version = metadata.get(_SPARK_VERSION)
    if version is None:
        return False
    major = version.partition(b".")[0]
    return _SHIFTED in metadata or not major.isdigit() or len(major) > _DIGITS or int(major) < _FIRST_CORRECT


def has_several_forms(t: DataType) -> bool:
    """Whether Parquet files have several forms of a type."""
    return isinstance(t, TimestampType | ArrayType | MapType | RowType)


def has_ids_of(footer: Footer, fields: Iterable[DataField]) -> bool:
    """Whether the columns of a file have the ids of its schema."""
    return all(f.name not in footer.types or footer.ids.get(f.name) == f.id for f in fields)


def is_as_expected(footer: Footer, name: str, field: DataField) -> bool:
    """Whether Spark reads column `name` of a file as this package does."""
    if name not in footer.types:
        return False
    return not (footer.has_shifted_dates and _has_dates(field.type)) and _matches(footer.types[name], field.type)


def has_exact_times(footer: Footer, name: str) -> bool:
    """Whether a column has microseconds, if it has times: Spark would cut conditions to milliseconds."""
    found: Any = footer.types.get(name)
    return not pa.types.is_timestamp(found) or found.unit == "us"


def _has_dates(t: DataType) -> bool:
    match t:
        case ArrayType():
            return _has_dates(t.element)
        case MapType():
            return _has_dates(t.key) or _has_dates(t.value)
        case RowType():
            return any(_has_dates(f.type) for f in t)
    return isinstance(t, TimestampType) or (isinstance(t, AtomicType) and t.name == "DATE")


def _matches(found: Any, wanted: DataType) -> bool:
    match wanted:
        case TimestampType():
            return pa.types.is_timestamp(found) and (found.tz is not None) == wanted.local_zone and found.unit != "ns"
        case ArrayType():
            return pa.types.is_list(found) and _matches(found.value_type, wanted.element)
        case MapType():
            return (
                pa.types.is_map(found)
                and _matches(found.key_type, wanted.key)
                and _matches(found.item_type, wanted.value)
            )
        case RowType():
            if not pa.types.is_struct(found) or found.num_fields < len(wanted):
                return False
            names = [found.field(i).name for i in range(found.num_fields)]
            return all(f.name in names and _matches(found.field(f.name).type, f.type) for f in wanted)
    return _is_same(found, wanted)


def _is_same(found: Any, wanted: DataType) -> bool:
    """Whether a type without children is the one that Paimon's writers use for it."""
    match wanted:
        case CharType() | BinaryType():
            return any(kind(found) for kind in _BYTES)
        case AtomicType(name=name) if name in _SHORT:
            return bool(pa.types.is_signed_integer(found) and found.bit_width <= _INT_BITS)
    return bool(found == arrow_type(wanted))
