"""Row-level changes of tables with row tracking and data evolution: Java does the same, reads ours and goes on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark.engine.commit.committer import Committer
from paimon_spark.engine.commit.requests import PlannedOn
from paimon_spark.engine.row_level.job import in_process, plan_rows
from paimon_spark.metadata.definition.create import create_table
from paimon_spark.metadata.handle import open_table
from paimon_spark.predicate.parse import parse_predicate
from paimon_spark.storage.urls import open_store
from paimon_spark.types import BIGINT, STRING, DataField, RowType, parse_type
from tests.harness.rows import assert_same_rows, rows_of
from tests.interop.conftest import pypaimon
from tests.interop.java_paimon import JavaPaimon

pytestmark = pytest.mark.interop

TRACKED = {"row-tracking.enabled": "true"}
EVOLUTION = {**TRACKED, "data-evolution.enabled": "true"}
VECTORS = {"deletion-vectors.enabled": "true"}
KINDS: dict[str, dict[str, str]] = {
    "row_ids": TRACKED,
    "row_ids_partitioned": {**TRACKED, "partition": "p"},
    "row_ids_vectors": {**TRACKED, **VECTORS},
    "evolution": {**EVOLUTION, **VECTORS},
    "evolution_64": {**EVOLUTION, **VECTORS, "deletion-vectors.bitmap64": "true"},
    "evolution_partitioned": {**EVOLUTION, **VECTORS, "partition": "p"},
    "evolution_orc": {**EVOLUTION, **VECTORS, "file.format": "orc"},
}
COLUMNS = ("k", "p", "v", "t", "_ROW_ID", "_SEQUENCE_NUMBER")
MOMENT = "2024-05-06T07:08:09.123456789"


def made(path: Path, options: dict[str, str]) -> None:
    """A table with 12 rows in two commits."""
    options = dict(options)
    partition = options.pop("partition", None)
    store, root = open_store(str(path))
    fields = tuple(
        DataField(i, name, kind)
        for i, (name, kind) in enumerate(
            {"k": BIGINT, "p": STRING, "v": STRING, "t": parse_type("TIMESTAMP(9)")}.items()
        )
    )
    create_table(store, root, RowType(False, fields), [], [partition] if partition else [], options)
    for first in (0, 6):
        numbers = range(first, first + 6)
        moments = [1_700_000_000_123_456_789 + n for n in numbers]
        paimon_spark.load_table(str(path)).write(
            pa.table(
                {
                    "k": pa.array(numbers, pa.int64()),
                    "p": [f"p{n % 2}" for n in numbers],
                    "v": [f"v{n}" for n in numbers],
                    "t": pa.array(moments, pa.timestamp("ns")),
                }
            )
        )


def change(path: Path, keys: Sequence[int], v: str | None = None) -> None:
    """Delete rows, or set their column v."""
    handle = open_table(*open_store(str(path)))
    where = " OR ".join(f"k = {k}" for k in keys)
    job = plan_rows(handle, parse_predicate(where, handle.schema.row_type), updates=v is not None)

    def changed(batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.set_column(2, "v", pa.array([v] * batch.num_rows, pa.string()))

    messages = in_process(job, None if v is None else changed)
    assert Committer(handle, "us").commit(messages, planned_on=PlannedOn.of(job.base, must_remain=True)).snapshots


def ours(path: Path) -> list[dict[str, Any]]:
    return rows_of(paimon_spark.load_table(str(path)).scan(columns=COLUMNS).to_arrow())


@pytest.mark.parametrize("kind", KINDS)
def test_java_reads_what_we_changed_and_goes_on(kind: str, java: JavaPaimon, tmp_path: Path) -> None:
    path = tmp_path / kind
    made(path, KINDS[kind])
    evolves = kind.startswith("evolution")

    def agree(about: str, **v: str | None) -> dict[int, int]:
        found = ours(path)
        assert_same_rows(java.call("read", path=str(path), rowTracking=True)["rows"], found, about=about)
        values = {f"k{r['k']}": r["v"] for r in found}
        assert {n: values[n] for n in v} == v, about
        return {r["k"]: r["_ROW_ID"] for r in found}

    before = agree("as written")
    change(path, [1, 8], "new")
    assert agree("after our update", k1="new", k8="new") == before
    change(path, [2, 7])
    del before[2], before[7]
    assert agree("after our delete") == before
    if "vectors" not in kind:
        java.call("updateRows", path=str(path), column="k", values=[3, 8], set={"v": "java"})
        assert agree("after Java's update", k3="java", k8="java", k1="new") == before
        change(path, [8, 9], "ours")
        assert agree("after our next update", k8="ours", k9="ours", k3="java") == before
    java.call("compact", path=str(path))
    assert agree("after Java's compaction") == before
    java.call("write", path=str(path), rows=[[20, "p0", "java", MOMENT]])
    change(path, [20, 0], "last")
    before[20] = agree("after our last update", k20="last", k0="last")[20]
    paimon_spark.load_table(str(path)).compact(full=True)
    assert agree("after our compaction", k20="last", k0="last") == before
    if evolves:
        java.call("updateRows", path=str(path), column="k", values=[5], set={"v": None})
        assert agree("after Java's last update", k5=None) == before
    java.call("compact", path=str(path))
    change(path, [5])
    del before[5]
    assert agree("at the end") == before


@pytest.mark.parametrize("kind", [k for k in KINDS if "vectors" not in k])
def test_the_same_statements_give_rows_the_ids_that_java_gives(kind: str, java: JavaPaimon, tmp_path: Path) -> None:
    mine, theirs = tmp_path / "ours", tmp_path / "theirs"
    for path in (mine, theirs):
        made(path, KINDS[kind])
        for k in (20, 21):
            java.call("write", path=str(path), rows=[[k, "p0", "java", MOMENT]])
    for keys, v in (([1, 8], "new"), ([0, 20], None), ([1], "newer"), ([4, 21], "last")):
        change(mine, keys, v)
        if v is not None:
            java.call("updateRows", path=str(theirs), column="k", values=keys, set={"v": v})
        else:
            change(theirs, keys)  # Java's DELETE is a job of Spark's
        assert_same_rows(java.call("read", path=str(theirs), rowTracking=True)["rows"], ours(mine), about=str(keys))
    paimon_spark.load_table(str(mine)).compact(full=True)
    java.call("compact", path=str(theirs))
    assert_same_rows(java.call("read", path=str(theirs), rowTracking=True)["rows"], ours(mine), about="compacted")


def test_pypaimon_reads_what_we_changed_and_goes_on(tmp_path: Path) -> None:
    left = {}
    for kind in KINDS.keys() - {"evolution_64"}:  # it reads 32-bit vectors only
        path = tmp_path / "db.db" / kind
        made(path, KINDS[kind])
        change(path, [1, 8], "new")
        change(path, [2, 7])
        change(path, [3], "newer")
        paimon_spark.load_table(str(path)).compact(full=True)
        change(path, [3, 9], "newest")
        left[kind] = rows_of(paimon_spark.load_table(str(path)).scan().to_arrow())
        assert len(left[kind]) == 10
    for kind, reply in pypaimon("pypaimon_guest", str(tmp_path), *left).items():
        for when in ("before", "after"):
            assert "error" not in reply[when], f"{kind}, {when}: {reply[when]['error']}"
        assert_same_rows(left[kind], reply["before"]["rows"], about=kind)
        found = rows_of(paimon_spark.load_table(str(tmp_path / "db.db" / kind)).scan().to_arrow())
        assert_same_rows(reply["after"]["rows"], found, about=kind)
