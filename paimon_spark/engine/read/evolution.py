"""Convert columns of a file's schema to columns of the read schema.

Columns and nested fields are matched by field id, never by name. Missing columns are null, or the default that tables
of Paimon 0.9 to 1.2 declare (`fields.<column>.default-value`; newer versions apply defaults on write). Changed types
are cast. Partition columns come from the split.

For Spark, timestamps are cut to microseconds before files are opened, except where a merge needs all digits: Arrow's
nanoseconds end in 1677 and 2262.

Source: Paimon spec, chapter Schema; Java `utils/FormatReaderMapping`, `schema/SchemaEvolutionUtil`, and in 0.9 to 1.2
`operation/DefaultValueAssigner`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

import pyarrow as pa

from paimon_spark.engine.tasks import NANOSECONDS, PARTITION, ReadRequest, SplitMode
from paimon_spark.errors import DataError, UnsupportedFeatureError
from paimon_spark.format.arrays.arrow_numpy import array_of
from paimon_spark.format.arrays.arrow_types import arrow_type
from paimon_spark.format.arrays.nested import Convert, with_children, with_elements, with_entries
from paimon_spark.format.casts.evolution import caster
from paimon_spark.format.metadata_files.table_schema import TableSchema
from paimon_spark.options.core import MergeEngine
from paimon_spark.types import (
    INTEGER_NAMES,
    STRING,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TimestampType,
)

_MICROSECONDS: Final = 6

Source = Callable[[list[pa.Array], int], pa.Array]
"""Makes one output column from the file's columns and a row count."""


@dataclass(frozen=True, slots=True)
class Evolution:
    """Conversion of a file's columns to the requested columns.

    Attributes:
        names: of the columns asked for.
        file_fields: what to read from the file, in the file's names and types.
        sources: one per column asked for, over arrays of `file_fields`.
        testable: for columns whose values compare alike in the file, their name there: predicates may prune by them.
    """

    names: tuple[str, ...]
    file_fields: tuple[DataField, ...]
    sources: tuple[Source, ...]
    testable: Mapping[str, str]

    def columns(self, arrays: list[pa.Array], count: int) -> list[pa.Array]:
        """The columns asked for, of `count` rows. Raises DataError, naming the column."""
        return [_made(n, source, arrays, count) for n, source in zip(self.names, self.sources, strict=True)]


def _made(name: str, source: Source, arrays: list[pa.Array], count: int) -> pa.Array:
    try:
        return source(arrays, count)
    except DataError as e:
        raise DataError(f"column {name}: {e.message}", **{"column": name, **e.context}) from e


def evolve(
    columns: Sequence[DataField], file_fields: Sequence[DataField], partition: Mapping[str, pa.Scalar]
) -> Evolution:
    """Build the conversion from a file with `file_fields` to `columns` of the read schema.

    Raises:
        UnsupportedFeatureError: a column's type is unknown, or changed in a way that is not understood.
    """
    by_id = {f.id: f for f in file_fields}
    wanted: list[DataField] = []
    sources: list[Source] = []
    testable: dict[str, str] = {}
    for column in columns:
        if column.name in partition:
            sources.append(_constant(partition[column.name]))
            continue
        found = by_id.get(column.id)
        pruned = None if found is None else _pruned(column.type, found.type)
        try:
            kind = arrow_type(column.type)
            convert = None if pruned is None else converter(pruned, column.type)
        except UnsupportedFeatureError as e:
            raise UnsupportedFeatureError(f"column {column.name}: {e.message}", **e.context) from e
        if found is None or pruned is None:
            sources.append(_nulls(kind))
            continue
        sources.append(_column(len(wanted), convert))
        wanted.append(replace(found, type=pruned))
        if _compares_alike(found.type, column.type):
            testable[column.name] = found.name
    return Evolution(tuple(c.name for c in columns), tuple(wanted), tuple(sources), testable)


def _nulls(kind: pa.DataType) -> Source:
    return lambda _, count: pa.nulls(count, kind)


def _constant(value: pa.Scalar) -> Source:
    if not value.is_valid:
        return _nulls(value.type)
    return lambda _, count: pa.repeat(value, count)


def _column(index: int, convert: Convert | None) -> Source:
    if convert is None:
        return lambda arrays, _: arrays[index]
    return lambda arrays, _: convert(arrays[index])


def _pruned(read: DataType, found: DataType) -> DataType | None:
    """`found` without nested fields and timestamp digits that `read` lacks.

    A row that keeps none of its fields is read by one that was dropped, which says where it is null; Java gives null
    for every such row. None where there is no field at all. Digits go because Arrow's nanoseconds lack the years before
    1677 and after 2262, its microseconds do not.
    """
    match read, found:
        case RowType(), RowType():
            fields = []
            for old in found.fields:
                f = read.find_by_id(old.id)
                kept = None if f is None else _pruned(f.type, old.type)
                if kept is not None:
                    fields.append(replace(old, type=kept))
            if not fields and read.fields:
                fields = list(_smallest(found))
            return replace(found, fields=tuple(fields)) if fields or not read.fields else None
        case ArrayType(), ArrayType():
            element = _pruned(read.element, found.element)
            return None if element is None else replace(found, element=element)
        case MultisetType(), MultisetType():
            element = _pruned(read.element, found.element)
            return None if element is None else replace(found, element=element)
        case MapType(), MapType():
            key, value = _pruned(read.key, found.key), _pruned(read.value, found.value)
            return None if key is None or value is None else replace(found, key=key, value=value)
        case TimestampType(), TimestampType() if read.precision <= _MICROSECONDS < found.precision:
            return replace(found, precision=_MICROSECONDS)
    return found


def _smallest(row: RowType) -> tuple[DataField, ...]:
    """One field of a row that takes little to read; none of a row without fields."""
    for field in sorted(row.fields, key=lambda f: not isinstance(f.type, AtomicType)):
        if not isinstance(field.type, RowType):
            return (field,)
        inside = _smallest(field.type)
        if inside:
            return (replace(field, type=replace(field.type, fields=inside)),)
    return ()


def converter(found: DataType, read: DataType) -> Convert | None:
    """Convert canonical arrays of `found` to those of `read`; None if both are the same.

    Raises UnsupportedFeatureError: there is no such cast.
    """
    if same_values(found, read) and arrow_type(found) == arrow_type(read):
        return None
    target = arrow_type(read)
    match found, read:
        case RowType(), RowType():
            return _row(found, read)
        case ArrayType(), ArrayType():
            element = converter(found.element, read.element)
            return lambda a: with_elements(a, target, element)
        case MultisetType(), MultisetType():
            element = _key(found.element, read.element)
            return lambda a: with_entries(a, target, element, None)
        case MapType(), MapType():
            key, value = _key(found.key, read.key), converter(found.value, read.value)
            return lambda a: with_entries(a, target, key, value)
    if same_values(found, read):
        return None
    return caster(found, read)


def _key(found: DataType, read: DataType) -> Convert | None:
    if not same_values(found, read) and not (isinstance(found, TimestampType) and isinstance(read, TimestampType)):
        raise UnsupportedFeatureError(
            f"the keys of a map changed from {found} to {read}, which cannot be cast", feature="cast of map keys"
        )
    return converter(found, read)


def _row(found: RowType, read: RowType) -> Convert:
    target = arrow_type(read)
    sources: list[Source] = []
    for f in read.fields:
        index = next((i for i, old in enumerate(found.fields) if old.id == f.id), -1)
        if index < 0:
            sources.append(_nulls(arrow_type(f.type)))
        else:
            sources.append(_column(index, converter(found.fields[index].type, f.type)))

    def convert(array: pa.Array) -> pa.Array:
        fields = array.flatten()
        return with_children(array, target, [source(fields, len(array)) for source in sources])

    return convert


def same_values(a: DataType, b: DataType) -> bool:
    """Whether both types have the same layout, apart from nullability and names."""
    match a, b:
        case RowType(), RowType():
            return len(a.fields) == len(b.fields) and all(
                f.id == g.id and f.name == g.name and same_values(f.type, g.type)
                for f, g in zip(a.fields, b.fields, strict=True)
            )
        case ArrayType(), ArrayType():
            return same_values(a.element, b.element)
        case MultisetType(), MultisetType():
            return same_values(a.element, b.element)
        case MapType(), MapType():
            return same_values(a.key, b.key) and same_values(a.value, b.value)
    return a.with_nullable(True) == b.with_nullable(True)


def _compares_alike(found: DataType, read: DataType) -> bool:
    """Whether comparisons give the same result for the file's type as for the column's."""
    match found, read:
        case AtomicType(name=a), AtomicType(name=b) if a in INTEGER_NAMES and b in INTEGER_NAMES:
            return INTEGER_NAMES.index(a) <= INTEGER_NAMES.index(b)
    return found.with_nullable(True) == read.with_nullable(True)


def default_values(request: ReadRequest) -> Mapping[str, pa.Scalar]:
    """The value that replaces nulls, for columns with a default. Raises DataError, UnsupportedFeatureError."""
    texts = request.options.read_defaults
    return {
        f.name: caster(STRING, f.type)(array_of([texts[f.name]], pa.string()))[0]
        for f in request.schema.fields
        if f.name in texts
    }


WHOLE: Final = 9
"""Fractional digits that no timestamp has more of."""


@lru_cache(maxsize=4096)
def coarse_type(t: DataType, precision: int) -> DataType:
    """The type with at most `precision` fractional digits in every timestamp of it; `t` itself if it has no more."""
    match t:
        case TimestampType() if t.precision > precision:
            return replace(t, precision=precision)
        case ArrayType() | MultisetType():
            element = coarse_type(t.element, precision)
            return t if element is t.element else replace(t, element=element)
        case MapType():
            key, value = coarse_type(t.key, precision), coarse_type(t.value, precision)
            return t if key is t.key and value is t.value else replace(t, key=key, value=value)
        case RowType():
            fields = tuple(coarse_field(f, precision) for f in t.fields)
            return t if all(a is b for a, b in zip(fields, t.fields, strict=True)) else replace(t, fields=fields)
    return t


def coarse_field(f: DataField, precision: int) -> DataField:
    """The column with the type of `coarse_type`."""
    found = coarse_type(f.type, precision)
    return f if found is f.type else replace(f, type=found)


def reading_schema(request: ReadRequest, mode: SplitMode) -> TableSchema:
    """The schema to decode a split with: timestamps in the requested precision, except where a merge needs all digits.

    They count for what orders or identifies rows, where rows or nested values are compared, and where nanoseconds are
    asked for.
    """
    schema, precision = request.schema, request.timestamp_precision
    row_type = coarse_type(schema.row_type, precision)
    if row_type is schema.row_type or mode is SplitMode.DIFF:
        return schema
    whole = {n.removeprefix(NANOSECONDS) for n in request.columns if n.startswith(NANOSECONDS)}
    if mode in (SplitMode.MERGE, SplitMode.REPLACED):
        whole |= _whole_columns(request)
    if whole:
        fields = (f if f.name in whole else coarse_field(f, precision) for f in schema.fields)
        row_type = replace(schema.row_type, fields=tuple(fields))
    assert isinstance(row_type, RowType)
    return replace(schema, row_type=row_type)


def finishing_cuts(schema: TableSchema, names: Sequence[str], precision: int) -> Mapping[str, Convert]:
    """The casts of columns that `reading_schema` left finer than `precision`, by name."""
    types: dict[str, DataType] = {f.name: f.type for f in schema.fields}
    types[PARTITION] = schema.partition_type
    out: dict[str, Convert] = {}
    for name in names:
        convert = converter(types[name], coarse_type(types[name], precision)) if name in types else None
        if convert is not None:
            out[name] = convert
    return out


def _whole_columns(request: ReadRequest) -> set[str]:
    """Columns whose values a merge uses."""
    schema, options = request.schema, request.options
    whole = {*schema.trimmed_primary_keys, *options.sequence_fields}
    if options.merge_engine in (MergeEngine.DEDUPLICATE, MergeEngine.FIRST_ROW):
        return whole
    from paimon_spark.metadata.definition.merge_rules import sequence_groups

    whole.update(name for group in sequence_groups(schema, options.merge) for name in group.sequence)
    # Elements of arrays and maps may be compared with each other; single values are only picked by their order.
    whole.update(f.name for f in schema.fields if not isinstance(f.type, TimestampType))
    return whole
