"""Deletion vectors: Java's and pypaimon's bytes, every kind of container, and damage."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_spark.errors import CorruptFileError, FormatError
from paimon_spark.format.metadata_files import deletion_vector
from paimon_spark.format.metadata_files.deletion_vector import (
    FRAME_BYTES,
    MAGIC_32,
    MAGIC_64,
    decode,
    encode,
    encode_files,
)
from paimon_spark.format.metadata_files.index_manifest import DeletionVectorRange

SMALL_32 = bytes.fromhex("000000245e43f2d03a300000020000000000020001000000180000001e0000000000050007007011fc086066")
SMALL_64 = bytes.fromhex(
    "00000030d1d339640100000000000000000000003a300000020000000000020001000000180000001e00000000000500070070117c834cbc"
)
JAVA_FILE = bytes.fromhex("01000000185e43f2d03a3000000100000000000100100000000000010050a75c34")


def bitmap(positions: list[int], runs: bool = False) -> bytes:
    """A portable Roaring bitmap. With `runs` every second container is a run container."""
    keys = sorted({p >> 16 for p in positions})
    lows = [[p & 0xFFFF for p in positions if p >> 16 == k] for k in keys]
    as_runs = [runs and i % 2 == 0 for i in range(len(keys))]
    bodies = [run_body(x) if r else body(x) for x, r in zip(lows, as_runs, strict=True)]
    if any(as_runs):
        flags = np.packbits(np.array(as_runs), bitorder="little").tobytes()
        head = struct.pack("<I", 12347 | (len(keys) - 1) << 16) + flags
    else:
        head = struct.pack("<II", 12346, len(keys))
    head += b"".join(struct.pack("<HH", k, len(x) - 1) for k, x in zip(keys, lows, strict=True))
    if not any(as_runs) or len(keys) >= 4:
        at = len(head) + 4 * len(keys)
        for b in bodies:
            head += struct.pack("<I", at)
            at += len(b)
    return head + b"".join(bodies)


def body(low: list[int]) -> bytes:
    if len(low) <= 4096:
        return np.array(low, "<u2").tobytes()
    bits = np.zeros(1 << 16, np.bool_)
    bits[low] = True
    return np.packbits(bits, bitorder="little").tobytes()


def run_body(low: list[int]) -> bytes:
    breaks = np.flatnonzero(np.diff(low) != 1) + 1
    runs = [(int(r[0]), len(r) - 1) for r in np.split(np.array(low), breaks)]
    return struct.pack("<H", len(runs)) + b"".join(struct.pack("<HH", *r) for r in runs)


def record(positions: list[int], wide: bool = False, runs: bool = False) -> bytes:
    if not wide:
        return framed(struct.pack(">i", MAGIC_32) + bitmap(positions, runs))
    keys = sorted({p >> 32 for p in positions})
    out = struct.pack("<iq", MAGIC_64, len(keys))
    for k in keys:
        out += struct.pack("<i", k) + bitmap([p & 0xFFFFFFFF for p in positions if p >> 32 == k], runs)
    return framed(out)


def framed(inner: bytes) -> bytes:
    return struct.pack(">i", len(inner)) + inner + struct.pack(">I", zlib.crc32(inner))


def test_vectors_of_the_format_reference() -> None:
    assert decode(SMALL_32, "v", length=36, row_count=70001).tolist() == [0, 5, 7, 70000]
    assert decode(SMALL_64, "v", length=56, row_count=70001).tolist() == [0, 5, 7, 70000]
    assert decode(JAVA_FILE[1:], "v", length=24, row_count=2).tolist() == [0, 1]
    assert record([0, 5, 7, 70000]) == SMALL_32
    assert record([0, 5, 7, 70000], wide=True) == SMALL_64


def test_bytes_after_the_record_are_ignored() -> None:
    """A reader that does not know the magic reads a few bytes too many."""
    assert decode(SMALL_64 + bytes(8), "v", length=56).tolist() == [0, 5, 7, 70000]


@given(st.sets(st.integers(0, 300_000), max_size=60), st.booleans(), st.booleans())
def test_positions_come_back(positions: set[int], wide: bool, runs: bool) -> None:
    ordered = sorted(positions)
    out = decode(record(ordered, wide, runs and bool(ordered)), "v", row_count=300_001)
    assert out.dtype == np.int64
    assert out.tolist() == ordered


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("count", [4096, 4097, 65536])
def test_containers_of_every_size(wide: bool, count: int) -> None:
    ordered = [*range(65536 - count, 65536), 65536 * 3]
    assert decode(record(ordered, wide), "v").tolist() == ordered
    assert decode(record(ordered, wide, runs=True), "v").tolist() == ordered


def test_four_and_more_containers_with_runs_have_offsets() -> None:
    ordered = [k << 16 | low for k in range(5) for low in (1, 2, 3, 9)]
    assert decode(record(ordered, runs=True), "v").tolist() == ordered


def test_positions_beyond_32_bits() -> None:
    ordered = [1, (1 << 32) + 5, (3 << 32) + 70_000]
    assert decode(record(ordered, wide=True), "v").tolist() == ordered


def test_nothing_deleted() -> None:
    assert decode(record([]), "v").tolist() == []
    assert decode(record([], wide=True), "v").tolist() == []


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"", "."),
        (SMALL_32[:-1], "long"),
        (SMALL_32[:20], "long"),
        (SMALL_32[:-4] + b"abcd", "checksum"),
        (SMALL_32[:4] + b"abcd" + SMALL_32[8:], "magic"),
        (framed(struct.pack(">i", MAGIC_32) + b"\0\0\0\0" * 5), "starts with"),
        (framed(struct.pack(">i", MAGIC_32) + bitmap([1]) + b"\0"), "ends at"),
        (framed(struct.pack(">i", MAGIC_32) + struct.pack("<II", 12346, 1 << 30)), "containers"),
        (framed(struct.pack(">iIIHHIHH", MAGIC_32, 0, 0, 0, 0, 0, 0, 0)), "."),
        (framed(struct.pack("<iq", MAGIC_64, 1 << 60)), "announces"),
        (framed(struct.pack("<iq", MAGIC_64, 2) + (struct.pack("<i", 0) + bitmap([1])) * 2), "out of order"),
        (framed(struct.pack(">i", MAGIC_32) + struct.pack("<IIHHIHH", 12346, 1, 0, 1, 16, 7, 7)), "out of order"),
        (
            framed(struct.pack(">i", MAGIC_32) + struct.pack("<IIHHHHII", 12346, 2, 5, 0, 5, 0, 0, 0) + bytes(4)),
            "out of order",
        ),
        (framed(struct.pack(">i", MAGIC_32) + struct.pack("<IBHHHHH", 12347, 1, 0, 9, 1, 0, 5)), "runs"),
        (framed(struct.pack(">i", MAGIC_32) + struct.pack("<IBHHHHH", 12347, 1, 0, 9, 1, 0xFFF8, 9)), "runs"),
    ],
)
def test_damage_is_named(data: bytes, what: str) -> None:
    with pytest.raises(CorruptFileError, match=f"^the vector is not a readable deletion vector: .*{what}"):
        decode(data, "the vector")


def test_the_recorded_length_must_be_the_vectors() -> None:
    for data, length in ((SMALL_32, 44), (SMALL_64, 48)):
        with pytest.raises(CorruptFileError, match="index manifest says"):
            decode(data, "v", length=length)


def test_rows_that_the_file_does_not_have_are_refused() -> None:
    with pytest.raises(CorruptFileError, match="row 70000 of a file with 70000"):
        decode(SMALL_32, "v", row_count=70_000)
    with pytest.raises(CorruptFileError, match="at most 3"):
        decode(SMALL_32, "v", row_count=3)


def test_a_few_bytes_cannot_claim_all_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    full = range(1 << 16)
    runs = b"".join(struct.pack("<HH", k, 0xFFFF) for k in range(64))
    inner = struct.pack("<I", 12347 | 63 << 16) + b"\xff" * 8 + runs + bytes(4 * 64)
    inner += struct.pack("<HHH", 1, 0, 0xFFFF) * 64
    data = framed(struct.pack(">i", MAGIC_32) + inner)
    assert len(decode(data, "v")) == 64 * len(full)
    monkeypatch.setattr(deletion_vector, "MAX_POSITIONS", 1 << 20)
    with pytest.raises(CorruptFileError, match="at most 1048576"):
        decode(data, "v")


@given(st.binary(max_size=60), st.sampled_from([MAGIC_32, MAGIC_64]))
def test_garbage_is_refused_or_gives_ascending_positions(inner: bytes, magic: int) -> None:
    head = struct.pack(">i" if magic == MAGIC_32 else "<i", magic)
    for data in (inner, framed(head + inner)):
        try:
            out = decode(data, "v", row_count=1 << 20)
        except CorruptFileError:
            continue
        assert (np.diff(out) > 0).all()


def array(positions: list[int]) -> npt.NDArray[np.int64]:
    return np.array(positions, np.int64)


def test_vectors_are_written_with_the_bytes_of_other_writers() -> None:
    assert encode(array([0, 5, 7, 70000])) == SMALL_32
    assert encode(array([0, 5, 7, 70000]), bitmap64=True) == SMALL_64
    data, ranges = next(encode_files({"data-1": array([0, 1])}))
    assert data == JAVA_FILE
    assert ranges == (DeletionVectorRange("data-1", 1, 24, 2),)


@given(
    st.lists(st.tuples(st.integers(0, 300_000), st.sampled_from([1, 1, 3, 70, 5000, 70_000])), max_size=8),
    st.booleans(),
)
def test_written_positions_come_back(runs: list[tuple[int, int]], bitmap64: bool) -> None:
    ordered = np.unique(np.concatenate([np.arange(a, a + n) for a, n in runs] or [array([])])).astype(np.int64)
    data = encode(ordered, bitmap64)
    assert decode(data, "v").tolist() == ordered.tolist()
    assert len(data) <= len(record(ordered.tolist(), bitmap64)) + 8


def test_a_long_run_takes_few_bytes() -> None:
    data = encode(np.arange(1_000_000, dtype=np.int64))
    assert len(data) < 300
    assert len(decode(data, "v")) == 1_000_000


def test_written_positions_beyond_32_bits_come_back_with_the_empty_bitmaps_between() -> None:
    ordered = array([1, (1 << 32) + 5, (3 << 32) + 70_000])
    data = encode(ordered, bitmap64=True)
    assert decode(data, "v").tolist() == ordered.tolist()
    assert struct.unpack_from("<q", data, 8) == (4,)


@pytest.mark.parametrize("positions", [[1, 1], [2, 1], [-1, 4], [1 << 31]])
def test_positions_that_no_vector_holds_are_refused(positions: list[int]) -> None:
    with pytest.raises(FormatError, match="ascend from 0"):
        encode(array(positions))


@given(st.lists(st.sets(st.integers(0, 200_000), max_size=9), max_size=4), st.booleans())
def test_every_vector_of_a_file_lies_where_its_range_says(sets: list[set[int]], bitmap64: bool) -> None:
    vectors = {f"data-{i}": array(sorted(s)) for i, s in enumerate(sets)}
    files = list(encode_files(vectors, bitmap64))
    assert len(files) == bool(vectors)
    data, ranges = files[0] if files else (b"\1", ())
    assert data[0] == 1
    assert [r.data_file_name for r in ranges] == list(vectors)
    for r in ranges:
        part = data[r.offset : r.offset + r.length + (0 if bitmap64 else FRAME_BYTES)]
        assert decode(part, "v", length=r.length).tolist() == vectors[r.data_file_name].tolist()
        assert r.cardinality == len(vectors[r.data_file_name])
    assert len(data) == 1 + sum(r.length + (0 if bitmap64 else FRAME_BYTES) for r in ranges)
