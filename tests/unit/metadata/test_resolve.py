"""Version texts and options are resolved to snapshots."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_spark.errors import (
    CorruptFileError,
    PaimonError,
    SavepointNotFoundError,
    SnapshotExpiredError,
    SnapshotNotFoundError,
    TagNotFoundError,
    VersionNotFoundError,
)
from paimon_spark.metadata import small_files
from paimon_spark.metadata.resolve import Resolved, resolve
from paimon_spark.metadata.version import VersionKind, VersionSpec, from_option, text_version
from tests.harness.tables import MetadataTable, a_schema, a_snapshot


@pytest.fixture(scope="module")
def table() -> MetadataTable:
    """Main: snapshots 3 to 5, tags of 1 to 3, a savepoint of 2. Branch fix: snapshots 3, 4 and 6."""
    built = MetadataTable().schema(a_schema(0)).schema(a_schema(1, options={"num-levels": "9"}))
    built.snapshots([a_snapshot(3), a_snapshot(4), a_snapshot(5, schema_id=1, watermark=500)])
    built.tag("v1", 1).tag("v2.0", 2).tag("v3", 3).tag("savepoint-2", 2).tag("4", 1).tag("日本", 3)
    built.schema(branch="fix").snapshots([3, 4, a_snapshot(6)], "fix").tag("v1", 4, "fix").tag("only", 6, "fix")
    built.schema(branch="empty")
    return built


def at(table: MetadataTable, text: str, branch: str = "main") -> tuple[str, int | None]:
    found = resolve(table.open(branch), text_version(text))
    return found.handle.branch, found.snapshot.id if found.snapshot else None


@pytest.mark.parametrize(
    ("text", "branch", "snapshot_id"),
    [
        ("v1", "main", 1),
        ("v2.0", "main", 2),
        ("日本", "main", 3),
        ("4", "main", 1),  # a tag goes before the number
        ("5", "main", 5),
        ("snapshot.4", "main", 4),
        ("savepoint.2", "main", 2),
        ("savepoint-2", "main", 2),
        ("tag-name.v3", "main", 3),
        ("tag-id.2", "main", 2),
        ("watermark-400", "main", 5),
        ("fix", "fix", 6),
        ("main", "main", 5),
        ("fix.v1", "fix", 4),
        ("fix.4", "fix", 4),
        ("fix.snapshot.3", "fix", 3),
        ("fix.tag-name.only", "fix", 6),
        ("fix.main.v1", "main", 1),
        ("main.v2.0", "main", 2),
        ("main.fix", "fix", 6),
        ("empty", "empty", None),
    ],
)
def test_texts_from_main(table: MetadataTable, text: str, branch: str, snapshot_id: int | None) -> None:
    assert at(table, text) == (branch, snapshot_id)


@pytest.mark.parametrize(
    ("text", "branch", "snapshot_id"),
    [("v1", "fix", 4), ("4", "fix", 4), ("main.4", "main", 1), ("main", "main", 5), ("only", "fix", 6)],
)
def test_texts_from_a_branch(table: MetadataTable, text: str, branch: str, snapshot_id: int) -> None:
    assert at(table, text, "fix") == (branch, snapshot_id)


def test_a_tag_that_looks_like_a_branch_and_a_version_goes_first() -> None:
    built = MetadataTable().schema().snapshots([1, 2]).schema(branch="fix").snapshots([1, 2], "fix")
    built.tag("fix.2", 1).tag("snapshot.2", 1).tag("fix", 1).tag("watermark-5", 1).tag("tag-id.2", 1)
    for text in ("fix.2", "snapshot.2", "fix", "watermark-5", "tag-id.2"):
        assert at(built, text) == ("main", 1)


def test_no_version_is_the_head(table: MetadataTable) -> None:
    found = resolve(table.open(), None)
    assert found.snapshot == a_snapshot(5, schema_id=1, watermark=500)
    assert found.handle == table.open()


def test_a_snapshot_is_read_with_its_own_schema_and_the_options_of_today(table: MetadataTable) -> None:
    found = resolve(table.open(), text_version("3"))
    assert found.handle.schema.id == 0
    assert found.handle.options.num_levels == 9
    assert resolve(table.open(), text_version("5")).handle.schema.id == 1
    assert resolve(table.open(), None).handle.schema.id == 1


def test_what_was_asked_for_is_said(table: MetadataTable) -> None:
    def labels(text: str) -> tuple[str, str | None]:
        found = resolve(table.open(), text_version(text))
        return found.label, found.tag

    assert labels("v1") == ("tag 'v1'", "v1")
    assert labels("savepoint.2") == ("savepoint 2", "savepoint-2")
    assert labels("5") == ("snapshot 5", None)
    assert labels("fix") == ("head of fix", None)


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("v22", VersionNotFoundError, ["'v22'", "v2.0", "main, empty, fix", "3 to 5", "tag-name.<name>"]),
        ("fix.vv1", VersionNotFoundError, ["branch 'fix'", "'vv1' (asked: 'fix.vv1')", "'v1'", "3 to 6"]),
        ("fxi.v1", VersionNotFoundError, ["version 'fxi.v1'; did you mean 'fix.v1'"]),
        ("fxi", VersionNotFoundError, ["; did you mean 'fix'"]),
        ("../fix", VersionNotFoundError, ["'../fix'"]),
        ("a/b.c", VersionNotFoundError, ["'a/b.c'"]),
        ("v4", VersionNotFoundError, ["; did you mean '4' or 'v1' or 'v3'"]),
        ("snapshot.9", SnapshotNotFoundError, ["3 to 5. Tried on branch 'main': snapshot 9"]),
        ("99", SnapshotNotFoundError, ["no snapshot 99", "3 to 5. Tried on branch 'main': a tag '99', snapshot 99"]),
        ("9", SnapshotNotFoundError, ["a tag '9', snapshot 9. Did you mean tag '4'?"]),
        ("fix.9", SnapshotNotFoundError, ["3 to 6. Tried on branch 'fix': a tag '9', snapshot 9"]),
        (
            "tag-name.v4",
            TagNotFoundError,
            ["did you mean '4' or 'v1' or 'v3'?", "on branch 'main' its snapshots alive are 3 to 5"],
        ),
        ("2", SnapshotExpiredError, ["has expired", "3 to 5", "'savepoint-2' still holds"]),
        ("fix.1", SnapshotExpiredError, ["has expired", "branch 'fix'", "3 to 6"]),
        ("savepoint.9", SavepointNotFoundError, ["savepoint 9", "its savepoints are 2"]),
        ("tag-id.9", TagNotFoundError, ["snapshot 9", "v1 (id 1)"]),
        ("tag-name.v2.1", TagNotFoundError, ["'v2.1'", "did you mean 'v2.0'", "4, savepoint-2, v1, v2.0, v3"]),
        ("watermark-501", SnapshotNotFoundError, ["501", "latest watermark is 500"]),
        ("fix.watermark-1", SnapshotNotFoundError, ["branch 'fix'", "no watermark"]),
    ],
)
def test_what_does_not_exist(table: MetadataTable, text: str, error: type[PaimonError], words: list[str]) -> None:
    with pytest.raises(error) as caught:
        at(table, text)
    assert type(caught.value) is error
    for word in words:
        assert word in str(caught.value)


def when(table: MetadataTable, time_ms: int, branch: str = "main") -> Resolved:
    return resolve(table.open(branch), VersionSpec(VersionKind.TIMESTAMP, time_ms))


@pytest.mark.parametrize(
    ("time_ms", "snapshot_id"),
    [(10**14, 5), (5000, 5), (4999, 4), (3000, 3), (2999, 2), (2000, 2), (1999, 1), (1000, 1)],
)
def test_a_time_takes_the_newest_before_it_then_tags(table: MetadataTable, time_ms: int, snapshot_id: int) -> None:
    found = when(table, time_ms)
    assert found.snapshot is not None
    assert found.snapshot.id == snapshot_id


def test_a_time_before_everything_says_the_earliest(table: MetadataTable) -> None:
    with pytest.raises(SnapshotExpiredError, match=re.escape("earliest time available is 1970-01-01 00:00:01.000 UTC")):
        when(table, 999)
    with pytest.raises(SnapshotNotFoundError, match="it has no snapshot at all"):
        when(table, 999, "empty")
    young = MetadataTable().schema().snapshots([1])
    with pytest.raises(SnapshotNotFoundError, match="earliest time available") as caught:
        when(young, -(10**18))
    assert not isinstance(caught.value, SnapshotExpiredError), "nothing was ever there to expire"


def test_options_name_versions_too(table: MetadataTable) -> None:
    def found(key: str, text: str) -> int | None:
        snapshot = resolve(table.open(), from_option(key, text, "UTC")).snapshot
        return None if snapshot is None else snapshot.id

    assert found("scan.tag-name", "v2.0") == 2
    assert found("scan.snapshot-id", "4") == 4  # here no tag is meant
    assert found("scan.tag-id", "3") == 3
    assert found("scan.savepoint-id", "2") == 2
    assert found("scan.watermark", "1") == 5
    assert found("timestampAsOf", "1970-01-01 00:00:04.5") == 4
    assert found("timestampAsOf", "4.5") == 4
    assert found("scan.timestamp-millis", "4500") == 4


def test_a_broken_tag_names_its_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(small_files, "WAITS_S", ())
    built = MetadataTable().schema().snapshots([1])
    built.put(built.layout().tag_path("bad"), b'{"id"')
    for text in ("bad", "tag-id.1"):
        with pytest.raises(CorruptFileError, match="tag/tag-bad"):
            at(built, text)


def test_an_old_branch_finds_its_schema_in_main() -> None:
    built = MetadataTable().schema(a_schema(0)).schema(a_schema(1))
    built.schema(a_schema(1), "fix").snapshots([a_snapshot(1), a_snapshot(2, schema_id=1)], "fix")
    assert resolve(built.open("fix"), text_version("1")).handle.schema.id == 0


@given(st.text(max_size=12) | st.text("0123456789.-vfixtagsnhomwerk", max_size=14))
def test_any_text_resolves_or_is_our_error(text: str) -> None:
    built = MetadataTable("/any/wh/db.db/t").schema().snapshots([1, 2]).tag("v1", 1)
    built.schema(branch="fix").snapshots([1], "fix")
    try:
        found = at(built, text)
    except PaimonError:
        return
    assert found[0] in ("main", "fix")
