"""Rebases of append tables that track rows: rows that both sides had are told by their ids, wherever they lie."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, Final, Literal

import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark import Catalog, Table
from paimon_spark.engine.commit.committer import Committer
from paimon_spark.errors import BranchDivergedError, UnsupportedFeatureError
from tests.harness.row_updates import update
from tests.harness.table_files import missing_files

KINDS: Final = {
    "rewritten": {"row-tracking.enabled": "true"},
    "vectors": {"row-tracking.enabled": "true", "deletion-vectors.enabled": "true"},
    "evolved": {
        "row-tracking.enabled": "true",
        "data-evolution.enabled": "true",
        "deletion-vectors.enabled": "true",
    },
}
OnConflict = Literal["fail", "ours", "theirs", "newest"]
Rows = dict[int, tuple[Any, Any]]
"""k → a and v."""


@pytest.fixture(params=list(KINDS))
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Table:
    return make(tmp_path, request.param)


def make(tmp_path: Path, kind: str) -> Table:
    catalog = paimon_spark.load_catalog(str(tmp_path / "wh"))
    catalog.create_database("d")
    options = {"bucket": "-1", "compaction.min.file-num": "2", **KINDS[kind]}
    return catalog.create_table("d.t", "k BIGINT, p STRING, a BIGINT, v STRING", partition_keys=["p"], options=options)


def put(table: Table, rows: Rows) -> None:
    keys = list(rows)
    columns = {"k": keys, "p": [f"p{k % 2}" for k in keys]}
    table.write(pa.table(columns | {"a": [rows[k][0] for k in keys], "v": [rows[k][1] for k in keys]}))


def catalog_of(table: Table) -> Catalog:
    return paimon_spark.load_catalog(str(Path(table.handle.location).parents[1]))


def rows_of(table: Table) -> Rows:
    found = table.scan().to_arrow().to_pylist()
    assert len({r["k"] for r in found}) == len(found)
    return {r["k"]: (r["a"], r["v"]) for r in found}


def ids_of(table: Table) -> dict[int, int]:
    found = catalog_of(table).table("d.t$row_tracking").scan().to_arrow().to_pylist()
    return {r["k"]: r["_ROW_ID"] for r in found}


def merged(base: Rows, theirs: Rows, main: Rows, on_conflict: str) -> tuple[Rows, int]:
    """Main after the rebase, and the number of conflicts."""
    out, conflicts = dict(main), 0
    for key in base.keys() | theirs.keys():
        b, t, m = (rows.get(key) for rows in (base, theirs, main))
        if t in (b, m):
            continue
        conflicts += m != b
        if m != b and on_conflict != "theirs":
            continue
        out.pop(key, None)
        if t is not None:
            out[key] = t
    return out, conflicts


def test_a_row_deleted_on_the_branch_is_deleted_in_the_file_that_main_rewrote(table: Table) -> None:
    put(table, {k: (k, "x") for k in range(6)})
    table.create_branch("fix")
    fix = table.branch("fix")
    fix.delete("k = 2")
    table.delete("k = 4")
    put(table, {6: (6, "new"), 8: (8, "new")})
    table.compact(full=True)
    table.merge_branch("fix", if_main_moved="rebase")
    assert rows_of(table) == {k: (k, "new" if k > 5 else "x") for k in (0, 1, 3, 5, 6, 8)}
    assert missing_files(table.handle) == []


def test_changed_rows_keep_their_ids_and_what_main_changed_in_other_rows(table: Table) -> None:
    put(table, {k: (k, "x") for k in range(6)})
    before = ids_of(table)
    table.create_branch("fix")
    fix = table.branch("fix")
    update(fix, "k = 0", "a", None)
    update(fix, "k in (1, 2)", "v", "corrected")
    put(fix, {10: (10, "of the branch")})
    update(table, "k = 4", "v", "of main")
    put(table, {20: (20, "of main")})
    result = table.merge_branch("fix", if_main_moved="rebase")
    assert result.rebased_rows == 4
    assert rows_of(table) == {
        0: (None, "x"),
        1: (1, "corrected"),
        2: (2, "corrected"),
        3: (3, "x"),
        4: (4, "of main"),
        5: (5, "x"),
        10: (10, "of the branch"),
        20: (20, "of main"),
    }
    after = ids_of(table)
    assert {k: after[k] for k in before} == before
    assert len(set(after.values())) == len(after)
    assert table.merge_branch("fix", if_main_moved="rebase").rebased_rows is None


@pytest.mark.parametrize("on_conflict", ["fail", "ours", "theirs", "newest"])
def test_rows_that_both_changed_are_conflicts(table: Table, on_conflict: OnConflict) -> None:
    put(table, {k: (k, "x") for k in range(6)})
    table.create_branch("fix")
    fix = table.branch("fix")
    update(table, "k <= 2", "v", "of main")
    table.delete("k = 3")
    update(fix, "k in (0, 1, 3, 4)", "v", "of the branch")
    fix.delete("k = 2")
    if on_conflict == "fail":
        with pytest.raises(BranchDivergedError, match=r"main changed 4 rows that the branch changed.*_ROW_ID \d"):
            table.merge_branch("fix", if_main_moved="rebase", on_conflict=on_conflict)
        return
    if on_conflict != "ours" and table.handle.options.data_evolution:
        with pytest.raises(UnsupportedFeatureError, match=r"main lacks 1 row that it changed.*on_conflict='ours'"):
            table.merge_branch("fix", if_main_moved="rebase", on_conflict=on_conflict)
        return
    theirs = on_conflict != "ours"  # the branch's commit is the newest
    dry = table.merge_branch("fix", if_main_moved="rebase", on_conflict=on_conflict, dry_run=True)
    result = table.merge_branch("fix", if_main_moved="rebase", on_conflict=on_conflict)
    assert (dry.rebased_rows, dry.kept_conflicts) == (result.rebased_rows, result.kept_conflicts)
    assert (result.rebased_rows, result.kept_conflicts) == ((5, 0) if theirs else (1, 4))
    of_both = (
        {0: "of the branch", 1: "of the branch", 3: "of the branch"} if theirs else dict.fromkeys(range(3), "of main")
    )
    assert rows_of(table) == {k: (k, v) for k, v in ({4: "of the branch", 5: "x"} | of_both).items()}


def test_rows_that_a_rebase_brought_to_main_cannot_be_changed_by_the_next(table: Table) -> None:
    put(table, {0: (0, "x")})
    table.create_branch("fix")
    fix = table.branch("fix")
    put(fix, {1: (1, "of the branch")})
    put(table, {2: (2, "of main")})
    table.merge_branch("fix", if_main_moved="rebase")
    update(fix, "k = 1", "v", "again")
    table.compact(full=True)
    put(table, {4: (4, "of main")})
    before = rows_of(table)
    with pytest.raises((UnsupportedFeatureError, BranchDivergedError), match=r"earlier rebase|no longer has"):
        table.merge_branch("fix", if_main_moved="rebase")
    assert rows_of(table) == before


def test_columns_added_on_both_sides_come_along(tmp_path: Path) -> None:
    table = make(tmp_path, "evolved")
    put(table, {k: (k, "x") for k in range(4)})
    table.create_branch("fix")
    fix = table.branch("fix")
    fix.alter(add={"b": "BIGINT"})
    update(table.branch("fix"), "k = 1", "b", 7)
    table.alter(add={"m": "STRING"})
    update(catalog_of(table).table("d.t"), "k = 1", "m", "main's")
    table.merge_branch("fix", if_main_moved="rebase")
    found = {
        r["k"]: (r["a"], r["v"], r["m"], r["b"]) for r in catalog_of(table).table("d.t").scan().to_arrow().to_pylist()
    }
    assert found == {k: (k, "x", "main's" if k == 1 else None, 7 if k == 1 else None) for k in range(4)}


def test_a_change_of_the_same_rows_while_the_rebase_is_written(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    put(table, {k: (k, "x") for k in range(4)})
    table.create_branch("fix")
    update(table.branch("fix"), "k = 0", "v", "of the branch")
    put(table, {8: (8, "of main")})
    real: Callable[..., Any] = Committer.commit
    raced: list[int] = []

    def commit(self: Committer, *args: Any, **kwargs: Any) -> Any:
        if not raced and kwargs.get("operation") == "WRITE":
            raced.append(1)
            update(table, "k = 0", "v", "of main")
        return real(self, *args, **kwargs)

    monkeypatch.setattr(Committer, "commit", commit)
    with pytest.raises(BranchDivergedError, match="main changed 1 row that the branch changed"):
        table.merge_branch("fix", if_main_moved="rebase")
    monkeypatch.undo()
    assert raced
    assert rows_of(table)[0] == (0, "of main")


class History:
    """Random commits to one side, and the rows that it should have."""

    def __init__(self, table: Table, rows: Rows, random: Random, new: int) -> None:
        self.table, self.rows, self.random, self.new = table, rows, random, new

    def act(self, times: int) -> None:
        for _ in range(times):
            getattr(self, self.random.choice(["insert", "insert", "update", "update", "delete", "compact"]))()
            assert rows_of(self.table) == self.rows

    def insert(self) -> None:
        count = self.random.randint(1, 3)
        more: Rows = {self.new + i: (self.random.randint(0, 3), None) for i in range(count)}
        self.new += count
        put(self.table, more)
        self.rows |= more

    def some(self) -> list[int]:
        keys = sorted(k for k in self.rows if k < 100)  # rows that the other side may have
        return self.random.sample(keys, min(len(keys), self.random.randint(1, 3)))

    def update(self) -> None:
        keys = self.some()
        column = self.random.choice("av")
        value: Any = self.random.randint(0, 9) if column == "a" else str(self.random.randint(0, 9))
        if keys:
            update(self.table, f"k in ({', '.join(map(str, keys))})", column, value)
        for k in keys:
            a, v = self.rows[k]
            self.rows[k] = (value, v) if column == "a" else (a, value)

    def delete(self) -> None:
        keys = self.some()
        if keys:
            self.table.delete(f"k in ({', '.join(map(str, keys))})")
        for k in keys:
            del self.rows[k]

    def compact(self) -> None:
        self.table.compact(full=True)


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("seed", range(12))
def test_random_histories(tmp_path: Path, kind: str, seed: int) -> None:
    random = Random(f"{kind} {seed}")
    table = make(tmp_path, kind)
    main = History(table, {}, random, 0)
    put(table, rows := {k: (k, "x") for k in range(8)})
    main.rows, main.new = dict(rows), 100
    main.act(2)
    table.create_branch("fix")
    base = dict(main.rows)
    fix = History(table.branch("fix"), dict(main.rows), random, 200)
    for _ in range(3):
        fix.act(random.randint(1, 3))
        main.act(random.randint(0, 3))
        on_conflict: OnConflict = random.choice(["fail", "ours", "theirs"])
        expected, conflicts = merged(base, fix.rows, main.rows, on_conflict)
        try:
            table.merge_branch("fix", if_main_moved="rebase", on_conflict=on_conflict)
        except BranchDivergedError:
            assert conflicts
            assert on_conflict == "fail"
            assert rows_of(table) == main.rows
            return
        except UnsupportedFeatureError:
            assert (kind, on_conflict) == ("evolved", "theirs")
            assert any(fix.rows.get(k) not in (None, row) and k not in main.rows for k, row in base.items())
            assert rows_of(table) == main.rows
            return
        assert not (conflicts and on_conflict == "fail")
        main.rows = expected
        assert rows_of(table) == expected
        assert missing_files(table.handle) == []
        base = dict(fix.rows)
