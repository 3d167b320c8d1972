"""Partitions of FLOAT and DOUBLE, and casts of them to text, at the ends of the range and at random bits.

Java's text of such a number depends on the JDK: before 19, which the peer may be, it has more digits at times.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark.api.table import Table
from paimon_spark.format.casts.text import float_of_text
from tests.harness.java_vectors import float_texts
from tests.harness.rows import assert_same_rows, rows_of
from tests.interop.java_paimon import JavaPaimon
from tests.interop.pypaimon_peer import PyPaimon

pytestmark = pytest.mark.interop

KINDS: dict[str, dict[str, Any]] = {
    "append": {"pk": []},
    "keys": {"pk": ["k", "f"], "tableOptions": {"bucket": "1", "partition.legacy-name": "false"}},
    "vectors": {
        "pk": ["k", "f"],
        "tableOptions": {
            "bucket": "1", "deletion-vectors.enabled": "true", "index-file-in-data-file-dir": "true",
        },
    },
}  # fmt: skip


def numbers(name: str, *, count: int = 40) -> list[Any]:
    """Those that JDKs print differently first."""
    found = float_texts(name)
    order = sorted(range(len(found.numbers)), key=lambda i: found.jdk_17[i] == found.jdk_25[i])
    chosen = {found.jdk_25[i]: found.numbers[i] for i in [*order[:count], *range(0, len(order), len(order) // count)]}
    ends = {"0.0": 0.0, "-0.0": -0.0, "Infinity": np.inf, "-Infinity": -np.inf, "NaN": np.nan}
    return [float(number) for number in {**chosen, **ends}.values()]


def shown(number: float) -> Any:
    """A number as calls of Java take it."""
    return number if np.isfinite(number) else "NaN" if np.isnan(number) else "Infinity" if number > 0 else "-Infinity"


def agree(table: Table, java: JavaPaimon, count: int) -> None:
    ours = rows_of(paimon_spark.load_table(table.location).scan().to_arrow())
    assert len(ours) == count
    assert_same_rows(java.call("read", path=table.location.removeprefix("file://"))["rows"], ours, about=table.location)


def directories(path: Path) -> set[str]:
    return {p.name for p in path.glob("f=*")}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["FLOAT", "DOUBLE"])
def test_partitions_of_java_are_read_and_extended_and_java_goes_on(
    name: str, kind: str, java: JavaPaimon, tmp_path: Path
) -> None:
    path, found = tmp_path / "t", numbers(name)
    fields = [["k", "BIGINT NOT NULL"], ["f", f"{name} NOT NULL"]]
    java.call("createTable", path=str(path), fields=fields, partition=["f"], **KINDS[kind])
    java.call("write", path=str(path), rows=[[k, shown(f)] for k, f in enumerate(found)])
    table = paimon_spark.load_table(str(path))
    agree(table, java, len(found))

    there = directories(path)
    assert len(there) == len(found)
    kind_of = pa.float32() if name == "FLOAT" else pa.float64()
    keys = pa.array(range(1000, 1000 + len(found)), pa.int64())
    table.write(pa.table({"k": keys, "f": pa.array(found, kind_of)}))
    assert directories(path) == there
    agree(table, java, 2 * len(found))
    table.delete("k IN (0, 3, 1005, 1007)")
    agree(table, java, 2 * len(found) - 4)
    table.compact(full=True)
    agree(table, java, 2 * len(found) - 4)
    assert directories(path) == there
    java.call("write", path=str(path), rows=[[k + 2000, shown(f)] for k, f in enumerate(found)])
    agree(table, java, 3 * len(found) - 4)
    assert directories(path) == there


def test_casts_to_text_are_those_of_java(java: JavaPaimon, tmp_path: Path) -> None:
    path = tmp_path / "t"
    floats, doubles = numbers("FLOAT", count=200), numbers("DOUBLE", count=200)
    count = min(len(floats), len(doubles))
    fields = [["k", "INT"], ["f", "FLOAT"], ["d", "DOUBLE"]]
    java.call("createTable", path=str(path), fields=fields, pk=[])
    rows = [[k, shown(floats[k]), shown(doubles[k])] for k in range(count)]
    java.call("write", path=str(path), rows=rows)
    changes = [{"do": "retype", "name": name, "type": "STRING"} for name in ("f", "d")]
    java.call("alter", path=str(path), changes=changes)
    theirs = sorted(java.call("read", path=str(path))["rows"], key=lambda r: int(r["k"]))
    ours = paimon_spark.load_table(str(path)).scan().to_arrow().sort_by("k").to_pylist()
    assert len(ours) == len(theirs) == count
    texts = {**_of_jdk_17("FLOAT"), **_of_jdk_17("DOUBLE")}
    for mine, their in zip(ours, theirs, strict=True):
        for name in ("f", "d"):
            assert their[name] in (mine[name], texts.get(mine[name]))
            numbers_of = [float_of_text(row[name], single=name == "f") for row in (mine, their)]
            assert numbers_of[0].tobytes() == numbers_of[1].tobytes()


def _of_jdk_17(name: str) -> dict[str, str]:
    found = float_texts(name)
    return dict(zip(found.jdk_25, found.jdk_17, strict=True))


@pytest.mark.parametrize("name", ["FLOAT", "DOUBLE"])
def test_partitions_of_pypaimon_are_read(name: str, py: PyPaimon, tmp_path: Path) -> None:
    found = [n for n in numbers(name) if np.isfinite(n) and str(n) != "-0.0"]  # which it takes for 0.0
    catalog = paimon_spark.load_catalog(str(tmp_path))
    catalog.create_database("db")
    table = catalog.create_table("db.t", f"k BIGINT, f {name}", partition_keys=["f"])
    path = tmp_path / "db.db" / "t"
    py.call("write", path=str(path), rows=[[k, f] for k, f in enumerate(found)])
    read = table.scan().to_arrow().sort_by("k").to_pylist()
    assert [r["f"] for r in read] == found
    there = directories(path)
    kind_of = pa.float32() if name == "FLOAT" else pa.float64()
    table.write(pa.table({"k": pa.array(range(len(found)), pa.int64()), "f": pa.array(found, kind_of)}))
    assert directories(path) == there
    assert table.scan().to_arrow().num_rows == 2 * len(found)
