"""Conditions as text are parsed into predicates, or refused with their text."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
import sqlglot

from paimon_spark.errors import ColumnNotFoundError, InvalidOptionError, PredicateSyntaxError
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
from paimon_spark.predicate.literals import always, never
from paimon_spark.predicate.parse import build_predicate, parse_predicate
from paimon_spark.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    STRING,
    DataField,
    DataType,
    DecimalType,
    RowType,
    TimestampType,
    TimeType,
)

TYPES: dict[str, DataType] = {
    "i": INT,
    "s": STRING,
    "d": DOUBLE,
    "f": FLOAT,
    "n": DecimalType(True, 10, 2),
    "w": DecimalType(True, 30, 2),
    "dt": DATE,
    "ts": TimestampType(True, 6),
    "lz": TimestampType(True, 6, True),
    "b": BYTES,
    "flag": BOOLEAN,
    "big": BIGINT,
    "t": TimeType(True, 3),
    "Cased": INT,
    "cased": INT,
    "odd `name": INT,
    "r": RowType(True, (DataField(50, "x", INT), DataField(51, "y", RowType(True, (DataField(52, "Z", STRING),))))),
}
ROW_TYPE = RowType(False, tuple(DataField(i, n, t) for i, (n, t) in enumerate(TYPES.items())))


def col(name: str) -> Column:
    return Column((name,), TYPES[name])


def parse(text: str, zone: str | None = "UTC") -> Predicate:
    return parse_predicate(text, ROW_TYPE, zone)


INTS, S, D, F, N, DT, TS, LZ, B, FLAG, BIG = map(col, ("i", "s", "d", "f", "n", "dt", "ts", "lz", "b", "flag", "big"))


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("i = 1", Compare(Op.EQ, INTS, 1)),
        ("i == 1", Compare(Op.EQ, INTS, 1)),
        ("i != -1", Compare(Op.NE, INTS, -1)),
        ("1 < i", Compare(Op.GT, INTS, 1)),
        ("1 >= i", Compare(Op.LE, INTS, 1)),
        ("I = 1", Compare(Op.EQ, INTS, 1)),
        ("`i` = 1L", Compare(Op.EQ, INTS, 1)),
        ("`odd ``name` = 1", Compare(Op.EQ, col("odd `name"), 1)),
        ("Cased = 1", Compare(Op.EQ, col("Cased"), 1)),
        ("i <=> 1", NullSafeEqual(INTS, 1)),
        ("i <=> NULL", NullSafeEqual(INTS, None)),
        ("i IS NOT DISTINCT FROM 1", NullSafeEqual(INTS, 1)),
        ("i IS DISTINCT FROM 1", Not(NullSafeEqual(INTS, 1))),
        ("i IS NULL", IsNull(INTS)),
        ("i IS NOT NULL", IsNotNull(INTS)),
        ("isnull(i)", IsNull(INTS)),
        ("i IN (1, NULL, -2)", In(INTS, (1, -2), True)),
        ("i NOT IN (1)", Not(In(INTS, (1,)))),
        ("i IN (NULL)", Constant(None)),
        ("i IN (1, 1.5)", In(INTS, (1,))),
        ("i BETWEEN 1 AND 2.5", And((Compare(Op.GE, INTS, 1), Compare(Op.LE, INTS, 2)))),
        ("i NOT BETWEEN 1 AND 2", Not(And((Compare(Op.GE, INTS, 1), Compare(Op.LE, INTS, 2))))),
        ("i = NULL", Constant(None)),
        ("flag", Compare(Op.EQ, FLAG, True)),
        ("NOT flag", Not(Compare(Op.EQ, FLAG, True))),
        ("flag = false", Compare(Op.EQ, FLAG, False)),
        ("flag IS TRUE", NullSafeEqual(FLAG, True)),
        ("flag IS NOT FALSE", Not(NullSafeEqual(FLAG, False))),
        ("flag = 'TRUE'", Compare(Op.EQ, FLAG, True)),
        ("true", Constant(True)),
        ("1 = 1", Constant(True)),
        ("1 = 2 OR i = 1", Or((Constant(False), Compare(Op.EQ, INTS, 1)))),
        ("NOT i = 1 AND s = 'x'", And((Not(Compare(Op.EQ, INTS, 1)), Compare(Op.EQ, S, "x")))),
        ("true AND (flag OR i = 1)", And((Constant(True), Or((Compare(Op.EQ, FLAG, True), Compare(Op.EQ, INTS, 1)))))),
        ("s = \"it's\"", Compare(Op.EQ, S, "it's")),
        (r"s = 'it\'s \\ \n'", Compare(Op.EQ, S, "it's \\ \n")),
        ("s = 'a' 'b'", Compare(Op.EQ, S, "ab")),
        ("s LIKE 'a%'", Text(TextOp.LIKE, S, "a%")),
        ("s NOT LIKE 'a%'", Not(Text(TextOp.LIKE, S, "a%"))),
        ("NOT s NOT LIKE 'a%'", Not(Not(Text(TextOp.LIKE, S, "a%")))),
        ("s NOT LIKE 'a!%' ESCAPE '!'", Not(Text(TextOp.LIKE, S, r"a\%"))),
        (r"s LIKE 'a\_%'", Text(TextOp.LIKE, S, r"a\_%")),
        ("s LIKE 'a/%\\\\' ESCAPE '/'", Text(TextOp.LIKE, S, "a\\%\\\\")),
        ("startswith(s, 'x')", Text(TextOp.STARTS_WITH, S, "x")),
        ("endswith(s, 'x')", Text(TextOp.ENDS_WITH, S, "x")),
        ("contains(s, 'x')", Text(TextOp.CONTAINS, S, "x")),
        ("b = X'0aFF'", Compare(Op.EQ, B, b"\x0a\xff")),
        ("r.x = 1", Compare(Op.EQ, Column(("r", "x"), INT), 1)),
        ("R.Y.z = 'q'", Compare(Op.EQ, Column(("r", "y", "Z"), STRING), "q")),
        ("r IS NULL", IsNull(col("r"))),
        ("t = 1000", Compare(Op.EQ, col("t"), 1000)),
        # literals move onto the column's grid
        ("i = 1.5", never(INTS)),
        ("i <> 1.5", always(INTS)),
        ("i < 1.5", Compare(Op.LE, INTS, 1)),
        ("i >= 1.5", Compare(Op.GT, INTS, 1)),
        ("i <= -1.5", Compare(Op.LE, INTS, -2)),
        ("i = 1.0", Compare(Op.EQ, INTS, 1)),
        ("i < 3000000000", always(INTS)),
        ("i = 3000000000", never(INTS)),
        ("i > -3000000000", always(INTS)),
        ("i <=> 1.5", Constant(False)),
        ("i <> '7'", Compare(Op.NE, INTS, 7)),
        ("big < 1e5", Compare(Op.LT, BIG, 100000)),
        ("big = 99999999999999999999", never(BIG)),
        ("d = 1", Compare(Op.EQ, D, 1.0)),
        ("d = 1.5BD", Compare(Op.EQ, D, 1.5)),
        ("f = 0.5", Compare(Op.EQ, F, 0.5)),
        ("f = 1.1", never(F)),
        ("f < 1.1", Compare(Op.LE, F, 1.0999999046325684)),
        ("f >= 1.1F", Compare(Op.GE, F, 1.100000023841858)),
        ("n = 1.5", Compare(Op.EQ, N, Decimal("1.50"))),
        ("n = 1.234", never(N)),
        ("n < 1.234", Compare(Op.LE, N, Decimal("1.23"))),
        ("n < -1.234", Compare(Op.LE, N, Decimal("-1.24"))),
        ("n < 100000000", always(N)),
        ("n >= -100000000", always(N)),
        ("n = 0.1e0", Compare(Op.EQ, N, Decimal("0.10"))),
        ("n > '2.5'", Compare(Op.GT, N, Decimal("2.50"))),
        ("w = 1.5", Compare(Op.EQ, col("w"), Decimal("1.50"))),
        ("w = -" + "9" * 28 + ".25", Compare(Op.EQ, col("w"), Decimal("-" + "9" * 28 + ".25"))),
        ("dt = '2024-1-2'", Compare(Op.EQ, DT, date(2024, 1, 2))),
        ("dt = DATE '2024-01-02'", Compare(Op.EQ, DT, date(2024, 1, 2))),
        ("dt < TIMESTAMP '2024-01-02 00:00:00'", Compare(Op.LT, DT, date(2024, 1, 2))),
        ("dt < TIMESTAMP '2024-01-02 10:00:00'", Compare(Op.LE, DT, date(2024, 1, 2))),
        ("ts = '2024-01-02 03:04:05.678901'", Compare(Op.EQ, TS, datetime(2024, 1, 2, 3, 4, 5, 678901))),
        ("ts = TIMESTAMP_NTZ '2024-01-02'", Compare(Op.EQ, TS, datetime(2024, 1, 2))),
        ("ts = DATE '2024-01-02'", Compare(Op.EQ, TS, datetime(2024, 1, 2))),
        ("ts = TIMESTAMP '2024-01-02 00:00:00+02:00'", Compare(Op.EQ, TS, datetime(2024, 1, 1, 22))),
        ("lz = '2024-01-02'", Compare(Op.EQ, LZ, datetime(2024, 1, 2, tzinfo=UTC))),
        ("lz = '2024-01-02 03:04 Europe/Berlin'", Compare(Op.EQ, LZ, datetime(2024, 1, 2, 2, 4, tzinfo=UTC))),
    ],
)  # fmt: skip
def test_text_becomes_a_tree(text: str, want: Predicate) -> None:
    assert parse(text) == want


def test_text_without_a_zone_is_in_the_zone_of_the_option() -> None:
    summer = parse("lz = TIMESTAMP '2024-07-01 12:00:00'", "Europe/Berlin")
    assert summer == Compare(Op.EQ, LZ, datetime(2024, 7, 1, 10, tzinfo=UTC))
    assert parse("ts = '2024-07-01'", "Europe/Berlin") == Compare(Op.EQ, TS, datetime(2024, 7, 1))
    gap = parse("lz = '2024-03-31 02:30:00'", "Europe/Berlin")
    assert gap == Compare(Op.EQ, LZ, datetime(2024, 3, 31, 1, 30, tzinfo=UTC))
    with pytest.raises(InvalidOptionError, match="unknown time zone 'Mars/Base'"):
        parse("lz = '2024-01-01'", "Mars/Base")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("i = 'x'", "'x' is not such a number"),
        ("i = true", "cannot be compared with true"),
        ("i", "not BOOLEAN"),
        ("i LIKE '1%'", "like needs text, found column i, INT"),
        ("s ILIKE 'x'", "ILIKE"),
        (r"s LIKE 'a\\b'", "must stand before"),
        ("r = 1", "cannot be compared"),
        ("i IN (SELECT 1)", "SELECT"),
        ("i IN ()", "not supported"),
        ("i =", "cannot parse the condition 'i =': an operand is missing beside '=' at position 3$"),
        ("(i = 1", r"expected \) after '1' at position 6$"),
        ("i = 1\nAND s t u", "unexpected 't' at position 7 of line 2$"),
        ("i = 1; DROP TABLE x", "unexpected 'DROP' at position 8$"),
        ("i = 1; i = 2", "expected one condition"),
        ("", "expected one condition"),
        ("i = 1 LIMIT 1", "unexpected 'LIMIT' at position 7$"),
        ("dt = '2024-02-30'", "not a date"),
        ("ts = '2024-01-01 25:00:00'", "not a timestamp"),
        ("ts = '2024-01-01 00:00:00+01:00'", "names a time zone"),
        ("i = 300Y", "casts 300 to TINYINT"),
        ("b = X'zz'", "zz"),
        ("lz = '0001-01-01 00:00:00+10:00'", "outside the years"),
        ("SELECT 1", "unexpected 'SELECT' at position 1$"),
        ("(" * 5000 + "i = 1" + ")" * 5000, "nested too deeply"),
    ],
)
def test_what_is_no_condition_is_refused_with_its_text(text: str, says: str) -> None:
    with pytest.raises(PredicateSyntaxError, match=says):
        parse(text)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("flags = true", r"column 'flags' does not exist; did you mean 'flag'\?"),
        ("zzz = 1", "there are i, s, d"),
        ("CASED = 1", "ambiguous: Cased, cased"),
        ("i.x = 1", "i is INT, it has no fields"),
        ("r.q = 1", "column 'r.q' does not exist"),
    ],
)
def test_an_unknown_column_is_named_with_the_nearest(text: str, says: str) -> None:
    with pytest.raises(ColumnNotFoundError, match=says):
        parse(text)


def test_long_conditions_do_not_exhaust_the_stack() -> None:
    parsed = parse(" OR ".join(f"i = {k}" for k in range(3000)))
    assert isinstance(parsed, Or)
    assert len(parsed.children) == 3000


@pytest.mark.parametrize("name", ["comment", "set", "desc", "begin"])
def test_a_column_may_have_the_name_of_a_command(name: str) -> None:
    columns = RowType(False, (DataField(0, name, STRING),))
    assert parse_predicate(f"{name} = 'x'", columns) == Compare(Op.EQ, Column((name,), STRING), "x")


def test_a_tree_is_built_as_its_text_is() -> None:
    for text in ("i = 1 AND NOT (s LIKE 'a%' OR dt IN (DATE '2024-01-01', NULL))", "flag", "n BETWEEN 1.5 AND 2"):
        tree = sqlglot.parse_one(text, dialect="spark")
        assert build_predicate(tree, ROW_TYPE) == parse_predicate(text, ROW_TYPE)
    with pytest.raises(PredicateSyntaxError, match=r"condition 'ROUND\(i\) = 2': 'ROUND\(i\)' is not supported"):
        build_predicate(sqlglot.parse_one("round(i) = 2", dialect="spark"), ROW_TYPE)
