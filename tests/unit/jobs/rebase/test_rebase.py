"""Rebases: what a branch changed comes on top of what main changed since, as a model of rows has it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark import Catalog, Table
from paimon_spark.engine.commit.committer import Committer
from paimon_spark.errors import (
    BranchDivergedError,
    BranchNotFoundError,
    CheckFailedError,
    InvalidInputError,
    UnsupportedFeatureError,
)
from paimon_spark.jobs.rebase.rebase import Check, rebase
from paimon_spark.jobs.write import target as write_target
from paimon_spark.jobs.write.commit import commit_batch
from paimon_spark.jobs.write.target import SchemaChanges
from paimon_spark.maintenance.change import recover
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.retry import now_ms
from paimon_spark.versioning import branches, names
from tests.harness.fault_store import FaultStore, killed_at_each_change
from tests.harness.table_files import files_on_disk, missing_files, reachable_files
from tests.unit.versioning.test_merge_crashes import through

SLOW = {
    ("columns of append", ""),
    ("columns of keys", "checked"),
    ("sum", "checked"),
    ("tracked", "checked"),
    ("evolved", "checked"),
    ("evolved", ""),
}
"""Kills of rebases that take long, and differ little from others."""
Rows = dict[int, tuple[int, str]]
"""Key → sequence value and text."""


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    made = paimon_spark.load_catalog(str(tmp_path / "wh"))
    made.create_database("d")
    return made


def keyed(catalog: Catalog, name: str = "d.k", **options: str) -> Table:
    return catalog.create_table(
        name, "k BIGINT, seq BIGINT, v STRING", primary_keys=["k"], options={"bucket": "2", **options}
    )


def put(table: Table, rows: Rows) -> None:
    keys = list(rows)
    table.write(pa.table({"k": keys, "seq": [rows[k][0] for k in keys], "v": [rows[k][1] for k in keys]}))


def unreachable(table: Table) -> set[str]:
    forks = {f.path for f in files_on_disk(table.handle) if f.path.endswith(("/FORK", "/REBASED"))}
    return {f.path for f in files_on_disk(table.handle)} - reachable_files(table.handle) - forks


def rows_of(table: Table) -> Rows:
    return {r["k"]: (r["seq"], r["v"]) for r in table.scan().to_arrow().to_pylist()}


def three_ways(base: Rows, theirs: Rows, ours: Rows, on_conflict: str, *, theirs_later: bool) -> tuple[Rows, int]:
    """The merged rows, and the number of keys that both have changed from the base to different rows."""
    out, conflicts = dict(ours), 0
    for key in base.keys() | theirs.keys() | ours.keys():
        t, o = theirs.get(key), ours.get(key)
        if t in (base.get(key), o):
            continue
        wins = True
        if o != base.get(key):
            conflicts += 1
            wins = on_conflict == "theirs" or (on_conflict == "newest" and theirs_later)
        if wins and t is None:
            out.pop(key, None)
        elif wins and t is not None:
            out[key] = t
    return out, conflicts


def change(random: Random, table: Table, model: Rows, who: str) -> None:
    for _ in range(random.randint(1, 3)):
        match random.choice(["write", "write", "delete", "compact"]):
            case "write":
                rows = {k: (0, f"{who}{random.randrange(4)}") for k in random.sample(range(20), random.randint(1, 6))}
                put(table, rows)
                model.update(rows)
            case "delete":
                key = random.randrange(20)
                table.delete(f"k = {key}")
                model.pop(key, None)
            case "compact":
                table.compact(full=True)


@pytest.mark.ci
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("on_conflict", ["fail", "ours", "theirs", "newest"])
@pytest.mark.parametrize("options", [{}, {"bucket": "-1"}, {"deletion-vectors.enabled": "true"}], ids=str)
def test_keys_equal_the_model(catalog: Catalog, options: dict[str, str], on_conflict: str, seed: int) -> None:
    random = Random(f"{options} {on_conflict} {seed}")
    table = keyed(catalog, **options)
    base: Rows = {}
    put(table, {0: (0, "base")})
    base.update({0: (0, "base")})
    change(random, table, base, "base")
    table.create_branch("fix")
    fix = table.branch("fix")
    theirs, ours = dict(base), dict(base)
    for _ in range(2):  # the second rebase begins at the branch of the first
        change(random, fix, theirs, "fix")
        before_ours = dict(ours)
        change(random, table, ours, "main")
        heads = [t.snapshots()[-1] for t in (fix, table)]
        later = heads[0].time_ms > heads[1].time_ms
        expected, conflicts = three_ways(base, theirs, ours, on_conflict, theirs_later=later)
        moved = any(s.commit_kind.value != "COMPACT" for s in table.snapshots() if s.id > 0) and ours != before_ours
        if conflicts and on_conflict == "fail" and moved:
            with pytest.raises(BranchDivergedError, match="that the branch changed to other rows"):
                table.merge_branch("fix", if_main_moved="rebase")
            assert rows_of(table) == ours
            return
        done = table.merge_branch("fix", if_main_moved="rebase", on_conflict=on_conflict)  # type: ignore[arg-type]
        if done.rebased_rows is None:  # main had not moved, so it became the branch
            return
        assert rows_of(table) == expected
        assert done.kept_conflicts <= conflicts
        assert rows_of(fix) == theirs
        assert missing_files(table.handle) == []
        again = table.merge_branch("fix", if_main_moved="rebase")
        assert again.already_merged
        base, ours = dict(theirs), dict(expected)


def test_append_tables_get_the_files(catalog: Catalog) -> None:
    table = catalog.create_table("d.a", "k BIGINT, v STRING")
    schema = table.scan().arrow_schema

    def add(to: Table, *keys: int) -> None:
        to.write(pa.Table.from_pylist([{"k": k, "v": "x"} for k in keys], schema))

    def keys_of(of: Table) -> list[int]:
        return sorted(of.scan().to_arrow()["k"].to_pylist())

    add(table, 1, 2, 3)
    add(table, 4)
    table.create_branch("fix")
    fix = table.branch("fix")
    add(table, 10)
    add(fix, 20)
    fix.delete("k = 4")
    planned = table.merge_branch("fix", if_main_moved="rebase", dry_run=True)
    assert (planned.rebased_rows, planned.dry_run) == (2, True)
    assert keys_of(table) == [1, 2, 3, 4, 10]
    done = table.merge_branch("fix", if_main_moved="rebase")
    assert (done.rebased_rows, done.backup_branch) == (2, None)
    assert str(done) == "main has the changes of branch fix, 2 rows"
    assert keys_of(table) == [1, 2, 3, 10, 20]
    assert keys_of(fix) == [1, 2, 3, 20]
    add(table, 11)
    assert table.merge_branch("fix", if_main_moved="rebase").already_merged
    add(fix, 21)
    table.merge_branch("fix", if_main_moved="rebase")
    assert keys_of(table) == [1, 2, 3, 10, 11, 20, 21]
    fix.delete("k = 1")
    table.compact(full=True)
    with pytest.raises(BranchDivergedError, match="main no longer has 1 file that the branch removed"):
        table.merge_branch("fix", if_main_moved="rebase")
    assert missing_files(table.handle) == []
    table.delete_branch("fix")
    assert keys_of(table) == [1, 2, 3, 10, 11, 20, 21]
    table.expire_snapshots(retain_max=1, retain_min=1)
    assert keys_of(table) == [1, 2, 3, 10, 11, 20, 21]


@pytest.mark.parametrize("kind", ["plain", "partitioned", "buckets"])
def test_rows_of_a_replay_that_main_has_are_not_doubled(catalog: Catalog, kind: str) -> None:
    options = {"bucket": "2", "bucket-key": "k"} if kind == "buckets" else {}
    keys = ["v"] if kind == "partitioned" else []
    table = catalog.create_table("d.a", "k BIGINT, v STRING", partition_keys=keys, options=options)

    def add(to: Table, *keys: int) -> None:
        rows = [{"k": k, "v": "xy"[k % 2]} for k in keys]
        to.write(pa.Table.from_pylist(rows, pa.schema([("k", pa.int64()), ("v", pa.string())])))

    def keys_of(of: Table) -> list[int]:
        return sorted(of.scan().to_arrow()["k"].to_pylist())

    add(table, 1, 2)
    table.create_branch("replay")
    replay = table.branch("replay")
    add(table, 3, 4)
    add(table, 4, 666)  # the fault
    add(replay, 3, 4, 4)
    add(replay, 4, 5, 1)  # a third 4, and a 1 that is older than the fork
    table.compact(full=True)
    for dry_run in (True, False):
        with pytest.raises(BranchDivergedError, match="main has got 3 of the 6 rows that the branch added"):
            table.merge_branch("replay", if_main_moved="rebase", dry_run=dry_run)
    assert keys_of(table) == [1, 2, 3, 4, 4, 666]
    planned = table.merge_branch("replay", if_main_moved="rebase", on_conflict="theirs", dry_run=True)
    assert (planned.rebased_rows, planned.repeated_rows, planned.kept_conflicts) == (6, 3, 0)
    assert "6 rows; 3 of them were on main already" in str(planned)
    done = table.merge_branch("replay", if_main_moved="rebase", on_conflict="ours")
    assert (done.rebased_rows, done.repeated_rows, done.kept_conflicts) == (3, 0, 3)
    assert str(done) == "main has the changes of branch replay, 3 rows; 3 conflicting rows of main stayed"
    assert keys_of(table) == [1, 1, 2, 3, 4, 4, 4, 5, 666]
    assert table.merge_branch("replay", if_main_moved="rebase").already_merged


def test_a_replay_may_double_rows_where_that_is_asked_for(catalog: Catalog) -> None:
    table = catalog.create_table("d.a", "k BIGINT")
    rows = pa.table({"k": pa.array([None, 1, 1], pa.int64())})
    table.write(rows)
    table.create_branch("replay")
    table.write(rows)
    table.branch("replay").write(rows)
    with pytest.raises(BranchDivergedError, match="3 of the 3 rows"):
        table.merge_branch("replay", if_main_moved="rebase", on_conflict="newest")
    assert table.merge_branch("replay", if_main_moved="rebase", on_conflict="theirs").repeated_rows == 3
    assert table.scan().to_arrow().num_rows == 9


def numbers_of(table: Table) -> list[int]:
    return sorted(table.scan().to_arrow()["k"].to_pylist())


def add(table: Table, *keys: int) -> None:
    table.write(pa.table({"k": pa.array(keys, pa.int64()), "p": [k % 2 for k in keys]}))


@pytest.fixture(params=["plain", "partitioned", "buckets"])
def appended(catalog: Catalog, request: pytest.FixtureRequest) -> Table:
    """An append table of three small files, and its branch `fix`."""
    table = catalog.create_table(
        "d.a",
        "k BIGINT, p BIGINT",
        partition_keys=["p"] if request.param == "partitioned" else [],
        options={"bucket": "2", "bucket-key": "k"} if request.param == "buckets" else {},
    )
    for keys in ((1, 2), (3, 4), (5, 6)):
        add(table, *keys)
    table.create_branch("fix")
    return table


@pytest.mark.parametrize("on_main", ["nothing", "compaction", "overwrite"])
def test_a_compaction_of_the_branch_is_no_change(appended: Table, on_main: str) -> None:
    fix = appended.branch("fix")
    fix.compact(full=True)
    add(appended, 10)
    head = appended.scan().plan().snapshot
    for dry_run in (True, False):
        assert appended.merge_branch("fix", if_main_moved="rebase", dry_run=dry_run).already_merged
    assert appended.scan().plan().snapshot == head
    add(fix, 20, 21)
    fix.compact(full=True)
    kept = [1, 2, 3, 4, 5, 6, 10]
    if on_main == "compaction":
        appended.compact(full=True)
    elif on_main == "overwrite":
        rows = pa.table({"k": pa.array([1, 10], pa.int64()), "p": [1, 0]})
        appended.write(rows, mode="overwrite")
        kept = [1, 10]
    before = len(appended.snapshots())
    planned = appended.merge_branch("fix", if_main_moved="rebase", dry_run=True)
    assert (planned.rebased_rows, planned.repeated_rows) == (2, 0)
    assert appended.merge_branch("fix", if_main_moved="rebase").rebased_rows == 2
    assert numbers_of(appended) == [*kept, 20, 21]
    assert len(appended.snapshots()) == before + 1
    assert numbers_of(fix) == [1, 2, 3, 4, 5, 6, 20, 21]


@pytest.mark.parametrize("on_main", ["nothing", "compaction"])
def test_rows_of_a_replay_are_not_doubled_after_a_compaction(appended: Table, on_main: str) -> None:
    fix = appended.branch("fix")
    add(appended, 7, 8, 8)
    add(fix, 7, 8, 9, 1)
    fix.compact(full=True)
    if on_main == "compaction":
        appended.compact(full=True)
    with pytest.raises(BranchDivergedError, match="main has got 2 of the 4 rows that the branch added"):
        appended.merge_branch("fix", if_main_moved="rebase")
    planned = appended.merge_branch("fix", if_main_moved="rebase", on_conflict="theirs", dry_run=True)
    assert (planned.rebased_rows, planned.repeated_rows) == (4, 2)
    done = appended.merge_branch("fix", if_main_moved="rebase", on_conflict="ours")
    assert (done.rebased_rows, done.kept_conflicts) == (2, 2)
    assert numbers_of(appended) == [1, 1, 2, 3, 4, 5, 6, 7, 8, 8, 9]


def test_a_branch_that_removed_rows_and_compacted_needs_main_to_have_its_files(appended: Table) -> None:
    fix = appended.branch("fix")
    fix.delete("k = 3")
    add(fix, 20)
    fix.compact(full=True)
    add(appended, 10)
    appended.merge_branch("fix", if_main_moved="rebase")
    assert numbers_of(appended) == [1, 2, 4, 5, 6, 10, 20]
    fix.delete("k = 4")
    appended.compact(full=True)
    with pytest.raises(BranchDivergedError, match="that the branch removed"):
        appended.merge_branch("fix", if_main_moved="rebase")


@pytest.mark.parametrize("kind", ["plain", "buckets"])
def test_rows_deleted_by_vectors_are_deleted_on_main(catalog: Catalog, kind: str) -> None:
    options = {"bucket": "1", "bucket-key": "k"} if kind == "buckets" else {}
    table = catalog.create_table("d.a", "k BIGINT, p BIGINT", options={**options, "deletion-vectors.enabled": "true"})
    add(table, *range(10))
    add(table, *range(10, 20))
    table.delete("k = 0")
    table.create_branch("fix")
    fix = table.branch("fix")
    fix.delete("k IN (1, 2, 11)")
    add(fix, 30, 31)
    fix.delete("k = 31")
    add(table, 40)
    table.delete("k IN (2, 3, 12)")
    for dry_run in (True, False):
        found = table.merge_branch("fix", if_main_moved="rebase", dry_run=dry_run)
        assert (found.rebased_rows, found.repeated_rows) == (4, 0)
    gone = {0, 1, 2, 3, 11, 12}
    expected = [k for k in range(20) if k not in gone] + [30, 40]
    assert numbers_of(table) == expected
    assert numbers_of(fix) == [k for k in range(20) if k not in {0, 1, 2, 11}] + [30]
    fix.delete("k = 5")
    table.delete("k = 6")
    table.merge_branch("fix", if_main_moved="rebase")
    expected = [k for k in expected if k not in {5, 6}]
    assert numbers_of(table) == expected
    fix.delete("k = 7")
    table.compact(full=True)
    with pytest.raises(BranchDivergedError, match="in which it deleted rows"):
        table.merge_branch("fix", if_main_moved="rebase")
    assert missing_files(table.handle) == []
    table.delete_branch("fix")
    table.expire_snapshots(retain_max=1, retain_min=1, older_than=now_ms())
    assert numbers_of(table) == expected


def test_a_row_that_was_deleted_and_written_again_stays_after_a_compaction(catalog: Catalog) -> None:
    table = catalog.create_table(
        "d.a", "k BIGINT, p BIGINT", partition_keys=["p"], options={"deletion-vectors.enabled": "true"}
    )
    add(table, *range(6))
    add(table, *range(6, 10))
    table.create_branch("fix")
    fix = table.branch("fix")
    fix.delete("k = 5")
    add(fix, 5, 11)
    fix.compact(full=True, partitions=[{"p": 0}])
    add(table, 40)
    assert table.merge_branch("fix", if_main_moved="rebase").rebased_rows == 1
    assert numbers_of(table) == [*range(10), 11, 40]


@pytest.fixture
def rewritten(catalog: Catalog) -> Table:
    """A table with a deletion vector, and its branch `fix`, which deleted another row and rewrote the file."""
    table = catalog.create_table("d.a", "k BIGINT, p BIGINT", options={"deletion-vectors.enabled": "true"})
    add(table, *range(10))
    table.delete("k = 0")
    table.create_branch("fix")
    fix = table.branch("fix")
    fix.delete("k = 1")
    fix.compact(full=True)
    add(table, 40)
    return table


def test_a_file_that_the_branch_rewrote_keeps_what_main_deleted(rewritten: Table) -> None:
    table = rewritten
    planned = table.merge_branch("fix", if_main_moved="rebase", dry_run=True)
    assert planned.rebased_rows == 9 + 8, "removed and added"
    table.delete("k = 2")
    with pytest.raises(BranchDivergedError, match="rows were deleted there, too"):
        table.merge_branch("fix", if_main_moved="rebase")
    assert numbers_of(table) == [1, 3, 4, 5, 6, 7, 8, 9, 40]


def test_a_file_with_deleted_rows_may_be_rewritten_on_the_branch(rewritten: Table) -> None:
    table = rewritten
    table.merge_branch("fix", if_main_moved="rebase")
    assert numbers_of(table) == [2, 3, 4, 5, 6, 7, 8, 9, 40]
    assert missing_files(table.handle) == []
    table.compact(full=True)
    assert numbers_of(table) == [2, 3, 4, 5, 6, 7, 8, 9, 40]


def test_rows_that_main_deletes_meanwhile_stay_deleted(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    table = catalog.create_table("d.a", "k BIGINT, p BIGINT", options={"deletion-vectors.enabled": "true"})
    add(table, *range(10))
    table.create_branch("fix")
    table.branch("fix").delete("k = 1")
    add(table, 40)

    def commit(*given: Any, **named: Any) -> Any:
        table.delete("k = 2")
        return commit_batch(*given, **named)

    monkeypatch.setattr("paimon_spark.jobs.rebase.commit.commit_batch", commit)
    assert table.merge_branch("fix", if_main_moved="rebase").rebased_rows == 1
    assert numbers_of(table) == [0, 3, 4, 5, 6, 7, 8, 9, 40]
    assert unreachable(table) == set()


def test_a_compaction_of_keys_is_no_change(catalog: Catalog) -> None:
    table = keyed(catalog)
    put(table, {1: (0, "a")})
    put(table, {2: (0, "b")})
    table.create_branch("fix")
    put(table, {3: (0, "c")})
    table.branch("fix").compact(full=True)
    put(table.branch("fix"), {1: (0, "a")})
    head = table.scan().plan().snapshot
    for dry_run in (True, False):
        assert table.merge_branch("fix", if_main_moved="rebase", dry_run=dry_run).already_merged
    assert table.scan().plan().snapshot == head


@pytest.mark.parametrize("kind", ["keyed", "append"])
def test_the_fork_may_have_expired(catalog: Catalog, kind: str) -> None:
    table = keyed(catalog) if kind == "keyed" else catalog.create_table("d.a", "k BIGINT, seq BIGINT, v STRING")
    put(table, {1: (0, "a")})
    put(table, {2: (0, "b")})
    table.create_branch("fix")
    fix = table.branch("fix")
    put(fix, {3: (0, "fix")})
    fix.delete("k = 2")
    for key in (4, 5):
        put(table, {key: (0, "main")})
    for each in (table, fix):
        each.expire_snapshots(retain_max=1, retain_min=1, older_than=now_ms())
        assert len(each.snapshots()) == 1
    table.merge_branch("fix", if_main_moved="rebase")
    assert rows_of(table) == {1: (0, "a"), 3: (0, "fix"), 4: (0, "main"), 5: (0, "main")}
    assert missing_files(table.handle) == []


@pytest.mark.parametrize("expired", [False, True])
@pytest.mark.parametrize("kind", ["keyed", "append"])
def test_a_branch_of_a_branch_brings_the_changes_of_both(catalog: Catalog, kind: str, *, expired: bool) -> None:
    table = keyed(catalog) if kind == "keyed" else catalog.create_table("d.a", "k BIGINT, seq BIGINT, v STRING")
    put(table, {1: (0, "a")})
    put(table, {2: (0, "b")})
    table.create_branch("parent")
    parent = table.branch("parent")
    put(parent, {3: (0, "parent")})
    parent.delete("k = 2")
    parent.create_branch("child")
    child = table.branch("child")
    put(child, {4: (0, "child")})
    put(parent, {5: (0, "later")})
    for key in (6, 7):
        put(table, {key: (0, "main")})
    if expired:
        for each in (table, parent, child):
            each.expire_snapshots(retain_max=1, retain_min=1, older_than=now_ms())
    planned = table.merge_branch("child", if_main_moved="rebase", dry_run=True)
    assert planned.rebased_rows == 3
    table.merge_branch("child", if_main_moved="rebase")
    found = {1: (0, "a"), 3: (0, "parent"), 4: (0, "child"), 6: (0, "main"), 7: (0, "main")}
    assert rows_of(table) == found
    put(child, {8: (0, "child")})
    put(table, {9: (0, "main")})
    table.merge_branch("child", if_main_moved="rebase")
    assert rows_of(table) == {**found, 8: (0, "child"), 9: (0, "main")}
    assert missing_files(table.handle) == []


def guards(table: Table) -> dict[str, int]:
    """The snapshots of the guard tags of a branch."""
    return {tag.name: tag.snapshot.id for tag in table.tags(include_internal=True) if tag.guards is not None}


@pytest.mark.parametrize("checked", [False, True])
@pytest.mark.parametrize("kind", ["keyed", "append"])
def test_the_last_rebase_is_kept(catalog: Catalog, kind: str, *, checked: bool) -> None:
    table = keyed(catalog) if kind == "keyed" else catalog.create_table("d.a", "k BIGINT, seq BIGINT, v STRING")
    check: Check | None = (lambda _, at: (at, {})) if checked else None
    put(table, {1: (0, "a")})
    table.create_branch("fix")
    fix = table.branch("fix")
    put(fix, {2: (0, "fix")})
    put(table, {3: (0, "main")})
    rebase(table, "fix", check=check)
    assert guards(table) == {"branch-guard-fix": 1, "branch-guard-fix.rebase": 3}
    assert guards(fix) == {"branch-guard-fix": 1, "branch-guard-fix.rebase": 2}
    with pytest.raises(InvalidInputError, match="guards"):
        table.delete_tag("branch-guard-fix.rebase")
    table.delete("k = 2")
    put(fix, {4: (0, "fix")})
    put(table, {5: (0, "main")})
    for each in (table, fix):
        each.expire_snapshots(retain_max=1, retain_min=1, older_than=now_ms())
    table.rename_branch("fix", "mended")
    mended = table.branch("mended")
    assert guards(table) == {"branch-guard-mended": 1, "branch-guard-mended.rebase": 3}
    assert guards(mended) == {"branch-guard-mended": 1, "branch-guard-mended.rebase": 2}
    rebase(table, "mended", check=check)  # what main deleted since the last one does not come back
    assert rows_of(table) == {k: (0, v) for k, v in ((1, "a"), (3, "main"), (4, "fix"), (5, "main"))}
    assert guards(table)["branch-guard-mended.rebase"] == table.snapshots()[-1].id
    assert guards(mended)["branch-guard-mended.rebase"] == mended.snapshots()[-1].id
    assert table.doctor() == []
    assert missing_files(table.handle) == []
    table.delete_branch("mended")
    assert guards(table) == {}
    assert unreachable(table) == set()


def test_a_rebase_that_was_rolled_back_is_done_again(catalog: Catalog) -> None:
    table = keyed(catalog)
    put(table, {1: (0, "a")})
    table.create_branch("fix")
    put(table.branch("fix"), {2: (0, "fix")})
    put(table, {3: (0, "main")})
    table.merge_branch("fix", if_main_moved="rebase")
    table.rollback_to(2)
    assert guards(table) == {"branch-guard-fix": 1}
    put(table, {4: (0, "main")})
    table.merge_branch("fix", if_main_moved="rebase")
    assert rows_of(table) == {1: (0, "a"), 2: (0, "fix"), 3: (0, "main"), 4: (0, "main")}
    assert table.doctor() == []


def test_a_rebase_that_nothing_tells_of_any_more_is_not_done_again(catalog: Catalog) -> None:
    table = keyed(catalog)
    put(table, {1: (0, "a")})
    table.create_branch("fix")
    put(table.branch("fix"), {2: (0, "fix")})
    put(table, {3: (0, "main")})
    table.merge_branch("fix", if_main_moved="rebase")
    table.delete("k = 2")
    put(table, {5: (0, "main")})
    table.handle.store.delete(table.handle.layout.tag_path("branch-guard-fix.rebase"))
    table.expire_snapshots(retain_max=1, retain_min=1, older_than=now_ms())
    before = rows_of(table)
    with pytest.raises(InvalidInputError, match=r"was rebased before, and the snapshots .* have expired"):
        table.merge_branch("fix", if_main_moved="rebase")
    assert rows_of(table) == before


@pytest.mark.parametrize("checked", [False, True])
@pytest.mark.parametrize("kind", ["keyed", "append"])
def test_another_branch_may_get_the_changes(catalog: Catalog, kind: str, *, checked: bool) -> None:
    table = keyed(catalog) if kind == "keyed" else catalog.create_table("d.a", "k BIGINT, seq BIGINT, v STRING")
    put(table, {1: (0, "a"), 2: (0, "b")})
    table.create_branch("stage")
    table.create_branch("fix")
    put(table.branch("stage"), {3: (0, "stage")})
    put(table.branch("fix"), {4: (0, "fix")})
    table.branch("fix").alter(add={"note": "STRING"})
    check: Check | None = (lambda _, at: (at, {})) if checked else None
    before = rows_of(table)
    for fresh in (True, False):
        done = rebase(table, "fix", "stage", check=check)
        assert done.already_merged is not fresh
        assert done.target == "stage"
    assert "stage has every commit of it" in str(done)
    staged = table.branch("stage")
    assert rows_of(staged) == {**before, 3: (0, "stage"), 4: (0, "fix")}
    assert "note" in staged.handle.schema.row_type.names
    assert rows_of(table) == before
    assert "note" not in paimon_spark.load_table(table.handle.location).handle.schema.row_type.names
    again = table.merge_branch("fix", target="stage", if_main_moved="rebase", dry_run=True)
    assert again.already_merged
    assert missing_files(table.handle) == []
    with pytest.raises(InvalidInputError, match="cannot be rebased onto itself"):
        table.merge_branch("fix", target="fix", if_main_moved="rebase")
    with pytest.raises(InvalidInputError, match="called on branch 'stage' of table"):
        table.branch("stage").merge_branch("fix", if_main_moved="rebase")
    with pytest.raises(InvalidInputError, match="only main becomes a branch"):
        table.merge_branch("fix", target="stage")
    with pytest.raises(BranchNotFoundError):
        table.merge_branch("fix", target="gone", if_main_moved="rebase")


def test_a_branch_of_a_branch_that_is_gone_is_refused(catalog: Catalog) -> None:
    table = keyed(catalog)
    put(table, {1: (0, "a")})
    table.create_branch("parent")
    put(table.branch("parent"), {2: (0, "parent")})
    table.branch("parent").create_branch("child")
    put(table.branch("child"), {3: (0, "child")})
    put(table, {4: (0, "main")})
    table.delete_branch("parent")
    with pytest.raises(InvalidInputError, match="shares no snapshot with main"):
        table.merge_branch("child", if_main_moved="rebase")


def test_a_column_of_row_kinds_stays_as_it_is(catalog: Catalog) -> None:
    table = catalog.create_table(
        "d.k", "k BIGINT, v STRING, op STRING", primary_keys=["k"], options={"bucket": "1", "rowkind.field": "op"}
    )

    def act(to: Table, *rows: tuple[int, str, str]) -> None:
        to.write(pa.table(dict(zip("kv", zip(*rows, strict=True), strict=False)) | {"op": [r[2] for r in rows]}))

    def found() -> list[tuple[int, str, str]]:
        return sorted(tuple(r.values()) for r in table.scan().to_arrow().to_pylist())

    act(table, (1, "a", "+I"), (2, "b", "+I"), (3, "c", "+I"))
    table.create_branch("fix")
    fix = table.branch("fix")
    act(fix, (1, "a", "-D"), (2, "new", "+U"), (4, "d", "+I"))
    act(table, (3, "main", "+U"))
    assert table.merge_branch("fix", if_main_moved="rebase").rebased_rows == 3
    assert found() == [(2, "new", "+U"), (3, "main", "+U"), (4, "d", "+I")]
    act(fix, (3, "fix", "+U"))
    act(table, (3, "other", "+U"))
    with pytest.raises(BranchDivergedError, match="main changed 1 key"):
        table.merge_branch("fix", if_main_moved="rebase")
    assert table.merge_branch("fix", if_main_moved="rebase", on_conflict="theirs").rebased_rows == 1
    assert found() == [(2, "new", "+U"), (3, "fix", "+U"), (4, "d", "+I")]
    table.compact(full=True)
    assert found() == [(2, "new", "+U"), (3, "fix", "+U"), (4, "d", "+I")]


def test_conflicts_are_told_by_key(catalog: Catalog) -> None:
    table = keyed(catalog)
    put(table, dict.fromkeys(range(9), (0, "base")))
    table.create_branch("fix")
    fix = table.branch("fix")
    put(table, dict.fromkeys((1, 2, 3, 4), (0, "main")))
    put(fix, {1: (0, "main"), 2: (0, "fix"), 3: (0, "fix"), 4: (0, "fix"), 5: (0, "fix"), 7: (0, "fix")})
    head = table.snapshots()[-1].id
    with pytest.raises(BranchDivergedError, match=r"main changed 3 keys .* \(k=2; k=3; k=4\); choose on_conflict"):
        table.merge_branch("fix", if_main_moved="rebase")
    assert table.snapshots()[-1].id == head
    planned = table.merge_branch("fix", if_main_moved="rebase", on_conflict="ours", dry_run=True)
    assert (planned.rebased_rows, planned.kept_conflicts) == (2, 3)
    done = table.merge_branch("fix", if_main_moved="rebase", on_conflict="ours")
    assert "2 rows; 3 conflicting rows of main stayed" in str(done)
    assert rows_of(table)[5] == (0, "fix")
    with pytest.raises(InvalidInputError, match="on_conflict='mine': expected 'fail', 'ours', 'theirs' or 'newest'"):
        table.merge_branch("fix", if_main_moved="rebase", on_conflict="mine")  # type: ignore[arg-type]
    put(table, {8: (0, "main")})
    put(fix, {7: (0, "more")})
    with pytest.raises(UnsupportedFeatureError, match="checks of a rebase need its rows"):
        table.merge_branch("fix", if_main_moved="rebase", checks={"c": "SELECT 1 FROM {table}"}, dry_run=True)


def test_sequence_fields_decide(catalog: Catalog) -> None:
    table = keyed(catalog, **{"sequence.field": "seq"})
    put(table, dict.fromkeys(range(4), (1, "base")))
    table.create_branch("fix")
    fix = table.branch("fix")
    put(fix, {0: (2, "fix"), 1: (9, "fix"), 2: (2, "fix")})
    put(table, {0: (5, "main"), 1: (5, "main")})
    with pytest.raises(UnsupportedFeatureError, match=r"1 row of branch 'fix' .* smaller values of seq"):
        table.merge_branch("fix", if_main_moved="rebase", on_conflict="theirs")
    done = table.merge_branch("fix", if_main_moved="rebase", on_conflict="newest")
    assert done.kept_conflicts == 1
    assert rows_of(table) == {0: (5, "main"), 1: (9, "fix"), 2: (2, "fix"), 3: (1, "base")}


def test_what_cannot_be_rebased(catalog: Catalog) -> None:
    table = keyed(catalog)
    put(table, {1: (0, "base")})
    table.create_branch("fix")
    put(table, {2: (0, "main")})
    table.create_branch("empty", empty=True)
    put(table.branch("empty"), {5: (0, "empty")})
    with pytest.raises(InvalidInputError, match="shares no snapshot with main"):
        table.merge_branch("empty", if_main_moved="rebase")


def test_main_that_has_not_moved_becomes_the_branch(catalog: Catalog) -> None:
    table = keyed(catalog)
    put(table, {1: (0, "base")})
    table.create_branch("fix")
    put(table.branch("fix"), {2: (0, "fix")})
    done = table.merge_branch("fix", if_main_moved="rebase")
    assert done.rebased_rows is None
    assert done.published_snapshot_id == table.branch("fix").snapshots()[-1].id
    assert table.merge_branch("fix", if_main_moved="rebase").already_merged


@pytest.mark.parametrize("changed", [3, 60])
def test_rows_that_do_not_fit_in_memory_come_in_parts(
    catalog: Catalog, changed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("paimon_spark.jobs.rebase.rows.PART_ROWS", 40)
    table = keyed(catalog, bucket="1")
    put(table, dict.fromkeys(range(100), (0, "base")))
    table.create_branch("fix")
    put(table.branch("fix"), dict.fromkeys(range(changed), (0, "fix")))
    put(table, dict.fromkeys(range(60, 70), (0, "main")))
    assert table.merge_branch("fix", if_main_moved="rebase").rebased_rows == changed
    expected = dict.fromkeys(range(100), (0, "base")) | dict.fromkeys(range(60, 70), (0, "main"))
    assert rows_of(table) == expected | dict.fromkeys(range(changed), (0, "fix"))


@pytest.mark.parametrize("checked", [False, True])
@pytest.mark.parametrize("kind", ["keyed", "append"])
def test_main_may_be_altered_meanwhile(
    catalog: Catalog, kind: str, monkeypatch: pytest.MonkeyPatch, *, checked: bool
) -> None:
    table = keyed(catalog) if kind == "keyed" else catalog.create_table("d.a", "k BIGINT, seq BIGINT, v STRING")
    put(table, {1: (0, "a")})
    table.create_branch("fix")
    table.branch("fix").alter(add={"note": "STRING"})
    put(table.branch("fix"), {2: (0, "fix")})
    put(table, {3: (0, "main")})
    times = 0
    with_changes = write_target.with_changes

    def altered(handle: TableHandle, changes: SchemaChanges) -> tuple[TableHandle, bool]:
        nonlocal times
        times += 1
        if times == 1:
            paimon_spark.load_table(table.handle.location).alter(add={"other": "INT"})
        return with_changes(handle, changes)

    for module in ("write.batch", "rebase.rebase"):
        monkeypatch.setattr(f"paimon_spark.jobs.{module}.with_changes", altered)
    check: Check | None = (lambda _, at: (at, {})) if checked else None
    rebase(table, "fix", check=check)
    now = paimon_spark.load_table(table.handle.location)
    assert set(now.handle.schema.row_type.names) == {"k", "seq", "v", "note", "other"}
    assert rows_of(now) == {1: (0, "a"), 2: (0, "fix"), 3: (0, "main")}
    assert times >= 2
    assert missing_files(now.handle) == []


def racing(monkeypatch: pytest.MonkeyPatch, act: Callable[[int], Any]) -> None:
    """Run `act` whenever a rebase is about to commit, with the number of the time."""
    times = 0
    commit = Committer.commit

    def later(self: Any, *args: Any, **options: Any) -> Any:
        nonlocal times
        if options.get("only_on") is not None:
            times += 1
            act(times)
        return commit(self, *args, **options)

    monkeypatch.setattr(Committer, "commit", later)


@pytest.mark.parametrize("bucket", ["2", "-1"])
def test_commits_of_others_to_other_keys_go_before(
    catalog: Catalog, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = keyed(catalog, bucket=bucket)
    put(table, dict.fromkeys(range(5), (0, "base")))
    table.create_branch("fix")
    put(table, {0: (0, "main")})
    put(table.branch("fix"), {1: (0, "fix")})
    racing(monkeypatch, lambda n: put(table, {2: (0, f"race{n}")}) if n < 4 else None)
    table.merge_branch("fix", if_main_moved="rebase")
    assert rows_of(table) == {0: (0, "main"), 1: (0, "fix"), 2: (0, "race3"), 3: (0, "base"), 4: (0, "base")}
    assert missing_files(table.handle) == []


def test_commits_of_others_to_the_same_keys_are_conflicts(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    table = keyed(catalog)
    put(table, dict.fromkeys(range(5), (0, "base")))
    table.create_branch("fix")
    put(table, {0: (0, "main")})
    put(table.branch("fix"), {1: (0, "fix")})
    racing(monkeypatch, lambda n: put(table, {1: (0, "race")}) if n == 1 else None)
    with pytest.raises(BranchDivergedError, match=r"k=1"):
        table.merge_branch("fix", if_main_moved="rebase")
    assert rows_of(table)[1] == (0, "race")
    assert missing_files(table.handle) == []


Seen = list[tuple[str, Rows]]


def seeing(table: Table, act: Callable[[int], Any]) -> tuple[Seen, Check]:
    """A check that passes, what it saw by branch, and `act` run after each, with its number."""
    seen: Seen = []

    def check(branch: str, snapshot: int | str | None) -> tuple[int | str | None, dict[str, str]]:
        seen.append((branch, rows_of(table.branch(branch) if snapshot is None else table.at(f"{branch}.{snapshot}"))))
        act(len(seen))
        return snapshot, {"checked": str(len(seen))}

    return seen, check


@pytest.mark.parametrize("options", [{}, {"deletion-vectors.enabled": "true"}, {"primary-key": "none"}], ids=str)
def test_the_rows_that_are_published_were_checked(catalog: Catalog, options: dict[str, str]) -> None:
    is_append = bool(options.get("primary-key"))
    table = catalog.create_table("d.a", "k BIGINT, seq BIGINT, v STRING") if is_append else keyed(catalog, **options)
    put(table, {0: (0, "base")})
    table.create_branch("fix")
    put(table.branch("fix"), {1: (0, "fix")})
    put(table, {2: (0, "main")})
    seen, check = seeing(table, lambda n: put(table, {2 + n: (0, "race")}) if n < 3 else None)
    done = rebase(table, "fix", check=check)
    assert rows_of(table) == {0: (0, "base"), 1: (0, "fix"), 2: (0, "main"), 3: (0, "race"), 4: (0, "race")}
    assert len(seen) == 3, "main moved twice after it was checked"
    assert seen[-1][1] == rows_of(table)
    head = table.snapshots()[-1]
    assert (head.properties or {})["checked"] == "3"
    assert (done.published_snapshot_id, done.rebased_rows, done.branch) == (head.id, 1, "fix")
    assert [b.name for b in table.branches(include_internal=True)] == ["fix"]
    assert missing_files(table.handle) == []
    assert unreachable(table) == set()


def test_main_that_moves_each_time_stays(catalog: Catalog) -> None:
    table = keyed(catalog)
    put(table, {0: (0, "base")})
    table.create_branch("fix")
    put(table.branch("fix"), {1: (0, "fix")})
    put(table, {2: (0, "main")})
    seen, check = seeing(table, lambda n: put(table, {2: (n, "race")}))
    with pytest.raises(
        BranchDivergedError, match=r"main of table d\.k moved from snapshot 6 to 7 meanwhile; try again, or stop"
    ):
        rebase(table, "fix", check=check)
    assert len(seen) == 5
    assert rows_of(table) == {0: (0, "base"), 2: (5, "race")}
    assert [b.name for b in table.branches(include_internal=True)] == ["fix"]


def test_rows_that_fail_a_check_are_not_published(catalog: Catalog) -> None:
    table = keyed(catalog)
    put(table, {0: (0, "base")})
    table.create_branch("fix")
    put(table.branch("fix"), {1: (0, "fix")})
    put(table, {2: (0, "main")})

    def check(branch: str, snapshot: int | str | None) -> tuple[int | str | None, dict[str, str]]:
        raise CheckFailedError("no")

    with pytest.raises(CheckFailedError):
        rebase(table, "fix", check=check)
    assert rows_of(table) == {0: (0, "base"), 2: (0, "main")}
    assert [b.name for b in table.branches(include_internal=True)] == ["fix"]
    assert unreachable(table) == set()


def test_what_killed_processes_left_is_deleted_a_day_later(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    table = keyed(catalog)
    put(table, {0: (0, "base")})
    old, new = names.rebase_name(0), names.rebase_name(now_ms())
    for name, time_ms in ((old, now_ms() - 25 * 3_600_000), (new, now_ms()), ("main-rebase-mine", 0)):
        branches.create_branch(table.handle, name, clock_ms=lambda time_ms=time_ms: time_ms)  # type: ignore[misc]
    table.create_branch("fix")
    put(table.branch("fix"), {1: (0, "fix")})
    put(table, {2: (0, "main")})
    rebase(table, "fix", check=lambda branch, snapshot: (snapshot, {}))
    assert {b.name for b in table.branches(include_internal=True)} == {"fix", new, "main-rebase-mine"}


def test_raced_by_writers(catalog: Catalog) -> None:
    table = keyed(catalog)
    put(table, dict.fromkeys(range(50), (0, "base")))
    table.create_branch("fix")
    put(table, {0: (0, "main")})
    fixed = dict.fromkeys(range(40, 50), (0, "fix"))
    put(table.branch("fix"), fixed)
    stop = threading.Event()
    written: Rows = {}

    def write() -> None:
        n = 0
        while not stop.is_set():
            n += 1
            rows = dict.fromkeys(range(1, 20, 3), (0, f"w{n}"))
            put(table, rows)
            written.update(rows)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        table.merge_branch("fix", if_main_moved="rebase")
    finally:
        stop.set()
        writer.join()
    assert rows_of(table) == {**dict.fromkeys(range(50), (0, "base")), 0: (0, "main"), **written, **fixed}
    assert missing_files(table.handle) == []


@pytest.mark.parametrize(
    ("kind", "checked"),
    [
        pytest.param(kind, checked, marks=pytest.mark.slow if (kind, checked) in SLOW else pytest.mark.ci)
        for checked in ("", "checked")
        for kind in ("keys", "append", "vectors", "tracked", "evolved", "columns of keys", "columns of append", "sum")
    ],
)
def test_killed_at_any_change_of_the_store_main_has_all_or_nothing(tmp_path: Path, kind: str, checked: str) -> None:
    check: Check | None = None if not checked else lambda _, at: (at, {})
    alters, kind = "columns" in kind, kind.split()[-1]
    made = paimon_spark.load_catalog(str(tmp_path / "made"))
    made.create_database("d")
    keys: dict[str, Any] = {"primary_keys": ["k"], "options": {"bucket": "1"}} if kind in ("keys", "sum") else {}
    if kind == "sum":
        removes = {"aggregation.remove-record-on-delete": "true", "fields.seq.aggregate-function": "sum"}
        keys["options"] |= {"merge-engine": "aggregation", **removes}
    if kind in ("vectors", "tracked", "evolved"):
        keys = {"options": {"deletion-vectors.enabled": "true"}}
    if kind in ("tracked", "evolved"):
        keys["options"] |= {"row-tracking.enabled": "true", "data-evolution.enabled": str(kind == "evolved").lower()}
    table = made.create_table("d.t", "k BIGINT, seq BIGINT, v STRING", **keys)
    put(table, {1: (0, "base"), 2: (0, "base")})
    table.create_branch("fix")
    if alters:
        table.branch("fix").alter(add={"note": "STRING"})
    put(table.branch("fix"), {3: (0, "fix")})
    table.branch("fix").delete("k <= 2" if kind == "append" else "k = 1")
    put(table, {4: (0, "main")})
    if kind in ("tracked", "evolved"):
        table.compact(full=True)
    before = rows_of(table)
    expected = {3: (0, "fix"), 4: (0, "main"), **({} if kind == "append" else {2: (0, "base")})}

    def onto_main(copied: Table, store: FaultStore) -> None:
        rebase(through(store, copied), "fix", check=check)

    for copied in killed_at_each_change(table, tmp_path / "killed", onto_main, step=1, between=(3, 200)):
        recover(copied.handle)
        assert rows_of(copied) in (before, expected)
        rebase(copied, "fix", check=check)
        assert rows_of(copied) == expected
        assert ("note" in paimon_spark.load_table(copied.handle.location).handle.schema.row_type.names) == alters
        assert rows_of(copied.branch("fix")) == rows_of(table.branch("fix"))
        assert missing_files(copied.handle) == []


@pytest.mark.parametrize("kind", ["keys", "append", "tracked"])
def test_two_rebases_of_one_branch_at_once_bring_its_rows_once(
    catalog: Catalog, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"row-tracking.enabled": "true", "deletion-vectors.enabled": "true"} if kind == "tracked" else {}
    table = (
        keyed(catalog)
        if kind == "keys"
        else catalog.create_table("d.k", "k BIGINT, seq BIGINT, v STRING", options=options)
    )
    put(table, dict.fromkeys(range(4), (1, "base")))
    table.create_branch("fix")
    put(table.branch("fix"), {10: (1, "fix"), 11: (1, "fix")})
    table.branch("fix").delete("k = 2")
    put(table, {20: (1, "main")})
    raced: list[int] = []
    real = Committer.commit

    def commit(self: Committer, *args: Any, **kwargs: Any) -> Any:
        if not raced:
            raced.append(1)
            assert table.merge_branch("fix", if_main_moved="rebase").rebased_rows
            put(table, {21: (1, "main")})
        return real(self, *args, **kwargs)

    monkeypatch.setattr(Committer, "commit", commit)
    assert table.merge_branch("fix", if_main_moved="rebase").already_merged
    assert raced
    found = table.scan().to_arrow()
    assert sorted(found.column("k").to_pylist()) == [0, 1, 3, 10, 11, 20, 21]
    assert unreachable(table) == set()
