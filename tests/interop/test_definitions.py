"""Java Paimon and we make, refuse and change the same definitions of tables."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paimon_spark.errors import PaimonError
from paimon_spark.metadata.definition.ddl import row_type
from paimon_spark.types import type_to_json
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
