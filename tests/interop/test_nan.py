"""NaN, infinities and both zeros under conditions: we read what others wrote, and others what we wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark.api.table import Table
from tests.interop.java_paimon import JavaPaimon
from tests.interop.pypaimon_peer import PyPaimon

pytestmark = pytest.mark.interop

NAN, INF = "NaN", "Infinity"
VALUES: list[Any] = [1.0, 2.5, NAN, None, -0.0, 3.0, INF, "-Infinity", NAN]
WRITES = ((0, 3), (3, 6), (6, 9))
KINDS: dict[str, dict[str, Any]] = {
    **{name: {"tableOptions": {"file.format": name}} for name in ("parquet", "orc", "avro")},
    "small groups": {"tableOptions": {"parquet.block.size": "1"}},
    "buckets": {"tableOptions": {"bucket": "4", "bucket-key": "x"}},
    "partitions": {"partition": ["x"]},
    "keys": {"pk": ["x"], "tableOptions": {"bucket": "2"}},
    "values": {"pk": ["id"], "tableOptions": {"bucket": "1"}},
    "vectors": {"pk": ["id"], "tableOptions": {"bucket": "1", "deletion-vectors.enabled": "true"}},
}
# Java tells the zeros apart, so no literal is a zero whose sign decides.
CONDITIONS: dict[str, tuple[list[Any], set[int]]] = {
    "x > 10": ([">", "x", 10.0], {2, 6, 8}),
    "x >= 2.5": ([">=", "x", 2.5], {1, 2, 5, 6, 8}),
    "x < 1": (["<", "x", 1.0], {4, 7}),
    "x <= 1": (["<=", "x", 1.0], {0, 4, 7}),
    "x > 0.0D": ([">", "x", 0.0], {0, 1, 2, 5, 6, 8}),
    "x <> 1": (["<>", "x", 1.0], {1, 2, 4, 5, 6, 7, 8}),
    "x = double('NaN')": (["=", "x", NAN], {2, 8}),
    "x <> double('NaN')": (["<>", "x", NAN], {0, 1, 4, 5, 6, 7}),
    "x >= double('NaN')": ([">=", "x", NAN], {2, 8}),
    "x < double('NaN')": (["<", "x", NAN], {0, 1, 4, 5, 6, 7}),
    "x IN (double('NaN'), 1)": (["in", "x", NAN, 1.0], {0, 2, 8}),
    "x NOT IN (double('NaN'), 1)": (["not in", "x", NAN, 1.0], {1, 4, 5, 6, 7}),
    "x BETWEEN 2 AND double('Infinity')": (["between", "x", 2.0, INF], {1, 5, 6}),
    "x = double('Infinity')": (["=", "x", INF], {6}),
    "x > double('Infinity')": ([">", "x", INF], {2, 8}),
    "x <= -double('Infinity')": (["<=", "x", "-Infinity"], {7}),
    "x IS NULL": (["is null", "x"], {3}),
}


def wanted(kind: str, ids: set[int]) -> set[int]:
    """The rows that are left of `ids`: with keys NaN is there once, and null is not."""
    return ids - {2, 3} if kind == "keys" else ids


def rows(kind: str) -> list[list[list[Any]]]:
    numbered = [[i, v] for i, v in enumerate(VALUES)]
    return [[r for r in numbered[a:b] if kind != "keys" or r[1] is not None] for a, b in WRITES]


def ours(kind: str, type_: str, root: Path) -> Table:
    given = KINDS[kind]
    catalog = paimon_spark.load_catalog(str(root))
    catalog.create_database("db")
    schema = pa.schema([("id", pa.int32()), ("x", pa.float32() if type_ == "FLOAT" else pa.float64())])
    table = catalog.create_table(
        "db.ours",
        schema,
        primary_keys=given.get("pk", ()),
        partition_keys=given.get("partition", ()),
        options=given.get("tableOptions"),
    )
    for part in rows(kind):
        columns = zip(*part, strict=True)
        ids, values = (list(c) for c in columns)
        numbers = [v if v is None else float(v) for v in values]
        table.write(pa.table([pa.array(ids, schema[0].type), pa.array(numbers, schema[1].type)], schema=schema))
    return table


def local(table: Table) -> str:
    return table.location.removeprefix("file://")


def java_table(kind: str, type_: str, root: Path, java: JavaPaimon) -> str:
    path = str(root / "db.db" / "theirs")
    given = {"pk": [], "partition": [], "tableOptions": {}, **KINDS[kind]}
    java.call("createTable", path=path, fields=[["id", "INT"], ["x", type_]], **given)
    for part in rows(kind):
        java.call("write", path=path, rows=part)
    return path


@pytest.mark.parametrize("type_", ["FLOAT", "DOUBLE"])
@pytest.mark.parametrize("kind", KINDS)
def test_we_find_what_java_wrote(kind: str, type_: str, java: JavaPaimon, tmp_path: Path) -> None:
    table = paimon_spark.load_table(java_table(kind, type_, tmp_path, java))
    found = {w: set(table.scan(where=w).to_arrow().column("id").to_pylist()) for w in CONDITIONS}
    assert found == {w: wanted(kind, ids) for w, (_, ids) in CONDITIONS.items()}


@pytest.mark.parametrize("type_", ["FLOAT", "DOUBLE"])
@pytest.mark.parametrize("kind", KINDS)
def test_java_finds_what_we_wrote(kind: str, type_: str, java: JavaPaimon, tmp_path: Path) -> None:
    path = local(ours(kind, type_, tmp_path))
    found = {}
    for where, (predicate, _) in CONDITIONS.items():
        found[where] = {row["id"] for row in java.call("read", path=path, where=predicate)["rows"]}
    assert found == {w: wanted(kind, ids) for w, (_, ids) in CONDITIONS.items()}


@pytest.mark.parametrize("kind", ["parquet", "orc", "avro", "buckets", "values"])
def test_we_find_what_pypaimon_wrote_and_it_reads_what_we_wrote(kind: str, py: PyPaimon, tmp_path: Path) -> None:
    table = ours(kind, "DOUBLE", tmp_path)
    every = [[i, v] for i, v in enumerate(VALUES)]
    read = py.call("read", path=local(table))["rows"]
    assert sorted(map(repr, ([r["id"], r["x"]] for r in read))) == sorted(map(repr, every))
    definition = table.schema
    catalog = paimon_spark.load_catalog(str(tmp_path))
    theirs = catalog.create_table(
        "db.theirs",
        pa.schema([("id", pa.int32()), ("x", pa.float64())]),
        primary_keys=definition.primary_keys,
        partition_keys=(),
        options=definition.options,
    )
    for part in rows(kind):
        numbers = [[i, v if v is None else float(v)] for i, v in part]
        py.call("write", path=local(theirs), rows=numbers)
    theirs = catalog.table("db.theirs")
    found = {w: set(theirs.scan(where=w).to_arrow().column("id").to_pylist()) for w in CONDITIONS}
    assert found == {w: ids for w, (_, ids) in CONDITIONS.items()}
