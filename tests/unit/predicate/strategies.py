"""Random columns, rows and predicates over them."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
from hypothesis import strategies as st

from paimon_spark.predicate.ast import (
    And,
    Column,
    Compare,
    Constant,
    In,
    IsNotNull,
    IsNull,
    Not,
    NullSafeEqual,
    Op,
    Or,
    Predicate,
    Text,
    TextOp,
)
from paimon_spark.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    SMALLINT,
    STRING,
    TINYINT,
    DataField,
    DecimalType,
    RowType,
    TimestampType,
    TimeType,
)

ROW_TYPE = RowType(
    False,
    tuple(
        DataField(i, name, t)
        for i, (name, t) in enumerate(
            {
                "flag": BOOLEAN,
                "tiny": TINYINT,
                "small": SMALLINT,
                "i": INT,
                "big": BIGINT,
                "f": FLOAT,
                "d": DOUBLE,
                "dec": DecimalType(True, 9, 2),
                "wide": DecimalType(True, 30, 5),
                "s": STRING,
                "b": BYTES,
                "day": DATE,
                "t": TimeType(True, 3),
                "ts3": TimestampType(True, 3),
                "ts6": TimestampType(True, 6),
                "lz6": TimestampType(True, 6, True),
                "r": RowType(True, (DataField(100, "x", INT), DataField(101, "y", STRING))),
            }.items()
        )
    ),
)

_floats = st.sampled_from([0.0, -0.0, 1.5, -1.5, 2.0, float("nan"), float("inf"), float("-inf"), 0.1])
_texts = st.text(st.sampled_from("ab%_\\é😀\n\0"), max_size=4)
_moments = st.datetimes(datetime(1960, 1, 1), datetime(2040, 1, 1)) | st.sampled_from(
    [datetime(1969, 12, 31, 23, 59, 59, 999999), datetime(2024, 1, 1), datetime(2024, 1, 1, 0, 0, 0, 500)]
)

VALUES: dict[str, st.SearchStrategy[Any]] = {
    "flag": st.booleans(),
    "tiny": st.integers(-128, 127),
    "small": st.integers(-3, 3) | st.integers(-32768, 32767),
    "i": st.integers(-3, 3),
    "big": st.integers(-3, 3) | st.integers(-(2**63), 2**63 - 1),
    "f": _floats.map(lambda v: float(np.float32(v))),
    "d": _floats | st.floats(),
    "dec": st.decimals(-5, 5, places=2),
    "wide": st.decimals(Decimal(-(10**20)), Decimal(10**20), places=5),
    "s": _texts,
    "b": st.binary(max_size=3),
    "day": st.dates(date(1960, 1, 1), date(2040, 1, 1)),
    "t": st.integers(0, 86_399_999),
    "ts3": _moments.map(lambda v: v.replace(microsecond=v.microsecond // 1000 * 1000)),
    "ts6": _moments,
    "lz6": _moments.map(lambda v: v.replace(tzinfo=UTC)),
}
NAMES = sorted(VALUES)


def column(name: str) -> Column:
    return Column((name,), ROW_TYPE.field(name).type)


rows = st.fixed_dictionaries(
    {
        **{name: st.none() | values for name, values in VALUES.items()},
        "r": st.none() | st.fixed_dictionaries({"x": st.none() | VALUES["i"], "y": st.none() | _texts}),
    }
)


@st.composite
def leaves(draw: st.DrawFn, names: list[str]) -> Predicate:
    name = draw(st.sampled_from(names))
    if name == "r":
        target, values = Column(("r", "x"), INT), VALUES["i"]
    else:
        target, values = column(name), VALUES[name]
    kind = draw(st.integers(0, 6))
    if kind == 0:
        return IsNull(target)
    if kind == 1:
        return IsNotNull(target)
    if kind == 2:
        return In(target, tuple(draw(st.lists(values, max_size=4))), draw(st.booleans()))
    if kind == 3:
        return NullSafeEqual(target, draw(st.none() | values))
    if kind == 4 and name == "s":
        op = draw(st.sampled_from(TextOp))
        pattern = draw(st.text(st.sampled_from(["a", "b", "%", "_", "é", "\n"]), max_size=3))
        return Text(op, target, pattern)
    return Compare(draw(st.sampled_from(Op)), target, draw(values))


def predicates(names: list[str] | None = None) -> st.SearchStrategy[Predicate]:
    return st.recursive(
        leaves(names or [*NAMES, "r"]) | st.sampled_from([Constant(True), Constant(False), Constant(None)]),
        lambda inner: st.one_of(
            st.lists(inner, max_size=3).map(lambda c: And(tuple(c))),
            st.lists(inner, max_size=3).map(lambda c: Or(tuple(c))),
            inner.map(Not),
        ),
        max_leaves=6,
    )
