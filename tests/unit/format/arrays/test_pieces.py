"""Rows cut, joined and taken by bytes: the same rows, in arrays that are short enough."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_spark.format.arrays import pieces
from paimon_spark.format.arrays.pieces import (
    cut,
    gathered,
    joined,
    narrow_type,
    narrowed,
    row_ends,
    taken,
    together,
    wide_type,
)

TEXT = st.none() | st.text("abé", max_size=20)
LISTS = st.none() | st.lists(TEXT, max_size=4)
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "n": st.none() | st.integers(0, 9),
            "s": TEXT,
            "b": st.none() | st.binary(max_size=9),
            "l": LISTS,
            "ll": st.none() | st.lists(LISTS, max_size=3),
            "bits": st.none() | st.lists(st.booleans(), max_size=20),
            "m": st.none() | st.lists(st.tuples(st.text("ab", max_size=3), TEXT), max_size=3),
            "r": st.none() | st.fixed_dictionaries({"x": TEXT, "y": LISTS}),
        }
    ),
    max_size=12,
)
MAP = pa.map_(pa.field("key", pa.string(), False), pa.field("value", pa.string()))
SCHEMA = pa.schema(
    [
        ("n", pa.int64()),
        ("s", pa.string()),
        ("b", pa.binary()),
        ("l", pa.list_(pa.field("element", pa.string()))),
        ("ll", pa.list_(pa.list_(pa.string()))),
        ("bits", pa.list_(pa.bool_())),
        ("m", MAP),
        ("r", pa.struct([("x", pa.string()), ("y", pa.list_(pa.string()))])),
    ]
)


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "ARRAY_BYTES", 40)
    monkeypatch.setattr(pieces, "BATCH_BYTES", 40)


def a_batch(rows: list[dict[str, Any]], skipped: int = 0) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, SCHEMA).slice(skipped)


@pytest.mark.usefixtures("tiny")
@given(st.lists(ROWS, min_size=1, max_size=4), st.integers(0, 3), st.integers(1, 300))
def test_rows_stay(parts: list[list[dict[str, Any]]], skipped: int, most_bytes: int) -> None:
    batches = [a_batch(rows, min(skipped, len(rows))) for rows in parts]
    want = [row for batch in batches for row in batch.to_pylist()]
    columns = [joined([b.column(i) for b in batches]) for i in range(len(SCHEMA))]
    for column, field in zip(columns, SCHEMA, strict=True):
        assert column.type in (field.type, wide_type(field.type))
        assert narrow_type(column.type) == field.type
    whole = pa.RecordBatch.from_arrays(columns, names=SCHEMA.names)
    assert [row for part in cut(whole) for row in narrowed(part).to_pylist()] == want
    for part in cut(whole, most_bytes, 5):
        assert 1 <= part.num_rows <= 5
        assert part.num_rows == 1 or row_ends(part.columns)[-1] <= most_bytes or part.nbytes <= most_bytes
        made = narrowed(part)
        assert made.schema == SCHEMA
        made.validate(full=True)
    assert [row for batch in together(batches) for row in batch.to_pylist()] == want


@pytest.mark.usefixtures("tiny")
@given(st.lists(ROWS, min_size=1, max_size=4), st.data())
def test_rows_are_taken_by_number(parts: list[list[dict[str, Any]]], data: st.DataObject) -> None:
    table = pa.Table.from_batches([a_batch(rows) for rows in parts])
    every = st.integers(0, max(len(table) - 1, 0))
    places = data.draw(st.lists(every, max_size=12)) if len(table) else []
    rows = table.to_pylist()
    found = taken(table, np.array(places, np.int64))
    assert found.to_pylist() == [rows[place] for place in places]
    found.validate(full=True)


@given(ROWS, st.integers(0, 3))
def test_bytes_of_rows_are_those_of_their_values(rows: list[dict[str, Any]], skipped: int) -> None:
    batch = a_batch(rows, min(skipped, len(rows)))
    sizes = np.diff(row_ends([batch.column("s"), batch.column("ll")]))
    for size, row in zip(sizes, batch.to_pylist(), strict=True):
        lists = row["ll"] or []
        texts = [row["s"], *(text for part in lists for text in part or [])]
        elements = len(lists) + sum(len(part or []) for part in lists)
        assert size == sum(len((text or "").encode()) for text in texts) + elements


@pytest.mark.parametrize(
    "kind",
    [pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string()), pa.large_binary(), pa.binary_view()],
    ids=str,
)
def test_input_of_other_types_is_cut_by_its_values(kind: pa.DataType) -> None:
    texts = ["a" * 30, None, "", "b" * 300, "a" * 30, "a" * 30, "b" * 300]
    batch = pa.RecordBatch.from_arrays([pa.array(texts).cast(kind)], names=["s"]).slice(1)
    found = list(cut(batch, 100))
    assert [part.num_rows for part in found] == [2, 1, 2, 1]
    assert [row for part in found for row in part.to_pylist()] == batch.to_pylist()


def test_fixed_lists_and_nothing_are_cut_too() -> None:
    lists = pa.array([["a" * 50, "b"], None, ["c", "d" * 50]], pa.list_(pa.string(), 2))
    batch = pa.RecordBatch.from_arrays([lists, pa.nulls(3)], names=["l", "nothing"])
    assert [part.num_rows for part in cut(batch.slice(1), 20)] == [1, 1]
    assert list(cut(batch.slice(3), 20)) == []


def test_small_batches_are_gathered_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = [2, 2, 0, 3, 7, 8, 9, 1]
    ends = np.cumsum([0, *counts])
    batches = [a_batch([{"s": str(n)} for n in range(ends[i], ends[i + 1])]) for i in range(len(counts))]
    found = list(gathered(batches, 8))
    assert [b.num_rows for b in found] == [7, 7, 8, 9, 1]
    assert [s for b in found for s in b.column("s").to_pylist()] == [str(n) for n in range(32)]
    assert found[2] is batches[5]
    assert list(gathered([], 8)) == []
    monkeypatch.setattr(pieces, "BATCH_BYTES", batches[0].nbytes)
    assert [b.num_rows for b in gathered(batches[:2], 8)] == [2, 2]


def test_usual_batches_are_left_alone() -> None:
    batch = a_batch([{"s": "a"}, {"s": "b"}])
    assert list(cut(batch)) == [batch]
    assert narrowed(batch) is batch

    assert joined([batch.column("ll"), batch.column("ll")]).type == SCHEMA.field("ll").type
