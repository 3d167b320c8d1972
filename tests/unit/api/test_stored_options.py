"""Options stored in a table that say where its reads start, or that its rows are merged, as Java follows them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from paimon_spark.errors import InvalidOptionError, TagNotFoundError, UnsupportedFeatureError
from paimon_spark.jobs.read.table_scan import open_scan
from tests.harness.keywords import keywords
from tests.harness.real_tables import a_table, put, read, rows


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"scan.snapshot-id": "1"}, [0]),
        ({"scan.mode": "from-snapshot", "scan.snapshot-id": "2"}, [0, 1]),
        ({"scan.tag-name": "two"}, [0, 1]),
        ({"scan.version": "two"}, [0, 1]),
        ({"incremental-between": "1,2"}, [1]),
        ({"scan.mode": "latest"}, [0, 1, 2]),
        ({"log.scan": "from-timestamp", "log.scan.timestamp-millis": "9999999999999"}, [0, 1, 2]),
        ({"consumer-id": "c"}, [0, 1, 2]),
    ],
)
def test_batch_reads_start_where_the_table_says(tmp_path: Path, options: dict[str, str], expected: list[int]) -> None:
    table = a_table("k INT", options=options, where=tmp_path)
    for n in range(3):
        put(table, n)
        if n == 1:
            table.create_tag("two")
    assert read(table, "k") == expected
    assert sorted(open_scan(table.location, {}).to_arrow()["k"].to_pylist()) == expected
    assert read(table, "k", **{"scan.mode": "latest"}) == [0, 1, 2]
    assert read(table.at("snapshot.3"), "k") == [0, 1, 2]
    assert read(table, "k", **{"scan.snapshot-id": "1"}) == [0]


def test_the_definition_and_changes_are_of_the_head_whatever_start_is_stored(tmp_path: Path) -> None:
    table = a_table("k INT", options={"scan.tag-name": "later"}, where=tmp_path)
    assert table.row_type.names == ("k",)
    put(table, 1, 2)
    with pytest.raises(TagNotFoundError, match="later"):
        table.scan().to_arrow()
    table.delete("k = 1")
    assert read(table, "k", **{"scan.mode": "latest"}) == [2]
    assert "later" in table._repr_html_()


@pytest.mark.parametrize("is_stored", [True, False])
def test_a_batch_read_begins_with_the_newest_compacted_snapshot(tmp_path: Path, is_stored: bool) -> None:
    asked = {"scan.mode": "compacted-full"}
    table = a_table("k INT", options=(asked if is_stored else {}), where=tmp_path)
    options = {} if is_stored else asked
    assert read(table, "k", **options) == []
    put(table, 1)
    assert read(table, "k", **options) == [1]  # nothing is compacted: the newest snapshot
    put(table, 2)
    table.compact(full=True)
    table.alter(add={"n": "INT"})
    table.write(pa.table({"k": [3], "n": pa.array([3], pa.int32())}))
    assert read(table, "k", **options) == [1, 2]
    assert table.scan(**options).to_arrow().column_names == ["k", "n"]
    assert read(table, "k", **{"scan.mode": "latest"}) == [1, 2, 3]
    assert read(table.at("snapshot.1"), "k", **options) == ([1] if is_stored else [1, 2])
    assert read(table, "k", **{"scan.snapshot-id": "1"}) == [1]
    with pytest.raises(InvalidOptionError, match=r"scan\.mode = 'compacted-full' contradicts"):
        read(table, "k", **asked, **{"scan.snapshot-id": "1"})


def test_a_batch_read_of_the_newest_changes(tmp_path: Path) -> None:
    table = a_table("k INT", where=tmp_path)
    asked = keywords({"scan.mode": "latest-delta"})
    assert read(table, "k", **{"scan.mode": "latest-delta"}) == []
    put(table, 1)
    assert table.scan(**asked).to_arrow()["k"].to_pylist() == [1]
    put(table, 2)
    assert table.scan(**asked).to_arrow()["k"].to_pylist() == [2]
    table.expire_snapshots(retain_max=1)
    assert table.scan(**asked).to_arrow()["k"].to_pylist() == [2]


def test_a_table_that_java_reads_by_one_bucket_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedFeatureError, match=r"scan\.bucket = '0'; Java reads one bucket of it only"):
        a_table("k INT", options={"scan.bucket": "0"}, where=tmp_path)


def test_rows_are_not_appended_to_a_table_with_an_upsert_key(tmp_path: Path) -> None:
    table = a_table("k INT", options={"upsert-key": "k"}, where=tmp_path)
    with pytest.raises(UnsupportedFeatureError, match="use MERGE INTO, overwrite"):
        put(table, 1)
    put(table, 1, mode="overwrite")
    assert read(table, "k") == [1]
    put(table, 2, **keywords({"upsert-key": ""}))
    assert read(table, "k") == [1, 2]


@pytest.mark.parametrize("name", ["deduplicate.ignore-delete", "first-row.ignore-delete", "ignore-delete"])
def test_older_names_of_ignore_delete_mean_the_same(tmp_path: Path, name: str) -> None:
    table = a_table("k INT", keys="k", options={name: "true", "bucket": "1"}, where=tmp_path)
    put(table, 1, 2)
    deleted = rows(table, (1, 3))
    table.write(deleted, **keywords({"ignore-delete": "true"}))
    assert read(table, "k") == [1, 2]
    for key in ("ignore-delete", "deduplicate.ignore-delete"):
        with pytest.raises(InvalidOptionError, match="ignore-delete = 'false' cannot be given"):
            table.write(deleted, **keywords({key: "false"}))
    with pytest.raises(InvalidOptionError, match="cannot go from true to false"):
        table.alter(unset_options=[name])
