"""Keys of type CHAR(n) that Java wrote, short or filled up with spaces, then written again by us: one row for each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_spark
from tests.interop.connector import Connector
from tests.interop.java_paimon import JavaPaimon
from tests.interop.table_script import delete

pytestmark = pytest.mark.interop

TEXTS = ("ab", "c", "def", "klmno")
OPTIONS: dict[str, dict[str, str]] = {
    "one_bucket": {"bucket": "1"},
    "buckets": {"bucket": "4"},
    "dynamic": {"bucket": "-1"},
    "partial_update": {"bucket": "2", "merge-engine": "partial-update", "ignore-delete": "true"},
    "orc": {"bucket": "4", "file.format": "orc"},
    "avro": {"bucket": "2", "file.format": "avro"},
}


@pytest.mark.parametrize("kind", OPTIONS)
@pytest.mark.parametrize("width", [0, 5], ids=["short", "padded"])
@pytest.mark.parametrize("partitioned", [False, True])
def test_keys_of_java_are_written_again(
    kind: str, width: int, partitioned: bool, java: JavaPaimon, tmp_path: Path
) -> None:
    path = str(tmp_path / "t")
    pk = ["c", "p"] if partitioned else ["c"]
    fields = [["c", "CHAR(5) NOT NULL"], ["v", "INT"], ["p", "CHAR(3) NOT NULL"]]
    partition = ["p"] if partitioned else []
    java.call(
        "createTable", path=path, fields=fields, pk=pk, partition=partition, tableOptions=OPTIONS[kind], comment=""
    )
    held = [t.ljust(width) for t in TEXTS]
    p = "x  " if width else "x"
    java.call("write", path=path, rows=[[t, 1, p] for t in held])
    if kind == "orc":
        java.call("compact", path=path, full=True)  # whose reads of ORC cut the spaces
    table = paimon_spark.load_table(path)
    table.write(rows(TEXTS[:3], 2))
    java.call("write", path=path, rows=[[held[2], 3, p]])
    want = [("ab", 2), ("c", 2), ("def", 3), ("klmno", 1)]
    if kind != "partial_update":
        table.delete("v = 1")
        java.call("write", path=path, rows=[delete(held[1], None, p)])
        want = [("ab", 2), ("def", 3)]
    found: list[dict[str, Any]] = java.call("read", path=path)["rows"]
    assert sorted((r["c"].rstrip(), r["v"]) for r in found) == want
    ours = table.scan().to_arrow().to_pylist()
    assert sorted((r["c"], r["v"], r["p"]) for r in ours) == sorted((r["c"], r["v"], r["p"]) for r in found)


def test_keys_that_the_spark_connector_filled_up_are_written_again(connector: Connector, tmp_path: Path) -> None:
    (tmp_path / "db.db").mkdir()
    create = "CREATE TABLE paimon.db.t (c CHAR(5), v INT) TBLPROPERTIES ('primary-key' = 'c', 'bucket' = '3')"
    insert = "INSERT INTO paimon.db.t VALUES ('ab', 1), ('c', 1), ('def', 1)"
    assert connector.rows({"paimon": tmp_path}, [create, insert]) == [[], []]
    table = paimon_spark.load_table(str(tmp_path / "db.db" / "t"))
    assert table.scan(columns=["c"]).to_arrow().column(0).to_pylist()[0].endswith(" ")
    table.write(pa.table({"c": ["ab", "c"], "v": pa.array([2, 2], pa.int32())}))
    [found] = connector.rows({"paimon": tmp_path}, ["SELECT trim(c), v FROM paimon.db.t ORDER BY c"])
    assert found == [["ab", 2], ["c", 2], ["def", 1]]


def rows(texts: tuple[str, ...], v: int) -> pa.Table:
    return pa.table({"c": list(texts), "v": pa.array([v] * len(texts), pa.int32()), "p": ["x"] * len(texts)})
