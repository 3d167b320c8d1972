"""A batch of a user as checked rows of the table, with row kinds and column defaults.

Columns match by name. `check_input` finds the errors that the schemas alone show, before any row is read.

CHAR(n) key columns are padded with spaces where the values of the table's files are. Keys and partitions are equal when
their bytes are. Java's core, Flink and pypaimon store text as it comes; Paimon's Spark connector pads it to n
characters. A write follows the table's files, so that a row written again replaces the old one.

Source: Java `table/sink/TableWriteImpl`, `casting/DefaultValueRow`, `utils/DefaultValueUtils`,
`table/sink/RowKindGenerator`, `utils/RowKindFilter`; Spark's ANSI store assignment for casts.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Flag, auto
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.advice import MERGE_SCHEMA
from paimon_spark.engine.tasks import NANOSECONDS
from paimon_spark.errors import DataError, SchemaMismatchError, UnsupportedFeatureError
from paimon_spark.format.arrays import arrow_numpy
from paimon_spark.format.arrays.arrow_numpy import Bool, boolean_array, values
from paimon_spark.format.arrays.arrow_types import arrow_field, arrow_schema, record_batch
from paimon_spark.format.binary_row import decode_column
from paimon_spark.format.bucket_hash import buckets as buckets_of
from paimon_spark.format.casts.assignment import Assign, shown
from paimon_spark.format.casts.defaults import default_value
from paimon_spark.format.casts.nested_assignment import column_assignment
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.format.metadata_files.table_schema import TableSchema
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.live_files import live_entries
from paimon_spark.metadata.manifests import data_manifests
from paimon_spark.options.core import PRIMARY_KEY_NULLABLE
from paimon_spark.options.descriptor import did_you_mean
from paimon_spark.options.write import WriteOptions
from paimon_spark.redaction import get_logger
from paimon_spark.text import sql_quoted
from paimon_spark.types import ROW_KIND_COLUMN, VALUE_KIND, CharType, DataField, RowKind, is_finer_than_spark

_SYMBOLS: Final = tuple(k.symbol for k in RowKind)
_KIND_FIELD: Final = pa.field(VALUE_KIND, pa.int8(), nullable=False)


def check_input(schema: TableSchema, source: pa.Schema, options: WriteOptions, where: str) -> None:
    """Refuse rows of the schema `source` that can never be rows of the table. Reads no data; for the driver.

    Raises:
        SchemaMismatchError: a column too many, one missing that must not be null, or a cast that could lose.
        UnsupportedFeatureError: a column of a type that is not written here.
    """
    InputMapper(schema, source, options, where)


class InputMapper:
    """Converts batches of one source schema to rows of the table. Raises as `check_input`.

    `where` is the table's name in messages; `padded` names CHAR columns whose values are padded with spaces.

    Attributes:
        added_bytes: bytes that a row may become longer by: those of defaults and spaces.
    """

    def __init__(
        self,
        schema: TableSchema,
        source: pa.Schema,
        options: WriteOptions,
        where: str,
        padded: frozenset[str] = frozenset(),
    ) -> None:
        self._where = where
        self._keyed = bool(schema.primary_keys)
        self._options = options
        places = _places(schema, source, where)
        fine = _fine_places(schema, source)
        self._columns = [_Column(f, places.get(f.name), source, schema, where, fine.get(f.name)) for f in schema.fields]
        self._padded = [
            (i, f.type.length) for i, f in enumerate(schema.fields) if f.name in padded and isinstance(f.type, CharType)
        ]
        self.added_bytes = sum(c.default_bytes for c in self._columns) + sum(width for _, width in self._padded)
        self._kinds = _kind_reader(schema, source, options, where)
        self.with_kinds = self._keyed and self._kinds is not None
        fields = list(arrow_schema(schema.fields))
        self.schema: pa.Schema = pa.schema([*fields, _KIND_FIELD] if self.with_kinds else fields)

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of the batch, all columns of the table in order, and with `with_kinds` a last column `_VALUE_KIND`.

        Raises:
            DataError: a value does not fit its column; names the column and the value.
        """
        kinds = None if self._kinds is None else self._kinds(batch)
        if kinds is not None:
            kept = self._kept(kinds)
            if kept is not None:
                batch, kinds = batch.filter(arrow_numpy.boolean_array(kept)), kinds[kept]
        arrays = [c.apply(batch) for c in self._columns]
        for i, width in self._padded:
            arrays[i] = pc.utf8_rpad(arrays[i], width=width)
        if kinds is not None:
            self._refuse_retracts(kinds)
        if self.with_kinds:
            assert kinds is not None
            arrays.append(arrow_numpy.fixed_array(kinds, pa.int8()))
        return record_batch(arrays, self.schema, batch.num_rows)

    def _kept(self, kinds: Any) -> arrow_numpy.Bool | None:
        """Rows whose kind is not skipped; None for all."""
        if self._options.ignore_delete:
            kept = (kinds == RowKind.INSERT) | (kinds == RowKind.UPDATE_AFTER)
        elif self._options.ignore_update_before:
            kept = kinds != RowKind.UPDATE_BEFORE
        else:
            return None
        return None if kept.all() else kept

    def _refuse_retracts(self, kinds: Any) -> None:
        why = self._options.retracts_refused if self._keyed else "has no primary key"
        if why is None:
            return
        retracts = (kinds == RowKind.UPDATE_BEFORE) | (kinds == RowKind.DELETE)
        if retracts.any():
            kind = RowKind(int(kinds[retracts.argmax()])).symbol
            raise DataError(
                f"{self._where} {why}, so it takes no row of kind {kind}; filter such rows out"
                + ("" if self._keyed else " and delete rows with Table.delete")
                + " (a table made with ignore-delete = true skips them)",
                row_kind=kind,
            )


class _Column:
    """One column of the table: its source column, and the conversion; `fine` is that of its nanoseconds."""

    def __init__(
        self,
        field: DataField,
        place: int | None,
        source: pa.Schema,
        schema: TableSchema,
        where: str,
        fine: int | None = None,
    ) -> None:
        self._fine = fine
        self._field = field
        self._arrow = arrow_field(field)
        self._place = place
        self._where = where
        in_key = field.name in schema.primary_keys
        self._key = "primary key" if in_key and not PRIMARY_KEY_NULLABLE.get(schema.options) else None
        self._default: pa.Array | None = default_array(field, where)
        self.default_bytes = 0 if self._default is None else int(self._default.nbytes)
        self._assign: Assign | None = None
        if place is not None:
            self._assign = column_assignment(source.field(place).type, field.type, field.name, where)
        elif (in_key or not field.type.nullable) and self._default is None:
            raise SchemaMismatchError(
                f"column {field.name} of {where} is {field.type}, and the rows to write have no such column"
                f"{did_you_mean(field.name, source.names)}; add the column to them",
                column=field.name,
            )

    def apply(self, batch: pa.RecordBatch) -> pa.Array:
        if self._place is None:
            return self._absent(batch.num_rows)
        assert self._assign is not None
        array = self._assign(batch.column(self._place))
        if self._fine is not None:  # a value that was not assigned, as Spark carried it along
            array = pc.coalesce(batch.column(self._fine).cast(pa.int64()).cast(self._arrow.type), array)
        if array.null_count == 0:
            return array
        if self._key or not self._field.type.nullable:
            raise self._null(batch, array)
        if self._default is not None:
            return pc.fill_null(array, self._default[0])
        return array

    def _absent(self, rows: int) -> pa.Array:
        if self._default is None:
            return pa.nulls(rows, self._arrow.type)
        return self._default.take(arrow_numpy.take_indices(np.zeros(rows, np.int64)))

    def _null(self, batch: pa.RecordBatch, array: pa.Array) -> DataError:
        at = int(np.flatnonzero(~arrow_numpy.validity(array))[0])
        others = [
            f"{name} = {_example(batch.column(i), at)}" for i, name in enumerate(batch.schema.names) if i != self._place
        ]
        row = f", in the row with {', '.join(others[:3])}" if others else ""
        what = f"a column of the {self._key}" if self._key else f"{self._field.type}"
        return DataError(
            f"column {self._field.name} of {self._where} is {what}, and the rows to write have a null in it{row}; "
            "nothing is written. Fill or filter the nulls",
            column=self._field.name,
            value=None,
        )


def _example(array: pa.Array, at: int) -> str:
    if pa.types.is_nested(array.type) or isinstance(array.type, pa.BaseExtensionType):
        return "…"
    if pa.types.is_dictionary(array.type):
        array = array.slice(at, 1).dictionary_decode()
        at = 0
    return shown(array, at)


def _fine_places(schema: TableSchema, source: pa.Schema) -> dict[str, int]:
    """The positions of the columns with nanoseconds of TIMESTAMP(7) to (9) columns, by the name of these."""
    names = {NANOSECONDS + f.name: f.name for f in schema.fields if is_finer_than_spark(f.type)}
    return {names[n]: i for i, n in enumerate(source.names) if n in names and n not in schema.row_type.names}


def _places(schema: TableSchema, source: pa.Schema, where: str) -> dict[str, int]:
    """The position of each table column in the source: by exact name, else in any case if unambiguous."""
    names = schema.row_type.names
    by_lower: dict[str, list[str]] = {}
    for name in names:
        by_lower.setdefault(name.lower(), []).append(name)
    known = frozenset(names)
    out: dict[str, int] = {}
    fine = {*_fine_places(schema, source).values()}
    given: str
    for i, given in enumerate(source.names):
        if (given == VALUE_KIND and given not in known) or i in fine:
            continue
        alike = by_lower.get(given.lower(), [])
        found: str | None = given if given in known else alike[0] if len(alike) == 1 else None
        if found is None:
            what_to_do = (
                f"Rename it to {VALUE_KIND} if it says what the rows do; otherwise leave it out"
                if given == ROW_KIND_COLUMN
                else f"Leave the column out, {MERGE_SCHEMA} it to the table"
            )
            raise SchemaMismatchError(
                f"{where} has no column {given!r}{did_you_mean(given, names)}; its columns are {', '.join(names)}. "
                f"{what_to_do}",
                column=given,
            )
        if found in out:
            raise SchemaMismatchError(
                f"the rows to write have the column {found} of {where} twice, as {source.names[out[found]]!r} and "
                f"{given!r}; leave one out",
                column=found,
            )
        out[found] = i
    return out


KindReader = Callable[[pa.RecordBatch], Any]
"""The row kinds of a batch, as int8 numbers."""


def _kind_reader(schema: TableSchema, source: pa.Schema, options: WriteOptions, where: str) -> KindReader | None:
    """A function that gets the kinds of rows; None when all rows are +I."""
    own = VALUE_KIND in source.names and VALUE_KIND not in schema.row_type.names
    if options.rowkind_field is None:
        return (lambda batch: _own_kinds(batch, where)) if own else None
    field = next((f for f in schema.fields if f.name == options.rowkind_field), None)
    place = None if field is None else _places(schema, source, where).get(field.name)
    if field is None or not isinstance(field.type, CharType) or place is None:
        found = "is not among the rows to write" if field is not None and place is None else "is no text column of it"
        raise SchemaMismatchError(
            f"{where} has rowkind.field = {options.rowkind_field!r}, which {found}", column=options.rowkind_field
        )
    if own:
        raise SchemaMismatchError(
            f"the rows to write have a column {VALUE_KIND}, and {where} takes row kinds from the column "
            f"{options.rowkind_field}; leave one out",
            column=VALUE_KIND,
        )
    return lambda batch: _kinds_of_text(batch.column(place), options.rowkind_field or "", where)


def _kinds_of_text(column: pa.Array, name: str, where: str) -> Any:
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    words = column.dictionary.cast(pa.string()).to_pylist()
    codes = np.array([_SYMBOLS.index(w) if w in _SYMBOLS else -1 for w in words] or [-1], np.int8)
    valid = arrow_numpy.validity(column)
    indices = np.where(valid, arrow_numpy.values(column.indices), 0)
    kinds = np.where(valid, codes[indices], np.int8(-1))
    if (kinds < 0).any():
        at = int((kinds < 0).argmax())
        value = sql_quoted(words[indices[at]] if valid[at] else None)
        raise DataError(
            f"column {name} of {where} says what rows do, and {value} is none of {', '.join(_SYMBOLS)}; "
            "nothing is written. Correct the values",
            column=name,
            value=value,
        )
    return kinds


def _own_kinds(batch: pa.RecordBatch, where: str) -> Any:
    column = batch.column(batch.schema.get_field_index(VALUE_KIND))
    if not pa.types.is_integer(column.type):
        return _kinds_of_text(column, VALUE_KIND, where)
    numbers = arrow_numpy.values(column)
    wrong = ~arrow_numpy.validity(column) | (numbers < 0) | (numbers > max(RowKind))
    if wrong.any():
        at = int(wrong.argmax())
        raise DataError(
            f"column {VALUE_KIND} of the rows for {where} holds {shown(column, at)}; row kinds are 0 (+I), 1 (-U), "
            "2 (+U), 3 (-D)",
            column=VALUE_KIND,
        )
    return numbers.astype(np.int8)


def default_array(field: DataField, where: str) -> pa.Array | None:
    """The default of a column as an array of one value; None when it has none.

    Raises:
        SchemaMismatchError: the default is no value of the column's type.
    """
    if field.default_value is None:
        return None
    try:
        return default_value(field.type, field.default_value)
    except (DataError, UnsupportedFeatureError) as e:
        raise _no_value(field, field.default_value, where) from e


def _no_value(field: DataField, text: str, where: str) -> SchemaMismatchError:
    return SchemaMismatchError(
        f"the default {text!r} of column {field.name} of {where} is no value of {field.type}; change the default",
        column=field.name,
    )


_LOG = get_logger(__name__)


class _Found(Flag):
    """The forms of values that were seen: padded to their length, or shorter than it."""

    NONE = 0
    PADDED = auto()
    SHORT = auto()

    @classmethod
    def of(cls, padded: Bool, short: Bool) -> _Found:
        return (cls.PADDED if padded.any() else cls.NONE) | (cls.SHORT if short.any() else cls.NONE)


def padded_keys(handle: TableHandle, base: Snapshot | None) -> frozenset[str]:
    """The columns of the primary key and of partitions whose values must be padded.

    Looks at the first and the last key of every file of `base`, and at the partitions. Where a column has both forms,
    values are written as they come, with a warning.
    """
    schema = handle.schema
    names = {*schema.primary_keys, *schema.partition_keys}
    columns = [f for f in schema.fields if f.name in names and isinstance(f.type, CharType) and not f.type.varying]
    if base is None or not columns:
        return frozenset()
    entries = live_entries(handle, data_manifests(handle, base)).combine_chunks()
    out = set()
    for field in columns:
        found = _of_column(handle, entries, field)
        if found == _Found.PADDED | _Found.SHORT:
            _LOG.warning(
                "column %s of %s is %s, and its values are padded with spaces in some keys and not in others; new ones "
                "are not padded: write each as the table has it, or it becomes another key",
                field.name,
                handle.describe(),
                field.type,
            )
        elif found is _Found.PADDED:
            out.add(field.name)
    return frozenset(out)


def _of_column(handle: TableHandle, entries: pa.Table, field: DataField) -> _Found:
    schema = handle.schema
    if field.name in schema.partition_keys:
        partitions = pc.unique(entries.column("partition"))
        return _of_values(decode_column(partitions, schema.partition_keys.index(field.name), field.type), field)
    place = schema.trimmed_primary_keys.index(field.name)
    orc = pc.ends_with(entries.column("file_name"), ".orc")
    # ORC readers drop trailing spaces: the keys of compacted files do not show whether there were any.
    fresh = values(pc.fill_null(pc.equal(entries.column("file_source"), 0), False).combine_chunks())
    exact = ~values(orc.combine_chunks()) | fresh
    shown = entries.filter(boolean_array(exact))
    found = _Found.NONE
    for end in ("min_key", "max_key"):
        found |= _of_values(decode_column(shown.column(end), place, field.type), field)
    return (
        found if _Found.PADDED in found else found | _of_buckets(handle, entries.filter(boolean_array(~exact)), field)
    )


def _of_values(texts: pa.Array, field: DataField) -> _Found:
    lengths = values(pc.fill_null(pc.utf8_length(texts), 0))
    filled = values(pc.fill_null(pc.ends_with(texts, " "), False)) & (lengths == _length(field))
    return _Found.of(filled, lengths < _length(field))


def _of_buckets(handle: TableHandle, entries: pa.Table, field: DataField) -> _Found:
    """The forms that the buckets of keys show, which depend on the hash of the whole text."""
    schema = handle.schema
    key = schema.bucket_keys
    if handle.options.bucket in (0, 1, -1) or field.name not in key or not set(key) <= set(schema.trimmed_primary_keys):
        return _Found.NONE
    found = _Found.NONE
    total, bucket = (values(entries.column(c).combine_chunks()) for c in ("total_buckets", "bucket"))
    for count in np.unique(total[total > 1]).tolist():
        here = (total == count) & (bucket >= 0)
        for end in ("min_key", "max_key"):
            found |= _of_hashes(handle, entries.filter(boolean_array(here)).column(end), bucket[here], count)
    return found


def _of_hashes(handle: TableHandle, rows: pa.ChunkedArray, bucket: Bool, count: int) -> _Found:
    schema = handle.schema
    key_type = schema.row_type.project(schema.bucket_keys)
    arrays = [decode_column(rows, schema.trimmed_primary_keys.index(f.name), f.type) for f in key_type]
    filled = [_padded(a, f) for a, f in zip(arrays, key_type, strict=True)]
    as_is, as_padded = (
        buckets_of(pa.RecordBatch.from_arrays(x, schema=arrow_schema(key_type)), count, handle.options.bucket_function)
        for x in (arrays, filled)
    )
    tells = as_is != as_padded
    return _Found.of(tells & (bucket == as_padded), tells & (bucket == as_is))


def _padded(array: pa.Array, field: DataField) -> pa.Array:
    if isinstance(field.type, CharType) and not field.type.varying:
        return pc.utf8_rpad(array, width=_length(field))
    return array


def _length(field: DataField) -> int:
    assert isinstance(field.type, CharType)
    return field.type.length
