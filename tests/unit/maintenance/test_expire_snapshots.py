"""Snapshots and long-lived changelogs that go, on tables that Java and pypaimon wrote and on our own."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from paimon_spark import load_table
from paimon_spark.api.table import Table
from paimon_spark.errors import CorruptFileError, InvalidInputError, StorageError
from paimon_spark.maintenance.consumers import reset_consumer
from paimon_spark.maintenance.expiry import Limits, expire_changelogs, expire_snapshots, may_expire_snapshots
from paimon_spark.maintenance.orphan_files import orphans
from paimon_spark.maintenance.removal import Removed
from paimon_spark.metadata.handle import TableHandle, open_table
from paimon_spark.metadata.manifests import CACHE
from paimon_spark.metadata.snapshots import (
    earliest_snapshot_id,
    find_changelog,
    list_changelog_ids,
    list_snapshot_ids,
    list_snapshots,
    read_hint,
)
from paimon_spark.metadata.tags import list_tags
from paimon_spark.storage.local import LocalStore
from tests.harness.commits import KEYED, PARTITIONED, a_file, committer, compaction, make_table, message
from tests.harness.fault_store import MUTATING, Fault, FaultStore
from tests.harness.golden import BEYOND_NANOSECONDS, FIXTURES, PRODUCERS, golden_path
from tests.harness.table_files import missing_files

KEEP_ONE = Limits(retain_max=1, retain_min=1, max_deletes=1000)
ODD = {"fast_forwarded", *BEYOND_NANOSECONDS}
"""A table whose producer left orphans behind, and ones with values that Arrow cannot hold."""

TABLES = sorted(
    p.parent.name
    for producer in PRODUCERS
    for p in (FIXTURES / producer).glob("*/table")
    if len(list((p / "snapshot").glob("snapshot-*"))) > 1 and p.parent.name not in ODD
)


def golden(name: str, tmp_path: Path) -> Table:
    shutil.copytree(golden_path(name), tmp_path / "t")
    CACHE.clear()
    return load_table(str(tmp_path / "t"))


def files_below(root: Path) -> set[str]:
    return {str(p.relative_to(root)) for p in root.rglob("*") if p.is_file() and "intent" not in p.parts}


def versions(table: Table) -> dict[tuple[str, str], Any]:
    """The rows of every tag and head of every branch, and of all snapshots of branches."""
    found = {}
    for name in ("main", *(b.name for b in table.branches(include_internal=True))):
        branch = table.branch(name)
        snapshots = branch.snapshots()[-1 if name == "main" else 0 :]
        for version in (
            *(f"tag-name.{t.name}" for t in branch.tags(include_internal=True)),
            *(f"snapshot.{s.id}" for s in snapshots),
        ):
            rows = branch.at(version).scan().to_arrow()
            found[name, version] = sorted(map(repr, rows.to_pylist()))
    return found


def assert_in_order(handle: TableHandle, removed: Removed, before: set[str], root: Path) -> None:
    """What is gone is what was said to go, what is needed is there, and nothing is left over."""
    assert missing_files(handle) == []
    assert [f.path for f in orphans(handle)] == []
    gone = before - files_below(root)
    said = {p.removeprefix(f"{handle.layout.root}/") for p in removed.paths}
    assert said <= gone
    assert {p for p in gone - said if not p.startswith(("snapshot/", "changelog/", "branch/"))} == set()


@pytest.mark.parametrize("name", TABLES)
def test_all_but_the_head_of_a_foreign_table_goes_and_the_rest_reads_as_before(name: str, tmp_path: Path) -> None:
    table = golden(name, tmp_path)
    table.clear_consumers()
    before, there = versions(table), files_below(tmp_path / "t")
    head = table.snapshots()[-1].id
    said = expire_snapshots(table.handle, KEEP_ONE, dry_run=True)
    assert files_below(tmp_path / "t") == there
    removed = expire_snapshots(table.handle, KEEP_ONE)
    assert removed == said and len(removed.snapshots) > 0
    assert_in_order(table.handle, removed, there, tmp_path / "t")
    assert [s.id for s in table.snapshots()] == [head]
    assert read_hint(table.handle.store, f"{table.handle.layout.snapshot_dir}/EARLIEST") == head
    assert versions(table) == before
    assert expire_snapshots(table.handle, KEEP_ONE) == Removed()


def test_on_a_branch_only_its_own_snapshots_go(tmp_path: Path) -> None:
    table = golden("branches", tmp_path)
    names = [b.name for b in table.branches(include_internal=True) if len(table.branch(b.name).snapshots()) > 1]
    assert names
    for name in names:
        branch = table.branch(name)
        before, there = versions(table), files_below(tmp_path / "t")
        removed = expire_snapshots(branch.handle, KEEP_ONE)
        assert all(i.startswith(f"{name}.") for i in removed.snapshots) and removed.snapshots
        assert_in_order(table.handle, removed, there, tmp_path / "t")
        after = versions(table)
        assert {k[0] for k in before if k not in after} == {name}
        assert after == {k: before[k] for k in after}


def day(n: int) -> int:
    return n * 86_400_000


def history(root: Path, snapshots: int, **options: str) -> TableHandle:
    """Snapshot n was made on day n; it adds the file n and takes the file n - 2 away."""
    handle = make_table(LocalStore(), str(root), PARTITIONED, **options)
    bucket = root / "p=1" / "bucket-0"
    bucket.mkdir(parents=True, exist_ok=True)
    for n in range(1, snapshots + 1):
        (bucket / f"a{n}").write_bytes(b"x" * 100)
        gone = [a_file(f"a{n - 2}")] if n > 2 else []
        committer(handle).commit([message(handle, a_file(f"a{n}"), p=1, bucket=0, deleted=gone)])
        path = Path(handle.layout.snapshot_path(n))
        path.write_text(json.dumps({**json.loads(path.read_text()), "timeMillis": day(n)}))
    return handle


def data(root: Path) -> list[str]:
    return sorted(p.name for p in (root / "p=1" / "bucket-0").iterdir())


def test_the_options_say_what_goes(tmp_path: Path) -> None:
    handle = history(tmp_path, 9, snapshot__num_retained__min="2", snapshot__time_retained="2 d")
    assert expire_snapshots(handle, clock_ms=lambda: day(4)).snapshots == ()
    assert expire_snapshots(handle, clock_ms=lambda: day(5)).snapshots == ("1",)
    assert earliest_snapshot_id(handle) == 2
    removed = expire_snapshots(handle, clock_ms=lambda: day(100))
    assert removed.snapshots == tuple("234567") and removed.data_files == 7 - 1
    assert data(tmp_path) == ["a7", "a8", "a9"]
    assert list_snapshot_ids(handle) == [8, 9]


def test_the_caller_says_otherwise(tmp_path: Path) -> None:
    handle = history(tmp_path, 9, snapshot__expire__limit="2")
    assert expire_snapshots(handle, clock_ms=lambda: day(100)).snapshots == ()
    assert expire_snapshots(handle, Limits(retain_max=3, retain_min=1), clock_ms=lambda: 0).snapshots == ("1", "2")
    assert expire_snapshots(handle, Limits(retain_min=1, older_than_ms=day(4) + 1)).snapshots == ("3",)
    assert expire_snapshots(handle, Limits(retain_min=1, older_than_ms=day(100), max_deletes=0)).snapshots == ()
    assert expire_snapshots(handle, replace(KEEP_ONE, max_deletes=3)).snapshots == ("4", "5", "6")
    assert list_snapshot_ids(handle) == [7, 8, 9]


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        (Limits(retain_min=0), r"retain_min = 0 for table t: at least one is kept; give 1 or more"),
        (Limits(3, 10), r"retain_max = 3 is less than retain_min = 10 for table t; give both, or a larger"),
        (Limits(retain_max=0), r"retain_max = 0 is less than retain_min = 1 for table t; give both, or a larger"),
        (Limits(max_deletes=-1), r"max_deletes = -1 for table t: give 0 or more"),
    ],
)
def test_limits_that_make_no_sense_are_refused(tmp_path: Path, limits: Limits, said: str) -> None:
    handle = history(tmp_path, 1)
    for verb in (expire_snapshots, expire_changelogs):
        with pytest.raises(InvalidInputError, match=said):
            verb(handle, limits)


def test_a_call_lets_as_many_expire_as_it_says(tmp_path: Path) -> None:
    handle = history(tmp_path, 12, snapshot__expire__limit="2")
    table = load_table(str(tmp_path))
    assert len(table.expire_snapshots(1, dry_run=True).snapshots) == 11
    assert table.expire_snapshots(9, max_deletes=1).snapshots == ("1",)
    assert table.expire_snapshots(9).snapshots == ("2", "3")
    assert len(table.expire_snapshots(1).snapshots) == 8
    assert list_snapshot_ids(handle) == [12]


def test_arguments_of_the_methods_are_checked(tmp_path: Path) -> None:
    history(tmp_path, 2)
    table = load_table(str(tmp_path))
    with pytest.raises(InvalidInputError, match=r"retain_max = '1': expected a whole number"):
        table.expire_snapshots("1")  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match=r"older_than = 'yesterday' is no timestamp"):
        table.expire_snapshots(older_than="yesterday")
    with pytest.raises(InvalidInputError, match=r"older_than = 1\.5 is no moment"):
        table.expire_changelogs(older_than=1.5)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match=r"was opened at version '1'"):
        table.at(1).expire_snapshots()
    assert table.expire_snapshots(1, retain_min=1, older_than="1970-01-03 12:00:00").snapshots == ("1",)


def test_what_a_consumer_has_yet_to_read_stays(tmp_path: Path) -> None:
    handle = history(tmp_path, 5)
    reset_consumer(handle, "etl", 3)
    assert expire_snapshots(handle, KEEP_ONE).snapshots == ("1", "2")
    assert expire_snapshots(handle, KEEP_ONE).snapshots == ()
    reset_consumer(handle, "etl", 5)
    assert expire_snapshots(handle, KEEP_ONE).snapshots == ("3", "4")


def test_a_consumer_that_cannot_be_read_stops_everything(tmp_path: Path) -> None:
    handle = history(tmp_path, 5)
    handle.store.write(f"{handle.layout.consumer_dir}/consumer-etl", b"garbage")
    there = files_below(tmp_path)
    with pytest.raises(CorruptFileError, match=r"consumer-etl is not a readable consumer"):
        expire_snapshots(handle, KEEP_ONE)
    assert files_below(tmp_path) == there
    assert expire_snapshots(reopened(handle, consumer__changelog_only="true"), KEEP_ONE).snapshots == tuple("1234")


def reopened(handle: TableHandle, **options: str) -> TableHandle:
    given = {k.replace("__", ".").replace("_", "-"): v for k, v in options.items()}
    return open_table(handle.store, handle.layout.root, name="t", options=given)


def test_holes_and_false_hints_of_other_engines_do_no_harm(tmp_path: Path) -> None:
    handle = history(tmp_path, 9)
    for n in (1, 4, 5):
        handle.store.delete(handle.layout.snapshot_path(n))
    (tmp_path / "snapshot" / "EARLIEST").write_text("1")
    assert may_expire_snapshots(handle, 9, lambda: day(100)) is False  # ten stay, and six are there
    assert read_hint(handle.store, str(tmp_path / "snapshot" / "EARLIEST")) in (1, 2)
    kept = Limits(retain_min=3, older_than_ms=day(100))
    assert expire_snapshots(handle, kept).snapshots == ("2", "3", "6")
    assert list_snapshot_ids(handle) == [7, 8, 9]
    assert missing_files(handle) == []


@pytest.mark.parametrize(("hint", "after"), [("2", None), ("8", "8"), ("9", "9"), ("soon", "soon")])
def test_a_hint_at_the_head_that_others_would_believe_goes(hint: str, after: str | None, tmp_path: Path) -> None:
    """Java believes it when the next snapshot is not there; pypaimon's fast-forward leaves such ones."""
    handle = history(tmp_path, 9)
    path = tmp_path / "snapshot" / "LATEST"
    path.write_text(hint)
    expire_snapshots(handle, KEEP_ONE)
    assert list_snapshot_ids(handle) == [9]
    assert (path.read_text() if path.exists() else None) == after


def test_a_table_without_snapshots_has_nothing_to_expire(tmp_path: Path) -> None:
    handle = history(tmp_path, 0)
    assert expire_snapshots(handle, KEEP_ONE) == expire_changelogs(handle, KEEP_ONE) == Removed()
    assert may_expire_snapshots(handle, 0) is False


OUTLIVE: Mapping[str, str] = {"changelog__num_retained__max": "2147483647", "snapshot__num_retained__max": "100"}


def test_changelogs_outlive_their_snapshots_and_then_expire(tmp_path: Path) -> None:
    handle = history(tmp_path, 8, **OUTLIVE)
    told = expire_snapshots(handle, KEEP_ONE, dry_run=True)
    removed = expire_snapshots(handle, KEEP_ONE)
    assert told == removed and removed.snapshots == tuple("1234567")
    assert removed.data_files == 0  # without changelog files, what was appended is the changelog
    assert list_changelog_ids(handle) == [1, 2, 3, 4, 5, 6, 7]
    assert read_hint(handle.store, str(tmp_path / "changelog" / "LATEST")) == 7
    found = find_changelog(handle, 3)
    assert found is not None and found.time_ms == day(3)
    assert missing_files(handle) == [] and orphans(handle) == []

    reset_consumer(handle, "etl", 8)
    assert expire_changelogs(handle, Limits(retain_max=5, retain_min=1), clock_ms=lambda: 0).changelogs == tuple("123")
    assert list_changelog_ids(handle) == [4, 5, 6, 7]
    assert data(tmp_path) == ["a2", "a3", "a4", "a5", "a6", "a7", "a8"]  # who reads changelog 4 sees a2 go
    assert read_hint(handle.store, str(tmp_path / "changelog" / "EARLIEST")) == 4
    old = Limits(retain_max=10, retain_min=1, older_than_ms=day(6))
    assert expire_changelogs(handle, old, dry_run=True).changelogs == ("4", "5")
    assert expire_changelogs(handle, old).changelogs == ("4", "5")
    assert data(tmp_path) == ["a4", "a5", "a6", "a7", "a8"]
    assert expire_changelogs(handle, KEEP_ONE).changelogs == ("6",)  # the newest stays
    assert data(tmp_path) == ["a5", "a7", "a8"]
    assert missing_files(handle) == [] and orphans(handle) == []
    last = expire_changelogs(handle, delete_all=True)
    assert last.changelogs == ("7",) and list_changelog_ids(handle) == []
    assert [p.name for p in (tmp_path / "changelog").iterdir()] == []
    assert data(tmp_path) == ["a7", "a8"]
    assert missing_files(handle) == [] and orphans(handle) == []


def test_files_of_compactions_go_with_the_changelogs_at_the_latest(tmp_path: Path) -> None:
    handle = make_table(LocalStore(), str(tmp_path), KEYED, **OUTLIVE)
    bucket = tmp_path / "bucket-0"
    bucket.mkdir()
    for name in ("a1", "m2", "a3", "m4"):
        (bucket / name).write_bytes(b"x")
    old, merged = a_file("a1", keys=(1, 5)), a_file("m2", level=5, keys=(1, 5))
    committer(handle).commit([message(handle, old)])
    committer(handle).commit([compaction(handle, [old], [merged])])
    late = a_file("a3", keys=(1, 5))
    committer(handle).commit([message(handle, late)])
    committer(handle).commit([compaction(handle, [merged, late], [a_file("m4", level=5, keys=(1, 5))])])
    expire_snapshots(handle, KEEP_ONE)
    assert {"a1", "a3", "m4"} <= {p.name for p in bucket.iterdir()}
    expire_changelogs(handle, Limits(retain_max=2, retain_min=1))  # that of snapshot 3 stays
    assert {p.name for p in bucket.iterdir()} == {"a3", "m4"}
    expire_changelogs(handle, delete_all=True)
    assert {p.name for p in bucket.iterdir()} == {"m4"}


def test_consumers_hold_changelogs_alone_where_the_table_says_so(tmp_path: Path) -> None:
    # ExpireSnapshotsTest.testConsumerChangelogOnly
    handle = history(tmp_path, 10, **OUTLIVE, consumer__changelog_only="true")
    reset_consumer(handle, "mine", 3)
    expire_snapshots(handle, KEEP_ONE)
    assert list_snapshot_ids(handle) == [10]
    expire_changelogs(handle, KEEP_ONE)
    assert list_changelog_ids(handle) == [3, 4, 5, 6, 7, 8, 9]


def test_tags_and_branches_keep_what_they_need(tmp_path: Path) -> None:
    handle = history(tmp_path, 9)
    (tmp_path / "tag").mkdir()
    shutil.copy(tmp_path / "snapshot" / "snapshot-4", tmp_path / "tag" / "tag-v4")
    shutil.copytree(tmp_path / "schema", tmp_path / "branch" / "branch-fix" / "schema")
    (tmp_path / "branch" / "branch-fix" / "snapshot").mkdir()
    shutil.copy(tmp_path / "snapshot" / "snapshot-6", tmp_path / "branch" / "branch-fix" / "snapshot")
    removed = expire_snapshots(handle, KEEP_ONE)
    assert removed.snapshots == tuple("12345678")
    assert data(tmp_path) == ["a3", "a4", "a5", "a6", "a8", "a9"]
    assert [t.snapshot.id for t in list_tags(handle)] == [4]
    assert missing_files(handle) == [] and orphans(handle) == []


@pytest.mark.ci
@pytest.mark.parametrize("outlive", [False, True])
def test_an_expiry_broken_off_anywhere_is_finished_by_the_next(tmp_path: Path, outlive: bool) -> None:
    template = tmp_path / "template"
    history(template, 6, **(OUTLIVE if outlive else {}))
    (template / "tag").mkdir()
    shutil.copy(template / "snapshot" / "snapshot-2", template / "tag" / "tag-v2")
    shutil.copytree(template, tmp_path / "whole")
    expire_snapshots(open_table(LocalStore(), str(tmp_path / "whole"), name="t"), KEEP_ONE)
    whole = files_below(tmp_path / "whole")
    at = 0
    while True:
        at += 1
        root = tmp_path / f"broken-{at}"
        shutil.copytree(template, root)
        CACHE.clear()
        store = FaultStore(LocalStore())
        handle = open_table(store, str(root), name="t")
        store.arm(Fault(at, forever=True, retryable=False, verbs=MUTATING))
        try:
            expire_snapshots(handle, KEEP_ONE)
            done = True
        except StorageError:
            done = False
        store.arm(None)
        clean = open_table(LocalStore(), str(root), name="t")
        assert missing_files(clean) == []
        assert [s.id for s in list_snapshots(clean)][-1] == 6
        expire_snapshots(clean, KEEP_ONE)
        assert files_below(root) == whole, at
        if done:
            break
    assert at > 8


def test_metadata_that_was_deleted_is_not_remembered(tmp_path: Path) -> None:
    handle = make_table(LocalStore(), str(tmp_path / "t"), KEYED, manifest__merge_min_count="3")
    commits = committer(handle)
    for n in range(8):
        commits.commit([message(handle, a_file(f"data-{n}.parquet", keys=(n, n)))])
    CACHE.clear()
    removed = expire_snapshots(handle, KEEP_ONE)
    gone = {path for path in removed.paths if "/manifest/" in path}
    assert any("manifest-list" in path for path in gone)
    assert any("manifest-list" not in path for path in gone)
    assert [path for path in gone if CACHE.get((handle.store.identity, path)) is not None] == []


def test_a_look_at_what_may_expire_is_a_few_small_reads(tmp_path: Path) -> None:
    handle = history(tmp_path, 12, snapshot__num_retained__min="3", snapshot__time_retained="10 d")
    store = FaultStore(LocalStore())
    watched = replace(handle, store=store)
    (tmp_path / "snapshot" / "EARLIEST").unlink(missing_ok=True)

    def look(now: int) -> tuple[bool, list[str]]:
        store.arm(None)
        found = may_expire_snapshots(watched, 12, lambda: day(now))
        return found, [c.verb for c in store.calls]

    assert look(10) == (False, ["read", "list", "write", "read"])
    assert look(10) == (False, ["read", "read"])
    assert look(13) == (True, ["read", "read", "list"])
    reset_consumer(handle, "etl", 1)
    assert look(13)[0] is False
    assert may_expire_snapshots(watched, 4) is False
