"""Schema, snapshot and tag files: damage is an error of ours, and rewriting keeps unknown fields."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from paimon_spark.errors import CorruptFileError, FormatError
from paimon_spark.format.metadata_files import snapshot as snapshot_file
from paimon_spark.format.metadata_files import table_schema as schema_file
from paimon_spark.format.metadata_files.snapshot import Snapshot, Tag
from paimon_spark.format.metadata_files.table_schema import TableSchema
from tests.harness.tables import a_schema, a_snapshot

FIXTURES = Path(__file__).resolve().parents[3] / "fixtures"
DECODERS: dict[str, Callable[[bytes], Any]] = {
    "schema": lambda data: schema_file.decode(data, "the/file"),
    "snapshot": lambda data: snapshot_file.decode(data, "the/file"),
    "tag": lambda data: snapshot_file.decode_tag(data, "t", "the/file"),
}
GOOD = {
    "schema": schema_file.encode(a_schema(options={"a": "b"}, primary_keys=("k",), comment="c")),
    "snapshot": snapshot_file.encode(a_snapshot(1, watermark=5, properties={"a": "b"}, extra={"later": [1]})),
    "tag": snapshot_file.encode_tag(Tag("t", a_snapshot(1), datetime(2024, 1, 2, 3, 4, 5), 1.5)),
}
KINDS = st.sampled_from(sorted(DECODERS))
WILD_NUMBERS = st.sampled_from([10**400, -(10**30), 2**63, 0, -1, 1.5, 1e308])
SCALARS = st.none() | st.booleans() | WILD_NUMBERS | st.floats() | st.text(max_size=5)
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
)


def decode_or_our_error(kind: str, data: bytes) -> None:
    """Any bytes give a value of plain, sensible types or our error naming the file."""
    try:
        value = DECODERS[kind](data)
    except FormatError as e:
        if "the/file" not in str(e):
            raise
        return
    if isinstance(value, TableSchema):
        assert isinstance(value.id, int)
        assert all(isinstance(k, str) for k in (*value.partition_keys, *value.primary_keys))
        assert all(isinstance(v, str) for v in value.options.values())
        assert schema_file.decode(schema_file.encode(value), "x").fields == value.fields
    else:
        found = value.snapshot if isinstance(value, Tag) else value
        assert isinstance(found, Snapshot)
        assert isinstance(found.id, int)
        assert isinstance(found.base_manifest_list, str)
        assert isinstance(found.time_ms, int)


@given(KINDS, st.binary(max_size=60))
@example("schema", b"")
@example("tag", b"\xff\xfe{}")
@example("snapshot", b"\xef\xbb\xbf{}")
@example("schema", b"[" * 100_000)
@example("snapshot", b'{"a":' * 100_000)
@example("snapshot", b"NaN")
@example("schema", b"9" * 5000)
def test_any_bytes(kind: str, data: bytes) -> None:
    decode_or_our_error(kind, data)


@given(KINDS, st.data())
def test_any_value_in_any_place(kind: str, data: st.DataObject) -> None:
    raw = json.loads(GOOD[kind])
    for key in data.draw(st.lists(st.sampled_from(sorted(raw)), min_size=1, max_size=3)):
        if data.draw(st.booleans()):
            raw.pop(key, None)
        else:
            raw[key] = data.draw(JSON)
    decode_or_our_error(kind, json.dumps(raw).encode())


@given(KINDS, st.data())
def test_damaged_files(kind: str, data: st.DataObject) -> None:
    raw = bytearray(GOOD[kind])
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    decode_or_our_error(kind, bytes(raw[: data.draw(st.integers(0, len(raw)))]))


@given(JSON)
def test_any_type_of_a_column(value: Any) -> None:
    raw = json.loads(GOOD["schema"])
    raw["fields"][1]["type"] = value
    decode_or_our_error("schema", json.dumps(raw).encode())


@pytest.mark.parametrize("kind", sorted(DECODERS))
def test_huge_numbers_are_refused(kind: str) -> None:
    data = GOOD[kind].replace(b'"id": ', b'"id": ' + b"9" * 30, 1)
    with pytest.raises(CorruptFileError, match="the/file"):
        DECODERS[kind](data)


def test_of_two_equal_keys_the_last_counts_as_in_java() -> None:
    data = GOOD["snapshot"].replace(b'"schemaId": 0', b'"schemaId": 7, "schemaId": 0')
    assert DECODERS["snapshot"](data) == DECODERS["snapshot"](GOOD["snapshot"])


def test_a_type_nested_too_deeply_is_refused() -> None:
    nested: Any = "INT"
    for _ in range(300):
        nested = {"type": "ARRAY", "element": nested}
    raw = json.loads(GOOD["schema"])
    raw["fields"][1]["type"] = nested
    with pytest.raises(CorruptFileError, match="nested"):
        DECODERS["schema"](json.dumps(raw).encode())


@pytest.mark.parametrize("path", sorted(FIXTURES.glob("*/*/table/**/schema-*")), ids=str)
def test_schemas_of_other_writers_survive_a_rewrite(path: Path) -> None:
    schema = schema_file.decode(path.read_bytes(), str(path))
    assert schema_file.decode(schema_file.encode(schema), "x") == schema


SNAPSHOTS = [*FIXTURES.glob("*/*/table/**/snapshot-*"), *FIXTURES.glob("*/*/table/**/changelog-*[0-9]")]


@pytest.mark.parametrize("path", sorted(p for p in SNAPSHOTS if p.suffix == ""), ids=str)
def test_snapshots_of_other_writers_survive_a_rewrite(path: Path) -> None:
    snapshot = snapshot_file.decode(path.read_bytes(), str(path))
    assert snapshot_file.decode(snapshot_file.encode(snapshot), "x") == snapshot
    assert str(snapshot.id) == path.name.rpartition("-")[2]


@pytest.mark.parametrize("path", sorted(p for p in FIXTURES.glob("*/*/table/**/tag-*") if p.is_file()), ids=str)
def test_tags_of_other_writers_survive_a_rewrite(path: Path) -> None:
    name = path.name.removeprefix("tag-")
    tag = snapshot_file.decode_tag(path.read_bytes(), name, str(path))
    assert snapshot_file.decode_tag(snapshot_file.encode_tag(tag), name, "x") == tag


@pytest.mark.parametrize(
    ("created", "retained", "text"),
    [
        (datetime(2024, 1, 2, 3, 4), 86400.0, '[2024, 1, 2, 3, 4],\n  "tagTimeRetained": 86400.000000000\n}'),
        (datetime(2024, 1, 2, 3, 4, 5), 1.5, '[2024, 1, 2, 3, 4, 5],\n  "tagTimeRetained": 1.500000000\n}'),
        (datetime(2024, 1, 2, 3, 0, 0, 7), 60, '[2024, 1, 2, 3, 0, 0, 7000],\n  "tagTimeRetained": 60.000000000\n}'),
    ],
)
def test_a_tags_life_time_is_written_as_java_writes_it(created: datetime, retained: float, text: str) -> None:
    data = snapshot_file.encode_tag(Tag("t", a_snapshot(1), created, retained)).decode()
    assert data.endswith(',\n  "tagCreateTime": ' + text)


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ([2024, 1, 2, 3, 4], datetime(2024, 1, 2, 3, 4)),
        ([2024, 1, 2, 3, 4, 5], datetime(2024, 1, 2, 3, 4, 5)),
        ([2024, 1, 2, 3, 4, 5, 678901234], datetime(2024, 1, 2, 3, 4, 5, 678901)),
        ("2024-01-02T03:04:05", datetime(2024, 1, 2, 3, 4, 5)),
    ],
)
def test_forms_of_a_tags_birth(parts: Any, expected: datetime) -> None:
    raw = {**json.loads(GOOD["snapshot"]), "tagCreateTime": parts, "tagTimeRetained": 86400.000000000}
    tag = DECODERS["tag"](json.dumps(raw).encode())
    assert (tag.create_time, tag.time_retained_s) == (expected, 86400.0)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "x", [], True])
def test_life_times_that_are_no_number_are_refused(value: Any) -> None:
    raw = {**json.loads(GOOD["snapshot"]), "tagCreateTime": [2024, 1, 2, 3, 4], "tagTimeRetained": value}
    with pytest.raises(CorruptFileError, match="the/file"):
        DECODERS["tag"](json.dumps(raw).encode())
