"""Decompression of single blocks of Avro and ORC files, with a limit on their size."""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import pyarrow as pa
import zstandard

from paimon_spark.errors import FormatError

Decompress: TypeAlias = Callable[[bytes], bytes]

ERRORS: Final = (FormatError, zlib.error, lzma.LZMAError, zstandard.ZstdError, pa.ArrowException, OSError, EOFError)
"""What decompressing a damaged block may raise, besides ValueError and IndexError."""

_STEP_BYTES: Final = 1 << 20
_XZ_BYTES: Final = 1 << 27
_LZ4_FRAME: Final = bytes.fromhex("04224d18607073")
"""Header of an LZ4 frame of independent blocks of up to 4 MB, without checksums."""


def decompressor(codec: str, max_bytes: int) -> Decompress | None:
    """The function that decompresses blocks of `codec` to at most `max_bytes`; None for an unknown codec.

    It raises FormatError or one of `ERRORS` for a block that is damaged or larger. Codecs are null, deflate, snappy,
    bzip2, xz, zstandard and lz4 (raw blocks).
    """
    match codec:
        case "null":
            return bytes
        case "deflate":
            return lambda raw: _streamed(zlib.decompressobj(-15), raw, max_bytes)
        case "snappy":
            return lambda raw: _snappy(raw, max_bytes)
        case "bzip2":
            return lambda raw: _streamed(bz2.BZ2Decompressor(), raw, max_bytes)
        case "xz":
            return lambda raw: _streamed(lzma.LZMADecompressor(memlimit=_XZ_BYTES), raw, max_bytes)
        case "zstandard":
            inflate = zstandard.ZstdDecompressor()
            return lambda raw: _zstd(inflate, raw, max_bytes)
        case "lz4":
            return lambda raw: _lz4(raw, max_bytes)
    return None


def _streamed(inflate: Any, raw: bytes, max_bytes: int) -> bytes:
    out: bytes = inflate.decompress(raw, max_bytes + 1)
    _check_size(len(out), max_bytes)
    if not inflate.eof:
        raise FormatError("its compressed bytes are cut short")
    return out


def _zstd(inflate: zstandard.ZstdDecompressor, raw: bytes, max_bytes: int) -> bytes:
    size = zstandard.frame_content_size(raw)
    _check_size(size, max_bytes)
    if size >= 0:
        return inflate.decompress(raw)
    # Java streams its frames, so their size is not written: read in steps rather than reserve the worst.
    with inflate.stream_reader(raw, read_size=max(len(raw), 1)) as reader:
        return _in_steps(reader, max_bytes)


def _lz4(raw: bytes, max_bytes: int) -> bytes:
    # As a frame, since Arrow decompresses a raw block only when it is given the size.
    frame = _LZ4_FRAME + len(raw).to_bytes(4, "little") + raw + bytes(4)
    with pa.CompressedInputStream(pa.BufferReader(frame), "lz4") as reader:
        return _in_steps(reader, max_bytes)


def _in_steps(reader: Any, max_bytes: int) -> bytes:
    parts: list[bytes] = []
    total = 0
    while part := reader.read(_STEP_BYTES):
        total += len(part)
        _check_size(total, max_bytes)
        parts.append(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _snappy(raw: bytes, max_bytes: int) -> bytes:
    size = shift = 0
    for byte in raw[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    _check_size(size, max_bytes)
    out: bytes = pa.Codec("snappy").decompress(raw, decompressed_size=size, asbytes=True)
    return out


def _check_size(size: int, max_bytes: int) -> None:
    if size > max_bytes:
        raise FormatError(f"it decompresses to more than {max_bytes} bytes")
