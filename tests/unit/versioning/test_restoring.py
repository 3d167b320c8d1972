"""An earlier state as the newest: the same rows again, nothing of the history gone, whoever commits beside it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_spark.api.table import Table
from paimon_spark.errors import (
    CommitOutcomeUnknownError,
    CommitRetriesExhaustedError,
    InvalidInputError,
    SnapshotExpiredError,
    SnapshotNotFoundError,
    StorageError,
    VersionNotFoundError,
)
from paimon_spark.format.metadata_files.data_file import DataFileMeta
from paimon_spark.format.metadata_files.snapshot import CommitKind
from paimon_spark.metadata.tags import get_tag
from paimon_spark.versioning.branches import create_branch
from paimon_spark.versioning.rollback import Restored, rollback_to_as_latest
from tests.harness.fault_store import MUTATING, Fault
from tests.harness.history import History
from tests.harness.real_tables import a_table, put, read
from tests.harness.search import examples
from tests.harness.table_files import missing_files

KEYED = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.int64())])


def level_files(t: Table) -> list[DataFileMeta]:
    return [file for split in t.scan().plan().splits for file in split.files]


class TestState:
    def test_a_file_that_goes_back_a_level_can_be_moved_up_again(self, tmp_path: Path) -> None:
        t = a_table(KEYED, keys="k", options={"bucket": "1"}, where=tmp_path)
        put(t, (1, 0))
        assert [f.level for f in level_files(t)] == [0]
        t.compact(full=True)
        [moved] = level_files(t)
        assert moved.level > 0 and read(t, version=2) == [(1, 0)]
        t.rollback_to_as_latest(1)
        assert [(f.level, f.file_name) for f in level_files(t)] == [(0, moved.file_name)]
        t.compact(full=True)
        assert [(f.level, f.file_name) for f in level_files(t)] == [(moved.level, moved.file_name)]
        put(t, (2, 0))
        assert [read(t, version=i) for i in (3, 4, 5)] == [[(1, 0)], [(1, 0)], [(1, 0), (2, 0)]]

    def test_the_rows_are_those_of_the_version_and_history_stays(self, tmp_path: Path) -> None:
        t = a_table(KEYED, keys="k", options={"bucket": "1"}, where=tmp_path)
        for i in range(4):
            put(t, (1, i), (i, i))
        before = {s.id: read(t, version=s.id) for s in t.snapshots()}
        head = t.snapshots()[-1]
        done = t.rollback_to_as_latest(2)
        made = t.snapshots()[-1]
        assert (done.snapshot, done.target.id, done.previous) == (made, 2, head)
        assert read(t) == before[2]
        assert {s.id: read(t, version=s.id) for s in t.snapshots()[:-1]} == before
        assert made.commit_kind is CommitKind.OVERWRITE
        assert (made.commit_identifier, made.total_record_count) == (2**63 - 1, done.target.total_record_count)
        assert made.commit_user.startswith("rollback-to-as-latest-")
        put(t, (7, 7))
        assert read(t) == sorted([*before[2], (7, 7)])

    @pytest.mark.parametrize(
        "options",
        [
            {},
            {"deletion-vectors.enabled": "true"},
            {"changelog-producer": "lookup"},
            {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"},
        ],
    )
    def test_compactions_between_do_not_matter(self, tmp_path: Path, options: dict[str, Any]) -> None:
        t = a_table(KEYED, keys="k", options={"bucket": "1", **options}, where=tmp_path)
        seen = {}
        for i in range(5):
            put(t, (1, i), (2, i), (i, i))
            if i in (1, 3):
                t.compact(full=True)
            seen[t.snapshots()[-1].id] = read(t)
        for version in sorted(seen):
            t.rollback_to_as_latest(version)
            assert read(t) == seen[version]
        t.compact(full=True)
        assert read(t) == seen[max(seen)]
        assert missing_files(t.handle) == []

    def test_deleted_rows_of_tables_without_keys_come_back(self, tmp_path: Path) -> None:
        t = a_table(KEYED, options={"deletion-vectors.enabled": "true", "bucket": "-1"}, where=tmp_path)
        put(t, (1, 0), (2, 0), (3, 0))
        t.delete("k = 2")
        assert read(t) == [(1, 0), (3, 0)]
        t.rollback_to_as_latest(1)
        assert read(t) == [(1, 0), (2, 0), (3, 0)]
        t.rollback_to_as_latest(2)
        assert read(t) == [(1, 0), (3, 0)]

    def test_row_ids_are_never_given_twice(self, tmp_path: Path) -> None:
        t = a_table(KEYED, options={"row-tracking.enabled": "true"}, where=tmp_path)
        put(t, (1, 0), (2, 0))
        put(t, (3, 0))
        assert t.rollback_to_as_latest(1).snapshot.next_row_id == 3
        put(t, (4, 0))
        ids = t.scan(columns=["k", "_ROW_ID"]).to_arrow().to_pydict()
        assert sorted(zip(ids["k"], ids["_ROW_ID"], strict=True)) == [(1, 0), (2, 1), (4, 3)]

    def test_an_overwritten_table_comes_back_and_goes_again(self, tmp_path: Path) -> None:
        t = a_table(KEYED, where=tmp_path)
        put(t, (1, 0))
        put(t, (2, 0), mode="overwrite")
        for _ in range(3):  # the same files are added and deleted again and again
            t.rollback_to_as_latest(1)
            assert read(t) == [(1, 0)]
            t.rollback_to_as_latest(2)
            assert read(t) == [(2, 0)]
        t.compact_manifest()
        assert read(t) == [(2, 0)]
        t.expire_snapshots(retain_max=1, retain_min=1)
        assert read(t) == [(2, 0)]
        assert missing_files(t.handle) == []

    @settings(max_examples=examples(15), deadline=None)
    @given(st.lists(st.tuples(st.sampled_from(["write", "overwrite", "back"]), st.integers(0, 9)), max_size=12))
    def test_any_history(self, tmp_path_factory: pytest.TempPathFactory, done: list[tuple[str, int]]) -> None:
        t = a_table(KEYED, where=tmp_path_factory.mktemp("t"))
        put(t, (0, 0))
        expected = {1: [(0, 0)]}
        for verb, n in done:
            ids = sorted(expected)
            if verb == "back":
                target = ids[n % len(ids)]
                result = t.rollback_to_as_latest(target)
                expected[result.snapshot.id] = expected[target]
            else:
                put(t, (n, 0), mode="overwrite" if verb == "overwrite" else "append")
                old = [] if verb == "overwrite" else expected[ids[-1]]
                expected[ids[-1] + 1] = sorted([*old, (n, 0)])
        assert {s.id: read(t, version=s.id) for s in t.snapshots()} == expected
        assert missing_files(t.handle) == []


class TestTarget:
    def test_a_tag_keeps_the_files_as_in_paimon(self) -> None:
        history = History()
        history.commits(3)
        history.put_tag("v1", 1)
        by_id = rollback_to_as_latest(history.on(), 2)
        assert by_id.tag is not None and by_id.tag.startswith("rollback-to-as-latest-2-")
        assert get_tag(history.on(), by_id.tag).snapshot.id == 2
        by_tag = rollback_to_as_latest(history.on(), "v1")
        assert by_tag.tag is None
        assert history.tags() == sorted([by_id.tag, "v1"])
        assert history.live() == {"f1"}

    def test_an_expired_snapshot_is_taken_from_its_tag(self) -> None:
        history = History()
        history.commits(3)
        history.put_tag("v1", 1)
        history.expire(1)
        assert rollback_to_as_latest(history.on(), 1).snapshot.id == 4
        assert history.live() == {"f1"}

    def test_a_version_of_another_history_will_do(self) -> None:
        history = History()
        snapshots = history.commits(3)
        history.put_tag("later", replace(snapshots[1], id=9))
        assert rollback_to_as_latest(history.on(), "later").snapshot.id == 4
        assert history.live() == {"f1", "f2"}

    def test_the_head_is_left_as_it_is(self) -> None:
        history = History()
        head = history.commits(2)[1]
        assert rollback_to_as_latest(history.on(), 2) == Restored(head, head, head)
        assert (history.ids(), history.tags()) == ([1, 2], [])

    @pytest.mark.parametrize(
        ("version", "error", "message"),
        [
            (9, SnapshotNotFoundError, "has no snapshot 9"),
            ("x", VersionNotFoundError, "has no version 'x'"),
            ("fix", InvalidInputError, "is on branch 'fix' of table db.t"),
            (1, SnapshotExpiredError, "snapshot 1 of table db.t has expired"),
            (2.5, InvalidInputError, "2.5 is not a version of table db.t"),
        ],
    )
    def test_what_is_refused(self, version: Any, error: type[Exception], message: str) -> None:
        history = History()
        history.commits(3)
        create_branch(history.on(), "fix", snapshot_id=2)
        history.commit("fix")
        history.expire(1)
        with pytest.raises(error) as caught:
            rollback_to_as_latest(history.on(), version)
        assert message in str(caught.value)
        assert (history.ids(), history.tags()) == ([2, 3], ["branch-guard-fix"])

    def test_an_empty_table(self) -> None:
        with pytest.raises(SnapshotNotFoundError, match=r"table db\.t has no snapshot yet"):
            rollback_to_as_latest(History().on(), "main")


class TestOthers:
    def test_a_commit_that_is_faster_is_replaced_too(self, monkeypatch: pytest.MonkeyPatch) -> None:
        history = History()
        history.commits(3)
        handle = history.on()
        create = type(history.store).create_exclusive
        raced: list[int] = []

        def racing(store: Any, path: str, data: bytes) -> None:
            if path.endswith("/snapshot-4") and not raced:
                raced.append(4)
                history.commit()
            create(store, path, data)

        monkeypatch.setattr(type(history.store), "create_exclusive", racing)
        done = rollback_to_as_latest(handle, 1)
        assert (raced, done.snapshot.id) == ([4], 5)
        assert history.live() == {"f1"}
        assert history.ids() == [1, 2, 3, 4, 5]

    def test_what_did_not_happen_leaves_no_tag_and_no_file(self) -> None:
        history = History(commit__max_retries="0")
        history.commits(3)
        before = history.manifests()
        handle = history.on()
        create = type(history.store).create_exclusive

        with pytest.MonkeyPatch.context() as patch:

            def racing(store: Any, path: str, data: bytes) -> None:
                if path.endswith("/snapshot-4"):
                    patch.undo()
                    history.commit()
                create(store, path, data)

            patch.setattr(type(history.store), "create_exclusive", racing)
            with pytest.raises(CommitRetriesExhaustedError):
                rollback_to_as_latest(handle, 1)
        assert history.tags() == []
        assert history.manifests() - before == history.manifests_of(history.head()) - before

    @pytest.mark.ci
    def test_broken_off_at_any_call_the_head_is_the_old_or_the_new(self) -> None:
        for at in range(1, 60):
            history = History()
            history.commits(3)
            history.store.arm(Fault(at, forever=True, verbs=MUTATING))
            with suppress(StorageError, CommitOutcomeUnknownError):
                rollback_to_as_latest(history.on(), 1)
            done = not history.store.failed
            history.store.arm(None)
            assert history.live() in ({"f1"}, {"f1", "f2", "f3"})
            assert history.ids() in ([1, 2, 3], [1, 2, 3, 4])
            assert (history.live() == {"f1"}) is (4 in history.ids())
            if 4 in history.ids():
                assert [n for n in history.tags() if n.startswith("rollback-to-as-latest-1-")]
            if done:
                assert at > 5
                return
        raise AssertionError("it never came to an end")
