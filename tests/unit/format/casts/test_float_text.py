"""Texts of numbers, and numbers of texts, against what Java printed."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_spark.format.casts.text import float_of_text, float_text
from tests.harness.java_vectors import float_texts

NAMES = ("FLOAT", "DOUBLE")


@pytest.mark.parametrize("name", NAMES)
def test_text_is_that_of_jdk_19_and_later(name: str) -> None:
    numbers, texts, _ = float_texts(name)
    assert float_text(pa.array(numbers)).to_pylist() == texts


@pytest.mark.parametrize("name", NAMES)
def test_numbers_are_those_that_any_jdk_and_python_wrote(name: str) -> None:
    numbers, new, old = float_texts(name)
    assert new != old
    for text in (new, old, [str(number) for number in numbers], [str(float(number)) for number in numbers]):
        found = [float_of_text(t, single=name == "FLOAT") for t in text]
        assert [np.isnan(f) or f.tobytes() for f in found] == [np.isnan(n) or n.tobytes() for n in numbers]


@pytest.mark.parametrize("text", ["", "x", "__DEFAULT_PARTITION__", "1.0f", "0x1p3"])
def test_other_text_is_no_number(text: str) -> None:
    assert float_of_text(text, single=True) is None
    assert float_of_text(text, single=False) is None


def test_nulls_stay_beside_every_form() -> None:
    array = pa.array([None, 1.5, None, 1e300, float("nan"), 5e-324, None, -0.0])
    assert float_text(array).to_pylist() == [None, "1.5", None, "1.0E300", "NaN", "4.9E-324", None, "-0.0"]
    assert float_text(array.slice(3, 3)).to_pylist() == ["1.0E300", "NaN", "4.9E-324"]
    assert float_text(array.slice(0, 0)).to_pylist() == []


@given(st.lists(st.floats(width=32)), st.sampled_from([pa.float32(), pa.float64()]))
def test_text_reads_back_as_the_number(numbers: list[float], kind: pa.DataType) -> None:
    array = pa.array(numbers, kind)
    for number, text in zip(array.to_numpy(zero_copy_only=False), float_text(array).to_pylist(), strict=True):
        found = float_of_text(text, single=kind == pa.float32())
        assert np.isnan(found) == np.isnan(number)
        assert np.isnan(number) or found.tobytes() == number.tobytes()
