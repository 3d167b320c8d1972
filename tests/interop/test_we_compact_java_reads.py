"""Tables without keys, and postponed buckets, compacted here: Java reads the same rows, goes on, and the other way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark.jobs.write.batch import plan_path_write
from paimon_spark.metadata.definition.from_arrow import row_type
from paimon_spark.options.write_request import WriteMode
from tests.interop.java_paimon import JavaPaimon
from tests.interop.pypaimon_peer import PyPaimon

pytestmark = pytest.mark.interop

ROWS = pa.table({"id": pa.array(range(20), pa.int64()), "dt": ["x", "y"] * 10})
SORTABLE = ("partitions", "vectors", "row_ids", "row_ids_and_vectors")
IDS = ("_ROW_ID", "_SEQUENCE_NUMBER")
KINDS: dict[str, dict[str, str]] = {
    "partitions": {"partition": "dt"},
    "vectors": {"partition": "dt", "deletion-vectors.enabled": "true"},
    "buckets": {"bucket": "2", "bucket-key": "id"},
    "bucket_vectors": {"bucket": "1", "bucket-key": "id", "deletion-vectors.enabled": "true"},
    "row_ids": {"row-tracking.enabled": "true"},
    "row_ids_and_vectors": {"row-tracking.enabled": "true", "deletion-vectors.enabled": "true"},
    "postponed": {
        "primary-key": "id",
        "bucket": "-2",
        "postpone.default-bucket-num": "2",
        "postpone.batch-write-fixed-bucket": "false",
    },
}


@pytest.mark.parametrize("kind", KINDS)
def test_java_reads_what_was_compacted_and_goes_on(kind: str, java: JavaPaimon, tmp_path: Path) -> None:
    path = str(tmp_path / kind)
    given = {"path": path, **KINDS[kind]}
    job = plan_path_write(given, WriteMode.APPEND, ROWS.schema, lambda: row_type(ROWS.schema))
    job.commit(job.write(ROWS.to_batches()))
    table = paimon_spark.load_table(path)
    for start in range(3):
        table.write(ROWS.slice(start * 5, 10))
    if kind != "postponed":
        table.delete("id in (1, 5, 9, 13)")
        table.write(ROWS.slice(0, 3))
    columns = ("id", "dt", *(IDS if "row_ids" in kind else ()))

    def ours() -> list[tuple[Any, ...]]:
        return sorted(tuple(r.values()) for r in table.scan(columns=columns).to_arrow().to_pylist())

    def javas() -> list[tuple[Any, ...]]:
        rows = java.call("read", path=path, rowTracking="row_ids" in kind)["rows"]
        return sorted(tuple(r[c] for c in columns) for r in rows)

    expected = ours()
    result = table.compact(full=True)
    assert result.files_before > result.files_after
    table.compact_manifest()
    if kind != "postponed":  # whose rows were not seen before
        assert ours() == expected
    assert javas() == ours()

    java.call("write", path=path, rows=[[1000, "x"], [1001, "y"]])
    if "vectors" in kind:
        java.call("deleteRows", path=path, column="id", values=[2, 1001])
        assert {r[0] for r in ours()} >= {0, 3, 1000} and not {r[0] for r in ours()} & {2, 1001}
    if kind != "postponed":
        assert javas() == ours()
    table.compact(full=True)
    assert javas() == ours()
    java.call("write", path=path, rows=[[1002, "x"]])
    java.call("compact", path=path, full=True)
    assert javas() == ours()
    assert {r[0] for r in ours()} >= {1000, 1002}
    if kind in SORTABLE:
        expected = ours()
        assert table.compact(order_by="id", order_strategy="hilbert").snapshot_ids
        assert ours() == expected and javas() == expected
        java.call("write", path=path, rows=[[1003, "y"]])
        java.call("compact", path=path, full=True)
        assert javas() == ours()


@pytest.mark.parametrize("vectors", [False, True])
def test_java_and_pypaimon_read_levels_of_incremental_clustering_and_java_goes_on(
    vectors: bool, java: JavaPaimon, py: PyPaimon, tmp_path: Path
) -> None:
    options = {"clustering.incremental": "true", "clustering.columns": "id,v", "num-sorted-run.compaction-trigger": "2"}
    if vectors:
        options["deletion-vectors.enabled"] = "true"
    catalog = paimon_spark.load_catalog(str(tmp_path))
    catalog.create_database("d")
    table = catalog.create_table("d.t", "id BIGINT, v STRING", options=options)
    path = str(tmp_path / "d.db" / "t")

    def ours() -> list[tuple[Any, ...]]:
        return sorted(tuple(r.values()) for r in table.scan().to_arrow().to_pylist())

    def javas() -> list[tuple[Any, ...]]:
        return sorted((r["id"], r["v"]) for r in java.call("read", path=path)["rows"])

    def pypaimons() -> list[tuple[Any, ...]]:
        return sorted((r["id"], r["v"]) for r in py.call("read", path=path)["rows"])

    table.write(pa.table({"id": range(5000, 0, -1), "v": [f"v{n}" for n in range(5000)]}))
    assert table.compact(full=True).snapshot_ids
    for start in (0, 100):
        java.call("write", path=path, rows=[[start, "x"], [start + 1, "y"]])
    if vectors:
        table.delete("id % 2 = 0")
    expected = ours()
    assert javas() == expected
    assert table.compact().files_before == 2, "the sorted level stays"
    assert ours() == javas() == pypaimons() == expected
    java.call("write", path=path, rows=[[7000, "z"]])
    assert table.compact(full=True).files_before > 1
    assert ours() == javas() == pypaimons() == sorted([*expected, (7000, "z")])


RESCALED: dict[str, dict[str, str]] = {
    "keys": {"primary-key": "id", "bucket": "4"},
    "keys_and_vectors": {"primary-key": "id", "bucket": "4", "deletion-vectors.enabled": "true"},
    "lookup": {"primary-key": "id", "bucket": "4", "changelog-producer": "lookup"},
    "buckets": {"bucket": "4", "bucket-key": "id"},
    "partitions": {"primary-key": "id,dt", "partition": "dt", "bucket": "4"},
}


@pytest.mark.parametrize("buckets", [2, 6])
@pytest.mark.parametrize("kind", RESCALED)
def test_java_reads_what_was_rescaled_and_goes_on(kind: str, buckets: int, java: JavaPaimon, tmp_path: Path) -> None:
    path = str(tmp_path / kind)
    given = {"path": path, **RESCALED[kind]}
    job = plan_path_write(given, WriteMode.APPEND, ROWS.schema, lambda: row_type(ROWS.schema))
    job.commit(job.write(ROWS.to_batches()))
    table = paimon_spark.load_table(path)
    table.write(ROWS.slice(5, 10))
    java.call("write", path=path, rows=[[1000, "x"], [3, "y"]])

    def ours() -> list[tuple[Any, ...]]:
        return sorted(tuple(r.values()) for r in table.scan().to_arrow().to_pylist())

    def javas() -> list[tuple[Any, ...]]:
        return sorted((r["id"], r["dt"]) for r in java.call("read", path=path)["rows"])

    before = ours()
    assert javas() == before
    assert table.rescale(buckets).snapshot_ids
    assert ours() == before and javas() == before
    table.alter(set_options={"bucket": buckets})
    java.call("write", path=path, rows=[[i, "x"] for i in range(1001, 1020)])
    java.call("compact", path=path, full=True)
    table.write(ROWS.slice(0, 7))
    assert javas() == ours()
    assert len({r[0] for r in ours()}) == 40
