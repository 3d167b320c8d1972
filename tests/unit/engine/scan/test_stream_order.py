"""In which order a stream reads, however it is cut, and how fast it is planned."""

from __future__ import annotations

import io
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_spark.engine.scan.incremental import Content
from paimon_spark.engine.scan.stream_units import order_of, plan_units, plan_whole
from paimon_spark.engine.tasks import DataSplit, SplitMode
from paimon_spark.errors import (
    CorruptFileError,
)
from paimon_spark.format.metadata_files.snapshot import CommitKind, Snapshot
from paimon_spark.metadata.handle import open_table
from paimon_spark.metadata.manifests import CACHE
from tests.harness.fault_store import FaultStore
from tests.harness.keywords import keywords
from tests.harness.planned import QUERY, appended, by_day, file, keyed, names, unit_names, units
from tests.harness.table_builder import File, TableBuilder


def test_rows_that_wait_for_buckets_follow_the_buckets_of_their_partition() -> None:
    t = by_day(bucket="-2")
    x = {"p": "x"}
    waiting: dict[str, Any] = {"bucket": -2, "total_buckets": -2, "sequence": (-1, -1)}
    t.commit(file("late", partition=x, created_ms=9, **waiting), file("early", partition=x, created_ms=5, **waiting))
    t.commit(
        file("real", partition=x, bucket=1), file("over", partition=x, bucket=1, sequence=(10, 19)),
        file("other", partition={"p": "y"}), kind=CommitKind.COMPACT,
    )  # fmt: skip
    u = units(t, Content.STATE)
    assert unit_names(u) == [["real", "over"], ["early"], ["late"], ["other"]]
    splits = u.splits(0, len(u))
    assert [s.mode for s in splits] == [SplitMode.MERGE, SplitMode.CHANGES, SplitMode.RAW]
    together = order_of(splits)
    assert together is not None
    assert together(splits[0]) == together(splits[1])
    assert together(splits[2]) not in (together(splits[0]), None)
    t = by_day(bucket="-2", **keywords({"changelog-producer": "lookup"}))
    log = file("log", partition=x)
    t.commit(file("waits", partition=x, **waiting), file("real", partition=x, level=5), changelog=[log])
    assert unit_names(units(t, Content.STATE)) == [["real"]]
    assert unit_names(units(t, Content.CHANGELOG)) == [["log"]]


def test_changes_before_another_number_of_buckets_come_first_and_in_the_same_task() -> None:
    t = by_day()
    x, y, two, four = {"p": "x"}, {"p": "y"}, {"total_buckets": 2}, {"total_buckets": 4}
    wanted = [
        t.commit(file("x1", partition=x, bucket=1, **two), file("y0", partition=y, **two)),
        t.commit(file("x0", partition=x, **four), file("x3", partition=x, bucket=3, **four)),
        t.commit(file("y1", partition=y, bucket=1, **two), file("again", partition=x, bucket=1, **four)),
    ]
    splits = plan_whole(t.open(), [(s, Content.DELTA) for s in wanted], QUERY).splits
    assert names(splits) == ["x1", "x0", "again", "x3", "y0", "y1"]
    together = order_of(splits)
    assert together is not None
    keys = [together(s) for s in splits]
    assert len(set(keys[:4])) == 1
    assert len(set(keys[4:])) == 2


def test_a_damaged_manifest_is_named_with_its_snapshot() -> None:
    t = by_day()
    wanted = [(t.commit(file(f"f{i}", partition={"p": "x"})), Content.DELTA) for i in range(3)]
    good = t.partition({"p": "x"})
    path = f"{t.table.root}/manifest/manifest-main-2-0"
    t.table.put(path, fastavro_with_partition(t.table.store.read(path), good[:6]))
    CACHE.clear()
    with pytest.raises(CorruptFileError, match=r"manifest of snapshot 2 of"):
        plan_whole(t.open(), wanted, QUERY)


def fastavro_with_partition(data: bytes, partition: bytes) -> bytes:
    """A manifest whose entries have another partition."""
    reader = fastavro.reader(io.BytesIO(data))
    out = io.BytesIO()
    assert reader.writer_schema is not None
    fastavro.writer(out, reader.writer_schema, [{**e, "_PARTITION": partition} for e in reader])  # type: ignore[dict-item]
    return out.getvalue()


def test_no_order_is_asked_where_none_matters() -> None:
    t = appended()
    t.commit(file("a"), file("b"))
    assert order_of(units(t, Content.DELTA).splits(0, 2)) is None
    t = keyed()
    t.commit(file("a", 0, 5), file("b", 3, 9))
    assert order_of(units(t, Content.STATE).splits(0, 1)) is None
    changes = units(t, Content.DELTA).splits(0, 2)
    assert order_of(changes) is not None


FILES = st.builds(
    lambda i, low, size, bucket, day, sequence: file(
        f"{i}", low, low + size, bucket=bucket, partition={"p": day}, sequence=(sequence, sequence + 5)
    ),
    st.integers(0, 10**9), st.integers(0, 50), st.integers(0, 30), st.integers(0, 1), st.sampled_from("xyz"),
    st.integers(0, 100),
)  # fmt: skip
COMMITS = st.lists(st.lists(FILES, min_size=1, max_size=5, unique_by=lambda f: f.name), min_size=1, max_size=4)


def history(commits: list[list[File]], **options: str) -> tuple[TableBuilder, list[tuple[Snapshot, Content]]]:
    """Appends, and an overwrite of the first commit's files at the end."""
    t = by_day(**options)
    made = [[replace(f, name=f"{i}-{f.name}") for f in files] for i, files in enumerate(commits)]
    wanted = [(t.commit(*files), Content.DELTA) for files in made]
    wanted.append((t.commit(made[0][0], deletes=made[0], kind=CommitKind.OVERWRITE), Content.OVERWRITE))
    wanted.append((t.commit(file("last", partition={"p": "x"})), Content.DELTA))
    return t, wanted


def by_bucket(splits: Sequence[DataSplit]) -> dict[tuple[bytes, int], list[tuple[SplitMode, str, bool]]]:
    """Files of each bucket in the order they are read."""
    out: dict[tuple[bytes, int], list[tuple[SplitMode, str, bool]]] = {}
    for s in splits:
        files = out.setdefault((s.partition, s.bucket), [])
        files += [(s.mode, f.file_name, True) for f in s.before_files]
        files += [(s.mode, f.file_name, False) for f in s.files]
    return out


@settings(max_examples=max(1, settings().max_examples // 4))
@given(COMMITS, st.data())
def test_pieces_give_what_the_whole_gives_bucket_by_bucket_in_the_order_of_commits(
    commits: list[list[File]], data: st.DataObject
) -> None:
    t, wanted = history(commits)
    whole = plan_whole(t.open(), wanted, QUERY).splits
    pieces: list[DataSplit] = []
    for snapshot, content in wanted:
        u = plan_units(t.open(), snapshot, content, QUERY)
        cuts = data.draw(st.lists(st.integers(0, len(u)), max_size=3))
        ends = sorted({0, *cuts, len(u)})
        for start, end in pairwise(ends):
            piece = u.splits(start, end)
            assert sum(len(s.files) + len(s.before_files) for s in piece) == u.files[start:end].sum()
            assert sum(s.size_bytes for s in piece) == u.size_bytes[start:end].sum()
            assert sum(s.row_count for s in piece) == u.row_counts[start:end].sum()
            pieces += piece
    assert by_bucket(pieces) == by_bucket(whole)
    order = {n: i for i, files in enumerate(commits) for n in (f"{i}-{f.name}" for f in files)}
    for files in by_bucket(whole).values():
        of_commits = [order[n] for mode, n, _ in files if mode is SplitMode.CHANGES and n in order]
        assert of_commits == sorted(of_commits)


@settings(max_examples=max(1, settings().max_examples // 5))
@given(COMMITS, st.integers(1, 5000), st.integers(1, 5000))
def test_options_that_only_tune_change_neither_order_nor_digest(
    commits: list[list[File]], target: int, cost: int
) -> None:
    t, wanted = history(commits)
    tuned = t.open(**{"source.split.target-size": f"{target} b", "source.split.open-file-cost": f"{cost} b"})
    query = replace(QUERY, batch_rows=7, threads=True)
    for snapshot, content in (*wanted, (wanted[-1][0], Content.STATE)):
        a = plan_units(t.open(), snapshot, content, QUERY)
        b = plan_units(tuned, snapshot, content, query)
        assert unit_names(a) == unit_names(b)
        assert a.digest == b.digest


@pytest.mark.parametrize("count", [2, 50])
def test_a_range_of_many_snapshots_takes_as_many_calls_as_one_of_few(count: int) -> None:
    t = keyed()
    wanted = [(t.commit(file(f"f{i}"), changelog=[file(f"log{i}")]), Content.DELTA) for i in range(count)]
    CACHE.clear()
    store = FaultStore(t.table.store)
    handle = open_table(store, t.table.root, "main")
    store.arm(None)
    assert len(names(plan_whole(handle, wanted, QUERY).splits)) == count
    assert [c.verb for c in store.calls] == ["read_many", "read_many"]


@pytest.mark.ci
def test_a_thousand_small_snapshots_are_planned_in_no_time() -> None:
    t = keyed(**{"source.split.open-file-cost": "1 b"})
    wanted = []
    for i in range(1000):
        wanted.append((t.commit(file(f"f{i}", sequence=(10 * i, 10 * i + 9))), Content.DELTA))
        t.manifests = []  # of which only states are made
    handle = t.open()
    CACHE.clear()
    begun = time.thread_time()
    (split,) = plan_whole(handle, wanted, QUERY).splits
    assert time.thread_time() - begun < 2
    assert names([split]) == [f"f{i}" for i in range(1000)]
