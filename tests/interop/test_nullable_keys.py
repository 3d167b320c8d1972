"""Keys with nulls (`primary-key.nullable`, Paimon 2.1): pypaimon 2.1 and Java Paimon 2.0 read ours, and we theirs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark.metadata.definition.create import create_table
from paimon_spark.metadata.definition.from_arrow import row_type
from paimon_spark.storage.local import LocalStore
from tests.interop.java_paimon import JavaPaimon
from tests.interop.pypaimon_peer import PyPaimon

pytestmark = pytest.mark.interop

SCHEMA = pa.schema([("a", pa.int32()), ("b", pa.string()), ("v", pa.int64())])
ROWS = [[a, b, i] for i, (a, b) in enumerate((a, b) for a in (None, 0, 7) for b in (None, "", "text beyond seven"))]


def ours(path: str) -> list[tuple[Any, ...]]:
    found = paimon_spark.load_table(path).scan().to_arrow().to_pylist()
    return sorted((tuple(r.values()) for r in found), key=repr)


def theirs(reply: dict[str, Any]) -> list[tuple[Any, ...]]:
    return sorted(((r["a"], r["b"], r["v"]) for r in reply["rows"]), key=repr)


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_all_read_and_write_keys_with_nulls(file_format: str, java: JavaPaimon, py: PyPaimon, tmp_path: Path) -> None:
    path = str(tmp_path / "db.db" / file_format)
    options = {"bucket": "2", "file.format": file_format, "primary-key.nullable": "true"}
    create_table(LocalStore(), path, row_type(SCHEMA), ("a", "b"), options=options)
    table = paimon_spark.load_table(path)
    table.write(pa.Table.from_pylist([dict(zip(SCHEMA.names, r, strict=True)) for r in ROWS], schema=SCHEMA))
    expected = {(a, b): v for a, b, v in ROWS}

    def agree() -> None:
        rows = sorted(((a, b, v) for (a, b), v in expected.items()), key=repr)
        assert ours(path) == rows
        assert theirs(py.call("read", path=path)) == rows
        assert theirs(java.call("read", path=path)) == rows

    agree()
    py.call("write", path=path, rows=[[None, None, 100], [None, "new", 101], [0, None, 102]])
    expected.update({(None, None): 100, (None, "new"): 101, (0, None): 102})
    agree()
    java.call("write", path=path, rows=[[None, "", 200], [7, None, 201], [None, None, 202]])
    expected.update({(None, ""): 200, (7, None): 201, (None, None): 202})
    agree()
    java.call("compact", path=path, full=True)
    agree()
    table.delete("a IS NULL AND b = 'new'")
    del expected[None, "new"]
    table.compact(full=True)
    agree()
