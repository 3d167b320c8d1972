"""NaN, infinities and both zeros through scans of every kind of table: no file or row is left out."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.api.table import Table
from tests.harness.real_tables import a_catalog

NAN, INF = math.nan, math.inf
VALUES: list[float | None] = [1.0, 2.5, NAN, None, -0.0, 0.0, INF, -INF, -7.0, NAN]
LITERALS = {
    "double('NaN')": NAN, "double('Infinity')": INF, "-double('Infinity')": -INF, "0.0D": 0.0, "-0.0D": -0.0,
    "2.5": 2.5, "100": 100.0,
}  # fmt: skip
OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq, "<>": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


def order(value: float) -> tuple[bool, float]:
    """Where Spark puts a value: NaN is equal to itself and largest."""
    return (True, 0.0) if math.isnan(value) else (False, value)


def conditions() -> dict[str, Callable[[float | None], bool]]:
    """Conditions on column x and which of its values each keeps."""

    def compares(op: str, literal: float, negated: bool = False) -> Callable[[float | None], bool]:
        return lambda v: v is not None and OPERATORS[op](order(v), order(literal)) is not negated

    out: dict[str, Callable[[float | None], bool]] = {"x IS NULL": lambda v: v is None}
    for text, literal in LITERALS.items():
        for op in OPERATORS:
            out[f"x {op} {text}"] = compares(op, literal)
            out[f"NOT x {op} {text}"] = compares(op, literal, negated=True)
            out[f"{text} {op} x"] = lambda v, op=op, n=literal: v is not None and OPERATORS[op](order(n), order(v))  # type: ignore[misc]
        out[f"x <=> {text}"] = compares("=", literal)
        out[f"x IN ({text}, 1, 77)"] = lambda v, n=literal: v is not None and order(v) in (order(n), order(1))  # type: ignore[misc]
        out[f"x NOT IN ({text}, 1)"] = lambda v, n=literal: v is not None and order(v) not in (order(n), order(1))  # type: ignore[misc]
        out[f"x BETWEEN 1 AND {text}"] = lambda v, n=literal: v is not None and order(1) <= order(v) <= order(n)  # type: ignore[misc]
        out[f"x NOT BETWEEN {text} AND 100"] = lambda v, n=literal: (
            v is not None
            and not (  # type: ignore[misc]
                order(n) <= order(v) <= order(100)
            )
        )
    out["x > 2 OR x < -1"] = lambda v: v is not None and (order(v) > order(2) or v < -1)
    return out


def check(table: Table, stored: Sequence[float | None]) -> None:
    for where, keeps in conditions().items():
        found = table.scan(columns=["x"], where=where).to_arrow().column("x").to_pylist()
        assert sorted(map(repr, found)) == sorted(repr(v) for v in stored if keeps(v)), where


@pytest.fixture
def catalog(tmp_path: Path) -> Any:
    return a_catalog(tmp_path)


def rows(values: Sequence[float | None], kind: pa.DataType) -> pa.Table:
    ids = pa.array(range(len(values)), pa.int32())
    return pa.table({"id": ids, "x": pa.array(values, kind)})


@pytest.mark.ci
@pytest.mark.parametrize(
    ("format_", "kind"),
    [("parquet", pa.float32()), ("parquet", pa.float64()), ("orc", pa.float64()), ("avro", pa.float64())],
    ids=str,
)
def test_append_tables_of_every_format(catalog: Any, format_: str, kind: pa.DataType) -> None:
    data = rows(VALUES, kind)
    options = {"file.format": format_, "parquet.block.size": "1"}
    together = catalog.create_table("db.together", data.schema, options=options)
    together.write(data)
    check(together, VALUES)
    apart = catalog.create_table("db.apart", data.schema, options=options)
    for i in range(data.num_rows):
        apart.write(data.slice(i, 1))
    check(apart, VALUES)


@pytest.mark.ci
@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()], ids=str)
def test_partitions_and_buckets_of_floating_point_values(catalog: Any, kind: pa.DataType) -> None:
    data = rows(VALUES, kind)
    partitioned = catalog.create_table("db.partitioned", data.schema, partition_keys=["x"])
    partitioned.write(data)
    check(partitioned, VALUES)
    bucketed = catalog.create_table("db.bucketed", data.schema, options={"bucket": "4", "bucket-key": "x"})
    bucketed.write(data)
    check(bucketed, VALUES)


@pytest.mark.ci
@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (pa.float32(), {}),
        (pa.float64(), {}),
        (pa.float64(), {"deletion-vectors.enabled": "true"}),
        (pa.float64(), {"merge-engine": "first-row"}),
    ],
    ids=str,
)
def test_keys_of_floating_point_values(catalog: Any, kind: pa.DataType, options: dict[str, str]) -> None:
    keys = [v for v in VALUES if v is not None]
    data = rows(keys, kind)
    table = catalog.create_table("db.keys", data.schema, primary_keys=["x"], options={"bucket": "2", **options})
    distinct = keys[:-1]  # NaN comes twice, the zeros are two keys
    for part in (data.slice(0, 4), data.slice(4), data.slice(2, 5)):
        table.write(part)
    check(table, distinct)
    table.compact(full=True)
    check(table, distinct)


@pytest.mark.ci
def test_values_beside_a_key(catalog: Any) -> None:
    data = rows(VALUES, pa.float64())
    table = catalog.create_table("db.values", data.schema, primary_keys=["id"], options={"bucket": "1"})
    table.write(data)
    table.write(data.slice(2, 4))
    check(table, VALUES)


@pytest.mark.ci
def test_columns_that_became_floating_point(catalog: Any) -> None:
    table = catalog.create_table("db.wider", rows([], pa.float32()).schema)
    table.write(rows([1.0, NAN, -0.0], pa.float32()))
    table.alter(retype={"x": "DOUBLE"})
    table.write(rows([2.5, INF, NAN, None], pa.float64()))
    check(table, [1.0, NAN, -0.0, 2.5, INF, NAN, None])


def test_a_float_is_compared_with_the_number_that_is_meant(catalog: Any) -> None:
    table = catalog.create_table("db.tenth", rows([], pa.float32()).schema)
    table.write(rows([0.1, 0.5], pa.float32()))
    found = {w: table.scan(where=w).to_arrow().num_rows for w in ("x = 0.1D", "x IN (0.1D)", "x > 0.1D", "x = 0.5")}
    assert found == {"x = 0.1D": 0, "x IN (0.1D)": 0, "x > 0.1D": 2, "x = 0.5": 1}
