"""$files, $file_key_ranges, $partitions, $buckets, $manifests, $table_indexes, $statistics."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

import paimon_spark
from paimon_spark.errors import CorruptFileError, SnapshotNotFoundError
from paimon_spark.format.metadata_files.data_file import FileSource
from paimon_spark.format.metadata_files.table_schema import TableSchema
from paimon_spark.types import DataField, RowType, parse_type
from tests.harness.table_builder import File, TableBuilder
from tests.harness.tables import MetadataTable, a_schema, a_snapshot


def schema(schema_id: int = 0, **columns: str) -> dict[str, Any]:
    fields = tuple(DataField(i, n, parse_type(t)) for i, (n, t) in enumerate(columns.items()))
    return {"schema_id": schema_id, "row_type": RowType(False, fields), "highest_field_id": len(fields) - 1}


def read(table: MetadataTable, name: str, **options: Any) -> list[dict[str, Any]]:
    found = paimon_spark.load_table(f"memory://{table.root}${name}", **{"time-zone": "UTC", **options})
    return list(found.scan().to_arrow().to_pylist())


KEYED: dict[str, Any] = {"primary_keys": ("p", "k"), "partition_keys": ("p",), "options": {"bucket": "2"}}


def test_keys_and_statistics_are_text_as_in_java() -> None:
    columns: dict[str, Any] = {
        "p": "STRING", "k": "INT NOT NULL", "z": "DOUBLE", "a": "DECIMAL(12, 3)", "d": "DATE", "ts": "TIMESTAMP(6)",
        "l": "TIMESTAMP(3) WITH LOCAL TIME ZONE", "b": "BYTES", "o": "BOOLEAN", "tm": "TIME(3)", "x": "ARRAY<INT>",
    }  # fmt: skip
    b = TableBuilder(a_schema(**schema(**columns), **KEYED))
    low = {
        "p": "x", "k": 1, "z": 1e7, "a": Decimal("-0.001"), "d": date(1970, 1, 2),
        "ts": datetime(2024, 1, 1), "l": datetime(2024, 1, 1, 1, tzinfo=UTC), "b": b"\x01\xff", "o": False,
        "tm": 5,
    }  # fmt: skip
    high = {
        "p": "x", "k": 9, "z": float("nan"), "d": date(1969, 12, 31), "ts": datetime(2024, 1, 1, 0, 0, 1, 120),
        "l": datetime(2024, 1, 1, 0, 0, 0, 5000, tzinfo=UTC), "b": b"", "o": True, "tm": 86399999,
    }  # fmt: skip
    counts: dict[str, Any] = {"nulls": {"k": 0, "x": 2}, "deletes": 3}
    b.commit(File("data-1-0.orc", {"p": "x"}, 1, 2, level=5, low=low, high=high, source=FileSource.APPEND, **counts))
    [row] = read(b.table, "files")
    assert row["min_value_stats"] == (
        "{a=-0.001, b=01ff, d=1, k=1, l=2024-01-01T01:00, o=false, p=x, tm=5, ts=2024-01-01T00:00, x=null, z=1.0E7}"
    )
    assert row["max_value_stats"] == (
        "{a=null, b=, d=-1, k=9, l=2024-01-01T00:00:00.005, o=true, p=x, tm=86399999, ts=2024-01-01T00:00:01.000120, "
        "x=null, z=NaN}"
    )
    assert row["null_value_counts"].startswith("{a=null, ") and ", k=0, " in row["null_value_counts"]
    assert (row["min_key"], row["max_key"]) == ("[1]", "[9]")
    shown = {k: row[k] for k in ("partition", "bucket", "file_format", "level", "deleteRowCount", "file_source")}
    assert shown == {
        "partition": "{x}", "bucket": 1, "file_format": "orc", "level": 5, "deleteRowCount": 3,
        "file_source": "APPEND",
    }  # fmt: skip
    assert row["file_path"] == f"memory://{b.table.root}/p=x/bucket-1/data-1-0.orc"


def test_statistics_are_shown_in_the_columns_of_the_schema_read_with() -> None:
    b = TableBuilder(a_schema(**schema(k="INT", gone="INT", s="STRING"), options={"bucket": "-1"}))
    b.commit(File("f0.parquet", low={"k": 1, "gone": 5, "s": "a"}, high={"k": 2, "gone": 6, "s": "b"}, nulls={"k": 1}))
    fields = (
        DataField(0, "key", parse_type("BIGINT")),
        DataField(2, "s", parse_type("STRING")),
        DataField(3, "new", parse_type("INT")),
    )
    b.evolve(TableSchema(1, RowType(False, fields), 3, options={"bucket": "-1"}))
    b.commit(
        File("f1.parquet", low={"key": 7}, high={"key": 8}, nulls={"key": 0}, schema_id=1, stats_cols=("key",)),
        File("f2.parquet", schema_id=1, stats_cols=()),
        File("f3.parquet", {}, 0, -1, 0, 9, 10, {"s": "q"}, {"s": "r"}, {"s": 0}, schema_id=1, write_cols=("s",),
             stats_cols=("s",)),
    )  # fmt: skip
    rows = {r["file_path"].rpartition("/")[2]: r for r in read(b.table, "files")}
    shown = {n: (r["min_value_stats"], r["null_value_counts"]) for n, r in rows.items()}
    assert shown == {
        "f0.parquet": ("{key=1, new=null, s=a}", "{key=1, new=10, s=null}"),
        "f1.parquet": ("{key=7, new=null, s=null}", "{key=0, new=null, s=null}"),
        "f2.parquet": ("{key=null, new=null, s=null}", "{key=null, new=null, s=null}"),
        "f3.parquet": ("{key=null, new=null, s=q}", "{key=10, new=10, s=0}"),
    }
    assert rows["f3.parquet"]["write_cols"] == ["s"] and rows["f0.parquet"]["write_cols"] is None
    assert {r["min_key"] for r in rows.values()} == {None}
    [before] = read(b.table, "files", versionAsOf="1")
    assert before["min_value_stats"] == "{gone=5, k=1, s=a}"


def test_files_outside_the_table_and_of_compressed_text() -> None:
    b = TableBuilder(a_schema(**schema(k="INT"), options={"bucket": "-1"}))
    b.commit(File("a.csv.gz"), File("b.parquet", external_path="s3://bucket/x/b.parquet"), File("c.zstd.parquet"))
    rows = read(b.table, "files")
    assert [r["file_format"] for r in rows] == ["csv", "parquet", "parquet"]
    assert rows[1]["file_path"] == "s3://bucket/x/b.parquet"
    assert rows[0]["partition"] == "{}"


def test_null_partitions_have_the_default_name_in_partitions_alone() -> None:
    b = TableBuilder(
        a_schema(**schema(p="STRING", q="DATE", k="INT"), partition_keys=("p", "q"), options={"bucket": "-1"})
    )
    b.commit(
        File("a", {"p": None, "q": date(2024, 1, 2)}, size=5, rows=1),
        File("b", {"p": "x/y", "q": None}, size=6, rows=2),
        File("c", {"p": " ", "q": date(2024, 1, 2)}, size=7, rows=3),
    )
    # File names without extension are none of a format.
    assert [r["partition"] for r in read(b.table, "buckets")] == [
        "{ , 2024-01-02}",
        "{null, 2024-01-02}",
        "{x/y, null}",
    ]
    rows = read(b.table, "partitions")
    assert [r["partition"] for r in rows] == [
        "p=__DEFAULT_PARTITION__/q=2024-01-02",
        "p=__DEFAULT_PARTITION__/q=2024-01-02",
        "p=x/y/q=__DEFAULT_PARTITION__",
    ]
    assert sorted((r["record_count"], r["file_size_in_bytes"], r["file_count"]) for r in rows) == [
        (1, 5, 1),
        (2, 6, 1),
        (3, 7, 1),
    ]
    assert {(r["done"], r["created_by"], r["deleted_record_count"]) for r in rows} == {(False, None, 0)}


def test_sums_take_removed_files_away_and_empty_groups_go() -> None:
    b = TableBuilder(a_schema(**schema(p="STRING", k="INT NOT NULL"), **KEYED))
    old, gone = File("old.orc", {"p": "a"}, 0, 2, size=10, rows=4), File("gone.orc", {"p": "b"}, 1, 2)
    b.commit(old, gone, File("kept.orc", {"p": "a"}, 1, 2, size=1, rows=1))
    b.commit(File("new.orc", {"p": "a"}, 0, 4, size=7, rows=3), deletes=[old, gone])
    [row] = read(b.table, "partitions")
    sums = row["partition"], row["record_count"], row["file_size_in_bytes"], row["file_count"], row["total_buckets"]
    assert sums == ("p=a", 4, 8, 2, 4)
    shown = [(r["partition"], r["bucket"], r["record_count"], r["file_count"]) for r in read(b.table, "buckets")]
    assert shown == [("{a}", 0, 3, 1), ("{a}", 1, 1, 1)]
    assert {r["partition"] for r in read(b.table, "buckets", versionAsOf="1")} == {"{a}", "{b}"}
    assert {r["partition"] for r in read(b.table, "partitions", versionAsOf="1")} == {"p=a", "p=b"}
    assert len(read(b.table, "files", versionAsOf="1")) == 3


def test_files_that_wait_in_a_postponed_bucket_are_not_listed() -> None:
    b = TableBuilder(a_schema(**schema(p="STRING", k="INT NOT NULL"), **{**KEYED, "options": {"bucket": "-2"}}))
    b.commit(File("w.orc", {"p": "a"}, -2), File("r.orc", {"p": "b"}, 0, 1, level=5))
    assert [r["bucket"] for r in read(b.table, "files")] == [0]
    assert [r["partition"] for r in read(b.table, "partitions")] == ["p=b"]
    assert [r["bucket"] for r in read(b.table, "buckets")] == [-2, 0]


def test_manifests_of_a_version() -> None:
    b = TableBuilder(a_schema(**schema(p="STRING", k="INT NOT NULL"), **KEYED))
    b.commit(File("a.orc", {"p": "a"}), File("b.orc", {"p": "b"}))
    b.commit(File("c.orc", {"p": "c"}))
    first, second = read(b.table, "manifests")
    assert (first["num_added_files"], first["num_deleted_files"], first["schema_id"]) == (2, 0, 0)
    assert (first["min_partition_stats"], first["max_partition_stats"]) == ("{a}", "{b}")
    assert second["file_name"] != first["file_name"] and second["file_size"] > 0
    assert read(b.table, "manifests", versionAsOf="1") == [first]


@pytest.mark.parametrize(
    "name", ["files", "file_key_ranges", "manifests", "partitions", "buckets", "table_indexes", "statistics"]
)
def test_a_table_without_snapshots_has_none_of_it(name: str) -> None:
    table = MetadataTable().schema()
    assert read(table, name) == []
    with pytest.raises(SnapshotNotFoundError, match="7"):
        read(table, name, **{"scan.snapshot-id": "7"})


def test_statistics_are_laid_out_as_java_does() -> None:
    stats = {
        "snapshotId": 3, "schemaId": 1, "mergedRecordCount": 10,
        "colStats": {"k": {"colId": 0, "distinctCount": 10, "min": "1"}},
    }  # fmt: skip
    table = MetadataTable().schema().snapshots([a_snapshot(4, statistics="stats-1"), a_snapshot(5)])
    table.put(table.layout().statistics_path("stats-1"), json.dumps(stats).encode())
    assert read(table, "statistics") == []
    [row] = read(table, "statistics", versionAsOf="4")
    assert row == {
        "snapshot_id": 3,
        "schema_id": 1,
        "mergedRecordCount": 10,
        "mergedRecordSize": None,
        "colstat": '{\n  "k" : {\n    "colId" : 0,\n    "distinctCount" : 10,\n    "min" : "1"\n  }\n}',
    }
    table.put(table.layout().statistics_path("stats-1"), b'{"snapshotId": 3}')
    with pytest.raises(CorruptFileError, match=r"statistics file .*stats-1"):
        read(table, "statistics", versionAsOf="4")


def test_filters_see_columns_that_do_not_come_out() -> None:
    b = TableBuilder(a_schema(**schema(p="STRING", k="INT NOT NULL"), **KEYED))
    b.commit(
        File("a.orc", {"p": "a"}, size=1),
        File("b.orc", {"p": "b"}, size=9, level=3),
        File("c.orc", {"p": "c"}, size=20),
    )
    t = paimon_spark.load_table(f"memory://{b.table.root}$files")
    found = t.scan(columns=["FILE_SIZE_IN_BYTES", "partition"], where="file_size_in_bytes > 5 and level < 3").to_arrow()
    assert found.schema.names == ["file_size_in_bytes", "partition"]
    assert found.to_pylist() == [{"file_size_in_bytes": 20, "partition": "{c}"}]
    assert t.scan(where="partition = '{b}'").to_arrow()["file_size_in_bytes"].to_pylist() == [9]
    assert t.scan(columns=[]).to_arrow().num_rows == 3
