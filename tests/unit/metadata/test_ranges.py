"""Ends of incremental reads, by versions, times and automatic tags."""

from __future__ import annotations

from datetime import datetime

import pytest

from paimon_spark.errors import (
    InvalidOptionError,
    PaimonError,
    SnapshotExpiredError,
    SnapshotNotFoundError,
    VersionNotFoundError,
    VersionSyntaxError,
)
from paimon_spark.metadata import resolve as ranges
from paimon_spark.metadata.resolve import BETWEEN, BETWEEN_TIMESTAMP, TO_AUTO_TAG, ResolvedRange, resolve_range
from paimon_spark.metadata.tags import auto_tag_time, tag_names
from paimon_spark.options.retention import parse_tag_options
from tests.harness.tables import MetadataTable, a_schema, a_snapshot


@pytest.fixture(scope="module")
def tagged() -> MetadataTable:
    built = MetadataTable().schema(a_schema(0)).schema(a_schema(1)).snapshots([3, 4, 5])
    built.tag("v1", 1).tag("v3", 3).tag("savepoint-4", 4)
    for day, snapshot_id in (("2024-01-01", 1), ("2024-01-03", 3), ("2024-01-04 x", 4)):
        built.tag(day, snapshot_id)
    return built.schema(branch="fix").snapshots([4, 6], "fix").tag("v6", 6, "fix")


def ends(found: ResolvedRange) -> tuple[int, int | None, int | None, bool]:
    return (
        found.start_id,
        found.start.id if found.start else None,
        found.end.id if found.end else None,
        found.tags,
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("3,5", (3, 3, 5, False)),
        (" 3 , 5 ", (3, 3, 5, False)),
        ("2,5", (2, None, 5, False)),  # just before the earliest alive
        ("5,5", (5, 5, 5, False)),
        ("v1,v3", (1, 1, 3, True)),
        ("v1,savepoint.4", (1, 1, 4, True)),
        ("v1,5", (1, 1, 5, False)),
        ("snapshot.3,main", (3, 3, 5, False)),
        ("fix.4,fix.v6", (4, 4, 6, False)),
        ("fix.4,fix", (4, 4, 6, False)),
    ],
)
def test_between_versions(tagged: MetadataTable, text: str, expected: tuple[int, int | None, int | None, bool]) -> None:
    found = resolve_range(tagged.open(), BETWEEN, text)
    assert ends(found) == expected
    assert found.is_empty == (text == "5,5")
    assert found.handle.branch == ("fix" if "fix" in text else "main")
    assert found.handle.schema.id == (0 if "fix" in text else 1), "the latest of the branch, not the snapshot's"


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("5,3", InvalidOptionError, "older version comes first"),
        ("1,5", SnapshotExpiredError, "3 to 5"),
        ("3,9", SnapshotNotFoundError, "snapshot 9"),
        ("3,vv3", VersionNotFoundError, "'vv3'"),
        ("3", InvalidOptionError, "two versions with a comma"),
        ("3,4,5", InvalidOptionError, "two versions with a comma"),
        ("3,", InvalidOptionError, "two versions with a comma"),
        ("3,fix.v6", InvalidOptionError, "both ends must be on one branch"),
    ],
)
def test_between_wrong_versions(tagged: MetadataTable, text: str, error: type[PaimonError], words: str) -> None:
    with pytest.raises(error, match=words):
        resolve_range(tagged.open(), BETWEEN, text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("3000,5000", (3, 3, 5, False)),
        ("3999,4999", (3, 3, 4, False)),
        ("0,4000", (2, None, 4, False)),
        ("1970-01-01 00:00:03,1970-01-01T00:00:04.5", (3, 3, 4, False)),
        ("3000,99999999", (3, 3, 5, False)),
    ],
)
def test_between_times(tagged: MetadataTable, text: str, expected: tuple[int, int | None, int | None, bool]) -> None:
    assert ends(resolve_range(tagged.open(), BETWEEN_TIMESTAMP, text, "UTC")) == expected


@pytest.mark.parametrize("text", ["4000,4000", "6000,7000", "0,2999"])
def test_times_with_nothing_between(tagged: MetadataTable, text: str) -> None:
    assert resolve_range(tagged.open(), BETWEEN_TIMESTAMP, text).is_empty


def test_an_empty_table_has_nothing_between() -> None:
    handle = MetadataTable().schema().open()
    assert resolve_range(handle, BETWEEN_TIMESTAMP, "0,9").is_empty


def test_wrong_times(tagged: MetadataTable) -> None:
    with pytest.raises(InvalidOptionError, match="before the first"):
        resolve_range(tagged.open(), BETWEEN_TIMESTAMP, "5,3")
    with pytest.raises(VersionSyntaxError, match="no timestamp"):
        resolve_range(tagged.open(), BETWEEN_TIMESTAMP, "soon,later")


def test_to_an_automatic_tag(tagged: MetadataTable) -> None:
    handle = tagged.open()
    assert ends(resolve_range(handle, TO_AUTO_TAG, "2024-01-03")) == (1, 1, 3, True)
    assert ends(resolve_range(handle, TO_AUTO_TAG, "2024-01-04 x")) == (3, 3, 4, True)
    assert resolve_range(handle, TO_AUTO_TAG, "2024-01-01").is_empty, "the first has none before it"


def test_to_a_tag_that_is_not_automatic(tagged: MetadataTable) -> None:
    with pytest.raises(InvalidOptionError, match="makes no tags by time that are named so"):
        resolve_range(tagged.open(), TO_AUTO_TAG, "v1")


@pytest.mark.parametrize("name", ["2024-01-02", "2023-12-31", "2024-01-05"])
def test_nothing_changed_up_to_an_automatic_tag_that_was_not_made(tagged: MetadataTable, name: str) -> None:
    found = resolve_range(tagged.open(), TO_AUTO_TAG, name)
    assert found.is_empty
    assert found.end is None


def test_an_automatic_tag_that_expires_meanwhile_is_passed_over(
    tagged: MetadataTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = tag_names
    monkeypatch.setattr(ranges, "tag_names", lambda handle: [*names(handle), "2024-01-02"])
    assert ends(resolve_range(tagged.open(), TO_AUTO_TAG, "2024-01-03")) == (1, 1, 3, True)


HOURLY = {"tag.creation-period": "hourly"}
PLAIN = {"tag.period-formatter": "without_dashes"}


@pytest.mark.parametrize(
    ("options", "name", "time"),
    [
        ({}, "2024-01-02", datetime(2024, 1, 2)),
        ({}, "2024-01-02 anything", datetime(2024, 1, 2)),
        ({}, "20240102", None),
        ({}, "2024-02-30", None),
        ({"tag.period-formatter": "without_dashes"}, "20240102", datetime(2024, 1, 2)),
        ({"tag.creation-period": "hourly"}, "2024-01-02 03", datetime(2024, 1, 2, 3)),
        ({"tag.creation-period": "hourly"}, "2024-01-02", None),
        ({**HOURLY, **PLAIN}, "20240102 03", datetime(2024, 1, 2, 3)),
        ({**HOURLY, "tag.period-formatter": "without_dashes_and_spaces"}, "2024010203", datetime(2024, 1, 2, 3)),
        ({"tag.creation-period": "two-hours"}, "2024-01-02 04", datetime(2024, 1, 2, 4)),
        ({**PLAIN, "tag.creation-period": "two-hours"}, "2024-01-02 04", datetime(2024, 1, 2, 4)),
        ({"tag.creation-period-duration": "30 min"}, "202401020330", datetime(2024, 1, 2, 3, 30)),
        ({"tag.creation-period-duration": "30 min"}, "2024-01-02", None),
    ],
)  # fmt: skip
def test_names_of_automatic_tags(options: dict[str, str], name: str, time: datetime | None) -> None:
    assert auto_tag_time(name, parse_tag_options(options)) == time


def test_ends_are_snapshots_as_they_are(tagged: MetadataTable) -> None:
    found = resolve_range(tagged.open(), BETWEEN, "3,5")
    assert (found.start, found.end) == (a_snapshot(3), a_snapshot(5))
