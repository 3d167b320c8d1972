"""Others commit in between, at the same time, or the store does not answer: one snapshot, or none, never two."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import pytest

from paimon_spark.engine.commit.committer import Committer
from paimon_spark.errors import (
    CommitConflictError,
    CommitOutcomeUnknownError,
    CommitRetriesExhaustedError,
    StorageError,
    UnsupportedFeatureError,
)
from paimon_spark.metadata.handle import TableHandle, open_branch, open_table
from paimon_spark.metadata.snapshots import latest_snapshot, list_snapshot_ids, list_snapshots
from paimon_spark.storage.local import LocalStore
from paimon_spark.storage.store import AtomicCreate, Store
from paimon_spark.storage.urls import open_store
from paimon_spark.versioning.branches import create_branch
from paimon_spark.versioning.merge import merge_branch
from paimon_spark.versioning.tags import create_tag
from tests.harness.commits import (
    APPEND,
    KEYED,
    PARTITIONED,
    Calm,
    a_file,
    committer,
    compaction,
    files,
    make_table,
    manifest_names,
    message,
)
from tests.harness.fault_store import Fault, FaultStore
from tests.harness.s3_server import make_bucket, s3_server


class Meddling:
    """A store that lets others act right before a snapshot file is created."""

    def __init__(self, inner: Store, acts: list[Callable[[], object]]) -> None:
        self._inner, self._acts = inner, acts

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def create_exclusive(self, path: str, data: bytes) -> None:
        if self._acts and "/snapshot/snapshot-" in path:
            self._acts.pop(0)()
        self._inner.create_exclusive(path, data)


def meddled(table: TableHandle, *acts: Callable[[], object]) -> TableHandle:
    return open_table(cast(Store, Meddling(table.store, list(acts))), table.layout.root, name="t")


@pytest.fixture
def root(tmp_path: Path) -> str:
    return f"{tmp_path}/t"


def reachable(table: TableHandle) -> set[str]:
    """Metadata files that some snapshot needs."""
    from paimon_spark.metadata.manifests import read_manifest_list

    names: set[str] = set()
    for s in list_snapshots(table):
        for one in (s.base_manifest_list, s.delta_manifest_list, s.changelog_manifest_list):
            if one is not None:
                names |= {one, *(m.file_name for m in read_manifest_list(table, one))}
        names |= {s.index_manifest} - {None}  # type: ignore[arg-type]
    return names


def test_the_slower_of_two_appends_comes_after_the_faster(root: str) -> None:
    table = make_table(LocalStore(), root)
    slow = meddled(table, lambda: committer(table, "other").commit([message(table, a_file("b"))]))
    result = committer(slow).commit([message(slow, a_file("a"))])
    assert (result.snapshot_ids, result.retries) == ((2,), 1)
    head = latest_snapshot(table)
    assert head is not None and (head.total_record_count, head.delta_record_count) == (20, 10)
    assert set(files(table)) == {"a", "b"}
    assert manifest_names(table) == reachable(table)


def test_commits_that_are_always_slower_give_up_and_leave_nothing(root: str) -> None:
    table = make_table(LocalStore(), root, commit__max_retries="2")
    acts = [lambda n=n: committer(table, "other").commit([message(table, a_file(f"b{n}"))]) for n in range(3)]
    calm = Calm()
    slow = meddled(table, *acts)
    with pytest.raises(CommitRetriesExhaustedError, match="was tried 3 times"):
        committer(slow, sleep=calm.sleep).commit([message(slow, a_file("a"))])
    assert calm.waits == [0.01, 0.02]
    assert set(files(table)) == {"b0", "b1", "b2"}
    assert manifest_names(table) == reachable(table)


def test_a_commit_that_takes_longer_than_its_time_gives_up(root: str) -> None:
    table = make_table(LocalStore(), root, commit__timeout="1 ms")
    slow = meddled(table, lambda: committer(table, "other").commit([message(table, a_file("b"))]))
    with pytest.raises(CommitRetriesExhaustedError):
        committer(slow).commit([message(slow, a_file("a"))])


def test_a_conflict_found_on_the_second_attempt_is_not_tried_again(root: str) -> None:
    table = make_table(LocalStore(), root, KEYED)
    old = a_file("a", keys=(0, 9))
    committer(table).commit([message(table, old)])

    def compacts(name: str) -> Any:
        return compaction(table, [old], [a_file(name, level=5, keys=(0, 9))])

    slow = meddled(table, lambda: committer(table, "other").commit([compacts("b")]))
    with pytest.raises(CommitConflictError, match="replaces a, which another commit deleted"):
        committer(slow).commit([compacts("c")])
    assert set(files(table)) == {"b"}
    assert manifest_names(table) == reachable(table)


def test_a_compaction_is_compared_with_the_history_that_a_merge_gave_main_meanwhile(root: str) -> None:
    table = make_table(LocalStore(), root)
    old = a_file("old")
    committer(table).commit([message(table, old)])
    create_tag(table, "base")
    create_branch(table, "fix", tag="base")
    fix = open_branch(table, "fix")
    committer(fix).commit([compaction(fix, [old], [a_file("of-fix")])])
    for name in ("b", "c"):
        committer(fix).commit([message(fix, a_file(name))])
    committer(table).commit([message(table, a_file("of-main"))])
    slow = meddled(table, lambda: merge_branch(table, "fix", if_main_moved="replace"))
    with pytest.raises(CommitConflictError, match="replaces old, which another commit deleted"):
        committer(slow).commit([compaction(table, [old], [a_file("of-slow")])])
    assert set(files(table)) == {"of-fix", "b", "c"}


def test_an_overwrite_replaces_what_came_while_it_was_prepared(root: str) -> None:
    table = make_table(LocalStore(), root)
    committer(table).commit([message(table, a_file("old"))])
    slow = meddled(table, lambda: committer(table, "other").commit([message(table, a_file("late"))]))
    committer(slow).overwrite([message(slow, a_file("new"))])
    assert set(files(table)) == {"new"}
    head = latest_snapshot(table)
    assert head is not None and (head.id, head.total_record_count, head.delta_record_count) == (3, 10, -10)
    assert manifest_names(table) == reachable(table)


@pytest.mark.parametrize("retryable", [True, False])
@pytest.mark.parametrize("after", [True, False])
def test_a_lost_answer_is_looked_up(root: str, after: bool, retryable: bool) -> None:
    store = FaultStore(LocalStore())
    table = make_table(store, root)
    committer(table).commit([message(table, a_file("a"))])
    store.arm(Fault(1, after=after, retryable=retryable, verbs=frozenset({"create_exclusive"}), path_part="snapshot-"))
    ours = committer(table)
    if not after and not retryable:
        with pytest.raises(StorageError):
            ours.commit([message(table, a_file("b"))])
        assert set(files(table)) == {"a"}
    else:
        assert ours.commit([message(table, a_file("b"))]).snapshot_ids == (2,)
        assert set(files(table)) == {"a", "b"}
    assert list_snapshot_ids(table) == ([1] if not after and not retryable else [1, 2])
    assert manifest_names(table) == reachable(table)


def test_an_answer_lost_to_another_commit_is_a_lost_race(root: str) -> None:
    """The first try for an id got no answer, and another's snapshot is found there: ours goes to the next id."""
    table = make_table(LocalStore(), root)

    def lose() -> None:
        committer(table, "other").commit([message(table, a_file("b"))])
        raise StorageError("no answer", retryable=True)

    slow = meddled(table, lose)
    result = committer(slow, "me").commit([message(slow, a_file("a"))])
    assert result.snapshot_ids == (2,) and set(files(table)) == {"a", "b"}


@pytest.mark.parametrize("expired", [[1], [1, 2], [1, 2, 3]])
def test_a_commit_that_slept_past_the_expiry_of_its_id_goes_to_the_head(root: str, expired: list[int]) -> None:
    table = make_table(LocalStore(), root)
    committer(table).commit([message(table, a_file("a"))])
    calm = Calm()

    def sleep_long() -> None:
        for n in range(4):
            committer(table, "other").commit([message(table, a_file(f"b{n}"))])
        for i in expired:
            table.store.delete(table.layout.snapshot_path(i))
        calm.now += 3_600_000

    slow = meddled(table, sleep_long)
    result = committer(slow, clock_ms=calm.clock_ms).commit([message(slow, a_file("late"))])
    assert result.snapshot_ids == (6,)
    assert set(files(table)) == {"a", "b0", "b1", "b2", "b3", "late"}
    assert list_snapshot_ids(table) == [i for i in range(1, 7) if i not in expired]


def test_a_slow_commit_with_others_behind_it_is_no_stray(root: str) -> None:
    table = make_table(LocalStore(), root, manifest__merge_min_count="1")
    calm = Calm()

    class Behind(Meddling):
        """Others follow at once, and merge our manifests away, before our answer comes."""

        def create_exclusive(self, path: str, data: bytes) -> None:
            self._inner.create_exclusive(path, data)
            if self._acts:
                self._acts.pop()()
                calm.now += 3_600_000

    def follow() -> None:
        for n in range(2):
            committer(table, "other").commit([message(table, a_file(f"b{n}"))])

    slow = open_table(cast(Store, Behind(table.store, [follow])), root, name="t")
    assert committer(slow, clock_ms=calm.clock_ms).commit([message(slow, a_file("a"))]).snapshot_ids == (1,)
    assert set(files(table)) == {"a", "b0", "b1"} and list_snapshot_ids(table) == [1, 2, 3]


def test_two_batches_of_one_user_both_land(root: str) -> None:
    """All batches have one identifier, so user and identifier do not tell a commit: only its uuid does."""
    table = make_table(LocalStore(), root)
    slow = meddled(table, lambda: committer(table, "me").commit([message(table, a_file("b"))]))
    committer(slow, "me").commit([message(slow, a_file("a"))])
    assert set(files(table)) == {"a", "b"}


def test_a_silent_store_leaves_the_outcome_open_and_every_file(root: str) -> None:
    store = FaultStore(LocalStore())
    table = make_table(store, root)
    ours, wanted = committer(table), message(table, a_file("a"))
    path = table.layout.data_path(table.layout.bucket_path("", 0), "a")
    store.write(path, b"rows")
    fault = Fault(1, after=True, forever=True, verbs=frozenset({"create_exclusive"}), path_part="snapshot-")
    store.arm(fault)
    with pytest.raises(CommitOutcomeUnknownError, match="if its uuid is") as e:
        ours.commit([wanted])
    store.arm(None)
    head = latest_snapshot(table)
    assert head is not None and head.uuid == e.value.context["uuid"]
    ours.abort([wanted])
    assert store.exists(path)
    assert manifest_names(table) == reachable(table)


@pytest.mark.ci
@pytest.mark.parametrize("after", [True, False])
@pytest.mark.parametrize("retryable", [True, False])
@pytest.mark.parametrize("verb", ["append", "overwrite", "delete", "slow append"])
def test_a_store_that_fails_at_any_call_leaves_before_or_after(
    tmp_path: Path, verb: str, after: bool, retryable: bool
) -> None:
    def act(table: TableHandle) -> None:
        ours = committer(table)
        if verb == "slow append":
            ours = committer(table, clock_ms=itertools.count(0, 5_000).__next__)
        match verb:
            case "append" | "slow append":
                ours.commit([message(table, a_file("new"))])
            case "overwrite":
                ours.overwrite([message(table, a_file("new"))])
            case "delete":
                ours.commit([message(table, a_file("new"), deleted=[a_file("a")])])

    appended = {"a", "b", "new"}
    result = {"append": appended, "slow append": appended, "overwrite": {"new"}, "delete": {"b", "new"}}[verb]
    for n in range(1, 100):
        store = FaultStore(LocalStore())
        table = make_table(store, f"{tmp_path}/{n}", manifest__merge_min_count="2")
        for name in "ab":
            committer(table, "before").commit([message(table, a_file(name))])
        store.arm(Fault(n, after=after, retryable=retryable))
        try:
            act(table)
            failed = False
        except StorageError:
            failed = True
        over = not store.failed
        store.arm(None)
        assert set(files(table)) == ({"a", "b"} if failed else result), n
        assert list_snapshot_ids(table) == ([1, 2] if failed else [1, 2, 3]), n
        assert manifest_names(table) >= reachable(table)
        if failed:
            act(table)
            assert set(files(table)) == result
        if over:
            assert n > 8
            return
    raise AssertionError


def race(store: Store, root: str, each: int) -> None:
    """Four threads commit to one table: no hole, nothing counted twice, no file too many."""
    table = make_table(store, root, PARTITIONED, commit__max_retries="1000", commit__max_retry_wait="20 ms")

    def work(worker: int) -> list[int]:
        ours = Committer(table, f"user-{worker}")
        ids: list[int] = []
        for n in range(each):
            ids += ours.commit([message(table, a_file(f"{worker}-{n}"), p=worker)]).snapshot_ids
        return ids

    with ThreadPoolExecutor(4) as pool:
        made = [i for ids in pool.map(work, range(4)) for i in ids]
    assert sorted(made) == list(range(1, 4 * each + 1)) == list_snapshot_ids(table)
    assert set(files(table)) == {f"{w}-{n}" for w in range(4) for n in range(each)}
    assert [s.total_record_count for s in list_snapshots(table)] == [10 * i for i in sorted(made)]
    assert manifest_names(table) == reachable(table)


def test_racing_threads_in_memory() -> None:
    race(*open_store(f"memory://{uuid.uuid4().hex}/t"), each=8)


def test_racing_threads_on_local_disk(root: str) -> None:
    race(LocalStore(), root, each=8)


@pytest.mark.s3
@pytest.mark.ci
def test_racing_threads_on_s3() -> None:
    with s3_server() as options:
        bucket = f"b-{uuid.uuid4().hex}"
        make_bucket(options, bucket)
        race(*open_store(f"s3://{bucket}/wh/t", options), each=4)


def test_a_store_that_promises_nothing_is_refused_before_anything_is_written(root: str) -> None:
    class Loose(Meddling):
        atomic_create = AtomicCreate.NONE

    make_table(LocalStore(), root, APPEND)
    loose = open_table(cast(Store, Loose(LocalStore(), [])), root)
    with pytest.raises(UnsupportedFeatureError, match="allow-unsafe-create"):
        committer(loose)
    allowed = open_table(loose.store, root, options={"commit.allow-unsafe-create": "true"})
    assert committer(allowed).commit([message(allowed, a_file("a"))]).snapshot_ids == (1,)
