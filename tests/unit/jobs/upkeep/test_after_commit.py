"""Maintenance after a job: in Java's order, seldom, and never at the job's cost."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pytest

from paimon_spark import load_catalog, load_table
from paimon_spark.api.table import Table
from paimon_spark.engine.commit.overwrite import NamedPartitions, WholeTable
from paimon_spark.errors import OperationInProgressError, StorageError
from paimon_spark.format.metadata_files.snapshot import CommitKind
from paimon_spark.jobs.row_level.delete import delete_partitions
from paimon_spark.jobs.upkeep import after_commit as module
from paimon_spark.jobs.upkeep.after_commit import after_commit
from paimon_spark.maintenance.change import change_table
from paimon_spark.maintenance.consumers import consumer_names, reset_consumer
from paimon_spark.maintenance.orphan_files import orphans
from paimon_spark.metadata.retry import Clock
from paimon_spark.metadata.snapshots import list_changelog_ids, list_snapshot_ids, list_snapshots
from paimon_spark.metadata.tags import find_tag, tag_names
from paimon_spark.versioning.tags import create_tag
from tests.harness.fault_store import FaultStore
from tests.harness.keywords import keywords
from tests.harness.real_tables import a_table
from tests.harness.sinks import batch
from tests.harness.table_files import missing_files

KEYED = "k INT NOT NULL, v STRING"
DAY = 86_400_000


@pytest.fixture(autouse=True)
def _nothing_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_NEXT_EXPIRY", {})
    monkeypatch.setattr(module, "_LAST_CHECK_MS", {})


def rows(*values: Any) -> pa.Table:
    return pa.table({"k": pa.array(list(range(len(values))), pa.int32()), "v": pa.array(values, pa.string())})


def clock(ms: int) -> Clock:
    return Clock(clock_ms=lambda: ms, random=lambda: 0.0)


def last(table: Table) -> tuple[int]:
    return (list_snapshot_ids(table.handle)[-1],)


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_old_snapshots_go_with_the_next_write(tmp_path: Path, mode: Literal["append", "overwrite"]) -> None:
    few: dict[str, Any] = {"snapshot.num-retained.min": "2", "snapshot.num-retained.max": "2"}
    table = a_table("k INT, v STRING", options=few, where=tmp_path)
    for n in range(5):
        table.write(rows(f"{n}"), mode=mode)
        assert list_snapshot_ids(table.handle) == [n + 1] if n == 0 else [n, n + 1]
    assert missing_files(table.handle) == [] and orphans(table.handle) == []
    assert table.scan().to_arrow().num_rows == (5 if mode == "append" else 1)


def test_deleting_rows_does_it_too(tmp_path: Path) -> None:
    table = a_table(
        "k INT, v STRING", options={"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1"}, where=tmp_path
    )
    table.write(rows("a", "b"))
    table.delete("v = 'a'")
    assert list_snapshot_ids(table.handle) == [2]
    assert missing_files(table.handle) == [] and orphans(table.handle) == []


def test_young_snapshots_stay_and_a_write_says_how_many_it_keeps(tmp_path: Path) -> None:
    table = a_table("k INT, v STRING", where=tmp_path)
    for n in range(12):
        table.write(rows(f"{n}"))
    assert len(table.snapshots()) == 12
    table.write(rows("x"), **keywords({"snapshot.num-retained.max": "11"}))
    assert [s.id for s in table.snapshots()] == list(range(3, 14))


def test_a_write_only_table_leaves_it_to_others(tmp_path: Path) -> None:
    few: dict[str, Any] = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1"}
    table = a_table("k INT, v STRING", options={"write-only": "true", **few}, where=tmp_path)
    for n in range(3):
        table.write(rows(f"{n}"))
    assert len(table.snapshots()) == 3
    assert table.expire_snapshots().snapshots == ("1", "2")


def test_a_commit_of_nothing_does_nothing(tmp_path: Path) -> None:
    table = a_table(
        "k INT, v STRING",
        options={"write-only": "true", "snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1"},
        where=tmp_path,
    )
    for n in range(3):
        table.write(rows(f"{n}"))
    on = replace(
        table.handle, options=replace(table.handle.options, raw={**table.handle.options.raw, "write-only": "false"})
    )
    after_commit(on, ())
    assert len(table.snapshots()) == 3
    after_commit(on, (3,))
    assert len(table.snapshots()) == 1


def test_everything_happens_once_in_javas_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = a_table("k INT, v STRING", where=tmp_path)
    order: list[str] = []
    for name in [n for n in vars(module._Maintenance) if not n.startswith("_")]:
        monkeypatch.setattr(module._Maintenance, name, lambda _, name=name: order.append(name))
    table.write(rows("a"))
    assert order == [
        "batch_tag", "tags", "expire_tags", "savepoint", "expire_partitions", "expire_consumers", "expire_snapshots",
        "expire_changelogs", "expire_backups",
    ]  # fmt: skip


def test_on_a_table_with_compaction_it_happens_once_after_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = load_catalog(warehouse=str(tmp_path))
    catalog.create_database("db")
    lookup = {"bucket": "1", "deletion-vectors.enabled": "true"}
    catalog.create_table("db.t", KEYED, primary_keys=["k"], options=lookup)
    calls: list[int] = []
    monkeypatch.setattr(module._Maintenance, "expire_snapshots", lambda self: calls.append(self.head_id))
    result = catalog.table("db.t").write(rows("a"))
    assert result.snapshot_ids == (1, 2) and calls == [2]


def test_tags_go_when_their_time_is_over(tmp_path: Path) -> None:
    table = a_table("k INT, v STRING", where=tmp_path)
    table.write(rows("a"))
    create_tag(table.handle, "short", time_retained="1 d")
    create_tag(table.handle, "long", time_retained="30 d")
    create_tag(table.handle, "ever")
    made = table.snapshots()[0].time_ms
    after_commit(table.handle, (1,), clock=clock(made + DAY // 2))
    assert tag_names(table.handle) == ["ever", "long", "short"]
    after_commit(table.handle, (1,), clock=clock(made + 2 * DAY))
    assert tag_names(table.handle) == ["ever", "long"]
    off = load_table(table.location, **{"tag.time-expire-enabled": "false"})
    after_commit(off.handle, (1,), clock=clock(made + 50 * DAY))
    assert tag_names(table.handle) == ["ever", "long"]


@pytest.mark.usefixtures("noon")
def test_automatic_tags_are_made_before_snapshots_go(tmp_path: Path) -> None:
    table = a_table(
        "k INT, v STRING",
        options={
            "snapshot.num-retained.min": "1",
            "snapshot.num-retained.max": "1",
            "tag.automatic-creation": "process-time",
        },
        where=tmp_path,
    )
    table.write(rows("a"))
    table.write(rows("b"))
    (name,) = tag_names(table.handle)
    assert table.at(f"tag-name.{name}").scan().to_arrow().num_rows == 1
    assert list_snapshot_ids(table.handle) == [2]


BATCH = {"tag.automatic-creation": "batch", "tag.batch.customized-name": "newest"}


def tagged(table: Table) -> int | None:
    """The snapshot of the tag of batches."""
    found = find_tag(load_table(table.location).handle, "newest")
    return None if found is None else found.snapshot.id


@pytest.mark.parametrize("write_only", ["false", "true"])
def test_what_wrote_rows_moves_the_tag_of_batches(tmp_path: Path, write_only: str) -> None:
    table = a_table("k INT, v STRING", by="v", options={"write-only": write_only, **BATCH}, where=tmp_path)
    for change in (
        lambda: table.write(rows("a", "b")),
        lambda: table.write(rows("c"), mode="overwrite", **{"overwrite.partition": "v=c"}),
        lambda: table.write(rows("a", "b", "c"), mode="overwrite"),
        lambda: table.delete("k = 0"),
        lambda: batch(Path(table.location.removeprefix("file://")), 0, rows("a")),
        lambda: batch(Path(table.location.removeprefix("file://")), 1, rows("a")),
    ):
        change()
        assert tagged(table) == last(table)[0]
    forget = tmp_path / "db.db" / "t" / "tag" / "tag-newest"
    forget.unlink()
    batch(Path(table.location.removeprefix("file://")), 1, rows("a"))
    assert tagged(table) == last(table)[0], "a batch that is asked for again makes the tag that it may have missed"


def test_what_wrote_no_rows_leaves_the_tag_of_batches(tmp_path: Path) -> None:
    table = a_table("k INT, v STRING", by="v", options={"compaction.min.file-num": "2", **BATCH}, where=tmp_path)
    for _ in range(2):
        table.write(rows("a", "b", "c"), **keywords({"write-only": True}))
    newest = last(table)[0]
    path = Path(table.location.removeprefix("file://"))
    for change in (
        lambda: table.compact(full=True),
        lambda: table.drop_partitions({"v": "a"}),
        lambda: delete_partitions(load_table(table.location), NamedPartitions(({"v": "b"},)), "DELETE"),
        lambda: table.write(rows()[:0], mode="overwrite"),
        lambda: batch(path, 0, rows("a")[:0], complete=True),
        lambda: delete_partitions(load_table(table.location), WholeTable(), "TRUNCATE"),
    ):
        before = last(table)
        change()
        assert last(table) != before
        assert tagged(table) == newest
    assert load_table(table.location).scan().to_arrow().num_rows == 0


@pytest.mark.usefixtures("noon")
def test_the_tag_of_a_stream_is_that_of_its_day_with_its_time_to_live(tmp_path: Path) -> None:
    table = a_table(
        "k INT, v STRING",
        options={"tag.automatic-creation": "batch", "tag.default-time-retained": "90 min", "tag.num-retained-max": "1"},
        where=tmp_path,
    )
    for number in range(3):
        batch(Path(table.location.removeprefix("file://")), number, rows(f"{number}"))
        create_tag(table.handle, f"mine-{number}")
    batch(Path(table.location.removeprefix("file://")), 3, rows("3"))
    (tag,) = load_table(table.location).tags()
    day = datetime.fromtimestamp(table.snapshots()[-1].time_ms / 1000)  # noqa: DTZ006 - days are of the machine
    assert tag.name == f"batch-write-{day:%Y-%m-%d}"
    assert (tag.snapshot.id, tag.time_retained_s) == (4, 5400.0)


@pytest.mark.usefixtures("noon")
def test_savepoints_are_made_at_their_time(tmp_path: Path) -> None:
    table = a_table(
        "k INT, v STRING",
        options={"savepoint.create-time": "00:00", "savepoint.create-interval": "1 d"},
        where=tmp_path,
    )
    table.write(rows("a"))
    table.write(rows("b"))
    assert len(table.savepoints()) == 1


def test_partitions_expire_at_most_once_an_interval(tmp_path: Path) -> None:
    age = {"partition.expiration-time": "7 d", "partition.timestamp-formatter": "yyyyMMdd"}
    table = a_table("k INT, v STRING", by="v", options={"write-only": "true", **age}, where=tmp_path)
    table.write(rows("20200101", "nothing"))
    on = load_table(table.location, **{"write-only": "false"})
    start = 1_700_000_000_000

    def left() -> set[str]:
        return set(table.scan().to_arrow().column("v").to_pylist())

    after_commit(on.handle, last(table), clock=clock(start))
    assert left() == {"20200101", "nothing"}
    after_commit(on.handle, last(table), clock=clock(start + 3_600_000))
    assert left() == {"20200101", "nothing"}
    after_commit(on.handle, last(table), clock=clock(start + 3_600_001))
    assert left() == {"nothing"}
    assert table.snapshots()[-1].commit_kind is CommitKind.OVERWRITE
    table.write(rows("20200102"))
    after_commit(on.handle, last(table), clock=clock(start + 3_700_000))
    assert left() == {"20200102", "nothing"}
    at_end = load_table(table.location, **{"write-only": "false", "end-input.check-partition-expire": "true"})
    after_commit(at_end.handle, last(table), batch=False, clock=clock(start + 3_700_000))
    assert left() == {"20200102", "nothing"}
    after_commit(at_end.handle, last(table), clock=clock(start + 3_700_000))
    assert left() == {"nothing"}
    table.write(rows("20200103"))
    always = load_table(table.location, **{"write-only": "false", "partition.expiration-check-interval": "0"})
    after_commit(always.handle, last(table), clock=clock(start + 3_700_000))
    assert left() == {"nothing"}


def test_consumers_without_progress_do_not_hold_snapshots_for_ever(tmp_path: Path) -> None:
    few: dict[str, Any] = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1"}
    table = a_table("k INT, v STRING", options={"consumer.expiration-time": "1 d", **few}, where=tmp_path)
    table.write(rows("a"))
    reset_consumer(table.handle, "gone", 1)
    table.write(rows("b"))
    assert len(table.snapshots()) == 2
    path = f"{table.handle.layout.consumer_dir}/consumer-gone"
    os.utime(path, (1, 1))
    table.write(rows("c"))
    assert consumer_names(table.handle) == [] and len(table.snapshots()) == 1


def test_changelogs_are_kept_apart_and_then_go(tmp_path: Path) -> None:
    few: dict[str, Any] = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1"}
    table = a_table(
        "k INT, v STRING",
        options={"changelog.num-retained.min": "1", "changelog.num-retained.max": "3", **few},
        where=tmp_path,
    )
    for n in range(6):
        table.write(rows(f"{n}"))
    assert list_snapshot_ids(table.handle) == [6]
    assert list_changelog_ids(table.handle) == [4, 5]
    assert missing_files(table.handle) == [] and orphans(table.handle) == []


def test_another_process_at_it_is_let_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    few: dict[str, Any] = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1"}
    table = a_table("k INT, v STRING", options=few, where=tmp_path)
    table.write(rows("a"))

    def meanwhile() -> None:
        table.write(rows("b"))
        with pytest.raises(OperationInProgressError):
            change_table(table.handle, "test", lambda: None, wait_ms=0)

    with caplog.at_level(logging.INFO):
        change_table(table.handle, "test", meanwhile)
    assert [m.partition(",")[0] for m in caplog.messages] == ["table db.t: snapshot 2"], "only the commit is told"
    assert len(table.snapshots()) == 2
    table.write(rows("c"))
    assert len(table.snapshots()) == 1


def test_failures_are_told_and_the_job_is_not_touched(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    few: dict[str, Any] = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1"}
    table = a_table("k INT, v STRING", options=few, where=tmp_path)
    table.write(rows("a"))
    directory = Path(table.handle.layout.consumer_dir)
    directory.mkdir()
    (directory / "consumer-x").write_text("{")
    assert table.write(rows("b")).snapshot_id == 2
    (message,) = caplog.messages
    assert message.startswith("snapshot 2 of table db.t is in, but this failed after it and is tried again after the")
    assert (
        "expiring snapshots: see expire_snapshots()" in message and "consumer-x is not a readable consumer" in message
    )


def test_errors_that_nobody_thought_of_are_told_with_their_trace(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = a_table("k INT, v STRING", where=tmp_path)
    monkeypatch.setattr(module._Maintenance, "tags", lambda _: 1 / 0)
    monkeypatch.setattr(module._Maintenance, "expire_tags", _raises(StorageError("the store is gone")))
    assert table.write(rows("b")).snapshot_id == 1
    assert [r.exc_info is not None for r in caplog.records] == [True, False]
    assert caplog.messages[0] == "failed after snapshot 1 of table db.t: making automatic tags"
    assert caplog.messages[1].endswith("expiring tags: see expire_tags(): the store is gone")


def _raises(error: Exception) -> Any:
    def run(_: Any) -> Iterator[None]:
        raise error

    return run


def test_where_nothing_is_due_it_costs_a_few_small_reads(tmp_path: Path) -> None:
    table = a_table("k INT, v STRING", where=tmp_path)
    for n in range(12):
        table.write(rows(f"{n}"))
    store = FaultStore(table.handle.store)
    watched = replace(table.handle, store=store)

    def calls() -> list[tuple[str, str]]:
        store.arm(None)
        after_commit(watched, last(table))
        return [(c.verb, c.path.removeprefix(f"{table.handle.layout.root}/")) for c in store.calls]

    assert calls() == [("list", "tag"), ("read", "snapshot/EARLIEST"), ("read", "snapshot/snapshot-2")]
    create_tag(table.handle, "v1", time_retained="1 d")
    assert ("read_many", "tag/tag-v1") in calls()
    assert [path for _, path in calls()] == ["tag", "snapshot/EARLIEST", "snapshot/snapshot-2"]
    assert json.loads(Path(table.handle.layout.tag_path("v1")).read_text())["id"] == 12
    assert len(list_snapshots(table.handle)) == 12
