"""KeyPlaces agrees with a dictionary, whatever keys collide."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_spark.engine.write import key_places
from paimon_spark.engine.write.key_places import NOWHERE, KeyPlaces
from paimon_spark.format.bucket_hash import hashes as row_hashes
from tests.harness.search import examples

TYPES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "int": (pa.int32(), st.integers(-3, 3)),
    "bigint": (pa.int64(), st.sampled_from([-(2**63), -1, 0, 1, 2**63 - 1])),
    "text": (pa.string(), st.sampled_from(["", "a", "ab", "b", "ä", "a" * 40])),
    "bytes": (pa.binary(), st.sampled_from([b"", b"\0", b"\0\0", b"b"])),
    "decimal": (pa.decimal128(38, 2), st.sampled_from([Decimal("-1.00"), Decimal("0.00"), Decimal(10) ** 30])),
    "date": (pa.date32(), st.dates(date(1969, 12, 30), date(1970, 1, 3))),
    "double": (pa.float64(), st.sampled_from([-1.5, 0.5, 1.0])),
    "flag": (pa.bool_(), st.booleans()),
}


@settings(max_examples=examples(150))
@given(data=st.data(), names=st.lists(st.sampled_from(sorted(TYPES)), min_size=1, max_size=3), colliding=st.booleans())
def test_every_key_has_one_number_and_keeps_its_place(data: st.DataObject, names: list[str], colliding: bool) -> None:
    schema = pa.schema([(f"c{i}", TYPES[n][0]) for i, n in enumerate(names)])
    row = st.tuples(*(TYPES[n][1] for n in names))
    places = KeyPlaces()
    model: dict[tuple[Any, ...], tuple[int, int]] = {}
    with pytest.MonkeyPatch.context() as patch:
        if colliding:
            hashes = row_hashes
            patch.setattr(key_places, "row_hashes", lambda columns: (hashes(columns) % 2).astype(np.int32))
            patch.setattr(key_places, "_SMALL", 3)
        for turn in range(data.draw(st.integers(1, 4))):
            rows = data.draw(st.lists(row, max_size=15))
            batch = pa.RecordBatch.from_pylist([dict(zip(schema.names, r, strict=True)) for r in rows], schema=schema)
            known = places.find(batch)
            assert [n >= 0 for n in known.tolist()] == [r in model for r in rows]
            numbers = places.add(batch)
            found = [
                None if p == NOWHERE else (p, b)
                for p, b in zip(places.partitions[numbers].tolist(), places.buckets[numbers].tolist(), strict=True)
            ]
            assert found == [model.get(r) for r in rows]
            assert len(set(numbers.tolist())) == len(set(rows))
            places.partitions[numbers] = turn
            places.buckets[numbers] = numbers
            model.update({r: (turn, n) for r, n in zip(rows, numbers.tolist(), strict=True)})
            assert len(places) == len(model)


def test_memory_is_what_is_promised() -> None:
    places = KeyPlaces()
    count = 400_000
    places.add(pa.RecordBatch.from_pydict({"k": pa.array(range(count), pa.int64())}))
    stored = places._keys
    assert stored is not None
    arrays = [places._large, places._recent, places._places._all, stored._words._all]
    assert sum(a.nbytes for a in arrays) <= 24 * count * 1.5
