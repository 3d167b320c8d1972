"""A catalog that works on a branch (option `branch`): tables that lack it are read on main, and not changed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import paimon_spark
from paimon_spark import Catalog, Table
from paimon_spark.errors import BranchNotFoundError, InvalidInputError
from paimon_spark.sql.names import CallContext
from paimon_spark.sql.procedures import call
from tests.harness.real_tables import put, read
from tests.unit.versioning.publishing import tags


@pytest.fixture
def plain(tmp_path: Path) -> Catalog:
    """`d.with` with a branch `fix`, and `d.without`."""
    made = paimon_spark.load_catalog(str(tmp_path / "wh"))
    made.create_database("d")
    for name in ("with", "without"):
        put(made.create_table(f"d.{name}", "id BIGINT", options={"bucket": "-1"}), 1)
    made.table("d.with").create_branch("fix")
    made.table("d.without").create_branch("fixes")
    return made


def on(plain: Catalog, branch: str, **options: str) -> Catalog:
    return paimon_spark.load_catalog(plain.warehouse, branch=branch, **options)


CHANGES: dict[str, Callable[[Table], Any]] = {
    "write": lambda t: put(t, 2),
    "overwrite": lambda t: put(t, 2, mode="overwrite"),
    "delete": lambda t: t.delete("id = 1"),
    "alter": lambda t: t.alter(add={"v": "STRING"}),
    "compact": lambda t: t.compact(full=True),
    "compact manifests": lambda t: t.compact_manifest(),
    "tag": lambda t: t.create_tag("v"),
    "savepoint": lambda t: t.create_savepoint(),
    "another branch": lambda t: t.create_branch("other"),
    "delete a branch": lambda t: t.delete_branch("fixes"),
    "rename a branch": lambda t: t.rename_branch("fixes", "x"),
    "merge": lambda t: t.merge_branch("fixes"),
    "fast-forward": lambda t: t.fast_forward("fixes"),
    "replace main": lambda t: t.replace_main("fixes"),
    "roll back": lambda t: t.rollback_to(1),
    "roll back on top": lambda t: t.rollback_to_as_latest(1),
    "undo": lambda t: t.undo(),
    "expire snapshots": lambda t: t.expire_snapshots(retain_max=1),
    "expire tags": lambda t: t.expire_tags(),
    "remove orphans": lambda t: t.remove_orphan_files(),
    "purge": lambda t: t.purge(),
    "reset a consumer": lambda t: t.reset_consumer("c", next_snapshot=1),
    "repair": lambda t: t.doctor(repair=True),
}


def contents(table: Table) -> set[str]:
    root = Path(table.location.removeprefix("file://"))
    return {str(p.relative_to(root)) for p in root.rglob("*")}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("branch", ["fxi", "Fixes"])
def test_a_table_without_the_branch_is_not_changed(plain: Catalog, change: str, branch: str) -> None:
    before = contents(plain.table("d.without"))
    with pytest.raises(BranchNotFoundError, match=f"is not changed: it has no branch '{branch}'") as raised:
        CHANGES[change](on(plain, branch).table("d.without"))
    assert "\n" not in str(raised.value)
    assert ("did you mean 'fixes'?" in str(raised.value)) or branch == "fxi"
    assert contents(plain.table("d.without")) == before


def test_it_is_read_on_main_and_main_can_be_named(plain: Catalog) -> None:
    catalog = on(plain, "fix")
    assert read(catalog.table("d.without"), "id") == [1]
    assert catalog.table("d.without").doctor() == []
    assert [s.id for s in catalog.table("d.without").snapshots()] == [1]
    put(catalog.table("d.without$branch_main"), 2)
    put(catalog.table("d.without", branch="main"), 3)
    put(catalog.table("d.without").branch("main"), 4)
    assert read(plain.table("d.without"), "id") == [1, 2, 3, 4]
    put(catalog.table("d.with"), 5)
    assert read(plain.table("d.with"), "id") == [1]
    assert read(plain.table("d.with").branch("fix"), "id") == [1, 5]


def test_the_branch_itself_can_be_created(plain: Catalog) -> None:
    on(plain, "fix").table("d.without").create_branch("fix")
    put(on(plain, "fix").table("d.without"), 2)
    assert (read(plain.table("d.without"), "id"), read(plain.table("d.without").branch("fix"), "id")) == ([1], [1, 2])


def test_a_renamed_or_deleted_branch_no_longer_takes_writes(plain: Catalog) -> None:
    catalog, main = on(plain, "fix"), plain.table("d.with")
    main.rename_branch("fix", "other")
    for _ in range(2):
        with pytest.raises(BranchNotFoundError, match="has no branch 'fix'"):
            put(catalog.table("d.with"), 2)
        main.delete_branch("other") if "other" in {b.name for b in main.branches()} else None
    assert read(main, "id") == [1]


@pytest.mark.parametrize("change", ["write", "overwrite", "delete", "alter", "tag"])
def test_the_first_change_creates_the_branch_where_asked(plain: Catalog, change: str) -> None:
    catalog = on(plain, "late", **{"branch.create": "true"})
    main = plain.table("d.without")
    before = (read(main, "id"), main.row_type.names, tags(main))
    CHANGES[change](catalog.table("d.without"))
    assert "late" in {b.name for b in main.branches()}
    assert (read(main, "id"), plain.table("d.without").row_type.names, tags(main)) == before
    late = catalog.table("d.without")
    assert late.branch_name == "late"
    changed = (read(late, "id"), late.row_type.names, tags(late))
    assert changed != ([1], ("id",), [])


def test_whole_tables_are_dropped_and_renamed_without_it_only(plain: Catalog) -> None:
    catalog = on(plain, "fix")
    for name in ("d.with", "d.without"):
        with pytest.raises(InvalidInputError, match="option branch of the catalog is 'fix'"):
            catalog.drop_table(name)
        with pytest.raises(InvalidInputError, match="option branch of the catalog is 'fix'"):
            catalog.rename_table(name, "d.new")
    assert plain.list_tables("d") == ["with", "without"]
    catalog.on_main().drop_table("d.without")
    assert plain.list_tables("d") == ["with"]


def test_procedures_that_change_are_refused(plain: Catalog) -> None:
    context = CallContext(on(plain, "fxi"))
    with pytest.raises(BranchNotFoundError, match="has no branch 'fxi'"):
        call(context, "create_tag", ["d.with", "v"])
    assert call(context, "doctor", ["d.with"]).rows == ()
    assert tags(plain.table("d.with")) == []
