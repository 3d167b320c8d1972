"""Rows that wait in the postponed bucket come into buckets, where they are read; later ones win."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import paimon_spark
from paimon_spark.engine.commit.committer import Committer
from paimon_spark.engine.compaction import run
from paimon_spark.engine.compaction.run import move_postponed_rows
from paimon_spark.engine.compaction.task import CompactResult
from paimon_spark.errors import CommitOutcomeUnknownError, InvalidOptionError, StorageError
from paimon_spark.format.metadata_files.snapshot import CommitKind
from paimon_spark.jobs.upkeep import compaction
from paimon_spark.metadata.handle import TableHandle, open_table
from paimon_spark.metadata.live_files import live_entries
from paimon_spark.metadata.manifests import data_manifests
from paimon_spark.metadata.snapshots import latest_snapshot
from paimon_spark.options.descriptor import parse_group
from paimon_spark.options.write import PostponedBucketOptions
from paimon_spark.storage.local import LocalStore
from tests.harness.fault_store import MUTATING, Fault, FaultStore
from tests.harness.real_tables import a_table, put
from tests.harness.search import examples

STORE = LocalStore()
SCHEMA = pa.schema(
    [pa.field("p", pa.int32(), nullable=False), pa.field("k", pa.int64(), nullable=False), ("v", pa.string())]
)
WAITING = {"bucket": "-2", "postpone.batch-write-fixed-bucket": "false"}
Key = tuple[int, int]


@pytest.fixture(autouse=True)
def without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "active_spark_jobs", lambda: None)


def upsert(table: paimon_spark.Table, *rows: tuple[int, int, str | None]) -> None:
    put(table, *((*r, 0) for r in rows))


def rows_of(table: paimon_spark.Table) -> dict[Key, str | None]:
    found = table.scan().to_arrow().to_pylist()
    out = {(r["p"], r["k"]): r["v"] for r in found}
    assert len(out) == len(found)
    return out


def entries_of(table: paimon_spark.Table) -> pa.Table:
    head = latest_snapshot(table.handle)
    assert head is not None
    return live_entries(table.handle, data_manifests(table.handle, head))


def settle(handle: TableHandle, **how: Any) -> CompactResult:
    return move_postponed_rows(handle, "settler", **how)


def test_rows_are_seen_after_a_compaction(tmp_path: Path) -> None:
    table = a_table(
        SCHEMA, keys="p k", by="p", options={**WAITING, "postpone.default-bucket-num": "2"}, where=tmp_path / "t"
    )
    upsert(table, *((p, k, f"{p} {k}") for p in (1, 2) for k in range(20)))
    upsert(table, (1, 3, "new"))
    put(table, (1, 4, None, 3))
    assert rows_of(table) == {}
    result = table.compact()
    expected: dict[Key, str | None] = {(p, k): f"{p} {k}" for p in (1, 2) for k in range(20)}
    del expected[1, 4]
    assert rows_of(table) == {**expected, (1, 3): "new"}
    assert result.snapshot is not None and result.snapshot.commit_kind is CommitKind.COMPACT
    entries = entries_of(table)
    assert set(entries.column("bucket").to_pylist()) == {0, 1}
    assert set(entries.column("total_buckets").to_pylist()) == {2}
    assert result.files_before == 4
    assert table.compact().snapshot_ids == ()


def test_partitions_keep_their_number_of_buckets_and_new_rows_come_after_old_ones(tmp_path: Path) -> None:
    table = a_table(
        SCHEMA,
        keys="p k",
        by="p",
        options={**WAITING, "postpone.target-row-num-per-bucket": "10"},
        where=tmp_path / "t",
    )
    upsert(table, *((1, k, "old") for k in range(25)))
    table.compact()
    upsert(table, *((1, k, "new") for k in range(5)))
    upsert(table, *((2, k, "x") for k in range(5)))
    table.compact()
    entries = entries_of(table)
    totals = dict(
        zip(entries.column("partition").to_pylist(), entries.column("total_buckets").to_pylist(), strict=True)
    )
    assert sorted(totals.values()) == [1, 3]
    found = rows_of(table)
    assert [found[1, k] for k in range(25)] == ["new"] * 5 + ["old"] * 20
    assert len(found) == 30


WRITTEN = st.tuples(st.integers(1, 2), st.integers(0, 6), st.sampled_from(["a", None, "b"]), st.sampled_from([0, 2, 3]))
STEPS = st.one_of(st.lists(WRITTEN, min_size=1, max_size=8), st.booleans())


@pytest.mark.parametrize(
    "options",
    [{}, {"deletion-vectors.enabled": "true"}, {"changelog-producer": "lookup"}],
    ids=["plain", "dv", "lookup"],
)
@settings(max_examples=examples(10))
@given(steps=st.lists(STEPS, min_size=2, max_size=8))
def test_what_is_read_after_compactions_is_what_was_written(
    options: dict[str, str], steps: Sequence[Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    table = a_table(
        SCHEMA,
        keys="p k",
        by="p",
        options={**WAITING, "postpone.default-bucket-num": "2", **options},
        where=tmp_path_factory.mktemp("m") / "t",
    )
    waiting: dict[Key, str | None] = {}
    for step in [*steps, False]:
        if isinstance(step, bool):
            table.compact(full=step)
            assert rows_of(table) == waiting
            continue
        put(table, *step)
        for p, k, v, kind in step:
            waiting.pop((p, k), None)
            if kind != 3:
                waiting[p, k] = v


def test_chosen_partitions_alone_are_settled(tmp_path: Path) -> None:
    table = a_table(SCHEMA, keys="p k", by="p", options=WAITING, where=tmp_path / "t")
    upsert(table, (1, 1, "a"), (2, 1, "b"))
    table.compact(partitions={"p": 2})
    assert rows_of(table) == {(2, 1): "b"}
    table.compact(where="p = 1")
    assert rows_of(table) == {(2, 1): "b", (1, 1): "a"}


def meddled(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Let others act once between the writing and the commit."""
    found = run._messages
    acts = [act]

    def messages(*args: Any) -> Any:
        made = found(*args)
        if acts:
            acts.pop()()
        return made

    monkeypatch.setattr(run, "_messages", messages)


def test_rows_written_meanwhile_wait_for_the_next_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    table = a_table(SCHEMA, keys="p k", by="p", options=WAITING, where=tmp_path / "t")
    upsert(table, (1, 1, "a"))
    meddled(monkeypatch, lambda: upsert(table, (1, 1, "b")))
    settle(table.handle)
    assert rows_of(table) == {(1, 1): "a"}
    settle(table.handle)
    assert rows_of(table) == {(1, 1): "b"}


def test_of_two_at_once_one_does_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    table = a_table(
        SCHEMA, keys="p k", by="p", options={**WAITING, "commit.min-retry-wait": "1 ms"}, where=tmp_path / "t"
    )
    upsert(table, (1, 1, "a"))
    head = latest_snapshot(table.handle)
    assert head is not None
    others = run._messages(table.handle, head, "x", None, None)
    meddled(monkeypatch, lambda: Committer(table.handle, "x").commit(others))
    before = set((tmp_path / "t").rglob("data-*"))
    assert settle(table.handle).snapshot_ids == ()
    assert rows_of(table) == {(1, 1): "a"}
    assert set((tmp_path / "t").rglob("data-*")) == before, "the files of the loser are gone"


@pytest.mark.ci
def test_a_failure_leaves_the_rows_waiting(tmp_path: Path) -> None:
    at = 0
    while True:
        at += 1
        table = a_table(
            SCHEMA, keys="p k", by="p", options={**WAITING, "commit.max-retries": "0"}, where=tmp_path / f"t{at}"
        )
        upsert(table, (1, 1, "a"), (2, 2, "b"))
        before = set((tmp_path / f"t{at}").rglob("data-*"))
        store = FaultStore(STORE)
        store.arm(Fault(at, verbs=MUTATING))
        try:
            settle(open_table(store, table.handle.layout.root))
        except CommitOutcomeUnknownError:
            pass  # every file stays
        except StorageError:
            assert rows_of(table) == {}
            assert set((tmp_path / f"t{at}").rglob("data-*")) == before
        if not store.failed:
            break
        settle(table.handle)
        assert rows_of(table) == {(1, 1): "a", (2, 2): "b"}


def test_numbers_of_buckets() -> None:
    assert parse_group(PostponedBucketOptions, {}).buckets_of_new_partition(1_000_000) == 1
    assert parse_group(PostponedBucketOptions, {"postpone.default-bucket-num": "4"}).buckets_of_new_partition(5) == 4
    target = parse_group(PostponedBucketOptions, {"postpone.target-row-num-per-bucket": "10"})
    assert [target.buckets_of_new_partition(n) for n in (0, 1, 10, 11, 30)] == [1, 1, 1, 2, 3]
    with pytest.raises(InvalidOptionError, match="at least 1"):
        parse_group(PostponedBucketOptions, {"postpone.target-row-num-per-bucket": "0"}).buckets_of_new_partition(5)
