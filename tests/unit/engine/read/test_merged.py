"""Merge on read over real files: every path of it gives the rows of the dictionary model."""

from __future__ import annotations

import itertools
import random
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_spark.engine.merge import sorted_merge
from paimon_spark.engine.merge.spill import spilled
from paimon_spark.engine.read import merged
from paimon_spark.engine.read.metadata_columns import output_schema
from paimon_spark.engine.read.split_reader import read_split
from paimon_spark.engine.tasks import DataSplit, ReadRequest, SplitMode
from paimon_spark.errors import DataError, UnsupportedFeatureError
from paimon_spark.format import binary_row
from paimon_spark.format.metadata_files.data_file import DataFileMeta, FileSource, SimpleStats
from paimon_spark.format.metadata_files.table_schema import TableSchema
from paimon_spark.options.table import parse_table_options
from paimon_spark.predicate.ast import Column, Compare, Op
from paimon_spark.storage.local import LocalStore
from paimon_spark.types import BIGINT
from tests.harness import merge_model as model
from tests.harness.merge_model import Record

COLUMNS = {"a": "INT", "b": "STRING"}
ARROW = {"a": pa.int32(), "b": pa.string()}
NO_STATS = SimpleStats(b"", b"", None)
Merge = Callable[[list[Record]], Any]


def write(folder: Path, records: Sequence[Record], level: int) -> DataFileMeta:
    """A data file of a primary-key table, as a compaction writes it."""
    path = folder / f"data-{len(list(folder.iterdir()))}.parquet"
    (batch,) = model.batches(records, ARROW, False, len(records))
    pq.write_table(pa.Table.from_batches([batch]), path, row_group_size=16)
    keys = [r.key for r in records]
    sequences = [r.sequence for r in records]
    return DataFileMeta(
        path.name,
        path.stat().st_size,
        len(records),
        binary_row.encode([min(keys)], [BIGINT]),
        binary_row.encode([max(keys)], [BIGINT]),
        NO_STATS,
        NO_STATS,
        min(sequences),
        max(sequences),
        0,
        level,
        delete_row_count=sum(r.retract for r in records),
        file_source=FileSource.COMPACT,
    )


def request(schema: TableSchema, columns: tuple[str, ...], **more: Any) -> ReadRequest:
    options = parse_table_options(schema.options)
    return ReadRequest(LocalStore(), "db.t", "main", schema, {}, options, columns, **{"batch_rows": 10, **more})


def split(folder: Path, files: Sequence[DataFileMeta], **more: Any) -> DataSplit:
    mode = SplitMode.DIFF if "before_files" in more else SplitMode.MERGE
    return DataSplit("main", 7, binary_row.encode([], []), 0, str(folder), mode, tuple(files), **more)


def read(r: ReadRequest, s: DataSplit) -> list[dict[str, Any]]:
    batches = list(read_split(r, s))
    for b in batches:
        b.validate(full=True)
        assert 0 < b.num_rows <= r.batch_rows
    rows: list[dict[str, Any]] = pa.Table.from_batches(batches, output_schema(r)).to_pylist()
    return rows


def random_files(
    folder: Path, seed: int, kinds: Sequence[int], tangled: bool
) -> tuple[list[DataFileMeta], list[Record]]:
    """An LSM tree: a deep run of two files, level-0 files over it, one file apart. Tangled ones overlap in age."""
    rng = random.Random(seed)
    records: list[Record] = []
    files: list[DataFileMeta] = []
    sequence = 0

    def add(keys: range, share: float, level: int) -> None:
        nonlocal sequence
        made = []
        for k in keys:
            if rng.random() < share:
                number = rng.randrange(10**6) * 1000 + sequence if tangled else sequence
                sequence += 1
                value = rng.choice([None, rng.randrange(100)])
                values = {"a": value, "b": rng.choice([None, f"b{sequence}"])}
                made.append(Record(k, number, rng.choice(kinds), level, values))
        records.extend(made)
        files.append(write(folder, made, level))

    add(range(50), 0.9, 5)
    add(range(50, 100), 0.9, 5)
    for _ in range(3):
        add(range(20, 90), 0.4, 0)
    add(range(200, 230), 0.9, 0)
    rng.shuffle(files)
    return files, records


def expected(records: list[Record], rule: Merge, columns: Sequence[str], kinds: bool) -> list[dict[str, Any]]:
    out = []
    for kind, key, values in model.merged(records, rule, keep_deletes=kinds):
        row = {c: key if c == "k" else values[c] for c in columns}
        out.append({"rowkind": ("+I", "-U", "+U", "-D")[kind], **row} if kinds else row)
    return out


ENGINES: dict[str, tuple[dict[str, str], Merge, Sequence[int]]] = {
    "deduplicate": ({}, model.deduplicate(False), (0, 1, 2, 3)),
    "adds only": ({}, model.deduplicate(False), (0,)),
    "ignore-delete": ({"ignore-delete": "true"}, model.deduplicate(True), (0, 2, 3)),
    "first-row": ({"merge-engine": "first-row"}, model.first_row(False), (0,)),
    "partial-update": (
        {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"},
        model.partial_update(remove_on_delete=True),
        (0, 0, 2, 3),
    ),
    "aggregation": (
        {"merge-engine": "aggregation", "fields.a.aggregate-function": "sum"},
        model.aggregation(
            {"a": lambda x, y: y if x is None else x if y is None else x + y, "b": lambda x, y: y or x},
            {
                "a": lambda x, y: x if y is None else -y if x is None else x - y,
                "b": lambda x, y: x if y is None else None,
            },
            False,
        ),
        (0, 2, 3),
    ),
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("tangled", [False, True])
@pytest.mark.parametrize("path", ["mask", "window"])
def test_every_engine_over_an_lsm_tree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str, tangled: bool, path: str
) -> None:
    options, rule, allowed = ENGINES[engine]
    if path == "window":
        monkeypatch.setattr(merged, "_MASK_ROWS", 0)
        monkeypatch.setattr(sorted_merge, "WINDOW_BYTES", 0)
    files, records = random_files(tmp_path, 1, allowed, tangled)
    schema = model.table(COLUMNS, options)
    for kinds, columns in itertools.product((False, True), (("k", "a", "b"), ("b",), ("k",))):
        rows = read(request(schema, columns, with_row_kind=kinds), split(tmp_path, files))
        assert sorted(rows, key=repr) == sorted(expected(records, rule, columns, kinds), key=repr)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("path", ["mask", "window"])
def test_retracts_that_their_writer_did_not_count_are_merged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str, path: str
) -> None:
    """pypaimon 2.1 writes 0 as the count of every file, also where `rowkind.field` made rows deletes."""
    options, rule, allowed = ENGINES[engine]
    if path == "window":
        monkeypatch.setattr(merged, "_MASK_ROWS", 0)
        monkeypatch.setattr(sorted_merge, "WINDOW_BYTES", 0)
    files, records = random_files(tmp_path, 1, allowed, False)
    files = [f._replace(delete_row_count=0, file_source=FileSource.APPEND) for f in files]
    schema = model.table(COLUMNS, options)
    for kinds, columns in itertools.product((False, True), (("k", "a", "b"), ("b",))):
        rows = read(request(schema, columns, with_row_kind=kinds), split(tmp_path, files))
        assert sorted(rows, key=repr) == sorted(expected(records, rule, columns, kinds), key=repr)


@pytest.mark.parametrize("source", [FileSource.APPEND, None])
def test_a_range_narrower_than_the_rows_does_not_order_them(tmp_path: Path, source: FileSource | None) -> None:
    """pypaimon 2.0: the second file of a flush of 200 rows has [200, 200]; a writer beside it wrote 150 of its own."""
    flushed = write(tmp_path, [Record(k, 100 + k, 0, 0, {"a": 1, "b": None}) for k in range(10)], 0)
    flushed = flushed._replace(min_sequence_number=200, max_sequence_number=200, file_source=source)
    beside = write(tmp_path, [Record(k, 140 + k, 0, 0, {"a": 2, "b": None}) for k in range(10)], 0)
    rows = read(request(model.table(COLUMNS, {}), ("a",)), split(tmp_path, [flushed, beside]))
    assert rows == [{"a": 2}] * 10


def test_counting_needs_no_column(tmp_path: Path) -> None:
    files, records = random_files(tmp_path, 2, (0, 3), False)
    r = request(model.table(COLUMNS, {}), ())
    count = sum(b.num_rows for b in read_split(r, split(tmp_path, files)))
    assert count == len(model.merged(records, model.deduplicate(False)))


@pytest.mark.parametrize("path", ["mask", "window"])
def test_conditions_never_change_which_row_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    if path == "window":
        monkeypatch.setattr(merged, "_MASK_ROWS", 0)
    files, records = random_files(tmp_path, 3, (0, 3), False)
    want = expected(records, model.deduplicate(False), ("k", "a", "b"), False)
    for column, bound in (("k", 60), ("a", 50)):
        predicate = Compare(Op.GT, Column((column,), BIGINT), bound)
        r = request(model.table(COLUMNS, {}), ("k", "a", "b"), predicate=predicate)
        rows = sorted(read(r, split(tmp_path, files)), key=lambda row: row["k"])
        assert rows == [row for row in want if row[column] is not None and row[column] > bound]


@pytest.mark.parametrize("kinds", [False, True])
@pytest.mark.parametrize("columns", [("k", "a", "b"), ("a",)], ids=str)
def test_a_difference_is_what_came_changed_and_went(tmp_path: Path, kinds: bool, columns: tuple[str, ...]) -> None:
    files, records = random_files(tmp_path, 4, (0, 2, 3), False)
    age = {f.file_name: f.min_sequence_number for f in files}
    old_files = sorted(files, key=lambda f: age[f.file_name])[:3]
    old = [r for r in records if r.sequence <= max(f.max_sequence_number for f in old_files)]
    before = {k: (kind, v) for kind, k, v in model.merged(old, model.deduplicate(False), keep_deletes=kinds)}
    after = {k: (kind, v) for kind, k, v in model.merged(records, model.deduplicate(False), keep_deletes=kinds)}
    want = []
    for key in sorted(before | after):
        was, now = before.get(key), after.get(key)
        if now is None:
            assert was is not None
            kind, values = 3, was[1]
            if not kinds or was[0] in (1, 3):
                continue
        elif was is not None and was[1] == now[1] and (was[0] in (1, 3)) == (now[0] in (1, 3)):
            continue
        else:
            kind, values = now
        row = {c: key if c == "k" else values[c] for c in columns}
        want.append({"rowkind": ("+I", "-U", "+U", "-D")[kind], **row} if kinds else row)
    r = request(model.table(COLUMNS, {}), columns, with_row_kind=kinds)
    assert want
    assert read(r, split(tmp_path, files, before_files=tuple(old_files))) == want


def test_a_difference_with_nothing_before_or_after(tmp_path: Path) -> None:
    files, records = random_files(tmp_path, 5, (0,), False)
    r = request(model.table(COLUMNS, {}), ("k", "a", "b"), with_row_kind=True)
    rows = expected(records, model.deduplicate(False), ("k", "a", "b"), True)
    assert read(r, split(tmp_path, files, before_files=())) == rows
    gone = [{**row, "rowkind": "-D"} for row in rows]
    assert read(r, split(tmp_path, (), before_files=tuple(files))) == gone


def test_of_deep_levels_only_the_smallest_counts_on_lookup_tables(tmp_path: Path) -> None:
    """L5 holds 100, a lookup compaction wrote 110 to L4, a later +1 lies at L0: the sum is 111."""
    files = [
        write(tmp_path, [Record(1, 0, 0, 5, {"a": 100, "b": None})], 5),
        write(tmp_path, [Record(1, 1, 0, 4, {"a": 110, "b": None})], 4),
        write(tmp_path, [Record(1, 2, 0, 0, {"a": 1, "b": None})], 0),
    ]
    options = {"merge-engine": "aggregation", "fields.a.aggregate-function": "sum"}
    for producer, total in (("lookup", 111), ("none", 211)):
        schema = model.table(COLUMNS, {**options, "changelog-producer": producer})
        assert read(request(schema, ("a",)), split(tmp_path, files)) == [{"a": total}]


def test_an_overflow_names_table_bucket_and_column(tmp_path: Path) -> None:
    files = [write(tmp_path, [Record(1, n, 0, 0, {"a": 2**31 - 1, "b": None})], 0) for n in range(2)]
    schema = model.table(COLUMNS, {"merge-engine": "aggregation", "fields.a.aggregate-function": "sum"})
    with pytest.raises(DataError, match=r"table db\.t \(branch main\), snapshot 7, bucket .*column 'a': sum"):
        read(request(schema, ("a",)), split(tmp_path, files))


def test_sequences_stamped_at_commit_are_refused(tmp_path: Path) -> None:
    files = [write(tmp_path, [Record(1, 0, 0, 0, {"a": 1, "b": None})], 0)]
    schema = model.table(COLUMNS, {"sequence.snapshot-ordering": "true"})
    with pytest.raises(UnsupportedFeatureError, match=r"sequence\.snapshot-ordering"):
        read(request(schema, ("a",)), split(tmp_path, files))


@pytest.mark.ci
@pytest.mark.parametrize("engine", ["deduplicate", "partial-update"])
def test_memory_does_not_grow_with_the_bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str) -> None:
    """Held rows follow the window, not the files: four times the rows, the same peak of numpy and Arrow memory."""
    monkeypatch.setattr(merged, "_MASK_ROWS", 0)
    monkeypatch.setattr(sorted_merge, "RUN_ROWS", 1000)
    schema = model.table(COLUMNS, {"merge-engine": engine})
    peaks = []
    for scale in (1, 4):
        folder = tmp_path / str(scale)
        folder.mkdir()
        files = []
        for run in range(3):
            records = [Record(k, run * 10**6 + k, 0, 0, {"a": k, "b": "x" * 20}) for k in range(0, 10000 * scale, 1)]
            files.append(write(folder, records, 0))
        r = request(schema, ("k", "a", "b"), batch_rows=1000)
        tracemalloc.start()
        rows, held = 0, 0
        for batch in read_split(r, split(folder, files)):
            rows += batch.num_rows
            held = max(held, pa.total_allocated_bytes())
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert rows == 10000 * scale
        peaks.append((held, peak))
    assert peaks[1][1] < 2 * peaks[0][1], peaks


@pytest.mark.parametrize("engine", ["deduplicate", "partial-update", "first-row"])
def test_runs_that_are_put_aside_merge_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str) -> None:
    schema = model.table(COLUMNS, {"merge-engine": engine})
    files = []
    for run in range(5):
        records = [
            Record(k, run * 10**6 + k, 0, 0, {"a": run if k % 2 else None, "b": None if k % 3 else f"{run}"})
            for k in range(run, 900 + 50 * run, 1 + run % 2)
        ]
        files.append(write(tmp_path, records, 0))
    r, s = request(schema, ("k", "a", "b")), split(tmp_path, files)
    want = read(r, s)
    asides = []

    def counted(batches: Iterator[pa.RecordBatch], most_bytes: int) -> Iterator[pa.RecordBatch]:
        asides.append(1)
        return spilled(batches, most_bytes)

    monkeypatch.setattr(merged, "spilled", counted)
    monkeypatch.setattr(merged, "_MASK_ROWS", 0)
    monkeypatch.setattr(sorted_merge, "WINDOW_BYTES", 0)
    monkeypatch.setattr(sorted_merge, "MOST_OPEN", 2)
    got = read(r, s)
    assert len(asides) == 3
    assert sorted(got, key=lambda row: row["k"]) == sorted(want, key=lambda row: row["k"])


@pytest.mark.ci
def test_merging_does_not_import_pandas(tmp_path: Path) -> None:
    random_files(tmp_path, 6, (0, 3), False)
    code = f"""
import sys
from pathlib import Path
from tests.unit.engine.read import test_merged as t
from tests.harness import merge_model as model
assert "pandas" not in sys.modules
files = t.metas_of({str(tmp_path)!r})
for options in ({{}}, {{"merge-engine": "partial-update", "ignore-delete": "true"}},
                {{"merge-engine": "aggregation", "fields.a.aggregate-function": "sum"}}):
    r = t.request(model.table(t.COLUMNS, options), ("k", "a", "b"))
    assert sum(b.num_rows for b in t.read_split(r, t.split(Path({str(tmp_path)!r}), files)))
assert "pandas" not in sys.modules, "pandas was imported"
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def metas_of(folder: str) -> list[DataFileMeta]:
    """Files whose key and sequence ranges say nothing, so that all must be merged by sequence number."""
    low, high = (binary_row.encode([k], [BIGINT]) for k in (0, 10**6))
    out = []
    for path in sorted(Path(folder).iterdir()):
        count = pq.read_metadata(path).num_rows
        size = path.stat().st_size
        out.append(DataFileMeta(path.name, size, count, low, high, NO_STATS, NO_STATS, 0, 10**9, 0, 0))
    return out
