"""Timestamps read no finer than they are wanted: Spark keeps microseconds, whatever a column's type says.

Arrow's nanoseconds end in 1677 and 2262, so that cutting them afterwards would lose what Spark can hold. Hence
types are cut before files are opened, except where a merge looks at all the digits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Final

from paimon_spark.engine.read.evolution import converter
from paimon_spark.engine.tasks.read_request import PARTITION, ReadRequest
from paimon_spark.engine.tasks.split import SplitMode
from paimon_spark.format.arrays.nested import Convert
from paimon_spark.format.metadata_files.table_schema import TableSchema
from paimon_spark.options.core import MergeEngine
from paimon_spark.types import ArrayType, DataField, DataType, MapType, MultisetType, RowType, TimestampType

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
    """The schema to decode a split of `mode` with: timestamps as coarse as asked for, but whole where digits count.

    They count for what orders or identifies rows, and where rows or nested values are compared.
    """
    schema, precision = request.schema, request.timestamp_precision
    row_type = coarse_type(schema.row_type, precision)
    if row_type is schema.row_type or mode is SplitMode.DIFF:
        return schema
    if mode in (SplitMode.MERGE, SplitMode.REPLACED):
        whole = _whole_columns(request)
        fields = (f if f.name in whole else coarse_field(f, precision) for f in schema.fields)
        row_type = replace(schema.row_type, fields=tuple(fields))
    assert isinstance(row_type, RowType)
    return replace(schema, row_type=row_type)


def finishing_cuts(schema: TableSchema, names: Sequence[str], precision: int) -> Mapping[str, Convert]:
    """What cuts the columns of a `reading_schema` that it left finer than `precision`, by name."""
    types: dict[str, DataType] = {f.name: f.type for f in schema.fields}
    types[PARTITION] = schema.partition_type
    out: dict[str, Convert] = {}
    for name in names:
        convert = converter(types[name], coarse_type(types[name], precision)) if name in types else None
        if convert is not None:
            out[name] = convert
    return out


def _whole_columns(request: ReadRequest) -> set[str]:
    """Columns a merge looks into."""
    schema, options = request.schema, request.options
    whole = {*schema.trimmed_primary_keys, *options.sequence_fields}
    if options.merge_engine in (MergeEngine.DEDUPLICATE, MergeEngine.FIRST_ROW):
        return whole
    from paimon_spark.metadata.definition.merge_rules import sequence_groups  # plain reads do without it

    whole.update(name for group in sequence_groups(schema, options.merge) for name in group.sequence)
    # Elements of arrays and maps may be compared with each other; single values are only picked by their order.
    whole.update(f.name for f in schema.fields if not isinstance(f.type, TimestampType))
    return whole
