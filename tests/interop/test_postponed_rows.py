"""Rows that wait in the postponed bucket: Java merges them on read as this package does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_spark
from tests.interop.java_paimon import JavaPaimon
from tests.interop.table_script import delete

pytestmark = pytest.mark.interop

FIELDS = [["p", "STRING NOT NULL"], ["k", "BIGINT NOT NULL"], ["v", "INT"], ["s", "INT"]]
ENGINES: dict[str, dict[str, str]] = {
    "deduplicate": {},
    "sequence": {"sequence.field": "s"},
    "partial_update": {
        "merge-engine": "partial-update",
        "fields.s.sequence-group": "v",
        "fields.v.aggregate-function": "sum",
    },
    "aggregation": {
        "merge-engine": "aggregation",
        "fields.v.aggregate-function": "sum",
        "sequence.field": "s",
    },
    "first_row": {"merge-engine": "first-row"},
    "vectors": {"deletion-vectors.enabled": "true"},
}


@pytest.mark.parametrize("engine", ENGINES)
def test_java_merges_waiting_rows_alike(engine: str, java: JavaPaimon, tmp_path: Path) -> None:
    path = str(tmp_path / engine)
    options = {"bucket": "-2", "postpone.merge-on-read": "true", "source.split.target-size": "1 gb", **ENGINES[engine]}
    java.call("createTable", path=path, fields=FIELDS, pk=["p", "k"], partition=["p"], tableOptions=options)
    retracts = engine in ("deduplicate", "sequence", "aggregation", "vectors")

    def step(number: int) -> None:
        rows: list[Any] = [["a" if k % 3 else "b", k, 10 * number + k, (7 * k * number) % 5] for k in range(12)]
        rows += [["a", 1, None, 9 - number], ["c" if number else "a", 1, number, None]]
        java.call("write", path=path, rows=rows[number:])
        if retracts:
            gone = delete("a", 4 + number, 1, 9)
            java.call("write", path=path, rows=[gone, ["b", 3 * number, number, 3]])

    def check() -> None:
        table = paimon_spark.load_table(path)
        for where, tree in (
            (None, None),
            ("k = 3", ["=", "k", 3]),
            ("p = 'a' AND k > 5", ["and", ["=", "p", "a"], [">", "k", 5]]),
        ):
            ours = sorted((tuple(r.values()) for r in table.scan(where=where).to_arrow().to_pylist()), key=repr)
            reply = java.call("read", path=path, postponed=True, **({} if tree is None else {"where": tree}))
            javas = [tuple(r[f[0]] for f in FIELDS) for r in reply["rows"]]
            if where is not None:  # Java leaves the rest of the condition to the engine
                chosen = {r[:2] for r in ours}
                javas = [r for r in javas if r[:2] in chosen]
            assert ours == sorted(javas, key=repr), where
            assert ours

    step(0)
    check()
    java.call("compact", path=path, buckets=3)
    step(1)
    check()
    ours = pa.Table.from_pylist(
        [{"p": "a", "k": k, "v": k, "s": 2} for k in (1, 100)],
        schema=pa.schema(
            [
                pa.field("p", pa.string()),
                pa.field("k", pa.int64()),
                pa.field("v", pa.int32()),
                pa.field("s", pa.int32()),
            ]
        ),
    )
    paimon_spark.load_table(path).write(ours)
    check()
    step(2)
    check()


def test_java_reads_and_compacts_rows_that_were_put_into_buckets_at_once(java: JavaPaimon, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    options = {"bucket": "-2", "postpone.default-bucket-num": "3"}
    java.call("createTable", path=path, fields=FIELDS, pk=["p", "k"], partition=["p"], tableOptions=options)
    table = paimon_spark.load_table(path)
    schema = pa.schema(
        [pa.field(n, t) for n, t in zip("pkvs", (pa.string(), pa.int64(), pa.int32(), pa.int32()), strict=True)]
    )

    def write(rows: list[tuple[Any, ...]]) -> None:
        table.write(pa.Table.from_pylist([dict(zip("pkvs", r, strict=True)) for r in rows], schema=schema))

    def check(expected: dict[tuple[str, int], int]) -> None:
        ours = {(r["p"], r["k"]): r["v"] for r in table.scan().to_arrow().to_pylist()}
        javas = {(r["p"], r["k"]): r["v"] for r in java.call("read", path=path)["rows"]}
        assert ours == javas == expected

    expected = {(p, k): k for p in "ab" for k in range(20)}
    write([(*key, v, 0) for key, v in expected.items()])
    check(expected)
    files = java.call("files", path=path)["files"]
    assert {f["bucket"] for f in files} == {0, 1, 2}
    java.call("write", path=path, rows=[["a", 1, 100, 0]])  # waits
    write([("a", 1, 101, 0), ("b", 1, 101, 0)])  # the first waits after it
    expected["b", 1] = 101
    check(expected)
    java.call("compact", path=path, buckets=3)
    expected["a", 1] = 101
    check(expected)
    write([("a", 1, 102, 0), ("c", 1, 1, 0)])
    expected.update({("a", 1): 102, ("c", 1): 1})
    check(expected)
