"""Aggregate functions: the column form equals the value-by-value form, and both follow Java's rules."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_spark.engine.merge import aggregators_collections
from paimon_spark.engine.merge.aggregators import Aggregator, Events
from paimon_spark.engine.merge.exact_values import frozen
from paimon_spark.engine.merge.key_value import ColumnResult, Groups, take
from paimon_spark.errors import DataError, InvalidOptionError, UnsupportedFeatureError
from paimon_spark.format.arrays.arrow_types import arrow_type
from paimon_spark.format.arrays.pieces import joined
from paimon_spark.metadata.definition.merge_rules import check_function
from paimon_spark.options.core import FieldOptions, parse_merge_options
from paimon_spark.types import DataType, parse_type
from tests.harness.search import examples

NESTED = {"type": "ARRAY", "element": {"type": "ROW", "fields": [
    {"id": 1, "name": "k", "type": "INT"}, {"id": 2, "name": "v", "type": "STRING"},
    {"id": 3, "name": "s", "type": "INT"},
]}}  # fmt: skip
TIMED = {"type": "MAP", "key": "STRING", "value": {"type": "ROW", "fields": [
    {"id": 1, "name": "v", "type": "INT"}, {"id": 2, "name": "ts", "type": "STRING"},
]}}  # fmt: skip
ARRAY = {"type": "ARRAY", "element": "INT"}
MAP = {"type": "MAP", "key": "STRING", "value": "INT"}


def aggregator(function: str, options: FieldOptions, type: DataType) -> Aggregator:
    check_function(function, options, type)
    return Aggregator(function, options, type)


def column_of(column: pa.Array, result: ColumnResult) -> list[Any]:
    values: list[Any] = take(joined([column, *result.extra]), result.rows).to_pylist()
    return values


def run(function: str, type: Any, values: list[Any], kinds: str = "", older: str = "", **options: str) -> Any:
    """The function over one group; `kinds` has `-` where a value retracts, `older` has `o` where it is older."""
    t = parse_type(type)
    column = pa.array(values, arrow_type(t))
    raw = {f"fields.c.{n.replace('_', '-')}": v for n, v in options.items()}
    groups = Groups(np.arange(len(values)), np.zeros(1, np.int64))
    retract = np.array([k == "-" for k in kinds.ljust(len(values))])
    beneath = np.array([o == "o" for o in older.ljust(len(values))])
    events = Events(
        groups,
        retract=retract if retract.any() else None,
        older=beneath if beneath.any() else None,
    )
    (out,) = column_of(column, aggregator(function, parse_merge_options(raw).column("c"), t).aggregate(column, events))
    return out


SYMMETRIC: list[tuple[str, Any, st.SearchStrategy[Any]]] = [
    ("sum", "INT", st.integers(-100, 100)),
    ("sum", "BIGINT", st.sampled_from([2**62, -(2**62), 2**63 - 1, 1, -5])),
    ("sum", "TINYINT", st.integers(-128, 127)),
    ("sum", "DOUBLE", st.sampled_from([0.1, 1e16, -1e16, 0.3, -0.0, math.inf])),
    ("sum", "FLOAT", st.sampled_from([0.5, 2.0**24, 1.0, -(2.0**24)])),
    ("sum", "DECIMAL(3, 1)", st.decimals(-99, 99, places=1)),
    ("sum", "DECIMAL(38, 2)", st.sampled_from([Decimal("9e35"), Decimal("-9e35"), Decimal("1.25")])),
    ("product", "INT", st.integers(-50, 50)),
    ("product", "DOUBLE", st.sampled_from([0.1, 3.0, -7.5])),
    ("product", "DECIMAL(10, 2)", st.decimals(-99, 99, places=2)),
    ("max", "DOUBLE", st.sampled_from([0.0, -0.0, math.nan, -1.0, math.inf])),
    ("min", "FLOAT", st.sampled_from([0.0, -0.0, math.nan, -1.0, math.inf])),
    ("max", "STRING", st.sampled_from(["", "a", "é", "b" * 20, "b" * 19 + "c"])),
    ("min", "DECIMAL(38, 2)", st.decimals(-(10**30), 10**30, places=2)),
    ("max", "BOOLEAN", st.booleans()),
    ("bool_and", "BOOLEAN", st.booleans()),
    ("bool_or", "BOOLEAN", st.booleans()),
    ("last_value", "INT", st.integers(0, 9)),
    ("last_non_null_value", "STRING", st.sampled_from("abc")),
    ("first_value", "INT", st.integers(0, 9)),
    ("first_non_null_value", "INT", st.integers(0, 9)),
    ("listagg", "STRING", st.sampled_from(["", " ", "a", "b,c", "a"])),
    ("collect", ARRAY, st.lists(st.none() | st.integers(0, 3), max_size=3)),
    ("merge_map", MAP, st.dictionaries(st.sampled_from("abc"), st.integers(0, 3)).map(lambda d: [*d.items()])),
]  # fmt: skip
NO_RETRACT = {"max", "min", "bool_and", "bool_or", "first_value", "first_non_null_value", "listagg"}


@st.composite
def events(draw: st.DrawFn) -> tuple[str, Any, pa.Array, Events]:
    function, type_, values = draw(st.sampled_from(SYMMETRIC))
    sizes = draw(st.lists(st.integers(1, 5), min_size=1, max_size=5))
    count = sum(sizes)
    column = pa.array(draw(st.lists(st.none() | values, min_size=count, max_size=count)), arrow_type(parse_type(type_)))
    rows = np.array(draw(st.permutations(range(count))))
    groups = Groups(rows, np.cumsum([0, *sizes[:-1]]))

    def mask(wanted: bool) -> Any:
        drawn = np.array(draw(st.lists(st.booleans(), min_size=count, max_size=count)))
        return drawn if wanted and drawn.any() else None

    retract = mask(function not in NO_RETRACT and draw(st.booleans()))
    older = None if retract is not None else mask(draw(st.booleans()))
    if older is not None:
        older[groups.starts] = False
    reset = mask(function not in NO_RETRACT and older is None and draw(st.booleans()))
    if reset is not None and retract is not None:
        retract = retract & ~reset
    counted = mask(draw(st.booleans()))
    if counted is not None and reset is not None:
        counted |= reset
    if counted is not None and older is not None:
        counted = None
    return function, type_, column, Events(groups, counted, retract, reset, older)


@pytest.mark.ci
@settings(max_examples=examples(600), deadline=None)
@given(events())
def test_columns_and_single_values_agree(case: tuple[str, Any, pa.Array, Events]) -> None:
    function, type_, column, what = case
    made = aggregator(function, parse_merge_options({}).column("c"), parse_type(type_))
    everything = np.ones(len(what.groups), np.bool_)
    try:
        expected = made.exactly(column, what, everything).to_pylist()
    except DataError:
        if what.reset is None:  # else what overflowed may have been wiped out, which columns do not look at
            with pytest.raises(DataError):
                made.aggregate(column, what)
        return
    assert repr(column_of(column, made.aggregate(column, what))) == repr(expected)


def collected(steps: list[tuple[list[int] | None, bool]], distinct: bool) -> list[int] | None:
    """The rules of `collect`, step by step."""
    acc: list[int] | None = None
    for values, is_retract in steps:
        if is_retract:
            for value in values or ():
                if acc is not None and value in acc:
                    acc.remove(value)
        elif values is not None or acc is not None:
            acc = [*(acc or ()), *(values or ())]
            acc = list(dict.fromkeys(acc)) if distinct else acc
    return acc


STEPS = st.lists(st.tuples(st.none() | st.lists(st.integers(0, 3), max_size=4), st.booleans()), min_size=1, max_size=9)


@given(STEPS, st.booleans())
def test_lists_are_collected_step_by_step(steps: list[tuple[list[int] | None, bool]], distinct: bool) -> None:
    kinds = "".join("-" if is_retract else " " for _, is_retract in steps)
    options = {"distinct": "true"} if distinct else {}
    assert run("collect", ARRAY, [v for v, _ in steps], kinds, **options) == collected(steps, distinct)


@given(STEPS)
def test_nested_rows_are_updated_step_by_step(steps: list[tuple[list[int] | None, bool]]) -> None:
    table: dict[int, dict[str, Any]] | None = None
    values = []
    for number, (keys, is_retract) in enumerate(steps):
        rows: list[dict[str, Any]] | None = None
        if keys is not None:
            rows = [{"k": k, "v": str(number), "s": None} for k in keys]
        values.append(rows)
        if is_retract:
            for row in rows or () if table is not None else ():
                table.pop(row["k"], None)  # type: ignore[union-attr]
        elif rows is not None:
            table = {**(table or {}), **{row["k"]: row for row in rows}}
    kinds = "".join("-" if is_retract else " " for _, is_retract in steps)
    expected = None if table is None else list(table.values())
    assert run("nested_update", NESTED, values, kinds, nested_key="k") == expected


@pytest.mark.parametrize(
    "function", ["listagg", "collect", "merge_map_with_keytime", "nested_update", "nested_partial_update"]
)
def test_a_key_of_many_rows_takes_each_value_once(function: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0

    def counted(value: Any) -> Any:
        nonlocal calls
        calls += 1
        return frozen(value)

    monkeypatch.setattr(aggregators_collections, "frozen", counted)
    count = 2000
    given_: dict[str, tuple[Any, Any, dict[str, str]]] = {
        "listagg": ("STRING", lambda i: f"t{i}", {"distinct": "true"}),
        "collect": ({"type": "ARRAY", "element": "DOUBLE"}, lambda i: [float(i)], {"distinct": "true"}),
        "merge_map_with_keytime": (TIMED, lambda i: [(str(i), {"v": i, "ts": "t"})], {}),
        "nested_update": (NESTED, lambda i: [{"k": i, "v": "x", "s": 1}], {"nested_key": "k"}),
        "nested_partial_update": (NESTED, lambda i: [{"k": i, "v": "x", "s": 1}], {"nested_key": "k"}),
    }
    type_, value, options = given_[function]
    found = run(function, type_, [value(i) for i in range(count)], **options)
    assert len(found.split(",") if function == "listagg" else found) == count
    assert calls <= 2 * count


def test_long_groups_of_floats_are_added_in_order() -> None:
    values = [0.1 * n for n in range(1000)]
    total = 0.0
    for v in values:
        total += v
    assert run("sum", "DOUBLE", values) == total


def test_integers_do_not_wrap() -> None:
    with pytest.raises(DataError, match=r"'c'.*sum overflows int32: 2147483647 \+ 1"):
        run("sum", "INT", [2147483647, 1])
    with pytest.raises(DataError, match="overflows int64"):
        run("product", "BIGINT", [2**40, 2**40, 0])
    with pytest.raises(DataError, match=r"-\(-128\)"):
        run("sum", "TINYINT", [-128], "-")
    assert run("sum", "INT", [2147483647, -1, 1]) == 2147483647


def test_decimals_that_do_not_fit_are_null() -> None:
    assert run("sum", "DECIMAL(3, 1)", [Decimal("99.9"), Decimal("0.2")]) is None
    assert run("sum", "DECIMAL(3, 1)", [Decimal("99.9"), Decimal("0.2"), Decimal(-50)]) == Decimal("50.1")
    nines = Decimal("9" * 38)
    assert run("sum", "DECIMAL(38, 0)", [nines, nines, Decimal(5)]) == 5
    assert run("product", "DECIMAL(4, 2)", [Decimal("1.25"), Decimal("1.25")]) == Decimal("1.56")


def test_product_is_taken_back_by_division() -> None:
    assert run("product", "INT", [7, 2, 2], "  -") == 7
    assert run("product", "INT", [-7, 2], " -") == -3
    with pytest.raises(DataError, match="divides by zero"):
        run("product", "INT", [7, 0], " -")


@pytest.mark.parametrize("function", ["max", "min", "first_value", "first_non_null_value"])
def test_what_cannot_retract_says_how_to_ignore(function: str) -> None:
    with pytest.raises(DataError, match=r"fields\.c\.ignore-retract"):
        run(function, "INT", [1, 2], " -")
    assert run(function, "INT", [1, 2], " -", ignore_retract="true") == 1


def test_older_values_go_beneath() -> None:
    assert run("last_value", "INT", [1, 2, 3], older=" oo") == 1
    assert run("last_non_null_value", "INT", [None, 2, 3], older=" oo") == 2
    assert run("first_value", "INT", [1, 2, 3], older=" oo") == 3
    assert run("listagg", "STRING", ["a", "b", "c"], older=" o ") == "b,a,c"


def test_listagg() -> None:
    assert run("listagg", "STRING", ["a", None, " ", "b"]) == "a,b"
    assert run("listagg", "STRING", [" ", None]) is None
    assert run("listagg", "STRING", ["a", "b"], list_agg_delimiter="; ") == "a; b"
    assert run("listagg", "STRING", ["a,b", "b,c", "a,d"], distinct="true") == "a,b,c,d"


def test_collect() -> None:
    assert run("collect", ARRAY, [[1, 2], None, [2, None]]) == [1, 2, 2, None]
    assert run("collect", ARRAY, [[1, 1], [2, 1]], distinct="true") == [1, 2]
    assert run("collect", ARRAY, [[1, 1, 2], [1, 3]], " -") == [1, 2]
    assert run("collect", ARRAY, [None, None]) is None


def test_collect_and_nested_update_take_maps_for_equal_in_any_order_of_their_entries() -> None:
    one, other = [("a", 1), ("b", 2)], [("b", 2), ("a", 1)]
    maps = {"type": "ARRAY", "element": MAP}
    assert run("collect", maps, [[one], [other, [("a", 1)]]], distinct="true") == [one, [("a", 1)]]
    assert run("collect", maps, [[one, one], [other]], " -") == [one]
    rows = {"type": "ARRAY", "element": {"type": "ROW", "fields": [{"id": 1, "name": "m", "type": MAP}]}}
    assert run("nested_update", rows, [[{"m": one}, {"m": []}], [{"m": other}]], " -") == [{"m": []}]


def test_merge_map() -> None:
    assert run("merge_map", MAP, [{"a": 1, "b": 2}, None, {"b": 3}]) == [("a", 1), ("b", 3)]
    assert run("merge_map", MAP, [{"a": 1, "b": 2}, {"a": 9}], " -") == [("b", 2)]


def test_merge_map_with_keytime() -> None:
    def entry(value: int, ts: str | None) -> dict[str, Any]:
        return {"v": value, "ts": ts}

    old = {"a": entry(1, "2024"), "b": entry(2, "2024"), "c": entry(3, None)}
    new = {"a": entry(9, "2023"), "b": entry(8, "2025"), "c": entry(7, "2020"), "d": entry(6, None)}
    out = dict(run("merge_map_with_keytime", TIMED, [old, new]))
    assert out == {"a": entry(1, "2024"), "b": entry(8, "2025"), "c": entry(7, "2020")}
    assert run("merge_map_with_keytime", TIMED, [old, {"a": None}], ts_field="ts")[0][0] == "b"


def element(k: int | None, v: str | None, s: int | None = None) -> dict[str, Any]:
    return {"k": k, "v": v, "s": s}


def test_nested_update_by_key() -> None:
    a, b, newer, beaten = element(1, "a", 5), element(2, "b", 1), element(1, "A", 6), element(1, "x", 4)
    assert run("nested_update", NESTED, [[a, None], [b, newer]], nested_key="k") == [newer, b]
    out = run("nested_update", NESTED, [[a], [beaten]], nested_key="k", nested_sequence_field="s")
    assert out == [a]
    assert run("nested_update", NESTED, [[a], [b]], nested_key="k", count_limit="1") == [a]
    assert run("nested_update", NESTED, [[a, b], [newer]], " -", nested_key="k") == [b]


def test_nested_update_without_key_appends() -> None:
    a, b = element(1, "a"), element(2, "b")
    assert run("nested_update", NESTED, [[a, None], [b, a]]) == [a, b, a]
    assert run("nested_update", NESTED, [[a], [b, a]], count_limit="2") == [a, b]
    assert run("nested_update", NESTED, [[a, b, a], [a]], " -") == [b]


def test_nulls_in_nested_keys_follow_the_strategy() -> None:
    null, one = element(None, "n"), element(1, "o")
    key = {"nested_key": "k"}
    assert run("nested_update", NESTED, [[null], [one]], **key) == [null, one]
    assert run("nested_update", NESTED, [[null], [one]], nested_key_null_strategy="ignore", **key) == [one]
    with pytest.raises(DataError, match="null in its nested key"):
        run("nested_update", NESTED, [[null], [one]], nested_key_null_strategy="error", **key)


def test_nested_partial_update() -> None:
    out = run(
        "nested_partial_update", NESTED, [[element(1, "a")], [element(1, None, 7), element(2, "b")]], nested_key="k"
    )
    assert out == [element(1, "a", 7), element(2, "b")]
    with pytest.raises(InvalidOptionError, match="nested-key"):
        run("nested_partial_update", NESTED, [[]])


def test_unknown_functions_and_wrong_types_are_refused() -> None:
    with pytest.raises(UnsupportedFeatureError, match="median"):
        run("median", "INT", [1])
    with pytest.raises(InvalidOptionError, match="needs a number, the column is STRING"):
        run("sum", "STRING", ["a"])


def test_temporal_values_survive_the_exact_path() -> None:
    t = {"type": "ARRAY", "element": "TIMESTAMP(9)"}
    stamps = pa.array([[1, 2], [3]], pa.list_(pa.int64())).cast(arrow_type(parse_type(t)))
    made = aggregator("collect", parse_merge_options({}).column("c"), parse_type(t))
    groups = Groups(np.arange(2), np.zeros(1, np.int64))
    result = made.aggregate(stamps, Events(groups))
    out = take(joined([stamps, *result.extra]), result.rows).cast(pa.list_(pa.int64()))
    assert out.to_pylist() == [[1, 2, 3]]
