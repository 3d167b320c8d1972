"""One change of refs at a time, whole or not at all, however it is broken off."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from paimon_spark.errors import (
    CorruptFileError,
    InvalidInputError,
    OperationInProgressError,
    StorageError,
    UnsafeDeletionError,
    UnsupportedFeatureError,
)
from paimon_spark.format.metadata_files.snapshot import encode
from paimon_spark.maintenance.change import change_table, recover, unfinished
from paimon_spark.maintenance.orphan_files import orphans
from paimon_spark.maintenance.roots import all_roots
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.journal import lock
from paimon_spark.metadata.journal.change import DeleteFile, DeleteFiles, DeleteTree, Put, RenameTree, Step, TableChange
from paimon_spark.metadata.journal.lock import HeldLock, Owner, Waiting, running
from paimon_spark.metadata.manifests import CACHE
from paimon_spark.metadata.snapshots import list_snapshot_ids, list_snapshots
from paimon_spark.storage.local import LocalStore
from paimon_spark.storage.store import AtomicCreate, Store
from tests.harness.commits import KEYED, a_file, committer, compaction, files, make_table, message
from tests.harness.fault_store import MUTATING, Fault, FaultStore
from tests.harness.table_files import missing_files
from tests.harness.until import until


def a_table(tmp_path: Path, store: Store | None = None, snapshots: int = 4) -> TableHandle:
    """Each commit replaces the one data file."""
    table = make_table(store or LocalStore(), str(tmp_path / "t"), KEYED)
    for i in range(snapshots):
        table.store.write(f"{table.layout.root}/bucket-0/f{i}", b"data")
        old = list(files(table).values())
        new = a_file(f"f{i}", keys=(0, 9), level=5)
        committer(table).commit([compaction(table, old, [new]) if old else message(table, new)])
    return table


def expiry(table: TableHandle, count: int = 2) -> Callable[[], TableChange | None]:
    """Snapshots go, and a branch is made of the head first."""

    def plan() -> TableChange | None:
        roots = [r for r in all_roots(table) if r.branch_directory == "main"]
        head = encode(roots[-1].snapshot).decode()
        steps: tuple[Step, ...] = (
            Put(f"branch/branch-b/snapshot/snapshot-{roots[-1].name}", head),
            Put("tag/tag-old", encode(roots[0].snapshot).decode()),
            DeleteFile("tag/tag-old"),
            *(DeleteFile(f"snapshot/snapshot-{r.name}") for r in roots[:count]),
        )
        return TableChange("expire", "expiry of snapshots", steps, tuple(roots[:count]))

    return plan


def _given(change: TableChange) -> TableChange:
    return change


def check_in_order(table: TableHandle, changed: bool) -> None:
    """Nothing is missing, nothing is left, and the intent is gone."""
    CACHE.clear()
    assert missing_files(table) == []
    assert [o.path for o in orphans(table)] == []
    assert (list_snapshot_ids(table), (directory_of(table) / "branch").exists()) == (
        ([3, 4], True) if changed else ([1, 2, 3, 4], False)
    )
    assert unfinished(table) is None
    assert list((directory_of(table) / "intent").rglob("*")) == []


def directory_of(table: TableHandle) -> Path:
    return Path(table.layout.root)


def test_a_change_is_carried_out_and_frees_its_files(tmp_path: Path) -> None:
    table = a_table(tmp_path)
    removed = change_table(table, "expire", expiry(table))
    assert removed.snapshots == ("1", "2") and removed.data_files == 2 and removed.finished is None
    assert sorted(p.name for p in (tmp_path / "t" / "bucket-0").iterdir()) == ["f2", "f3"]
    check_in_order(table, True)


def test_a_plan_that_refuses_changes_nothing(tmp_path: Path) -> None:
    table = a_table(tmp_path)

    def plan() -> TableChange:
        raise InvalidInputError("no")

    with pytest.raises(InvalidInputError, match="no"):
        change_table(table, "x", plan)
    assert not (directory_of(table) / "intent").exists()
    assert change_table(table, "x", lambda: None).paths == ()
    assert not (directory_of(table) / "intent").exists()
    check_in_order(table, False)


def test_steps_outside_the_refs_are_refused_before_anything(tmp_path: Path) -> None:
    table = a_table(tmp_path)
    for path in ("../x", "manifest/x", "/etc/x", "tag//x", "bucket-0/f0", "", "tag/../../x"):
        change = TableChange("x", "x", (DeleteFile(path),))
        with pytest.raises(ValueError, match="may not touch"):
            change_table(table, "x", partial(_given, change))
    check_in_order(table, False)


def test_every_kind_of_step_can_be_repeated(tmp_path: Path) -> None:
    table = a_table(tmp_path)
    for name in ("a", "b"):
        table.store.write(f"{table.layout.root}/branch/branch-{name}/schema/schema-0", b"s")
    steps = (
        Put("tag/tag-x", "{}"),
        RenameTree("branch/branch-a", "branch/branch-c"),
        DeleteTree("branch/branch-b"),
        DeleteFiles(("consumer/consumer-1", "consumer/consumer-2")),
        DeleteFile("tag/tag-x"),
    )
    for _ in range(2):
        change_table(table, "x", lambda: TableChange("x", "x", steps))
    assert sorted(p.name for p in (tmp_path / "t" / "branch").iterdir()) == ["branch-c"]
    assert list((tmp_path / "t" / "tag").iterdir()) == []


def crash_points(tmp_path: Path) -> int:
    store = FaultStore(LocalStore())
    table = a_table(tmp_path / "counted", store)
    store.arm(None)
    change_table(table, "expire", expiry(table))
    return store.count(MUTATING)


@pytest.mark.ci
def test_a_crash_after_any_change_leaves_all_or_nothing_to_the_next_access(tmp_path: Path) -> None:
    changed = []
    for at in range(1, crash_points(tmp_path) + 1):
        store = FaultStore(LocalStore())
        table = a_table(tmp_path / f"{at}", store)
        store.arm(Fault(at, after=True, forever=True, retryable=False, verbs=MUTATING))
        with suppress(StorageError):
            change_table(table, "expire", expiry(table))
        store.arm(None)
        CACHE.clear()
        assert missing_files(table) == [], f"readers after a crash at call {at}"
        recover(table)
        was_changed = list_snapshot_ids(table) == [3, 4]
        check_in_order_but_leftovers(table, was_changed)
        changed.append(was_changed)
    assert changed == sorted(changed), "once it is decided it stays so"
    assert not changed[0] and changed[-1]


@pytest.mark.ci
@pytest.mark.parametrize("after", [False, True])
def test_an_interrupt_says_what_becomes_of_the_change(tmp_path: Path, after: bool) -> None:
    becomes = ("was not begun", "is not finished; the next write", "is done")
    said = []
    for at in range(2, crash_points(tmp_path) + 1):  # the first call takes the lock
        store = FaultStore(LocalStore())
        table = a_table(tmp_path / f"{at}", store)
        store.arm(Fault(at, after=after, verbs=MUTATING, interrupts=True))
        with pytest.raises(KeyboardInterrupt, match=r"^the expiry of snapshots of table t ") as raised:
            change_table(table, "expire", expiry(table))
        said.append(next(i for i, text in enumerate(becomes) if text in str(raised.value)))
        assert (unfinished(table) is not None) == (said[-1] == 1)
        assert recover(table) == ("expiry of snapshots" if said[-1] == 1 else None)
        check_in_order_but_leftovers(table, said[-1] > 0)
    assert said == sorted(said)
    assert set(said) >= {1, 2}


def check_in_order_but_leftovers(table: TableHandle, changed: bool) -> None:
    """A crash after the end of an operation may leave files of it that mean nothing."""
    (directory_of(table) / "intent").mkdir(exist_ok=True)
    for path in (directory_of(table) / "intent").iterdir():
        assert path.name != "intent"
        path.unlink()
    check_in_order(table, changed)


def test_one_failed_call_is_an_error_and_the_next_change_finishes_the_work(tmp_path: Path) -> None:
    store = FaultStore(LocalStore())
    table = a_table(tmp_path, store)
    store.arm(Fault(1, retryable=False, verbs=frozenset(["delete_many"])))
    with pytest.raises(StorageError):
        change_table(table, "expire", expiry(table))
    assert "expiry of snapshots, begun by process" in (unfinished(table) or "")
    removed = change_table(table, "x", lambda: None)
    assert removed.finished == "expiry of snapshots"
    check_in_order(table, True)


def test_an_interrupt_in_the_plan_leaves_nothing(tmp_path: Path) -> None:
    table = a_table(tmp_path)

    def plan() -> TableChange:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        change_table(table, "x", plan)
    check_in_order(table, False)


def test_doubt_leaves_everything(tmp_path: Path) -> None:
    table = a_table(tmp_path)
    (tmp_path / "t" / "manifest" / list_snapshots(table)[3].delta_manifest_list).unlink()
    CACHE.clear()
    with pytest.raises(UnsafeDeletionError, match="snapshot 4 needs"):
        change_table(table, "expire", expiry(table))
    assert list_snapshot_ids(table) == [1, 2, 3, 4]
    assert unfinished(table) is None


def test_a_commit_beside_the_change_keeps_its_files(tmp_path: Path) -> None:
    table = a_table(tmp_path)
    planned = expiry(table)

    def plan() -> TableChange | None:
        change = planned()
        table.store.write(f"{table.layout.root}/bucket-0/f9", b"data")
        # It brings back a file that only released snapshots had.
        committer(table).commit([message(table, a_file("f9", keys=(20, 21), level=4))])
        old = next(r for r in all_roots(table) if r.name == "1")
        tag = Path(table.layout.tag_path("foreign"))
        tag.parent.mkdir(parents=True, exist_ok=True)
        tag.write_bytes(encode(old.snapshot))
        return change

    removed = change_table(table, "expire", plan)
    assert removed.data_files == 1
    assert missing_files(table) == []


def test_who_comes_second_waits_and_then_gives_up_by_name(tmp_path: Path) -> None:
    table = a_table(tmp_path)
    begun, end = threading.Event(), threading.Event()

    def slow() -> None:
        begun.set()
        end.wait(60)

    thread = threading.Thread(target=lambda: change_table(table, "merge-branch", lambda: slow()))
    thread.start()
    begun.wait(60)
    with pytest.raises(OperationInProgressError, match=rf"process {os.getpid()} on .*merge-branch.*not done after"):
        change_table(table, "x", lambda: None, wait_ms=50)
    with pytest.raises(OperationInProgressError):
        recover(table, wait_ms=0)

    def wait(_: float) -> None:
        end.set()
        thread.join()

    change_table(table, "x", lambda: None, wait_ms=60_000, waiting=Waiting(sleep=wait))
    thread.join()
    check_in_order(table, False)


def test_a_change_within_a_change_is_refused_at_once(tmp_path: Path) -> None:
    table = a_table(tmp_path)

    def plan() -> None:
        change_table(table, "inner", lambda: None)

    with pytest.raises(OperationInProgressError):
        change_table(table, "outer", plan)
    check_in_order(table, False)


def test_changes_of_many_threads_are_one_after_the_other(tmp_path: Path) -> None:
    table = a_table(tmp_path)
    table.store.write(f"{table.layout.root}/consumer/n", b"0")

    def add() -> None:
        def plan() -> TableChange:
            n = int(table.store.read(f"{table.layout.root}/consumer/n"))
            return TableChange("x", "x", (Put("consumer/n", str(n + 1)),))

        change_table(table, "x", plan)

    threads = [threading.Thread(target=add) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert table.store.read(f"{table.layout.root}/consumer/n") == b"8"


CHILD = """
import sys, time
from pathlib import Path
from paimon_spark.maintenance import change as intents
from paimon_spark.metadata.handle import open_table
from paimon_spark.storage.local import LocalStore
sys.path.insert(0, sys.argv[3])
from tests.unit.maintenance.test_change import expiry
table = open_table(LocalStore(), sys.argv[1], name="t")
real = intents.run_step
def run(handle, step):
    if "snapshot-2" in str(step):
        Path(sys.argv[2]).write_text("here")
        time.sleep(600)
    real(handle, step)
intents.run_step = run
intents.change_table(table, "expire", expiry(table))
"""


@pytest.mark.ci
def test_a_killed_process_is_known_to_be_dead_and_its_work_finished(tmp_path: Path) -> None:
    table, here = a_table(tmp_path), tmp_path / "here"
    home = str(Path(__file__).parents[3])
    with subprocess.Popen([sys.executable, "-c", CHILD, table.layout.root, str(here), home], cwd=home) as child:
        try:
            until(lambda: here.exists() or child.poll() is not None)
            assert child.poll() is None
            with pytest.raises(OperationInProgressError, match=f"process {child.pid} on"):
                recover(table, wait_ms=0)
        finally:
            child.kill()
        # Not waited for yet: a zombie is dead, too.
        until(lambda: not Owner("x", "h", Owner.new().machine, child.pid, None).is_alive())
        assert recover(table, wait_ms=10_000) == "expiry of snapshots"
    check_in_order(table, True)


def elsewhere(table: TableHandle, since_ms: int) -> Owner:
    """An intent of another machine, with a plan."""
    owner = replace(Owner.new(), machine="elsewhere", host="far", pid=1)
    raw = {"version": 1, "owner": owner.encode(), "kind": "expire", "sinceMillis": since_ms}
    table.store.write(f"{table.layout.root}/intent/intent", json.dumps(raw).encode())
    return owner


def test_an_owner_elsewhere_lives_as_long_as_it_gives_signs(tmp_path: Path) -> None:
    table = a_table(tmp_path)
    owner = elsewhere(table, 0)
    intent = tmp_path / "t" / "intent" / "intent"
    with pytest.raises(OperationInProgressError, match="process 1 on far"):
        recover(table, wait_ms=0)
    os.utime(intent, (time.time() - 1000,) * 2)
    beat = tmp_path / "t" / "intent" / f"beat-{owner.operation}"
    beat.write_bytes(b"x")
    with pytest.raises(OperationInProgressError):
        recover(table, wait_ms=0)
    os.utime(beat, (time.time() - 1000,) * 2)
    assert recover(table, wait_ms=0) is None
    assert [p.name for p in (tmp_path / "t" / "intent").iterdir()] == [beat.name]


def test_a_clock_that_runs_ahead_kills_nobody(tmp_path: Path) -> None:
    table = a_table(tmp_path)
    elsewhere(table, 0)
    ahead = Waiting(clock_ms=lambda: time.time_ns() // 1_000_000 + 3_600_000)
    with pytest.raises(OperationInProgressError):
        recover(table, wait_ms=0, waiting=ahead)


def test_of_many_that_take_over_one_does(tmp_path: Path) -> None:
    store = FaultStore(LocalStore())
    table = a_table(tmp_path, store)
    store.arm(Fault(1, retryable=False, verbs=frozenset(["delete_many"])))
    with pytest.raises(StorageError):
        change_table(table, "expire", expiry(table))
    labels: list[str | None] = []
    threads = [threading.Thread(target=lambda: labels.append(recover(table))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(str, labels)) == [*["None"] * 5, "expiry of snapshots"]
    check_in_order(table, True)


def test_who_was_taken_for_dead_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HeldLock, "_beat", lambda _: None)  # as if the machine had slept
    slept = [0.0]
    monkeypatch.setattr(lock, "clocks", lambda: (time.monotonic() + slept[0], time.time() + slept[0]))
    table = a_table(tmp_path)
    planned = expiry(table)

    def plan() -> TableChange | None:
        change = planned()
        slept[0] = 90.0
        (tmp_path / "t" / "intent" / "intent").unlink()
        return change

    with pytest.raises(OperationInProgressError, match="taken over"):
        change_table(table, "expire", plan)
    assert list_snapshot_ids(table) == [1, 2, 3, 4]


@pytest.mark.parametrize(
    "text",
    ["", "garbage", "[]", "{}", '{"version": 2}', '{"version": 1, "owner": {}, "kind": "x", "sinceMillis": 1}'],
)
def test_an_intent_that_cannot_be_read_says_what_to_do(tmp_path: Path, text: str) -> None:
    table = a_table(tmp_path)
    table.store.write(f"{table.layout.root}/intent/intent", text.encode())
    with pytest.raises(CorruptFileError, match=r"intent/intent.*remove the directory .*/intent and look.*doctor"):
        change_table(table, "x", lambda: None)


@pytest.mark.parametrize(
    "raw",
    [
        {"version": 1, "kind": "x", "label": "x", "steps": [["delete", "../../x"]], "released": []},
        {"version": 1, "kind": "x", "label": "x", "steps": [["delete-tree", "manifest"]], "released": []},
        {"version": 1, "kind": "x", "label": "x", "steps": [["burn", "tag"]], "released": []},
        {"version": 1, "kind": "x", "label": "x", "steps": [], "released": [{"kind": "moon"}]},
        {"version": 9},
        [],
    ],
)
def test_a_hostile_plan_is_refused(tmp_path: Path, raw: object) -> None:
    table = a_table(tmp_path)
    owner = replace(Owner.new(), pid=2**22 + 1)
    intent = {"version": 1, "owner": owner.encode(), "kind": "x", "sinceMillis": 1}
    table.store.write(f"{table.layout.root}/intent/intent", json.dumps(intent).encode())
    table.store.write(f"{table.layout.root}/intent/plan-{owner.operation}", json.dumps(raw).encode())
    with pytest.raises(CorruptFileError, match=r"plan-.*not a readable plan.*Nothing was done"):
        recover(table)


def test_stores_without_exclusive_creation_are_refused(tmp_path: Path) -> None:
    class Weak(LocalStore):
        @property
        def atomic_create(self) -> AtomicCreate:
            return AtomicCreate.NONE

    table = replace(a_table(tmp_path), store=Weak())
    with pytest.raises(UnsupportedFeatureError, match="exclusive creation"):
        change_table(table, "x", lambda: None)
    assert recover(table) is None


def test_an_operation_counts_as_alive_while_it_runs() -> None:
    owner = Owner.new()
    assert owner.is_alive() is False
    with running(owner):
        assert owner.is_alive() is True
        assert Owner.decode(json.loads(json.dumps(owner.encode()))) == owner
    assert owner.is_alive() is False
    assert replace(owner, pid=1, started="0").is_alive() is False
    assert replace(owner, machine=None).is_alive() is None


def test_an_intent_removed_by_hand_takes_no_other_with_it(tmp_path: Path) -> None:
    """The operation goes on to its end, but the lock that another took since stays."""
    handle = make_table(LocalStore(), f"{tmp_path}/t")
    intent = tmp_path / "t" / "intent" / "intent"
    others = []

    def plan() -> None:
        raw = json.loads(intent.read_text())
        raw["owner"]["operation"] = "another"
        others.append(json.dumps(raw))
        intent.write_text(others[0])

    change_table(handle, "create-tag", plan)
    assert intent.read_text() == others[0]
