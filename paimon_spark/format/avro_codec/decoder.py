"""Decoding of Avro containers into Arrow columns, many files at once.

Two decoders give equal results: fastavro, record by record, and `block_decoder`, which decodes many blocks in parallel
and pays once there are enough of them. `PAIMON_SPARK_AVRO=records` in the environment switches the second off.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from paimon_spark.errors import CorruptFileError, FormatError
from paimon_spark.format.arrays import arrow_numpy
from paimon_spark.format.avro_codec import block_decoder
from paimon_spark.format.avro_codec.block_decoder import I64, Bool
from paimon_spark.format.avro_codec.container import AvroType, Container, FieldPath, Payload, RecordDecoder

BLOCK_PARALLEL: Final = os.environ.get("PAIMON_SPARK_AVRO", "columns") != "records"
_MAX_BLOCKS: Final = 1024
_GROUP_BYTES: Final = 64 << 20
# Microseconds per type in the schema: a step whatever its blocks, a value in a step, a value by fastavro.
_STEP_COST: Final = 12.0
_VALUE_COST: Final = 0.03
_RECORD_COST: Final = 0.5


def arrow_type(t: AvroType) -> pa.DataType:
    """The Arrow type values of `t` come in: raw, without logical types; a map is a list of entries.

    Raises FormatError for a union of more than null and one type.
    """
    simple = _ARROW.get(t.kind)
    if simple is not None:
        return simple
    match t.kind:
        case "fixed":
            return pa.binary(t.size)
        case "record":
            return pa.struct([pa.field(n, arrow_type(i)) for n, i in zip(t.names, t.inner, strict=True)])
        case "array":
            return pa.list_(arrow_type(t.inner[0]))
        case "map":
            return pa.map_(pa.string(), arrow_type(t.inner[0]))
        case "union" if t.null_branch is not None:
            return arrow_type(t.inner[1 - t.null_branch])
    raise FormatError("its schema has a union other than of null and one type")


_ARROW: Final[dict[str, pa.DataType]] = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
    "enum": pa.string(),
}


def decode(containers: Sequence[Container], *, in_parallel: bool | None = None) -> pa.ChunkedArray:
    """The records of containers of one schema, in order.

    Args:
        containers: all with equal `schema_text`, at least one.
        in_parallel: forces a decoder (fastavro still takes types the other lacks); None picks the cheaper.

    Raises: as `Container.payloads`; CorruptFileError names the file that cannot be decoded.
    """
    try:
        type_ = arrow_type(containers[0].type)
    except FormatError as e:
        raise _corrupt(containers[0].path, e) from e
    return pa.chunked_array(list(iter_arrays(containers, in_parallel=in_parallel)), type_)


def iter_arrays(
    containers: Sequence[Container], *, in_parallel: bool | None = None, without: Collection[FieldPath] = ()
) -> Iterator[pa.Array]:
    """As `decode`, one array for every `_GROUP_BYTES` or so: memory is bounded by what the caller keeps.

    The fields `without` are left out of the records.
    """
    decoder = RecordDecoder(containers[0])
    stored = containers[0].type
    wanted = stored.without(without)
    for group in _groups(containers):
        parallel = BLOCK_PARALLEL and _pays([p.rows for p in group], stored) if in_parallel is None else in_parallel
        array = _decode_in_parallel(group, stored, wanted) if parallel else None
        yield _decode_records(group, wanted, decoder) if array is None else array


def _groups(containers: Sequence[Container]) -> Iterator[list[Payload]]:
    """Blocks to decode together: at most `_MAX_BLOCKS`, evenly, and no more after `_GROUP_BYTES`."""
    total = sum(len(c.blocks) for c in containers)
    most = -(-total // max(-(-total // _MAX_BLOCKS), 1))
    group: list[Payload] = []
    size = 0
    for container in containers:
        for payload in container.payloads():
            group.append(payload)
            size += len(payload.data)
            if len(group) == most or size > _GROUP_BYTES:
                yield group
                group, size = [], 0
    if group:
        yield group


def _pays(counts: list[int], t: AvroType) -> bool:
    """Whether decoding blocks of so many records in parallel is cheaper."""
    total, steps = sum(counts), max(counts, default=0)
    return steps * _STEP_COST + total * _VALUE_COST < total * _RECORD_COST


def _decode_records(group: list[Payload], t: AvroType, decoder: RecordDecoder) -> pa.Array:
    """The records of blocks by fastavro: the reference that the block-parallel decoder must equal."""
    try:
        return array_of([r for payload in group for r in decoder.decode(payload)], t)
    except _ARRAY_ERRORS as e:
        for payload in group if len(group) > 1 else ():
            _decode_records([payload], t, decoder)
        raise _corrupt(group[0].path, e) from e


_ARRAY_ERRORS: Final = (pa.ArrowException, FormatError, OverflowError, ValueError, TypeError, KeyError)


def _corrupt(path: str, e: Exception) -> CorruptFileError:
    return e if isinstance(e, CorruptFileError) else CorruptFileError(f"{path} is corrupt: {e}", path=path)


def _decode_in_parallel(group: list[Payload], t: AvroType, wanted: AvroType) -> pa.Array | None:
    """The fields `wanted` of the records of blocks, decoded in parallel; None where they must go record by record.

    When something does not fit it is not known in which block: fastavro will say it, with the file's name.
    """
    ends = np.cumsum(np.array([len(p.data) for p in group], np.int64))
    if ends[-1] + block_decoder.PADDING > np.iinfo(np.int32).max:
        return None
    try:
        source = block_decoder.DecodedBlocks(b"".join((*(p.data for p in group), bytes(block_decoder.PADDING))))
        root = block_decoder.reader_of(t, source, wanted)
        slots = _read_all(root, np.array([p.rows for p in group], np.int64), ends)
        return root.finish(slots, None)
    except (block_decoder.UnknownShapeError, FormatError, IndexError, OverflowError, pa.ArrowException):
        return None


def _read_all(root: block_decoder.ValueReader, counts: I64, ends: I64) -> I64:
    """Read every record; the result is the slot of each, in the order of blocks. Raises FormatError."""
    # Blocks with more records come first, so those with records left are always the first ones.
    by_count = np.argsort(-counts, kind="stable")
    starts = np.concatenate(([0], ends[:-1]))
    at = starts[by_count]
    active = np.searchsorted(-counts[by_count], -np.arange(1, counts.max() + 1), side="right")
    for count in active.tolist():
        root.read(at[:count])
    if not np.array_equal(at, ends[by_count]):
        raise FormatError("records do not end where their block does")
    rank = np.empty(len(counts), np.int64)
    rank[by_count] = np.arange(len(counts))
    step_start = np.cumsum(active) - active
    step = arrow_numpy.ranges(np.zeros(len(counts), np.int64), counts)
    slots: I64 = step_start[step] + np.repeat(rank, counts)
    return slots


def array_of(values: list[Any], t: AvroType) -> pa.Array:
    """Values as fastavro gives them, as an array of `arrow_type(t)`.

    It stands in for `pa.array`, which imports pandas when it is installed. Raises as `arrow_type`.
    """
    if t.null_branch is not None:
        return _array_of(values, t.inner[1 - t.null_branch], np.array([v is not None for v in values], np.bool_))
    return _array_of(values, t, None)


def _array_of(values: list[Any], t: AvroType, valid: Bool | None) -> pa.Array:
    type_ = arrow_type(t)
    if t.kind == "null" or (valid is not None and not valid.any()):
        return pa.nulls(len(values), type_)
    if t.kind in _NUMPY:
        numbers = np.array([0 if v is None else v for v in values], _NUMPY[t.kind])
        if t.kind == "boolean":
            return arrow_numpy.boolean_array(numbers, valid)
        return arrow_numpy.fixed_array(numbers, type_, valid)
    validity = arrow_numpy.validity_bitmap(valid)
    if t.kind == "record":
        children = [
            array_of([None if v is None else v[n] for v in values], _nullable(i, validity is not None))
            for n, i in zip(t.names, t.inner, strict=True)
        ]
        return pa.Array.from_buffers(type_, len(values), [validity], children=children)
    if t.kind == "fixed":
        joined = b"".join(bytes(t.size) if v is None else v for v in values)
        return pa.Array.from_buffers(type_, len(values), [validity, pa.py_buffer(joined)])
    items = [() if v is None else v for v in values]
    if t.kind == "array":
        inner = array_of([i for v in items for i in v], t.inner[0])
        return pa.Array.from_buffers(type_, len(items), [validity, _offsets(items)], children=[inner])
    if t.kind == "map":
        keys = array_of([k for v in items for k in v], AvroType("string"))
        inner = array_of([v[k] for v in items for k in v], t.inner[0])
        entries = pa.StructArray.from_arrays([keys, inner], fields=[type_.key_field, type_.item_field])
        return pa.Array.from_buffers(type_, len(items), [validity, _offsets(items)], children=[entries])
    encoded = [b"" if v is None else v if isinstance(v, bytes) else v.encode() for v in values]
    return pa.Array.from_buffers(type_, len(values), [validity, _offsets(encoded), pa.py_buffer(b"".join(encoded))])


def _offsets(values: list[Any]) -> pa.Buffer:
    return pa.py_buffer(arrow_numpy.offsets_of(np.fromiter(map(len, values), np.int64, len(values))))


def _nullable(t: AvroType, nullable: bool) -> AvroType:
    return t if not nullable or t.null_branch is not None or t.kind == "null" else AvroType("union", inner=(_NULL, t))


_NULL: Final = AvroType("null")
_NUMPY: Final = {"boolean": "?", "int": "i4", "long": "i8", "float": "f4", "double": "f8"}
