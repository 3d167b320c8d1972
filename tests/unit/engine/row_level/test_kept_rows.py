"""DELETE where the merge engine keeps rows in spite of rows of kind -D: they are removed from their files."""

from __future__ import annotations

from pathlib import Path

import pytest

from paimon_spark.errors import UnsupportedFeatureError
from tests.harness.keywords import keywords
from tests.harness.real_tables import a_table, put, read

COLUMNS = "p INT, k INT, v INT, w STRING"
ENGINES: list[dict[str, str]] = [
    {"merge-engine": "partial-update"},
    {"merge-engine": "partial-update", "deletion-vectors.enabled": "true"},
    {"merge-engine": "partial-update", "changelog-producer": "lookup"},
    {"merge-engine": "partial-update", "file.format": "avro"},
    {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum", "file.format": "orc"},
    {"merge-engine": "first-row", "changelog-producer": "lookup"},
    {"merge-engine": "first-row"},
    {"merge-engine": "partial-update", "ignore-delete": "true", "bucket": "-1"},
]


@pytest.mark.parametrize("options", ENGINES, ids=str)
def test_rows_of_a_compacted_table_are_removed(tmp_path: Path, options: dict[str, str]) -> None:
    table = a_table(COLUMNS, keys="p k", by="p", options={"bucket": "2", **options}, where=tmp_path)
    first = [(p, k, k, f"w{k}") for p in (1, 2) for k in range(20)]
    put(table, *first)
    put(table, (1, 20, 20, None))
    table.compact(full=True)
    expected = sorted([*first, (1, 20, 20, None)])
    assert read(table) == expected
    before = table.scan().to_arrow().num_rows
    assert table.delete("k = 3 OR (p = 1 AND k >= 18)").deleted_rows == 5
    expected = [r for r in expected if r[1] != 3 and not (r[0] == 1 and r[1] >= 18)]
    assert read(table) == expected
    assert read(table.at(f"snapshot.{len(table.snapshots()) - 1}")) != expected
    assert before - 5 == len(expected)
    # A row of a removed key begins anew, and other rows merge as before.
    put(table, (1, 3, 300, None), (1, 4, 1000, None))
    table.compact(full=True)
    merged = {"partial-update": 1000, "aggregation": 1004, "first-row": 4}[options["merge-engine"]]
    text = "w4"
    expected = sorted([r for r in expected if r[:2] != (1, 4)] + [(1, 3, 300, None), (1, 4, merged, text)])
    assert read(table) == expected
    assert table.delete("p = 2").deleted_rows == 19
    assert read(table) == [r for r in expected if r[0] == 1]
    assert table.delete("true").deleted_rows == 18
    assert read(table) == []


@pytest.mark.parametrize("engine", ["partial-update", "aggregation", "first-row"])
def test_rows_that_may_lie_in_several_files_stay(tmp_path: Path, engine: str) -> None:
    table = a_table(
        COLUMNS,
        keys="p k",
        by="p",
        options={"merge-engine": engine, "write-only": "true", "bucket": "1"},
        where=tmp_path,
    )
    put(table, (1, 1, None, "a"), (1, 2, 2, "b"))
    put(table, (1, 1, 16, None))
    before = len(table.snapshots())
    with pytest.raises(UnsupportedFeatureError, match=r"compact the table fully first, CALL sys\.compact"):
        table.delete("k = 1")
    assert len(table.snapshots()) == before
    table.compact(full=True)
    table.delete("k = 1")
    assert read(table) == [(1, 2, 2, "b")]


def test_a_row_that_waits_for_its_compaction_is_not_forgotten(tmp_path: Path) -> None:
    table = a_table(
        COLUMNS,
        keys="p k",
        by="p",
        options={"merge-engine": "partial-update", "deletion-vectors.enabled": "true", "bucket": "1"},
        where=tmp_path,
    )
    put(table, (1, 1, 1, "a"), (1, 2, 2, "b"))
    table.compact(full=True)
    put(table, (1, 1, 16, None), **keywords({"write-only": "true"}))
    with pytest.raises(UnsupportedFeatureError, match="compact the table fully first"):
        table.delete("k = 1")


def test_updates_and_merges_still_write_rows(tmp_path: Path) -> None:
    table = a_table(COLUMNS, keys="p k", by="p", options={"merge-engine": "first-row", "bucket": "2"}, where=tmp_path)
    put(table, (1, 1, 1, "a"))
    with pytest.raises(UnsupportedFeatureError, match="cannot be updated"):
        table.update("k = 1", {"v": "2"})
