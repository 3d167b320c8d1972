"""The commits of all branches as one graph: shared ones once, with their parents and the names that point at them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark.api.table import Table
from paimon_spark.errors import BranchNotFoundError, InvalidInputError
from paimon_spark.format.metadata_files.snapshot import encode
from paimon_spark.lineage.index.provenance import JOB
from paimon_spark.maintenance.consumers import Consumer, write_consumer
from paimon_spark.metadata.branches import fork_path, snapshot_identity
from paimon_spark.versioning.log import Commit, History
from tests.harness.real_tables import a_table
from tests.unit.versioning.test_diff import add, append_table


def shape(history: History) -> dict[str, tuple[str | None, tuple[str, ...]]]:
    return {c.key: (c.parent, c.branches) for c in history.commits}


def names(commit: Commit) -> list[str]:
    return [f"{r.kind} {r.name}" for r in commit.refs]


def test_shared_commits_stand_once_and_names_point_at_them(tmp_path: Path) -> None:
    table = append_table(tmp_path)
    assert table.history().commits == () and table.history().branches == ("main",)
    add(table, range(3))
    add(table, range(3))
    table.create_tag("v1")
    table.create_branch("fix", tag="v1")
    table.create_branch("bare", empty=True)
    add(table, range(2))
    table.create_savepoint()
    add(table.branch("fix"), range(4))
    write_consumer(table.handle, Consumer("etl", 3))
    found = table.history()
    both = ("main", "fix")
    assert shape(found) == {
        "main.4": ("main.3", ("main",)),
        "main.3": ("main.2", ("main",)),
        "fix.3": ("main.2", ("fix",)),
        "main.2": ("main.1", both),
        "main.1": (None, both),
    }
    by_key = {c.key: c for c in found.commits}
    assert names(by_key["main.4"]) == ["branch main", "savepoint 4"]
    assert names(by_key["main.3"]) == ["consumer etl"]
    assert names(by_key["fix.3"]) == ["branch fix"]
    assert sorted(set(names(by_key["main.2"]))) == ["guard fix", "tag v1"]
    assert [c.row_delta for c in found.commits if c.key == "fix.3"] == [4] and found.is_whole
    assert found.branches == ("main", "bare", "fix") and all(c.is_alive for c in found.commits)
    assert table.branch("fix").history() == found
    json.dumps(found.to_dict())


def test_a_compaction_changes_no_rows(tmp_path: Path) -> None:
    table = a_table("id BIGINT", keys="id", where=tmp_path, name="db.k")
    for _ in range(5):
        table.write(pa.table({"id": range(4)}))
    table.compact(full=True)
    history = table.history()
    (compacted,) = [c for c in history.commits if c.kind == "COMPACT"]
    assert (compacted.row_delta or 0) < 0 and "rows" not in str(compacted)
    assert all("+4 rows" in str(c) for c in history.commits if c.kind == "APPEND")
    assert str(compacted.row_delta) not in history._repr_html_()


def test_a_branch_of_another_engine_is_placed_by_its_files(tmp_path: Path) -> None:
    table = append_table(tmp_path)
    add(table, range(3))
    add(table, range(3))
    table.create_branch("fix", snapshot_id=2)
    fix = table.branch("fix")
    add(fix, range(4))
    Path(fork_path(fix.handle)).unlink()
    assert shape(table.history()) == {
        "main.2": ("main.1", ("main", "fix")),
        "main.1": (None, ("main", "fix")),
        "fix.3": ("main.2", ("fix",)),
    }


def test_expired_commits_that_tags_keep_are_there_and_gaps_are_said(tmp_path: Path) -> None:
    table = append_table(tmp_path)
    for i in range(6):
        add(table, range(i, i + 1))
        if i == 1:
            table.create_tag("kept")
    table.expire_snapshots(retain_max=2, retain_min=1)
    found = table.history()
    assert [(c.id, c.is_alive, c.is_after_gap, c.parent) for c in found.commits] == [
        (6, True, False, "main.5"),
        (5, True, True, "main.2"),
        (2, False, True, None),
    ]


def test_after_a_merge_main_holds_the_branch_and_the_backup_parts_where_main_was_left(tmp_path: Path) -> None:
    table = append_table(tmp_path)
    add(table, range(3))
    table.create_branch("fix", snapshot_id=1)
    add(table, range(8))
    add(table.branch("fix"), range(2))
    backup = table.merge_branch("fix", if_main_moved="replace").backup_branch
    assert backup is not None
    assert shape(table.history(include_internal=True)) == {
        "main.2": ("main.1", ("main", "fix")),
        f"{backup}.2": ("main.1", (backup,)),
        "main.1": (None, ("main", "fix", backup)),
    }
    plain = table.history()
    assert shape(plain) == {"main.2": ("main.1", ("main", "fix")), "main.1": (None, ("main", "fix"))}
    assert plain.branches == ("main", "fix") and backup not in str(plain) + plain._repr_html_()
    asked = table.history(branch=backup)
    assert set(shape(asked)) == {f"{backup}.2", "main.1"}, "a backup that is asked for is shown"


def test_a_branch_that_main_means_stands_as_main(tmp_path: Path) -> None:
    table = append_table(tmp_path)
    add(table, range(3))
    table.create_branch("fix", snapshot_id=1)
    add(table, range(8))
    add(table.branch("fix"), range(2))
    backup = table.replace_main("fix").backup_branch
    table = paimon_spark.load_table(table.location)
    found = table.history(include_internal=True)
    assert shape(found) == {
        "main.2": ("main.1", ("main",)),
        f"{backup}.2": ("main.1", (backup,)),
        "main.1": (None, ("main", backup)),
    }
    assert found.branches == ("main", backup) and table.status().main_branch == "fix"
    told = {b.name: (b.is_main, b.ahead, b.behind) for b in table.status().branches}
    assert told == {"fix": (True, 0, 0), backup: (False, 1, 1)}
    assert table.diff("fix").is_same and table.diff(str(backup)).rows_added == 2


def test_the_job_of_a_commit_is_told(tmp_path: Path) -> None:
    table = append_table(tmp_path)
    add(table, range(3))
    snapshot = table.snapshots()[0]
    path = Path(table.handle.layout.snapshot_path(1))
    path.write_bytes(encode(replace(snapshot, properties={JOB: "nightly"})))
    assert [c.job for c in table.history().commits] == ["nightly"]


def test_a_limit_leaves_the_oldest_out(tmp_path: Path) -> None:
    table = append_table(tmp_path)
    for i in range(5):
        add(table, range(i, i + 1))
    found = table.history(limit=2)
    assert [c.id for c in found.commits] == [5, 4] and not found.is_whole
    assert table.history(limit=5) == table.history()
    for wrong in (0, -1, True):
        with pytest.raises(InvalidInputError):
            table.history(limit=wrong)


def forked(tmp_path: Path) -> Table:
    """Main with four commits and branch fix, of the second, with five more, all later than those of main."""
    table = append_table(tmp_path)
    for i in range(4):
        add(table, range(i, i + 1))
    table.create_branch("fix", snapshot_id=2)
    for i in range(5):
        add(table.branch("fix"), range(i, i + 1))
    return table


def test_a_limit_counts_the_commits_of_the_branch_that_is_asked_for(tmp_path: Path) -> None:
    table = forked(tmp_path)
    of_main, of_fix = table.history(3, branch="main"), table.history(6, branch="fix")
    assert [c.key for c in of_main.commits] == ["main.4", "main.3", "main.2"] and not of_main.is_whole
    assert [c.key for c in of_fix.commits] == [*(f"fix.{i}" for i in range(7, 2, -1)), "main.2"]
    assert [c.id for c in table.history(branch="main").commits] == [4, 3, 2, 1]
    assert table.branch("fix").history(4, branch="main") == table.history(branch="main")
    with pytest.raises(BranchNotFoundError):
        table.history(branch="fxi")


@pytest.mark.parametrize("is_recorded", [True, False])
def test_a_limit_reaches_what_a_branch_has_of_a_long_history_that_it_left(tmp_path: Path, is_recorded: bool) -> None:
    table = append_table(tmp_path)
    for i in range(8):
        add(table, range(i, i + 1))
    table.create_branch("fix", snapshot_id=3)
    fix = table.branch("fix")
    add(fix, range(1))
    if not is_recorded:
        Path(fork_path(fix.handle)).unlink()
    fix.create_branch("again", snapshot_id=4)
    add(table.branch("again"), range(1))
    for limit in range(1, 6):
        for branch in ("main", "fix", "again"):
            limited, whole = table.history(limit, branch=branch).commits, table.history(branch=branch).commits
            assert [c.key for c in limited] == [c.key for c in whole[:limit]], (branch, limit)
        assert [c.key for c in table.history(limit).commits] == [c.key for c in table.history().commits[:limit]]


def test_commits_of_all_branches_stand_by_time_and_never_below_their_parent(tmp_path: Path) -> None:
    table = forked(tmp_path)
    assert [c.key for c in table.history(4).commits] == ["fix.7", "fix.6", "fix.5", "fix.4"]
    add(table, range(9))
    newest = table.history(2).commits
    assert [c.key for c in newest] == ["main.5", "fix.7"]
    _at(table, 5, 1000)  # by a clock that is decades slow
    keys = [c.key for c in table.history().commits]
    assert keys.index("main.5") < keys.index("main.4") and keys[0] == "fix.7"
    _at(table, 2, 2**42)  # and one that is fast: what came of it stands before it
    keys = [c.key for c in table.history().commits]
    assert max(keys.index("fix.3"), keys.index("main.3")) < keys.index("main.2")


def _at(table: Table, snapshot_id: int, time_ms: int) -> None:
    snapshot = next(s for s in table.snapshots() if s.id == snapshot_id)
    path = Path(table.handle.layout.snapshot_path(snapshot_id))
    path.write_bytes(encode(replace(snapshot, time_ms=time_ms)))


@pytest.mark.parametrize("seed", range(5))
def test_any_history_is_that_of_a_model_of_branches(tmp_path: Path, seed: int) -> None:
    """The model: of each branch the list of its commits, which a new branch copies."""
    random = Random(seed)
    table = append_table(tmp_path)
    model: dict[str, list[str]] = {"main": []}
    for step in range(20):
        name = random.choice(list(model))
        branch = table.branch(name) if name != "main" else table
        act = random.choice(("write", "write", "branch", "rollback", "tag"))
        if act == "write":
            add(branch, range(step, step + 1))
            head = branch.snapshots()[-1]
            model[name].append(head.delta_manifest_list)
        elif act == "branch" and model[name]:
            at = random.randrange(len(model[name])) + 1
            if _has(branch, at):
                branch.create_branch(f"b{step}", snapshot_id=at)
                model[f"b{step}"] = model[name][:at]
        elif act == "rollback" and len(model[name]) > 1:
            alive = [s.id for s in branch.snapshots()]
            to = random.choice(alive)
            branch.rollback_to(to)
            model[name] = model[name][:to]
        elif act == "tag" and model[name]:
            branch.create_tag(f"t{step}")
    found = table.history()
    commits = {c.snapshot.delta_manifest_list: c for c in found.commits}
    by_key = {c.key: c for c in found.commits}
    assert len(by_key) == len(found.commits) == len({snapshot_identity(c.snapshot) for c in found.commits})
    place = {c.key: n for n, c in enumerate(found.commits)}
    for name, line in model.items():
        for n, made in enumerate(line):
            commit = commits.get(made)
            if commit is None:
                continue
            assert name in commit.branches
            assert commit.parent is None or place[commit.parent] > place[commit.key]
            if n and line[n - 1] in commits:
                assert commit.parent == commits[line[n - 1]].key and not commit.is_after_gap
        assert not line or commits[line[-1]].branches
    for made, commit in commits.items():
        assert set(commit.branches) == {name for name, line in model.items() if made in line}
    heads = {r.name: c.snapshot.delta_manifest_list for c in found.commits for r in c.refs if r.kind == "branch"}
    assert heads == {name: line[-1] for name, line in model.items() if line}


def _has(branch: Table, snapshot_id: int) -> bool:
    return any(s.id == snapshot_id for s in branch.snapshots())
