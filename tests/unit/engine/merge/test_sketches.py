"""Sketches and bitmaps: lone values stay, others are united as Java unites them, damage is named."""

from __future__ import annotations

import sys
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.engine.merge.aggregators_exact import exact_aggregate
from paimon_spark.errors import DataError, UnsupportedFeatureError
from paimon_spark.format import roaring
from paimon_spark.options.core import parse_merge_options
from tests.harness.bitmaps import bitmap_of, numbers_of
from tests.unit.engine.merge.test_aggregators import run

FUNCTIONS = ["hll_sketch", "theta_sketch", "rbm32", "rbm64"]


def value_of(function: str, numbers: range) -> bytes:
    """A sketch or bitmap of some numbers."""
    if function == "rbm32":
        return roaring.encode32(bitmap_of(numbers))
    if function == "rbm64":
        return roaring.encode64(bitmap_of(numbers))
    library = pytest.importorskip("datasketches")
    if function == "hll_sketch":
        hll = library.hll_sketch(12, library.tgt_hll_type.HLL_4)
        for number in numbers:
            hll.update(number)
        return bytes(hll.serialize_compact())
    theta = library.update_theta_sketch()
    for number in numbers:
        theta.update(number)
    return bytes(theta.compact().serialize())


def count_of(function: str, value: bytes) -> float:
    if function == "rbm32":
        return len(numbers_of(roaring.decode32(value)))
    if function == "rbm64":
        return len(numbers_of(roaring.decode64(value)))
    library = pytest.importorskip("datasketches")
    kind = library.hll_sketch if function == "hll_sketch" else library.compact_theta_sketch
    estimate: float = kind.deserialize(value).get_estimate()
    return estimate


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_lone_value_is_not_touched(function: str) -> None:
    assert run(function, "BYTES", [None, b"x", None]) == b"x"
    assert run(function, "BYTES", [None, None]) is None


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("scale", [1, 1000])
def test_values_are_united(function: str, scale: int) -> None:
    parts = [range(10 * scale), range(5 * scale, 15 * scale), range(14 * scale, 20 * scale)]
    values = [value_of(function, part) for part in parts]
    out = run(function, "BYTES", [values[0], None, *values[1:]])
    assert count_of(function, out) == pytest.approx(20 * scale, rel=0.05)
    if function.startswith("rbm") or scale == 1:
        assert count_of(function, out) == pytest.approx(20 * scale, rel=1e-6)
    older = run(function, "BYTES", values, older=" oo")
    assert count_of(function, older) == pytest.approx(20 * scale, rel=0.05)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_value_of_something_else_is_named(function: str) -> None:
    for bad in (b"", b"x", value_of(function, range(3))[:-1]):
        with pytest.raises(DataError, match=f"'c'.*{function}"):
            run(function, "BYTES", [value_of(function, range(2)), bad])


@pytest.mark.parametrize("function", FUNCTIONS)
def test_retracts_are_refused(function: str) -> None:
    with pytest.raises(DataError, match="cannot retract"):
        run(function, "BYTES", [b"x", b"y"], kinds=" -")


@pytest.mark.parametrize("function", FUNCTIONS)
def test_every_key_starts_afresh(function: str) -> None:
    made = exact_aggregate(function, parse_merge_options({}).column("c"), pa.binary())
    one, two = value_of(function, range(10)), value_of(function, range(10, 20))
    united = made.finish(made.agg(made.agg(None, one), two))
    assert count_of(function, united) == pytest.approx(20, rel=1e-6)
    made.reset()
    assert made.finish(made.agg(None, one)) == one


@pytest.mark.parametrize("function", ["hll_sketch", "theta_sketch"])
def test_without_the_library_two_values_are_refused(function: str, monkeypatch: pytest.MonkeyPatch) -> None:
    nothing: Any = None
    monkeypatch.setitem(sys.modules, "datasketches", nothing)
    assert run(function, "BYTES", [None, b"x"]) == b"x"
    with pytest.raises(UnsupportedFeatureError, match=r"paimon-spark\[sketches\]"):
        run(function, "BYTES", [b"x", b"y"])
