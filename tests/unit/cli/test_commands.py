"""Commands on real tables: what they do, what they print, and what JSON they give."""

from __future__ import annotations

import json
import os
import shlex
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_spark import load_catalog, load_table
from tests.harness.command_line import CommandLine, orders, rows
from tests.harness.keywords import keywords


@pytest.fixture
def cli(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    orders(tmp_path)
    return CommandLine(tmp_path, capsys)


def test_log_draws_all_branches(cli: CommandLine) -> None:
    assert cli.done("log", "db.orders", "--graph").golden == (
        "*  3  [main]  <time>  APPEND  +2 rows\n"
        "| *  3  [fix]  <time>  APPEND  +1 row\n"
        "|/\n"
        "*  2  [tag v1, tag fix.v1]  <time>  APPEND  +1 row\n"
        "*  1  <time>  APPEND  +2 rows\n"
    ) or cli.done("log", "db.orders", "--graph").golden == (
        "*  3  [fix]  <time>  APPEND  +1 row\n"
        "| *  3  [main]  <time>  APPEND  +2 rows\n"
        "|/\n"
        "*  2  [tag v1, tag fix.v1]  <time>  APPEND  +1 row\n"
        "*  1  <time>  APPEND  +2 rows\n"
    )


def test_log_lists_one_branch_newest_first(cli: CommandLine) -> None:
    assert cli.done("log", "db.orders", "-b", "fix", "-n", "2").golden.startswith("3  [fix]  <time>  APPEND  +1 row\n")
    assert [c["snapshot_id"] for c in cli.done("log", "db.orders", "--json").json] == [3, 2, 1]


def test_limits_count_what_is_listed(cli: CommandLine) -> None:
    fix = load_catalog(str(cli.warehouse)).table("db.orders$branch_fix")
    for _ in range(3):
        fix.write(fix.scan().to_arrow())
    assert [c["snapshot_id"] for c in cli.done("log", "db.orders", "-n", "3", "--json").json] == [3, 2, 1]
    assert cli.done("log", "db.orders", "-n", "1").golden.startswith("3  [main]  <time>")
    of_all = cli.done("log", "db.orders", "-n", "3", "--all", "--json").json
    assert [c["key"] for c in of_all] == ["fix.6", "fix.5", "fix.4"]
    graph = cli.done("log", "db.orders", "-n", "3", "--graph").out.splitlines()
    assert len(graph) == 4 and graph[-1].startswith("older commits are left out")
    assert [s["id"] for s in cli.done("snapshot", "list", "db.orders", "-n", "2", "--json").json] == [3, 2]
    for verb in (("log",), ("snapshot", "list")):
        assert cli(*verb, "db.orders", "-n", "0").code == 2


def test_status_says_how_a_branch_stands(cli: CommandLine) -> None:
    assert cli.done("status", "db.orders").golden.splitlines() == [
        "db.orders on branch main",
        f"file://{cli.warehouse}/db.db/orders",
        "append table, partitioned by dt, bucket unaware, schema 0",
        "head: snapshot 3, APPEND (WRITE), <time>, by <uuid>",
        "at the head: 5 rows, 3 files, "
        + cli.done("status", "db.orders").out.rpartition("3 files, ")[2].split("\n")[0],
        "3 snapshots, 1 tag, 0 savepoints, 1 branch",
        "branch fix: snapshot 3, from main at 2 (tag v1), 1 ahead, 1 behind",
    ]
    assert cli.done("status", "db.orders", "--json").json["head"]["snapshot_id"] == 3


def test_diff_says_by_its_exit_code_whether_versions_differ(cli: CommandLine) -> None:
    same = cli("diff", "db.orders", "v1", "fix.v1")
    assert (same.code, same.out.splitlines()[-1]) == (0, "the same")
    other = cli("diff", "db.orders", "main..fix", "--stat")
    assert other.code == 1
    assert other.out.splitlines()[-2:] == ["dt=2024-01-01  1  +", "dt=2024-01-02  2  --"]
    told = cli("diff", "db.orders", "main", "fix", "--json").json
    assert (told["rows_added"], told["rows_removed"], told["is_same"]) == (1, 2, False)
    assert "dt=2024-01-02       0       1" in cli("diff", "db.orders", "main", "fix", "--partitions").out


def test_lists_show_what_deleting_would_free(cli: CommandLine) -> None:
    branches = cli.done("branch", "list", "db.orders", "--size").out.splitlines()
    assert (branches[0].split()[-1], branches[1].split()[0]) == ("frees", "fix")
    told = cli.done("branch", "list", "db.orders", "--size", "--json").json
    assert told[0]["kind"] == "branch"
    assert told[0]["bytes"] > 0
    tags = cli.done("tag", "list", "db.orders", "--size").out.splitlines()
    assert (tags[0].split()[-1], tags[1].split()[0]) == ("frees", "v1")
    cli.done("savepoint", "create", "db.orders")
    (saved,) = cli.done("savepoint", "list", "db.orders", "--size", "--json").json
    assert (saved["kind"], saved["branch"]) == ("savepoint", "main")


def test_diff_compares_rows(cli: CommandLine) -> None:
    same = cli("diff", "db.orders", "v1", "fix.v1", "--rows")
    assert (same.code, same.out.splitlines()[-1]) == (0, "the same rows")
    other = cli("diff", "db.orders", "main..fix", "--rows")
    first, *shown = other.out.splitlines()[1:]
    assert (other.code, first) == (1, "1 row added, 2 removed, 0 changed")
    assert sorted(line[0] for line in shown) == ["+", "-", "-"]
    _, _, one, more = cli("diff", "db.orders", "main", "fix", "--rows", "-n", "1").out.splitlines()
    assert (one[2:] in [line[2:] for line in shown], more) == (True, "… and 2 more rows; use --limit N")
    assert cli("diff", "db.orders", "main", "fix", "--rows", "--stat").out.splitlines()[1:] == [first]
    told = cli("diff", "db.orders", "main", "fix", "--rows", "--json").json
    assert (told["added"], told["removed"], len(told["rows"])) == (1, 2, 3)
    assert {row["_change"] for row in told["rows"]} == {"added", "removed"}
    refused = cli("diff", "db.orders", "main", "fix", "--rows", "--partitions")
    assert (refused.code, "--partitions shows files; leave out --rows" in refused.err) == (2, True)


def test_refs_are_those_of_all_branches(cli: CommandLine) -> None:
    cli.done("savepoint", "create", "db.orders", "-b", "fix")
    cli.done("consumer", "reset", "db.orders", "reader", "--next-snapshot", "3")
    found = [(r["name"], r["kind"], r["branch"]) for r in cli.done("refs", "db.orders", "--json").json]
    assert found == [
        ("v1", "tag", "main"),
        ("reader", "consumer", "main"),
        ("fix", "branch", ""),
        ("v1", "tag", "fix"),
        (next(f[0] for f in found if f[1] == "savepoint"), "savepoint", "fix"),
    ]
    assert "guard" in cli.done("refs", "db.orders", "--all").out


def test_rows_are_shown_without_spark(cli: CommandLine) -> None:
    asked = ("show", "db.orders", "--columns", "id, note", "--where", "id > 1 AND id < 5", "-n", "all")
    assert sorted(cli.done(*asked).out.splitlines()) == [" 2  NULL", " 3  NULL", " 4  NULL", "id  note"]


def test_show_reads_versions_branches_and_system_tables(cli: CommandLine) -> None:
    assert sorted(r["id"] for r in cli.done("show", "db.orders", "--version", "v1", "--json").json) == [1, 2, 3]
    assert sorted(r["id"] for r in cli.done("show", "db.orders$branch_fix", "--json").json) == [1, 2, 3, 6]
    assert [r["tag_name"] for r in cli.done("show", "db.orders$tags", "--columns", "tag_name", "--json").json]
    assert cli.done("head", "db.orders", "--limit", "2").out.splitlines()[-1] == "first 2 rows; use --limit N"
    assert cli.done("show", "db.orders", "--where", "id > 99").out == "no rows\n"
    assert cli.done("show", "db.orders", "--where", "id > 99", "--json").json == []


def test_data_cannot_act_on_the_terminal(cli: CommandLine) -> None:
    load_table(str(cli.warehouse / "db.db" / "orders")).write(rows(7, note="\x1b[2Jhidden\nline"))
    out = cli.done("show", "db.orders", "-c", "note", "--where", "id = 7").out
    assert out == "note\n\\x1b[2Jhidden\\nline\n"
    assert cli.done("show", "db.orders", "--where", "id = 7", "--json").json[0]["note"] == "\x1b[2Jhidden\nline"


def test_values_of_every_kind_are_shown_and_are_json(cli: CommandLine) -> None:
    ddl = "i INT, d DECIMAL(10, 2), x DOUBLE, b BINARY, t TIMESTAMP, s STRUCT<a: ARRAY<INT>, m: MAP<STRING, INT>>"
    cli.done("table", "create", "db.kinds", ddl)
    schema = load_catalog(str(cli.warehouse)).table("db.kinds").scan().arrow_schema
    row = {"i": 1, "d": "1.50", "x": float("nan"), "b": b"\x00\x01", "s": {"a": [1, None], "m": [("k", 2)]}}
    arrays = [pa.array([None], f.type) if f.name in ("d", "t") else pa.array([row[f.name]], f.type) for f in schema]
    load_catalog(str(cli.warehouse)).table("db.kinds").write(pa.table(arrays, schema=schema))
    (found,) = cli.done("show", "db.kinds", "--json").json
    assert found == {"i": 1, "d": None, "x": "NaN", "b": "AAE=", "t": None, "s": {"a": [1, None], "m": [["k", 2]]}}
    assert "0001" in cli.done("show", "db.kinds").out


def test_databases_and_tables_are_made_altered_and_dropped(cli: CommandLine) -> None:
    cli.done("database", "create", "other")
    assert cli.done("database", "list", "--json").json == ["db", "other"]
    made = ("table", "create", "other.t", "id BIGINT, v STRING", "--primary-key", "id", "-o", "bucket=2")
    cli.done(*made)
    assert cli(*made).code == 2
    cli.done(*made, "--if-not-exists")
    cli.done("table", "alter", "other.t", "--add", "n DECIMAL(10, 2)", "--rename", "v=w", "--set", "write-only=true")
    cli.done("table", "alter", "other.t", "--comment-on", "n=a number", "--move", "n=first", "--comment", "a table")
    told = cli.done("table", "show", "other.t", "--json").json
    assert [(c["name"], c["type"]) for c in told["columns"]] == [
        ("n", "DECIMAL(10, 2)"),
        ("id", "BIGINT NOT NULL"),
        ("w", "STRING"),
    ]
    assert (told["primary_keys"], told["options"]["write-only"], told["comment"]) == (["id"], "true", "a table")
    assert "a number" in cli.done("table", "show", "other.t").out
    cli.done("table", "rename", "other.t", "u")
    assert cli.done("table", "list", "other", "--json").json == ["other.u"]
    assert cli.done("table", "list", "--json").json == ["db.orders", "other.u"]
    assert cli("database", "drop", "other", "--yes").code == 2
    cli.done("table", "drop", "other.u", "--yes")
    cli.done("database", "drop", "other", "--yes")
    assert cli.done("database", "list", "--json").json == ["db"]


def test_odd_names_are_given_as_options(cli: CommandLine) -> None:
    load_catalog(str(cli.warehouse)).create_table("db.`a.b`", "id INT")
    named = ("--database", "db", "--table", "a.b")
    cli.done("create-branch", *named, "--name", "fix")
    assert [b["name"] for b in cli.done("branch", "list", *named, "--json").json] == ["fix"]
    assert cli.done("table", "show", "--database", "db", "--table", "a.b$branch_fix", "--json").json["branch"] == "fix"
    cli.done("table", "drop", *named, "--yes")


def test_a_branch_lives_as_the_proposals_actions_say(cli: CommandLine) -> None:
    named = ("--database", "db", "--table", "orders")
    assert cli.done("create-branch", *named, "--name", "b", "--tag", "v1").out == "branch b of db.orders from tag v1\n"
    cli.done(
        "create_branch", "--path", str(cli.warehouse / "db.db" / "orders"), "--branch_name", "c", "--snapshot", "1"
    )
    cli.done("rename-branch", *named, "--name", "c", "--to_branch", "d")
    cli.done("delete-branch", *named, "--name", "d", "--yes")
    merged = cli.done("merge-branch", *named, "--name", "fix", "--yes")
    assert merged.out.startswith("main is branch fix at snapshot 3\n")
    again = cli.done("merge-branch", *named, "--name", "b", "--yes")
    assert again.out == "branch b is already merged: main has every commit of it, and stays at snapshot 3\n"
    assert cli.done("branch", "merge", *named, "--name", "b", "--yes", "--json").json["already_merged"] is True
    back = cli.done("fast-forward", *named, "--branch_name", "b", "--yes", "--json").json
    assert (back["published_snapshot_id"], back["discarded_snapshots"], back["already_merged"]) == (2, [3], False)
    stays = cli.done("fast_forward", *named, "--branch_name", "b", "--yes")
    assert stays.out == "main is branch b at snapshot 2 already\n"
    assert cli.done("fast_forward", *named, "--name", "fix", "--dry-run").out == (
        "main would become branch fix at snapshot 3\nnew on main: 1 snapshot (3)\nrows: main would gain 1\n"
        "  dt=2024-01-01: 1 gained\n"
    )
    cli.done("replace-main-branch", *named, "--name", "fix", "--yes")
    assert "main means branch fix" in cli.done("status", "db.orders").out


def test_branch_merge_refuses_what_the_action_replaces(cli: CommandLine) -> None:
    cli.done("branch", "create", "db.orders", "dev")
    cli.done("snapshot", "list", "db.orders")
    before = cli.done("log", "db.orders", "--json").json
    refused = cli("branch", "merge", "db.orders", "fix", "--yes")
    assert refused.code == 2
    assert "was not merged: main has commits that it does not have" in refused.err
    assert "Pass --if-main-moved replace" in refused.err
    assert "--if-main-moved rebase" in refused.err
    assert cli("branch", "merge", "db.orders", "fix", "--yes", "--json").error["kind"] == "branch-diverged"
    planned = cli("branch", "merge", "db.orders", "fix", "--if-main-moved", "rebase", "--dry-run")
    assert (planned.code, planned.out) == (0, "main would get the changes of branch fix, 1 row\n")
    wrong = cli("branch", "merge", "db.orders", "fix", "--if-main-moved", "rebase", "--on-conflict", "mine", "--yes")
    assert "--on-conflict 'mine': expected 'fail', 'ours', 'theirs' or 'newest'" in wrong.err
    assert cli.done("log", "db.orders", "--json").json == before
    merged = cli.done("branch", "merge", "db.orders", "fix", "--if-main-moved", "replace", "--yes", "--json").json
    assert merged["discarded_snapshots"] == [3]


def test_a_command_that_finds_nothing_to_do_asks_nothing(cli: CommandLine) -> None:
    cli.done("branch", "create", "db.orders", "same")
    merged = "branch same is already merged: main has every commit of it, and stays at snapshot 3\n"
    assert cli.done("branch", "merge", "db.orders", "same").out == merged
    assert cli.done("branch", "merge", "db.orders", "same", "--json").json["already_merged"] is True
    assert cli("branch", "merge", "db.orders", "fix", "--if-main-moved", "replace").code == 2
    for words in (
        ("snapshot", "expire", "db.orders"),
        ("changelog", "expire", "db.orders"),
        ("tag", "expire", "db.orders"),
        ("orphan", "remove", "db.orders"),
        ("orphan", "remove", "db.*"),
        ("consumer", "clear", "db.orders"),
    ):
        assert cli.done(*words).err == ""
    refused = cli("snapshot", "expire", "db.orders", "--retain-max", "1", "--retain-min", "1", "--older-than", "0 s")
    assert (refused.code, "pass --yes" in refused.err) == (2, True)


def test_branch_create_starts_from_the_head_and_the_action_empty(cli: CommandLine) -> None:
    assert cli.done("branch", "create", "db.orders", "dev").out == "branch dev of db.orders from snapshot 3\n"
    assert cli.done("branch", "create", "db.orders", "of-fix", "--version", "fix").out.endswith("from snapshot 3\n")
    assert cli.done("branch", "create", "db.orders", "bare", "--empty").out == "branch bare of db.orders, empty\n"
    named = ("--table", "db.orders", "--name")
    assert cli.done("create-branch", *named, "a").out == "branch a of db.orders, empty\n"
    assert cli.done("create_branch", *named, "b", "--version", "v1").out == "branch b of db.orders from tag v1\n"


def test_tags_are_of_any_version(cli: CommandLine) -> None:
    cli.done("branch", "create", "db.orders", "dev")
    made = cli.done("tag", "create", "db.orders", "good", "--version", "fix")
    assert made.out == "tag good of branch fix of db.orders is snapshot 3\n"
    assert cli.done("tag", "create", "db.orders", "head", "--version", "main").out.startswith(
        "tag head of db.orders is"
    )
    moved = cli.done("tag", "replace", "db.orders", "head", "--version", "v1", "--yes")
    assert moved.out.startswith("tag head of db.orders is snapshot ")


def test_merge_branch_with_a_source_branch_is_paimons_which_appends(cli: CommandLine) -> None:
    done = cli.done(
        "merge_branch", "--database", "db", "--table", "orders", "--source_branch", "fix", "--yes", "--json"
    )
    assert (done.json["snapshot_id"], done.json["record_count"]) == (4, 1)
    assert sorted(r["id"] for r in cli.done("show", "db.orders", "--json").json) == [1, 2, 3, 4, 5, 6]
    assert cli("merge_branch", "--table", "db.orders", "--source_branch", "fix", "--name", "fix").code == 2
    assert cli("merge_branch", "--table", "db.orders").code == 2


def test_tags_live_as_the_actions_say(cli: CommandLine) -> None:
    named = ("--database", "db", "--table", "orders")
    cli.done("create-tag", *named, "--tag_name", "a", "--snapshot", "1", "--time_retained", "3 d")
    cli.done("create-tag", *named, "--name", "a", "--if-not-exists")
    cli.done("rename-tag", *named, "--tag_name", "a", "--target_tag_name", "b")
    cli.done("replace-tag", *named, "--tag_name", "b", "--snapshot", "2", "--yes")
    assert [(t["name"], t["snapshot"]["id"]) for t in cli.done("tag", "list", "db.orders", "--json").json] == [
        ("b", 2),
        ("v1", 2),
    ]
    assert "dry_run" in cli.done("replace-tag", *named, "--tag_name", "b", "--dry-run", "--json").json
    cli.done("delete-tag", *named, "--tag_name", "b", "--yes")
    assert cli.done("expire-tags", *named, "--older_than", "2020-01-01 00:00:00", "--yes").code == 0
    assert cli.done("expire-tags", *named, "--older-than", "1 d", "--yes").code == 0
    refused = cli("expire-tags", *named, "--older-than", "1 fortnight", "--yes")
    assert (refused.code, "or an age such as 7 d" in refused.err) == (2, True)
    assert cli.done("tag", "auto", "db.orders").out == "no automatic tag is due\n"


def test_savepoints_live_as_the_proposals_actions_say(cli: CommandLine) -> None:
    named = ("--database", "db", "--table", "orders")
    made = cli.done("create-savepoint", *named, "--json").json["id"]
    assert [s["id"] for s in cli.done("savepoint", "list", "db.orders", "--json").json] == [made]
    cli.done("delete-savepoint", *named, "--id", str(made), "--yes")
    assert cli.done("savepoint", "list", "db.orders").out == "no savepoints\n"


def test_snapshots_are_listed_shown_rolled_back_and_expire(cli: CommandLine) -> None:
    assert [s["id"] for s in cli.done("snapshot", "list", "db.orders", "--json").json] == [3, 2, 1]
    assert cli.done("snapshot", "show", "db.orders", "v1").out.startswith("snapshot        2\n")
    assert cli.done("snapshot", "show", "db.orders", "fix", "--json").json["id"] == 3
    assert cli.done("rollback-to", "--table", "db.orders", "--version", "2", "--dry-run").out.startswith(
        "the head would be snapshot 2\n"
    )
    cli.done("snapshot", "rollback", "db.orders", "v1", "--yes")
    assert cli.done("snapshot", "rollback", "db.orders", "1", "--as-latest").out == (
        "snapshot 3 of db.orders has the state of snapshot 1\n"
    )
    gone = cli.done("expire-snapshots", "--table", "db.orders", "--retain_max", "1", "--yes", "--json").json
    assert gone["snapshots"] == ["1", "2"]
    assert cli.done("changelog", "expire", "db.orders", "--dry-run", "--json").json["changelogs"] == []


def test_partitions_are_listed_dropped_and_expire(cli: CommandLine) -> None:
    assert [p["partition"] for p in cli.done("partition", "list", "db.orders", "--json").json] == [
        "dt=2024-01-01",
        "dt=2024-01-02",
    ]
    cli.done("drop-partition", "--table", "db.orders", "--partition", "dt=2024-01-02", "--yes")
    assert [p["partition"] for p in cli.done("partition", "list", "db.orders", "--json").json] == ["dt=2024-01-01"]
    expired = ("partition", "expire", "db.orders", "--expiration-time", "1 d", "--timestamp-formatter", "yyyy-MM-dd")
    assert cli.done(*expired, "--dry-run", "--json").json["partitions"] == ["dt=2024-01-01"]
    assert cli.done(*expired, "--yes", "--json").json["rows"] == 3
    assert cli.done("mark-partition-done", "--table", "db.orders", "--partition", "dt=2024-01-01").code == 0


def test_conditions_may_have_functions(cli: CommandLine) -> None:
    shown = cli.done("show", "db.orders", "--where", "id % 2 = 1 AND year(dt) = 2024", "--json").json
    assert sorted(row["id"] for row in shown) == [1, 3, 5]
    refused = cli("show", "db.orders", "--where", "round(id) = 1")
    assert refused.code == 2
    assert "'ROUND(id)' at position 1 is not supported" in refused.err


def test_rows_are_deleted_by_the_action(cli: CommandLine) -> None:
    told = cli.done("delete", "--table", "db.orders", "--where", "id >= 4", "--dry-run")
    assert told.out == "would delete 2 rows of db.orders where id >= 4\n"
    done = cli.done("delete", "--table", "db.orders", "--where", "id >= 4", "--yes")
    assert done.out == "deleted 2 rows of db.orders where id >= 4\n"
    assert sorted(r["id"] for r in cli.done("show", "db.orders", "--json").json) == [1, 2, 3]


@pytest.mark.parametrize("named", [["db.*"], ["--database", "db", "--table", "*"]])
def test_orphans_go_from_all_tables_of_a_database(named: list[str], cli: CommandLine) -> None:
    cli.done("table", "create", "db.other", "id BIGINT")
    places = ("orders/dt=2024-01-01/bucket-0", "other/bucket-0")
    stray = [cli.warehouse / "db.db" / place / "data-x-0.parquet" for place in places]
    for path in stray:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"12345")
        os.utime(path, (0, 0))
    would = cli.done("remove_orphan_files", *named, "--dry_run", "true")
    assert would.out.splitlines() == [
        line
        for name, path in zip(("orders", "other"), stray, strict=True)
        for line in (f"db.{name}: would delete 1 file, 5 B", f"  {path}")
    ]
    assert cli("orphan", "remove", *named).code == 2
    assert all(path.exists() for path in stray)
    gone = cli.done("remove_orphan_files", *named, "--yes", "--json").json
    assert [(t["table"], t["files"]) for t in gone] == [("db.orders", 1), ("db.other", 1)]
    assert not any(path.exists() for path in stray)
    assert cli("orphan", "remove", "*").code == 2
    assert cli("orphan", "remove", "nodb.*").code == 3


@pytest.mark.parametrize(
    ("words", "files"),
    [
        ("compact-database", {"db.keyed": 1, "db.plain": 2}),
        ("call compact_database", {"db.keyed": 1, "db.plain": 2}),
        ("compact-database --compact-strategy minor", {"db.keyed": 2, "db.plain": 2}),
        ("compact-database --full", {"db.keyed": 1, "db.plain": 1}),
        ("compact db.keyed", {"db.keyed": 1, "db.plain": 2}),
        ("compact db.plain", {"db.keyed": 2, "db.plain": 2}),
        ("call compact db.keyed", {"db.keyed": 1, "db.plain": 2}),
        ("call compact db.plain", {"db.keyed": 2, "db.plain": 2}),
    ],
)
def test_tables_with_buckets_are_compacted_fully_as_by_the_procedures(
    words: str, files: dict[str, int], cli: CommandLine
) -> None:
    catalog = load_catalog(str(cli.warehouse))
    for name, keys in (("db.keyed", ["id"]), ("db.plain", [])):
        options = {"write-only": "true", **({"bucket": "1"} if keys else {})}
        table = catalog.create_table(name, "id BIGINT, dt STRING, note STRING", primary_keys=keys, options=options)
        table.write(rows(1))
        table.write(rows(2))
    cli.done(*words.split())
    assert {name: catalog.table(name).status().files for name in files} == files


def test_tables_are_compacted_one_by_one_or_all(cli: CommandLine) -> None:
    cli.done("compact", "db.orders", "--full", "--partition", "dt=2024-01-01")
    found = cli.done("compact-database", "--including_databases", "d.", "--excluding_tables", "db\\.x.*", "--json").json
    assert [f["table"] for f in found] == ["db.orders"]
    assert cli("compact", "db.orders", "--order_strategy", "zorder").code == 2
    cli.done("compact", "db.orders", "--order_strategy", "none")
    assert cli("compact", "db.orders", "--full", "--compact-strategy", "minor").code == 2
    assert cli("compact-database", "--including_tables", "(").code == 2
    assert cli.done("compact-manifest", "db.orders").code == 0


def test_idle_partitions_are_compacted(cli: CommandLine) -> None:
    idle = ("compact", "db.orders", "--full", "--partition-idle-time")
    assert cli.done(*idle, "1 d").out == "no partition has been idle for so long\n"
    assert "snapshot 4" in cli.done(*idle, "0 ms").out
    assert cli(*idle, "1 d", "--where", "dt = '2024-01-01'").code == 2
    assert cli("compact-database", "--partition-idle-time", "1 d").code == 2


def test_a_tag_is_made_from_a_watermark(cli: CommandLine) -> None:
    orders = load_catalog(str(cli.warehouse)).table("db.orders")
    orders.write(rows(7), **keywords({"end-input.watermark": "100"}))
    tagged = ("create-tag-from-watermark", "--table", "db.orders", "--tag", "w", "--watermark")
    assert [(r["tagName"], r["snapshot"], r["watermark"]) for r in cli.done(*tagged, "50", "--json").json] == [
        ("w", 4, "100")
    ]
    assert cli(*tagged, "101").code == 3


def test_consumers_are_reset_and_cleared(cli: CommandLine) -> None:
    for name in ("a", "b", "c"):
        cli.done("reset_consumer", "--table", "db.orders", "--consumer_id", name, "--next_snapshot", "2")
    cli.done("consumer", "reset", "db.orders", "a", "--yes")
    gone = cli.done("clear-consumers", "--table", "db.orders", "--excluding_consumers", "c", "--yes", "--json").json
    assert gone["removed"] == ["b"]
    assert [c["name"] for c in cli.done("consumer", "list", "db.orders", "--json").json] == ["c"]
    assert cli("consumer", "reset", "db.orders", "nobody", "--yes").code == 3
    assert cli("consumer", "clear", "db.orders", "--including", "(", "--dry-run").code == 2


def test_the_doctor_says_by_its_exit_code_whether_anything_is_wrong(cli: CommandLine) -> None:
    assert cli("doctor", "db.orders").code == 0
    (cli.warehouse / "db.db" / "orders" / "snapshot" / "LATEST").write_text("99")
    found = cli("doctor", "db.orders", "--json")
    assert (found.code, [f["kind"] for f in found.json]) == (1, ["stale-hint"])
    proposed = cli("doctor", "db.orders").out.splitlines()[-1].strip()
    assert proposed == f"paimon-spark doctor db.orders --repair --warehouse file://{cli.warehouse}"
    assert cli(*shlex.split(proposed)[1:]).code == 0
    assert cli("doctor", "db.orders").code == 0


def test_orphans_are_removed_and_a_table_is_purged(cli: CommandLine) -> None:
    stray = cli.warehouse / "db.db" / "orders" / "dt=2024-01-01" / "bucket-0" / "data-stray-0.parquet"
    stray.write_bytes(b"x")
    os.utime(stray, (0, 0))
    assert cli.done("orphan", "remove", "db.orders", "--dry-run", "--json").json["files"] == 1
    cli.done("remove_orphan_files", "--table", "db.orders", "--yes")
    assert not stray.exists()
    assert cli.done("purge", "db.orders", "--yes").code == 0
    assert cli.done("show", "db.orders").out == "no rows\n"


def test_procedures_run_without_spark(cli: CommandLine) -> None:
    assert cli.done("call", "create_tag", "table=db.orders", "tag=p", "snapshot=1", "--json").json == [{"result": True}]
    assert cli.done("call", "sys.expire_snapshots", "db.orders", "2", "--json").json == [{"deleted_snapshots_count": 1}]
    assert cli("call", "creat_tag").code == 3
    assert cli("call", "create_tag", "table=db.orders", "x").code == 2
    tagged = ("create-tag-from-timestamp", "--table", "db.orders", "--tag", "t", "--timestamp", "0")
    assert cli.done(*tagged).code == 0
    assert cli.done("rollback-to-timestamp", "--table", "db.orders", "--timestamp", "9999999999999", "--yes").code == 0


@pytest.mark.ci
def test_lineage_is_switched_on_asked_and_drawn(cli: CommandLine, tmp_path: Path) -> None:
    assert cli("lineage", "jobs").code == 2
    assert cli.done("lineage", "enable", "--json").json["data"] is True
    source = load_table(str(cli.warehouse / "db.db" / "orders"))
    catalog = load_catalog(str(cli.warehouse), **{"lineage.job": "copy"})
    cli.done("table", "create", "db.copy", "id BIGINT, dt STRING, note STRING")
    catalog.table("db.copy").write(catalog.table("db.orders").scan().to_arrow())
    assert source.snapshots()
    found = cli.done("lineage", "upstream", "db.copy", "--json").json
    assert found[0]["name"] and [(r["name"], len(r["snapshots"])) for r in found if r["kind"] == "unrecorded"] == [
        ("db.orders", 3)
    ]
    unknown = "sources unknown: db.orders (3 snapshots, newest 3), written without recorded lineage"
    assert unknown in cli.done("lineage", "unified", "db.copy").out
    assert cli.done("lineage", "declare-source", "db.orders").out == "db.orders\n"
    assert cli.done("lineage", "sources", "--json").json == [{"table": "db.orders"}]
    assert "unknown" not in cli.done("lineage", "unified", "db.copy").out
    assert cli.done("lineage", "retract-source", "db.orders").out == "no declared sources\n"
    assert cli("lineage", "retract-source", "db.orders").code == 2
    assert unknown in cli.done("lineage", "unified", "db.copy").out
    assert "copy" in cli.done("lineage", "jobs").out
    assert cli.done("lineage", "unified", "db.copy", "db.orders", "--json").json == {"db.copy": 1, "db.orders": 3}
    assert cli.done("lineage", "downstream", "--job", "copy").code == 0
    assert "db.copy" in cli.done("lineage", "impact", "db.orders", "3").out
    assert cli.done("lineage", "start-options", "db.copy", "--job", "next", "--json").json["db.copy"]
    assert cli.done("lineage", "graph").out.startswith("flowchart LR")
    cli.done("lineage", "graph", "db.copy", "--output", str(tmp_path / "g.mmd"))
    assert (tmp_path / "g.mmd").read_text().startswith("flowchart LR")
    refused = cli("lineage", "graph", "--format", "svg")
    assert refused.code == 2 and "mermaid" in refused.err
    assert "job copy" in cli.done("log", "db.copy").out
    assert cli.done("lineage", "sync").code == 0
    assert cli.done("lineage", "rebuild").code == 0
    assert cli("lineage", "forget", "copy").code == 2
    assert cli.done("lineage", "forget", "copy", "--yes", "--json").json["rows"] > 0
    assert cli("lineage", "forget", "nobody", "--dry-run").code == 3
    assert cli.done("lineage", "disable", "--json").json["table"] is False


def test_json_is_json_whatever_is_printed_beside_it(cli: CommandLine) -> None:
    for words in ("status", "log", "refs", "branch list", "tag list", "snapshot list", "partition list", "table show"):
        ran = cli.done(*words.split(), "db.orders", "--json", "--verbose")
        assert json.loads(ran.out)


@pytest.mark.parametrize("words", [("check", "db.orders"), ("branch", "merge", "db.orders", "fix", "--yes")])
def test_checks_without_spark_say_what_to_install(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    ran = cli(*words, "--check", "none=SELECT * FROM {table}")
    assert (ran.code, ran.out) == (2, "")
    assert "PySpark is not installed here: pip install 'pyspark>=4.1,<4.4'" in ran.err


def test_sql_without_spark_says_what_to_install(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    ran = cli("sql", "SELECT 1")
    assert (ran.code, "PySpark is not installed here" in ran.err) == (2, True)


def test_a_merge_only_onto_the_head_that_was_looked_at(cli: CommandLine) -> None:
    merge = ("branch", "merge", "db.orders", "fix")
    planned = cli.done(*merge, "--if-main-moved", "replace", "--dry-run", "--json").json
    assert planned["change"]["rows_gained"] == 1 and planned["dry_run"] is True
    head = cli.done("snapshot", "list", "db.orders", "--json").json
    newest = max(s["id"] for s in head)
    refused = cli(*merge, "--only-if-main-is", str(newest + 1), "--if-main-moved", "replace", "--yes")
    assert refused.code == 2
    assert f"is at snapshot {newest}, not at {newest + 1} as --only-if-main-is demands" in refused.err
    assert "or leave --only-if-main-is out" in refused.err
    assert cli(*merge, "--only-if-main-is", "no", "--yes").code == 2
    done = cli.done(*merge, "--only-if-main-is", str(newest), "--if-main-moved", "replace", "--yes").out
    assert done.startswith("main is branch fix at snapshot ") and "\nrows: main " in done
