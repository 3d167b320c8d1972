"""Aggregate functions of sketches and bitmaps, whose values are bytes: hll_sketch, theta_sketch, rbm32, rbm64.

Sketches need the library of Apache DataSketches (the extra `sketches`); without it two values are refused.
An accumulator is bytes until a second value comes, then what they decode to.

Source: Java `mergetree/compact/aggregate/Field{HllSketch,ThetaSketch,RoaringBitmap32,RoaringBitmap64}Agg`,
`utils/HllSketchUtil`, `utils/ThetaSketch`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from paimon_spark.errors import DataError, FormatError, UnsupportedFeatureError
from paimon_spark.format.metadata_files import roaring


class Union(NamedTuple):
    """How values of one function are united.

    Attributes:
        decode: bytes → object; raises FormatError.
        unite: the accumulator, then the new value.
        encode: object → bytes.
    """

    decode: Callable[[bytes], Any]
    unite: Callable[[Any, Any], Any]
    encode: Callable[[Any], bytes]


def union_of(function: str, column: str) -> Union:
    """The union of one of `FUNCTIONS`.

    Raises:
        UnsupportedFeatureError: it needs a library that is not installed.
    """
    return _UNIONS[function](column, function)


def decoded(union: Union, value: Any, column: str, function: str) -> Any:
    """The object of a value, which may be one already.

    Raises:
        DataError: the bytes are not of this function's kind.
    """
    if not isinstance(value, bytes):
        return value
    try:
        return union.decode(value)
    except FormatError as e:
        raise DataError(
            f"column {column!r}: a value of {len(value)} bytes cannot be merged by aggregate function "
            f"{function!r}: {e}",
            column=column,
        ) from e


def _library(column: str, function: str) -> Any:
    try:
        return importlib.import_module("datasketches")
    except ImportError as e:
        raise UnsupportedFeatureError(
            f"column {column!r}: merging values of aggregate function {function!r} needs the library of Apache "
            "DataSketches: pip install 'paimon-spark[sketches]', or compact the table fully with Paimon, or read "
            "without this column",
            feature=function,
        ) from e


def _decoder(decode: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    def run(data: bytes) -> Any:
        try:
            return decode(data)
        except (ValueError, IndexError, RuntimeError, MemoryError) as e:
            raise FormatError(f"the library cannot read it: {e}") from e

    return run


def _hll(column: str, function: str) -> Union:
    library = _library(column, function)

    def unite(acc: Any, new: Any) -> Any:
        union = library.hll_union(new.lg_config_k)
        union.update(new)
        union.update(acc)
        return union.get_result(library.tgt_hll_type.HLL_4)

    return Union(_decoder(library.hll_sketch.deserialize), unite, lambda sketch: bytes(sketch.serialize_compact()))


def _theta(column: str, function: str) -> Union:
    library = _library(column, function)

    def unite(acc: Any, new: Any) -> Any:
        union = library.theta_union()
        union.update(acc)
        union.update(new)
        return union.get_result()

    return Union(_decoder(library.compact_theta_sketch.deserialize), unite, lambda sketch: bytes(sketch.serialize()))


_UNIONS: Final[dict[str, Callable[[str, str], Union]]] = {
    "hll_sketch": _hll,
    "theta_sketch": _theta,
    "rbm32": lambda _column, _function: Union(roaring.decode32, roaring.union, roaring.encode32),
    "rbm64": lambda _column, _function: Union(roaring.decode64, roaring.union, roaring.encode64),
}
FUNCTIONS: Final = frozenset(_UNIONS)
