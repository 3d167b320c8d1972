"""Conditions in the form in which `java/Conditions.java` passes them, and what they mean."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from paimon_spark.predicate.ast import show
from paimon_spark.spark_catalog.reads.predicates import conditions_of
from paimon_spark.types import BIGINT, DATE, INT, STRING, AtomicType, BinaryType, DataField, DecimalType, RowType

_TYPES = (
    ("n", INT), ("big", BIGINT), ("d", DATE), ("s", STRING), ("f", AtomicType(name="FLOAT")),
    ("x", AtomicType(name="DOUBLE")), ("b", AtomicType(name="BOOLEAN")), ("y", BinaryType(length=9)),
    ("m", DecimalType(precision=9, scale=2)), ("r", RowType(fields=(DataField(9, "in", INT),))),
)  # fmt: skip
COLUMNS = RowType(fields=tuple(DataField(i, name, t) for i, (name, t) in enumerate(_TYPES)))


def meaning(*conditions: Any) -> list[str | None]:
    """The text of the predicate for each condition; None where there is none."""
    code = SimpleNamespace(json=lambda _: json.dumps(conditions))
    gateway: Any = SimpleNamespace(java_code=lambda _: code)
    found = conditions_of(gateway, list(conditions), COLUMNS).predicates
    return [show(found[n]) if n in found else None for n in range(len(conditions))]


def column(*path: str) -> dict[str, Any]:
    return {"column": list(path)}


def constant(kind: str, value: str | None) -> dict[str, Any]:
    return {"type": kind, "value": value}


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (["=", column("n"), constant("integer", "3")], "n = 3"),
        (["<", constant("long", "3"), column("big")], "big > 3"),
        (["<=>", column("s"), constant("string", None)], "s <=> NULL"),
        ([">=", column("d"), constant("date", "19723")], "d >= DATE '2024-01-01'"),
        (["=", column("x"), constant("double", "NaN")], "x = nan"),
        (["<", column("x"), constant("double", "-Infinity")], "x < -inf"),
        (["=", column("f"), constant("float", "0.1")], "f = 0.10000000149011612"),
        (["=", column("b"), constant("boolean", "false")], "b = false"),
        (["=", column("y"), constant("binary", "AP8=")], "y = X'00FF'"),
        (["=", column("m"), constant("decimal(9,2)", "1.50")], "m = 1.50"),
        (["=", column("r", "in"), constant("integer", "1")], "r.in = 1"),
        (["IN", column("n"), constant("integer", "1"), constant("integer", None)], "n IN (1, NULL)"),
        (["STARTS_WITH", column("s"), constant("string", "a%")], "s STARTS WITH 'a%'"),
        (["NOT", ["IS_NULL", column("n")]], "NOT n IS NULL"),
        (["OR", ["ALWAYS_FALSE"], ["IS_NOT_NULL", column("n")]], "false OR n IS NOT NULL"),
        (["=", column("gone"), constant("integer", "1")], None),
        (["=", column("n"), constant("integer", None)], None),  # null, whatever the row
        (["=", column("n"), ["+", column("n"), constant("integer", "1")]], None),
        (["=", column("n"), None], None),
        (["=", column("n"), column("big")], None),
        (["=", column("d"), constant("date", "2932897")], None),  # year 10000
        (["=", column("m"), constant("decimal(9,3)", "1.505")], None),
        (["CAST", column("n")], None),
        (["AND", ["=", column("n"), constant("integer", "3")], ["MOD", column("n")]], None),
        (column("b"), None),
        (None, None),
    ],
)  # fmt: skip
def test_conditions_mean_exactly_the_same_or_are_left_out(condition: Any, expected: str | None) -> None:
    assert meaning(condition) == [expected]


def test_conditions_keep_their_places() -> None:
    known = ["IS_NULL", column("n")]
    assert meaning(None, known, ["?"], known) == [None, "n IS NULL", None, "n IS NULL"]
    assert meaning() == []
