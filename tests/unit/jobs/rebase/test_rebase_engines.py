"""Rebases of tables whose merge engine puts columns together: records on top, replaced rows, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark import Catalog, Table
from paimon_spark.engine.commit.entries import live_at, numbers
from paimon_spark.errors import BranchDivergedError, UnsupportedFeatureError
from paimon_spark.metadata.retry import now_ms
from tests.harness.real_tables import put
from tests.harness.table_files import files_on_disk, missing_files, reachable_files

Row = tuple[int | None, str | None]
SUM: Final = {"merge-engine": "aggregation", "fields.n.aggregate-function": "sum"}
SUM_REMOVES: Final = {**SUM, "aggregation.remove-record-on-delete": "true"}
PARTIAL: Final = {"merge-engine": "partial-update"}
PARTIAL_REMOVES: Final = {**PARTIAL, "partial-update.remove-record-on-delete": "true"}
FIRST: Final = {"merge-engine": "first-row"}
GROUPED: Final = {**PARTIAL, "fields.n.sequence-group": "v"}


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    made = paimon_spark.load_catalog(str(tmp_path / "wh"))
    made.create_database("d")
    return made


def made(catalog: Catalog, options: dict[str, str], **rows: Row) -> tuple[Table, Table]:
    """A table with rows, and its branch."""
    columns = "k STRING, n BIGINT, v STRING"
    table = catalog.create_table("d.k", columns, primary_keys=["k"], options={"bucket": "1", **options})
    put(table, *((k, *row) for k, row in rows.items()))
    table.create_branch("fix")
    return table, table.branch("fix")


def rows_of(table: Table) -> dict[str, Row]:
    return {r["k"]: (r["n"], r["v"]) for r in table.scan().to_arrow().to_pylist()}


def rebased(table: Table, on_conflict: Any = "fail") -> dict[str, Row]:
    """The rows after a rebase, which a compaction does not change."""
    planned = table.merge_branch("fix", if_main_moved="rebase", on_conflict=on_conflict, dry_run=True)
    done = table.merge_branch("fix", if_main_moved="rebase", on_conflict=on_conflict)
    assert (planned.rebased_rows, planned.kept_conflicts) == (done.rebased_rows, done.kept_conflicts)
    found = rows_of(table)
    table.compact(full=True)
    assert rows_of(table) == found
    assert missing_files(table.handle) == []
    return found


def refused(table: Table, match: str, on_conflict: Any = "fail") -> None:
    head = table.snapshots()[-1].id
    for dry_run in (True, False):
        with pytest.raises(UnsupportedFeatureError, match=match):
            table.merge_branch("fix", if_main_moved="rebase", on_conflict=on_conflict, dry_run=dry_run)
    assert table.snapshots()[-1].id == head
    assert missing_files(table.handle) == []


def compacted_and_expired(fix: Table) -> None:
    """Fold the records of the branch, so that they are not known any more."""
    fix.compact(full=True)
    fix.expire_snapshots(retain_max=1, retain_min=1, older_than=now_ms())


@pytest.mark.parametrize("options", [PARTIAL, SUM, FIRST, SUM_REMOVES, PARTIAL_REMOVES], ids=str)
@pytest.mark.parametrize("folded", [False, True])
def test_new_keys(catalog: Catalog, options: dict[str, str], *, folded: bool) -> None:
    table, fix = made(catalog, options, a=(1, "base"))
    put(fix, ("b", 2, "fix"))
    put(fix, ("b", None, "again"))
    put(table, ("c", 3, "main"))
    if folded:
        compacted_and_expired(fix)
    assert rebased(table) == {"a": (1, "base"), "b": rows_of(fix)["b"], "c": (3, "main")}


@pytest.mark.parametrize("compacted", [False, True])
def test_records_go_on_top_of_keys_that_main_left(catalog: Catalog, *, compacted: bool) -> None:
    table, fix = made(catalog, SUM, a=(1, "base"), b=(1, "base"))
    put(fix, ("a", 10, None))
    put(fix, ("a", 100, "fix"))
    put(table, ("b", 5, "main"), ("c", 7, "main"))
    if compacted:
        fix.compact(full=True)
    assert rebased(table) == {"a": (111, "fix"), "b": (6, "main"), "c": (7, "main")}
    put(fix, ("a", 1000, None))  # again, from the last rebase
    put(table, ("c", 1, "main"))
    assert rebased(table) == {"a": (1111, "fix"), "b": (6, "main"), "c": (8, "main")}


def test_records_of_groups_of_columns(catalog: Catalog) -> None:
    table, fix = made(catalog, GROUPED, a=(5, "base"))
    put(fix, ("a", 4, "older"))
    put(fix, ("a", 6, "newer"))
    put(table, ("b", 1, "main"))
    assert rebased(table) == {"a": (6, "newer"), "b": (1, "main")}


def test_partial_rows_that_were_folded(catalog: Catalog) -> None:
    table, fix = made(catalog, PARTIAL, a=(1, "base"), b=(1, "base"))
    put(fix, ("a", 2, None))
    put(table, ("b", 9, None))
    compacted_and_expired(fix)
    assert rebased(table) == {"a": (2, "base"), "b": (9, "base")}


def test_folded_rows_replace_those_of_main_where_rows_can_be_removed(catalog: Catalog) -> None:
    table, fix = made(catalog, SUM_REMOVES, a=(1, "base"), b=(1, "base"), c=(1, "base"))
    put(fix, ("a", 10, "fix"))
    fix.delete("k = 'c'")
    put(table, ("b", 5, "main"))
    compacted_and_expired(fix)
    assert rebased(table) == {"a": (11, "fix"), "b": (6, "main")}


def test_no_compaction_can_part_a_removal_from_the_row_after_it(catalog: Catalog) -> None:
    table, fix = made(catalog, SUM_REMOVES, a=(1, "base"), b=(1, "base"))
    table.compact(full=True)
    put(fix, ("a", 10, "fix"))
    put(table, ("b", 5, "main"))
    compacted_and_expired(fix)
    table.merge_branch("fix", if_main_moved="rebase")
    live = live_at(table.handle, table.snapshots()[-1])
    assert numbers(live, "level").min() == numbers(live, "level").max() > 0
    assert len({f.path for f in files_on_disk(table.handle)} - reachable_files(table.handle)) == 2  # FORK and REBASED
    for n in range(6):  # compactions of the newest files alone
        put(table, ("b", n, "later"))
    assert rows_of(table) == {"a": (11, "fix"), "b": (21, "later")}


def test_a_row_that_lost_a_value_is_replaced(catalog: Catalog) -> None:
    table, fix = made(catalog, PARTIAL_REMOVES, a=(1, "base"), b=(1, "base"))
    fix.delete("k = 'a'")
    put(fix, ("a", 2, None))
    put(table, ("b", 2, "main"))
    assert rows_of(fix)["a"] == (2, None)
    assert rebased(table) == {"a": (2, None), "b": (2, "main")}


@pytest.mark.parametrize("options", [SUM, FIRST], ids=["sum", "first-row"])
def test_what_the_engine_cannot_be_given_is_refused(catalog: Catalog, options: dict[str, str]) -> None:
    table, fix = made(catalog, options, a=(1, "base"))
    if options is FIRST:
        fix.write(pa.table({"k": ["a"], "n": [9], "v": ["fix"]}), mode="overwrite")
        fix.compact(full=True)
    else:
        put(fix, ("a", 10, "fix"))
        compacted_and_expired(fix)
    put(table, ("b", 1, "main"))
    refused(table, f"it changed 1 row .* merge-engine {options['merge-engine']}")


def test_rows_removed_where_the_engine_keeps_them(catalog: Catalog) -> None:
    table, fix = made(catalog, SUM, a=(1, "base"), b=(1, "base"))
    fix.compact(full=True)
    fix.delete("k = 'a'")
    put(table, ("c", 1, "main"))
    refused(table, "it removed 1 row .* merge-engine aggregation .* aggregation.remove-record-on-delete=true")
    ignoring, other = made_ignoring(catalog)
    other.write(pa.table({"k": ["b"], "n": [1], "v": ["fix"]}), mode="overwrite")
    put(ignoring, ("c", 1, "main"))
    refused(ignoring, "it removed 1 row .* ignore-delete")


def made_ignoring(catalog: Catalog) -> tuple[Table, Table]:
    catalog.drop_table("d.k")
    return made(catalog, {"ignore-delete": "true"}, a=(1, "base"))


def test_conflicts_are_about_merged_rows(catalog: Catalog) -> None:
    table, fix = made(catalog, SUM_REMOVES, a=(1, "base"), b=(1, "base"))
    put(fix, ("a", 10, "fix"), ("b", 2, "fix"))
    put(table, ("a", 5, "main"), ("b", 2, "fix"))
    with pytest.raises(BranchDivergedError, match=r"main changed 1 key .*\(k=a\)"):
        table.merge_branch("fix", if_main_moved="rebase")
    assert rebased(table, "ours") == {"a": (6, "main"), "b": (3, "fix")}


@pytest.mark.parametrize("options", [SUM, SUM_REMOVES], ids=["keeps", "removes"])
def test_the_row_of_the_branch_wins_where_rows_can_be_removed(catalog: Catalog, options: dict[str, str]) -> None:
    table, fix = made(catalog, options, a=(1, "base"))
    put(fix, ("a", 10, "fix"))
    put(table, ("a", 5, "main"))
    if options is SUM:
        refused(table, "it changed 1 row .* merge-engine aggregation", "theirs")
    else:
        assert rebased(table, "theirs") == {"a": (11, "fix")}


def test_columns_that_are_never_null_are_not_replaced(catalog: Catalog) -> None:
    table = catalog.create_table(
        "d.k", "k STRING, n BIGINT NOT NULL, v STRING", primary_keys=["k"], options={"bucket": "1", **SUM_REMOVES}
    )
    schema = pa.schema([pa.field("k", pa.string(), False), pa.field("n", pa.int64(), False), ("v", pa.string())])
    table.write(pa.table({"k": ["a"], "n": [1], "v": ["base"]}, schema=schema))
    table.create_branch("fix")
    fix = table.branch("fix")
    fix.write(pa.table({"k": ["a"], "n": [10], "v": ["fix"]}, schema=schema))
    table.write(pa.table({"k": ["a"], "n": [5], "v": ["main"]}, schema=schema))
    refused(table, "it changed 1 row", "theirs")
