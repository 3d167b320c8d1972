"""Avro object containers: parsing of headers, schemas and blocks, and records by fastavro.

Containers are parsed here, as `fastavro.block_reader` takes three to five times as long for zstd blocks and sets no
limits: block sizes, decompressed bytes and record counts are checked before anything is decoded, and schemas that
nest without end or repeat items of no bytes are refused.

Source: Avro 1.11 specification, chapters Object Container Files and Binary Encoding.
"""

from __future__ import annotations

import io
import json
import struct
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, Final, NamedTuple, TypeAlias

import fastavro
import fastavro.schema

from paimon_spark.errors import CorruptFileError, FormatError, UnsupportedFeatureError
from paimon_spark.format.compression import ERRORS as DECOMPRESSION_ERRORS
from paimon_spark.format.compression import Decompress, decompressor
from paimon_spark.format.json_files import json_value

MAX_BLOCK_BYTES: Final = 256 << 20
"""Most bytes one block may decompress to. Writers close blocks at 16 to 64 KB."""

MAGIC: Final = b"Obj\x01"
_BLOCK_HEADER_BYTES: Final = 20
"""Two numbers of at most ten bytes."""
_MAX_STORED_BYTES: Final = MAX_BLOCK_BYTES + (1 << 20)
_SYNC_BYTES: Final = 16
_CODECS: Final = ("null", "deflate", "snappy", "bzip2", "xz", "zstandard")
_MAX_DEPTH: Final = 64
_MAX_NODES: Final = 200_000
_MAX_CACHED_BYTES: Final = 1 << 16
_MIN_BYTES: Final[Mapping[str, int]] = {
    "null": 0, "boolean": 1, "int": 1, "long": 1, "float": 4, "double": 8, "bytes": 1, "string": 1,
}  # fmt: skip


FieldPath: TypeAlias = tuple[str, ...]
"""Names of nested fields, the outermost first."""


@dataclass(frozen=True, slots=True)
class AvroType:
    """A schema with its named references resolved.

    Attributes:
        kind: `null boolean int long float double bytes string fixed enum record array map union`.
        names: field names of a record, symbols of an enum.
        inner: types of a record's fields or a union's branches; the one of an array's items, a map's values.
        size: bytes of a fixed.
        logical: the logical type as written; values are always given raw.
        min_bytes: fewest bytes a value takes.
        attributes: the JSON object the type was written as; empty when written as a word.
    """

    kind: str
    names: tuple[str, ...] = ()
    inner: tuple[AvroType, ...] = ()
    size: int = 0
    logical: str | None = None
    min_bytes: int = 0
    attributes: Mapping[str, Any] | None = None

    @property
    def null_branch(self) -> int | None:
        """Where null is in a union of null and one other type; None for every other type."""
        if self.kind != "union" or len(self.inner) != 2:
            return None
        kinds = [t.kind for t in self.inner]
        return kinds.index("null") if kinds.count("null") == 1 else None

    def without(self, paths: Collection[FieldPath]) -> AvroType:
        """The same records without the fields at these paths, which lead through records and unions only."""
        if self.kind == "union":
            return replace(self, inner=tuple(t.without(paths) for t in self.inner))
        if self.kind != "record" or not paths:
            return self
        kept = [(n, t) for n, t in zip(self.names, self.inner, strict=True) if (n,) not in paths]
        inner = tuple(t.without([p[1:] for p in paths if p[0] == n and len(p) > 1]) for n, t in kept)
        return replace(self, names=tuple(n for n, _ in kept), inner=inner)


class Block(NamedTuple):
    """One block: its records, and where its compressed bytes lie in the file."""

    rows: int
    start: int
    size: int


class Payload(NamedTuple):
    """One block decompressed. `number` counts the file's blocks from 0."""

    path: str
    number: int
    rows: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Container:
    """A container file taken apart, blocks still compressed.

    Attributes:
        data: bytes of the file from `offset`, which contain the blocks.
        schema_text: the schema as in the file; equal texts mean equal types.
        first_block: number of the first block in the file.
    """

    path: str
    data: bytes
    schema_text: bytes
    type: AvroType
    codec: str
    blocks: tuple[Block, ...]
    offset: int = 0
    first_block: int = 0

    @property
    def count(self) -> int:
        """Records in all blocks, as the block headers say."""
        return sum(b.rows for b in self.blocks)

    def payloads(self) -> Iterator[Payload]:
        """Every block decompressed, one after the other.

        Raises:
            CorruptFileError: a block does not decompress, is too large (`MAX_BLOCK_BYTES`), or too small.
            UnsupportedFeatureError: the codec is not known.
        """
        decompress = self._decompressor()
        for number, block in enumerate(self.blocks, self.first_block):
            raw = self.data[block.start : block.start + block.size]
            try:
                data = decompress(raw)
                if block.rows * max(self.type.min_bytes, 1) > len(data):
                    raise FormatError(f"{block.rows} records cannot lie in {len(data)} bytes")
            except (*DECOMPRESSION_ERRORS, ValueError, IndexError) as e:
                raise CorruptFileError(
                    f"{self.path} is corrupt: block {number} at byte {self.offset + block.start}: {e}", path=self.path
                ) from e
            yield Payload(self.path, number, block.rows, data)

    def _decompressor(self) -> Decompress:
        found = decompressor(self.codec, MAX_BLOCK_BYTES) if self.codec in _CODECS else None
        if found is None:
            raise UnsupportedFeatureError(
                f"{self.path} is compressed with the Avro codec {self.codec!r}; {', '.join(_CODECS)} can be read",
                feature=f"avro.codec {self.codec}",
                path=self.path,
            )
        return found if self.codec != "snappy" else lambda raw: _checked(found(raw[:-4]), raw[-4:])


def _checked(data: bytes, checksum: bytes) -> bytes:
    if zlib.crc32(data) != int.from_bytes(checksum, "big"):
        raise FormatError("its checksum does not match")
    return data


def open_container(data: bytes, path: str) -> Container:
    """Take a container apart; `path` is for messages. Nothing is decompressed yet.

    Raises CorruptFileError: not an Avro container, cut short, or block marks do not match.
    """
    (container,) = stream_container(lambda offset, length: data[offset : offset + length], path, max(len(data), 1) + 1)
    return container


def stream_container(read: Callable[[int, int], bytes], path: str, window_bytes: int) -> Iterator[Container]:
    """A file in parts of about `window_bytes`, each with whole blocks; `read` gives so many bytes from an offset.

    There is one part at least. Raises as `open_container`.
    """
    try:
        yield from _stream(read, path, window_bytes)
    except (FormatError, ValueError, LookupError, TypeError, AttributeError, RecursionError, ArithmeticError) as e:
        raise CorruptFileError(f"{path} is not a readable Avro file: {type(e).__name__}: {e}", path=path) from e


def records(container: Container) -> Iterator[Any]:
    """Every record as fastavro decodes it, logical types left raw (timestamps are integers, decimals bytes).

    Raises: as `Container.payloads`, and CorruptFileError when a record cannot be decoded or a block holds more than
        its records.
    """
    decoder = RecordDecoder(container)
    for payload in container.payloads():
        yield from decoder.decode(payload)


class RecordDecoder:
    """Decodes blocks of one schema by fastavro."""

    def __init__(self, container: Container) -> None:
        """Raises CorruptFileError: fastavro cannot use the schema."""
        try:
            self._schema = fastavro.parse_schema(_without_logical_types(json_value(container.schema_text)))
        except _RECORD_ERRORS as e:
            raise CorruptFileError(
                f"{container.path} has an Avro schema that cannot be used: {e}", path=container.path
            ) from e

    def decode(self, payload: Payload) -> list[Any]:
        """The records of a block. Raises CorruptFileError."""
        source = io.BytesIO(payload.data)
        try:
            out = [fastavro.schemaless_reader(source, self._schema, None) for _ in range(payload.rows)]
            if source.tell() != len(payload.data):
                raise FormatError(f"{payload.rows} records end at byte {source.tell()} of {len(payload.data)}")
        except _RECORD_ERRORS as e:
            raise CorruptFileError(
                f"{payload.path} is corrupt: block {payload.number}: {type(e).__name__}: {e}", path=payload.path
            ) from e
        return out


_RECORD_ERRORS: Final = (
    fastavro.schema.SchemaParseException,
    fastavro.schema.UnknownType,
    FormatError,
    ValueError,
    EOFError,
    IndexError,
    KeyError,
    TypeError,
    AttributeError,
    ArithmeticError,
    RecursionError,
    MemoryError,
    struct.error,
)


class FileSchema:
    """A schema to write files with. What every file needs of it is made once.

    Attributes:
        definition: the JSON of the schema.
    """

    def __init__(self, definition: Any) -> None:
        self.definition = definition

    @cached_property
    def text(self) -> bytes:
        """The schema as the header of a file holds it."""
        return json.dumps(self.definition, separators=(",", ":")).encode()

    @cached_property
    def type(self) -> AvroType:
        """Raises FormatError, as `parse_type`."""
        return parse_type(self.definition)

    @cached_property
    def _parsed(self) -> Any:
        return fastavro.parse_schema(self.definition)

    def encode_rows(self, rows: Sequence[Any]) -> bytes:
        """Records one behind the other, as they lie in a block."""
        out = io.BytesIO()
        for row in rows:
            fastavro.schemaless_writer(out, self._parsed, row)
        return out.getvalue()


def parse_type(schema: Any) -> AvroType:
    """A schema's JSON with references resolved.

    Raises FormatError: not a schema, refers to itself, or repeats items that take no bytes.
    """
    return _Parser().parse(schema, 0)


class _Parser:
    def __init__(self) -> None:
        self.named: dict[str, AvroType | None] = {}
        self.nodes = 0

    def parse(self, schema: Any, depth: int) -> AvroType:
        self.nodes += 1
        if depth > _MAX_DEPTH or self.nodes > _MAX_NODES:
            raise FormatError("its schema nests too deep or is too large")
        if isinstance(schema, str):
            return self._word(schema)
        if isinstance(schema, list):
            branches = tuple(self.parse(s, depth + 1) for s in schema)
            if not branches:
                raise FormatError("its schema has an empty union")
            return AvroType("union", inner=branches, min_bytes=1 + min(b.min_bytes for b in branches))
        if not isinstance(schema, dict):
            raise FormatError(f"its schema holds {schema!r}")
        return self._object(schema, depth)

    def _word(self, word: str) -> AvroType:
        if word in _MIN_BYTES:
            return AvroType(word, min_bytes=_MIN_BYTES[word])
        found = self.named.get(word) or self.named.get(word.rpartition(".")[2])
        if found is None:
            raise FormatError(f"its schema has the unknown or recursive type {word!r}")
        self.nodes += _size(found)
        return found

    def _object(self, schema: dict[str, Any], depth: int) -> AvroType:
        kind = schema["type"]
        logical = schema.get("logicalType")
        if not isinstance(kind, str):
            return self.parse(kind, depth + 1)
        if kind in _MIN_BYTES:
            return AvroType(kind, logical=logical, min_bytes=_MIN_BYTES[kind], attributes=schema)
        if kind in ("array", "map"):
            item = self.parse(schema["items" if kind == "array" else "values"], depth + 1)
            if kind == "array" and item.min_bytes == 0:
                raise FormatError("its schema has an array of items that take no bytes")
            return AvroType(kind, inner=(item,), logical=logical, min_bytes=1, attributes=schema)
        if kind in ("record", "error", "fixed", "enum"):
            return self._named(schema, kind, logical, depth)
        return self._word(kind)

    def _named(self, schema: dict[str, Any], kind: str, logical: str | None, depth: int) -> AvroType:
        name = str(schema["name"]).rpartition(".")[2]
        if kind == "fixed":
            size = int(schema["size"])
            if not 0 <= size <= MAX_BLOCK_BYTES:
                raise FormatError(f"its schema has a fixed of {size} bytes")
            out = AvroType(kind, size=size, logical=logical, min_bytes=size, attributes=schema)
        elif kind == "enum":
            symbols = tuple(str(s) for s in schema["symbols"])
            out = AvroType(kind, names=symbols, logical=logical, min_bytes=1, attributes=schema)
        else:
            self.named[name] = None
            fields = schema["fields"]
            inner = tuple(self.parse(f["type"], depth + 1) for f in fields)
            least = sum(t.min_bytes for t in inner)
            names = tuple(str(f["name"]) for f in fields)
            out = AvroType("record", names, inner, logical=logical, min_bytes=least, attributes=schema)
        self.named[name] = out
        return out


def _size(t: AvroType) -> int:
    return 1 + sum(_size(i) for i in t.inner)


def _without_logical_types(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without_logical_types(s) for s in schema]
    if isinstance(schema, dict):
        return {
            k: _without_logical_types(v) if k in ("type", "items", "values", "fields") else v
            for k, v in schema.items()
            if k not in ("logicalType", "default")
        }
    return schema


def _stream(read: Callable[[int, int], bytes], path: str, window_bytes: int) -> Iterator[Container]:
    data = read(0, window_bytes)
    is_last = len(data) < window_bytes
    while not is_last and not _has_header(data):
        more = read(len(data), len(data))
        is_last = len(more) < len(data)
        data += more
    if data[:4] != MAGIC:
        raise FormatError("it does not start with Avro's mark" if data else "it is empty")
    meta, at = _metadata(data, 4)
    sync = data[at : at + _SYNC_BYTES]
    if len(sync) != _SYNC_BYTES:
        raise FormatError("it ends inside its header")
    schema_text = meta["avro.schema"]
    codec = meta.get("avro.codec", b"null").decode()
    parse = _cached_type if len(schema_text) <= _MAX_CACHED_BYTES else _parsed_type
    found = Container(path, b"", schema_text, parse(schema_text), codec, ())
    at += _SYNC_BYTES
    offset = count = 0
    while True:
        blocks, end, missing = _blocks(data, at, sync, offset, is_last=is_last)
        yield replace(found, data=data, blocks=tuple(blocks), offset=offset, first_block=count)
        if is_last and end == len(data):
            return
        count += len(blocks)
        rest = data[end:]
        wanted = max(window_bytes, missing, 2 * _BLOCK_HEADER_BYTES) - len(rest)
        offset, at = offset + end, 0
        more = read(offset + len(rest), wanted)
        is_last = len(more) < wanted
        data = rest + more


def _has_header(data: bytes) -> bool:
    """Whether `data`, the beginning of a file, contains its header."""
    try:
        _, at = _metadata(data, 4)
    except (FormatError, IndexError):
        return not MAGIC.startswith(data[:4])
    return at + _SYNC_BYTES <= len(data)


def _parsed_type(schema_text: bytes) -> AvroType:
    return parse_type(json_value(schema_text))


_cached_type = lru_cache(64)(_parsed_type)
"""A table's metadata files are many, and of few schemas."""


def _metadata(data: bytes, at: int) -> tuple[dict[str, bytes], int]:
    meta: dict[str, bytes] = {}
    while True:
        count, at = _long(data, at)
        if count == 0:
            return meta, at
        if count < 0:
            _, at = _long(data, at)
        for _ in range(abs(count)):
            key, at = _bytes(data, at)
            meta[key.decode()], at = _bytes(data, at)


def _blocks(data: bytes, at: int, sync: bytes, offset: int, *, is_last: bool) -> tuple[list[Block], int, int]:
    """The whole blocks in `data` from `at`, where they end, and the bytes of the next block if they are known.

    `data` is that of the file from `offset`, up to its end if `is_last`.
    """
    out: list[Block] = []
    while at < len(data):
        if not is_last and len(data) - at < _BLOCK_HEADER_BYTES:
            return out, at, 0
        count, start = _long(data, at)
        size, start = _long(data, start)
        end = start + size
        fits = end + _SYNC_BYTES <= len(data)
        if count < 0 or size < 0 or (is_last and not fits) or size > _MAX_STORED_BYTES:
            raise FormatError(f"the block at byte {offset + at} does not fit into its {offset + len(data)} bytes")
        if not fits:
            return out, at, end + _SYNC_BYTES - at
        if data[end : end + _SYNC_BYTES] != sync:
            raise FormatError(f"the block at byte {offset + at} does not end with the file's mark")
        if count:
            out.append(Block(count, start, size))
        at = end + _SYNC_BYTES
    return out, at, 0


def _long(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
    raise FormatError(f"a number at byte {at} has more than ten bytes")


def _bytes(data: bytes, at: int) -> tuple[bytes, int]:
    size, at = _long(data, at)
    if not 0 <= size <= len(data) - at:
        raise FormatError(f"{size} bytes are announced at byte {at} of {len(data)}")
    return data[at : at + size], at + size
