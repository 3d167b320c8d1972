"""Java Paimon and we make, refuse and change the same definitions of tables."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import paimon_spark
from paimon_spark.errors import PaimonError
from paimon_spark.metadata.definition.ddl import row_type
from paimon_spark.types import type_to_json
from tests.harness.keywords import keywords
from tests.harness.rows import rows_of
from tests.harness.search import examples
from tests.interop import our_hand
from tests.interop.java_paimon import JavaPaimon
from tests.unit.metadata.definition.test_validate import ACCEPTED, COLUMNS, REFUSED

pytestmark = pytest.mark.interop

ONLY_WE_REFUSE = (
    "so it is a STRING",
    "needs a number",
    "expected none, counts, full or truncate",
    "expected none, counts",
    "expected a duration",
    "expected a size",
    "expected a whole number up to",
    "expected one of avro, orc, parquet",
    "cannot be written in orc files",
    "cannot be written in Avro files",
)
"""Java stores these and fails when the option is used; so it does with a clustering column that is not there."""


def create_call(path: Path, ddl: str, keys: str, partition: str, options: dict[str, str]) -> dict[str, Any]:
    fields = [[f.name, type_to_json(f.type), f.description, f.default_value] for f in row_type(ddl)]
    names = {"pk": _names(keys), "partition": _names(partition)}
    return {"op": "createTable", "path": str(path), "fields": fields, "tableOptions": options, "comment": None, **names}


def _names(text: str) -> list[str]:
    return [n for n in text.split(",") if n]


def schema_file(path: Path, schema_id: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((path / "schema" / f"schema-{schema_id}").read_text())
    found.pop("timeMillis")
    return found


def ours(call: dict[str, Any], path: Path) -> str | None:
    """What our refusal of the call says; None when it was done."""
    try:
        our_hand.do(call, str(path))
    except PaimonError as e:
        return str(e)
    return None


@pytest.mark.parametrize(("keys", "partition", "options"), ACCEPTED)
def test_the_same_table_has_the_same_schema_file(
    java: JavaPaimon, tmp_path: Path, keys: str, partition: str, options: dict[str, str]
) -> None:
    call = create_call(tmp_path / "java", COLUMNS, keys, partition, options)
    (reply,) = java.run([call])
    assert "error" not in reply, reply
    assert ours(call, tmp_path / "ours") is None
    assert schema_file(tmp_path / "ours") == schema_file(tmp_path / "java")


@pytest.mark.parametrize(("keys", "partition", "options", "message"), REFUSED)
def test_java_refuses_the_tables_that_we_refuse(
    java: JavaPaimon, tmp_path: Path, keys: str, partition: str, options: dict[str, str], message: str
) -> None:
    call = create_call(tmp_path / "java", COLUMNS, keys, partition, options)
    (reply,) = java.run([call])
    stored = message in ONLY_WE_REFUSE or "clustering.columns" in options
    assert ("error" in reply) != stored, reply
    assert ours(call, tmp_path / "ours") is not None


DDL = "k INT, a INT, b STRING, s STRUCT<x: INT, r: STRUCT<y: INT>>, l ARRAY<STRUCT<z: INT>>, p STRING"
_TOP = st.sampled_from(["k", "a", "b", "s", "l", "p", "n1", "n2"])
_PATHS = _TOP | st.sampled_from(
    [["s", "x"], ["s", "r"], ["s", "r", "y"], ["s", "n"], ["l", "element", "z"], ["l", "element", "n"]]
)
_TYPE = st.sampled_from(
    ["INT", "BIGINT", "STRING", "DOUBLE", "INT NOT NULL", "DECIMAL(9, 2)", "DATE", "TIMESTAMP(3)", "VARCHAR(5)",
     {"type": "ROW", "fields": [{"id": 0, "name": "m", "type": {"type": "ROW", "fields": [
         {"id": 0, "name": "o", "type": "INT"}]}}, {"id": 1, "name": "q", "type": "INT"}]}]
)  # fmt: skip
_PLACE: st.SearchStrategy[dict[str, Any]] = (
    st.just({}) | st.just({"first": True}) | st.builds(lambda c: {"after": c}, _TOP)
)
_CHANGE = st.one_of(
    st.builds(lambda n, t, place: {"do": "add", "name": n, "type": t, **place}, _PATHS, _TYPE, _PLACE),
    st.builds(lambda n: {"do": "drop", "name": n}, _PATHS),
    st.builds(lambda n, to: {"do": "rename", "name": n, "to": to}, _PATHS, st.sampled_from(["a", "n1", "n2", "x9"])),
    st.builds(lambda n, t: {"do": "retype", "name": n, "type": t}, _PATHS, _TYPE),
    st.builds(lambda n, v: {"do": "nullable", "name": n, "value": v}, _PATHS, st.booleans()),
    st.builds(lambda n: {"do": "comment", "name": n, "value": "text"}, _PATHS),
    st.builds(lambda n, v: {"do": "default", "name": n, "value": v}, _TOP, st.sampled_from(["5", "x", "2024-01-02"])),
    st.builds(lambda n, place: {"do": "move", "name": n, **place}, _TOP, _PLACE.filter(bool)),
    st.builds(lambda v: {"do": "set", "name": "sequence.field", "value": v}, st.sampled_from(["a", "b", "n1"])),
    st.just({"do": "unset", "name": "sequence.field"}),
    st.just({"do": "set", "name": "alter-column-null-to-not-null.disabled", "value": "false"}),
    st.just({"do": "tableComment", "value": "text"}),
)


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes=st.lists(_CHANGE, min_size=1, max_size=12))
def test_changes_have_the_same_outcome(java: JavaPaimon, tmp_path: Path, changes: list[dict[str, Any]]) -> None:
    folder = Path(tempfile.mkdtemp(dir=tmp_path))
    create = create_call(folder / "java", DDL, "k,p", "p", {"bucket": "2"})
    assert "error" not in java.run([create])[0]
    assert ours(create, folder / "ours") is None
    for change in changes:
        before = newest(folder / "ours")
        call = {"op": "alter", "path": str(folder / "java"), "changes": [change]}
        (reply,) = java.run([call])
        refusal = ours(call, folder / "ours")
        if "error" not in reply and refusal is not None and ("from ROW<" in refusal or "from ARRAY<" in refusal):
            return  # Java reads rows and arrays as text; here they only stay what they are
        now = newest(folder / "ours")
        assert now == newest(folder / "java"), (change, refusal, reply)
        # Java refuses some changes that change nothing, such as moving the first column to the front.
        assert (refusal is None) == ("error" not in reply) or (refusal is None and now == before), (change, reply)


def newest(path: Path) -> dict[str, Any]:
    """The newest schema without its id: Java makes a schema of a change that changes nothing."""
    last = max(int(p.name.removeprefix("schema-")) for p in (path / "schema").glob("schema-*"))
    found = schema_file(path, last)
    found.pop("id")
    return found


DEFAULTS = {
    "m MAP<INT, STRING> DEFAULT map(1, 'x')": [[1, "x"]],
    "n MAP<INT, DOUBLE> DEFAULT map()": [],
    "l ARRAY<STRING> DEFAULT array('p', 'q r')": ["p", "q r"],
    "a ARRAY<ARRAY<INT>> DEFAULT array(array(1, 2), array())": [[1, 2], []],
    "s STRUCT<x: INT, y: STRING> DEFAULT struct(1, 'z')": {"x": 1, "y": "z"},
    "t STRING DEFAULT 'it''s'": "it's",
    "d DATE DEFAULT DATE '2024-01-02'": "2024-01-02",
    "i INT DEFAULT -7": -7,
}
"""Columns with defaults, and the values that Java writes for nulls."""


def test_java_writes_the_defaults_that_we_store(java: JavaPaimon, tmp_path: Path) -> None:
    catalog = paimon_spark.load_catalog(str(tmp_path))
    catalog.create_database("db")
    table = catalog.create_table("db.t", f"k INT, {', '.join(DEFAULTS)}")
    path = str(tmp_path / "db.db" / "t")
    table.write(pa.table({"k": pa.array([1], pa.int32())}))
    java.call("write", path=path, rows=[[2, *([None] * len(DEFAULTS))]])
    expected = dict(zip((ddl.split()[0] for ddl in DEFAULTS), DEFAULTS.values(), strict=True))
    found = java.call("read", path=path)["rows"]
    assert sorted(found, key=lambda r: r["k"]) == [{"k": k, **expected} for k in (1, 2)]
    assert rows_of(table.scan().to_arrow()) == found


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_java_reads_and_extends_keys_that_became_wider(java: JavaPaimon, tmp_path: Path, file_format: str) -> None:
    catalog = paimon_spark.load_catalog(str(tmp_path))
    catalog.create_database("db")
    options = {"bucket": "3", "file.format": file_format}
    table = catalog.create_table("db.t", "k INT, v STRING", primary_keys=["k"], options=options)
    path = str(tmp_path / "db.db" / "t")
    table.write(pa.table({"k": pa.array(range(20), pa.int32()), "v": [f"v{i}" for i in range(20)]}))
    widening: dict[str, Any] = keywords({"write.merge-schema": "true", "write.merge-schema.type-widening": "true"})
    table.write(pa.table({"k": pa.array([2, 2**40], pa.int64()), "v": ["two", "big"]}), **widening)
    expected = {**{i: f"v{i}" for i in range(20)}, 2: "two", 2**40: "big"}
    assert {r["k"]: r["v"] for r in java.call("read", path=path)["rows"]} == expected
    java.call("write", path=path, rows=[[7, "seven"], [2**41, "bigger"]])
    java.call("compact", path=path, full=True)
    expected |= {7: "seven", 2**41: "bigger"}
    found = java.call("read", path=path)["rows"]
    assert len(found) == len(expected) and {r["k"]: r["v"] for r in found} == expected
    assert {r["k"]: r["v"] for r in rows_of(table.scan().to_arrow())} == expected
