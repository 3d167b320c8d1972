"""Indexes of data files: Java finds rows by those we write, we by those that Java writes, and some are equal bytes."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark.api.table import Table
from paimon_spark.format.file_index.indexes import read_head
from tests.interop.java_paimon import JavaPaimon

pytestmark = pytest.mark.interop

COLUMNS: dict[str, tuple[str, pa.DataType]] = {
    "id": ("INT", pa.int32()),
    "s": ("STRING", pa.string()),
    "b": ("BOOLEAN", pa.bool_()),
    "i": ("TINYINT", pa.int8()),
    "j": ("SMALLINT", pa.int16()),
    "k": ("BIGINT", pa.int64()),
    "f": ("FLOAT", pa.float32()),
    "x": ("DOUBLE", pa.float64()),
    "d": ("DATE", pa.date32()),
    "m": ("TIMESTAMP(3)", pa.timestamp("ms")),
    "t": ("TIMESTAMP(6)", pa.timestamp("us")),
    "n": ("DECIMAL(10, 2)", pa.decimal128(10, 2)),
}
NAMES = list(COLUMNS)[1:]
BLOOM = [n for n in NAMES if n not in ("b", "n")]
BITMAP = [n for n in NAMES if n != "n"]
BASE: dict[str, str] = {
    "file-index.bloom-filter.columns": ",".join(BLOOM),
    **{f"file-index.bloom-filter.{n}.items": "300" for n in BLOOM},
}
KINDS: dict[str, dict[str, str]] = {
    "bloom filters": BASE,
    "bitmaps": {"file-index.bitmap.columns": ",".join(BITMAP)},
    "small blocks": {
        "file-index.bitmap.columns": ",".join(BITMAP),
        **{f"file-index.bitmap.{n}.index-block-size": "64 b" for n in BITMAP},
    },
    "first version": {
        "file-index.bitmap.columns": ",".join(BITMAP),
        **{f"file-index.bitmap.{n}.version": "1" for n in BITMAP},
    },
    "range bitmaps": {"file-index.range-bitmap.columns": ",".join(NAMES)},
    "small chunks": {
        "file-index.range-bitmap.columns": ",".join(NAMES),
        **{f"file-index.range-bitmap.{n}.chunk-size": "64 b" for n in NAMES},
    },
    "all in manifests": {
        **BASE,
        "file-index.bitmap.columns": ",".join(BITMAP),
        "file-index.range-bitmap.columns": ",".join(NAMES),
        "file-index.in-manifest-threshold": "1 mb",
    },
}
TABLES: dict[str, dict[str, Any]] = {
    "append": {},
    "orc": {"tableOptions": {"file.format": "orc"}},
    "avro": {"tableOptions": {"file.format": "avro"}},
    "keys": {"pk": ["id"], "tableOptions": {"bucket": "1"}},
    "vectors": {"pk": ["id"], "tableOptions": {"bucket": "1", "deletion-vectors.enabled": "true"}},
}


def row(i: int) -> list[Any]:
    if i % 13 == 5:
        return [i, *[None] * len(NAMES)]
    return [
        i,
        f"text {i % 40}" * (i % 3 + 1),
        i % 3 == 0,
        i % 100 - 50,
        i * 37 % 1000 - 500,
        (i * 7919 % 500) << 33,
        float(i % 9) - 4 if i % 10 else float("nan"),
        -0.0 if i % 50 == 1 else i / 4,
        date(1969, 12, 1) + timedelta(days=i % 70),
        datetime(1970, 1, 1) + timedelta(milliseconds=i % 80 * 60_007),
        datetime(1969, 12, 31, 23) + timedelta(minutes=i % 80, microseconds=i % 7 if i % 80 > 60 else 0),
        Decimal(i % 60 - 30) / 4,
    ]


ROWS = [row(i) for i in range(240)]
PARTS = (ROWS[:80], ROWS[80:160], ROWS[160:])
SEEN = ROWS[7]


def text(value: Any) -> Any:
    """A value as the driver of Java takes it."""
    if isinstance(value, float):
        return "NaN" if value != value else value
    if isinstance(value, datetime):
        return value.isoformat(timespec="microseconds")
    return str(value) if isinstance(value, (date, Decimal)) else value


def literal(value: Any) -> str:
    if isinstance(value, datetime):
        return f"TIMESTAMP '{value}'"
    if isinstance(value, date):
        return f"DATE '{value}'"
    return f"'{value}'" if isinstance(value, str) else f"{value}"


def conditions() -> dict[str, tuple[list[Any], set[int]]]:
    """SQL, the condition as Java takes it, and the rows."""
    out: dict[str, tuple[list[Any], set[int]]] = {}
    for at, name in enumerate(NAMES, 1):
        known = [(r[0], r[at]) for r in ROWS if r[at] is not None]
        seen, shown = SEEN[at], literal(SEEN[at])
        out[f"{name} = {shown}"] = (["=", name, text(seen)], {i for i, v in known if v == seen})
        out[f"{name} IS NULL"] = (["is null", name], {r[0] for r in ROWS if r[at] is None})
        if name == "b":
            continue
        other = max(v for _, v in known if v == v)
        values = [text(seen), text(other)]
        out[f"{name} <> {shown}"] = (["<>", name, text(seen)], {i for i, v in known if v != seen})
        out[f"{name} IN ({shown}, {literal(other)})"] = (
            ["in", name, *values],
            {i for i, v in known if v in (seen, other)},
        )
        out[f"{name} < {shown}"] = (["<", name, text(seen)], {i for i, v in known if v < seen})
        out[f"{name} >= {shown}"] = ([">=", name, text(seen)], {i for i, v in known if v >= seen or v != v})
    out["s = 'text 3, absent' AND k > 0"] = (["and", ["=", "s", "text 3, absent"], [">", "k", 0]], set())
    first = {r[0] for r in ROWS if r[1] == SEEN[1]} | {r[0] for r in ROWS if r[4] is not None and r[4] > 400}
    out[f"s = '{SEEN[1]}' OR j > 400"] = (["or", ["=", "s", SEEN[1]], [">", "j", 400]], first)
    return out


def given(table: str, kind: str) -> dict[str, Any]:
    found = {"pk": [], "partition": [], **TABLES[table]}
    return {**found, "tableOptions": {**TABLES[table].get("tableOptions", {}), **KINDS[kind]}}


def ours(table: str, kind: str, root: Path) -> Table:
    made = given(table, kind)
    catalog = paimon_spark.load_catalog(str(root))
    catalog.create_database("db")
    schema = pa.schema([pa.field(n, t, n != "id") for n, (_, t) in COLUMNS.items()])
    out = catalog.create_table("db.ours", schema, primary_keys=made["pk"], options=made["tableOptions"])
    for part in PARTS:
        out.write(
            pa.table(
                [pa.array(c, t) for c, t in zip(zip(*part, strict=True), schema.types, strict=True)], schema=schema
            )
        )
    return out


def theirs(table: str, kind: str, root: Path, java: JavaPaimon) -> str:
    path = str(root / "db.db" / "theirs")
    java.call("createTable", path=path, fields=[[n, t] for n, (t, _) in COLUMNS.items()], **given(table, kind))
    for part in PARTS:
        java.call("write", path=path, rows=[[text(v) for v in r] for r in part])
        if table == "vectors":
            java.call("compact", path=path, full=True)
    return path


def cases() -> list[tuple[str, str]]:
    return [("append", k) for k in KINDS] + [(t, "all in manifests") for t in TABLES if t != "append"]


@pytest.mark.parametrize(("table", "kind"), cases())
def test_we_find_what_java_indexed(table: str, kind: str, java: JavaPaimon, tmp_path: Path) -> None:
    found = paimon_spark.load_table(theirs(table, kind, tmp_path, java))
    every = {w: ids for w, (_, ids) in conditions().items()}
    assert {w: set(found.scan(where=w).to_arrow().column("id").to_pylist()) for w in every} == every
    assert any("file indexes" in str(found.scan(where=w).plan()) for w in every) == (kind == "all in manifests")


@pytest.mark.parametrize(("table", "kind"), cases())
def test_java_finds_what_we_indexed(table: str, kind: str, java: JavaPaimon, tmp_path: Path) -> None:
    made = ours(table, kind, tmp_path)
    if table == "vectors":
        made.compact(full=True)
    path = made.location.removeprefix("file://")
    every = conditions()
    found = {w: {r["id"] for r in java.call("read", path=path, where=p)["rows"]} for w, (p, _) in every.items()}
    assert found == {w: ids for w, (_, ids) in every.items()}


def index_bytes(table: Table) -> dict[tuple[str, str], bytes]:
    """The indexes of the first file that was written, by column and kind."""
    files = [f for split in table.scan().plan().splits for f in split.files]
    data = min(files, key=lambda f: f.min_sequence_number).embedded_index
    assert data is not None
    places = {(c, k): p for c, kinds in read_head(data).items() for k, p in kinds.items()}
    return {key: data[p.start : p.start + p.length] for key, p in places.items()}


def test_our_indexes_are_those_of_java(java: JavaPaimon, tmp_path: Path) -> None:
    mine = index_bytes(ours("append", "all in manifests", tmp_path / "a"))
    other = index_bytes(paimon_spark.load_table(theirs("append", "all in manifests", tmp_path / "b", java)))
    assert mine.keys() == other.keys()
    equal = {key for key in mine if mine[key] == other[key]}
    assert equal >= {key for key in mine if key[1] == "bloom-filter"}
    assert equal >= {key for key in mine if key[1] == "range-bitmap"}
    # Java orders the bitmaps of values as its hash maps do.
    assert {key: len(mine[key]) for key in mine} == {key: len(other[key]) for key in other}
