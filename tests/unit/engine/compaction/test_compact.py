"""Compaction that makes level 0 visible, on real tables: rows, changelog and files against a dictionary model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import paimon_spark
from paimon_spark.engine.compaction import bucket_merge, keyed
from paimon_spark.engine.compaction.keyed import hides_level0
from paimon_spark.engine.merge import sorted_merge
from paimon_spark.engine.merge.sorted_merge import SequenceField
from paimon_spark.engine.tasks import CommitMessage, Increment
from paimon_spark.engine.write import merge_tree
from paimon_spark.errors import CommitConflictError, DataError
from paimon_spark.format import binary_row
from paimon_spark.format.metadata_files import deletion_vector
from paimon_spark.format.metadata_files.index_manifest import DELETION_VECTORS, IndexManifestEntry
from paimon_spark.metadata.definition.create import create_table
from paimon_spark.metadata.definition.from_arrow import row_type
from paimon_spark.metadata.snapshots import latest_snapshot
from paimon_spark.types import SEQUENCE_NUMBER, VALUE_KIND
from tests.harness import merge_model as model
from tests.harness.compacting import (
    ENGINES,
    STORE,
    Table,
    commits,
    compact_level0,
    expected_changelog,
    merge_commit,
    rows_of,
)
from tests.harness.merge_model import Record


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], str]:
    base = tmp_path_factory.mktemp("tables")
    return lambda: str(base / uuid4().hex)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
@settings(max_examples=max(1, settings().max_examples // 5))
@given(data=st.data(), large=st.booleans(), vectors=st.booleans(), deduplicates=st.booleans())
def test_rows_and_changelog_are_those_of_the_model(
    root: Callable[[], str], engine: str, data: st.DataObject, large: bool, vectors: bool, deduplicates: bool
) -> None:
    options, _, kinds = ENGINES[engine]
    options = {**options, "changelog-producer": "lookup"}
    options["changelog-producer.row-deduplicate"] = str(deduplicates).lower()
    if vectors and engine != "first-row":
        options["deletion-vectors.enabled"] = "true"
    if large:
        options["target-file-size"] = "1 b"
    check_commits(root(), engine, data.draw(commits(kinds)), options, deduplicates)


def check_commits(root: str, engine: str, written: list[list[Record]], options: dict[str, str], dedup: bool) -> None:
    """Write and compact commit by commit, and compare rows and changelog with those of the model."""
    rule = ENGINES[engine][1]
    state: dict[int, Record] = {}
    deleted: dict[int, Record] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(merge_tree, "_BATCH_ROWS", 3)
        patch.setattr(bucket_merge, "_BATCH_ROWS", 3)
        table = Table(root, options)
        for number, rows in enumerate(written):
            if not rows:
                continue
            table.write(rows)
            table.compact()
            shown = {r["k"]: {n: v for n, v in r.items() if n != "k"} for r in table.rows()}
            changes = merge_commit(rule, state, rows, number, deleted=deleted, shown=shown)
            assert table.rows() == [{"k": k, **state[k].values} for k in sorted(state)]
            expected = [e for _, b, a in changes for e in expected_changelog(engine, b, a, dedup)]
            assert table.changelog() == expected
            assert all(f.level > 0 for f in table.files())


def test_a_delete_that_lies_above_other_files_gives_its_values_to_partial_updates(root: Callable[[], str]) -> None:
    options = {**ENGINES["partial-update"][0], "changelog-producer": "lookup", "target-file-size": "1 b"}
    rows: list[list[tuple[int, int, int | None, int | None, str | None]]] = [
        [(14, 2, 0, None, None), (13, 0, -2, None, ""), (15, 0, 2, -2, "y")],
        [(7, 0, None, None, None), (9, 3, 1, None, ""), (8, 0, -3, 2, None), (9, 2, 3, 0, "x"), (6, 3, None, -2, ""),
         (10, 3, None, None, "x")],
        [(11, 0, None, None, "y"), (12, 0, 1, None, None), (10, 0, 2, 3, ""), (12, 2, 1, None, "x"),
         (10, 3, -2, 0, "x"), (11, 0, -1, None, None)],
        [(12, 2, -1, -1, None), (9, 0, None, None, None), (10, 0, 0, 2, None), (13, 3, 0, 2, None)],
    ]  # fmt: skip
    written = [
        [Record(k, n, kind, 0, {"s": s, "a": a, "b": b}) for n, (k, kind, s, a, b) in enumerate(commit)]
        for commit in rows
    ]
    check_commits(root(), "partial-update", written, options, dedup=False)


@pytest.mark.slow
@settings(max_examples=max(1, settings().max_examples // 5))
@given(rows=commits((0, 2, 3)), descending=st.booleans(), large=st.booleans())
def test_rows_before_win_when_their_sequence_is_higher(
    root: Callable[[], str], rows: list[list[Record]], descending: bool, large: bool
) -> None:
    order = "descending" if descending else "ascending"
    options = {"deletion-vectors.enabled": "true", "sequence.field": "s", "sequence.field.sort-order": order}
    table = Table(root(), {**options, "target-file-size": "1 b" if large else "1 gb"})
    fields = (SequenceField("s", descending),)
    alive: dict[int, Record] = {}
    for number, records in enumerate(rows):
        if not records:
            continue
        table.write(records)
        table.compact()
        flushed = model.merged(records, model.deduplicate(False), sequence=fields, keep_deletes=True)
        new = [Record(key, 100 + number, kind, 0, values) for kind, key, values in flushed]
        merged = model.merged([*alive.values(), *new], model.deduplicate(False), sequence=fields)
        alive = {key: Record(key, number, kind, 5, values) for kind, key, values in merged}
        assert table.rows() == [{"k": k, **alive[k].values} for k in sorted(alive)]


def test_a_file_that_shares_no_key_only_moves(root: Callable[[], str]) -> None:
    table = Table(root(), {"deletion-vectors.enabled": "true"})
    table.write(rows_of(1, 2))
    (before,) = table.files()
    table.compact()
    (after,) = table.files()
    assert after == before._replace(level=5)
    table.write(rows_of(3))
    table.compact()
    assert [f.level for f in table.files()] == [5, 5]
    assert len(list((Path(table.root) / "bucket-0").iterdir())) == 2


def test_small_files_beside_each_other_become_one(root: Callable[[], str]) -> None:
    table = Table(root(), {"deletion-vectors.enabled": "true"})
    for key in range(5):
        table.write(rows_of(key))
        table.compact()
    assert [f.row_count for f in table.files()] == [5]


def test_a_file_of_another_format_is_written_anew(root: Callable[[], str]) -> None:
    table = Table(root(), {"deletion-vectors.enabled": "true", "file.format.per.level": "0:avro"})
    table.write(rows_of(1, 2))
    assert [f.file_name.rpartition(".")[2] for f in table.files()] == ["avro"]
    table.compact()
    assert [f.file_name.rpartition(".")[2] for f in table.files()] == ["parquet"]
    assert [r["k"] for r in table.rows()] == [1, 2]


def test_sequence_numbers_of_winners_stay(root: Callable[[], str]) -> None:
    table = Table(root(), {"deletion-vectors.enabled": "true"})
    table.write(rows_of(1, 2))
    table.compact()
    table.write(rows_of(2, 3))
    table.compact()
    (file,) = table.files()
    rows = pq.read_table(f"{table.root}/bucket-0/{file.file_name}").to_pylist()
    assert [(r["k"], r[SEQUENCE_NUMBER]) for r in rows] == [(1, 0), (2, 2), (3, 3)]
    assert (file.min_sequence_number, file.max_sequence_number) == (0, 3)


def delete_rows(table: Table, positions: dict[str, list[int]]) -> None:
    """Commit deletion vectors as Java's compaction makes them."""
    data, ranges = next(deletion_vector.encode_files({n: np.array(p, np.int64) for n, p in positions.items()}))
    name = f"index-{uuid4()}-0"
    STORE.write(table.handle.layout.index_path(name), data)
    entry = IndexManifestEntry(0, binary_row.EMPTY, 0, DELETION_VECTORS, name, len(data), len(ranges), ranges)
    message = CommitMessage(binary_row.EMPTY, 0, 1, compact=Increment(new_index_files=(entry,)))
    table.committer.commit([message])


def vectors_of(table: Table) -> dict[str, list[int]]:
    """Deleted positions by data file name."""
    out = {}
    for entry in table.vectors():
        data = Path(table.handle.layout.index_path(entry.file_name)).read_bytes()
        for found in entry.deletion_vectors or ():
            positions = deletion_vector.decode(data[found.offset :], "", length=found.length)
            assert len(positions) == found.cardinality
            out[found.data_file_name] = positions.tolist()
    return out


def table_with_vectors(root: str, bitmap64: bool) -> tuple[Table, str, str]:
    """Two files of the last level: keys 1, 3 and 8 are left of 1, 2, 3 and 7, 8, 9."""
    options = {"deletion-vectors.enabled": "true", "deletion-vectors.bitmap64": str(bitmap64).lower()}
    table = Table(root, {**options, "target-file-size": "1 b"})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keyed, "output_level", lambda *_: 5)
        for keys in ((1, 2, 3), (7, 8, 9)):
            table.write(rows_of(*keys))
            table.compact()
    first, second = (f.file_name for f in sorted(table.files(), key=lambda f: f.min_key))
    delete_rows(table, {first: [1], second: [0, 2]})
    assert [r["k"] for r in table.rows()] == [1, 3, 8]
    return table, first, second


@pytest.mark.parametrize("bitmap64", [False, True])
def test_vectors_of_files_written_anew_go_and_others_stay(
    root: Callable[[], str], bitmap64: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, _, second = table_with_vectors(root(), bitmap64)
    monkeypatch.setattr(keyed, "output_level", lambda *_: 5)
    table.write(rows_of(3, value=5))
    table.compact()
    assert [(r["k"], r["a"]) for r in table.rows()] == [(1, 1), (3, 5), (8, 1)]
    assert vectors_of(table) == {second: [0, 2]}
    table.write(rows_of(8, kind=3))
    table.compact()
    assert table.vectors() == []
    assert [r["k"] for r in table.rows()] == [1, 3]


@pytest.mark.parametrize("bitmap64", [False, True])
def test_rows_in_large_deeper_levels_are_marked_not_rewritten(root: Callable[[], str], bitmap64: bool) -> None:
    table, first, second = table_with_vectors(root(), bitmap64)
    table.write(rows_of(3, value=5))
    table.compact()
    assert [(r["k"], r["a"]) for r in table.rows()] == [(1, 1), (3, 5), (8, 1)]
    assert vectors_of(table) == {first: [1, 2], second: [0, 2]}
    assert {f.file_name for f in table.files() if f.level == 5} == {first, second}
    table.write(rows_of(8, kind=3))
    table.compact()
    assert vectors_of(table) == {first: [1, 2], second: [0, 1, 2]}
    assert [r["k"] for r in table.rows()] == [1, 3]


def test_a_failed_compaction_leaves_no_file(root: Callable[[], str], monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table(root(), {"changelog-producer": "lookup"})
    table.write(rows_of(1, 2))
    table.compact()
    table.write(rows_of(2, 3))
    before = {p.name for p in (Path(table.root) / "bucket-0").iterdir()}

    def broken(*_: Any) -> Any:
        raise RuntimeError("broken")

    monkeypatch.setattr(keyed, "changed_bucket_vectors", broken)
    with pytest.raises(RuntimeError, match="broken"):
        table.compact()
    assert {p.name for p in (Path(table.root) / "bucket-0").iterdir()} == before


@pytest.mark.parametrize("options", [{}, {"deletion-vectors.enabled": "true", "write-only": "true"}])
def test_other_tables_are_left_alone(root: Callable[[], str], options: dict[str, str]) -> None:
    table = Table(root(), options)
    table.write(rows_of(1))
    assert table.compact() == []
    assert hides_level0(table.handle) == bool(options)


def test_buckets_not_asked_for_are_left_alone(root: Callable[[], str]) -> None:
    table = Table(root(), {"deletion-vectors.enabled": "true"})
    table.write(rows_of(1))
    snapshot = latest_snapshot(table.handle)
    assert snapshot is not None
    assert compact_level0(table.handle, snapshot, [(binary_row.EMPTY, 7)], "tester") == []
    assert compact_level0(table.handle, snapshot, [], "tester") == []


def test_of_two_compactions_of_a_bucket_one_gives_way(root: Callable[[], str]) -> None:
    table = Table(root(), {"deletion-vectors.enabled": "true"})
    table.write(rows_of(1, 2))
    snapshot = latest_snapshot(table.handle)
    assert snapshot is not None
    late = compact_level0(table.handle, snapshot, [(binary_row.EMPTY, 0)], "other")
    table.write(rows_of(2, value=7))
    table.compact()
    with pytest.raises(CommitConflictError):
        table.committer.commit(late)
    table.committer.abort(late)
    assert [(r["k"], r["a"]) for r in table.rows()] == [(1, 1), (2, 7)]


def test_rows_that_cannot_be_merged_are_an_error_that_names_the_bucket(root: Callable[[], str]) -> None:
    options = {"merge-engine": "aggregation", "fields.default-aggregate-function": "last_value"}
    table = Table(root(), {**options, "fields.a.aggregate-function": "sum", "changelog-producer": "lookup"})
    table.write(rows_of(1, value=2**31 - 1))
    table.compact()
    table.write(rows_of(1))
    with pytest.raises(DataError, match=r"compaction of table .*bucket-0"):
        table.compact()


@pytest.mark.parametrize("most_open", [1, 3, 100])
def test_many_files_of_level_0_are_merged_a_few_open_at_a_time(
    root: Callable[[], str], monkeypatch: pytest.MonkeyPatch, most_open: int
) -> None:
    monkeypatch.setattr(sorted_merge, "MOST_OPEN", most_open)
    table = Table(root(), {"changelog-producer": "lookup"})
    for value in range(6):
        table.write(rows_of(1, 2 + value, 9, value=value))
    table.compact()
    assert [(r["k"], r["a"]) for r in table.rows()] == [(1, 5), (2, 0), (3, 1), (4, 2), (5, 3), (6, 4), (7, 5), (9, 5)]
    assert [(kind, key) for kind, key, _ in table.changelog()] == [(0, k) for k in (1, 2, 3, 4, 5, 6, 7, 9)]


@pytest.mark.parametrize("producer", ["lookup", "full-compaction"])
def test_another_order_of_a_maps_entries_is_no_change_of_a_row(tmp_path: Path, producer: str) -> None:
    maps = pa.map_(pa.string(), pa.int32())
    source = pa.schema([pa.field("k", pa.int32(), nullable=False), ("m", maps), ("a", pa.list_(maps))])
    options = {"bucket": "1", "write-only": "true", "changelog-producer": producer}
    options["changelog-producer.row-deduplicate"] = "true"
    create_table(STORE, str(tmp_path / "t"), row_type(source), ("k",), options=options)
    table = paimon_spark.load_table(str(tmp_path / "t"))
    for v in (2, 2, 3):
        for m in ([("x", 1), ("y", v)], [("y", v), ("x", 1)]):
            table.write(pa.Table.from_pylist([{"k": 1, "m": m, "a": [m]}], schema=source))
            table.compact(full=True)
    files = (tmp_path / "t" / "bucket-0").glob("changelog-*")
    changes = [(r[VALUE_KIND], dict(r["m"])["y"]) for f in files for r in pq.read_table(f).to_pylist()]
    assert sorted(changes) == [(0, 2), (1, 2), (2, 3)]
