"""Dynamic buckets: keys stay where they are, buckets fill as Java fills them, writers that share buckets agree."""

from __future__ import annotations

import pickle
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_spark.engine.tasks import CommitMessage, Increment
from paimon_spark.engine.write import dynamic_buckets
from paimon_spark.engine.write.bucketing import PartitionNumbers
from paimon_spark.engine.write.dynamic_buckets import (
    DynamicBuckets,
    HashIndex,
    assigner_channels,
    assigner_count,
    combine,
    first_seen,
)
from paimon_spark.engine.write.request import WriteRequest
from paimon_spark.errors import InvalidInputError, InvalidOptionError
from paimon_spark.format import binary_row
from paimon_spark.format.bucket_hash import hashes as row_hashes
from paimon_spark.format.metadata_files.index_manifest import IndexManifestEntry, decode_hashes
from paimon_spark.metadata.features import crosses_partitions
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.layout import Layout
from paimon_spark.metadata.partition_path import index_file_path
from paimon_spark.options.table import parse_table_options
from paimon_spark.options.write import parse_dynamic_bucket_options
from paimon_spark.storage.local import LocalStore
from paimon_spark.types import BIGINT, DataField, RowType
from tests.harness import merge_model as model
from tests.harness.tables import a_snapshot

P1, P2 = (binary_row.encode([n], [BIGINT]) for n in (1, 2))
HASHES = st.lists(st.integers(-40, 40) | st.sampled_from([-(2**31), 2**31 - 1]), max_size=60)


def i32(values: Any) -> Any:
    return np.array(values, np.int32)


class Table:
    """A table of which only index files exist, committed to without a commit."""

    def __init__(self, root: Path, **options: str) -> None:
        raw = {k.replace("_", "-").replace("dynamic-bucket-", "dynamic-bucket."): v for k, v in options.items()}
        schema = model.table({"a": "INT"}, raw)
        self.handle = TableHandle(LocalStore(), Layout(str(root)), "t", schema, parse_table_options(raw))
        self.entries: dict[tuple[bytes, int], IndexManifestEntry] = {}

    def writer(self, **request: Any) -> DynamicBuckets:
        base = a_snapshot(1, index_manifest="i") if self.entries else None
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(dynamic_buckets, "read_index_manifest", lambda *_: list(self.entries.values()))
            numbers = PartitionNumbers(self.handle.schema.partition_type)
            return DynamicBuckets(WriteRequest(self.handle, "user", base, **request), numbers)

    def commit(self, *writers: DynamicBuckets) -> None:
        messages = [
            CommitMessage(p, b, -1, Increment(new_index_files=(e,))) for w in writers for (p, b), e in w.close().items()
        ]
        for message in combine(self.handle, messages):
            for entry in message.data.new_index_files:
                self.entries[message.partition, message.bucket] = entry

    def hashes(self, entry: IndexManifestEntry) -> list[int]:
        path = index_file_path(self.handle, entry)
        out: list[int] = decode_hashes(Path(path).read_bytes(), path).tolist()
        assert entry.file_size == Path(path).stat().st_size == 4 * entry.row_count == 4 * len(out)
        return out

    def placed(self, partition: bytes = P1) -> dict[int, int]:
        """Bucket by hash, as the index files say; a hash is in one file, once."""
        pairs = [(h, b) for (p, b), e in self.entries.items() if p == partition for h in self.hashes(e)]
        assert len(dict(pairs)) == len(pairs)
        return dict(pairs)

    def files(self) -> set[str]:
        return {p.name for p in (Path(self.handle.layout.root) / "index").iterdir()}


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return lambda **options: Table(tmp_path_factory.mktemp("t"), **options)


@given(st.lists(st.lists(HASHES, max_size=3), max_size=4), st.integers(1, 9), st.sampled_from([None, 1, 3]))
def test_keys_stay_and_buckets_are_filled_in_turn(
    fresh: Any, commits: list[list[list[int]]], target: int, most: int | None
) -> None:
    limit = {} if most is None else {"dynamic_bucket_max_buckets": str(most)}
    table = fresh(dynamic_bucket_target_row_num=str(target), **limit)
    known: dict[int, int] = {}
    for batches in commits:
        writer = table.writer()
        for batch in batches:
            buckets = writer.assign(P1, i32(batch)).tolist()
            for h, b in zip(batch, buckets, strict=True):
                if h not in known:
                    counts = Counter(known.values())
                    expected = next(n for n in range(1000) if counts[n] < target)
                    if most is None or expected < most:
                        assert b == expected
                    else:
                        assert b < most
                    known[h] = b
                assert b == known[h]
        table.commit(writer)
        assert table.placed() == known


@given(st.lists(st.lists(HASHES, min_size=1, max_size=4), max_size=3), st.integers(1, 9), st.integers(1, 5))
def test_writers_that_share_buckets_put_a_key_in_the_same_place(
    fresh: Any, commits: list[list[list[int]]], target: int, spread: int
) -> None:
    table = fresh(dynamic_bucket_target_row_num=str(target), dynamic_bucket_initial_buckets=str(spread))
    known: dict[int, int] = {}
    for parts in commits:
        writers = [table.writer(writer_number=n, shares_buckets=True) for n in range(len(parts))]
        full = {b for b, count in Counter(known.values()).items() if count >= target}
        before = dict(known)
        for writer, part in zip(writers, parts, strict=True):
            for h, b in zip(part, writer.assign(P1, i32(part)).tolist(), strict=True):
                assert known.setdefault(h, b) == b
                assert h in before or b not in full
        assert len(set(known.values()) - set(before.values())) <= spread
        table.commit(*writers)
        assert table.placed() == known
        assert table.files() if known else True


def test_only_files_of_the_index_are_left(tmp_path: Path) -> None:
    table = Table(tmp_path, dynamic_bucket_initial_buckets="1")
    writers = [table.writer(writer_number=n, shares_buckets=True) for n in range(3)]
    for n, writer in enumerate(writers):
        writer.assign(P1, i32([n, n + 1]))
    table.commit(*writers)
    assert table.files() == {e.file_name for e in table.entries.values()}
    assert sorted(table.placed()) == [0, 1, 2, 3]


@given(st.lists(HASHES, max_size=3), st.integers(1, 4), st.integers(1, 4))
def test_keys_divided_among_assigners_get_buckets_of_their_own(
    fresh: Any, commits: list[list[int]], first: int, second: int
) -> None:
    table = fresh(dynamic_bucket_target_row_num="3")
    known: dict[int, int] = {}
    for number, keys in enumerate(commits):
        count = (first, second)[number % 2]
        writers = [table.writer(assigner=(n, count)) for n in range(count)]
        for n, writer in enumerate(writers):
            mine = [h for h in keys if abs(h) % count == n]
            for h, b in zip(mine, writer.assign(P1, i32(mine)).tolist(), strict=True):
                assert h in known or b % count == n
                assert known.setdefault(h, b) == b
        table.commit(*writers)
        assert table.placed() == known


def test_partitions_know_nothing_of_each_other(tmp_path: Path) -> None:
    table = Table(tmp_path, dynamic_bucket_target_row_num="1")
    writer = table.writer()
    assert writer.assign(P1, i32([5, 6])).tolist() == [0, 1]
    assert writer.assign(P2, i32([6])).tolist() == [0]
    table.commit(writer)
    assert (table.placed(P1), table.placed(P2)) == ({5: 0, 6: 1}, {6: 0})


def test_a_write_without_new_keys_writes_no_index(tmp_path: Path) -> None:
    table = Table(tmp_path)
    first = table.writer()
    first.assign(P1, i32([1, 2]))
    table.commit(first)
    second = table.writer()
    second.assign(P1, i32([2, 1, 1]))
    assert second.close() == {}


def test_an_overwrite_begins_with_an_empty_index(tmp_path: Path) -> None:
    table = Table(tmp_path, dynamic_bucket_target_row_num="1")
    first = table.writer()
    first.assign(P1, i32([1, 2]))
    table.commit(first)
    second = table.writer(ignores_existing=True)
    assert second.assign(P1, i32([2])).tolist() == [0]
    (entry,) = second.close().values()
    assert table.hashes(entry) == [2]


def test_abort_removes_the_index_files(tmp_path: Path) -> None:
    table = Table(tmp_path)
    writer = table.writer()
    writer.assign(P1, i32([1, 2]))
    writer.close()
    assert table.files()
    writer.abort()
    assert not table.files()


def test_index_files_lie_in_the_bucket_when_the_table_says_so(tmp_path: Path) -> None:
    table = Table(tmp_path, index_file_in_data_file_dir="true")
    writer = table.writer()
    writer.assign(binary_row.EMPTY, i32([1, 2]))
    (entry,) = writer.close().values()
    assert (tmp_path / "bucket-0" / entry.file_name).exists()


def test_used_up_bucket_numbers_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paimon_spark.options.write.MOST_BUCKETS", 2)
    writer = Table(tmp_path, dynamic_bucket_target_row_num="1").writer()
    with pytest.raises(InvalidInputError, match="target-row-num"):
        writer.assign(P1, i32([1, 2, 3]))


@pytest.mark.parametrize("option", ["target-row-num", "initial-buckets", "max-buckets"])
def test_options_out_of_range_are_refused(option: str) -> None:
    with pytest.raises(InvalidOptionError, match=option):
        parse_dynamic_bucket_options({f"dynamic-bucket.{option}": "0"})


@given(HASHES, HASHES)
def test_the_index_finds_what_was_added(first: list[int], second: list[int]) -> None:
    index, known = HashIndex([(7, i32(sorted(set(first))))]), dict.fromkeys(first, 7)
    new = [h for h in dict.fromkeys(second) if h not in known]
    index.add(i32(new), i32([abs(h) % 5 for h in new]))
    known.update({h: abs(h) % 5 for h in new})
    asked = [*first, *second, 99]
    assert index.find(i32(asked)).tolist() == [known.get(h, -1) for h in asked]
    assert len(index) == len(known)


@given(HASHES.filter(bool))
def test_first_seen_keeps_the_order_of_arrival(values: list[int]) -> None:
    distinct, number = first_seen(i32(values))
    assert distinct.tolist() == list(dict.fromkeys(values))
    assert distinct[number].tolist() == values


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 500)), max_size=50), st.integers(1, 7), st.integers(1, 7))
def test_a_key_has_one_channel(rows: list[tuple[int, int]], channels: int, assigners: int) -> None:
    assigners = min(channels, assigners)
    parts = pa.record_batch({"p": pa.array([p for p, _ in rows], pa.int64())})
    keys = pa.record_batch({"k": pa.array([k for _, k in rows], pa.int64())})
    found = assigner_channels(parts, keys, channels, assigners).tolist()
    starts = [abs(h) % channels for h in row_hashes(parts).tolist()]
    numbers = [abs(h) % assigners for h in row_hashes(keys).tolist()]
    assert found == [(s + n) % channels for s, n in zip(starts, numbers, strict=True)]
    whole = assigner_channels(parts.select([]), keys, channels, assigners).tolist()
    assert whole == numbers


def test_assigners_follow_the_options() -> None:
    assert assigner_count(parse_dynamic_bucket_options({}), 6) == (6, 6)
    raw = {"dynamic-bucket.initial-buckets": "2", "dynamic-bucket.max-buckets": "4"}
    assert assigner_count(parse_dynamic_bucket_options(raw), 6) == (4, 2)
    assert assigner_count(parse_dynamic_bucket_options({"dynamic-bucket.assigner-parallelism": "3"}), 6) == (3, 3)


def test_requests_travel(tmp_path: Path) -> None:
    request = WriteRequest(Table(tmp_path).handle, "user", assigner=(1, 2))
    assert pickle.loads(pickle.dumps(request)) == request


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(-9, 9)), min_size=1, max_size=40))
def test_rows_of_many_partitions_find_their_buckets_and_the_index_its_messages(
    fresh: Any, rows: list[tuple[int, int]]
) -> None:
    table = fresh(dynamic_bucket_target_row_num="2")
    types = RowType(False, (DataField(7, "p", BIGINT),))
    partitions = PartitionNumbers(types)
    bucketing = DynamicBuckets(WriteRequest(table.handle, "user"), partitions)
    batch = pa.record_batch(
        {"p": pa.array([p for p, _ in rows], pa.int64()), "k": pa.array([k for _, k in rows], pa.int64())}
    )
    found = np.asarray(bucketing.place(batch, partitions.of(batch)).buckets).tolist()
    expected: dict[int, dict[int, int]] = {}
    for (p, k), b in zip(rows, found, strict=True):
        known = expected.setdefault(p, {})
        assert known.setdefault(k, len(known) // 2) == b
    first = CommitMessage(partitions.rows[0], 0, -1, Increment())
    messages = bucketing.finish([first])
    assert messages[0].bucket == 0
    for message in messages:
        (entry,) = message.data.new_index_files
        (p,) = binary_row.decode(message.partition, [BIGINT])
        keys = [k for k, b in expected[p].items() if b == message.bucket]
        hashes = row_hashes(pa.record_batch({"k": pa.array(keys, pa.int64())})).tolist()
        assert table.hashes(entry) == hashes
    assert sum(len(set(known.values())) for known in expected.values()) == len(messages)
    bucketing.abort()
    assert not table.files()


def test_a_key_may_move_between_partitions_only_when_the_key_leaves_one_out() -> None:
    schema, options = model.table({"a": "INT"}, {}), parse_table_options({})
    assert not crosses_partitions(schema, options)
    assert crosses_partitions(replace(schema, partition_keys=("a",)), options)
    assert not crosses_partitions(replace(schema, partition_keys=("a",), primary_keys=("k", "a")), options)
    assert not crosses_partitions(replace(schema, partition_keys=("a",), primary_keys=()), options)
