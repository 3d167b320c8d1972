"""Roaring bitmaps of columns: what is written is read, unions are those of sets, damage is refused."""

from __future__ import annotations

import contextlib
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_spark.errors import FormatError
from paimon_spark.format import roaring
from tests.harness.bitmaps import bitmap_of, numbers_of
from tests.harness.search import examples


def numbers(bits: int) -> st.SearchStrategy[set[int]]:
    """Sets of single numbers, of runs, and of numbers too dense for an array."""
    single = st.sets(st.integers(0, 2**bits - 1) | st.integers(0, 300), max_size=50)
    begin, size, step = st.integers(0, 2**bits - 1), st.integers(0, 9000), st.integers(1, 3)
    spans = st.builds(lambda b, n, s: {x for x in range(b, b + n * s, s) if x < 2**bits}, begin, size, step)
    return st.builds(set.union, single, spans, spans)


FORMS = {32: (roaring.encode32, roaring.decode32), 64: (roaring.encode64, roaring.decode64)}


@settings(max_examples=examples(60), deadline=None)
@given(st.data(), st.sampled_from([32, 64]))
def test_round_trip_and_union(data: st.DataObject, bits: int) -> None:
    encode, decode = FORMS[bits]
    one, other = data.draw(numbers(bits)), data.draw(numbers(bits))
    assert numbers_of(decode(encode(bitmap_of(one)))) == sorted(one)
    united = roaring.union(decode(encode(bitmap_of(one))), bitmap_of(other))
    assert numbers_of(decode(encode(united))) == sorted(one | other)


@pytest.mark.parametrize("children", [1, 2, 4, 5, 16, 17, 48, 49, 256])
def test_every_size_of_tree_node(children: int) -> None:
    for depth in range(16, 64, 8):
        values = [(n << depth) + 7 for n in range(children)]
        values = [v for v in values if v < 2**64]
        assert numbers_of(roaring.decode64(roaring.encode64(bitmap_of(values)))) == sorted(values)


def test_the_portable_form_is_that_of_the_format() -> None:
    assert roaring.encode32(bitmap_of([1, 3])) == struct.pack("<IIHHIHH", 12346, 1, 0, 1, 16, 1, 3)
    run = struct.pack("<IBHHHHH", 12347, 1, 0, 99, 1, 5, 99)
    assert roaring.encode32(bitmap_of(range(5, 105))) == run
    assert roaring.encode32({}) == struct.pack("<II", 12346, 0)


@settings(max_examples=examples(300), deadline=None)
@given(st.data(), st.sampled_from([32, 64]))
def test_damage_is_refused_or_harmless(data: st.DataObject, bits: int) -> None:
    encode, decode = FORMS[bits]
    whole = bytearray(encode(bitmap_of({*range(5, 200), *range(70_000, 70_020, 2), 2**31})))
    for _ in range(data.draw(st.integers(1, 3))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    damaged = bytes(whole[: data.draw(st.integers(0, len(whole)))])
    with contextlib.suppress(FormatError):
        decode(damaged)
