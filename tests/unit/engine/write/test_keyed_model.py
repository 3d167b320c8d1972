"""Tables with keys, written and read: commits with rows of every kind give the rows of the dictionary model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast
from uuid import uuid4

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import paimon_spark
from paimon_spark.engine.commit.committer import Committer
from paimon_spark.engine.merge.sorted_merge import SequenceField
from paimon_spark.engine.write.dynamic_buckets import combine
from paimon_spark.engine.write.request import WriteRequest
from paimon_spark.engine.write.table_writer import TableWriter
from paimon_spark.errors import DataError
from paimon_spark.format.metadata_files.manifest import files_of
from paimon_spark.metadata.definition.create import create_table
from paimon_spark.metadata.definition.from_arrow import row_type
from paimon_spark.metadata.handle import open_table
from paimon_spark.metadata.live_files import live_entries
from paimon_spark.metadata.manifests import changelog_manifests, data_manifests, read_manifests
from paimon_spark.metadata.snapshots import latest_snapshot
from paimon_spark.storage.local import LocalStore
from paimon_spark.types import VALUE_KIND
from tests.harness import merge_model as model
from tests.harness.merge_model import Record
from tests.harness.search import examples

pytestmark = pytest.mark.slow

SCHEMA = pa.schema(
    [
        pa.field("p", pa.string(), nullable=False),
        pa.field("k", pa.int64(), nullable=False),
        ("a", pa.int32()),
        ("b", pa.string()),
        ("s", pa.int32()),
    ]
)
SOURCE = pa.schema([*SCHEMA, pa.field(VALUE_KIND, pa.int8())])
STORE = LocalStore()
SMALL = st.none() | st.integers(-3, 3)
VALUES = st.fixed_dictionaries({"a": SMALL, "b": st.none() | st.sampled_from(["", "x", "y"]), "s": SMALL})
Rule = Callable[[list[Record]], Any]
PARTITIONS = ("x", "y")

ENGINES: dict[str, tuple[dict[str, str], Rule, tuple[int, ...]]] = {
    "deduplicate": ({}, model.deduplicate(False), (0, 1, 2, 3)),
    "partial-update": (
        {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"},
        model.partial_update(remove_on_delete=True),
        (0, 2, 3),
    ),
    "groups": (
        {"merge-engine": "partial-update", "fields.s.sequence-group": "a"},
        model.partial_update(groups={("s",): ("a",)}),
        (0, 2),
    ),
    "aggregation": (
        {"merge-engine": "aggregation", "fields.default-aggregate-function": "last_value",
         "fields.a.aggregate-function": "max"},
        model.aggregation(
            {"a": lambda acc, new: acc if new is None else new if acc is None else max(acc, new),
             "b": lambda acc, new: new, "s": lambda acc, new: new}, {}, False,
        ),
        (0, 2),
    ),
}  # fmt: skip
LAYOUTS: list[dict[str, str]] = [
    {"bucket": "1", "file.format": "avro"},
    {"bucket": "2", "file.format": "orc", "write-buffer-size": "1 b"},
    {"bucket": "3", "data-file.thin-mode": "true", "write-buffer-size": "1 b", "write-buffer-spillable": "false"},
    {"bucket": "-1", "dynamic-bucket.target-row-num": "2"},
    {"bucket": "-1", "dynamic-bucket.target-row-num": "2", "dynamic-bucket.max-buckets": "2"},
]


class Keyed:
    """A table partitioned by `p`, with the key (p, k)."""

    def __init__(self, root: str, options: dict[str, str]) -> None:
        self.root = root
        create_table(STORE, root, row_type(SCHEMA), ("p", "k"), ("p",), options)

    def write(self, parts: Sequence[Sequence[tuple[str, Record]]], shares: bool = False) -> None:
        """One commit of several writers beside each other."""
        handle = open_table(STORE, self.root)
        base = latest_snapshot(handle)
        messages = []
        for number, rows in enumerate(parts):
            writer = TableWriter(
                WriteRequest(handle, "tester", base, writer_number=number, shares_buckets=shares), SOURCE
            )
            data = [{"p": p, "k": r.key, **r.values, VALUE_KIND: r.kind} for p, r in rows]
            for begin in range(0, len(data), 3):
                writer.write(pa.RecordBatch.from_pylist(data[begin : begin + 3], schema=SOURCE))
            messages += writer.close()
        Committer(handle, "tester").commit(combine(handle, messages))

    def rows(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = paimon_spark.load_table(self.root).scan().to_arrow().to_pylist()
        return sorted(rows, key=lambda r: (r["p"], r["k"]))

    def snapshot(self) -> Any:
        return latest_snapshot(open_table(STORE, self.root))


@st.composite
def commits(draw: st.DrawFn, kinds: tuple[int, ...]) -> list[list[tuple[str, Record]]]:
    out: list[list[tuple[str, Record]]] = []
    number = 0
    for _ in range(draw(st.integers(1, 4))):
        out.append([])
        for _ in range(draw(st.integers(0, 12))):
            record = Record(draw(st.integers(0, 6)), number, draw(st.sampled_from(kinds)), 0, draw(VALUES))
            out[-1].append((draw(st.sampled_from(PARTITIONS)), record))
            number += 1
    return out


def expected(
    written: list[list[tuple[Any, Record]]], rule: Rule, sequence: tuple[SequenceField, ...] = ()
) -> list[dict[str, Any]]:
    """Rows of a table whose buffers are merged once for each commit, and whose commits are merged on read."""
    out = []
    for p in sorted({p for rows in written for p, _ in rows}):
        flushed = []
        for number, rows in enumerate(written):
            merged = model.merged([r for q, r in rows if q == p], rule, sequence=sequence, keep_deletes=True)
            flushed += [Record(key, number, kind, 0, values) for kind, key, values in merged]
        out += [{"p": p, "k": key, **values} for _, key, values in model.merged(flushed, rule, sequence=sequence)]
    return out


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], str]:
    base = tmp_path_factory.mktemp("tables")
    return lambda: str(base / uuid4().hex)


@pytest.mark.parametrize("engine", ENGINES)
@settings(max_examples=examples(25))
@given(data=st.data(), layout=st.sampled_from(LAYOUTS))
def test_commits_read_as_the_model_says(
    root: Callable[[], str], engine: str, data: st.DataObject, layout: dict[str, str]
) -> None:
    options, rule, kinds = ENGINES[engine]
    written = data.draw(commits(kinds))
    table = Keyed(root(), {**options, **layout})
    for rows in written:
        table.write([rows])
    assert table.rows() == expected(written, rule)


@settings(max_examples=examples(25))
@given(written=commits((0, 1, 2, 3)), layout=st.sampled_from(LAYOUTS), descending=st.booleans())
def test_sequence_fields_come_before_arrival(
    root: Callable[[], str], written: list[list[tuple[str, Record]]], layout: dict[str, str], descending: bool
) -> None:
    order = "descending" if descending else "ascending"
    table = Keyed(root(), {**layout, "sequence.field": "s", "sequence.field.sort-order": order})
    for rows in written:
        table.write([rows])
    assert table.rows() == expected(written, model.deduplicate(False), (SequenceField("s", descending),))


@settings(max_examples=examples(25))
@given(
    written=st.lists(st.lists(commits((0,)), min_size=1, max_size=3), min_size=1, max_size=3),
    layout=st.sampled_from(LAYOUTS),
)
def test_writers_beside_each_other_may_share_buckets(
    root: Callable[[], str], written: list[list[list[list[tuple[str, Record]]]]], layout: dict[str, str]
) -> None:
    table = Keyed(root(), layout)
    state: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for commit in written:
        parts = [[row for rows in part for row in rows] for part in commit]
        table.write(parts, shares=True)
        newest: dict[tuple[str, int], list[dict[str, Any]]] = {}
        for part in parts:
            last = {(p, r.key): r.values for p, r in part}
            for key, values in last.items():
                newest.setdefault(key, []).append(values)
        state.update(newest)
    rows = table.rows()
    assert [(r["p"], r["k"]) for r in rows] == sorted(state)
    for row in rows:
        assert {n: row[n] for n in ("a", "b", "s")} in state[row["p"], row["k"]]
    snapshot = table.snapshot()
    if snapshot is None:
        return
    handle = open_table(STORE, table.root)
    files = files_of(live_entries(handle, data_manifests(handle, snapshot)))
    assert all(f.level == 0 for f in files)


@settings(max_examples=examples(25))
@given(rows=commits((0, 1, 2, 3)).map(lambda written: [row for rows in written for row in rows]))
def test_the_changelog_of_producer_input_holds_every_row(
    root: Callable[[], str], rows: list[tuple[str, Record]]
) -> None:
    table = Keyed(root(), {"bucket": "2", "changelog-producer": "input", "write-buffer-size": "1 b"})
    table.write([rows])
    snapshot = table.snapshot()
    if not rows:
        assert snapshot is None
        return
    handle = open_table(STORE, table.root)
    files = files_of(read_manifests(handle, changelog_manifests(handle, snapshot)))
    assert sum(f.row_count for f in files) == snapshot.changelog_record_count == len(rows)
    assert sum(f.delete_row_count or 0 for f in files) == sum(r.retract for _, r in rows)
    assert {f.level for f in files} == {0}


def test_an_overwrite_begins_anew(root: Callable[[], str]) -> None:
    table = Keyed(root(), {"bucket": "-1", "dynamic-bucket.target-row-num": "1"})
    values = {"a": 1, "b": None, "s": None}
    table.write([[("x", Record(k, 0, 0, 0, values)) for k in range(4)]])
    handle = open_table(STORE, table.root)
    writer = TableWriter(WriteRequest(handle, "tester", ignores_existing=True), SOURCE)
    writer.write(pa.RecordBatch.from_pylist([{"p": "x", "k": 3, **values, VALUE_KIND: 0}], schema=SOURCE))
    (message,) = writer.close()
    assert message.bucket == 0
    assert message.total_buckets == -1
    assert [(f.min_sequence_number, f.max_sequence_number) for f in message.data.new_files] == [(0, 0)]
    Committer(handle, "tester").overwrite([message])
    assert [r["k"] for r in table.rows()] == [3]
    table.write([[("x", Record(3, 0, 0, 0, {**values, "a": 9}))]])
    assert [(r["k"], r["a"]) for r in table.rows()] == [(3, 9)]


def postponed_files(table: Keyed) -> list[Any]:
    handle = open_table(STORE, table.root)
    return files_of(live_entries(handle, data_manifests(handle, table.snapshot())))


def test_a_postponed_bucket_keeps_rows_as_they_come(root: Callable[[], str]) -> None:
    table = Keyed(root(), {"bucket": "-2", "changelog-producer": "input"})
    values = {"a": 1, "b": None, "s": None}
    rows = [Record(k, 0, kind, 0, values) for k, kind in ((3, 0), (1, 0), (3, 2), (1, 3))]
    table.write([[("x", r) for r in rows]])
    (file,) = postponed_files(table)
    assert file.file_name.startswith("data--u-tester-s-0-w-")
    assert (file.row_count, file.delete_row_count, file.level) == (4, 1, 0)
    assert (file.min_sequence_number, file.max_sequence_number) == (-1, -1)
    with open(f"{table.root}/p=x/bucket-postpone/{file.file_name}", "rb") as data:
        found = [(r["k"], r[VALUE_KIND]) for r in cast("list[dict[str, Any]]", list(fastavro.reader(data)))]
    assert found == [(3, 0), (1, 0), (3, 2), (1, 3)]
    assert table.snapshot().changelog_manifest_list is None
    assert table.rows() == []


def test_a_postponed_bucket_refuses_retracts_that_no_merge_would_take(root: Callable[[], str]) -> None:
    table = Keyed(root(), {"bucket": "-2", "merge-engine": "partial-update"})
    with pytest.raises(DataError, match="remove-record-on-delete"):
        table.write([[("x", Record(1, 0, 3, 0, {"a": 1, "b": None, "s": None}))]])
