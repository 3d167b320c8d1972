"""Savepoints: compacted fully, tagged, kept, deleted; by hand and once in so many days."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.engine.compaction.plan import plan_compaction
from paimon_spark.engine.compaction.task import CompactResult
from paimon_spark.errors import (
    InvalidInputError,
    SavepointNotFoundError,
    SnapshotNotFoundError,
    TagAlreadyExistsError,
)
from paimon_spark.format.metadata_files.manifest import files_of
from paimon_spark.format.metadata_files.snapshot import CommitKind, Snapshot
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.live_files import live_entries
from paimon_spark.metadata.manifests import data_manifests
from paimon_spark.metadata.snapshots import latest_snapshot
from paimon_spark.options.retention import SavepointOptions
from paimon_spark.versioning.savepoints import create_savepoint, delete_savepoint, is_due, run_periodic_savepoint
from paimon_spark.versioning.tags import create_tag
from tests.harness.history import History
from tests.harness.real_tables import a_table, put, read
from tests.harness.table_files import missing_files

KEYED = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.string())])


class TestCreate:
    def test_the_compacted_snapshot_is_tagged(self, tmp_path: Path) -> None:
        t = a_table(KEYED, keys="k", options={"bucket": "1"}, where=tmp_path)
        put(t, (1, "x"), (2, "x"))
        put(t, (2, "y"), (3, "y"))
        made = t.create_savepoint()
        assert made.snapshot.commit_kind is CommitKind.COMPACT
        assert made.id == made.snapshot.id == 3
        assert [(x.name, x.snapshot.id, x.is_savepoint, x.time_retained_s) for x in t.tags(include_internal=True)] == [
            ("savepoint-3", 3, True, None)
        ]
        assert len(files_of(live_entries(t.handle, data_manifests(t.handle, made.snapshot)))) == 1
        assert plan_compaction(t.handle, made.snapshot, full=True) == []
        put(t, (9, "x"))
        assert dict(read(t, version="savepoint.3")) == {1: "x", 2: "y", 3: "y"}

    def test_it_lives_on_whatever_tags_live_and_expiry_takes(self, tmp_path: Path) -> None:
        t = a_table(KEYED, keys="k", options={"bucket": "1", "tag.default-time-retained": "1 ms"}, where=tmp_path)
        put(t, (1, "x"))
        made = t.create_savepoint()
        for i in range(3):
            put(t, (1, str(i)))
        t.compact(full=True)
        t.expire_snapshots(retain_max=1, retain_min=1)
        t.expire_tags(older_than="2999-01-01")
        assert [s.id for s in t.savepoints()] == [made.id]
        assert dict(read(t, version=f"savepoint.{made.id}")) == {1: "x"}
        assert dict(read(t)) == {1: "2"}

    def test_with_nothing_written_since_it_is_the_same(self, tmp_path: Path) -> None:
        t = a_table(KEYED, keys="k", options={"bucket": "1"}, where=tmp_path)
        put(t, (1, "x"))
        put(t, (2, "x"))
        first = t.create_savepoint()
        t.expire_snapshots(retain_max=1, retain_min=1)
        assert t.create_savepoint() == first
        t.compact_manifest()
        assert t.create_savepoint() == first
        assert len(t.tags(include_internal=True)) == 1
        put(t, (3, "x"))
        second = t.create_savepoint()
        assert [s.id for s in t.savepoints()] == [first.id, second.id]

    def test_a_table_that_is_compact_gets_no_snapshot(self, tmp_path: Path) -> None:
        t = a_table(KEYED, keys="k", options={"bucket": "1"}, where=tmp_path)
        put(t, (1, "x"))
        put(t, (2, "x"))
        t.compact(full=True)
        before = [s.id for s in t.snapshots()]
        assert t.create_savepoint().id == before[-1]
        assert [s.id for s in t.snapshots()] == before

    @pytest.mark.parametrize("options", [{"write-only": "true"}, {"deletion-vectors.enabled": "true"}])
    def test_of_other_tables_with_keys(self, tmp_path: Path, options: dict[str, Any]) -> None:
        t = a_table(KEYED, keys="k", options={"bucket": "1", **options}, where=tmp_path)
        for i in range(3):
            put(t, (1, str(i)))
        made = t.create_savepoint()
        assert dict(read(t, version=f"savepoint.{made.id}")) == {1: "2"}

    def test_of_tables_without_keys(self, tmp_path: Path) -> None:
        t = a_table(KEYED, where=tmp_path)
        for i in range(3):
            put(t, (i, "x"))
        made = t.create_savepoint()
        assert dict(read(t, version=f"savepoint.{made.id}")) == dict.fromkeys(range(3), "x")
        assert len(files_of(live_entries(t.handle, data_manifests(t.handle, made.snapshot)))) == 1

    def test_on_a_branch(self, tmp_path: Path) -> None:
        t = a_table(KEYED, keys="k", options={"bucket": "1"}, where=tmp_path)
        put(t, (1, "x"))
        t.create_branch("fix", snapshot_id=1)
        put(t.branch("fix"), (2, "x"))
        put(t.branch("fix"), (3, "x"))
        made = t.branch("fix").create_savepoint()
        assert t.savepoints() == []
        assert dict(read(t, version=f"fix.savepoint.{made.id}")) == {1: "x", 2: "x", 3: "x"}
        assert dict(read(t)) == {1: "x"}

    def test_a_write_that_comes_between_is_not_in_it(self) -> None:
        history = History()
        history.commits(2)

        def compact(handle: TableHandle) -> CompactResult:
            compacted = history.commit(overwrite=True)
            history.commit()
            return CompactResult(compacted)

        made = create_savepoint(history.on(), compact=compact)
        assert made.id == 3
        assert history.ids() == [1, 2, 3, 4]
        assert history.tags() == ["savepoint-3"]

    def test_when_the_compacted_snapshot_goes_it_is_tried_again(self) -> None:
        history = History()
        history.commits(2)
        tries = []

        def compact(handle: TableHandle) -> CompactResult:
            made = history.commit()
            tries.append(made.id)
            if len(tries) == 1:
                history.commit()
                history.expire(made.id)
            return CompactResult(made)

        assert create_savepoint(history.on(), compact=compact).id == 5
        assert tries == [3, 5]

    def test_an_empty_table_has_nothing_to_save(self) -> None:
        with pytest.raises(
            SnapshotNotFoundError, match=r"table db\.t has no snapshot yet, so there is nothing to save"
        ):
            create_savepoint(History().on())

    def test_a_name_that_another_engine_took(self) -> None:
        history = History()
        history.commits(2)
        history.put_tag("savepoint-2", 1)
        head = latest_snapshot(history.on())
        with pytest.raises(
            TagAlreadyExistsError,
            match=r"would be tag 'savepoint-2', but another engine gave that name to snapshot 1; delete",
        ):
            create_savepoint(history.on(), compact=lambda _: CompactResult(head))
        history.commit()
        head = latest_snapshot(history.on())
        assert create_savepoint(history.on(), compact=lambda _: CompactResult(head)).id == 3


class TestDelete:
    def test_the_files_that_nothing_else_needs_go(self, tmp_path: Path) -> None:
        t = a_table(KEYED, keys="k", options={"bucket": "1"}, where=tmp_path)
        put(t, (1, "x"))
        put(t, (2, "x"))
        first = t.create_savepoint()
        put(t, (1, "y"))
        t.compact(full=True)
        t.expire_snapshots(retain_max=1, retain_min=1)
        dry = t.delete_savepoint(first.id, dry_run=True)
        assert [s.id for s in t.savepoints()] == [first.id]
        gone = t.delete_savepoint(first.id)
        assert (gone.paths, gone.tags, gone.data_files) == (dry.paths, (f"savepoint-{first.id}",), 1)
        assert t.savepoints() == []
        assert missing_files(t.handle) == []
        assert dict(read(t)) == {1: "y", 2: "x"}

    def test_one_that_is_not_there(self) -> None:
        history = History()
        history.commits(2)
        history.put_tag("savepoint-2", 2)
        with pytest.raises(SavepointNotFoundError, match=r"table db\.t has no savepoint 3; its savepoints are 2"):
            delete_savepoint(history.on(), 3)
        with pytest.raises(InvalidInputError, match=r"'2' is not a savepoint of table db\.t: give its id"):
            delete_savepoint(history.on(), "2")  # type: ignore[arg-type]
        assert history.tags() == ["savepoint-2"]


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


class TestPeriodic:
    @pytest.mark.parametrize(
        ("days", "last", "commit", "due"),
        [
            (1, None, "2024-01-01T02:29:59", False),
            (1, None, "2024-01-01T02:30:00", True),
            (1, "2024-01-01T02:30:00", "2024-01-01T23:59:00", False),
            (1, "2024-01-01T02:30:00", "2024-01-02T02:29:59", False),
            (1, "2024-01-01T02:30:00", "2024-01-02T02:30:00", True),
            (1, "2024-01-01T23:00:00", "2024-01-02T02:30:00", True),
            # made by hand in the early morning, so it is of the day before
            (1, "2024-01-02T01:00:00", "2024-01-02T02:30:00", True),
            (3, "2024-01-01T02:30:00", "2024-01-04T02:29:00", False),
            (3, "2024-01-01T02:30:00", "2024-01-04T02:30:00", True),
            (3, "2024-01-01T02:30:00", "2024-03-04T00:00:00", True),
        ],
    )
    def test_the_first_commit_after_the_create_time_makes_one(
        self, days: int, last: str | None, commit: str, due: bool
    ) -> None:
        options = SavepointOptions(9_000_000, days, "UTC")
        assert is_due(options, ms(commit), None if last is None else ms(last)) is due

    def test_the_zone_says_what_time_it_is(self) -> None:
        shanghai = SavepointOptions(9_000_000, 1, "Asia/Shanghai")
        assert not is_due(shanghai, ms("2024-01-01T18:29:00"), None)
        assert is_due(shanghai, ms("2024-01-01T18:30:00"), None)

    def test_one_an_interval(self) -> None:
        history = History(savepoint__create_time="02:30", sink__process_time_zone="UTC")

        def compacted(snapshot: Snapshot) -> Callable[[TableHandle], CompactResult]:
            return lambda _: CompactResult(snapshot)

        made = []
        for at in ("01-01T02:00", "01-01T03:00", "01-01T20:00", "01-02T02:00", "01-02T02:45", "01-05T09:00"):
            snapshot = history.commit(at_ms=ms(f"2024-{at}:00"))
            saved = run_periodic_savepoint(history.on(), snapshot, compact=compacted(snapshot))
            made.append(None if saved is None else saved.id)
        assert made == [None, 2, None, None, 5, 6]
        assert history.tags() == ["savepoint-2", "savepoint-5", "savepoint-6"]

    def test_tags_of_others_that_are_only_named_so_do_not_count(self) -> None:
        history = History(savepoint__create_interval="1 d", sink__process_time_zone="UTC")
        history.commit(at_ms=ms("2024-01-01T10:00:00"))
        history.put_tag("savepoint-77", 1)
        snapshot = history.commit(at_ms=ms("2024-01-01T11:00:00"))
        saved = run_periodic_savepoint(history.on(), snapshot, compact=lambda _: CompactResult(snapshot))
        assert saved is not None and saved.id == 2

    def test_costs_nothing_unless_asked_for_and_little_when_not_due(self) -> None:
        calls: list[list[Any]] = []
        for options in ({}, {"savepoint__create_interval": "1 d"}):
            history = History(**options)
            snapshot = history.commit()
            create_tag(history.on(), "v1")
            history.put_tag("savepoint-1", 1)
            handle = history.on()
            history.store.arm(None)
            assert run_periodic_savepoint(handle, snapshot) is None
            calls.append([c.verb for c in history.store.calls])
        assert calls == [[], ["list", "read"]]

    def test_after_a_write(self, tmp_path: Path) -> None:
        t = a_table(KEYED, keys="k", options={"bucket": "1", "savepoint.create-interval": "1 d"}, where=tmp_path)
        put(t, (1, "x"))
        put(t, (2, "x"))
        assert len(t.savepoints()) == 1
        assert dict(read(t, version=f"savepoint.{t.savepoints()[0].id}")) == {1: "x"}

    def test_writers_that_leave_such_things_to_others_make_none(self, tmp_path: Path) -> None:
        t = a_table(
            KEYED,
            keys="k",
            options={"bucket": "1", "savepoint.create-interval": "1 d", "write-only": "true"},
            where=tmp_path,
        )
        put(t, (1, "x"))
        assert t.savepoints() == []
