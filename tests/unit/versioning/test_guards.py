"""Guards against engines that look at tags of one branch alone: whatever Java expires on main, branches stay whole.

Nothing helps where Java expires a branch, as the tests at the end show.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import fsspec
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from paimon_spark.format.metadata_files import snapshot as snapshot_file
from paimon_spark.format.metadata_files.data_file import DataFileMeta
from paimon_spark.format.metadata_files.snapshot import Tag
from paimon_spark.metadata.branches import fork_of, list_branch_names
from paimon_spark.metadata.handle import TableHandle, open_branch
from paimon_spark.metadata.snapshots import get_snapshot, list_snapshot_ids, list_snapshots
from paimon_spark.metadata.tags import guard_name, guarded_branch, list_tags
from paimon_spark.storage.urls import open_store
from paimon_spark.versioning.branches import create_branch, delete_branch, rename_branch
from tests.harness import java_expiry
from tests.harness.commits import a_file, committer, files, make_table, message
from tests.harness.search import examples

pick = st.integers(0, 1000)


class Foreign(RuleBasedStateMachine):
    """Branches of ours on a table whose main Java expires, and whose tags it deletes on every branch."""

    @initialize()
    def make(self) -> None:
        fsspec.filesystem("memory").store.clear()
        store, root = open_store("memory:///guards/wh/db.db/t")
        self.main = make_table(store, root, manifest__merge_min_count="2")
        self.count = 0
        self.gone: set[str] = set()
        self.needed: dict[tuple[str, int], set[str]] = {}
        self.write(0, 2)

    def on(self, number: int) -> TableHandle:
        names = ["main", *list_branch_names(self.main)]
        return open_branch(self.main, names[number % len(names)])

    def name(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def new_file(self, handle: TableHandle) -> DataFileMeta:
        return a_file(self.name(f"{handle.branch}-"))

    @rule(number=pick, files_left=st.integers(0, 3))
    def write(self, number: int, files_left: int) -> None:
        """Add a file, and delete the oldest beyond `files_left`."""
        handle = self.on(number)
        old = list(files(handle).values())
        gone = old[: max(0, len(old) - files_left)]
        committer(handle).commit([message(handle, self.new_file(handle), deleted=gone)])
        handle = self.on(number)
        for snapshot in list_snapshots(handle):
            key = (snapshot.base_manifest_list, snapshot.id)
            if key not in self.needed:
                self.needed[key] = java_expiry.needed(handle, [snapshot])

    @rule(number=pick, which=pick)
    def tag(self, number: int, which: int) -> None:
        handle = self.on(number)
        ids = list_snapshot_ids(handle)
        name = self.name("v")
        data = snapshot_file.encode_tag(Tag(name, get_snapshot(handle, ids[which % len(ids)])))
        handle.store.write(handle.layout.tag_path(name), data)

    @precondition(lambda self: len(list_branch_names(self.main)) < 5)
    @rule(number=pick, which=pick, by_tag=st.booleans())
    def branch(self, number: int, which: int, by_tag: bool) -> None:
        handle = self.on(number)
        tags = [t.name for t in list_tags(handle)]
        ids = list_snapshot_ids(handle)
        given: dict[str, Any] = (
            {"tag": tags[which % len(tags)]} if by_tag and tags else {"snapshot_id": ids[which % len(ids)]}
        )
        create_branch(handle, self.name("b"), **given)

    @precondition(lambda self: bool(list_branch_names(self.main)))
    @rule(which=pick)
    def rename(self, which: int) -> None:
        names = list_branch_names(self.main)
        rename_branch(self.main, names[which % len(names)], self.name("r"))

    @precondition(lambda self: bool(list_branch_names(self.main)))
    @rule(which=pick)
    def delete(self, which: int) -> None:
        names = list_branch_names(self.main)
        removed = delete_branch(self.main, names[which % len(names)])
        assert not {p.rpartition("/")[2] for p in removed.paths} & self.all_needed()

    @rule(keep=st.integers(1, 3))
    def java_expires_main(self, keep: int) -> None:
        self.gone |= java_expiry.expire(self.main, keep)

    @rule(number=pick, which=pick)
    def java_deletes_a_tag(self, number: int, which: int) -> None:
        handle = self.on(number)
        names = [t.name for t in list_tags(handle) if guarded_branch(t.name) is None]
        if names:
            self.gone |= java_expiry.delete_tag(handle, names[which % len(names)])

    def all_needed(self) -> set[str]:
        roots = [
            snapshot
            for number in range(1 + len(list_branch_names(self.main)))
            for handle in [self.on(number)]
            for snapshot in (*list_snapshots(handle), *(t.snapshot for t in list_tags(handle)))
        ]
        return set().union(*(self.needed[s.base_manifest_list, s.id] for s in roots))

    @invariant()
    def every_branch_is_whole(self) -> None:
        if hasattr(self, "gone"):
            assert not self.gone & self.all_needed()

    @invariant()
    def guards_are_of_the_history_they_lie_on(self) -> None:
        if not hasattr(self, "gone"):
            return
        for name in list_branch_names(self.main):
            fork = fork_of(self.main.on_branch_directory(name))
            assert fork is not None
            found = {
                place
                for place in ("main", *list_branch_names(self.main))
                if guard_name(name) in {t.name for t in list_tags(self.main.on_branch_directory(place))}
            }
            assert found == {*fork.guards, name}


def test_a_guard_never_hides_another(tmp_path: Path) -> None:
    """A tag of another history on main would be the nearest one of newer snapshots, and hide the older that counts."""
    store, root = open_store(f"memory:///{tmp_path.name}/wh/db.db/t")
    main = make_table(store, root)
    old, new = a_file("old"), a_file("new")
    committer(main).commit([message(main, old)])
    create_branch(main, "a", snapshot_id=1)
    on_a = open_branch(main, "a")
    committer(on_a).commit([message(on_a, a_file("a2"), deleted=[old])])
    committer(on_a).commit([message(on_a, a_file("a3"))])
    create_branch(on_a, "b", snapshot_id=3)
    for added, gone in ((a_file("m2"), ()), (a_file("m3"), ()), (new, (old,)), (a_file("m5"), ())):
        committer(main).commit([message(main, added, deleted=gone)])
    deleted = java_expiry.expire(main, 1)
    assert deleted
    assert not deleted & java_expiry.needed(main, list_snapshots(on_a))
    assert not deleted & java_expiry.needed(main, list_snapshots(open_branch(main, "b")))


def test_without_a_guard_java_takes_the_base_away(tmp_path: Path) -> None:
    store, root = open_store(f"memory:///{tmp_path.name}/wh/db.db/t")
    main = make_table(store, root)
    old = a_file("old")
    committer(main).commit([message(main, old)])
    create_branch(main, "a", snapshot_id=1)
    store.delete(main.layout.tag_path(guard_name("a")))
    for name, gone in (("m2", ()), ("m3", (old,)), ("m4", ())):
        committer(main).commit([message(main, a_file(name), deleted=gone)])
    assert "old" in java_expiry.expire(main, 1)


def test_what_java_expires_on_a_branch_its_own_tags_and_children_may_need(tmp_path: Path) -> None:
    """Java looks at the tags of main there, whatever guards the branch has: not to be allowed, as the manual says."""
    store, root = open_store(f"memory:///{tmp_path.name}/wh/db.db/t")
    main = make_table(store, root)
    old = a_file("old")
    committer(main).commit([message(main, a_file("m1"))])
    create_branch(main, "a", snapshot_id=1)
    on_a = open_branch(main, "a")
    committer(on_a).commit([message(on_a, old)])
    store.write(on_a.layout.tag_path("own"), snapshot_file.encode_tag(Tag("own", get_snapshot(on_a, 2))))
    create_branch(on_a, "b", snapshot_id=2)
    for added, gone in ((a_file("a3"), ()), (a_file("a4"), (old,)), (a_file("a5"), ())):
        committer(on_a).commit([message(on_a, added, deleted=gone)])
    deleted = java_expiry.expire(on_a, 1)
    assert "old" in deleted
    assert "old" in java_expiry.data_files(on_a, list_tags(on_a)[-1].snapshot)
    assert "old" in java_expiry.needed(main, list_snapshots(open_branch(main, "b")))


def test_what_java_expires_on_a_branch_older_tags_of_main_may_need(tmp_path: Path) -> None:
    """A newer tag of main, of another history than the branch's, hides the guard."""
    store, root = open_store(f"memory:///{tmp_path.name}/wh/db.db/t")
    main = make_table(store, root)
    old = a_file("old")
    committer(main).commit([message(main, old)])
    create_branch(main, "a", snapshot_id=1)
    on_a = open_branch(main, "a")
    committer(main).commit([message(main, a_file("m2"), deleted=[old])])
    store.write(main.layout.tag_path("v2"), snapshot_file.encode_tag(Tag("v2", get_snapshot(main, 2))))
    for added, gone in ((a_file("a2"), ()), (a_file("a3"), (old,)), (a_file("a4"), ())):
        committer(on_a).commit([message(on_a, added, deleted=gone)])
    assert "old" in java_expiry.expire(on_a, 1)
    assert "old" in java_expiry.data_files(main, get_snapshot(main, 1))


Foreign.TestCase.settings = settings(
    max_examples=examples(15),
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)


@pytest.mark.timeout(600)
class TestForeign(Foreign.TestCase):  # type: ignore[valid-type, misc]
    """The machine above."""
