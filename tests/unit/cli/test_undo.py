"""`undo`, `snapshot rollback --backup`, and their procedures."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.harness.command_line import CommandLine, orders
from tests.unit.cli.test_exit_codes import Terminal


@pytest.fixture
def cli(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    orders(tmp_path)
    return CommandLine(tmp_path, capsys)


def ids(cli: CommandLine) -> list[int]:
    return sorted(row["id"] for row in cli.done("show", "db.orders", "--columns", "id", "--json").json)


def test_undo_says_what_it_undoes_and_asks(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    backup = cli.done("branch", "fast-forward", "db.orders", "fix", "--yes", "--json").json["backup_branch"]
    assert ids(cli) == [1, 2, 3, 6]
    would = cli.done("undo", "db.orders", "--dry-run").out
    said = (
        "undo the fast-forward of main to branch 'fix': main would be at snapshot 3; 1 snapshot (3) of main would be "
    )
    assert would.startswith(f"would {said}kept as branch main_backup_")
    assert would.splitlines()[1].startswith("rows: main would lose 1 and gain ")
    assert "next:" not in would
    refused = cli("undo", "db.orders")
    assert (refused.code, ids(cli)) == (2, [1, 2, 3, 6])
    assert "undo the fast-forward of main to branch 'fix' of db.orders: nothing was changed: no terminal" in refused.err
    with monkeypatch.context() as patched:
        patched.setattr(sys, "stdin", Terminal("y\n"))
        done = cli.done("undo", "db.orders")
    assert done.out.startswith("undid the fast-forward of main to branch 'fix': main is at snapshot 3; 1 snapshot (3)")
    assert done.out.splitlines()[-1] == (
        "next: correct the branch and publish it again, or undo once more to take this undo back"
    )
    assert ids(cli) == [1, 2, 3, 4, 5]
    assert backup not in [b["name"] for b in cli.done("branch", "list", "db.orders", "--all", "--json").json]


def test_the_command_line_lists_guard_tags_and_backups_with_all(cli: CommandLine) -> None:
    backup = cli.done("branch", "fast-forward", "db.orders", "fix", "--yes", "--json").json["backup_branch"]
    for command in (["tag", "list"], ["branch", "list"], ["refs"], ["log"], ["log", "--graph"]):
        plain = cli.done(*command, "db.orders").out
        assert backup not in plain and "branch-guard" not in plain
        assert backup in cli.done(*command, "db.orders", "--all").out
    dropped = cli.done("table", "drop", "db.orders", "--dry-run").out
    assert backup not in dropped and dropped.endswith("1 backup branch\n")


def test_a_rollback_with_a_backup_can_be_undone(cli: CommandLine) -> None:
    rolled = cli.done("rollback-to", "--database", "db", "--table", "orders", "--version", "1", "--backup")
    assert "2 snapshots (2, 3), 1 tag (v1) kept as branch main_backup_" in rolled.out
    called = cli.done("call", "undo", "table=db.orders", "--json").json
    assert called == [{"operation": "rollback of branch 'main' to snapshot 1", "snapshot_id": 3, "backup_branch": None}]
    assert ids(cli) == [1, 2, 3, 4, 5]
    cli.done("call", "rollback", "table=db.orders", "version=v1", "backup=true")
    cli.done("delete", "--table", "db.orders", "--where", "id = 1")
    moved = cli("undo", "db.orders", "--yes")
    assert (moved.code, "Pass --if-main-moved replace" in moved.err) == (2, True)
    cli.done("undo", "db.orders", "--yes", "--if-main-moved", "replace")
    assert ids(cli) == [1, 2, 3, 4, 5]
    assert cli("snapshot", "rollback", "db.orders", "1", "--as-latest", "--backup").code == 2


def test_nothing_to_undo_is_told(cli: CommandLine) -> None:
    ran = cli("undo", "db.orders", "--yes")
    assert (ran.code, "table db.orders has nothing to undo" in ran.err) == (2, True)
    assert "`snapshot rollback` goes back to an earlier snapshot" in ran.err
