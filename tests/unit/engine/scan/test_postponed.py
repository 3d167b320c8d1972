"""`postpone.merge-on-read`: waiting rows are merged with those of the buckets; what cannot merge them is refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import paimon_spark
from paimon_spark.engine.merge import sorted_merge
from paimon_spark.engine.scan.one_branch import with_postponed_rows
from paimon_spark.engine.tasks import SplitMode
from paimon_spark.errors import DataError, UnsupportedFeatureError
from paimon_spark.jobs.upkeep import compaction
from paimon_spark.options.stream_read import parse_stream_options
from paimon_spark.streaming.source import check_stream
from tests.harness.real_tables import a_table, put
from tests.harness.search import examples

SCHEMA = pa.schema(
    [
        pa.field("p", pa.int32(), nullable=False),
        pa.field("k", pa.int64(), nullable=False),
        ("v", pa.int32()),
        ("s", pa.int32()),
    ]
)
ON = {"postpone.merge-on-read": "true", "postpone.batch-write-fixed-bucket": "false"}
WAITING = {"bucket": "-2", "postpone.default-bucket-num": "3", **ON}
Row = tuple[int, int, int | None, int | None, int]


@pytest.fixture(autouse=True)
def without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "active_spark_jobs", lambda: None)


def rows_of(table: paimon_spark.Table, **how: Any) -> list[tuple[Any, ...]]:
    return sorted((tuple(r.values()) for r in table.scan(**how).to_arrow().to_pylist()), key=repr)


def test_waiting_rows_are_read_before_and_after_a_compaction(tmp_path: Path) -> None:
    table = a_table(SCHEMA, keys="p k", by="p", options=WAITING, where=tmp_path / "t")
    put(table, *((p, k, k, None, 0) for p in (1, 2) for k in range(10)))
    assert len(rows_of(table)) == 20
    table.compact(partitions={"p": 1})
    put(table, (1, 1, None, None, 3), (1, 2, 22, None, 0), (3, 1, 1, None, 0))
    found = rows_of(table)
    assert (1, 1, 1, None) not in found and (1, 2, 22, None) in found and (3, 1, 1, None) in found
    assert len(found) == 20
    assert rows_of(table, columns=["v"], where="p = 1 and k = 2") == [(22,)]
    assert rows_of(table, where="v = 2 and p = 1") == []
    assert rows_of(table, **{"postpone.merge-on-read": "false"}) == [(1, k, k, None) for k in range(10)]
    table.compact()
    assert rows_of(table) == found


def test_a_key_condition_reads_one_bucket(tmp_path: Path) -> None:
    table = a_table(SCHEMA, keys="p k", by="p", options=WAITING, where=tmp_path / "t")
    put(table, *((1, k, k, None, 0) for k in range(50)))
    table.compact()
    put(table, *((1, k, -k, None, 0) for k in range(0, 50, 2)))
    for k in (4, 5, 99):
        plan = table.scan(where=f"k = {k}").plan()
        assert len(plan.splits) == 1
        assert rows_of(table, where=f"k = {k}") == ([] if k == 99 else [(1, k, -k if k % 2 == 0 else k, None)])
    assert rows_of(table, where="k > 47") == [(1, 48, -48, None), (1, 49, 49, None)]


def test_unsorted_files_are_not_skipped_by_their_first_and_last_key(tmp_path: Path) -> None:
    table = a_table(SCHEMA, keys="p k", by="p", options=WAITING, where=tmp_path / "t")
    put(table, (1, 5, 1, None, 0), (1, 1, 1, None, 0), (1, 9, 1, None, 0), (1, 6, 1, None, 0))
    assert rows_of(table, where="k = 9") == [(1, 9, 1, None)]
    assert rows_of(table, where="k < 2") == [(1, 1, 1, None)]


def test_many_chunks_merge_in_the_order_of_writing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorted_merge, "WINDOW_BYTES", 1 << 12)
    table = a_table(
        SCHEMA, keys="p k", by="p", options={**WAITING, "merge-engine": "partial-update"}, where=tmp_path / "t"
    )
    for turn in range(4):
        put(table, *((1, k, turn if turn < 2 else None, turn, 0) for k in range(1000 - turn)))
    expected = [(1, k, 1, 3 if k < 997 else 2 if k < 998 else 1 if k < 999 else 0) for k in range(1000)]
    expected[999] = (1, 999, 0, 0)
    assert rows_of(table) == sorted(expected, key=repr)


ENGINES: dict[str, dict[str, str]] = {
    "deduplicate": {},
    "sequence": {"sequence.field": "s"},
    "partial-update": {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"},
    "aggregation": {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"},
    "first-row": {"merge-engine": "first-row", "ignore-delete": "true"},
    "vectors": {"deletion-vectors.enabled": "true"},
    "lookup": {"changelog-producer": "lookup"},
}
WRITTEN = st.tuples(
    st.integers(1, 2),
    st.integers(0, 8),
    st.one_of(st.none(), st.integers(0, 5)),
    st.one_of(st.none(), st.integers(0, 5)),
    st.sampled_from([0, 2, 3]),
)
STEPS = st.one_of(st.lists(WRITTEN, min_size=1, max_size=8), st.just("compact"))


@pytest.mark.parametrize("engine", ENGINES)
@settings(max_examples=examples(12))
@given(steps=st.lists(STEPS, min_size=2, max_size=7))
def test_what_is_merged_is_what_a_compaction_makes(
    engine: str, steps: Sequence[Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    table = a_table(
        SCHEMA, keys="p k", by="p", options={**WAITING, **ENGINES[engine]}, where=tmp_path_factory.mktemp("m") / "t"
    )
    for step in steps:
        if step == "compact":
            table.compact()
        else:
            put(table, *step)
    merged = rows_of(table)
    table.compact(full=True)
    assert rows_of(table) == merged


def test_what_cannot_merge_waiting_rows_is_refused(tmp_path: Path) -> None:
    table = a_table(SCHEMA, keys="p k", by="p", options=WAITING, where=tmp_path / "t")
    put(table, (1, 1, 1, None, 0))
    put(table, (1, 2, 1, None, 0))
    for options in ({"incremental-between": "1,2"}, {"scan.file-creation-time-millis": "1"}):
        with pytest.raises(UnsupportedFeatureError, match=r"postpone\.merge-on-read"):
            table.scan(**options).plan()
        table.scan(**{**options, "postpone.merge-on-read": "false"}).plan()


def test_a_stream_is_refused_and_system_tables_show_what_is_in_buckets(tmp_path: Path) -> None:
    table = a_table(SCHEMA, keys="p k", by="p", options=WAITING, where=tmp_path / "t")
    put(table, (1, 1, 1, None, 0))
    table.compact()
    put(table, (1, 2, 1, None, 0))
    with pytest.raises(UnsupportedFeatureError, match=r"a stream.*postpone\.merge-on-read to false"):
        check_stream(table.handle, parse_stream_options({}, table.handle.schema.options))
    for name in ("audit_log", "ro"):
        shown = paimon_spark.load_table(f"{table.location}${name}").scan(columns=["k"]).to_arrow()
        assert shown.column("k").to_pylist() == ([1] if name == "audit_log" else [])


def test_files_for_different_numbers_of_buckets_are_refused(tmp_path: Path) -> None:
    table = a_table(SCHEMA, keys="p k", by="p", options=WAITING, where=tmp_path / "t")
    put(table, *((1, k, 1, None, 0) for k in range(9)))
    plan = table.scan().plan()
    one = replace(plan.splits[0], bucket=0, total_buckets=2, mode=SplitMode.RAW)
    waiting = replace(plan.splits[0], bucket=-2, mode=SplitMode.CHANGES)
    with pytest.raises(DataError, match="2 and for 4 buckets"):
        with_postponed_rows(table.handle, [one, replace(one, bucket=1, total_buckets=4), waiting], None)


def test_only_postponed_tables_have_waiting_rows(tmp_path: Path) -> None:
    table = a_table(SCHEMA, keys="p k", by="p", options={"bucket": "1", **ON}, where=tmp_path / "f")
    put(table, (1, 1, 1, None, 0))
    assert rows_of(table) == [(1, 1, 1, None)]
    assert table.scan(**{"incremental-between": "0,1"}).to_arrow().num_rows == 1
