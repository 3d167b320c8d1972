"""Rows collected by group, in memory and spilled to disk."""

from __future__ import annotations

import os
from collections import defaultdict
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_spark.engine.write import router
from paimon_spark.engine.write.router import RowPool
from paimon_spark.errors import StorageError
from tests.harness.search import examples

STEP = st.one_of(
    st.just("spill"),
    st.lists(st.integers(0, 5), min_size=1, max_size=20),  # the group of each row of a batch
    st.tuples(st.just("take"), st.integers(0, 5)),
)


def values(batches: list[pa.RecordBatch]) -> list[tuple[int, str]]:
    return [(r["n"], r["s"]) for b in batches for r in b.to_pylist()]


@given(steps=st.lists(STEP, max_size=25), small=st.booleans())
@settings(max_examples=examples(200), deadline=None)
def test_each_group_gets_its_rows_once_and_in_order(steps: list[object], small: bool) -> None:
    pool = RowPool()
    model: dict[int, list[tuple[int, str]]] = defaultdict(list)
    number = 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(router, "_HANDED_BYTES", 50 if small else 32 << 20)
        patch.setattr(router, "_PAGED_BYTES", 1 if small else 32 << 20)
        for step in steps:
            if step == "spill":
                pool.spill()
                assert pool.memory_bytes == 0
            elif isinstance(step, tuple):
                assert values(list(pool.take(step[1]))) == model.pop(step[1], [])
            elif isinstance(step, list):
                groups = sorted(step)
                rows = [(number + i, f"row {number + i}" * (g + 1)) for i, g in enumerate(groups)]
                number += len(rows)
                batch = pa.record_batch({"n": [r[0] for r in rows], "s": [r[1] for r in rows]})
                distinct = sorted(set(groups))
                pool.add(batch, distinct, [groups.index(g) for g in distinct])
                for group, row in zip(groups, rows, strict=True):
                    model[group].append(row)
            assert pool.groups == sorted(model)
        for group in list(model):
            assert values(list(pool.take(group))) == model.pop(group)
    assert pool.memory_bytes == 0
    assert pool.groups == []
    pool.close()


def test_what_is_on_disk_holds_one_descriptor_and_gives_it_back() -> None:
    pool = RowPool()
    before = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else pytest.skip("no /proc")
    for i in range(20):
        pool.add(pa.record_batch({"n": [i]}), [0], [0])
    pool.spill()
    assert pool.disk_bytes > 0
    assert len(os.listdir("/proc/self/fd")) == before + 1
    pool.close()
    assert pool.disk_bytes == 0
    assert len(os.listdir("/proc/self/fd")) == before


def test_no_room_on_disk_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int, data: bytes, at: int) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    pool = RowPool()
    pool.add(pa.record_batch({"n": [1]}), [0], [0])
    with pytest.raises(StorageError, match=r"No space left.*TMPDIR"):
        pool.spill()
