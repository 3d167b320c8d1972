"""Rows of streams over real files: a state and the changes after it make the state at the end, wherever one begins."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark.api.table import Table
from paimon_spark.engine.read.split_reader import read_split
from paimon_spark.engine.scan.incremental import Content
from paimon_spark.engine.scan.query import ScanQuery
from paimon_spark.engine.scan.stream_units import order_of, plan_units, plan_whole
from paimon_spark.engine.tasks import DataSplit
from paimon_spark.format.metadata_files.snapshot import CommitKind, Snapshot
from paimon_spark.metadata.manifests import CACHE
from paimon_spark.metadata.snapshots import get_snapshot
from paimon_spark.options.core import ChangelogProducer
from paimon_spark.options.stream_read import parse_stream_options
from paimon_spark.predicate.parse import parse_predicate
from paimon_spark.streaming.reader import contents_of
from tests.harness.real_tables import a_table, put, rows

COLUMNS = pa.schema(
    [pa.field("k", pa.int64(), nullable=False), pa.field("p", pa.int32(), nullable=False), ("v", pa.string())]
)
TABLES: dict[str, dict[str, str]] = {
    "keys": {"bucket": "2"},
    "dynamic": {"bucket": "-1"},
    "input": {"bucket": "2", "changelog-producer": "input"},
    "deletion-vectors": {"bucket": "1", "deletion-vectors.enabled": "true"},
    "lookup": {"bucket": "1", "changelog-producer": "lookup"},
    "full-compaction": {"bucket": "1", "changelog-producer": "full-compaction"},
    "lookup with vectors": {"bucket": "1", "changelog-producer": "lookup", "deletion-vectors.enabled": "true"},
    "one-file-targets": {"bucket": "1", "target-file-size": "1 b", "source.split.target-size": "1 b"},
}
KINDS = ScanQuery(with_row_kind=True)
Row = tuple[str, int, int, str | None]


def live(t: Table) -> Table:
    """The table as it is defined and committed to now."""
    return paimon_spark.load_table(t.location)


def step(t: Table, rng: random.Random, number: int) -> None:
    """One more commit, or two."""
    some = {(rng.randrange(12), rng.randrange(2)) for _ in range(rng.randrange(1, 8))}
    batch = rows(COLUMNS, *((k, p, rng.choice([None, f"{number}"])) for k, p in sorted(some)))
    choices = ["write", "write", "write", "delete", "compact"]
    if t.options.changelog_producer in (ChangelogProducer.NONE, ChangelogProducer.INPUT):
        choices += ["overwrite", "partition"]  # which the other producers tell of later, or never
    match rng.choice(choices):
        case "write":
            t.write(batch)
        case "delete":
            t.delete(f"k < {rng.randrange(6)}")
        case "overwrite":
            t.write(batch, mode="overwrite")
        case "partition":
            t.write(batch, mode="overwrite", partitionOverwriteMode="dynamic")
        case "compact":
            t.compact(full=rng.random() < 0.5)


def read(splits: Iterable[DataSplit], request: Any) -> list[Any]:
    out: list[Any] = []
    for split in splits:
        for batch in read_split(request, split):
            batch.validate(full=True)
            out += [tuple(r.values()) for r in batch.to_pylist()]
    return out


def applied(before: dict[tuple[int, int], str | None], changes: Sequence[Row]) -> dict[tuple[int, int], str | None]:
    """What a consumer holds that puts every change where the one before it was."""
    out = dict(before)
    for kind, k, p, v in changes:
        if kind in ("+I", "+U"):
            out[k, p] = v
        else:
            out.pop((k, p), None)
    return out


OVERWRITES = {"streaming-read-overwrite": "true"}


def wanted_of(
    t: Table, start: int, end: int, options: Mapping[str, str] = OVERWRITES
) -> list[tuple[Snapshot, Content]]:
    asked = parse_stream_options(options)
    snapshots = [s for s in t.snapshots() if start < s.id <= end]
    return [(s, c) for s in snapshots if (c := contents_of(t.handle, s, asked)) is not None]


@pytest.mark.ci
@pytest.mark.parametrize("kind", TABLES)
def test_a_state_and_the_changes_after_it_make_the_state_at_the_end(kind: str, tmp_path: Path) -> None:
    rng = random.Random(f"{kind} 1")
    t = a_table(COLUMNS, keys="p k", by="p", options=TABLES[kind], where=tmp_path)
    for number in range(8):
        step(live(t), rng, number)
    t = live(t)
    last = t.snapshots()[-1].id
    if kind not in ("keys", "dynamic", "input", "one-file-targets"):  # what is not compacted is not seen, or not told
        t.compact(full=True)
        last = t.snapshots()[-1].id
    expected = {(r["k"], r["p"]): r["v"] for r in t.scan().to_arrow().to_pylist()}
    for start in (0, *rng.sample(range(1, last + 1), 2), last):
        state: list[Row] = []
        if start:
            begin = plan_units(t.handle, get_snapshot(t.handle, start), Content.STATE, KINDS)
            state = read(begin.splits(0, len(begin)), begin.request)
        assert {r[0] for r in state} <= {"+I"}
        assert len({r[1:3] for r in state}) == len(state)
        wanted = wanted_of(t, start, last)
        whole = plan_whole(t.handle, wanted, KINDS)
        held = applied({}, state)
        assert applied(held, read(in_tasks(whole.splits), whole.request)) == expected
        pieces: list[Row] = []
        for snapshot, content in wanted:
            u = plan_units(t.handle, snapshot, content, KINDS)
            cut = rng.randrange(len(u) + 1)
            pieces += read(u.splits(0, cut), u.request) + read(u.splits(cut, len(u)), u.request)
        assert sorted(pieces, key=str) == sorted(read(whole.splits, whole.request), key=str)
        assert applied(held, pieces) == expected


def in_tasks(splits: Sequence[DataSplit]) -> list[DataSplit]:
    """Splits in an order in which tasks may come to them: those that need no order backwards."""
    together = order_of(splits)
    chains: dict[Any, list[DataSplit]] = {}
    for i, split in enumerate(splits):
        chains.setdefault(i if together is None else together(split), []).append(split)
    return [s for chain in reversed(list(chains.values())) for s in chain]


def test_an_overwrite_takes_rows_away_and_puts_others_in_their_place(tmp_path: Path) -> None:
    t = a_table(COLUMNS, keys="p k", by="p", options={"bucket": "1"}, where=tmp_path)
    put(t, (1, 0, "a"), (2, 0, "b"), (3, 1, "kept"))
    put(t, (1, 0, "A"))
    t.delete("k = 2")
    put(t, (2, 0, "new"), (5, 0, "five"), mode="overwrite", partitionOverwriteMode="dynamic")
    head = t.snapshots()[-1]
    u = plan_units(t.handle, head, Content.OVERWRITE, KINDS)
    found = read(u.splits(0, len(u)), u.request)
    assert found == [("-D", 1, 0, "A"), ("+I", 2, 0, "new"), ("+I", 5, 0, "five")]
    plain = plan_units(t.handle, head, Content.OVERWRITE, ScanQuery(columns=("v",)))
    assert read(plain.splits(0, len(plain)), plain.request) == [("new",), ("five",)]
    asked = ScanQuery(predicate=parse_predicate("v = 'A'", t.row_type, "UTC"), with_row_kind=True)
    some = plan_units(t.handle, head, Content.OVERWRITE, asked)
    assert read(some.splits(0, len(some)), some.request) == [("-D", 1, 0, "A")]


def test_rows_that_wait_for_buckets_are_in_the_state_after_those_that_have_one(tmp_path: Path) -> None:
    t = a_table(COLUMNS, keys="p k", by="p", options={"bucket": "-2"}, where=tmp_path)
    put(t, (1, 0, "old"), (2, 0, "gone"), (3, 1, "c"))
    t.compact()
    put(t, (1, 0, "new"))
    live(t).delete("k = 2")
    t = live(t)
    head = t.snapshots()[-1]
    u = plan_units(t.handle, head, Content.STATE, KINDS)
    state = read(in_tasks(u.splits(0, len(u))), u.request)
    assert applied({}, state) == {(1, 0): "new", (3, 1): "c"}
    put(t, (3, 1, "C"), mode="overwrite", partitionOverwriteMode="dynamic")
    put(live(t), (7, 0, None), mode="overwrite")
    held = applied({}, state)
    for snapshot, content in wanted_of(t, head.id, t.snapshots()[-1].id):
        plan = plan_whole(t.handle, [(snapshot, content)], KINDS)
        held = applied(held, read(in_tasks(plan.splits), plan.request))
    assert held == {(7, 0): None}


def test_vectors_of_rows_that_were_gone_before_an_overwrite_keep_them_gone(tmp_path: Path) -> None:
    t = a_table(
        COLUMNS, keys="p k", by="p", options={"bucket": "1", "deletion-vectors.enabled": "true"}, where=tmp_path
    )
    put(t, (1, 0, "a"), (2, 0, "b"), (3, 0, "c"))
    t.compact(full=True)
    live(t).delete("k = 2")
    live(t).compact()
    put(live(t), (9, 0, "z"), mode="overwrite")
    CACHE.clear()
    t = live(t)
    head = next(s for s in reversed(t.snapshots()) if s.commit_kind is CommitKind.OVERWRITE)
    u = plan_units(t.handle, head, Content.OVERWRITE, KINDS)
    assert read(u.splits(0, len(u)), u.request) == [("-D", 1, 0, "a"), ("-D", 3, 0, "c"), ("+I", 9, 0, "z")]


def test_changes_of_older_schemas_come_in_the_columns_of_the_reader(tmp_path: Path) -> None:
    t = a_table(COLUMNS, keys="p k", by="p", options={"bucket": "1"}, where=tmp_path)
    put(t, (1, 0, "a"))
    t = t.alter(rename={"v": "w"}, add={"x": "INT"})
    modes: tuple[Literal["append", "overwrite"], ...] = ("append", "overwrite")
    for k, w, x, mode in zip((2, 3), "bc", (5, 6), modes, strict=True):
        columns = {"k": [k], "p": pa.array([0], pa.int32()), "w": [w], "x": pa.array([x], pa.int32())}
        t.write(pa.table(columns), mode=mode)
    first, second, third = t.snapshots()
    wanted = [(first, Content.DELTA), (second, Content.DELTA), (third, Content.OVERWRITE)]
    plan = plan_whole(t.handle, wanted, ScanQuery(columns=("k", "w", "x"), with_row_kind=True))
    assert read(plan.splits, plan.request) == [
        ("+I", 1, "a", None), ("+I", 2, "b", 5), ("-D", 1, "a", None), ("-D", 2, "b", 5), ("+I", 3, "c", 6),
    ]  # fmt: skip


def test_a_key_whose_partition_is_rescaled_keeps_its_last_value(tmp_path: Path) -> None:
    t = a_table(COLUMNS, keys="p k", by="p", options={"bucket": "3"}, where=tmp_path)
    keys = range(20)
    put(t, *((k, 0, "old") for k in keys))
    t = t.alter(set_options={"bucket": "2"})
    put(t, *((k, 0, "moved") for k in keys), mode="overwrite")
    put(t, *((k, 0, "new") for k in keys))
    for asked in ({}, OVERWRITES):
        wanted = wanted_of(t, 0, 3, asked)
        plan = plan_whole(t.handle, wanted, KINDS)
        assert len({s.bucket for s in plan.splits}) > 1
        assert applied({}, read(in_tasks(plan.splits), plan.request)) == {(k, 0): "new" for k in keys}
