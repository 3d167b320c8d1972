"""`full-compaction.delta-commits`: what our writes and Java's, each followed by a full compaction, tell streams."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark.format.metadata_files.snapshot import CommitKind
from paimon_spark.metadata.snapshots import find_snapshot
from tests.harness.keywords import keywords
from tests.interop import our_hand
from tests.interop.java_paimon import JavaPaimon
from tests.interop.table_script import Row, delete

pytestmark = pytest.mark.interop

ENGINES: dict[str, dict[str, str]] = {
    "deduplicate": {},
    "without_same_rows": {"changelog-producer.row-deduplicate": "true"},
    "partial_update": {"merge-engine": "partial-update", "ignore-delete": "true"},
    "sum": {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"},
    "dynamic": {"bucket": "-1"},
}


def some_rows(dice: random.Random, deletes: bool) -> list[Row]:
    rows: list[Row] = []
    for k in dice.sample(range(12), dice.randint(1, 8)):
        values = [k, "xy"[k % 2], dice.choice([None, 1, 2])]
        rows.append(delete(*values) if deletes and dice.random() < 0.3 else values)
    return rows


def seen(java: JavaPaimon, path: str) -> list[list[tuple[Any, ...]]]:
    """The changes that Java streams, of each snapshot that has any."""
    changes = java.call("changes", path=path)["changes"]
    return [
        sorted((tuple(r.values()) for r in rows), key=str)
        for _, rows in sorted(changes.items(), key=lambda item: int(item[0]))
        if rows
    ]


@pytest.mark.parametrize("engine", ENGINES)
def test_streams_see_the_same_changes(engine: str, java: JavaPaimon, tmp_path: Path) -> None:
    dice = random.Random(engine)
    given = {
        "bucket": "2",
        "changelog-producer": "full-compaction",
        "full-compaction.delta-commits": "1",
        **ENGINES[engine],
    }
    ours, theirs = str(tmp_path / "ours"), str(tmp_path / "theirs")
    for path in (ours, theirs):
        java.call(
            "createTable",
            path=path,
            fields=[["k", "INT NOT NULL"], ["dt", "STRING NOT NULL"], ["v", "INT"]],
            pk=["k", "dt"],
            partition=["dt"],
            tableOptions=given,
            comment="",
        )
    for identifier in range(1, 7):
        rows = some_rows(dice, deletes=engine not in ("partial_update", "sum"))
        our_hand.write({"rows": rows}, ours)
        java.call("write", path=theirs, rows=rows, identifier=identifier)
        java.call("compact", path=theirs, full=True)
    changes = seen(java, ours)
    assert changes == seen(java, theirs)
    assert len(changes) >= 5 and any(row[-1] == "-U" for rows in changes for row in rows)
    table = paimon_spark.load_table(ours)
    kinds = [s.commit_kind for i in range(1, 13) if (s := find_snapshot(table.handle, i)) is not None]
    assert kinds == [CommitKind.APPEND, CommitKind.COMPACT] * 6
    expected = sorted((tuple(r.values()) for r in java.call("read", path=theirs)["rows"]), key=str)
    got: pa.Table = table.scan().to_arrow()
    assert sorted((tuple(r.values()) for r in got.to_pylist()), key=str) == expected


@pytest.mark.parametrize("producer", ["lookup", "full-compaction"])
def test_maps_whose_entries_come_in_another_order_are_the_same_changes(
    producer: str, java: JavaPaimon, tmp_path: Path
) -> None:
    options = {"bucket": "1", "changelog-producer": producer}
    options["changelog-producer.row-deduplicate"] = "true"
    ours, theirs = str(tmp_path / "ours"), str(tmp_path / "theirs")
    fields = [["k", "INT NOT NULL"], ["m", {"type": "MAP", "key": "STRING", "value": "DOUBLE"}], ["x", "DOUBLE"]]
    for path in (ours, theirs):
        java.call("createTable", path=path, fields=fields, pk=["k"], partition=[], tableOptions=options, comment="")
    source = pa.schema([("k", pa.int32()), ("m", pa.map_(pa.string(), pa.float64())), ("x", pa.float64())])
    nan, one, two = float("nan"), [("a", 1.0), ("b", float("nan"))], [("b", float("nan")), ("a", 1.0)]
    for m, x in ((one, nan), (two, nan), (one, 0.0), (two, -0.0), ([("a", 1.0)], -0.0), (two[1:], -0.0)):
        rows = pa.Table.from_pylist([{"k": 1, "m": m, "x": x}], schema=source)
        for path in (ours, theirs):
            paimon_spark.load_table(path).write(rows, **keywords({"write-only": True}))
        paimon_spark.load_table(ours).compact(full=True)
        java.call("compact", path=theirs, full=True)
    changes = seen(java, ours)
    assert [[str(v) for v in row] for rows in changes for row in rows] == [
        [str(v) for v in row] for rows in seen(java, theirs) for row in rows
    ]
    assert [len(rows) for rows in changes] == [1, 2, 2, 2]
