"""Schemas of the records of manifest files, and their encoding as Parquet and ORC.

Java compares the field names, their order and their types of a manifest with its own before it copies blocks
from it, so fields stand in Java's order, and null comes first in every union. In Parquet and ORC columns are matched
by name; ids, widths and what may be null are as Java writes them.

Source: Paimon spec, chapter Manifest; Java `manifest/ManifestEntry.SCHEMA`, `io/DataFileMeta.SCHEMA`,
`manifest/ManifestFileMeta.SCHEMA`, `manifest/IndexManifestEntry.SCHEMA`, `format/avro/AvroSchemaConverter`,
`format/parquet/ParquetSchemaConverter`, `format/orc/OrcTypeUtil`, `table/SpecialFields`; option `manifest.format`.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa

from paimon_spark.errors import CorruptFileError, FormatError, InvalidOptionError
from paimon_spark.format.arrays import arrow_numpy
from paimon_spark.format.arrays.arrow_types import ORC_ID, PARQUET_ID, value_id
from paimon_spark.format.arrays.nested import field_values, with_children, with_elements, with_null_fields
from paimon_spark.format.avro_codec import decoder, encoder
from paimon_spark.format.avro_codec.container import FileSchema, open_container, records
from paimon_spark.format.data_files.parquet_footer import MAGIC as _PARQUET

_ORC: Final = b"ORC"
_TINY: Final = frozenset(("_KIND", "_FILE_SOURCE"))
"""TINYINT in Java, for which Avro has only int."""
_LEAVES: Final[dict[str, pa.DataType]] = {
    "int": pa.int32(), "long": pa.int64(), "bytes": pa.binary(), "string": pa.string(),
}  # fmt: skip
_IDS: Final = {"parquet": PARQUET_ID, "orc": ORC_ID}
_CODECS: Final = {
    "parquet": {
        "none": "none", "uncompressed": "none", "snappy": "snappy", "gzip": "gzip", "brotli": "brotli",
        "lz4": "lz4", "lz4_raw": "lz4", "zstd": "zstd",
    },
    "orc": {"none": "uncompressed", "zlib": "zlib", "snappy": "snappy", "lz4": "lz4", "zstd": "zstd"},
}  # fmt: skip
_MS: Final = pa.timestamp("ms")
_T = TypeVar("_T")


def format_of(data: bytes) -> str | None:
    """`parquet` or `orc` by the first bytes of a file; None for what has to be Avro."""
    if data.startswith(_PARQUET):
        return "parquet"
    return "orc" if data.startswith(_ORC) else None


def encode(records: pa.StructArray, schema: FileSchema, to: str, codec: str, level: int) -> bytes:
    """A Parquet or ORC file of records, which are as `decoder.arrow_type` of `schema`.

    `codec` is the option `manifest.compression`, `level` that of zstd in Parquet.

    Raises InvalidOptionError when the codec is not one of the format.
    """
    codec = _codec(to, codec)
    kind = _struct(schema.definition, _IDS[to], first_id=-1)
    table = pa.Table.from_arrays(_converted(records, kind).flatten(), schema=pa.schema(list(kind)))
    out = io.BytesIO()
    if to == "parquet":
        import pyarrow.parquet as pq  # only tables with such manifests pay for it

        pq.write_table(
            table,
            out,
            compression=codec,
            compression_level=level if codec == "zstd" else None,
            store_schema=False,
        )
    else:
        import pyarrow.orc as po

        columns = [_whole_seconds(with_null_fields(arrow_numpy.one_chunk(column))) for column in table.columns]
        po.write_table(pa.Table.from_arrays(columns, schema=table.schema), out, compression=codec)
    return out.getvalue()


def encode_rows(schema: FileSchema, rows: Sequence[dict[str, Any]], codec: str, level: int, to: str) -> bytes:
    """A file of a few records given as Python values, also Avro. Args and raises as `encode`."""
    if to == "avro":
        return encoder.container(schema, rows, codec, level)
    return encode(decoder.array_of(list(rows), schema.type), schema, to, codec, level)


def rows(data: bytes, path: str) -> Iterator[dict[str, Any]]:
    """The records of a file of any format as Python values. Raises CorruptFileError, or as `records` of Avro."""
    if format_of(data) is None:
        yield from records(open_container(data, path))
    else:
        for batch in decode(data, path):
            yield from batch.to_pylist()


def row_of(value: Any) -> dict[str, Any]:
    """The record of a NamedTuple whose fields are called as on disk, but in small letters; tuples become arrays."""
    # fastavro reads a tuple as the name of a union's branch and its value.
    kind: Callable[..., Any] = type(value)
    keys, _ = _keys(kind)
    return {key: list(v) if isinstance(v, tuple) else v for key, v in zip(keys, value, strict=True)}


def value_of(kind: Callable[..., _T], row: Mapping[str, Any]) -> _T:
    """The inverse of `row_of`, arrays stay lists. Fields with a default may be missing; others raise KeyError."""
    keys, required = _keys(kind)
    if not required <= row.keys():
        raise KeyError(*(required - row.keys()))
    return kind(*map(row.get, keys))


@cache
def _keys(kind: Callable[..., Any]) -> tuple[tuple[str, ...], frozenset[str]]:
    """The keys of a NamedTuple's fields, and those of fields without default."""
    keys = {name: f"_{name.upper()}" for name in kind._fields}  # type: ignore[attr-defined]
    return tuple(keys.values()), frozenset(keys[n] for n in keys.keys() - kind._field_defaults.keys())  # type: ignore[attr-defined]


def is_plain_name(name: str) -> bool:
    """Whether the name of a file is one path segment, which leads to no other directory."""
    return name not in ("", ".", "..") and not any(c in name for c in "/\\\0")


def check_codec(to: str, codec: str) -> None:
    """Check that `manifest.compression` can be written in the format. Raises InvalidOptionError."""
    if to == "avro":
        encoder.ContainerWriter(FileSchema("null"), codec)
    else:
        _codec(to, codec)


def _codec(to: str, codec: str) -> str:
    """Arrow's name of a codec that Java knows for the format."""
    known = _CODECS[to]
    found = known.get(codec.strip().lower())
    if found is None:
        raise InvalidOptionError(
            f"compression {codec!r} cannot be written in {to} files; {', '.join(known)} can "
            "(option manifest.compression)",
            option="manifest.compression",
            value=codec,
        )
    return found


def decode(data: bytes, path: str) -> list[pa.StructArray]:
    """The records of a Parquet or ORC file, in order, with timestamps as milliseconds. Raises CorruptFileError."""
    source = pa.BufferReader(data)
    try:
        if data.startswith(_PARQUET):
            import pyarrow.parquet as pq

            table = pq.ParquetFile(source).read()
        else:
            table = _orc(source)
        table.validate()
        return [_in_ms(batch.to_struct_array()) for batch in table.to_batches()]
    except (pa.ArrowException, FormatError, OSError, ValueError, KeyError, IndexError) as e:
        raise CorruptFileError(f"{path} cannot be decoded: {type(e).__name__}: {e}", path=path) from e


def _orc(source: pa.NativeFile) -> pa.Table:
    import pyarrow.orc as po

    from paimon_spark.format.data_files.orc_footer import read_footer

    file = po.ORCFile(source)
    table = file.read()
    footer = read_footer(source)
    if table.num_rows != file.nrows or (footer is not None and footer.stripe_rows != file.nrows):
        raise FormatError(f"it holds {table.num_rows} rows, its footer says {file.nrows}")
    return table


def _struct(schema: Schema, id_key: bytes, first_id: int = 0) -> pa.StructType:
    """The Arrow type of a record; the fields are numbered from `first_id`."""
    fields = enumerate(schema["fields"], first_id)
    return pa.struct([_field(f["name"], f["type"], i, id_key) for i, f in fields])


def _field(name: str, kind: Any, field_id: int, id_key: bytes) -> pa.Field:
    nullable = isinstance(kind, list)
    bare = kind[1] if nullable else kind
    tiny = pa.int8() if name in _TINY else None
    return pa.field(name, tiny or _type(bare, field_id, id_key), nullable, {id_key: str(field_id).encode()})


def _type(kind: Any, field_id: int, id_key: bytes) -> pa.DataType:
    if isinstance(kind, str):
        return _LEAVES[kind]
    if kind["type"] == "record":
        return _struct(kind, id_key)
    if kind["type"] == "array":
        return pa.list_(_field("element", kind["items"], value_id(field_id, 1), id_key))
    return _MS


def _converted(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_struct(kind):
        children = [_converted(field_values(array, i, f.nullable), f.type) for i, f in enumerate(kind)]
        return with_children(array, kind, children)
    if pa.types.is_list(kind):
        return with_elements(array, kind, lambda a: _converted(a, kind.value_type))
    return array if array.type == kind else array.cast(kind)


def _in_ms(array: pa.Array) -> pa.Array:
    kind = array.type
    if pa.types.is_struct(kind):
        children = [_in_ms(c) for c in array.flatten()]
        fields = [pa.field(f.name, c.type) for f, c in zip(kind, children, strict=True)]
        return with_children(array, pa.struct(fields), children)
    if pa.types.is_timestamp(kind):
        return array.cast(pa.timestamp("ms", kind.tz), safe=False).cast(pa.int64())
    return array


def _whole_seconds(array: pa.Array) -> pa.Array:
    """The array without fractions of seconds before 1970, which Arrow writes so that Java cannot read them."""
    if pa.types.is_struct(array.type):
        fields = [array.field(i) for i in range(array.type.num_fields)]
        return with_children(array, array.type, list(map(_whole_seconds, fields)))
    if not pa.types.is_timestamp(array.type):
        return array
    values = arrow_numpy.values(array)
    whole = np.where(values < 0, values - values % 1000, values)
    return arrow_numpy.fixed_array(whole, array.type, arrow_numpy.valid_or_none(array))


Schema: TypeAlias = dict[str, Any]

_NAMESPACE: Final = "org.apache.paimon.avro.generated"


def record(name: str, fields: list[Schema]) -> Schema:
    """A record type, in the name space that Java's have."""
    return {"type": "record", "name": name, "namespace": _NAMESPACE, "fields": fields}


def fields(**types: Any) -> list[Schema]:
    """Fields of a record; one that may be null has the default null."""
    return [{"name": n, "type": t, **({"default": None} if isinstance(t, list) else {})} for n, t in types.items()]


def _or_null(inner: Any) -> list[Any]:
    return ["null", inner]


def _array(items: Any) -> Schema:
    return {"type": "array", "items": items}


def _stats(name: str) -> Schema:
    return record(
        name, fields(_MIN_VALUES="bytes", _MAX_VALUES="bytes", _NULL_COUNTS=_or_null(_array(_or_null("long"))))
    )


FILE_FIELDS: Final = fields(
    _FILE_NAME="string",
    _FILE_SIZE="long",
    _ROW_COUNT="long",
    _MIN_KEY="bytes",
    _MAX_KEY="bytes",
    _KEY_STATS=_stats("record__FILE__KEY_STATS"),
    _VALUE_STATS=_stats("record__FILE__VALUE_STATS"),
    _MIN_SEQUENCE_NUMBER="long",
    _MAX_SEQUENCE_NUMBER="long",
    _SCHEMA_ID="long",
    _LEVEL="int",
    _EXTRA_FILES=_array("string"),
    _CREATION_TIME=_or_null({"type": "long", "logicalType": "timestamp-millis"}),
    _DELETE_ROW_COUNT=_or_null("long"),
    _EMBEDDED_FILE_INDEX=_or_null("bytes"),
    _FILE_SOURCE=_or_null("int"),
    _VALUE_STATS_COLS=_or_null(_array("string")),
    _EXTERNAL_PATH=_or_null("string"),
    _FIRST_ROW_ID=_or_null("long"),
    _WRITE_COLS=_or_null(_array("string")),
    _WRITE_COLS_SEQUENCES=_or_null(_array("long")),
)
"""Fields of `_FILE`: 0.9 wrote the first 16, 1.0 18, 1.3 20, 2.1 all. Readers take missing ones for null."""


def entry_schema(file_fields: list[Schema]) -> Schema:
    """A manifest entry whose `_FILE` has `file_fields`. The six fields around it never change, nor may be null."""
    return record(
        "record",
        fields(
            _VERSION="int",
            _KIND="int",
            _PARTITION="bytes",
            _BUCKET="int",
            _TOTAL_BUCKETS="int",
            _FILE=record("record__FILE", file_fields),
        ),
    )


ENTRY: Final = FileSchema(entry_schema(FILE_FIELDS))
"""An entry of a manifest."""

LIST_ROW: Final = FileSchema(
    record(
        "record",
        fields(
            _VERSION="int",
            _FILE_NAME="string",
            _FILE_SIZE="long",
            _NUM_ADDED_FILES="long",
            _NUM_DELETED_FILES="long",
            _PARTITION_STATS=_stats("record__PARTITION_STATS"),
            _SCHEMA_ID="long",
            _MIN_BUCKET=_or_null("int"),
            _MAX_BUCKET=_or_null("int"),
            _MIN_LEVEL=_or_null("int"),
            _MAX_LEVEL=_or_null("int"),
            _MIN_ROW_ID=_or_null("long"),
            _MAX_ROW_ID=_or_null("long"),
        ),
    )
)
"""A row of a manifest list."""

DELETION_RANGE: Final = record(
    "record__DELETIONS_VECTORS_RANGES", fields(f0="string", f1="int", f2="int", _CARDINALITY=_or_null("long"))
)
"""Where a deletion vector lies."""

INDEX_ENTRY: Final = FileSchema(
    record(
        "record",
        fields(
            _VERSION="int",
            _KIND="int",
            _PARTITION="bytes",
            _BUCKET="int",
            _INDEX_TYPE="string",
            _FILE_NAME="string",
            _FILE_SIZE="long",
            _ROW_COUNT="long",
            _DELETIONS_VECTORS_RANGES=_or_null(_array(_or_null(DELETION_RANGE))),
            _EXTERNAL_PATH=_or_null("string"),
            _GLOBAL_INDEX=_or_null(
                record(
                    "record__GLOBAL_INDEX",
                    fields(
                        _ROW_RANGE_START="long",
                        _ROW_RANGE_END="long",
                        _INDEX_FIELD_ID="int",
                        _EXTRA_FIELD_IDS=_or_null(_array("int")),
                        _INDEX_META=_or_null("bytes"),
                        _SOURCE_META=_or_null("bytes"),
                    ),
                )
            ),
        ),
    )
)
"""An entry of an index manifest."""
