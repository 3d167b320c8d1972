"""Floating-point numbers as text, and text as such numbers.

Source: Java `Float.toString` and `Double.toString` as JDK 19 and later define them (JDK-4511638).
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.format.arrays.arrow_numpy import boolean_array, validity, values
from paimon_spark.format.arrays.python_values import array_of, scalar_of

_TEXT: Final = pa.string()
_PARTS: Final = r"^(?P<sign>-?)(?P<whole>\d+)\.?(?P<zeros>0*)(?P<rest>\d*)e?\+?(?P<exponent>-?\d*)$"
_FEW: Final = 1000
"""Below so many times the smallest number, two digits may be nearer to a number than the one that tells it apart."""


def float_text(array: pa.Array) -> pa.Array:
    """FLOAT or DOUBLE values as Java prints them: 1.0, 1.0E10, 4.9E-324, NaN, Infinity."""
    size = np.abs(np.nan_to_num(values(array), nan=np.inf))
    odd = validity(array) & ~((size == 0) | ((size >= 1e-3) & (size < 1e7)))
    # Arrow's shortest digits are Java's where there is no exponent, but for whole numbers.
    out = pc.replace_substring_regex(array.cast(_TEXT), r"^-?\d+$", r"\0.0")
    if not odd.any():
        return out
    mask = boolean_array(odd)
    out = pc.replace_with_mask(out, mask, _odd_texts(out.filter(mask)))
    tiny = odd & (size < _FEW * np.finfo(size.dtype).smallest_subnormal)
    if not tiny.any():
        return out
    mask = boolean_array(tiny)
    return pc.replace_with_mask(out, mask, _tiny_texts(array.filter(mask), out.filter(mask)))


def float_of_text(text: str, *, single: bool) -> Any:
    """The numpy float32 or float64 that some writer spelled as `text`; None when it is no number.

    Every spelling that rounds to the number will do: those of older JDKs and of Python, and the digits of the DOUBLE
    that a FLOAT equals.
    """
    try:
        with np.errstate(over="ignore"):
            return np.float32(text) if single else np.float64(text)
    except ValueError:
        return None


def _odd_texts(texts: pa.Array) -> pa.Array:
    """Texts of NaN, infinities and numbers with an exponent, from those of Arrow."""
    parts = pc.extract_regex(texts, _PARTS)
    sign, whole, zeros, rest, written = (parts.field(i) for i in range(5))
    empty, zero, one = scalar_of("", _TEXT), scalar_of("0", _TEXT), scalar_of(1, pa.int32())
    point = pc.if_else(pc.equal(whole, zero), pc.negate(pc.utf8_length(zeros)), pc.utf8_length(whole))
    exponent = pc.if_else(pc.equal(written, empty), pc.subtract(point, one).cast(_TEXT), written)
    digits = pc.utf8_trim(pc.binary_join_element_wise(whole, zeros, rest, empty), "0")
    fraction = pc.utf8_slice_codeunits(digits, start=1)
    fraction = pc.if_else(pc.equal(fraction, empty), zero, fraction)
    first = pc.binary_join_element_wise(sign, pc.utf8_slice_codeunits(digits, start=0, stop=1), empty)
    mantissa = pc.binary_join_element_wise(first, fraction, scalar_of(".", _TEXT))
    numbers = pc.binary_join_element_wise(mantissa, exponent, scalar_of("E", _TEXT))
    words = pc.replace_substring(pc.replace_substring(texts, "inf", "Infinity"), "nan", "NaN")
    return pc.if_else(parts.is_valid(), numbers, words)


def _tiny_texts(array: pa.Array, texts: pa.Array) -> pa.Array:
    """The texts, but where one digit would do, the nearest ones with two."""
    encoded = array.dictionary_encode()
    nearest = array_of([f"{Decimal(v):.1E}" for v in encoded.dictionary.to_pylist()], _TEXT)
    return pc.if_else(pc.match_substring_regex(texts, r"^-?\d\.0E"), nearest.take(encoded.indices), texts)
