"""Branch operations broken off at each of their store calls: readers see a whole branch or none, recovery ends it."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import pytest

from paimon_spark.engine.commit.committer import Committer
from paimon_spark.engine.commit.publish import write_hints
from paimon_spark.errors import (
    BranchNotFoundError,
    CommitConflictError,
    PaimonError,
)
from paimon_spark.format.metadata_files import table_schema as schema_file
from paimon_spark.maintenance.change import recover, unfinished
from paimon_spark.metadata.branches import list_branch_names
from paimon_spark.metadata.handle import TableHandle, open_branch, open_table
from paimon_spark.metadata.retry import Clock
from paimon_spark.metadata.schemas import list_schema_ids
from paimon_spark.metadata.snapshots import latest_snapshot, read_hint
from paimon_spark.metadata.tags import guard_name, tag_names
from paimon_spark.storage.urls import open_store
from paimon_spark.versioning.branches import create_branch, delete_branch, rename_branch
from tests.harness.commits import a_file, committer, files, make_table, manifest_names, message
from tests.harness.fault_store import MUTATING, Fault, FaultStore
from tests.harness.table_files import missing_files, reachable_files

pytestmark = pytest.mark.ci

ACTS: dict[str, Callable[[TableHandle], Any]] = {
    "create": lambda main: create_branch(main, "new", snapshot_id=2),
    "rename": lambda main: rename_branch(main, "fix", "other"),
    "delete": lambda main: delete_branch(main, "fix"),
}
WHOLE = {"main": {"m1", "m2", "m3"}, "fix": {"m1", "m2", "f1"}, "child": {"m1", "m2", "f1", "c1"}, "new": {"m1", "m2"}}
WHOLE["other"] = WHOLE["fix"]
AFTER = {
    "create": ["child", "fix", "new"],
    "rename": ["child", "other"],
    "delete": ["child"],
}


def a_table(root: str) -> TableHandle:
    """Main, a branch `fix` of it with two schemas, and a branch `child` of that."""
    inner, path = open_store(root)
    main = make_table(FaultStore(inner), path)
    for name in ("m1", "m2"):
        committer(main).commit([message(main, a_file(name))])
    create_branch(main, "fix", snapshot_id=2)
    committer(main).commit([message(main, a_file("m3"))])
    fix = open_branch(main, "fix")
    committer(fix).commit([message(fix, a_file("f1"))])
    fix.store.write(fix.layout.schema_path(1), schema_file.encode(replace(fix.schema, id=1)))
    assert list_schema_ids(fix.store, fix.layout) == [0, 1]
    create_branch(fix, "child", snapshot_id=3)
    child = open_branch(main, "child")
    committer(child).commit([message(child, a_file("c1"))])
    return main


def seen(main: TableHandle) -> dict[str, set[str]]:
    """What readers of each name find."""
    store = main.store.inner  # type: ignore[attr-defined]
    found = {}
    for name in WHOLE:
        try:
            found[name] = set(files(open_table(store, main.layout.root, name, "t")))
        except BranchNotFoundError:
            continue
    return found


def at_rest(main: TableHandle) -> tuple[list[str], list[str]]:
    """Branches and guards; checks that nothing is half there."""
    assert unfinished(main) is None
    names = list_branch_names(main)
    assert {n: WHOLE[n] for n in ["main", *names]} == seen(main)
    assert [p for p in missing_files(main) if "/manifest/" in p] == []
    named = {p.rpartition("/")[2] for p in reachable_files(main) if "/manifest/" in p}
    assert manifest_names(main) == named
    guards = sorted(n for n in tag_names(main) if n.startswith("branch-guard-"))
    assert guards == [guard_name(n) for n in names]
    for name in names:
        assert guard_name(name) in tag_names(main.on_branch_directory(name))
    return names, guards


@pytest.mark.parametrize("where", ["memory", "local"])
@pytest.mark.parametrize("verb", sorted(ACTS))
def test_broken_off_anywhere(tmp_path: Path, verb: str, where: str) -> None:
    whole = {n: WHOLE[n] for n in ("main", "fix", "child")}
    for at in range(1, 100):
        root = f"memory:///{tmp_path.name}/{at}/t" if where == "memory" else f"file://{tmp_path}/{at}/t"
        main = a_table(root)
        store: FaultStore = main.store  # type: ignore[assignment]
        store.arm(Fault(at, after=True, forever=True, retryable=False, verbs=MUTATING))
        with suppress(PaimonError):
            ACTS[verb](main)
        died = bool(store.failed)
        store.arm(None)
        for name, found in seen(main).items():
            assert found == WHOLE[name], f"{verb} broken off at {at}"
        planned = unfinished(main) is not None and bool(recover(main))
        names, _ = at_rest(main)
        assert names in (["child", "fix"], AFTER[verb])
        assert not planned or names == AFTER[verb]
        assert {n: f for n, f in seen(main).items() if n in ("main", "child")} == {
            n: f for n, f in whole.items() if n != "fix"
        }
        if not died:
            assert at > 5
            return
    raise AssertionError("it never ends")


@pytest.mark.parametrize("where", ["memory", "local"])
@pytest.mark.parametrize("verb", sorted(ACTS))
def test_every_step_beside_a_reader(tmp_path: Path, verb: str, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    main = a_table(f"memory:///{tmp_path.name}/t" if where == "memory" else f"file://{tmp_path}/t")
    store: FaultStore = main.store  # type: ignore[assignment]
    states: list[dict[str, set[str]]] = []
    real = FaultStore._call

    def looking(self: FaultStore, name: str, path: str, act: Callable[[], Any]) -> Any:
        result = real(self, name, path, act)
        if self is store and name in MUTATING:
            states.append(seen(main))
        return result

    monkeypatch.setattr(FaultStore, "_call", looking)
    ACTS[verb](main)
    assert len(states) > 5
    for state in states:
        assert all(found == WHOLE[name] for name, found in state.items())
        assert {"main", "child"} <= set(state)
    shown = [sorted(set(state) & {"fix", "other", "new"}) for state in states]
    assert shown[0] == ["fix"]
    assert shown[-1] == {"create": ["fix", "new"], "rename": ["other"], "delete": []}[verb]
    changes = sum(a != b for a, b in pairwise(shown))
    assert changes == 1, "one branch appears, goes, or has another name"


def test_a_commit_counts_whose_branch_is_renamed_as_it_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    main = a_table(f"file://{tmp_path}/t")
    fix = open_branch(main, "fix")
    link = os.link

    def renamed(old: str, new: str) -> None:
        link(old, new)
        if new == fix.layout.snapshot_path(4):
            rename_branch(main, "fix", "other")

    monkeypatch.setattr(os, "link", renamed)
    made = committer(fix).commit([message(fix, a_file("w"))])
    assert made.snapshot_ids == (4,)
    assert set(files(open_branch(main, "other"))) == {*WHOLE["other"], "w"}
    assert [p for p in missing_files(main) if "/manifest/" in p] == []
    assert not any(found for _, _, found in os.walk(fix.layout.branch_root)), "its hint is gone too"


@pytest.mark.parametrize("again", ["rename", "create", "create-empty"])
def test_the_hint_of_a_writer_that_died_late_does_not_block_the_name(tmp_path: Path, again: str) -> None:
    main = a_table(f"file://{tmp_path}/t")
    fix = open_branch(main, "fix")
    rename_branch(main, "fix", "other")
    write_hints(fix, 4, first=True)
    if again == "rename":
        rename_branch(main, "other", "fix")
    else:
        create_branch(main, "fix", empty=again == "create-empty")
    hints = [name for name in ("EARLIEST", "LATEST") if os.path.exists(f"{fix.layout.snapshot_dir}/{name}")]
    found = open_branch(main, "fix")
    if again == "create-empty":
        assert hints == []
        assert latest_snapshot(found) is None
    else:
        assert set(files(found)) == {"rename": WHOLE["fix"], "create": WHOLE["main"]}[again]
        assert read_hint(main.store, f"{fix.layout.snapshot_dir}/LATEST") == 3


@pytest.mark.parametrize("verb", ["rename", "delete"])
def test_commits_beside_are_there_or_were_refused(tmp_path: Path, verb: str) -> None:
    """What a commit said it did is on the branch, whatever it is called then; what it refused is not."""
    for n in range(6):
        main = a_table(f"file://{tmp_path}/{n}/t")
        done, refused, odd = set[str](), set[str](), list[Exception]()
        begun = threading.Event()

        def write(number: int, main: TableHandle = main, begun: threading.Event = begun, **sets: Any) -> None:
            for i in count():
                name = f"w{number}-{i}"
                try:
                    fix = open_table(main.store, main.layout.root, "fix", "t")
                    made = Committer(fix, "w", clock=Clock(sleep=lambda s: time.sleep(min(s, 0.01))))
                    made.commit([message(fix, a_file(name))])
                except BranchNotFoundError:
                    return
                except CommitConflictError:
                    sets["refused"].add(name)
                    return
                except Exception as e:  # noqa: BLE001 - for the other thread to see
                    sets["odd"].append(e)
                    return
                sets["done"].add(name)
                begun.set()

        writers = [
            threading.Thread(target=write, args=(i,), kwargs={"done": done, "refused": refused, "odd": odd})
            for i in range(2)
        ]
        for writer in writers:
            writer.start()
        begun.wait(20)
        ACTS[verb](main)
        for writer in writers:
            writer.join(60)
        assert not any(writer.is_alive() for writer in writers)
        assert not odd
        if verb == "rename":
            found = set(files(open_branch(main, "other")))
            assert done <= found
            assert not refused & found
            rename_branch(main, "other", "fix")  # what came too late leaves nothing in the way
            ACTS[verb](main)
        assert list_branch_names(main) == (["child", "other"] if verb == "rename" else ["child"])
