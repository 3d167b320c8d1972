"""Keys with nulls (`primary-key.nullable`): null is a value like another, smaller than all others."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import paimon_spark
from paimon_spark.errors import DataError, SchemaMismatchError
from paimon_spark.jobs.upkeep import compaction
from tests.harness.real_tables import a_table, put
from tests.harness.search import examples

SCHEMA = pa.schema([("p", pa.string()), ("a", pa.int32()), ("b", pa.string()), ("v", pa.int64())])
Key = tuple[str | None, int | None, str | None]


@pytest.fixture(autouse=True)
def without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "active_spark_jobs", lambda: None)


def rows_of(table: paimon_spark.Table, where: str | None = None) -> dict[Key, int]:
    found = table.scan(where=where).to_arrow().to_pylist()
    out = {(r["p"], r["a"], r["b"]): r["v"] for r in found}
    assert len(out) == len(found)
    return out


LAYOUTS: dict[str, dict[str, str]] = {
    "one": {"bucket": "1"},
    "orc": {"bucket": "2", "file.format": "orc"},
    "avro": {"bucket": "3", "file.format": "avro"},
    "dynamic": {"bucket": "-1", "dynamic-bucket.target-row-num": "2"},
    "postponed": {"bucket": "-2", "postpone.default-bucket-num": "2", "postpone.merge-on-read": "true"},
    "vectors": {"bucket": "1", "deletion-vectors.enabled": "true"},
    "lookup": {"bucket": "1", "changelog-producer": "lookup", "data-file.thin-mode": "true"},
}
ROWS = st.tuples(
    st.sampled_from(["x", None]),
    st.none() | st.integers(-2, 2),
    st.none() | st.sampled_from(["", "t", "a longer text than fits a slot"]),
    st.integers(0, 9),
    st.sampled_from([0, 0, 3]),
)
STEPS = st.one_of(st.lists(ROWS, min_size=1, max_size=12), st.booleans())
CONDITIONS: dict[str, Any] = {
    "a IS NULL": lambda k: k[1] is None,
    "a IS NOT NULL AND b IS NULL": lambda k: k[1] is not None and k[2] is None,
    "a = 1": lambda k: k[1] == 1,
    "a < 1 AND p IS NULL": lambda k: k[1] is not None and k[1] < 1 and k[0] is None,
    "a <=> NULL AND b = 't'": lambda k: k[1] is None and k[2] == "t",
    "a = 0 AND b <=> NULL": lambda k: k[1] == 0 and k[2] is None,
    "b > 'a'": lambda k: k[2] is not None and k[2] > "a",
}


@pytest.mark.parametrize("layout", LAYOUTS)
@settings(max_examples=examples(8))
@given(steps=st.lists(STEPS, min_size=2, max_size=6))
def test_a_null_is_a_key_like_others(
    layout: str, steps: Sequence[Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    options = {"primary-key.nullable": "true", **LAYOUTS[layout]}
    table = a_table(SCHEMA, keys="p a b", by="p", options=options, where=tmp_path_factory.mktemp("m") / "t")
    expected: dict[Key, int] = {}
    for step in steps:
        if isinstance(step, bool):
            table.compact(full=step)
            continue
        put(table, *step)
        for p, a, b, v, kind in step:
            expected.pop((p, a, b), None)
            if kind == 0:
                expected[p, a, b] = v
    assert rows_of(table) == expected
    for text, holds in CONDITIONS.items():
        assert rows_of(table, text) == {k: v for k, v in expected.items() if holds(k)}, text


def test_deletes_and_updates_find_keys_with_nulls(tmp_path: Path) -> None:
    table = a_table(
        SCHEMA, keys="p a b", by="p", options={"bucket": "2", "primary-key.nullable": "true"}, where=tmp_path / "t"
    )
    put(table, ("x", None, "t", 1, 0), ("x", 1, None, 2, 0), (None, None, None, 3, 0), ("x", 1, "t", 4, 0))
    table.delete("a IS NULL AND p = 'x'")
    assert rows_of(table) == {("x", 1, None): 2, (None, None, None): 3, ("x", 1, "t"): 4}
    table.delete("b IS NULL")
    assert rows_of(table) == {("x", 1, "t"): 4}


def test_a_column_of_the_key_cannot_be_left_out(tmp_path: Path) -> None:
    table = a_table(
        SCHEMA, keys="p a b", by="p", options={"bucket": "1", "primary-key.nullable": "true"}, where=tmp_path / "t"
    )
    with pytest.raises(SchemaMismatchError, match=r"column b .* no such column"):
        table.write(pa.table({"p": ["x"], "a": pa.array([1], pa.int32()), "v": [1]}))


def test_without_the_option_a_null_in_a_key_is_refused(tmp_path: Path) -> None:
    table = a_table(SCHEMA, keys="p a b", by="p", options={"bucket": "1"}, where=tmp_path / "t")
    with pytest.raises(DataError, match=r"column of the primary key.*have a null"):
        put(table, ("x", None, "t", 1, 0))
