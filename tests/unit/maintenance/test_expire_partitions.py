"""Partitions that go by the time their values name, or by that of their newest file."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Any

import pytest

from paimon_spark.engine.commit.committer import Committer
from paimon_spark.engine.tasks import CommitMessage, Increment
from paimon_spark.errors import InvalidInputError, InvalidOptionError
from paimon_spark.format import binary_row
from paimon_spark.format.metadata_files.snapshot import CommitKind
from paimon_spark.maintenance.partitions import ExpiredPartitions, expire_partitions
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.snapshots import latest_snapshot, list_snapshots
from tests.harness.commits import a_file, files
from tests.harness.writing import empty_table

DAYS = {"dt": "STRING", "k": "INT"}
AFTER_A_WEEK = {"bucket": "-1", "partition.expiration-time": "7 d"}


def at(text: str) -> Any:
    """A clock that shows a local time."""
    ms = int(time.mktime(datetime.fromisoformat(text).timetuple()) * 1000)
    return lambda: ms


def days(
    options: Mapping[str, str] | None = None, columns: Mapping[str, Any] | None = None, keys: Sequence[str] = ("dt",)
) -> TableHandle:
    return empty_table(columns or DAYS, partition_keys=keys, options={**AFTER_A_WEEK, **(options or {})})


def add(handle: TableHandle, name: str, *partition: Any, created: str | None = "2024-01-01") -> None:
    """One file in a partition, made at a local time."""
    types = [f.type for f in handle.schema.partition_type]
    wall = None if created is None else int((datetime.fromisoformat(created) - datetime(1970, 1, 1)).total_seconds())
    file = a_file(name, creation_time_ms=None if wall is None else wall * 1000)
    row = binary_row.encode(list(partition), types) if types else binary_row.EMPTY
    Committer(handle, "tests").commit([CommitMessage(row, 0, handle.options.bucket, Increment(new_files=(file,)))])


def test_a_partition_goes_when_the_time_it_names_is_over() -> None:
    handle = days()
    for day in ("2024-01-01", "2024-01-02", "2024-01-09", "2024-1-1 23:59:59"):
        add(handle, day, day)
    assert expire_partitions(handle, clock_ms=at("2024-01-08T00:00:00")) == ExpiredPartitions()
    found = expire_partitions(handle, clock_ms=at("2024-01-08T00:00:01"))
    assert found == ExpiredPartitions(("dt=2024-01-01",), (5,), data_files=1, rows=10, bytes=100)
    head = latest_snapshot(handle)
    assert head is not None and head.commit_kind is CommitKind.OVERWRITE
    assert set(files(handle)) == {"2024-01-02", "2024-01-09", "2024-1-1 23:59:59"}
    assert len(expire_partitions(handle, clock_ms=at("2025-01-01")).partitions) == 3
    assert files(handle) == {}


def test_what_names_no_time_stays_and_a_warning_says_so(caplog: pytest.LogCaptureFixture) -> None:
    handle = days({"partition.timestamp-formatter": "yyyyMMdd"})  # PartitionExpireTest.testIllegalPartition
    for day in ("20230101", "abcd", "20230103", None):
        add(handle, str(day), day)
    with caplog.at_level(logging.WARNING):
        found = expire_partitions(handle, clock_ms=at("2023-03-01"))
    assert found.partitions == ("dt=20230101", "dt=20230103")
    assert set(files(handle)) == {"abcd", "None"}
    (warning,) = [r.getMessage() for r in caplog.records]
    assert warning.startswith("2 partitions of table") and "such as dt=abcd; set partition.timestamp-pattern" in warning


def test_dates_of_java_are_numbers_of_days_that_name_no_time() -> None:
    handle = days(columns={"dt": "DATE", "k": "INT"})
    add(handle, "a", date(2020, 1, 1), created="2020-01-01")
    assert expire_partitions(handle, clock_ms=at("2024-01-01")) == ExpiredPartitions()


def test_several_columns_make_a_time_and_others_may_be_null() -> None:
    # PartitionExpireTest.testExpireWithNullOrEmptyPartition, testExpirePartitionValueContainingTheDelimiter
    handle = days(columns={"dt": "STRING", "hour": "STRING", "k": "INT"}, keys=("dt", "hour"))
    for day, hour in (("2023-01-01", "1,2"), ("2023-01-01", None), ("2023-01-03", ""), ("2023-01-25", "51")):
        add(handle, f"{day} {hour}", day, hour)
    found = expire_partitions(handle, clock_ms=at("2023-01-26"))
    assert set(files(handle)) == {"2023-01-25 51"}
    assert found.partitions == (
        "dt=2023-01-01/hour=1,2",
        "dt=2023-01-01/hour=__DEFAULT_PARTITION__",
        "dt=2023-01-03/hour=__DEFAULT_PARTITION__",
    )
    assert found.data_files == 3

    pattern = {"partition.timestamp-pattern": "$dt $hour:00:00"}
    handle = days(pattern, {"dt": "STRING", "hour": "INT", "k": "INT"}, ("dt", "hour"))
    for number in (1, 2, None):
        add(handle, str(number), "2023-01-01", number)
    assert expire_partitions(handle, clock_ms=at("2023-01-08T01:30:00")).partitions == ("dt=2023-01-01/hour=1",)
    assert set(files(handle)) == {"2", "None"}


def test_by_update_time_a_partition_lives_from_its_newest_file() -> None:
    handle = days({"partition.expiration-strategy": "update-time"}, columns={"dt": "DATE", "k": "INT"})
    old, kept, unknown = date(2020, 1, 1), date(2020, 1, 2), date(2020, 1, 3)
    add(handle, "a", old, created="2024-01-01T00:00:00")
    add(handle, "b", kept, created="2024-01-01T00:00:00")
    add(handle, "c", kept, created="2024-01-05T00:00:00")
    add(handle, "d", unknown, created="2024-01-01T00:00:00")
    add(handle, "e", unknown, created=None)
    found = expire_partitions(handle, clock_ms=at("2024-01-09T00:00:00"), dry_run=True)
    assert found.partitions == ("dt=18262",) and found.snapshot_ids == ()
    assert len(files(handle)) == 5
    assert expire_partitions(handle, clock_ms=at("2024-01-09T00:00:00")).partitions == ("dt=18262",)
    assert set(files(handle)) == {"b", "c", "d", "e"}


def test_a_partition_written_to_meanwhile_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    handle = days({"partition.expiration-strategy": "update-time"})
    add(handle, "a", "x", created="2024-01-01")
    add(handle, "b", "y", created="2024-01-01")
    overwrite = Committer.overwrite

    def late(self: Committer, *args: Any, **named: Any) -> Any:
        monkeypatch.setattr(Committer, "overwrite", overwrite)
        add(handle, "new", "x", created="2024-02-01")
        return overwrite(self, *args, **named)

    monkeypatch.setattr(Committer, "overwrite", late)
    expire_partitions(handle, clock_ms=at("2024-02-01"))
    assert set(files(handle)) == {"a", "new"}


def test_as_many_go_as_the_options_say_in_commits_of_a_size() -> None:
    handle = days({"partition.expiration-max-num": "3", "partition.expiration-batch-size": "2"})
    for day in ("2023-01-05", "2023-01-04", "2023-01-03", "2023-01-02", "2023-01-01"):
        add(handle, day, day)
    found = expire_partitions(handle, clock_ms=at("2024-01-01"))
    assert found.partitions == ("dt=2023-01-01", "dt=2023-01-02", "dt=2023-01-03")
    assert found.snapshot_ids == (6, 7)
    assert set(files(handle)) == {"2023-01-04", "2023-01-05"}
    assert [s.commit_kind for s in list_snapshots(handle)[-2:]] == [CommitKind.OVERWRITE] * 2


def test_what_cannot_expire_is_said() -> None:
    with pytest.raises(InvalidInputError, match=r"^table .* has no partition columns, so no partition expires"):
        expire_partitions(empty_table(DAYS, options={"bucket": "-1"}))
    with pytest.raises(InvalidInputError, match=r"never expire; set option partition.expiration-time, or give"):
        expire_partitions(empty_table(DAYS, partition_keys=["dt"], options={"bucket": "-1"}))
    with pytest.raises(InvalidOptionError, match=r"expiration-strategy = 'custom': expected one of values-time, upd"):
        expire_partitions(days({"partition.expiration-strategy": "custom"}))
    assert expire_partitions(days()) == ExpiredPartitions()
