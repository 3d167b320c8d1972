from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_spark.metadata import bucket_state, manifests
from paimon_spark.metadata.bucket_state import NO_SEQUENCE, BucketStates
from tests.harness.search import examples
from tests.harness.table_builder import File, TableBuilder
from tests.harness.tables import a_schema


def builder() -> TableBuilder:
    return TableBuilder(a_schema(partition_keys=("v",)))


def test_without_a_snapshot_there_is_nothing() -> None:
    table = builder()
    states = BucketStates(table.open(), None)
    state = states.of(table.partition({"v": "a"}))
    assert state.total_buckets is None
    assert state.max_sequence(0) == NO_SEQUENCE


def test_live_files_alone_count() -> None:
    table = builder()
    gone = File("gone", {"v": "a"}, bucket=1, total_buckets=9, sequence=(0, 500))
    table.commit(gone, File("other", {"v": "b"}, total_buckets=3, sequence=(0, 700)))
    table.commit(File("new", {"v": "a"}, bucket=1, total_buckets=4, sequence=(501, 600)), deletes=[gone])
    base = table.commit(File("newer", {"v": "a"}, bucket=0, total_buckets=4, sequence=(5, 6)))
    states = BucketStates(table.open(), base)
    state = states.of(table.partition({"v": "a"}))
    assert (state.total_buckets, state.max_sequences) == (4, {0: 6, 1: 600})
    assert states.of(table.partition({"v": "b"})).max_sequence(0) == 700
    assert states.of(table.partition({"v": "c"})).total_buckets is None


ROW = st.tuples(st.none() | st.sampled_from("abcdefgh"), st.integers(0, 3), st.integers(0, 1000))


@given(
    commits=st.lists(st.lists(ROW, min_size=1, max_size=4), min_size=1, max_size=6),
    asked=st.lists(st.none() | st.sampled_from("abcdefghz"), min_size=1, max_size=5),
    small=st.booleans(),
)
@settings(max_examples=examples(100), deadline=None)
def test_what_is_left_unread_has_no_part_in_it(
    commits: list[list[tuple[str | None, int, int]]], asked: list[str | None], small: bool
) -> None:
    table = builder()
    wanted: dict[str | None, dict[int, int]] = {}
    base = None
    for i, rows in enumerate(commits):
        files = [
            File(f"f{i}-{j}", {"v": p}, bucket=b, total_buckets=4, sequence=(0, s)) for j, (p, b, s) in enumerate(rows)
        ]
        base = table.commit(*files)
        for p, b, s in rows:
            known = wanted.setdefault(p, {})
            known[b] = max(s, known.get(b, NO_SEQUENCE))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bucket_state, "_FEW_ENTRIES", 20_000 if small else 0)
        states = BucketStates(table.open(), base)
        for p in asked:
            assert states.of(table.partition({"v": p})).max_sequences == wanted.get(p, {})


def test_manifests_of_other_partitions_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    table = builder()
    for name in "abcdef":
        base = table.commit(File(f"file-{name}", {"v": name}, sequence=(0, ord(name))))
    monkeypatch.setattr(bucket_state, "_FEW_ENTRIES", 0)
    read: list[str] = []
    original = manifests.manifest.decode_manifests

    def noting(files: list[tuple[str, bytes]]) -> object:
        read.extend(path for path, _ in files)
        return original(files)

    monkeypatch.setattr(manifests.manifest, "decode_manifests", noting)
    states = BucketStates(table.open(), base)
    assert states.of(table.partition({"v": "c"})).max_sequence(0) == ord("c")
    assert len(read) == 1
    states.load([table.partition({"v": v}) for v in "ad"])
    assert len(read) == 3
    assert states.of(table.partition({"v": "c"})).max_sequence(0) == ord("c")
    assert len(read) == 3


def test_unknown_bounds_hold_every_partition() -> None:
    table = builder()
    base = table.commit(File("a", {"v": None}, sequence=(0, 5)), File("b", {"v": "x"}, sequence=(0, 6)))
    states = BucketStates(table.open(), base)
    assert states.of(table.partition({"v": None})).max_sequence(0) == 5
