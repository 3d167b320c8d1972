"""Avro object containers: records already encoded → bytes of a file.

Source: Avro 1.11 specification, chapter Object Container Files; Java `format/avro/AvroFileFormat`.
"""

from __future__ import annotations

import bz2
import json
import os
import zlib
from collections.abc import Callable, Sequence
from typing import Any, Final

import pyarrow as pa
import zstandard

from paimon_spark.errors import InvalidOptionError
from paimon_spark.format.avro_codec import container as avro

_ROWS_PER_BLOCK: Final = 256


class ContainerWriter:
    """A container that grows by blocks.

    Attributes:
        size: bytes so far.
    """

    def __init__(self, schema: Any, compression: str = "zstd", level: int = 1) -> None:
        """`compression` is the value of an option of Paimon, `level` that of zstd.

        Raises:
            InvalidOptionError: there is no such codec, or none that can be written.
        """
        codec, self._compress = _codec(compression, level)
        meta = {b"avro.codec": codec.encode(), b"avro.schema": json.dumps(schema, separators=(",", ":")).encode()}
        pairs = b"".join(_sized(k) + _sized(v) for k, v in meta.items())
        self._sync = os.urandom(16)
        self._parts = [avro.MAGIC + long(len(meta)) + pairs + long(0) + self._sync]
        self.size = len(self._parts[0])

    def add(self, rows: int, payload: bytes) -> None:
        """Append a block of `rows` records."""
        data = self._compress(payload)
        head = long(rows) + long(len(data))
        self._parts += (head, data, self._sync)
        self.size += len(head) + len(data) + len(self._sync)

    def finish(self) -> bytes:
        """The whole file."""
        return b"".join(self._parts)

    def drain(self) -> bytes:
        """What was added since the last time, for files written piece by piece; `finish` then lacks it."""
        parts, self._parts = self._parts, []
        return b"".join(parts)


def container(schema: Any, rows: Sequence[Any], compression: str = "zstd", level: int = 1) -> bytes:
    """A file of a few records given as Python values. Raises as `ContainerWriter`."""
    writer = ContainerWriter(schema, compression, level)
    for start in range(0, len(rows), _ROWS_PER_BLOCK):
        part = rows[start : start + _ROWS_PER_BLOCK]
        writer.add(len(part), avro.encode_rows(schema, part))
    return writer.finish()


def long(value: int) -> bytes:
    """A number as Avro writes it: zigzag, seven bits a byte, the lowest first."""
    rest = value << 1 if value >= 0 else ~(value << 1)
    out = bytearray()
    while rest >= 0x80:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def _sized(data: bytes) -> bytes:
    return long(len(data)) + data


def _codec(compression: str, level: int) -> tuple[str, Callable[[bytes], bytes]]:
    """Avro's name of a codec, and what compresses a block."""
    match compression.lower():
        case "zstd" | "zstandard":
            return "zstandard", zstandard.ZstdCompressor(level).compress
        case "null":
            return "null", bytes
        case "deflate":
            return "deflate", _deflate
        case "snappy":
            return "snappy", _snappy
        case "bzip2":
            return "bzip2", bz2.compress
    raise InvalidOptionError(
        f"compression {compression!r} cannot be written in Avro files; "
        "zstd, null, deflate, snappy and bzip2 can (option manifest.compression)",
        option="manifest.compression",
        value=compression,
    )


def _deflate(payload: bytes) -> bytes:
    deflate = zlib.compressobj(wbits=-15)
    return deflate.compress(payload) + deflate.flush()


def _snappy(payload: bytes) -> bytes:
    packed: bytes = pa.Codec("snappy").compress(payload, asbytes=True)
    return packed + zlib.crc32(payload).to_bytes(4, "big")
