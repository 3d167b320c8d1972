"""Rebases beside changes of columns, options and comments: what one side changed is merged, contradictions are told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark import Catalog, Table
from paimon_spark.errors import BranchDivergedError, UnsupportedFeatureError
from tests.harness.table_files import missing_files

Act = Callable[[Table], Any]
Found = list[dict[str, Any]]


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    made = paimon_spark.load_catalog(str(tmp_path / "wh"))
    made.create_database("d")
    return made


@pytest.fixture(params=["keyed", "append"])
def table(catalog: Catalog, request: pytest.FixtureRequest) -> Table:
    keys = ["k"] if request.param == "keyed" else []
    options = {"bucket": "1"} if keys else {}
    made = catalog.create_table("d.t", "k BIGINT, a INT, v STRING", primary_keys=keys, options=options)
    put(made, {"k": 1, "a": 1, "v": "one"}, {"k": 2, "a": 2, "v": "two"})
    made.create_branch("fix")
    return made


def again(table: Table) -> Table:
    """The table as it is defined now."""
    return paimon_spark.load_table(table.handle.location)


def put(table: Table, *rows: dict[str, Any]) -> None:
    table.write(pa.Table.from_pylist(list(rows)))


def rows(table: Table) -> Found:
    return sorted(table.scan().to_arrow().to_pylist(), key=lambda r: [str(v) for v in r.values()])


def types(table: Table) -> dict[str, str]:
    return {f.name: str(f.type) for f in table.handle.schema.fields}


def rebased(table: Table, **how: Any) -> Table:
    planned = table.merge_branch("fix", if_main_moved="rebase", dry_run=True, **how)
    done = table.merge_branch("fix", if_main_moved="rebase", **how)
    assert (planned.rebased_rows, planned.schema_changes) == (done.rebased_rows, done.schema_changes)
    assert missing_files(table.handle) == []
    assert table.merge_branch("fix", if_main_moved="rebase", **how).already_merged
    return again(table)


def test_a_column_that_main_added_keeps_its_values(table: Table) -> None:
    fix = table.branch("fix")
    table.alter(add={"note": "STRING"})
    now = again(table)
    put(now, {"k": 3, "a": 3, "v": "three", "note": "main"})
    put(fix, {"k": 4, "a": 4, "v": "four"})
    assert rows(rebased(now)) == [
        {"k": 1, "a": 1, "v": "one", "note": None},
        {"k": 2, "a": 2, "v": "two", "note": None},
        {"k": 3, "a": 3, "v": "three", "note": "main"},
        {"k": 4, "a": 4, "v": "four", "note": None},
    ]


def test_a_column_that_the_branch_added_comes_to_main(table: Table) -> None:
    table.branch("fix").alter(add={"note": "STRING"})
    put(table.branch("fix"), {"k": 3, "a": 3, "v": "three", "note": "fix"})
    put(table, {"k": 4, "a": 4, "v": "four"})
    done = table.merge_branch("fix", if_main_moved="rebase", dry_run=True)
    assert done.schema_changes == ("column note added",)
    assert "definition: column note added" in str(done)
    assert "note" not in types(again(table))
    found = rows(rebased(table))
    assert found[2:] == [
        {"k": 3, "a": 3, "v": "three", "note": "fix"},
        {"k": 4, "a": 4, "v": "four", "note": None},
    ]


def test_both_may_add_the_same_column_and_others(table: Table) -> None:
    fix = table.branch("fix")
    fix.alter(add={"note": "STRING", "b": "INT"})
    table.alter(add={"m": "INT", "note": "STRING"})
    main, fix = again(table), table.branch("fix")
    put(main, {"k": 3, "a": 3, "v": "three", "note": "main", "m": 7})
    put(fix, {"k": 4, "a": 4, "v": "four", "note": "fix", "b": 8})
    now = rebased(main)
    assert list(types(now)) == ["k", "a", "v", "m", "note", "b"]
    assert rows(now)[2:] == [
        {"k": 3, "a": 3, "v": "three", "m": 7, "note": "main", "b": None},
        {"k": 4, "a": 4, "v": "four", "m": None, "note": "fix", "b": 8},
    ]
    put(table.branch("fix"), {"k": 5, "a": 5, "v": "five", "note": "again", "b": 9})
    put(now, {"k": 6, "a": 6, "v": "six", "note": "main", "m": 1, "b": 2})
    assert rows(rebased(now))[4:] == [
        {"k": 5, "a": 5, "v": "five", "m": None, "note": "again", "b": 9},
        {"k": 6, "a": 6, "v": "six", "m": 1, "note": "main", "b": 2},
    ]


def test_names_and_types_follow_the_side_that_changed_them(table: Table) -> None:
    table.branch("fix").alter(rename={"v": "text"})
    table.alter(retype={"a": "BIGINT"})
    main, fix = again(table), table.branch("fix")
    put(main, {"k": 3, "a": 2**40, "v": "three"})
    put(fix, {"k": 4, "a": 4, "text": "four"})
    now = rebased(main)
    assert types(now) == {
        "k": "BIGINT NOT NULL" if now.handle.schema.primary_keys else "BIGINT",
        "a": "BIGINT",
        "text": "STRING",
    }
    assert rows(now)[2:] == [{"k": 3, "a": 2**40, "text": "three"}, {"k": 4, "a": 4, "text": "four"}]


def test_names_may_change_places(table: Table) -> None:
    fix = table.branch("fix")
    fix.alter(add={"b": "INT"})
    fix = table.branch("fix")
    table.alter(add={"b": "INT"})
    main = again(table)
    put(main, {"k": 3, "a": 3, "v": "three", "b": 30})
    put(fix, {"k": 6, "a": 6, "v": "six", "b": 60})
    rebased(main)
    for old, new in (("a", "x"), ("b", "a"), ("x", "b")):
        table.branch("fix").alter(rename={old: new})
    put(table.branch("fix"), {"k": 4, "b": 4, "v": "four", "a": 40})
    put(main, {"k": 5, "a": 5, "v": "five", "b": 50})
    now = rebased(main)
    found = {r["k"]: (r["a"], r["b"]) for r in rows(now)}
    assert found == {1: (None, 1), 2: (None, 2), 3: (30, 3), 4: (40, 4), 5: (50, 5), 6: (60, 6)}


def test_dropped_columns(table: Table) -> None:
    table.branch("fix").alter(drop=["v"])
    put(table.branch("fix"), {"k": 3, "a": 3})
    put(table, {"k": 4, "a": 4, "v": "four"})
    now = rebased(table)
    assert list(types(now)) == ["k", "a"]
    assert [r["k"] for r in rows(now)] == [1, 2, 3, 4]
    now.alter(drop=["a"])
    put(table.branch("fix"), {"k": 5, "a": 5})
    assert rows(rebased(again(table)))[4:] == [{"k": 5}]


def test_options_and_comments(table: Table) -> None:
    fix = table.branch("fix")
    fix.alter(set_options={"snapshot.num-retained.max": "50"}, comment="from the branch")
    table.alter(set_options={"file.compression": "lz4"})
    put(again(table), {"k": 3, "a": 3, "v": "three"})
    done = table.merge_branch("fix", if_main_moved="rebase")
    assert done.schema_changes == ("option snapshot.num-retained.max = 50", "comment of the table changed")
    assert done.rebased_rows == 0
    schema = again(table).handle.schema
    assert schema.options["snapshot.num-retained.max"] == "50"
    assert schema.options["file.compression"] == "lz4"
    assert schema.comment == "from the branch"
    assert table.merge_branch("fix", if_main_moved="rebase").already_merged


@pytest.mark.parametrize(
    ("of_branch", "of_main", "told"),
    [
        ({"rename": {"v": "x"}}, {"rename": {"v": "y"}}, "the name of column v"),
        ({"retype": {"a": "BIGINT"}}, {"retype": {"a": "STRING"}}, "the type of column a"),
        ({"add": {"n": "INT"}}, {"add": {"n": "STRING"}}, "column n, added by both"),
        ({"drop": ["a"]}, {"retype": {"a": "BIGINT"}}, "column a, dropped on the branch"),
        ({"retype": {"a": "BIGINT"}}, {"drop": ["a"]}, "column a, dropped on main"),
        (
            {"set_options": {"snapshot.num-retained.max": "50"}},
            {"set_options": {"snapshot.num-retained.max": "60"}},
            "option snapshot.num-retained.max",
        ),
        ({"comment": "fix"}, {"comment": "main"}, "the comment of the table"),
    ],
    ids=lambda value: None if isinstance(value, dict) else str(value),
)
def test_contradictions_are_refused(table: Table, of_branch: Any, of_main: Any, told: str) -> None:
    table.branch("fix").alter(**of_branch)
    table.alter(**of_main)
    main = again(table)
    before = main.handle.schema
    with pytest.raises(BranchDivergedError, match=told):
        main.merge_branch("fix", if_main_moved="rebase")
    with pytest.raises(BranchDivergedError, match=told):
        main.merge_branch("fix", if_main_moved="rebase", dry_run=True)
    assert again(table).handle.schema == before


def test_a_name_that_main_gave_to_another_column_is_refused(table: Table) -> None:
    table.branch("fix").alter(add={"n": "INT"})
    table.alter(rename={"v": "n"})
    with pytest.raises((BranchDivergedError, UnsupportedFeatureError), match="n"):
        table.merge_branch("fix", if_main_moved="rebase")


def test_rows_that_both_changed_in_other_columns_are_put_together(catalog: Catalog) -> None:
    table = catalog.create_table("d.t", "k BIGINT, a INT", primary_keys=["k"], options={"bucket": "1"})
    put(table, *({"k": k, "a": 0} for k in range(6)))
    table.create_branch("fix")
    table.alter(add={"m": "INT"})
    table.branch("fix").alter(add={"b": "INT"})
    main, fix = again(table), table.branch("fix")
    put(main, {"k": 0, "a": 0, "m": 7}, {"k": 1, "a": 5, "m": None}, {"k": 2, "a": 5, "m": 7}, {"k": 3, "a": 0, "m": 7})
    put(fix, {"k": 0, "a": 9, "b": 8}, {"k": 1, "a": 0, "b": 8}, {"k": 2, "a": 5, "b": 8}, {"k": 4, "a": 9, "b": None})
    now = rebased(main)
    assert {r["k"]: (r["a"], r["m"], r["b"]) for r in rows(now)} == {
        0: (9, 7, 8),
        1: (5, None, 8),
        2: (5, 7, 8),
        3: (0, 7, None),
        4: (9, None, None),
        5: (0, None, None),
    }
    fix.delete("k = 3")
    put(now, {"k": 5, "a": 1, "m": 1, "b": 1})
    with pytest.raises(BranchDivergedError, match="k=3"):
        now.merge_branch("fix", if_main_moved="rebase")


def test_fields_inside_a_column(catalog: Catalog) -> None:
    table = catalog.create_table("d.t", "k BIGINT, s STRUCT<x: INT>", primary_keys=["k"], options={"bucket": "1"})
    put(table, {"k": 1, "s": {"x": 1}})
    table.create_branch("fix")
    table.branch("fix").alter(add={"s.y": "INT"})
    table.alter(add={"s.z": "INT"})
    main, fix = again(table), table.branch("fix")
    put(main, {"k": 2, "s": {"x": 2, "z": 20}})
    put(fix, {"k": 3, "s": {"x": 3, "y": 30}})
    now = rebased(main)
    assert rows(now) == [
        {"k": 1, "s": {"x": 1, "z": None, "y": None}},
        {"k": 2, "s": {"x": 2, "z": 20, "y": None}},
        {"k": 3, "s": {"x": 3, "z": None, "y": 30}},
    ]
