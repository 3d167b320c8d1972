"""Tags that have lived long enough. The rule is Java's `TagTimeExpire`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_spark.errors import InvalidInputError, OperationInProgressError
from paimon_spark.maintenance.change import change_table
from paimon_spark.versioning.branches import create_branch
from paimon_spark.versioning.tags import expire_tags
from tests.harness.clock import StandingClock
from tests.harness.history import History
from tests.harness.real_tables import a_catalog, a_table
from tests.harness.table_files import missing_files

NOW = datetime(2024, 5, 6, 7, 8, 9)
HOUR_MS = 3_600_000


def wall_clock() -> datetime:
    return datetime.now(UTC).astimezone().replace(tzinfo=None)


def epoch_ms(moment: datetime) -> int:
    return int(moment.astimezone().timestamp() * 1000)


@pytest.fixture
def history() -> History:
    history = History()
    history.commits(3)
    return history


@pytest.mark.parametrize(
    ("created", "retained_s", "now", "stays"),
    [
        (NOW, 60.0, NOW + timedelta(seconds=60), True),
        (NOW, 60.0, NOW + timedelta(seconds=60, microseconds=1), False),
        (NOW, 1.5, NOW + timedelta(seconds=1.6), False),
        (NOW, 1e12, NOW + timedelta(days=9999), True),
        (NOW, 1e18, NOW + timedelta(days=9999), True),
        (None, None, NOW + timedelta(days=9999), True),
        (NOW + timedelta(days=1), 60.0, NOW, True),
    ],
)
def test_a_tag_lives_as_long_as_it_says(
    history: History, created: datetime | None, retained_s: float | None, now: datetime, stays: bool
) -> None:
    history.put_tag("v1", 1, created, retained_s)
    gone = expire_tags(history.on(), clock=lambda: now)
    assert (gone.tags, history.tags()) == (((), ["v1"]) if stays else (("v1",), []))


def test_older_tags_go_by_their_creation_or_their_file(history: History) -> None:
    now = wall_clock()
    history.put_tag("young", 1, now, 1e9)
    history.put_tag("old", 1, now - timedelta(hours=2), 1e9)
    history.put_tag("unknown", 2)
    assert expire_tags(history.on(), older_than_ms=epoch_ms(now) - HOUR_MS, dry_run=True).tags == ("old",)
    assert history.tags() == ["old", "unknown", "young"]
    assert expire_tags(history.on(), older_than_ms=epoch_ms(now) - HOUR_MS).tags == ("old",)
    assert expire_tags(history.on(), older_than_ms=epoch_ms(now) + HOUR_MS).tags == ("young", "unknown")


def test_guards_and_savepoints_stay_whatever_their_age(history: History) -> None:
    create_branch(history.on(), "fix", snapshot_id=1)
    history.put_tag("savepoint-2", 2)
    history.put_tag("savepoint-3", 3, NOW, 60.0)
    history.put_tag("branch-guard-gone", 1)
    gone = expire_tags(history.on(), older_than_ms=epoch_ms(wall_clock() + timedelta(days=1)), clock=lambda: NOW)
    assert set(gone.tags) == {"branch-guard-gone", "savepoint-3"}
    assert history.tags() == ["branch-guard-fix", "savepoint-2"]


def test_exactly_the_files_that_nothing_else_needs_go(tmp_path: Path, clock: StandingClock) -> None:
    t = a_table(pa.schema([("k", pa.int64())]), options={"tag.time-expire-enabled": "false"}, where=tmp_path)
    for i in range(3):
        t.write(pa.table({"k": [i]}), mode="overwrite")
        t.create_tag(f"v{i}", time_retained="1 ms" if i < 2 else "1 d")
    t.create_branch("fix", tag="v1")
    t.expire_snapshots(retain_max=1, retain_min=1)
    clock.advance(2)
    dry = t.expire_tags(dry_run=True)
    gone = t.expire_tags()
    assert (gone.tags, gone.paths, gone.data_files) == (("v0", "v1"), dry.paths, 1)
    assert missing_files(t.handle) == []
    assert t.branch("fix").scan().to_arrow()["k"].to_pylist() == [1]
    assert [x.name for x in t.tags(include_internal=True)] == ["branch-guard-fix", "v2"]


def test_tags_expire_after_a_commit(tmp_path: Path, clock: StandingClock) -> None:
    t = a_table(pa.schema([("k", pa.int64())]), where=tmp_path)
    t.write(pa.table({"k": [1]}))
    t.create_tag("v1", time_retained="1 ms")
    clock.advance(2)
    t.write(pa.table({"k": [2]}))
    assert t.tags(include_internal=True) == []


def test_when_nothing_is_over_nothing_is_locked(history: History) -> None:
    history.put_tag("v1", 1)
    handle = history.on()
    history.store.arm(None)
    expire_tags(handle)
    assert history.store.count(path_part="/intent") == 0


def test_a_busy_table_is_left_alone_when_asked(history: History) -> None:
    history.put_tag("v1", 1, NOW, 1.0)

    def meanwhile() -> None:
        with pytest.raises(OperationInProgressError):
            expire_tags(history.on(), wait_ms=0)

    change_table(history.on(), "test", meanwhile)
    assert history.tags() == ["v1"]


def test_a_moment_that_is_none_is_refused(tmp_path: Path) -> None:
    catalog = a_catalog(tmp_path)
    catalog.create_table("db.t", pa.schema([("k", pa.int64())]))
    with pytest.raises(InvalidInputError, match="older_than = 'yesterday' is no timestamp"):
        catalog.table("db.t").expire_tags(older_than="yesterday")
