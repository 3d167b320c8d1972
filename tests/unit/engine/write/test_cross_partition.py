"""Tables whose keys may move between partitions: rows of a key end up in one partition, as the merge engine wants."""

from __future__ import annotations

import itertools
import pickle
from collections import Counter
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import paimon_spark
from paimon_spark.engine.write import router
from paimon_spark.engine.write.request import WriteRequest
from paimon_spark.engine.write.table_writer import TableWriter
from paimon_spark.errors import CommitConflictError, DataError, InvalidInputError, UnsupportedFeatureError
from paimon_spark.format.metadata_files.manifest import files_of
from paimon_spark.jobs.write import batch as batch_write
from paimon_spark.jobs.write.batch import WriteJob, plan_path_write
from paimon_spark.metadata.definition.create import create_table
from paimon_spark.metadata.definition.from_arrow import row_type
from paimon_spark.metadata.features import check_writable
from paimon_spark.metadata.handle import open_table
from paimon_spark.metadata.live_files import live_entries
from paimon_spark.metadata.manifests import changelog_manifests, data_manifests, read_manifests
from paimon_spark.metadata.snapshots import latest_snapshot
from paimon_spark.options.write_request import WriteMode
from paimon_spark.storage.local import LocalStore
from paimon_spark.types import VALUE_KIND
from tests.harness import merge_model as model
from tests.harness.merge_model import Record
from tests.harness.search import examples
from tests.unit.engine.write.test_keyed_model import ENGINES as KEYED_ENGINES
from tests.unit.engine.write.test_keyed_model import SCHEMA, SOURCE, Rule, commits, expected

STORE = LocalStore()
TARGET_ROWS = "dynamic-bucket.target-row-num"
ENGINES: dict[str, tuple[dict[str, str], Rule, tuple[int, ...]]] = {
    **KEYED_ENGINES,
    "first-row": ({"merge-engine": "first-row"}, lambda records: (0, records[0].values), (0,)),
}
LAYOUTS: list[dict[str, str]] = [
    {TARGET_ROWS: "2"},
    {"file.format": "avro", "write-buffer-size": "1 b"},
    {"deletion-vectors.enabled": "true", TARGET_ROWS: "3"},
]
Bucket = tuple[str, int]
Written = list[list[tuple[str, Record]]]
Placed = list[list[tuple[Bucket, Record]]]


def made(root: str, options: dict[str, str], schema: pa.Schema = SCHEMA, partition: tuple[str, ...] = ("p",)) -> None:
    create_table(STORE, root, row_type(schema), ("k",), partition, {"bucket": "-1", **options})


def rows_of(root: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = paimon_spark.load_table(root).scan().to_arrow().to_pylist()
    return sorted(rows, key=lambda r: (str(r["p"]), r["k"]))


def put(root: str, rows: list[tuple[Any, ...]], mode: Any = "append", schema: pa.Schema = SCHEMA, **opts: Any) -> Any:
    data = [dict(zip(schema.names, (*r, *(None,) * (len(schema.names) - len(r))), strict=True)) for r in rows]
    return paimon_spark.load_table(root).write(pa.Table.from_pylist(data, schema=schema), mode=mode, **opts)


class Index:
    """Where keys are, for one job: those of the rows that the table has as the job begins, and those it writes.

    A key whose row was deleted by an earlier job is unknown, and gets a bucket as a new one does.
    Source: Java `IndexBootstrap`, which reads the rows of the table, `GlobalIndexAssigner` and `BucketAssigner`.
    """

    def __init__(self, rows: list[dict[str, Any]], target_rows: int) -> None:
        self.where: dict[int, Bucket] = {row["k"]: row["p"] for row in rows}
        self.counts = Counter(self.where.values())
        self.target_rows = target_rows

    def add(self, key: int, p: str) -> Bucket:
        there = sorted(b for b in self.counts if b[0] == p)
        free = [b for b in there if self.counts[b] < self.target_rows]
        new = ((p, number) for number in itertools.count() if (p, number) not in there)
        self.where[key] = free[0] if free else next(new)
        self.counts[self.where[key]] += 1
        return self.where[key]


def placed(written: Written, engine: str, rule: Rule, target_rows: int) -> Placed:
    """What is to be written for the rows of each commit, one after the other, and to which bucket."""
    out: Placed = []
    for rows in written:
        index = Index(expected(out, rule), target_rows)
        out.append([])
        for p, record in rows:
            old = index.where.get(record.key)
            if old is None:
                out[-1].append((index.add(record.key, p), record))
            elif engine == "deduplicate" and old[0] != p:
                out[-1].append((old, Record(record.key, record.sequence, model.DELETE, 0, record.values)))
                index.counts[old] -= 1
                out[-1].append((index.add(record.key, p), record))
            elif engine != "first-row" or old[0] == p:
                out[-1].append((old, record))
    return out


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], str]:
    base = tmp_path_factory.mktemp("tables")
    return lambda: str(base / uuid4().hex)


def check_commits(root: str, engine: str, written: Written, layout: dict[str, str], at_once: int) -> None:
    """Write the commits, and compare the rows of the table with those of the model."""
    options, rule, _ = ENGINES[engine]
    if engine not in ("deduplicate", "aggregation"):  # not allowed, or rows depend on what was merged in between
        layout = {k: v for k, v in layout.items() if k != "deletion-vectors.enabled"}
    made(root, {**options, **layout})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(router, "_GATHERED_ROWS", at_once)
        for rows in written:
            source = [{"p": p, "k": r.key, **r.values, VALUE_KIND: r.kind} for p, r in rows]
            paimon_spark.load_table(root).write(pa.Table.from_pylist(source, schema=SOURCE))
    columns = [*SCHEMA.names, "__paimon_bucket"]
    read = paimon_spark.load_table(root).scan(columns=columns).to_arrow().to_pylist()
    found = sorted(read, key=lambda row: (row["p"], row["k"]))
    model_rows = expected(placed(written, engine, rule, int(layout.get(TARGET_ROWS, 1_000))), rule)
    wanted = [{**row, "p": row["p"][0], "__paimon_bucket": row["p"][1]} for row in model_rows]
    if engine == "deduplicate":  # rows that leave make room for later batches only; a bucket changes no row of these
        for row in (*found, *wanted):
            del row["__paimon_bucket"]
    assert found == sorted(wanted, key=lambda row: (row["p"], row["k"]))
    assert len({row["k"] for row in found}) == len(found)
    if engine == "deduplicate":
        last: dict[int, tuple[str, Record]] = {r.key: (p, r) for rows in written for p, r in rows}
        alive = {k: (p, r.values) for k, (p, r) in last.items() if not r.retract}
        assert {r["k"]: (r["p"], {n: r[n] for n in "abs"}) for r in found} == alive


@pytest.mark.parametrize("engine", ENGINES)
@settings(max_examples=examples(15))
@given(data=st.data(), layout=st.sampled_from(LAYOUTS), at_once=st.sampled_from([2, 100]))
def test_commits_read_as_the_model_says(
    root: Callable[[], str], engine: str, data: st.DataObject, layout: dict[str, str], at_once: int
) -> None:
    check_commits(root(), engine, data.draw(commits(ENGINES[engine][2])), layout, at_once)


@pytest.mark.parametrize("at_once", [2, 100])
@pytest.mark.parametrize("engine", ["partial-update", "deduplicate"])
def test_a_deleted_key_is_unknown_to_the_next_job(root: Callable[[], str], engine: str, at_once: int) -> None:
    """Its columns do not come back where it gets another bucket, as in Java, whose index reads the rows there are."""
    nothing = {"a": None, "b": None, "s": None}
    written = [
        [("x", Record(2, 0, model.DELETE, 0, {**nothing, "s": 0}))],
        [("x", Record(key, 1 + key, model.ADD, 0, nothing)) for key in (1, 3, 2)],
    ]
    path = root()
    check_commits(path, engine, written, {TARGET_ROWS: "2"}, at_once)
    assert [(r["k"], r["s"]) for r in rows_of(path)] == [(1, None), (2, None), (3, None)]


def test_new_keys_fill_buckets_and_those_that_leave_make_room(tmp_path: Path) -> None:
    root = str(tmp_path / "t")
    made(root, {"dynamic-bucket.target-row-num": "3"})

    def buckets() -> dict[tuple[str, int], int]:
        table = paimon_spark.load_table(root).scan(columns=["p", "__paimon_bucket", "k"]).to_arrow()
        grouped = table.group_by(["p", "__paimon_bucket"]).aggregate([("k", "count")]).to_pylist()
        return {(r["p"], r["__paimon_bucket"]): r["k_count"] for r in grouped}

    put(root, [("x", k) for k in range(7)])
    assert buckets() == {("x", 0): 3, ("x", 1): 3, ("x", 2): 1}
    put(root, [("y", 0), ("y", 1)])
    assert buckets() == {("x", 0): 1, ("x", 1): 3, ("x", 2): 1, ("y", 0): 2}
    put(root, [("x", k) for k in range(10, 14)])
    assert buckets() == {("x", 0): 3, ("x", 1): 3, ("x", 2): 3, ("y", 0): 2}


def test_the_changelog_of_producer_input_tells_of_moves(tmp_path: Path) -> None:
    root = str(tmp_path / "t")
    made(root, {"changelog-producer": "input"})
    put(root, [("x", 1, 1)])
    put(root, [("y", 1, 2), ("x", 1, 3), ("y", 1, 4)])
    handle = open_table(STORE, root)
    snapshot = latest_snapshot(handle)
    assert snapshot is not None
    files = files_of(read_manifests(handle, changelog_manifests(handle, snapshot)))
    assert (sum(f.row_count for f in files), sum(f.delete_row_count or 0 for f in files)) == (6, 3)
    assert rows_of(root) == [{"p": "y", "k": 1, "a": 4, "b": None, "s": None}]


def test_a_deletion_is_newer_than_the_row_it_deletes(tmp_path: Path) -> None:
    root = str(tmp_path / "t")
    made(root, {})
    for a in range(3):
        put(root, [("x", 1, a), ("x", 2, a)])
    put(root, [("y", 1, 9)])
    handle = open_table(STORE, root)
    snapshot = latest_snapshot(handle)
    assert snapshot is not None
    files = files_of(live_entries(handle, data_manifests(handle, snapshot)))
    (deletion,) = (f for f in files if f.delete_row_count)
    assert deletion.min_sequence_number > max(f.max_sequence_number for f in files[:3])


@pytest.mark.parametrize(
    ("kind", "old", "new"),
    [
        (pa.string(), None, "x"),
        (pa.string(), "x", None),
        (pa.date32(), date(2020, 1, 1), date(1969, 1, 1)),
        (pa.timestamp("us"), 5, None),
        (pa.decimal128(20, 2), 1, 2),
        (pa.int8(), -1, 1),
        (pa.bool_(), True, False),
    ],
    ids=str,
)
@pytest.mark.parametrize("engine", ["deduplicate", "partial-update"])
def test_partition_columns_of_every_type(tmp_path: Path, kind: pa.DataType, old: Any, new: Any, engine: str) -> None:
    root = str(tmp_path / "t")
    schema = pa.schema([("p", kind), pa.field("k", pa.string(), nullable=False), ("q", pa.int32()), ("v", pa.string())])
    made(root, {"merge-engine": engine}, schema, ("q", "p"))
    first, second = (pa.array([v], kind)[0].as_py() for v in (old, new))
    put(root, [(first, "a", 1, "old"), (first, "b", 1, "stays")], schema=schema)
    put(root, [(second, "a", 2, "new")], schema=schema)
    moved = (second, "a", 2, "new") if engine == "deduplicate" else (first, "a", 1, "new")
    found = {(r["p"], r["k"], r["q"], r["v"]) for r in rows_of(root)}
    assert found == {moved, (first, "b", 1, "stays")}


def test_keys_with_a_partition_column_and_texts(tmp_path: Path) -> None:
    root = str(tmp_path / "t")
    schema = pa.schema([(n, pa.string()) for n in ("p", "k", "l", "q", "v")])
    create_table(STORE, root, row_type(schema), ("q", "k", "l"), ("p", "q"), {"bucket": "-1"})
    put(
        root,
        [("x", "a", "bc", "1", "one"), ("x", "ab", "c", "1", "two"), ("x", "a", "bc", "2", "three")],
        schema=schema,
    )
    put(root, [("y", "ab", "c", "1", "moved"), ("y", "", "abc", "1", "new")], schema=schema)
    assert {tuple(r.values()) for r in rows_of(root)} == {
        ("x", "a", "bc", "1", "one"),
        ("y", "ab", "c", "1", "moved"),
        ("x", "a", "bc", "2", "three"),
        ("y", "", "abc", "1", "new"),
    }


def test_overwrites(tmp_path: Path) -> None:
    root = str(tmp_path / "t")
    made(root, {})
    put(root, [("x", 1), ("x", 2), ("y", 3), ("z", 4)])
    kept = rows_of(root)
    dynamic = {"partitionOverwriteMode": "dynamic"}
    for rows, options in (
        ([("x", 3)], {"overwrite.partition": "p=x"}),
        ([("x", 1), ("x", 4)], dynamic),
        ([("y", 1), ("y", 3)], dynamic),
    ):
        with pytest.raises(InvalidInputError, match="keys that are in other partitions"):
            put(root, rows, "overwrite", **options)
        assert rows_of(root) == kept
    put(root, [("x", 2, 5), ("x", 7)], "overwrite", **{"overwrite.partition": "p=x"})
    assert [(r["p"], r["k"]) for r in rows_of(root)] == [("x", 2), ("x", 7), ("y", 3), ("z", 4)]
    put(root, [("x", 3), ("y", 2), ("y", 2, 1)], "overwrite", **dynamic)
    assert [(r["p"], r["k"]) for r in rows_of(root)] == [("x", 3), ("y", 2), ("z", 4)]
    put(root, [("x", 4), ("z", 4, 1)], "overwrite")
    assert [(r["p"], r["k"], r["a"]) for r in rows_of(root)] == [("z", 4, 1)]


def planned(root: str) -> WriteJob:
    return plan_path_write({"path": root}, WriteMode.APPEND, SCHEMA)


def test_of_two_jobs_beside_each_other_one_gives_way(tmp_path: Path) -> None:
    root = str(tmp_path / "t")
    made(root, {})
    put(root, [("x", 1)])
    job = planned(root)
    messages = job.write([pa.RecordBatch.from_pylist([{"p": "x", "k": 5}], schema=SCHEMA)])
    put(root, [("y", 5)])
    with pytest.raises(CommitConflictError, match="a key could come to lie in two partitions"):
        job.commit(messages)
    assert [(r["p"], r["k"]) for r in rows_of(root)] == [("x", 1), ("y", 5)]


def test_one_task_sees_all_rows(tmp_path: Path) -> None:
    root = str(tmp_path / "t")
    made(root, {})
    put(root, [("x", 1)])
    batch = pa.RecordBatch.from_pylist([{"p": "y", "k": 1}], schema=SCHEMA)
    job = planned(root)
    task = pickle.loads(pickle.dumps(job.task))
    assert task.write([batch.slice(0, 0)], 1, True) == []
    with pytest.raises(UnsupportedFeatureError, match=r"Table\.write, or df\.coalesce\(1\)\.write"):
        task.write([batch], 1, True)
    job.commit(task.write([batch], 0, True))
    assert [(r["p"], r["k"]) for r in rows_of(root)] == [("y", 1)]


def test_a_table_that_ignores_deletes_moves_nothing(tmp_path: Path) -> None:
    root = str(tmp_path / "t")
    made(root, {"ignore-delete": "true"})
    put(root, [("x", 1)])
    put(root, [("x", 1, 5), ("y", 2)])
    with pytest.raises(UnsupportedFeatureError, match="ignore-delete"):
        put(root, [("y", 1)])
    assert [(r["p"], r["k"], r["a"]) for r in rows_of(root)] == [("x", 1, 5), ("y", 2, None)]


def test_writers_that_nobody_told_of_keys_are_refused(tmp_path: Path) -> None:
    root = str(tmp_path / "t")
    made(root, {})
    with pytest.raises(UnsupportedFeatureError, match="lacks a partition column"):
        TableWriter(WriteRequest(open_table(STORE, root), "tester"), SCHEMA)


def test_rows_are_deleted_by_writing_their_kind(tmp_path: Path) -> None:
    root = str(tmp_path / "t")
    made(root, {})
    put(root, [("x", 1), ("x", 2)])
    with pytest.raises(UnsupportedFeatureError, match="without one, write it with _VALUE_KIND 3"):
        paimon_spark.load_table(root).delete("k = 1")
    # Where the row is counts, not where the deletion says it is.
    deletion = pa.Table.from_pylist([{"p": "y", "k": 1, VALUE_KIND: 3}], schema=SOURCE)
    paimon_spark.load_table(root).write(deletion)
    assert [(r["p"], r["k"]) for r in rows_of(root)] == [("x", 2)]
    put(root, [("y", 1)])
    assert [(r["p"], r["k"]) for r in rows_of(root)] == [("x", 2), ("y", 1)]


def test_sequence_fields_are_refused(tmp_path: Path) -> None:
    root = str(tmp_path / "t")
    made(root, {})
    schema = open_table(STORE, root).schema
    check_writable(schema, schema.options, "t")
    with pytest.raises(UnsupportedFeatureError, match=r"sequence\.field"):
        check_writable(schema, {**schema.options, "sequence.field": "s"}, "t")


def test_a_key_in_two_partitions_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = str(tmp_path / "t")
    made(root, {})
    put(root, [("x", 1)])
    monkeypatch.setattr(batch_write, "existing_keys", lambda *_: lambda: iter(()))
    put(root, [("y", 1)])
    monkeypatch.undo()
    with pytest.raises(DataError, match="in another partition or bucket too"):
        put(root, [("z", 5)])


def test_rows_that_wait_in_level_0_have_keys_too(tmp_path: Path) -> None:
    root = str(tmp_path / "t")
    made(root, {"merge-engine": "first-row", "write-only": "true"})
    put(root, [("x", 1, 1)])
    assert rows_of(root) == []
    put(root, [("y", 1, 2)])
    handle = open_table(STORE, root)
    snapshot = latest_snapshot(handle)
    assert snapshot is not None
    assert len(live_entries(handle, data_manifests(handle, snapshot))) == 1
