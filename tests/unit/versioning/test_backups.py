"""Backup branches go when they are old and nothing needs them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from paimon_spark.api.table import Table
from paimon_spark.errors import InvalidInputError
from paimon_spark.jobs import after_commit as maintenance
from paimon_spark.maintenance.consumers import Consumer, write_consumer
from paimon_spark.metadata.branches import NEW_BACKUP, is_backup_name
from paimon_spark.metadata.retry import Clock, now_ms
from paimon_spark.types import quoted_if_needed
from paimon_spark.versioning import names
from paimon_spark.versioning.merge import merge_branch
from paimon_spark.versioning.names import backup_name
from paimon_spark.versioning.undo import expire_backups, list_backups
from tests.unit.versioning.publishing import files, ids, in_order, new_table, put, rows
from tests.unit.versioning.test_diff import add, append_table

HOUR_MS = 3_600_000


@pytest.fixture(params=[NEW_BACKUP, "main-backup-"])
def table(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Table:
    """Main lost a commit by a fast-forward, which a backup keeps; also one with the name of earlier versions."""
    monkeypatch.setattr(names, "NEW_BACKUP", request.param)
    table = new_table(tmp_path, **{"branch.backup.time-retained": "1 h"})
    put(table, k1="base")
    table.create_branch("fix", snapshot_id=1)
    put(table.branch("fix"), k1="fixed")
    put(table, k2="lost")
    table.create_tag("t")
    assert str(table.fast_forward("fix").backup_branch).startswith(request.param)
    monkeypatch.undo()
    return table


def backup_of(table: Table) -> str:
    return list_backups(table.handle)[0].name


def later(table: Table, by_ms: int) -> Callable[[], int]:
    created = list_backups(table.handle)[0].created_ms
    return lambda: created + by_ms


def test_a_backup_goes_when_it_is_old_with_the_files_that_only_it_needed(table: Table) -> None:
    assert not expire_backups(table.handle, clock_ms=later(table, HOUR_MS)).snapshots
    clock = later(table, HOUR_MS + 1)
    name, before = backup_of(table), files(table)
    would = expire_backups(table.handle, dry_run=True, clock_ms=clock)
    assert files(table) == before
    gone = expire_backups(table.handle, clock_ms=clock)
    assert gone == would
    assert (gone.snapshots, gone.data_files) == ((f"{name}.1", f"{name}.2"), 1)
    assert f"{name}.t" in gone.tags
    assert [b.name for b in table.branches(include_internal=True)] == ["fix"]
    assert rows(table) == {1: "fixed"}
    in_order(table)


@pytest.mark.parametrize("needed_by", ["consumer", "write", "branch", "option", "other name", "main", "no option"])
def test_a_backup_that_something_needs_stays(table: Table, needed_by: str) -> None:
    name, clock = backup_of(table), later(table, 100 * HOUR_MS)
    match needed_by:
        case "consumer":
            write_consumer(table.branch(name).handle, Consumer("c", 2))
        case "write":
            put(table.branch(name), k3="more")
        case "branch":
            table.branch(name).create_branch("child", snapshot_id=2)
        case "option":
            table.alter(set_options={"scan.fallback-branch": name})
        case "other name":
            table.rename_branch(name, "kept")
        case "main":
            table.replace_main(name)
        case "no option":
            table.alter(unset_options=["branch.backup.time-retained"])
    branches = {b.name for b in table.branches(include_internal=True)}
    assert expire_backups(table.branch("main").handle, clock_ms=clock).snapshots == ()
    assert {b.name for b in table.branches(include_internal=True)} == branches
    in_order(table)


def test_backups_are_those_of_main_alone(table: Table) -> None:
    assert expire_backups(table.branch("fix").handle, clock_ms=later(table, 100 * HOUR_MS)).snapshots == ()
    assert len(table.branches(include_internal=True)) == 2


def test_expiry_and_the_maintenance_after_a_commit_delete_old_backups(table: Table) -> None:
    name = backup_of(table)
    kept = table.expire_snapshots(retain_max=1)
    assert name in [b.name for b in table.branches(include_internal=True)]
    assert f"{name}.2" not in kept.snapshots
    maintenance.after_commit(table.handle, [2], clock=Clock(clock_ms=later(table, 2 * HOUR_MS)))
    assert [b.name for b in table.branches(include_internal=True)] == ["fix"]
    assert ids(table) == [2]
    in_order(table)


def test_expire_snapshots_tells_which_backups_went(table: Table) -> None:
    name = backup_of(table)
    table.alter(set_options={"branch.backup.time-retained": "0 ms"})
    gone = table.expire_snapshots(retain_max=1)
    assert set(gone.snapshots) == {"1", f"{name}.1", f"{name}.2"}
    assert gone.data_files >= 1
    in_order(table)


def test_a_backup_stays_that_was_written_to_by_a_clock_that_is_behind(tmp_path: Path) -> None:
    table = new_table(tmp_path, **{"branch.backup.time-retained": "1 h"})
    put(table, k1="base")
    table.create_branch("fix")
    put(table.branch("fix"), k1="fixed")
    put(table, k2="lost")
    ahead = now_ms() + HOUR_MS
    backup = merge_branch(table.handle, "fix", takes_back=True, clock_ms=lambda: ahead).backup_branch
    assert backup is not None
    put(table.branch(backup), k3="more")
    assert expire_backups(table.handle, clock_ms=lambda: ahead + 2 * HOUR_MS).snapshots == ()
    assert rows(table.branch(backup)) == {1: "base", 2: "lost", 3: "more"}


def test_users_give_no_branch_the_name_of_a_backup(table: Table) -> None:
    """It would go with the backups, and could be what an undo restores."""
    for name in ("main-backup-mine", "main_backup_mine"):
        for give in (partial(table.create_branch, name), partial(table.rename_branch, "fix", name)):
            with pytest.raises(InvalidInputError, match=f"'{name}' cannot be the name of a branch"):
                give()
    assert not [f for f in table.doctor() if f.branch == backup_of(table)]


@pytest.mark.parametrize("dry_run", [False, True])
def test_the_result_of_an_expiry_says_whether_it_was_a_dry_run(table: Table, dry_run: bool) -> None:
    assert table.expire_snapshots(dry_run=dry_run).dry_run is dry_run


@pytest.mark.parametrize("name", ["main_backup_old", "main_backup_20240101", "main_backup_20240101T000000x"])
def test_a_branch_of_a_user_that_was_named_so_before_is_no_backup(name: str) -> None:
    assert not is_backup_name(name)


def test_names_of_backups_need_no_backquotes_in_sql() -> None:
    now = 1_706_659_200_000
    first = backup_name([], now)
    found = [first, backup_name([first], now)]
    assert found == ["main_backup_20240131T000000", "main_backup_20240131T000000_2"]
    assert all(is_backup_name(n) and quoted_if_needed(n) == n for n in found)


def test_guard_tags_and_backups_are_listed_only_when_asked_for(tmp_path: Path) -> None:
    table = append_table(tmp_path)
    add(table, range(3))
    table.create_branch("fix")
    table.create_branch("other")
    add(table, range(8))
    add(table.branch("fix"), range(2))
    table.merge_branch("fix", if_main_moved="replace")
    assert [b.name for b in table.branches()] == ["fix", "other"] and table.tags() == []
    backup = next(b.name for b in table.branches(include_internal=True) if b.name not in ("fix", "other"))
    assert {t.guards for t in table.tags(include_internal=True)} == {"fix", "other", backup}
    planned = table.delete_branch("other", dry_run=True)
    shown = [table.tags(), table.branches(), planned, table.status(), table.rollback_to(1, dry_run=True)]
    texts = [f"{x}{x._repr_html_()}" if hasattr(x, "_repr_html_") else str(x) for x in shown]
    assert not [text for text in texts if "branch-guard" in text or "main_backup" in text]
    assert str(planned).startswith("would delete 1 snapshot (other.1), 0 files")
    assert ", 2 branches, 1 backup branch\n" in str(table.status())
    assert any("branch-guard-other" in name for name in planned.tags), "nothing is left out of the data"
