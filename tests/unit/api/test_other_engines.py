"""Reads by Polars, DuckDB and whatever else takes an Arrow stream."""

from __future__ import annotations

import datetime as dt
import pickle
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import paimon_spark
from paimon_spark import Catalog, Table
from paimon_spark.errors import ColumnNotFoundError, CorruptFileError, InvalidInputError, UnsupportedFeatureError
from paimon_spark.jobs.scan import Scan
from paimon_spark.polars import pushed_down, scan_paimon
from paimon_spark.predicate.ast import show
from paimon_spark.predicate.other_engines import pushed_down as pushed_by_arrow

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


CONDITIONS = [
    pc.field("k") > 250,
    pc.scalar(250) >= pc.field("k"),
    (pc.field("k") == 7) | (pc.field("v") == "a"),
    (pc.field("v") != "b'") & (pc.field("k") < 400),
    pc.field("v").isin(["", "zz"]),
    pc.field("v").isin(["", None]),
    ~pc.field("v").isin(["", "a"]),
    pc.field("k").isin([]),
    pc.field("f") > 1.0,
    pc.field("f") <= 0.0,
    pc.field("f") != 1.5,
    ~(pc.field("f") > 1.0),
    ~((pc.field("f") > 1.0) & (pc.field("k") > 10)),
    pc.field("f") == float("nan"),
    pc.field("d") == dt.date(1960, 1, 2),
    ~(pc.field("d") < dt.date(2024, 5, 6)),
    pc.field("b"),
    ~pc.field("b"),
    pc.field("b") & (pc.field("odd name") == 2),
    pc.field("c") == "ab",
    pc.field("g") == 1.5,
    pc.field("n").is_null(),
    pc.field("v").is_valid(),
    pc.field("f").is_null(nan_is_null=True),
    pc.field("k") == pa.scalar(None, pa.int64()),
    pc.field("k") + 1 > 400,
    pc.starts_with(pc.field("v"), "z"),
    pc.scalar(True),
]


@pytest.mark.parametrize("condition", CONDITIONS, ids=str)
def test_a_dataset_gives_the_rows_that_arrow_keeps(table: Table, condition: pc.Expression) -> None:
    everything = table.scan().to_arrow()
    dataset = table.scan().to_dataset()
    kept = everything.filter(condition)
    assert repr(dataset.to_table(filter=condition).to_pylist()) == repr(kept.to_pylist()), "NaN is not equal to NaN"
    assert dataset.to_table(["v"], filter=condition) == kept.select(["v"])
    assert dataset.count_rows(filter=condition) == kept.num_rows
    pushed = pushed_by_arrow(condition, table.row_type)
    if pushed is not None:
        superset = table.scan().filtered([pushed]).to_arrow()
        assert superset.filter(condition).num_rows == kept.num_rows


@pytest.mark.parametrize(
    ("condition", "sql"),
    [
        (pc.field("k") > 250, "k > 250"),
        (~(pc.field("f") > 1.0), "NOT f > 1.0"),
        ((pc.field("g") >= 1) | (pc.field("f") == 0.0), "g >= 1 OR f = 0"),
        (pc.field("c") == "ab", "c = 'ab'"),
        (~pc.field("v").isin(["a", None]), "NOT (v = 'a' OR v IS NULL)"),
        (~pc.field("v").isin(["a"]), "v IS NULL OR v <> 'a'"),
        (pc.field("odd name").is_valid() & ~pc.field("b"), "`odd name` IS NOT NULL AND NOT b"),
        (pc.field("n") < Decimal("1.50"), "n < 1.5"),
        (dt.date(2000, 1, 1) < pc.field("d"), "d > DATE '2000-01-01'"),
    ],
    ids=str,
)
def test_an_arrow_expression_means_what_it_means_in_sql(table: Table, condition: pc.Expression, sql: str) -> None:
    found = table.scan(["k"], where=condition)
    assert found.to_arrow() == table.scan(["k"], where=sql).to_arrow()
    assert pickle.loads(pickle.dumps(found)).to_arrow() == found.to_arrow()


def test_timestamps_in_expressions(catalog: Catalog) -> None:
    made = catalog.create_table("d.times", "k INT, t TIMESTAMP_NTZ, z TIMESTAMP")
    zone = dt.timezone(dt.timedelta(hours=2))
    made.write(
        pa.table(
            {
                "k": pa.array([1, 2], pa.int32()),
                "t": pa.array([dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 1, 0, 0, 0, 7)]),
                "z": pa.array([dt.datetime(2024, 1, 1, tzinfo=zone), None], pa.timestamp("us", "UTC")),
            }
        )
    )
    for condition, keys in (
        (pc.field("t") > dt.datetime(2024, 1, 1), [2]),
        (pc.field("t") <= pa.scalar(dt.datetime(2024, 1, 1), pa.timestamp("s")), [1]),
        (pc.field("z") == dt.datetime(2023, 12, 31, 22, tzinfo=dt.UTC), [1]),
    ):
        assert made.scan(where=condition).to_arrow()["k"].to_pylist() == keys
        assert made.scan().to_dataset().to_table(filter=condition)["k"].to_pylist() == keys
    nanoseconds = pc.field("t") > pa.scalar(1, pa.timestamp("ns"))
    with pytest.raises(InvalidInputError, match="comparing t"):
        made.scan(where=nanoseconds)
    assert made.scan().to_dataset().to_table(filter=nanoseconds).num_rows == 2


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        (pc.field("nope") > 1, "column 'nope', which the table lacks"),
        (pc.field("k") == pa.scalar(None, pa.int64()), "comparing k (BIGINT NOT NULL) with NULL"),
        (pc.field("k") + 1 > 3, "greater() of these arguments"),
        (pc.starts_with(pc.field("v"), "z"), "starts_with() of these arguments"),
        (pc.field("k"), "the column k alone"),
        (pc.field("nope").isin(["a", "b"]), 'where=is_in(nope, {value_set=string:[ "a", "b" ]'),
        (pc.scalar(3), "the value 3"),
        (pc.field("v") == "a\\", "comparing v"),
        (pc.field(0) > 1, "serializes in another way"),
        (5, "expected a condition as SQL text"),
    ],
    ids=str,
)
def test_an_expression_that_sql_lacks_is_refused_in_one_line(table: Table, condition: Any, said: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        table.scan(where=condition)
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_duckdb_and_polars_read_only_what_a_query_needs(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    made = catalog.create_table("d.parts", "k INT, v STRING, p INT", partition_keys=["p"])
    for p in range(4):
        keys = pa.array([p * 10, p * 10 + 1], pa.int32())
        made.write(pa.table({"k": keys, "v": ["a", "b"], "p": pa.array([p, p], pa.int32())}))
    dataset = made.scan().to_dataset()
    made.write(pa.table({"k": pa.array([99], pa.int32()), "v": ["c"], "p": pa.array([2], pa.int32())}))
    reads: list[tuple[tuple[str, ...] | None, int]] = []
    to_batches = Scan.to_batches

    def spying(scan: Scan) -> pa.RecordBatchReader:
        reads.append((scan.options.columns, len(scan.plan().splits)))
        return to_batches(scan)

    monkeypatch.setattr(Scan, "to_batches", spying)
    assert duckdb.execute("SELECT sum(k) FROM dataset WHERE p = 2 AND k > 20").fetchall() == [(21,)]
    assert duckdb.execute("SELECT count(*) FROM dataset").fetchall() == [(8,)]
    assert pl.scan_pyarrow_dataset(dataset).filter(pl.col("p") > 2).select("v").collect()["v"].to_list() == ["a", "b"]
    assert reads == [(("k", "p"), 1), (("k",), 4), (("v", "p"), 1)]
    assert dataset.to_table({"twice": pc.field("k") * 2}, filter=pc.field("p") == 0)["twice"].to_pylist() == [0, 2]
    assert reads[-1] == (("k", "p"), 1)
    assert pickle.loads(pickle.dumps(dataset)).count_rows() == 8
    assert made.scan().limit(3).to_dataset().to_table(filter=pc.field("k") >= 0).num_rows == 3
    assert dataset.head(2).num_rows == 2
    assert str(dataset.partition_expression) == "true"


def test_what_a_dataset_cannot_do_is_refused(table: Table) -> None:
    dataset = table.scan().to_dataset()
    refusals: tuple[Callable[[], object], ...] = (
        lambda: dataset.get_fragments(),
        lambda: dataset.filter(pc.field("k") > 1),
        lambda: dataset.replace_schema(dataset.schema),
        lambda: dataset.sort_by("k"),
        lambda: dataset.join(dataset, "k"),
        lambda: dataset.join_asof(dataset, "k", [], 1),
    )
    for refused in refusals:
        with pytest.raises(UnsupportedFeatureError, match=r"is not available for the dataset of a Paimon table; use"):
            refused()
    with pytest.raises(ColumnNotFoundError, match="nope"):
        dataset.to_table(["k", "nope"])
    with pytest.raises(ColumnNotFoundError, match="nope"):
        dataset.to_table(filter=pc.field("nope") > 1)
