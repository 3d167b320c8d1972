"""Incremental clustering: sorted files form levels, and only some of them are sorted again."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark.engine.commit.entries import numbers
from paimon_spark.engine.compaction import sorting
from paimon_spark.engine.compaction.sorting import RowOrder, clustering_order
from paimon_spark.errors import (
    CommitConflictError,
    CorruptFileError,
    InvalidInputError,
    InvalidOptionError,
    UnsupportedFeatureError,
)
from paimon_spark.format.metadata_files.snapshot import CommitKind
from paimon_spark.jobs.upkeep.compaction import cluster_branch
from paimon_spark.metadata.live_files import live_entries
from paimon_spark.metadata.manifests import data_manifests
from paimon_spark.metadata.snapshots import latest_snapshot
from paimon_spark.options.compaction import SortStrategy
from tests.harness.fault_store import FaultStore, killed_at_each_change
from tests.harness.keywords import keywords
from tests.harness.real_tables import a_table
from tests.harness.table_files import files_on_disk, missing_files

COLUMNS = "id BIGINT, a INT, b INT, c INT, d INT, e INT, p STRING"


@pytest.fixture(autouse=True)
def small_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorting, "RANGE_BYTES", 4000)


def clustered(path: Path, columns: str = "a,b", partition_keys: list[str] | None = None, **options: str) -> Any:
    given = {"clustering.incremental": "true", "clustering.columns": columns, "target-file-size": "20 kb"}
    return a_table(COLUMNS, by=partition_keys or (), options={**given, **options}, where=path)


def some_rows(count: int, seed: int, partition: str = "x") -> pa.Table:
    choose = np.random.default_rng(seed)
    numbers = {name: pa.array(choose.integers(0, 1000, count), pa.int32()) for name in "abcde"}
    return pa.table({"id": pa.array(range(seed * count, (seed + 1) * count)), **numbers, "p": [partition] * count})


def levels(table: Any) -> dict[int, int]:
    """The number of live files of each level."""
    head = latest_snapshot(table.handle)
    assert head is not None
    entries = live_entries(table.handle, data_manifests(table.handle, head))
    return dict(Counter(numbers(entries, "level").tolist()))


def rows_of(table: Any) -> list[tuple[Any, ...]]:
    found = table.scan().to_arrow()
    return sorted(zip(*(c.to_pylist() for c in found.columns), strict=True))


@pytest.mark.ci
def test_only_some_levels_are_sorted_again(tmp_path: Path) -> None:
    table = clustered(tmp_path)
    table.write(some_rows(5000, 0))
    table.compact(full=True)
    top = levels(table)
    assert top.keys() == {5} and top[5] >= 3
    for seed in range(1, 5):
        table.write(some_rows(50, seed))
        rows = rows_of(table)
        done = table.compact()
        assert rows_of(table) == rows
    assert done.snapshot.commit_kind is CommitKind.COMPACT
    assert done.files_before == 4, "the large level stays"
    assert levels(table) == {4: 1, **top}
    done = table.compact(full=True)
    assert levels(table).keys() == {5} and done.files_before == top[5] + 1
    assert rows_of(table) == rows
    assert table.compact(full=True).snapshot_ids == (), "one level of the same columns"
    assert missing_files(table.handle) == []


def test_conditions_read_fewer_files(tmp_path: Path) -> None:
    table = clustered(tmp_path)
    table.write(some_rows(20_000, 0))
    table.compact(full=True)
    every = sum(len(split.files) for split in table.scan().plan().splits)
    for where in ("a = 500", "b = 500"):
        assert sum(len(split.files) for split in table.scan(where=where).plan().splits) < 0.7 * every


def test_other_columns_sort_a_sorted_level_again(tmp_path: Path) -> None:
    table = clustered(tmp_path, "a")
    table.write(some_rows(2000, 0))
    table.compact(full=True)
    table.alter(set_options={"clustering.columns": "b"})
    assert table.compact(full=True).files_before > 0
    found = table.scan(["b"]).to_arrow()["b"].to_pylist()
    assert found == sorted(found)


def test_partitions_have_levels_of_their_own(tmp_path: Path) -> None:
    table = clustered(tmp_path, partition_keys=["p"], **{"num-sorted-run.compaction-trigger": "2"})
    for seed, partition in enumerate("xxy"):
        table.write(some_rows(100, seed, partition))
    done = table.compact()
    assert (done.buckets, done.files_before) == (1, 2)
    assert table.compact(full=True, partitions="p=y").files_before == 1
    assert levels(table) == {2: 2}


@pytest.mark.parametrize("kind", ["vectors", "tracked"])
def test_deleted_rows_and_row_ids_stay_what_they_are(tmp_path: Path, kind: str) -> None:
    options: dict[str, Any] = (
        {"deletion-vectors.enabled": "true"} if kind == "vectors" else {"row-tracking.enabled": "true"}
    )
    table = clustered(tmp_path, **options)
    table.write(some_rows(3000, 0))
    table.compact(full=True)
    for seed in range(1, 5):
        table.write(some_rows(50, seed))
    if kind == "vectors":
        table.delete("id % 3 = 0")  # vectors of files that are sorted and of files that stay
    columns = ["id", "a", "_ROW_ID"] if kind == "tracked" else ["id", "a"]
    before = sorted(map(tuple, (r.values() for r in table.scan(columns).to_arrow().to_pylist())))
    assert table.compact().files_before == 4
    for full in (False, True):
        table.compact(full=full)
        assert sorted(map(tuple, (r.values() for r in table.scan(columns).to_arrow().to_pylist()))) == before
    assert missing_files(table.handle) == []


def test_savepoints_sort_too(tmp_path: Path) -> None:
    table = clustered(tmp_path)
    table.write(some_rows(100, 0))
    table.create_savepoint()
    assert levels(table) == {5: 1}


@pytest.mark.parametrize(
    ("columns", "options", "order"),
    [
        ("a", {}, RowOrder(("a",), SortStrategy.ORDER)),
        ("a, b", {}, RowOrder(("a", "b"), SortStrategy.ZORDER)),
        ("a,b,c,d,e", {}, RowOrder(("a", "b", "c", "d", "e"), SortStrategy.HILBERT)),
        ("a,b", {"clustering.strategy": "hilbert"}, RowOrder(("a", "b"), SortStrategy.HILBERT)),
        ("a,b", {"clustering.strategy": "auto"}, RowOrder(("a", "b"), SortStrategy.ZORDER)),
    ],
)
def test_the_order_is_that_of_the_options(
    tmp_path: Path, columns: str, options: dict[str, Any], order: RowOrder
) -> None:
    assert clustering_order(clustered(tmp_path, columns, **options).handle) == order


def test_what_cannot_be_clustered_says_so(tmp_path: Path) -> None:
    with pytest.raises(InvalidOptionError, match="name the columns to sort by"):
        clustered(tmp_path / "none", "").compact()
    with pytest.raises(InvalidInputError, match="leave order_by out"):
        clustered(tmp_path / "by").compact(order_by="a")
    with pytest.raises(InvalidInputError, match="partition column"):
        clustered(tmp_path / "part", "p", ["p"]).compact()
    with pytest.raises(UnsupportedFeatureError, match="a number of buckets"):
        clustered(
            tmp_path / "b", **keywords({"bucket": "2", "bucket-key": "id", "bucket-append-ordered": "false"})
        ).compact()
    with pytest.raises(InvalidOptionError, match=r"clustering\.strategy = 'curve'"):
        clustered(tmp_path / "s", **keywords({"clustering.strategy": "curve"})).compact()


def with_levels(path: Path) -> Any:
    """A table with a sorted level, files of level 0, and deletion vectors in both."""
    table = clustered(path, **keywords({"deletion-vectors.enabled": "true"}))
    table.write(some_rows(500, 0))
    table.compact(full=True)
    for seed in range(1, 5):
        table.write(some_rows(20, seed))
    table.delete("id % 3 = 0")
    return table


def meanwhile(monkeypatch: pytest.MonkeyPatch, act: Any) -> None:
    """Let something happen while the first files are sorted."""
    real, times = sorting.write_ranges, itertools.count()

    def slow(*arguments: Any, **named: Any) -> Any:
        if next(times) == 0:
            act()
        return real(*arguments, **named)

    monkeypatch.setattr(sorting, "write_ranges", slow)


def test_rows_written_and_deleted_meanwhile_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = with_levels(tmp_path)
    other = paimon_spark.load_table(str(tmp_path / "db.db" / "t"))

    def act() -> None:
        other.write(some_rows(20, 30))
        other.delete("id % 3 = 1")

    meanwhile(monkeypatch, act)
    before = [row for row in [*rows_of(table), *rows_of_new(some_rows(20, 30))] if row[0] % 3 != 1]
    table.compact(full=True)
    assert rows_of(table) == sorted(before)
    assert missing_files(table.handle) == []


def rows_of_new(rows: pa.Table) -> list[tuple[Any, ...]]:
    return list(zip(*(c.to_pylist() for c in rows.columns), strict=True))


def test_other_clustering_columns_meanwhile_are_a_conflict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = with_levels(tmp_path)
    other = paimon_spark.load_table(str(tmp_path / "db.db" / "t"))
    rows = rows_of(table)

    def act() -> None:
        other.alter(set_options={"clustering.columns": "c"})
        other.delete("id = 1")

    meanwhile(monkeypatch, act)
    with pytest.raises(CommitConflictError, match=r"clustering columns .* changed while it was compacted"):
        table.compact(full=True)
    assert rows_of(table) == [row for row in rows if row[0] != 1]


@pytest.mark.ci
@pytest.mark.parametrize("step", [3, pytest.param(1, marks=pytest.mark.slow)])
def test_killed_at_any_change_of_the_store_rows_stay_and_it_can_be_done_again(tmp_path: Path, step: int) -> None:
    table = with_levels(tmp_path / "made")
    before = rows_of(table)

    def cluster(copied: Any, store: FaultStore) -> None:
        cluster_branch(replace(copied.handle, store=store), False, None, None)

    for copied in killed_at_each_change(table, tmp_path, cluster, step=step, between=(5, 200)):
        assert rows_of(copied) == before
        copied.compact(full=True)
        assert rows_of(copied) == before and levels(copied).keys() == {5}
        assert missing_files(copied.handle) == []


def test_a_truncated_file_is_named_and_nothing_is_left(tmp_path: Path) -> None:
    table = with_levels(tmp_path)
    name = table.scan().plan().splits[0].files[0].file_name
    [victim] = Path(table.handle.layout.root).rglob(name)
    victim.write_bytes(victim.read_bytes()[:-100])
    before = {f.path for f in files_on_disk(table.handle)}
    with pytest.raises(CorruptFileError, match=victim.name):
        table.compact(full=True)
    assert {f.path for f in files_on_disk(table.handle)} == before
