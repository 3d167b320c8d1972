"""Roaring bitmaps of 32-bit and 64-bit numbers: encoding, decoding and union.

A bitmap is kept as Java keeps it, in containers of 65,536 numbers that are sorted or bits, so that a bitmap of
all numbers takes half a gigabyte at most and one of few numbers next to nothing. Two forms are known:

- 32 bits: the portable form of the Roaring format.
- 64 bits: Java's `Roaring64Bitmap`: a radix tree from the upper 48 bits to containers, which follow it.

Source: RoaringFormatSpec; Java `utils/RoaringBitmap32`, `utils/RoaringBitmap64`,
`org.roaringbitmap.art.{Art,Node*,LeafNode,Containers}`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from itertools import pairwise
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from paimon_spark.errors import FormatError

Container: TypeAlias = npt.NDArray[np.uint16] | npt.NDArray[np.uint8]
"""Sorted numbers, at most `ARRAY_LIMIT` (uint16), or 65,536 bits, lowest first (uint8)."""
Bitmap: TypeAlias = dict[int, Container]
"""Containers, none empty, by the bits above the lower 16."""

_RUN, _BITS, _ARRAY = 0, 1, 2
_LEAF: Final = 4
_BODY_BYTES: Final = (4, 16, 256, 32)
"""Bytes after the header of the radix tree's inner nodes of up to 4, 16, 48 and 256 children."""
_CAPACITY: Final = (4, 16, 48, 256)
_TREE_KEY_BYTES: Final = 6
_NOT_TRIMMED: Final = 0xFE

NO_RUNS: Final = 12346
WITH_RUNS: Final = 12347
NO_OFFSETS_BELOW: Final = 4
"""Bitmaps with runs and fewer containers than this have no table of offsets."""
ARRAY_LIMIT: Final = 4096
"""Numbers up to which a container without runs is sorted numbers; above, it is bits."""
BITMAP_BYTES: Final = 8192
_MAX_CONTAINERS: Final = 1 << 16


class _Packed(NamedTuple):
    """A container to write: its kind, how many numbers it has, and its bytes."""

    kind: int
    size: int
    body: bytes


class Containers(NamedTuple):
    """The containers of a bitmap, which follow back to back.

    Attributes:
        keys: the upper 16 bits of their numbers, ascending.
        sizes: how many numbers each has.
        are_runs: which of them are runs.
    """

    keys: npt.NDArray[np.int64]
    sizes: npt.NDArray[np.int64]
    are_runs: npt.NDArray[np.bool_]


class RoaringBytes:
    """Reads `data`, `at` moving on. Everything raises FormatError or struct.error where bytes are missing."""

    def __init__(self, data: bytes | memoryview, at: int = 0) -> None:
        self.data = data
        self.at = at

    def containers(self) -> Containers:
        """Read everything up to the first container."""
        (cookie,) = self.take("<I")
        if cookie & 0xFFFF == WITH_RUNS:
            count = (cookie >> 16) + 1
            flags = np.frombuffer(self.slice((count + 7) // 8), np.uint8)
            are_runs = np.unpackbits(flags, bitorder="little")[:count].view(np.bool_)
        elif cookie == NO_RUNS:
            (count,) = self.take("<I")
            if count > _MAX_CONTAINERS:
                raise FormatError(f"its bitmap has {count} containers")
            are_runs = np.zeros(count, np.bool_)
        else:
            raise FormatError(f"its bitmap starts with {cookie}")
        described = np.frombuffer(self.slice(4 * count), "<u2").reshape(count, 2).astype(np.int64)
        if (np.diff(described[:, 0]) <= 0).any():
            raise FormatError("its containers are out of order")
        if cookie == NO_RUNS or count >= NO_OFFSETS_BELOW:
            self.slice(4 * count)  # offsets of the containers
        return Containers(described[:, 0], described[:, 1] + 1, are_runs)

    def take(self, form: str) -> tuple[int, ...]:
        """The numbers of a `struct` format."""
        out: tuple[int, ...] = struct.unpack_from(form, self.data, self.at)
        self.at += struct.calcsize(form)
        return out

    def slice(self, size: int) -> bytes | memoryview:
        """The next `size` bytes."""
        out = self.data[self.at : self.at + size]
        if len(out) != size:
            raise FormatError("it is cut short")
        self.at += size
        return out


def encode(values: npt.NDArray[np.int64]) -> bytes:
    """The bitmap of `values`, ascending, each once, from 0 to 2**32 - 1. Containers are runs where that is smaller."""
    keys, starts = np.unique(values >> 16, return_index=True)
    bounds = [*starts.tolist(), len(values)]
    low = (values & 0xFFFF).astype(np.uint16)
    return _portable(keys.tolist(), [_packed(low[start:end]) for start, end in pairwise(bounds)])


def encode_each(numbers: npt.NDArray[np.int64], starts: npt.NDArray[np.int64]) -> tuple[bytes, npt.NDArray[np.int64]]:
    """Encode several bitmaps of 32-bit numbers: the bytes of all, and where each begins, one more than bitmaps.

    Bitmap i contains `numbers[starts[i]:starts[i + 1]]`, ascending, each once, at least one. No container is of runs.
    """
    counts = np.diff(starts, append=len(numbers))
    owner = np.repeat(np.arange(len(starts)), counts)
    # Containers: numbers of one bitmap with the same upper bits.
    begins = np.ones(len(numbers), np.bool_)
    begins[1:] = ((numbers >> 16)[1:] != (numbers >> 16)[:-1]) | (owner[1:] != owner[:-1])
    first = np.flatnonzero(begins)
    sizes = np.diff(first, append=len(numbers))
    body = np.where(sizes > ARRAY_LIMIT, BITMAP_BYTES, 2 * sizes) // 2  # in words of 16 bits, as all that follows
    containers = np.bincount(owner[first], minlength=len(starts))
    lengths = 4 + 4 * containers + np.bincount(owner[first], body, len(starts)).astype(np.int64)
    ends = np.cumsum(lengths)
    at = ends - lengths
    out = np.zeros(int(ends[-1]) if len(ends) else 0, "<u2")
    out[at] = NO_RUNS
    out[at + 2] = containers & 0xFFFF
    out[at + 3] = containers >> 16
    of = owner[first]
    first_of = np.cumsum(containers) - containers
    place = np.arange(len(first)) - first_of[of]
    described = at[of] + 4 + 2 * place
    out[described] = numbers[first] >> 16
    out[described + 1] = sizes - 1
    # Where the containers of a bitmap begin, counted from its first byte.
    before = np.cumsum(body) - body
    offset = 4 + 4 * containers[of] + before - before[first_of][of]
    out[described + 2 * containers[of]] = 2 * offset & 0xFFFF
    out[described + 2 * containers[of] + 1] = 2 * offset >> 16
    target = at[of] + offset
    small = np.repeat(sizes <= ARRAY_LIMIT, sizes)
    inside = np.arange(len(numbers)) - np.repeat(first, sizes)
    out[(np.repeat(target, sizes) + inside)[small]] = (numbers & 0xFFFF)[small]
    for i in np.flatnonzero(sizes > ARRAY_LIMIT).tolist():
        low = (numbers[first[i] : first[i] + sizes[i]] & 0xFFFF).astype(np.uint16)
        out[target[i] : target[i] + BITMAP_BYTES // 2] = _bits(low).view("<u2")
    return out.tobytes(), 2 * np.append(at, ends[-1:] if len(ends) else [0])


def encode32(bitmap: Bitmap) -> bytes:
    """The bytes of a bitmap of 32-bit numbers."""
    keys = sorted(bitmap)
    return _portable(keys, [_packed(_numbers(bitmap[key])) for key in keys])


def _portable(keys: list[int], containers: list[_Packed]) -> bytes:
    count = len(keys)
    are_runs = np.array([c.kind == _RUN for c in containers], np.bool_)
    if are_runs.any():
        head = struct.pack("<I", WITH_RUNS | (count - 1) << 16) + np.packbits(are_runs, bitorder="little").tobytes()
    else:
        head = struct.pack("<II", NO_RUNS, count)
    described = [(key, c.size - 1) for key, c in zip(keys, containers, strict=True)]
    head += np.array(described, "<u2").tobytes()
    if not are_runs.any() or count >= NO_OFFSETS_BELOW:
        sizes = np.array([len(c.body) for c in containers], np.int64)
        first = len(head) + 4 * count
        head += (first + np.cumsum(sizes) - sizes).astype("<u4").tobytes()
    return head + b"".join(c.body for c in containers)


def _packed(numbers: npt.NDArray[np.uint16]) -> _Packed:
    """A container in its smallest form."""
    size = len(numbers)
    first = np.flatnonzero(np.diff(numbers.astype(np.int32), prepend=-2) != 1)
    if 2 + 4 * len(first) < min(2 * size, BITMAP_BYTES):
        runs = np.empty((len(first), 2), "<u2")
        runs[:, 0] = numbers[first]
        runs[:, 1] = np.diff(first, append=size) - 1
        return _Packed(_RUN, size, struct.pack("<H", len(first)) + runs.tobytes())
    if size <= ARRAY_LIMIT:
        return _Packed(_ARRAY, size, numbers.astype("<u2").tobytes())
    return _Packed(_BITS, size, _bits(numbers).tobytes())


def union(one: Bitmap, other: Bitmap) -> Bitmap:
    """The numbers of both."""
    out = dict(one)
    for key, container in other.items():
        mine = out.get(key)
        out[key] = container if mine is None else _united(mine, container)
    return out


def _united(one: Container, other: Container) -> Container:
    if one.dtype == np.uint16 and other.dtype == np.uint16 and len(one) + len(other) <= ARRAY_LIMIT:
        return np.union1d(one, other)
    return _container(_bits(one) | _bits(other))


def _bits(container: Container) -> npt.NDArray[np.uint8]:
    if container.dtype == np.uint8:
        return container  # type: ignore[return-value]
    flags = np.zeros(1 << 16, np.bool_)
    flags[container] = True
    return np.packbits(flags, bitorder="little")


def _numbers(container: Container) -> npt.NDArray[np.uint16]:
    if container.dtype == np.uint16:
        return container  # type: ignore[return-value]
    bits = np.unpackbits(container.view(np.uint8), bitorder="little")
    return np.flatnonzero(bits).astype(np.uint16)


def _container(bits: npt.NDArray[np.uint8]) -> Container:
    numbers = _numbers(bits)
    return bits if len(numbers) > ARRAY_LIMIT else numbers


def _without_empty(bitmap: Bitmap) -> Bitmap:
    return {key: container for key, container in bitmap.items() if len(container)}


def decode32(data: bytes) -> Bitmap:
    """A bitmap of 32-bit numbers. Raises FormatError."""
    return _decoded(_Reader(data).bitmap32, "32-bit")


def decode_mask(data: bytes | memoryview, size: int) -> npt.NDArray[np.bool_]:
    """A bitmap of 32-bit numbers as `size` booleans. Raises FormatError, also for a number as large as `size`."""
    out = np.zeros(-(-size >> 16) << 16, np.bool_)

    def read() -> Bitmap:
        reader = _Reader(data)
        keys, sizes, are_runs = reader.containers()
        for key, count, is_run in zip(keys.tolist(), sizes.tolist(), are_runs.tolist(), strict=True):
            part = out[key << 16 : key + 1 << 16]
            if not len(part):
                raise FormatError(f"it has numbers from {key << 16} up, and {size} are expected")
            reader.fill(part, count, is_run=is_run)
        return {}

    _decoded(read, "32-bit")
    if out[size:].any():
        raise FormatError(f"not a 32-bit Roaring bitmap of {size} numbers: it has larger ones")
    return out[:size]


def decode64(data: bytes) -> Bitmap:
    """A bitmap of 64-bit numbers. Raises FormatError."""
    return _decoded(_Reader(data).bitmap64, "64-bit")


def _decoded(read: Callable[[], Bitmap], kind: str) -> Bitmap:
    try:
        return read()
    except (struct.error, ValueError) as e:
        raise FormatError(f"not a {kind} Roaring bitmap: {e}") from e


class _Reader(RoaringBytes):
    """Bitmaps in `data`."""

    def bitmap32(self) -> Bitmap:
        keys, sizes, are_runs = self.containers()
        out: Bitmap = {}
        for key, size, is_run in zip(keys.tolist(), sizes.tolist(), are_runs.tolist(), strict=True):
            out[key] = self._container(_RUN if is_run else _BITS if size > ARRAY_LIMIT else _ARRAY, size)
        return _without_empty(out)

    def fill(self, out: npt.NDArray[np.bool_], size: int, *, is_run: bool) -> None:
        """Read a container of `size` numbers as 65,536 booleans."""
        if not is_run and size > ARRAY_LIMIT:
            out[:] = np.unpackbits(np.frombuffer(self.slice(BITMAP_BYTES), np.uint8), bitorder="little").view(np.bool_)
        else:
            out[_numbers(self._container(_RUN if is_run else _ARRAY, size))] = True

    def bitmap64(self) -> Bitmap:
        (filled,) = self.take("B")
        if not filled:
            return {}
        (keys,) = self.take("<q")
        leaves = self._leaves(keys)
        containers = self._containers()
        try:
            return _without_empty({key: containers[at] for key, at in leaves})
        except KeyError as e:
            raise FormatError(f"its tree points to container {e}, which is not there") from None

    def _leaves(self, count: int) -> list[tuple[int, int]]:
        """Keys and container numbers of the tree, in whose bytes every node precedes its children."""
        out: list[tuple[int, int]] = []
        awaited = 1
        while awaited:
            awaited -= 1
            kind, children, prefix = self.take("<BHB")
            self.slice(prefix)
            if kind == _LEAF:
                high, low = self.take(">IH")
                (container,) = self.take("<q")
                out.append((high << 16 | low, container))
            elif kind < _LEAF:
                self.slice(_BODY_BYTES[kind])
                awaited += children
            else:
                raise FormatError(f"its tree has a node of kind {kind}")
        if len(out) != count:
            raise FormatError(f"its tree has {len(out)} keys and announces {count}")
        return out

    def _containers(self) -> dict[int, Container]:
        out: dict[int, Container] = {}
        (lists,) = self.take("<I")
        for first in range(lists):
            _, places = self.take("<BI")
            for second in range(places):
                (there,) = self.take("B")
                if there:
                    kind, size = self.take("<BI")
                    out[first << 32 | second] = self._container(kind, size)
        self.take("<qii")  # how many there are, and where the last one is
        return out

    def _container(self, kind: int, size: int) -> Container:
        if kind == _RUN:
            return self._runs()
        if kind == _BITS:
            return _container(np.frombuffer(self.slice(BITMAP_BYTES), np.uint8))
        if kind != _ARRAY or size > 1 << 16:
            raise FormatError(f"it has a container of kind {kind} and size {size}")
        numbers = np.frombuffer(self.slice(2 * size), "<u2").astype(np.uint16, copy=False)
        if (numbers[1:] <= numbers[:-1]).any():
            raise FormatError("its numbers are out of order")
        return numbers if size <= ARRAY_LIMIT else _bits(numbers)

    def _runs(self) -> Container:
        (count,) = self.take("<H")
        pairs = np.frombuffer(self.slice(4 * count), "<u2").reshape(count, 2).astype(np.int64)
        steps = np.zeros((1 << 16) + 1, np.int32)
        ends = pairs[:, 0] + pairs[:, 1] + 1
        if (ends > 1 << 16).any():
            raise FormatError("a run ends beyond its container")
        np.add.at(steps, pairs[:, 0], 1)
        np.add.at(steps, ends, -1)
        return _container(np.packbits(np.cumsum(steps[:-1]) > 0, bitorder="little"))


def encode64(bitmap: Bitmap) -> bytes:
    """The bytes of a bitmap of 64-bit numbers. Containers are in the order of their keys."""
    if not bitmap:
        return b"\0"
    keys = sorted(bitmap)
    out = [b"\1", struct.pack("<q", len(keys))]
    _write_tree([key.to_bytes(_TREE_KEY_BYTES, "big") for key in keys], 0, 0, out)
    out.append(struct.pack("<IBI", 1, _NOT_TRIMMED, len(keys)))
    for key in keys:
        kind, size, body = _packed(_numbers(bitmap[key]))
        out.append(struct.pack("<BBI", 1, kind, size) + body)
    out.append(struct.pack("<qii", len(keys), 0, len(keys) - 1))
    return b"".join(out)


def _write_tree(keys: list[bytes], number: int, depth: int, out: list[bytes]) -> None:
    """A node for `keys`, the first of which has container `number`; they agree in their first `depth` bytes."""
    if len(keys) == 1:
        out.append(struct.pack("<BHB", _LEAF, 0, 0) + keys[0] + struct.pack("<q", number))
        return
    first, last = keys[0], keys[-1]
    fork = next(i for i in range(depth, _TREE_KEY_BYTES) if first[i] != last[i])
    children: dict[int, list[bytes]] = {}
    for key in keys:
        children.setdefault(key[fork], []).append(key)
    kind = next(k for k, most in enumerate(_CAPACITY) if len(children) <= most)
    out.append(struct.pack("<BHB", kind, len(children), fork - depth) + first[depth:fork])
    out.append(_node_body(kind, list(children)))
    for part in children.values():
        _write_tree(part, number, fork + 1, out)
        number += len(part)


def _node_body(kind: int, labels: list[int]) -> bytes:
    """How a node finds the child of a byte. Java packs the bytes into integers that it writes backwards."""
    if kind == 3:
        flags = np.zeros(256, np.bool_)
        flags[labels] = True
        return np.packbits(flags, bitorder="little").tobytes()
    if kind == 2:
        table = bytearray(b"\xff" * 256)
        for place, label in enumerate(labels):
            table[label] = place
        word = 8
    else:
        table = bytearray(labels).ljust(_BODY_BYTES[kind], b"\0")
        word = min(8, _BODY_BYTES[kind])
    return b"".join(table[i : i + word][::-1] for i in range(0, len(table), word))
