from __future__ import annotations

from datetime import date, datetime, timezone
from decimal import Decimal

import pytest
from pyspark.sql import datasource as spark

from paimon_spark.predicate.ast import (
    Column,
    Compare,
    Constant,
    In,
    IsNotNull,
    IsNull,
    Not,
    NullSafeEqual,
    Op,
    Text,
    TextOp,
)
from paimon_spark.spark.filters import to_predicate, translate
from paimon_spark.types import DataType, parse_type

ROW = parse_type({"type": "ROW", "fields": [{"id": 9, "name": "x", "type": "BIGINT"}]})
COLUMNS: dict[str, DataType] = {
    "b": parse_type("BOOLEAN"),
    "i": parse_type("INT"),
    "f": parse_type("FLOAT"),
    "d": parse_type("DOUBLE"),
    "s": parse_type("CHAR(3)"),
    "y": parse_type("BYTES"),
    "n": parse_type("DECIMAL(5, 2)"),
    "day": parse_type("DATE"),
    "time": parse_type("TIME(3)"),
    "at": parse_type("TIMESTAMP(6)"),
    "fine": parse_type("TIMESTAMP(9)"),
    "instant": parse_type("TIMESTAMP(3) WITH LOCAL TIME ZONE"),
    "r": ROW,
    "a": parse_type({"type": "ARRAY", "element": "INT"}),
}


def column(name: str) -> Column:
    return Column((name,), COLUMNS[name])


@pytest.mark.parametrize(
    ("pushed", "expected"),
    [
        (spark.EqualTo(("i",), 1), Compare(Op.EQ, column("i"), 1)),
        (spark.Not(spark.EqualTo(("i",), 1)), Not(Compare(Op.EQ, column("i"), 1))),
        (spark.EqualNullSafe(("i",), None), NullSafeEqual(column("i"), None)),
        (spark.EqualNullSafe(("i",), 2), NullSafeEqual(column("i"), 2)),
        (spark.GreaterThan(("d",), 1.5), Compare(Op.GT, column("d"), 1.5)),
        (spark.LessThanOrEqual(("n",), Decimal("1.50")), Compare(Op.LE, column("n"), Decimal("1.50"))),
        (spark.In(("i",), (1, None)), In(column("i"), (1,), True)),
        (spark.EqualTo(("i",), None), Constant(None)),
        (spark.EqualTo(("b",), True), Compare(Op.EQ, column("b"), True)),
        (spark.GreaterThanOrEqual(("day",), date(2024, 1, 1)), Compare(Op.GE, column("day"), date(2024, 1, 1))),
        (spark.LessThan(("time",), 1000), Compare(Op.LT, column("time"), 1000)),
        (spark.EqualTo(("y",), b"x"), Compare(Op.EQ, column("y"), b"x")),
        (spark.StringStartsWith(("s",), "a%"), Text(TextOp.STARTS_WITH, column("s"), "a%")),
        (spark.StringEndsWith(("s",), "a"), Text(TextOp.ENDS_WITH, column("s"), "a")),
        (spark.StringContains(("s",), "a"), Text(TextOp.CONTAINS, column("s"), "a")),
        (spark.IsNull(("a",)), IsNull(column("a"))),
        (spark.IsNotNull(("fine",)), IsNotNull(column("fine"))),
        (
            spark.EqualTo(("instant",), datetime(2024, 1, 1, tzinfo=timezone.utc)),
            Compare(Op.EQ, column("instant"), datetime(2024, 1, 1, tzinfo=timezone.utc)),
        ),
        (spark.EqualTo(("r", "x"), 1), Compare(Op.EQ, Column(("r", "x"), parse_type("BIGINT")), 1)),
    ],
    ids=str,
)
def test_what_means_the_same_is_taken(pushed: spark.Filter, expected: object) -> None:
    assert to_predicate(pushed, COLUMNS) == expected


@pytest.mark.parametrize(
    "pushed",
    [
        spark.EqualTo(("unknown",), 1),
        spark.EqualTo(("i",), "1"),
        spark.EqualTo(("i",), True),
        spark.EqualTo(("i",), 1.0),
        spark.EqualTo(("d",), 1),
        spark.EqualTo(("s",), 1),
        spark.EqualTo(("day",), datetime(2024, 1, 1)),
        spark.EqualTo(("at",), datetime(2024, 1, 1, tzinfo=timezone.utc)),
        spark.EqualTo(("instant",), datetime(2024, 1, 1)),
        spark.EqualTo(("n",), 1.0),
        spark.EqualTo(("fine",), datetime(2024, 1, 1)),
        spark.EqualTo(("a",), [1]),
        spark.EqualTo(("r",), {"x": 1}),
        spark.EqualTo(("r", "nope"), 1),
        spark.EqualTo(("i", "x"), 1),
        spark.In(("i",), (1, "x")),
        spark.StringContains(("i",), "1"),
        spark.Not(spark.EqualTo(("i",), "1")),
    ],
    ids=str,
)
def test_what_might_mean_something_else_is_handed_back(pushed: spark.Filter) -> None:
    taken, left = translate([pushed], COLUMNS)
    assert taken == []
    assert left == [pushed]
    assert left[0] is pushed
