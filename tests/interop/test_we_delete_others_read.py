"""We delete and update rows; the peers read what is left; Java deletes and compacts on, and we read that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark.engine.commit.committer import Committer
from paimon_spark.engine.commit.requests import PlannedOn
from paimon_spark.engine.row_level.job import in_process, plan_rows
from paimon_spark.errors import UnsupportedFeatureError
from paimon_spark.metadata.definition.create import create_table
from paimon_spark.metadata.handle import open_table
from paimon_spark.predicate.parse import parse_predicate
from paimon_spark.storage.urls import open_store
from paimon_spark.types import BIGINT, STRING, DataField, RowType
from tests.harness.rows import assert_same_rows, rows_of
from tests.interop.conftest import pypaimon
from tests.interop.java_paimon import JavaPaimon

pytestmark = pytest.mark.interop

VECTORS = {"deletion-vectors.enabled": "true"}
KINDS: dict[str, dict[str, str]] = {
    "rewrite": {},
    "rewrite_partitioned": {"partition": "p"},
    "rewrite_buckets": {"bucket": "2", "bucket-key": "k"},
    "vectors": VECTORS,
    "vectors_64": {**VECTORS, "deletion-vectors.bitmap64": "true"},
    "vectors_small_files": {**VECTORS, "deletion-vector.index-file.target-size": "1 b"},
    "vectors_partitioned": {**VECTORS, "partition": "p"},
    "vectors_in_buckets": {**VECTORS, "bucket": "2", "bucket-key": "k"},
    "keys": {"primary-key": "k", "bucket": "2"},
    "keys_dynamic": {"primary-key": "k"},
}

PYPAIMON_CANNOT = {"vectors_64"}
"""It reads 32-bit vectors only ("Invalid magic number")."""


def rows(first: int, count: int) -> pa.Table:
    numbers = range(first, first + count)
    return pa.table(
        {"k": pa.array(numbers, pa.int64()), "p": [f"p{n % 2}" for n in numbers], "v": [f"v{n}" for n in numbers]}
    )


def delete(path: Path, where: str, updated: str | None = None) -> None:
    handle = open_table(*open_store(str(path)))
    job = plan_rows(handle, parse_predicate(where, handle.schema.row_type), updates=updated is not None)

    def change(batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.set_column(2, "v", pa.array([updated] * batch.num_rows, pa.string()))

    messages = in_process(job, None if updated is None else change)
    committed = Committer(handle, "us").commit(messages, planned_on=PlannedOn.of(job.base))
    assert committed.snapshots


def ours(path: Path) -> list[dict[str, Any]]:
    return rows_of(paimon_spark.load_table(str(path)).scan().to_arrow())


def made(path: Path, options: dict[str, str]) -> None:
    """Our table with 12 rows in two commits."""
    options = dict(options)
    keys, partition = options.pop("primary-key", None), options.pop("partition", None)
    store, root = open_store(str(path))
    create_table(
        store,
        root,
        RowType(False, (DataField(0, "k", BIGINT), DataField(1, "p", STRING), DataField(2, "v", STRING))),
        [keys] if keys else [],
        [partition] if partition else [],
        options,
    )
    for first in (0, 6):
        paimon_spark.load_table(str(path)).write(rows(first, 6))


@pytest.mark.parametrize("kind", KINDS)
def test_java_reads_what_we_left_and_goes_on(kind: str, java: JavaPaimon, tmp_path: Path) -> None:
    path = tmp_path / kind
    made(path, KINDS[kind])

    def agree(count: int, about: str) -> None:
        found = ours(path)
        assert len(found) == count, about
        assert_same_rows(java.call("read", path=str(path))["rows"], found, about=about)

    agree(12, "as written")
    delete(path, "k = 1 OR k = 8")
    agree(10, "after our delete")
    delete(path, "k < 3", updated="new")
    agree(10, "after our update")
    assert sum(row["v"] == "new" for row in ours(path)) == 2
    delete(path, "p = 'p1' AND k > 4")
    agree(6, "after our delete of many")
    java.call("write", path=str(path), rows=[[20, "p0", "java"], [21, "p1", "java"]])
    agree(8, "after Java's write")
    if "deletion-vectors.enabled" in KINDS[kind]:
        if "bucket" not in KINDS[kind]:
            java.call("deleteRows", path=str(path), column="k", values=[4, 20])
            agree(6, "after Java's delete")
        else:
            delete(path, "k = 4 OR k = 20")
    else:
        delete(path, "k IN (4, 20)")
    agree(6, "after the next delete")
    java.call("compact", path=str(path), full=True)
    agree(6, "after Java's compaction")
    delete(path, "k = 0 OR k = 21")
    agree(4, "after our last delete")
    java.call("write", path=str(path), rows=[[30, "p0", "java"]])
    agree(5, "after Java's last write")


def test_java_finds_rows_with_the_ids_they_had(java: JavaPaimon, tmp_path: Path) -> None:
    path = tmp_path / "ids"
    made(path, {"row-tracking.enabled": "true"})

    def agree() -> dict[int, int]:
        theirs = java.call("read", path=str(path), rowTracking=True)["rows"]
        columns = ["k", "p", "v", "_ROW_ID", "_SEQUENCE_NUMBER"]
        found = rows_of(paimon_spark.load_table(str(path)).scan(columns=columns).to_arrow())
        assert_same_rows(theirs, found)
        return {row["k"]: row["_ROW_ID"] for row in found}

    agree()
    delete(path, "k = 1 OR k = 8")
    assert agree() == {k: k for k in range(12) if k not in (1, 8)}
    java.call("write", path=str(path), rows=[[20, "p0", "java"]])
    delete(path, "k = 3")
    java.call("compact", path=str(path), full=True)
    delete(path, "k = 4")
    assert agree() == {**{k: k for k in range(12) if k not in (1, 3, 4, 8)}, 20: 12}


def test_pypaimon_reads_what_we_left_and_goes_on(tmp_path: Path) -> None:
    left = {}
    for kind in KINDS.keys() - PYPAIMON_CANNOT:
        path = tmp_path / "db.db" / kind
        made(path, KINDS[kind])
        delete(path, "k = 1 OR k = 8")
        delete(path, "k < 3", updated="new")
        delete(path, "p = 'p1' AND k > 4")
        left[kind] = ours(path)
        assert len(left[kind]) == 6
    for kind, reply in pypaimon("pypaimon_guest", str(tmp_path), *left).items():
        for when in ("before", "after"):
            assert "error" not in reply[when], f"{kind}, {when}: {reply[when]['error']}"
        assert_same_rows(left[kind], reply["before"]["rows"], about=kind)
        assert_same_rows(reply["after"]["rows"], ours(tmp_path / "db.db" / kind), about=kind)


@pytest.mark.parametrize("kind", ["rewrite", "vectors", "keys"])
def test_java_reads_a_table_beside_a_fallback_branch_as_our_deletes_left_it(
    kind: str, java: JavaPaimon, tmp_path: Path
) -> None:
    options = dict(KINDS[kind])
    keys = ["k", "p"] if options.pop("primary-key", None) else []
    path = str(tmp_path / "t")
    fields = [["k", "BIGINT NOT NULL"], ["p", "STRING NOT NULL"]]
    java.call("createTable", path=path, fields=fields, pk=keys, partition=["p"], tableOptions=options, comment="")
    java.call("write", path=path, rows=[[1, "x"], [2, "x"], [3, "m"]])
    paimon_spark.load_table(path).create_branch("b", empty=True)
    table = paimon_spark.load_table(path)
    java.call("write", path=path, branch="b", rows=[[10, "x"], [20, "y"], [21, "y"]])
    table.alter(set_options={"scan.fallback-branch": "b"})
    table = paimon_spark.load_table(path)

    def seen() -> list[int]:
        found = sorted(r["k"] for r in java.call("read", path=path)["rows"])
        assert sorted(r["k"] for r in ours(Path(path))) == found
        return found

    assert seen() == [1, 2, 3, 20, 21]
    for where in ("k = 20", "p = 'y'", "p = 'x'", "k < 3", "true"):
        with pytest.raises(UnsupportedFeatureError, match="nothing was changed"):
            table.delete(where)
    with pytest.raises(UnsupportedFeatureError, match="nothing was changed"):
        table.drop_partitions([{"p": "x"}])
    table.delete("k = 1 or k = 3")
    assert seen() == [2, 20, 21]
    java.call("compact", path=path, full=True)
    assert seen() == [2, 20, 21]
    table.branch("b").delete("k = 20")
    assert seen() == [2, 21]


KEEPING: dict[str, dict[str, str]] = {
    "first-row": {"merge-engine": "first-row"},
    "partial-update": {"merge-engine": "partial-update"},
    "partial-update with vectors": {"merge-engine": "partial-update", **VECTORS},
    "aggregation": {"merge-engine": "aggregation", "fields.v.aggregate-function": "last_value"},
}


@pytest.mark.parametrize("kind", KEEPING)
def test_rows_that_the_merge_engine_keeps_are_gone_for_java_too(java: JavaPaimon, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "t"
    made(path, {"primary-key": "k", "bucket": "2", **KEEPING[kind]})
    table = paimon_spark.load_table(str(path))
    table.write(rows(0, 12))
    table.compact(full=True)
    delete(path, "k >= 9 OR k = 3")
    left = [k for k in range(9) if k != 3]
    assert sorted(r["k"] for r in ours(path)) == left
    assert sorted(r["k"] for r in java.call("read", path=str(path))["rows"]) == left
    java.call("write", path=str(path), rows=[[3, "p1", "back"], [4, "p0", "again"]])
    java.call("compact", path=str(path), full=True)
    found = {r["k"]: r["v"] for r in java.call("read", path=str(path))["rows"]}
    assert sorted(found) == sorted([*left, 3])
    assert (found[3], found[4]) == ("back", "v4" if kind == "first-row" else "again")
    assert {r["k"]: r["v"] for r in ours(path)} == found
