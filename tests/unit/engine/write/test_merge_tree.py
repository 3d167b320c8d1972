"""The writer of buckets with keys against dictionaries: what its files and changelog hold."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_spark.engine.merge.sorted_merge import SequenceField
from paimon_spark.engine.write import merge_tree
from paimon_spark.engine.write.data_files import DataFiles
from paimon_spark.engine.write.merge_tree import SHARED_STRIDE, MergeTreeWriter
from paimon_spark.engine.write.request import WriteRequest
from paimon_spark.errors import DataError
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.layout import Layout
from paimon_spark.options.table import parse_table_options
from paimon_spark.types import SEQUENCE_NUMBER, VALUE_KIND
from tests.harness import merge_model as model
from tests.harness.merge_model import Record

COLUMNS = {"a": "INT", "b": "STRING", "s": "INT"}
ARROW = {"a": pa.int32(), "b": pa.string(), "s": pa.int32()}
SMALL = st.none() | st.integers(-3, 3)
VALUES = st.fixed_dictionaries({"a": SMALL, "b": st.none() | st.sampled_from(["", "x", "y"]), "s": SMALL})


@dataclass
class File:
    """A file that a writer filled, in memory."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    batches: int = 0
    gone: bool = False

    def write(self, batch: pa.RecordBatch) -> None:
        self.rows += batch.to_pylist()
        self.batches += 1

    def close(self) -> tuple[Any, ...]:
        return (self,) if self.rows else ()

    def abort(self) -> None:
        self.gone = True


@dataclass
class Files:
    made: list[File] = field(default_factory=list)
    broken: bool = False

    def data(self) -> File:
        self.made.append(File())
        return self.made[-1]

    changelog = data


def writer(options: dict[str, str], files: Files | None = None, base: int = -1, **request: Any) -> MergeTreeWriter:
    schema = model.table(COLUMNS, options)
    handle = TableHandle(cast(Any, None), Layout("/t"), "t", schema, parse_table_options(options))
    made = cast(DataFiles, files or Files())
    return MergeTreeWriter(WriteRequest(handle, "user", **request), b"", 0, base, files=made)


def batch(records: Sequence[Record], kinds: bool = True) -> pa.RecordBatch:
    data = {"k": pa.array([r.key for r in records], pa.int64())}
    data |= {n: pa.array([r.values[n] for r in records], t) for n, t in ARROW.items()}
    if kinds:
        data[VALUE_KIND] = pa.array([r.kind for r in records], pa.int8())
    return pa.RecordBatch.from_pydict(data)


@st.composite
def flushes(draw: st.DrawFn, kinds: tuple[int, ...] = (0, 1, 2, 3)) -> list[list[list[Record]]]:
    """Records in order of arrival: batches, in groups between which memory is released."""
    number = 0
    out: list[list[list[Record]]] = []
    for _ in range(draw(st.integers(1, 4))):
        out.append([])
        for size in draw(st.lists(st.integers(0, 6), max_size=3)):
            rows = []
            for _ in range(size):
                kind = draw(st.sampled_from(kinds))
                rows.append(Record(draw(st.integers(0, 5)), number, kind, 0, draw(VALUES)))
                number += 1
            out[-1].append(rows)
    return out


def run(data: list[list[list[Record]]], target: MergeTreeWriter) -> tuple[list[File], list[File]]:
    try:
        for number, group in enumerate(data):
            if number:
                target.release()
            for records in group:
                target.write(batch(records, kinds=any(r.kind for r in records)))
        done = target.close()
    except DataError:
        target.abort()
        raise
    return cast("list[File]", list(done.new_files)), cast("list[File]", list(done.changelog_files))


Rule = Callable[[list[Record]], Any]
ENGINES: dict[str, tuple[dict[str, str], Rule]] = {
    "deduplicate": ({}, model.deduplicate(False)),
    "first-row": ({"merge-engine": "first-row"}, model.first_row(False)),
    "partial-update": (
        {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"},
        model.partial_update(remove_on_delete=True),
    ),
    "groups": (
        {"merge-engine": "partial-update", "fields.s.sequence-group": "a"},
        model.partial_update(groups={("s",): ("a",)}),
    ),
    "aggregation": (
        {
            "merge-engine": "aggregation",
            "aggregation.remove-record-on-delete": "true",
            "fields.a.aggregate-function": "sum",
            "fields.b.aggregate-function": "last_value",
            "fields.s.aggregate-function": "last_value",
        },
        model.aggregation(
            {"a": lambda acc, new: acc if new is None else new if acc is None else acc + new,
             "b": lambda acc, new: new, "s": lambda acc, new: new},
            {"a": lambda acc, new: acc if new is None else -new if acc is None else acc - new,
             "b": lambda acc, new: None, "s": lambda acc, new: None},
            True,
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("spills", [True, False])
@given(data=flushes(), producer=st.sampled_from(["none", "input"]), part=st.sampled_from([1, 1 << 20]))
def test_files_hold_what_the_merge_of_the_buffer_gives(
    engine: str, spills: bool, data: list[list[list[Record]]], producer: str, part: int
) -> None:
    options, rule = ENGINES[engine]
    options = {**options, "changelog-producer": producer, "write-buffer-spillable": str(spills).lower()}
    buffers = [[r for rows in group for r in rows] for group in data]
    if spills:
        buffers = [[r for records in buffers for r in records]]
    try:
        expected = [model.merged(records, rule, keep_deletes=True) for records in buffers if records]
    except model.RefusedError:
        with pytest.raises(DataError):
            run(data, writer(options))
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(merge_tree, "_PART_BYTES", part)
        patch.setattr(merge_tree, "_MOST_RUNS", 2)
        files, logs = run(data, writer(options))
    assert [[(r[VALUE_KIND], r["k"], {n: r[n] for n in COLUMNS}) for r in f.rows] for f in files] == expected
    for f, records in zip(files, (b for b in buffers if b), strict=True):
        newest = {r.key: r.sequence for r in reversed(records)} if engine == "first-row" else {
            r.key: r.sequence for r in records
        }  # fmt: skip
        assert {r["k"]: r[SEQUENCE_NUMBER] for r in f.rows} == newest
        assert list(f.rows[0]) == [SEQUENCE_NUMBER, VALUE_KIND, "k", *COLUMNS]
    if producer == "none":
        assert logs == []
    else:
        assert [[(r["k"], r[SEQUENCE_NUMBER], r[VALUE_KIND], r["a"]) for r in f.rows] for f in logs] == [
            sorted((r.key, r.sequence, r.kind, r.values["a"]) for r in records) for records in buffers if records
        ]


@given(data=flushes(), descending=st.booleans(), producer=st.sampled_from(["none", "input"]))
def test_sequence_fields_come_before_arrival(data: list[list[list[Record]]], descending: bool, producer: str) -> None:
    order = "descending" if descending else "ascending"
    options = {"sequence.field": "s,a", "sequence.field.sort-order": order, "changelog-producer": producer}
    records = [r for group in data for rows in group for r in rows]
    fields = (SequenceField("s", descending), SequenceField("a", descending))
    files, logs = run(data, writer(options))
    rows = [(r[VALUE_KIND], r["k"], {n: r[n] for n in COLUMNS}) for f in files for r in f.rows]
    assert rows == model.merged(records, model.deduplicate(False), sequence=fields, keep_deletes=True)
    assert sum(len(f.rows) for f in logs) == (len(records) if producer == "input" else 0)
    last = {r["k"]: r[SEQUENCE_NUMBER] for f in logs for r in f.rows}
    if producer == "input":
        assert last == {r["k"]: r[SEQUENCE_NUMBER] for f in files for r in f.rows}


def test_numbers_continue_from_those_of_the_bucket() -> None:
    rows = [Record(key, 0, 0, 0, {"a": 1, "b": "", "s": None}) for key in (2, 1)]
    files, _ = run([[rows]], writer({}, base=41))
    assert [(r["k"], r[SEQUENCE_NUMBER]) for r in files[0].rows] == [(1, 43), (2, 42)]


def test_writers_that_share_a_bucket_never_give_the_same_number() -> None:
    rows = [Record(k, 0, 0, 0, {"a": 1, "b": "", "s": 0}) for k in range(3)]
    seen: list[int] = []
    for number in (0, 1, 7, SHARED_STRIDE - 1):
        files, _ = run([[rows], [rows]], writer({}, base=9, writer_number=number, shares_buckets=True))
        seen += [r[SEQUENCE_NUMBER] for r in files[0].rows]
        assert all(r[SEQUENCE_NUMBER] >= 10 for r in files[0].rows)
    assert len(set(seen)) == len(seen)


def test_abort_removes_every_file_made() -> None:
    files = Files()
    target = writer({"write-buffer-spillable": "false", "changelog-producer": "input"}, files)
    target.write(batch([Record(1, 0, 0, 0, {"a": 1, "b": "", "s": 0})]))
    target.release()
    target.write(batch([Record(1, 0, 0, 0, {"a": 1, "b": "", "s": 0})]))
    assert target.buffered_bytes > 0
    target.abort()
    assert len(files.made) == 2
    assert all(f.gone for f in files.made)


def test_an_error_of_the_merge_names_table_and_bucket() -> None:
    with pytest.raises(DataError, match=r"table t, bucket 0: .*first-row"):
        run(
            [[[Record(1, n, 3, 0, {"a": 1, "b": "", "s": 0}) for n in range(2)]]], writer({"merge-engine": "first-row"})
        )


def test_disk_that_is_used_up_becomes_files() -> None:
    rows = [Record(k, 0, 0, 0, {"a": 1, "b": "", "s": 0}) for k in range(3)]
    files, _ = run([[rows], [rows], [rows]], writer({"write-buffer-spill.max-disk-size": "1 b"}))
    assert [len(f.rows) for f in files] == [3, 3, 3]


@pytest.mark.parametrize("engine", ["deduplicate", "aggregation"])
def test_memory_stays_bounded_whatever_comes(engine: str) -> None:
    class Counting(File):
        def write(self, batch: pa.RecordBatch) -> None:
            self.batches += batch.num_rows

        def close(self) -> tuple[Any, ...]:
            return (self,)

    made = Files()

    def data() -> File:
        made.made.append(Counting())
        return made.made[-1]

    made.data = data  # type: ignore[method-assign]
    target = writer(ENGINES[engine][0], made)
    rng = np.random.default_rng(5)
    budget, peak, before = 8 << 20, 0, pa.total_allocated_bytes()
    tracemalloc.start()
    try:
        for _ in range(60):
            keys = rng.integers(0, 1 << 40, 20_000)
            numbers = pa.array(keys.astype(np.int32) % 1000)
            target.write(
                pa.record_batch({"k": pa.array(keys), "a": numbers, "b": numbers.cast(pa.string()), "s": numbers})
            )
            if target.buffered_bytes > budget:
                target.release()
            peak = max(peak, pa.total_allocated_bytes() - before)
        target.close()
        _, python_peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert made.made[0].batches > 1_150_000
    assert peak + python_peak < 16 * budget
