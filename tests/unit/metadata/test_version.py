"""Version text, version options and timestamps."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_spark.errors import InvalidOptionError, PaimonError, VersionSyntaxError
from paimon_spark.metadata.version import (
    VersionKind,
    VersionSpec,
    branch_version,
    epoch_ms,
    from_option,
    text_version,
    typed_version,
)
from paimon_spark.options.scan import parse_scan_options
from paimon_spark.text import id_of


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("snapshot.3", VersionKind.SNAPSHOT, 3),
        ("savepoint.12", VersionKind.SAVEPOINT, 12),
        ("tag-id.7", VersionKind.TAG_ID, 7),
        ("tag-name.a.b c", VersionKind.TAG, "a.b c"),
        ("tag-name.snapshot.3", VersionKind.TAG, "snapshot.3"),
        ("watermark-1700000000000", VersionKind.WATERMARK, 1700000000000),
        ("watermark--5", VersionKind.WATERMARK, -5),
    ],
)
def test_typed_versions(text: str, kind: VersionKind, value: str | int) -> None:
    spec = typed_version(text)
    assert spec is not None
    assert (spec.kind, spec.value) == (kind, value)


@pytest.mark.parametrize(
    "text",
    ["3", "snapshot", "snapshot.", "snapshot.x", "snapshot.-1", "snapshot.٣", "Snapshot.3", "tag-name.",
     "tag-id.x", "watermark-", "watermark-x", "fix.snapshot.3", "savepoint-3", "snapshot.3 "],
)  # fmt: skip
def test_texts_that_are_not_typed(text: str) -> None:
    assert typed_version(text) is None


def test_a_branch_ends_at_the_first_dot() -> None:
    assert branch_version("fix.release-1.0") == ("fix", "release-1.0")
    assert branch_version("main.snapshot.3") == ("main", "snapshot.3")
    assert branch_version("fix") is None
    assert branch_version(".x") is None
    assert branch_version("fix.") is None


def test_numbers() -> None:
    assert id_of("0042") == 42
    for text in ("", "-1", "+1", "1.0", "٣", "1e3", "9" * 40):
        assert id_of(text) is None


@pytest.mark.parametrize(
    ("key", "text", "spec"),
    [
        ("versionAsOf", " v1 ", VersionSpec(VersionKind.TEXT, "v1")),
        ("versionasof", "3", VersionSpec(VersionKind.TEXT, "3")),
        ("scan.version", "fix.v1", VersionSpec(VersionKind.TEXT, "fix.v1")),
        ("scan.snapshot-id", " 3", VersionSpec(VersionKind.SNAPSHOT, 3, "3")),
        ("scan.tag-name", "3", VersionSpec(VersionKind.TAG, "3")),
        ("scan.tag-id", "3", VersionSpec(VersionKind.TAG_ID, 3, "3")),
        ("scan.savepoint-id", "3", VersionSpec(VersionKind.SAVEPOINT, 3, "3")),
        ("scan.watermark", "-3", VersionSpec(VersionKind.WATERMARK, -3, "-3")),
        ("scan.timestamp-millis", "1500", VersionSpec(VersionKind.TIMESTAMP, 1500, "1500")),
        ("timestampAsOf", "1.5", VersionSpec(VersionKind.TIMESTAMP, 1500, "'1.5'")),
        ("scan.timestamp", "1970-01-01", VersionSpec(VersionKind.TIMESTAMP, 0, "'1970-01-01'")),
    ],
)
def test_options(key: str, text: str, spec: VersionSpec) -> None:
    assert from_option(key, text, "UTC") == spec


def test_no_version_option() -> None:
    assert parse_scan_options({"columns": "a", "branch": "b"}).version is None
    assert parse_scan_options({}).version is None


def test_two_version_options_are_both_named() -> None:
    with pytest.raises(InvalidOptionError, match=r"versionAsOf = 'a' and scan\.tag-name = 'b'"):
        parse_scan_options({"versionAsOf": "a", "scan.tag-name": "b"})


@pytest.mark.parametrize("key", ["scan.snapshot-id", "scan.tag-id", "scan.savepoint-id", "scan.watermark"])
@pytest.mark.parametrize("text", ["x", "", "1.5"])
def test_ids_must_be_numbers(key: str, text: str) -> None:
    with pytest.raises(InvalidOptionError, match=key):
        from_option(key, text)


def test_a_blank_version_is_refused() -> None:
    with pytest.raises(VersionSyntaxError, match="blank"):
        text_version("  ")


@given(st.text(max_size=30), st.sampled_from(["versionAsOf", "scan.timestamp", "scan.snapshot-id", "scan.watermark"]))
def test_any_text_is_a_version_or_our_error(text: str, key: str) -> None:
    try:
        spec = from_option(key, text, "UTC")
    except PaimonError:
        return
    assert spec is not None
    assert str(spec)


NEW_YEAR_2024 = 1704067200000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2024-01-01", NEW_YEAR_2024),
        ("2024-1-1", NEW_YEAR_2024),
        (" 2024-01-01 00:00 ", NEW_YEAR_2024),
        ("2024-01-01 00:00:01", NEW_YEAR_2024 + 1000),
        ("2024-01-01T00:00:01.5", NEW_YEAR_2024 + 1500),
        ("2024-01-01 00:00:00.123456789", NEW_YEAR_2024 + 123),
        ("2024-01-01 00:00:00.0009", NEW_YEAR_2024),
        ("2024-01-01T00:00:00Z", NEW_YEAR_2024),
        ("2024-01-01 00:00:00 UTC", NEW_YEAR_2024),
        ("2024-01-01T02:00:00+02:00", NEW_YEAR_2024),
        ("2023-12-31 19:00:00-0500", NEW_YEAR_2024),
        ("2024-01-01 01:00:00 Europe/Berlin", NEW_YEAR_2024),
        ("1969-12-31 23:59:59.999", -1),
        ("0", 0),
        ("1704067200", NEW_YEAR_2024),
        ("1704067200.123456", NEW_YEAR_2024 + 123),
        ("-0.0001", -1),
    ],
)
def test_forms(text: str, expected: int) -> None:
    assert epoch_ms(text, "UTC") == expected


def test_a_zone_is_for_texts_that_name_none() -> None:
    assert epoch_ms("2024-01-01 01:00:00", "Europe/Berlin") == NEW_YEAR_2024
    assert epoch_ms("2024-01-01 02:00:00", "+02:00") == NEW_YEAR_2024
    assert epoch_ms("2024-01-01 00:00:00Z", "Europe/Berlin") == NEW_YEAR_2024
    assert epoch_ms("1704067200", "Europe/Berlin") == NEW_YEAR_2024


def test_hours_that_come_twice_or_never_are_as_in_java() -> None:
    # 2024-10-27 02:30 comes twice in Berlin: the earlier one. 2024-03-31 02:30 never: an hour later.
    assert epoch_ms("2024-10-27 02:30:00", "Europe/Berlin") == epoch_ms("2024-10-27 00:30:00Z")
    assert epoch_ms("2024-03-31 02:30:00", "Europe/Berlin") == epoch_ms("2024-03-31 01:30:00Z")


@pytest.fixture
def in_new_york(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "America/New_York")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("in_new_york")
def test_without_any_zone_the_machine_says() -> None:
    assert epoch_ms("2023-12-31 19:00:00") == NEW_YEAR_2024
    assert epoch_ms("2024-07-01 00:00:00") == epoch_ms("2024-07-01 04:00:00Z")


@pytest.mark.parametrize(
    "text", ["", "yesterday", "2024-13-01", "2024-02-30", "2024-01-01 25:00", "2024-01-01x", "1e3", "0000-01-01",
             "2024-01-01 00:00:00.", "12:00:00", "９０", "NaN", "infinity"]
)  # fmt: skip
def test_other_texts_are_refused_by_name(text: str) -> None:
    with pytest.raises(VersionSyntaxError, match="timestampAsOf = "):
        epoch_ms(text, "UTC", "timestampAsOf")


@pytest.mark.parametrize("zone", ["Mars/Olympus", "", "../etc/passwd", "+99:00"])
def test_unknown_zones_are_refused(zone: str) -> None:
    with pytest.raises(InvalidOptionError, match="time zone"):
        epoch_ms("2024-01-01", zone)


@given(st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1)))
def test_written_times_come_back(moment: datetime) -> None:
    expected = (moment.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // (datetime.resolution * 1000)
    assert epoch_ms(moment.isoformat(" "), "UTC") == expected
