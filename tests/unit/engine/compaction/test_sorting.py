"""Sort compaction: rows stay the same and come in order, and queries read fewer files."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import paimon_spark
from paimon_spark.engine.compaction import sorting
from paimon_spark.engine.compaction.sorting import Ranges, RowOrder, hilbert, z_order
from paimon_spark.errors import ColumnNotFoundError, InvalidInputError, UnsupportedFeatureError
from paimon_spark.format.metadata_files.snapshot import CommitKind
from paimon_spark.options.compaction import SortStrategy
from tests.harness.real_tables import a_table
from tests.harness.table_files import missing_files

COLUMNS = "p STRING, a INT, b BIGINT, ts TIMESTAMP_NTZ(9), name STRING"
STRATEGIES = [s.value for s in SortStrategy]
SMALL = {"target-file-size": "20 kb", "file.block-size": "1 kb"}


def some_rows(count: int, seed: int = 0) -> pa.Table:
    choose = np.random.default_rng(seed)
    a = choose.integers(0, 1000, count)
    return pa.table(
        {
            "p": [f"p{i % 2}" for i in range(count)],
            "a": pa.array(a, pa.int32(), mask=a % 50 == 0),
            "b": choose.integers(0, 10**9, count),
            "ts": pa.array(choose.integers(0, 10**18, count), pa.timestamp("ns")),
            "name": [f"n{i}" for i in a],
        }
    )


def in_any_order(rows: pa.Table) -> list[tuple[Any, ...]]:
    return sorted((tuple(r) for r in zip(*(c.to_pylist() for c in rows.columns), strict=True)), key=repr)


def files_of(scan: Any) -> set[str]:
    return {file.file_name for split in scan.plan().splits for file in split.files}


@pytest.fixture
def small_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorting, "RANGE_BYTES", 4000)


@pytest.mark.usefixtures("small_ranges")
class TestTables:
    @pytest.mark.ci
    @pytest.mark.parametrize("strategy", STRATEGIES)
    @pytest.mark.parametrize("kind", ["plain", "partitions", "vectors", "tracked"])
    def test_rows_stay(self, tmp_path: Path, strategy: str, kind: str) -> None:
        options = {
            "vectors": {"deletion-vectors.enabled": "true"},
            "tracked": {"row-tracking.enabled": "true"},
        }.get(kind, {})
        table = a_table(COLUMNS, by="p" if kind == "partitions" else "", options={**SMALL, **options}, where=tmp_path)
        for seed in range(3):
            table.write(some_rows(2000, seed))
        if kind != "tracked":
            table.delete("b % 7 = 0")
        ids = ["_ROW_ID"] if kind == "tracked" else []
        columns = [*table.scan().to_arrow().column_names, *ids]
        before = table.scan(columns=columns).to_arrow()
        done = table.compact(order_by=["a", "b"], order_strategy=strategy)
        assert done.snapshot is not None and done.snapshot.commit_kind is CommitKind.COMPACT
        assert done.files_before > 2 and done.files_after > 3
        after = table.scan(columns=columns).to_arrow()
        assert in_any_order(after) == in_any_order(before)
        assert missing_files(table.handle) == []

    def test_rows_are_in_order(self, tmp_path: Path) -> None:
        table = a_table(COLUMNS, options=SMALL, where=tmp_path)
        table.write(some_rows(5000))
        table.compact(order_by="a, b")
        found = table.scan(columns=["a", "b"]).to_arrow().to_pylist()
        assert found == sorted(found, key=lambda r: (r["a"] is not None, r["a"] or 0, r["b"]))

    @pytest.mark.ci
    @pytest.mark.parametrize("strategy", ["zorder", "hilbert"])
    def test_conditions_on_each_column_read_fewer_files(self, tmp_path: Path, strategy: str) -> None:
        table = a_table(COLUMNS, options=SMALL, where=tmp_path)
        table.write(some_rows(20_000))

        def files(where: str | None = None) -> int:
            return len(files_of(table.scan(where=where)))

        conditions = ["a = 500", "b < 50000000", "ts < TIMESTAMP_NTZ '1971-01-01'"]
        before = [files(where) for where in conditions]
        assert len(set(before)) == 1
        table.compact(order_by=["a", "b", "ts"], order_strategy=strategy)
        every = files()
        assert all(files(where) <= 0.7 * every for where in conditions)

    @pytest.mark.ci
    def test_only_some_partitions(self, tmp_path: Path) -> None:
        table = a_table(COLUMNS, by="p", options=SMALL, where=tmp_path)
        table.write(some_rows(4000))
        others = "p = 'p1'"
        before = files_of(table.scan(where=others))
        done = table.compact(order_by="b", partitions="p=p0")
        assert done.buckets == 1
        assert files_of(table.scan(where=others)) == before

    def test_commits_meanwhile_stay(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        table = a_table(COLUMNS, options=SMALL, where=tmp_path)
        table.write(some_rows(2000))
        real = sorting.write_ranges
        times = itertools.count()

        def slow(*arguments: Any, **named: Any) -> Any:
            if next(times) == 0:
                table.write(some_rows(100, 9))
            return real(*arguments, **named)

        monkeypatch.setattr(sorting, "write_ranges", slow)
        table.compact(order_by="a")
        assert table.scan().to_arrow().num_rows == 2100

    def test_an_empty_table(self, tmp_path: Path) -> None:
        table = a_table(COLUMNS, where=tmp_path)
        assert table.compact(order_by="a").snapshot_ids == ()
        table.write(some_rows(10))
        table.delete("true")
        assert table.scan().to_arrow().num_rows == 0
        table.compact(order_by="a")
        assert table.scan().to_arrow().num_rows == 0


class TestRefused:
    @pytest.mark.parametrize(
        ("options", "error", "says"),
        [
            ({"order_by": "z"}, ColumnNotFoundError, "no such column"),
            ({"order_by": "a,a"}, InvalidInputError, "each once"),
            ({"order_by": []}, InvalidInputError, "expected columns"),
            ({"order_strategy": "zorder"}, InvalidInputError, "expected columns"),
            ({"order_by": "a", "order_strategy": "none"}, InvalidInputError, "cannot work with"),
            ({"order_by": "a", "order_strategy": "spiral"}, InvalidInputError, "expected order, zorder, hilbert"),
            ({"order_by": "p"}, InvalidInputError, "partition column"),
        ],
    )
    def test_orders(self, tmp_path: Path, options: dict[str, Any], error: type[Exception], says: str) -> None:
        table = a_table(COLUMNS, by="p", where=tmp_path)
        table.write(some_rows(10))
        with pytest.raises(error, match=says):
            table.compact(**options)

    def test_tables(self, tmp_path: Path) -> None:
        catalog = paimon_spark.load_catalog(str(tmp_path))
        catalog.create_database("d")
        keyed = catalog.create_table("d.k", "a INT NOT NULL, r ROW<x INT>", primary_keys=["a"])
        with pytest.raises(UnsupportedFeatureError, match="primary key"):
            keyed.compact(order_by="a")
        buckets = catalog.create_table("d.b", "a INT", options={"bucket": "2", "bucket-key": "a"})
        with pytest.raises(UnsupportedFeatureError, match="a number of buckets"):
            buckets.compact(order_by="a")
        nested = catalog.create_table("d.n", "r ROW<x INT>")
        with pytest.raises(UnsupportedFeatureError, match="have no order"):
            nested.compact(order_by="r")

    def test_too_much_without_spark(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        table = a_table(COLUMNS, where=tmp_path)
        table.write(some_rows(10))
        monkeypatch.setattr("paimon_spark.jobs.upkeep.compaction.HERE_BYTES", 0)
        monkeypatch.setattr("paimon_spark.jobs.upkeep.compaction.active_spark_jobs", lambda: None)
        with pytest.raises(UnsupportedFeatureError, match="needs a Spark session"):
            table.compact(order_by="a")


class TestRanges:
    @given(
        st.lists(st.tuples(st.none() | st.integers(-5, 5), st.text("ab", max_size=2)), min_size=1, max_size=60),
        st.integers(1, 7),
        st.sampled_from(list(SortStrategy)),
    )
    def test_sorted_ranges_follow_each_other(
        self, values: list[tuple[int | None, str]], count: int, strategy: SortStrategy
    ) -> None:
        rows = pa.table({"a": pa.array([v[0] for v in values], pa.int64()), "b": [v[1] for v in values]})
        ranges = Ranges.of(rows.slice(0, max(1, len(rows) // 2)), RowOrder(("a", "b"), strategy), count)
        numbers = ranges.numbers(rows)
        assert numbers.min() >= 0 and numbers.max() < len(ranges)
        parts = [ranges.sorted(rows.filter(pa.array(numbers == n))) for n in range(len(ranges))]
        joined = pa.concat_tables(parts)
        assert in_any_order(joined) == in_any_order(rows)
        assert joined.equals(ranges.sorted(joined))

    def test_of_nothing(self) -> None:
        empty = pa.table({"a": pa.array([], pa.int64())})
        for strategy in SortStrategy:
            assert len(Ranges.of(empty, RowOrder(("a",), strategy), 5)) == 1


class TestCurves:
    @pytest.mark.parametrize(("dimensions", "bits"), [(1, 4), (2, 4), (3, 3), (4, 2)])
    def test_every_point_has_a_place(self, dimensions: int, bits: int) -> None:
        points = np.array(list(itertools.product(range(1 << bits), repeat=dimensions)), np.uint64)
        axes = [points[:, i] for i in range(dimensions)]
        for curve in (z_order, hilbert):
            assert sorted(curve(axes, bits).tolist()) == list(range(len(points)))
        along = points[np.argsort(hilbert(axes, bits))].astype(np.int64)
        assert (np.abs(np.diff(along, axis=0)).sum(axis=1) == 1).all()

    def test_z_order_interleaves(self) -> None:
        found = z_order([np.array([0b10], np.uint64), np.array([0b01], np.uint64)], 2)
        assert found.tolist() == [0b1001]
