"""Deletions free exactly the files that nobody else needs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_spark.errors import UnsafeDeletionError
from paimon_spark.maintenance import liveness as alive
from paimon_spark.maintenance.change import change_table
from paimon_spark.maintenance.removal import Removed, plan_removal
from paimon_spark.maintenance.roots import all_roots, without
from paimon_spark.metadata.handle import TableHandle, open_table
from paimon_spark.metadata.journal.change import DeleteFile, Root, RootKind, TableChange
from paimon_spark.metadata.manifests import CACHE
from paimon_spark.storage.local import LocalStore
from paimon_spark.versioning.branches import create_branch
from tests.harness.commits import PARTITIONED, a_file, committer, make_table, manifest_names, message
from tests.harness.fault_store import FaultStore
from tests.harness.random_history import History
from tests.harness.search import examples


@pytest.mark.ci
@given(st.randoms(use_true_random=False), st.integers(3, 25))
@settings(max_examples=examples(40), deadline=None)
def test_exactly_what_only_released_roots_need_goes(random: Random, steps: int) -> None:
    history = History(random).run(steps)
    roots = history.roots()
    released = [root for root in roots if random.random() < random.choice([0.2, 0.5, 0.9])]
    kept = without(roots, released)
    with patch.object(alive, "_MANY", random.choice([1, 1000])):
        removed = plan_removal(history.handle, released, kept)
        assert plan_removal(history.handle, released, kept) == removed, "with names remembered"
    needed = set().union(*(history.needed(root) for root in kept))
    given_up = set().union(*(history.gives_up(root) for root in released if not history.lists(root) <= needed))
    # While a long-lived changelog names the lists of a state, data files of the state wait for the changelog to go.
    for root in released:
        given_up |= {
            p for p in history.gives_up(root) if any(part in p for part in ("/index/", "/statistics/", "/index-"))
        }
    assert sorted(removed.paths) == sorted(given_up - needed)
    assert removed.snapshots == tuple(
        r.name if r.branch_directory == "main" else f"{r.branch_directory}.{r.name}"
        for r in released
        if r.kind is RootKind.SNAPSHOT
    )


def a_line(snapshots: int) -> History:
    history = History(Random(1))
    while len(history.lines["main"]) < snapshots:
        history.commit()
    return history


def the_roots(history: History, *ids: int) -> list[Root]:
    versions = [history.lines["main"][i].snapshot.id for i in ids]
    return [r for r in history.roots() if int(r.name) in versions]


def manifest_list(history: History, index: int) -> str:
    return f"{history.root}/manifest/{history.lines['main'][index].snapshot.delta_manifest_list}"


def test_a_kept_root_whose_list_is_missing_stops_everything_and_is_named() -> None:
    history = a_line(5)
    released = the_roots(history, 0, 1)
    history.builder.table.delete(manifest_list(history, 3))
    CACHE.clear()
    snapshot_id = history.lines["main"][3].snapshot.id
    with pytest.raises(
        UnsafeDeletionError, match=rf"snapshot {snapshot_id} needs .*manifest-list.*which does not exist"
    ):
        plan_removal(history.handle, released, without(history.roots(), released))


def test_a_kept_root_whose_list_is_garbage_stops_everything_and_is_named() -> None:
    history = a_line(5)
    released = the_roots(history, 0, 1)
    history.builder.table.put(manifest_list(history, 3), b"garbage")
    CACHE.clear()
    snapshot_id = history.lines["main"][3].snapshot.id
    with pytest.raises(UnsafeDeletionError, match=rf"snapshot {snapshot_id} needs .*cannot be read"):
        plan_removal(history.handle, released, without(history.roots(), released))


def test_a_kept_root_that_expired_meanwhile_is_no_doubt() -> None:
    history = a_line(5)
    released = the_roots(history, 0)
    kept = without(history.roots(), released)
    gone = history.lines["main"][1].snapshot
    history.builder.table.delete(history.handle.layout.snapshot_path(gone.id))
    history.builder.table.delete(manifest_list(history, 1))
    CACHE.clear()
    plan_removal(history.handle, released, kept)


def test_a_released_root_whose_metadata_is_gone_is_passed_over() -> None:
    history = a_line(5)
    released = the_roots(history, 0, 1)
    history.builder.table.delete(manifest_list(history, 0))
    CACHE.clear()
    removed = plan_removal(history.handle, released, without(history.roots(), released))
    needed = set().union(*(history.needed(root) for root in without(history.roots(), released)))
    assert needed.isdisjoint(removed.paths)
    assert manifest_list(history, 0) not in removed.paths
    assert manifest_list(history, 1) in removed.paths


def test_a_history_that_only_appends_reads_no_manifest(tmp_path: Path) -> None:
    store = FaultStore(LocalStore())
    table = make_table(store, str(tmp_path / "t"))
    for i in range(5):
        committer(table).commit([message(table, a_file(f"f{i}"))])
    CACHE.clear()
    roots = all_roots(table)
    store.arm(None)
    removed = plan_removal(table, roots[:3], roots[3:])
    assert removed.data_files == 0 and removed.manifest_files == 6
    assert not [c for c in store.calls if "/manifest-" in c.path.replace("manifest-list", "")]
    assert len(store.calls) <= 2


def other_branches(tmp_path: Path, new_on_main: bool) -> TableHandle:
    """Two branches with manifests of their own that name the files that main begins with; one file goes on main.

    The file is one that main begins with, or a new one, which no branch has.
    """
    store = LocalStore()
    table = make_table(store, str(tmp_path / "t"), manifest__merge_min_count="2")
    first = [a_file(f"f{i}") for i in range(5)]
    committer(table).commit([message(table, *first)])
    for name in ("a", "b"):
        create_branch(table, name, snapshot_id=1)
        branch = open_table(store, table.layout.root, name)
        for i in range(6):
            committer(branch).commit([message(branch, a_file(f"{name}{i}"))])
    going = a_file("new") if new_on_main else first[0]
    if new_on_main:
        committer(table).commit([message(table, going)])
    committer(table).commit([message(table, a_file("other"), deleted=[going])])
    CACHE.clear()
    return table


def release_old(table: TableHandle) -> Removed:
    roots = all_roots(table)
    released = [r for r in roots if r.branch_directory == "main" and r.kind is RootKind.SNAPSHOT][:-1]
    return plan_removal(table, released, without(roots, released))


def test_once_all_files_are_needed_nobody_else_is_asked(tmp_path: Path) -> None:
    table = other_branches(tmp_path, new_on_main=False)
    with patch.object(alive.Counts, "_entries", autospec=True, side_effect=alive.Counts._entries) as read:
        assert release_old(table).data_files == 0
    asked = [m for call in read.call_args_list for m in call.args[1]]
    assert len(asked) <= 5, asked


def test_what_names_a_manifest_has_is_remembered(tmp_path: Path) -> None:
    table = other_branches(tmp_path, new_on_main=True)
    counts = []
    with patch.object(alive, "_MANY", 1):
        for _ in range(2):
            CACHE.clear()
            with patch.object(alive.Counts, "_entries", autospec=True, side_effect=alive.Counts._entries) as read:
                assert [p.rpartition("/")[2] for p in release_old(table).paths if "bucket" in p] == ["new"]
            counts.append(sum(len(call.args[1]) for call in read.call_args_list))
    assert counts[0] > 10 and counts[1] <= 3, counts


def test_the_same_name_has_the_same_hash_whatever_stands_beside_it() -> None:
    names = ["data-1.parquet", "data-2.parquet", "", "x" * 100]
    together = alive.name_hashes(pa.array(names))
    assert [int(alive.name_hashes(pa.array([n]))[0]) for n in names] == together.tolist()
    assert alive.name_hashes(pa.array(names)[1:3]).tolist() == together[1:3].tolist()
    assert len(set(together.tolist())) == 4 and len(alive.name_hashes(pa.array([], pa.string()))) == 0
    many = pa.array([f"data-0b1c2d3e-{i}-{j}.parquet" for i in range(100) for j in range(1000)])
    assert len(np.unique(alive.name_hashes(many))) == len(many)


def test_the_head_alone_gives_up_everything(tmp_path: Path) -> None:
    table = make_table(LocalStore(), str(tmp_path / "t"))
    committer(table).commit([message(table, a_file("f"))])
    removed = plan_removal(table, all_roots(table), [])
    assert removed.data_files == 1 and removed.bytes > 100
    assert {p.rpartition("/")[2] for p in removed.paths} == {"f", *manifest_names(table)}


def test_names_of_released_roots_say_their_branch() -> None:
    history = a_line(2)
    root = history.roots()[0]
    tag = replace(root, kind=RootKind.TAG, branch_directory="fix", name="v1")
    removed = plan_removal(history.handle, [root, tag], history.roots())
    assert removed.snapshots == (root.name,) and removed.tags == ("fix.v1",) and removed.paths == ()


@pytest.mark.parametrize("asked", [True, False])
def test_emptied_directories_go_when_asked(tmp_path: Path, asked: bool) -> None:
    table = make_table(LocalStore(), str(tmp_path / "t"), PARTITIONED)
    if asked:
        table = make_table(LocalStore(), str(tmp_path / "u"), PARTITIONED, snapshot__clean_empty_directories="true")
    root = Path(table.layout.root)
    for p in (1, 2):
        bucket = root / f"p={p}" / "bucket-0"
        bucket.mkdir(parents=True)
        (bucket / "f").write_bytes(b"data")
        committer(table).commit([message(table, a_file("f"), p=p)])
    (root / "p=2" / "bucket-0" / "being-written").write_bytes(b"data")
    change_table(
        table,
        "x",
        lambda: TableChange(
            "x", "x", tuple(DeleteFile(f"snapshot/snapshot-{i}") for i in (1, 2)), tuple(all_roots(table))
        ),
    )
    assert not (root / "p=2" / "bucket-0" / "f").exists() and not (root / "p=1" / "bucket-0" / "f").exists()
    assert (root / "p=2" / "bucket-0" / "being-written").exists()
    assert (root / "p=1").exists() is not asked
