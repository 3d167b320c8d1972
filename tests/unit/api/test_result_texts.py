"""Results as text: what `str`, `repr` and notebooks show of them is what the command line prints."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import is_dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark import Catalog, Table
from tests.harness.real_tables import a_catalog

ROWS = pa.table({"id": pa.array([1, 2], pa.int64()), "v": ["a", "b"]})
TIME = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    made = a_catalog(tmp_path)
    table = made.create_table("db.t", "id BIGINT NOT NULL, v STRING", primary_keys=["id"], options={"bucket": "1"})
    table.write(ROWS)
    table.create_tag("v1")
    table.create_branch("fix", tag="v1")
    table.branch("fix").write(ROWS)
    table.write(ROWS)
    return made


@pytest.fixture
def t(catalog: Catalog) -> Table:
    return catalog.table("db.t")


RESULTS: dict[str, tuple[Callable[[Table], Any], str]] = {
    "a table": (lambda t: t, r"db\.t on branch main"),
    "a version": (lambda t: t.at("v1"), r"db\.t on branch main at version 'v1'"),
    "a scan": (lambda t: t.scan(["id"], where="id = 1"), r"scan of db\.t on branch main, columns id, where id = 1"),
    "a snapshot": (lambda t: t.snapshots()[0], rf"snapshot 1, APPEND, {TIME} UTC, 2 rows"),
    "a tag": (lambda t: t.tags()[-1], rf"tag v1: snapshot 1, APPEND, {TIME} UTC, 2 rows, branches fix"),
    "a guard tag": (
        lambda t: next(g for g in t.tags(include_internal=True) if g.guards),
        r"guard \S+: snapshot 1, .*, guards branch fix",
    ),
    "a new tag": (lambda t: t.create_tag("v2", time_retained="2 d"), r"tag v2: snapshot 2, .*, lives for 2 d"),
    "a tag of another branch": (lambda t: t.create_tag("v2", version="fix"), r"tag v2 on branch fix: snapshot 2, .*"),
    "an undo": (
        lambda t: (t.fast_forward("fix"), t.undo())[1],
        (
            r"undid the fast-forward of main to branch 'fix': main is at snapshot 2; 1 snapshot \(2\) of main kept as "
            r".*\nrows: main lost 2 and gained 2 \(stored records; a row may have several\)\nnext: correct the .*"
        ),
    ),
    "a branch": (lambda t: t.branches()[0], "branch fix from tag v1"),
    "a fork": (lambda t: t.branches()[0].fork, r"from main at snapshot 1 \(tag v1\)"),
    "a savepoint": (lambda t: t.create_savepoint(), r"savepoint \d: snapshot \d, .*"),
    "a write": (lambda t: t.write(ROWS), "wrote snapshot 3: 2 rows inserted"),
    "nothing to write": (lambda t: t.write(ROWS.slice(0, 0)), "nothing to write"),
    "a compaction": (
        lambda t: t.compact(full=True),
        r"2 files \([\d.]+ K?i?B\) became 1 file \([\d.]+ K?i?B\) in 1 bucket, snapshot 3",
    ),
    "a merge": (
        lambda t: t.fast_forward("fix"),
        (
            "main is branch fix at snapshot 2\nnew on main: 1 snapshot \\(2\\)\nmain lost: 1 snapshot \\(2\\)\n"
            "kept as branch main_backup_.*\nrows: main lost 2 and gained 2 .*"
        ),
    ),
    "a merge over a tag and a schema": (
        lambda t: (t.create_tag("lost"), t.alter(add={"c": "INT"}), t.fast_forward("fix"))[2],
        (
            r"(?s:.*)\nmain lost: 1 snapshot \(2\), 1 tag \(lost\), 1 schema \(1\)\nkept as branch .*"
            r"\ndefinition: main lost column c\nrows: .*"
        ),
    ),
    "a merge as a dry run": (
        lambda t: t.fast_forward("fix", dry_run=True),
        (
            "main would become branch fix at snapshot 2\n(?s:.*)would lose: 1 snapshot \\(2\\)\nto be kept as .*\n"
            "rows: main would lose 2 and gain 2 .*"
        ),
    ),
    "a deleted branch": (lambda t: t.delete_branch("fix"), r"deleted .*\d+ files, [\d.]+ KiB"),
    "its dry run": (lambda t: t.delete_branch("fix", dry_run=True), r"would delete .*\d+ files, [\d.]+ KiB"),
    "a rollback": (lambda t: t.rollback_to(1), "the head is snapshot 1\ndeleted: 1 snapshot \\(2\\), .*"),
    "a restored state": (lambda t: t.rollback_to_as_latest(1), "snapshot 3 has the state of snapshot 1"),
    "expiry": (lambda t: t.expire_snapshots(1, retain_min=1), r"deleted 1 snapshot \(1\), .*"),
    "orphan files": (lambda t: t.remove_orphan_files(dry_run=True), "would delete 0 files, 0 B"),
    "automatic tags": (lambda t: t.create_automatic_tags(), "no automatic tag is due"),
    "a consumer": (lambda t: t.reset_consumer("c", next_snapshot=2), "consumer c reads snapshot 2 next"),
    "a diff": (
        lambda t: t.diff("v1", "main"),
        (
            r"db\.t: tag 'v1' \(snapshot 1\) -> .* \(snapshot 2\)\n1 commit ahead, 0 commits behind\n"
            r"\+ 1 file, 2 rows, .*\n- 0 files, 0 rows, 0 B"
        ),
    ),
    "the history": (
        lambda t: t.history(),
        rf"\* {{2,}}2 {{2}}(?s:.*)\* +1  \[tag v1, tag fix\.v1\]  {TIME}Z  APPEND  \+2 rows",
    ),
    "a commit": (lambda t: t.history().commits[-1], rf"1  \[tag v1, tag fix\.v1\]  {TIME}Z  APPEND  \+2 rows"),
    "the status": (
        lambda t: t.status(),
        (
            r"db\.t on branch main\nfile:.*\nprimary key table, key id, bucket fixed \(1\), .*(?s:.*)"
            r"branch fix: snapshot 2, from main at 1 \(tag v1\), 1 ahead, 1 behind"
        ),
    ),
}


@pytest.mark.parametrize("case", RESULTS)
def test_a_result_reads_as_the_command_line_prints_it(t: Table, case: str) -> None:
    act, text = RESULTS[case]
    found = act(t)
    assert re.fullmatch(text, str(found)), str(found)
    assert str(found) in repr(found)
    for shown in (repr(found), repr([found])):
        assert f"{type(found).__name__}(" not in shown and "=None" not in shown


def test_a_catalog_names_its_warehouse(catalog: Catalog) -> None:
    assert str(catalog) == f"catalog of {catalog.warehouse}" and repr(catalog) == f"<{catalog}>"
    assert repr(catalog.table("db.t")) == f"<table db.t on branch main: {catalog.table('db.t').location}>"


def test_a_list_of_tags_or_branches_shows_each_in_a_line(t: Table) -> None:
    assert repr(t.branches()) == "[<branch fix from tag v1>]"
    assert re.fullmatch(rf"\[(<(tag|guard) \S+: snapshot 1, APPEND, {TIME} UTC, 2 rows[^<>]*>(, )?)+\]", repr(t.tags()))


def test_notebooks_show_forks_and_dry_runs_in_words(t: Table) -> None:
    assert "from main at snapshot 1 (tag v1)" in t.branches()._repr_html_()  # type: ignore[attr-defined]
    planned = t.fast_forward("fix", dry_run=True)
    html = planned._repr_html_()
    assert "dry run" in html and "<td" in html and "would delete" in html and "paths" not in html
    assert "dry run" not in t.fast_forward("fix")._repr_html_()


def test_a_dry_run_says_that_it_was_one(t: Table) -> None:
    assert t.delete_tag("v1", dry_run=True).dry_run and not t.delete_tag("v1").dry_run
    planned, done = t.rollback_to(1, dry_run=True), t.rollback_to(1)
    assert planned.dry_run and not done.dry_run


def test_text_of_a_name_is_safe_for_a_terminal(t: Table) -> None:
    made = replace(t.tags()[0], name="a\x1b[31mb")  # as another engine may have called it
    assert "\x1b" not in str(made) and "\\x1b" in repr(made)


def test_no_public_result_is_shown_as_a_dump_of_its_fields() -> None:
    for name in paimon_spark.__all__:
        cls = getattr(paimon_spark, name)
        if isinstance(cls, type) and is_dataclass(cls) and name != "CommitEvent":
            assert not hasattr(cls.__repr__, "__wrapped__"), f"{name} has the repr of a dataclass"
