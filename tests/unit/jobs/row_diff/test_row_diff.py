"""Rows that differ between two versions: every kind of table, beside a comparison value by value."""

from __future__ import annotations

import pickle
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark import Catalog, Table
from paimon_spark.engine.row_diff import versions
from paimon_spark.errors import CorruptFileError, InvalidInputError, SnapshotExpiredError, VersionNotFoundError
from paimon_spark.jobs.row_diff.comparison import plan_row_diff
from tests.harness.row_differences import assert_is, by_brute_force

COLUMNS = "p INT, id BIGINT, n INT, d DOUBLE, s STRING, m MAP<STRING, INT>, l ARRAY<ROW<a INT, b STRING>>"
KEYED = {"bucket": "2", "write-only": "true"}
KINDS: dict[str, dict[str, Any]] = {
    "append": {"options": {"bucket": "-1"}},
    "append in buckets": {"options": {"bucket": "3", "bucket-key": "id"}},
    "append by partition": {"options": {"bucket": "-1"}, "partition_keys": ["p"]},
    "append with row ids": {
        "options": {
            "bucket": "-1",
            "row-tracking.enabled": "true",
            "data-evolution.enabled": "true",
            "deletion-vectors.enabled": "true",
        }
    },
    "append with deletion vectors": {"options": {"bucket": "-1", "deletion-vectors.enabled": "true"}},
    "keys": {"primary_keys": ["id"], "options": KEYED},
    "keys compacted": {"primary_keys": ["id"], "options": {"bucket": "2", "num-sorted-run.compaction-trigger": "2"}},
    "keys by partition": {"primary_keys": ["p", "id"], "partition_keys": ["p"], "options": KEYED},
    "dynamic buckets": {
        "primary_keys": ["id"],
        "options": {"bucket": "-1", "dynamic-bucket.target-row-num": "5", "write-only": "true"},
    },
    "keys across partitions": {
        "primary_keys": ["id"],
        "partition_keys": ["p"],
        "options": {"bucket": "-1", "write-only": "true"},
    },
    "deletion vectors": {"primary_keys": ["id"], "options": {"bucket": "2", "deletion-vectors.enabled": "true"}},
    "partial update": {"primary_keys": ["id"], "options": {**KEYED, "merge-engine": "partial-update"}},
    "aggregation": {
        "primary_keys": ["id"],
        "options": {**KEYED, "merge-engine": "aggregation", "fields.n.aggregate-function": "sum"},
    },
    "first row": {"primary_keys": ["id"], "options": {"bucket": "2", "merge-engine": "first-row"}},
}


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    made = paimon_spark.load_catalog(str(tmp_path / "wh"))
    made.create_database("d")
    return made


def some_rows(random: Random, table: Table, count: int) -> pa.Table:
    numbers: list[float | None] = [None, 0.0, -0.0, float("nan"), 1.5]
    rows = []
    for i in random.sample(range(40), count):
        entries = [("x", 1), ("y", random.randint(0, 1))]
        random.shuffle(entries)
        row = {
            "p": random.randint(0, 2),
            "id": i,
            "n": random.choice([None, 1, 2]),
            "d": random.choice(numbers),
            "s": random.choice([None, "", "a", "long " * 20]),
            "m": random.choice([None, [], entries]),
            "l": random.choice([None, [], [None], [{"a": 1, "b": None}], [{"a": 1, "b": "q"}, {"a": None, "b": "q"}]]),
        }
        rows.append({name: row.get(name) for name in table.schema.row_type.names})
    return pa.Table.from_pylist(rows, table.scan().arrow_schema)


def change(random: Random, table: Table) -> None:
    """One commit or more, of a random kind."""
    acts = ["write", "write", "write", "compact", "delete", "overwrite"]
    schema = table.schema
    moves = bool(schema.primary_keys) and not set(schema.partition_keys) <= set(schema.primary_keys)
    if moves or table.options.merge_engine.value != "deduplicate":
        acts.remove("delete")
    match random.choice(acts):
        case "write":
            table.write(some_rows(random, table, random.randint(1, 10)))
        case "compact":
            table.compact(full=random.random() < 0.5)
        case "delete":
            table.delete(f"id % 7 = {random.randint(0, 6)}")
        case "overwrite":
            table.write(some_rows(random, table, 5), mode="overwrite")


@pytest.mark.ci
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", KINDS)
def test_equals_brute_force(catalog: Catalog, kind: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "PART_ROWS", 10)
    random = Random(f"{kind} {seed}")
    table = catalog.create_table("d.t", COLUMNS, **KINDS[kind])
    for _ in range(random.randint(1, 4)):
        change(random, table)
    if not table.snapshots():
        table.write(some_rows(random, table, 3))
    table.create_branch("fix")
    fix = table.branch("fix")
    for _ in range(random.randint(1, 4)):
        change(random, random.choice([table, fix, fix]))
    keys = table.schema.primary_keys
    pairs = [("main", "fix"), ("fix", "main"), ("main", "main"), (f"snapshot.{table.snapshots()[0].id}", "main")]
    for old, new in pairs:
        before, after = (table.at(version).scan().to_arrow() for version in (old, new))
        assert_is(table.diff(old, new, rows=True), by_brute_force(before, after, keys), f"{old} {new}")


@pytest.mark.parametrize("kind", ["append", "keys", "deletion vectors", "append with row ids"])
def test_shared_files_are_not_read(catalog: Catalog, kind: str) -> None:
    table = catalog.create_table("d.t", COLUMNS, **KINDS[kind])
    table.write(some_rows(Random(1), table, 40))
    table.compact(full=True)
    table.create_branch("fix")
    assert table.diff("main", "fix", rows=True).bytes_read == 0
    one = some_rows(Random(2), table, 1)
    table.branch("fix").write(one)
    found = table.diff("main", "fix", rows=True)
    sizes = [f["file_size_in_bytes"] for f in catalog.table("d.t$branch_fix$files").scan().to_arrow().to_pylist()]
    assert 0 < found.bytes_read < 2 * sum(sizes)
    if not table.schema.primary_keys:
        assert found.bytes_read < max(sizes)
        assert (found.added, found.removed) == (1, 0)


@pytest.mark.parametrize("kind", ["append by partition", "keys by partition"])
def test_only_changed_files_are_planned(catalog: Catalog, kind: str) -> None:
    table = catalog.create_table("d.t", COLUMNS, **KINDS[kind])
    for seed in range(5):
        table.write(some_rows(Random(seed), table, 40))
    table.create_branch("fix")
    one = some_rows(Random(9), table, 1)
    table.branch("fix").write(one)
    planned = plan_row_diff(table, "main", "fix")
    found = [{(s.partition, s.bucket) for s in scan.plan().splits} for scan in planned.scans]
    assert len(found[1]) == 1, "one bucket of one partition changed"
    assert found[0] == (found[1] if table.schema.primary_keys else set())
    files = [f for split in planned.scans[1].plan().splits for f in split.files]
    assert len(files) == (6 if table.schema.primary_keys else 1)


def test_columns_that_one_version_has_are_null_in_the_other(catalog: Catalog) -> None:
    table = catalog.create_table("d.t", "id BIGINT, n INT, r ROW<a INT, b STRING>, gone STRING", primary_keys=["id"])
    schema = table.scan().arrow_schema
    table.write(pa.Table.from_pylist([{"id": i, "n": i, "r": {"a": i, "b": "x"}, "gone": "g"} for i in (1, 2)], schema))
    table.create_branch("fix")
    fix = table.branch("fix").alter(add={"note": "STRING"}, rename={"n": "amount"}, drop=["gone"])
    fix.write(
        pa.Table.from_pylist([{"id": 2, "amount": 5, "r": {"a": 2, "b": "x"}, "note": "late"}], fix.scan().arrow_schema)
    )
    found = table.diff("main", "fix", rows=True)
    assert {(c.kind, c.name) for c in found.schema_changes} == {
        ("added", "note"), ("renamed", "amount"), ("dropped", "gone"),
    }  # fmt: skip
    assert (found.added, found.removed, found.changed, dict(found.columns)) == (0, 0, 1, {"amount": 1, "note": 1})
    before, after = found.to_arrow().to_pylist()
    assert before == {"_change": "before", "id": 2, "amount": 2, "r": {"a": 2, "b": "x"}, "note": None}
    assert (after["_change"], after["note"]) == ("after", "late")
    lines = str(found).splitlines()
    assert "column note added" in "\n".join(lines[1:4])
    back = table.diff("fix", "main", rows=True)
    assert (back.changed, dict(back.columns)) == (2, {"n": 1, "gone": 2})


@pytest.mark.parametrize("keys", [["id"], []], ids=["keys", "append"])
def test_values_of_a_column_that_the_branch_added_are_changes(catalog: Catalog, keys: list[str]) -> None:
    options = {"bucket": "1"} if keys else {"bucket": "-1"}
    table = catalog.create_table("d.t", "id BIGINT, v BIGINT", primary_keys=keys, options=options)
    table.write(pa.table({"id": [1, 2, 3], "v": [1, 2, 3]}))
    table.create_branch("fix")
    fix = table.branch("fix").alter(add={"c": "BIGINT"})
    fix.write(pa.table({"id": [1, 2, 3], "v": [1, 2, 3], "c": [7, None, 9]}), mode="overwrite")
    found = table.diff("main", "fix", rows=True)
    if keys:
        assert (found.added, found.removed, found.changed, dict(found.columns)) == (0, 0, 2, {"c": 2})
        assert [(r["id"], r["c"]) for r in found.to_arrow().to_pylist()] == [(1, None), (1, 7), (3, None), (3, 9)]
    else:
        assert (found.added, found.removed, found.changed) == (2, 2, 0)
    assert not found.is_same


def test_a_column_dropped_and_added_again_is_another_one(catalog: Catalog) -> None:
    table = catalog.create_table("d.t", "id BIGINT, c BIGINT", primary_keys=["id"], options={"bucket": "1"})
    table.write(pa.table({"id": [1, 2, 3], "c": [7, 7, 7]}))
    table.create_branch("fix")
    fix = table.branch("fix").alter(drop=["c"]).alter(add={"c": "BIGINT"})
    fix.write(pa.table({"id": [1, 2], "c": [7, None]}))
    found = table.diff("main", "fix", rows=True)
    assert (found.changed, dict(found.columns)) == (1, {"c": 1}), "rows of main read null in the new column"
    assert [(r["id"], r["c"]) for r in found.to_arrow().to_pylist()] == [(1, None), (1, 7)]


def test_text_html_and_values(catalog: Catalog) -> None:
    table = catalog.create_table("d.t", "id BIGINT, s STRING", primary_keys=["id"], options={"bucket": "1"})
    schema = table.scan().arrow_schema
    table.write(pa.Table.from_pylist([{"id": i, "s": "a"} for i in range(10)], schema))
    table.create_tag("before")
    table.write(pa.Table.from_pylist([{"id": 3, "s": "b"}, {"id": 10, "s": "<new>"}], schema))
    table.delete("id = 4")
    found = table.diff("before", rows=True)
    assert str(found).splitlines() == [
        "d.t: tag 'before' -> head of main",
        "1 row added, 1 removed, 1 changed",
        "changed values: s 1",
        "+ id=10, s=<new>",
        "- id=4, s=a",
        "< id=3, s=a",
        "> id=3, s=b",
    ]
    assert "&lt;new&gt;" in found._repr_html_()
    assert found.to_dict()["columns"] == {"s": 1}
    assert found.to_arrow(2).num_rows == 2
    assert found.to_arrow(0).num_rows == 0
    with pytest.raises(InvalidInputError, match="0 or more"):
        found.to_arrow(-1)
    assert pickle.loads(pickle.dumps(found)).to_arrow().num_rows == 4
    same = table.diff("before", "before", rows=True)
    assert same.is_same
    assert str(same).splitlines()[-1] == "the same rows"
    assert "the same" in same._repr_html_()


def test_values_are_printed_as_sql_prints_them(catalog: Catalog) -> None:
    columns = "d DATE, t TIMESTAMP_NTZ, n DECIMAL(10, 2), b BINARY, m MAP<STRING, INT>, s STRUCT<a: INT, c: ARRAY<INT>>"
    table = catalog.create_table("d.kinds", columns)
    row = {"d": date(2024, 1, 31), "t": datetime(2024, 1, 31, 10), "n": Decimal("8004.00"), "b": b"\x01"}
    nested = {"m": [("k", 1)], "s": {"a": 1, "c": [2, None]}}
    table.write(pa.Table.from_pylist([{**row, **nested}, {}], table.scan().arrow_schema))
    table.create_tag("one")
    table.delete("true")
    found = table.diff("one", rows=True)
    line = "- d=2024-01-31, t=2024-01-31 10:00:00, n=8004.00, b=X'01', m={k -> 1}, s={1, [2, NULL]}"
    nulls = "- d=NULL, t=NULL, n=NULL, b=NULL, m=NULL, s=NULL"
    assert sorted(str(found).splitlines()[-2:]) == sorted([line, nulls])
    assert "8004.00" in found._repr_html_() and "Decimal" not in found._repr_html_()
    assert "X&#x27;01&#x27;" in found._repr_html_()


def test_text_says_how_many_rows_it_leaves_out(catalog: Catalog) -> None:
    table = catalog.create_table("d.many", "id BIGINT")
    table.write(pa.table({"id": range(8)}))
    table.create_tag("full")
    table.delete("true")
    assert str(table.diff("full", rows=True)).splitlines()[-1] == "… and 3 more rows; to_arrow() returns all"


def test_another_table_of_the_same_columns(catalog: Catalog) -> None:
    one = catalog.create_table("d.one", "id BIGINT, s STRING", primary_keys=["id"])
    two = catalog.create_table("d.two", "s STRING, id BIGINT, more INT")
    one.write(pa.table({"id": [1, 2], "s": ["a", "b"]}))
    two.write(pa.table({"s": ["a", "c"], "id": [1, 3], "more": pa.array([0, 0], pa.int32())}))
    found = one.diff("main", two, rows=True)
    assert (found.added, found.removed, found.changed) == (1, 1, 0)
    assert [c.kind for c in found.schema_changes if c.name == "more"] == ["added"]
    assert "of d.two" in found.new
    with pytest.raises(InvalidInputError, match="no column in common"):
        one.diff("main", catalog.create_table("d.other", "x INT"), rows=True)
    with pytest.raises(InvalidInputError, match="pass rows=True"):
        one.diff("main", two)  # type: ignore[call-overload]
    with pytest.raises(InvalidInputError, match="system table"):
        one.diff("main", catalog.table("d.two$snapshots"), rows=True)


def test_empty_versions(catalog: Catalog) -> None:
    table = catalog.create_table("d.t", COLUMNS, primary_keys=["id"])
    assert table.diff("main", rows=True).is_same
    table.create_branch("empty")
    table.write(some_rows(Random(0), table, 4))
    assert table.diff("empty", "main", rows=True).added == 4
    assert table.diff("main", "empty", rows=True).removed == 4


def test_a_version_that_is_gone(catalog: Catalog) -> None:
    table = catalog.create_table("d.t", "id BIGINT")
    for i in range(2):
        table.write(pa.table({"id": [i]}))
    with pytest.raises(VersionNotFoundError):
        table.diff("nothing", rows=True)
    found = table.diff("snapshot.1", "snapshot.2", rows=True)
    table.write(pa.table({"id": [7]}), mode="overwrite")
    table.expire_snapshots(retain_max=1, retain_min=1)
    with pytest.raises(SnapshotExpiredError):
        found.to_arrow()


def test_columns_that_cannot_be_hashed_are_one_part(catalog: Catalog) -> None:
    table = catalog.create_table("d.t", "x DOUBLE, l ARRAY<INT>")
    table.write(pa.table({"x": [1.0], "l": pa.array([[1]], pa.list_(pa.int32()))}))
    planned = plan_row_diff(table, "main", None)
    assert planned.comparison.parts_of(10**9, at_least=50) == 1
    hashed = plan_row_diff(catalog.create_table("d.u", "x DOUBLE, k INT"), "main", None).comparison
    assert (hashed.parts_of(1), hashed.parts_of(1, at_least=50)) == (1, 50)


def test_a_damaged_file_is_named(catalog: Catalog) -> None:
    table = catalog.create_table("d.t", COLUMNS, **KINDS["keys"])
    table.create_branch("fix")
    table.branch("fix").write(some_rows(Random(1), table, 9))
    files = [path for path in Path(table.handle.layout.root).rglob("data-*") if path.is_file()]
    files[0].write_bytes(files[0].read_bytes()[:40])
    with pytest.raises(CorruptFileError, match=files[0].name):
        table.diff("main", "fix", rows=True)
