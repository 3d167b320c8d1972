"""Tags with a time to live, tags made by themselves and restored states: one engine's are the other's."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark.api.table import Table
from tests.harness.table_files import missing_files
from tests.interop.java_paimon import JavaPaimon

pytestmark = pytest.mark.interop


def a_table(java: JavaPaimon, path: Path, **options: str) -> Table:
    given = {k.replace("__", ".").replace("_", "-"): v for k, v in options.items()}
    fields = [["k", "INT NOT NULL"], ["v", "STRING"]]
    kind = {"pk": ["k"], "partition": [], "tableOptions": {"bucket": "1", **given}}
    java.call("createTable", path=str(path), fields=fields, comment=None, **kind)
    return paimon_spark.load_table(str(path))


def write(table: Table, *keys: int, **more: Any) -> None:
    data = {"k": pa.array(keys, pa.int32()), "v": pa.array([str(k) for k in keys])}
    table.write(pa.table(data), **{"write-only": True, **more})


def keys(table: Table, **scan: Any) -> list[int]:
    return sorted(table.scan(**scan).to_arrow()["k"].to_pylist())


def keys_by_java(java: JavaPaimon, table: Table, **options: str) -> list[int]:
    path = table.location.removeprefix("file://")
    return sorted(row["k"] for row in java.call("read", path=path, options=options)["rows"])


def test_java_reads_and_renames_our_tags_with_a_time_to_live(java: JavaPaimon, tmp_path: Path) -> None:
    table = a_table(java, tmp_path / "t", tag__default_time_retained="90 min")
    path = table.location.removeprefix("file://")
    write(table, 1)
    table.create_tag("ours")
    write(table, 2)
    assert keys_by_java(java, table, **{"scan.tag-name": "ours"}) == [1]
    java.call("renameTag", path=path, name="ours", to="renamed")
    assert [(t.name, t.time_retained_s) for t in table.tags(include_internal=True)] == [("renamed", 5400.0)]


def test_java_lets_our_tags_expire(java: JavaPaimon, tmp_path: Path) -> None:
    table = a_table(java, tmp_path / "t")
    path = table.location.removeprefix("file://")
    write(table, 1)
    table.create_tag("soon", time_retained="1 ms")
    table.create_tag("later", time_retained="1 d")
    table.create_tag("never")
    java.call("write", path=path, rows=[[2, "b"]])
    assert [t.name for t in table.tags(include_internal=True)] == ["later", "never"]


def test_tags_that_make_themselves_have_the_same_names(java: JavaPaimon, tmp_path: Path) -> None:
    for n, options in enumerate(
        (
            {},
            {"tag__creation_period": "hourly", "tag__period_formatter": "without_dashes"},
            {"tag__creation_period_duration": "3 d"},
            {"sink__process_time_zone": "GMT+09:00"},
        )
    ):
        hour = -1
        names: list[list[str]] = []
        while hour != (hour := time.time_ns() // 3_600_000_000_000):  # anew, if the hour turned between the two
            names = [
                automatic_tags(java, tmp_path / f"{hand}{n}-{hour}", hand == "java", **options)
                for hand in ("java", "we")
            ]
        assert names[0] == names[1] != []


def test_an_automatic_tag_that_was_not_made_has_no_changes(java: JavaPaimon, tmp_path: Path) -> None:
    table = a_table(java, tmp_path / "t")
    for day in (1, 3):
        write(table, day)
        table.create_tag(f"2020-01-0{day}")
    for day, expected in ((1, []), (2, []), (3, [3]), (4, [])):
        asked = {"incremental-to-auto-tag": f"2020-01-0{day}"}
        assert keys_by_java(java, table, **asked) == keys(table, **asked) == expected


@pytest.mark.parametrize("keep", [None, "1", "3"])
def test_tags_of_batches_are_those_of_java(java: JavaPaimon, tmp_path: Path, keep: str | None) -> None:
    now = datetime.now(UTC)
    to_noon = 12 - now.hour  # where it is noon, no day ends while the test runs
    name = f"batch-write-{(now + timedelta(hours=to_noon)):%Y-%m-%d}"
    options = {
        "tag__automatic_creation": "batch",
        "tag__default_time_retained": "90 min",
        "sink__process_time_zone": f"GMT{to_noon:+03d}:00",
    }
    if keep is not None:
        options["tag__num_retained_max"] = keep
    left = {}
    for hand in ("java", "we"):
        table = a_table(java, tmp_path / hand, **options)
        for number in range(4):
            if hand == "java":
                java.call("write", path=str(tmp_path / hand), rows=[[number, "v"]], options={"write-only": "true"})
                java.call("createBatchTag", path=str(tmp_path / hand))
            else:
                write(table, number)
            if number < 3:
                java.call("createTag", path=str(tmp_path / hand), name=f"mine-{number}")
        tags = paimon_spark.load_table(str(tmp_path / hand)).tags(include_internal=True)
        left[hand] = [(t.name, t.snapshot.id, t.time_retained_s) for t in tags]
    assert left["we"] == left["java"]
    assert (name, 4, 5400.0) in left["we"]


def automatic_tags(java: JavaPaimon, path: Path, by_java: bool, **options: str) -> list[str]:
    """Names of the tags that a first write makes by itself."""
    table = a_table(java, path, tag__automatic_creation="process-time", **options)
    if by_java:
        java.call("write", path=str(path), rows=[[1, "a"]])
    else:
        write(table, 1, **{"write-only": False})
    return [t.name for t in table.tags(include_internal=True)]


def test_what_java_expires_a_restored_state_keeps(java: JavaPaimon, tmp_path: Path) -> None:
    table = a_table(java, tmp_path / "t")
    path = table.location.removeprefix("file://")
    write(table, 1, 2)
    write(table, 9, mode="overwrite")
    write(table, 10, mode="overwrite")
    restored = table.rollback_to_as_latest(1)
    assert keys_by_java(java, table) == keys(table) == [1, 2]
    java.call("write", path=path, rows=[[3, "c"]])
    assert keys_by_java(java, table) == keys(table) == [1, 2, 3]
    java.call("expireSnapshots", path=path, retain=1)
    java.call("removeOrphans", path=path)
    assert missing_files(table.handle) == []
    assert keys_by_java(java, table) == keys(table) == [1, 2, 3]
    assert restored.tag is not None
    java.call("deleteTag", path=path, name=restored.tag)
    assert missing_files(table.handle) == []
    assert keys_by_java(java, table) == [1, 2, 3]


def test_java_goes_on_after_a_roll_back_to_a_tag(java: JavaPaimon, tmp_path: Path) -> None:
    table = a_table(java, tmp_path / "t")
    path = table.location.removeprefix("file://")
    write(table, 1)
    table.create_tag("v1")
    write(table, 2)
    write(table, 3)
    table.expire_snapshots(retain_max=1, retain_min=1)
    table.rollback_to("v1")
    assert keys_by_java(java, table) == [1]
    java.call("write", path=path, rows=[[4, "d"]])
    assert [s.id for s in table.snapshots()] == [1, 2]
    assert keys_by_java(java, table) == keys(table) == [1, 4]
    java.call("expireSnapshots", path=path, retain=1)
    assert missing_files(table.handle) == []
    assert keys(table, version="v1") == [1]
