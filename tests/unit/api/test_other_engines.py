"""Reads by Polars, DuckDB and whatever else takes an Arrow stream."""

from __future__ import annotations

import datetime as dt
import pickle
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark import Catalog, Table
from paimon_spark.errors import CorruptFileError, InvalidInputError
from paimon_spark.polars import pushed_down, scan_paimon
from paimon_spark.predicate.ast import show

COLUMNS = "k BIGINT, v STRING, f DOUBLE, d DATE, b BOOLEAN, `odd name` INT, c CHAR(3), g FLOAT, n DECIMAL(9, 2)"


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    made = paimon_spark.load_catalog(str(tmp_path / "wh"))
    made.create_database("d")
    return made


@pytest.fixture
def table(catalog: Catalog) -> Table:
    """Five hundred keys in runs that overlap, with nulls and odd numbers."""
    made = catalog.create_table("d.t", COLUMNS, primary_keys=["k"], options={"bucket": "2", "write-only": "true"})
    random = Random(1)
    for _ in range(4):
        rows = [some_row(random, k) for k in random.sample(range(500), 200)]
        made.write(pa.Table.from_pylist(rows, made.scan().arrow_schema))
    return made


def some_row(random: Random, key: int) -> dict[str, Any]:
    return {
        "k": key,
        "v": random.choice([None, "", "a", "b'", "zz"]),
        "f": random.choice([None, 0.0, -0.0, float("nan"), 1.5, -3.0]),
        "d": random.choice([None, dt.date(1960, 1, 2), dt.date(2024, 5, 6)]),
        "b": random.choice([None, True, False]),
        "odd name": random.choice([None, 1, 2]),
        "c": random.choice([None, "a", "ab"]),
        "g": random.choice([None, 1.5]),
        "n": None,
    }


def test_a_limit_cuts_the_rows(table: Table) -> None:
    scan = table.scan()
    count = scan.to_arrow().num_rows
    assert [scan.limit(n).to_arrow().num_rows for n in (0, 3, count, count + 1)] == [0, 3, count, count]
    assert scan.limit(3).limit(5).to_arrow().num_rows == 3
    assert sum(batch.num_rows for batch in scan.limit(7).to_batches()) == 7
    assert pickle.loads(pickle.dumps(scan.limit(2))).to_arrow().num_rows == 2
    assert table.scan(where="k >= 1000").limit(2).to_arrow().num_rows == 0
    assert scan.to_arrow().num_rows == count, "the read itself has no limit"
    with pytest.raises(InvalidInputError, match=r"limit\(-1\): expected 0 or more"):
        scan.limit(-1)
    assert paimon_spark.load_table(f"{table.handle.layout.root}$snapshots").scan().limit(2).to_arrow().num_rows == 2


def test_rows_come_as_a_stream_with_a_schema(table: Table, catalog: Catalog) -> None:
    scan = table.scan(["v", "k"], where="k < 100")
    reader = scan.to_batches()
    assert isinstance(reader, pa.RecordBatchReader)
    assert reader.schema == scan.arrow_schema
    assert reader.read_all() == scan.to_arrow()
    assert pa.table(scan) == scan.to_arrow()
    empty = catalog.create_table("d.e", "k BIGINT").scan()
    assert empty.to_batches().read_all().num_rows == 0
    assert pa.table(empty).schema.names == ["k"]


def test_errors_come_through_the_stream(table: Table) -> None:
    scan = table.scan()
    scan.plan()
    for path in Path(table.handle.layout.root).glob("bucket-*/*.parquet"):
        path.write_bytes(b"nothing")
    with pytest.raises(CorruptFileError, match=r"data file .*parquet"):
        scan.to_batches().read_all()


@pytest.mark.parametrize(
    ("condition", "pushed"),
    [
        (pl.col("k") > 450, "k > 450"),
        (pl.lit(450) < pl.col("k"), "k > 450"),
        ((pl.col("k") > 50) & (pl.col("v") == "b'"), "k > 50 AND v = 'b\\''"),
        ((pl.col("k") > 50) & pl.col("v").str.starts_with("z"), "k > 50"),
        ((pl.col("k") < 10) | (pl.col("v") == "a"), "k < 10 OR v = 'a'"),
        ((pl.col("k") < 10) | pl.col("b"), None),
        (pl.col("f") != 1.5, "f <> 1.5"),
        (pl.col("f") >= 0, "f >= 0"),
        (pl.col("f") == 0, "f = 0"),
        (pl.col("f") < float("nan"), None),
        (pl.col("f").is_null(), "f IS NULL"),
        (pl.col("f").is_not_null(), "f IS NOT NULL"),
        (pl.col("f").is_nan(), None),
        (pl.col("d") < dt.date(2000, 1, 1), "d < DATE '2000-01-01'"),
        (pl.col("odd name") == 1, "odd name = 1"),
        (pl.col("b") == True, "b = true"),  # noqa: E712 - how Polars compares
        (pl.col("c") == "a", None),
        (pl.col("g") == 1.5, None),
        (pl.col("n") > 1, None),
        (~(pl.col("f") > 1), None),
        (pl.col("v").is_in(["a", "zz"]), None),
        (pl.col("k") + 1 > 100, None),
    ],
    ids=str,
)
def test_polars_returns_what_it_returns_of_all_rows(table: Table, condition: pl.Expr, pushed: str | None) -> None:
    found = pushed_down(condition, table.row_type)
    text = None if found is None else show(found).replace(".0", "")
    assert text == (None if pushed is None else pushed), text
    rows = pl.DataFrame(table.scan().to_arrow())
    for columns in (rows.columns, ["v"], ["odd name", "f"]):
        got = scan_paimon(table).filter(condition).select(columns).collect()
        expected = rows.filter(condition).select(columns)
        assert got.sort(columns).equals(expected.sort(columns))


def test_polars_reads_only_what_it_needs(table: Table) -> None:
    frame = scan_paimon(table)
    count = table.scan().to_arrow().num_rows
    assert frame.collect_schema() == pl.DataFrame(table.scan().to_arrow()).schema
    assert frame.select(pl.len()).collect().item() == count
    assert frame.head(7).collect().height == 7
    assert frame.filter(pl.col("k") > 50).head(3).collect().height == 3
    assert frame.select("v").head(0).collect().shape == (0, 1)
    table.write(pa.Table.from_pylist([some_row(Random(2), 1000)], table.scan().arrow_schema))
    assert frame.select(pl.len()).collect().item() == count, "the snapshot stays"
    assert scan_paimon(table).select(pl.len()).collect().item() == count + 1
    assert scan_paimon(table.scan(["k"], where="k < 10")).collect().columns == ["k"]
    few = scan_paimon(table.scan().limit(5))
    assert few.filter(pl.col("k") >= 0).collect().height == 5
    assert few.filter(pl.col("k") < 0).collect().height == 0
    first = few.select(pl.col("k").min()).collect().item()
    assert few.filter(pl.col("k") != first).collect().height == 4, "the limit comes first"
    assert scan_paimon(table.at("snapshot.1")).select(pl.len()).collect().item() == 200


def test_polars_reads_an_empty_table(catalog: Catalog) -> None:
    frame = scan_paimon(catalog.create_table("d.e", "k BIGINT, v STRING"))
    assert frame.collect().shape == (0, 2)
    assert frame.filter(pl.col("k") > 1).collect().shape == (0, 2)


def test_duckdb_and_pandas_read_a_scan(table: Table) -> None:
    scan = table.scan(["k", "v"], where="k < 100")
    rows = scan.to_arrow()
    found = duckdb.sql("SELECT count(*), max(k) FROM scan")
    assert found is not None
    assert found.fetchall() == [(rows.num_rows, max(rows["k"].to_pylist()))]
    assert duckdb.from_arrow(scan).filter("k >= 50").count("*").fetchall() == [
        (sum(k >= 50 for k in rows["k"].to_pylist()),)
    ]
    assert len(scan.to_pandas()) == rows.num_rows
    assert pl.DataFrame(scan).height == rows.num_rows
