"""Bounds of the memory to decode a Parquet file, known before it is allocated.

A few bytes of a file can stand for many values: for a run of equal ones, and for indexes into a dictionary of long
texts. Arrow reads no more values than the footer says, and values of fixed width take as many bytes as their type.
Texts may be as long as the longest one in the dictionary. Arrow decodes columns of such texts to dictionaries, which
are small, and the rows are cut before their texts are copied. It does so too for small dictionaries, where that is
faster than to copy texts at once, and for which nothing must be looked up.

Source: Parquet format, chapters Data Pages and Dictionary Encoding; parquet.thrift (PageHeader).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from paimon_spark.format.arrays.arrow_types import arrow_type
from paimon_spark.format.arrays.nested import leaf_arrays, with_children, with_elements, with_entries
from paimon_spark.format.arrays.pieces import BATCH_BYTES, cut, has_dictionary, is_text, least_bytes
from paimon_spark.types import DataField

_SMALL_BYTES: Final = 64 << 10
_INDEX_BYTES: Final = 4
_MOST_TEXT_BYTES: Final = 4 * BATCH_BYTES
"""Of texts that Arrow copies at once."""
_PROBE_BYTES: Final = 64 << 10
_OFFSET_BYTES: Final = 4
_DATA_PAGES: Final = (b"\x15\x00", b"\x15\x06")
"""How the headers of pages begin that are not dictionaries: the first field is the type of the page."""


class _Leaf(NamedTuple):
    """A column of the file without children.

    Attributes:
        number: among the leaves.
        path: as Arrow names it.
        is_text: whether its values are texts or bytes of any length.
        value_bytes: of a value; of its offset where it has any length.
        repeats: whether it is inside a list or a map.
    """

    number: int
    path: str
    is_text: bool
    value_bytes: int
    repeats: bool


_PHYSICAL_BYTES: Final[Mapping[str, int]] = {
    "BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8, "BYTE_ARRAY": _OFFSET_BYTES,
}  # fmt: skip


def leaf_of(number: int, column: pq.ColumnSchema) -> _Leaf:
    """A leaf by its schema."""
    kind = column.physical_type
    size = _PHYSICAL_BYTES.get(kind, column.length)
    return _Leaf(number, column.path, kind == "BYTE_ARRAY", size, column.max_repetition_level > 0)


def row_bytes(fields: Sequence[DataField], leaves: Sequence[_Leaf], groups: Sequence[pq.RowGroupMetaData]) -> int:
    """Bytes of a row in Arrow, at least: of the canonical types, with as many list elements as row groups have."""
    long = [leaf for leaf in leaves if leaf.repeats or leaf.value_bytes > _PHYSICAL_BYTES["INT96"]]
    least = sum(least_bytes(arrow_type(f.type)) for f in fields)
    extra = (
        sum(leaf.value_bytes * max(g.column(leaf.number).num_values, g.num_rows) for leaf in long) // max(g.num_rows, 1)
        for g in groups
    )
    return least + max(extra, default=0)


class TextReader:
    """Decides for which texts Arrow is asked for dictionaries.

    Args:
        source: the file.
        metadata: its footer.
        leaves: those that are read.
        is_local: whether single bytes of it can be read at little cost.
    """

    def __init__(
        self, source: pa.NativeFile, metadata: pq.FileMetaData, leaves: Sequence[_Leaf], *, is_local: bool
    ) -> None:
        self._source = source
        self._metadata = metadata
        self._texts = [leaf for leaf in leaves if leaf.is_text]
        self._is_local = is_local

    def runs(self, groups: Sequence[int], rows: int, open_files: int) -> Iterator[tuple[list[int], list[str]]]:
        """Row groups to read together, with the paths of the leaves to read as dictionaries.

        Args:
            groups: numbers of row groups, neighbours.
            rows: rows of a batch.
            open_files: how many files share the memory.
        """
        if not self._texts:
            yield list(groups), []
            return
        most = _MOST_TEXT_BYTES // open_files
        run: list[int] = []
        chosen: list[_Leaf] = []
        for group in groups:
            texts = [t for t in self._texts if self._as_dictionary(group, t, rows, most)]
            # Arrow cannot decode a batch of nested dictionaries that belong to several row groups.
            if run and (texts != chosen or any(t.repeats or "." in t.path for t in texts)):
                yield run, [t.path for t in chosen]
                run = []
            run.append(group)
            chosen = texts
        yield run, [t.path for t in chosen]

    def _as_dictionary(self, group: int, text: _Leaf, rows: int, most: int) -> bool:
        chunk = self._metadata.row_group(group).column(text.number)
        stored, values = chunk.total_compressed_size, chunk.num_values
        if stored <= _SMALL_BYTES:
            return True
        has_dictionary_page = chunk.has_dictionary_page
        begin = chunk.dictionary_page_offset if has_dictionary_page else None
        if (
            begin
            and chunk.data_page_offset - begin <= _SMALL_BYTES
            and (chunk.total_uncompressed_size <= _SMALL_BYTES + _INDEX_BYTES * values)
        ):
            return True
        if self._is_local:
            first = min(begin or chunk.data_page_offset, chunk.data_page_offset)
            has_dictionary_page = self._source.read_at(2, first) not in _DATA_PAGES
        return bool(has_dictionary_page) and self._longest(group, text.path) * min(values, rows) > most

    def _longest(self, group: int, path: str) -> int:
        """Bytes of the longest text of a dictionary."""
        file = pq.ParquetFile(
            self._source, metadata=self._metadata, read_dictionary=[path], buffer_size=_PROBE_BYTES, pre_buffer=False
        )
        first = next(file.iter_batches(1, row_groups=[group], columns=[path], use_threads=False), None)
        return 0 if first is None else max(map(_longest_of, _dictionaries(first)), default=0)


def without_dictionaries(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The rows with all dictionaries decoded, in batches of not too many bytes; the batch itself where it has none."""
    with_some = [has_dictionary(t) for t in batch.schema.types]
    if not any(with_some):
        yield batch
        return
    most = batch.nbytes + sum(len(a) * _longest_of(a) for a in _dictionaries(batch))
    # Arrow allocates as if all values of a dictionary were equally frequent.
    reserved = sum(len(a) * a.dictionary.nbytes // max(len(a.dictionary), 1) for a in _dictionaries(batch))
    rows = max(batch.num_rows * _MOST_TEXT_BYTES // max(reserved, 1), 1)
    for part in [batch] if most <= BATCH_BYTES else cut(batch, most_rows=rows):
        columns = [_decoded(c) if some else c for c, some in zip(part.columns, with_some, strict=True)]
        yield pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _dictionaries(batch: pa.RecordBatch) -> Iterator[pa.DictionaryArray]:
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if has_dictionary(column.type):
            yield from (a for _, a in leaf_arrays(name, column) if isinstance(a, pa.DictionaryArray))


def _longest_of(array: pa.DictionaryArray) -> int:
    values = array.dictionary
    try:
        return int(values.type.bit_width) // 8
    except ValueError:
        return int(pc.max(pc.binary_length(values)).as_py() or 0) if len(values) else 0


def _decoded(array: pa.Array) -> pa.Array:
    kind: Any = array.type
    if not has_dictionary(kind):
        return array
    if pa.types.is_dictionary(kind):
        if not len(array.dictionary) and is_text(kind.value_type):
            # Values inside of what is null need not be null, and have no value.
            long = pa.types.is_large_string(kind.value_type) or pa.types.is_large_binary(kind.value_type)
            offsets = pa.py_buffer(bytes((8 if long else 4) * (array.offset + len(array) + 1)))
            buffers = [array.buffers()[0], offsets, pa.py_buffer(b"")]
            return pa.Array.from_buffers(kind.value_type, len(array), buffers, offset=array.offset)
        return array.cast(kind.value_type)
    target = _plain(kind)
    if pa.types.is_struct(kind):
        return with_children(array, target, [_decoded(array.field(i)) for i in range(kind.num_fields)])
    if pa.types.is_map(kind):
        return with_entries(array, target, _decoded, _decoded)
    return with_elements(array, target, _decoded)


@lru_cache(maxsize=4096)
def _plain(kind: pa.DataType) -> pa.DataType:
    """The type with the values of dictionaries, at any depth."""
    if pa.types.is_dictionary(kind):
        return kind.value_type
    if pa.types.is_struct(kind):
        return pa.struct([f.with_type(_plain(f.type)) for f in kind])
    if pa.types.is_map(kind):
        key, item = (f.with_type(_plain(f.type)) for f in (kind.key_field, kind.item_field))
        return pa.map_(key, item)
    return pa.list_(kind.value_field.with_type(_plain(kind.value_type))) if pa.types.is_list(kind) else kind
