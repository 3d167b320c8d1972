"""Manifests read, remembered and folded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_spark.errors import CorruptFileError, FileMissingError
from paimon_spark.format.metadata_files import manifest
from paimon_spark.format.metadata_files.manifest import ManifestFileMeta
from paimon_spark.metadata import live_files, manifests
from paimon_spark.metadata import live_files as bucket_state
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.live_files import NO_SEQUENCE, BucketStates, live_entries
from paimon_spark.metadata.manifests import Cache, read_index_manifest, read_manifest_list, read_manifests
from tests.harness.manifests import (
    encode_index_manifest,
    encode_manifest,
    encode_manifest_list,
    entry,
    list_row,
)
from tests.harness.search import examples
from tests.harness.table_builder import File, TableBuilder
from tests.harness.tables import MetadataTable, a_schema, a_snapshot

Entries = Sequence[Mapping[str, Any]]


@pytest.fixture(autouse=True)
def _empty_cache() -> Iterator[None]:
    manifests.CACHE.clear()
    yield
    manifests.CACHE.clear()


@dataclass
class ManifestTable:
    """A table in memory that has manifests and no snapshots."""

    table: MetadataTable = field(default_factory=lambda: MetadataTable().schema())
    count: int = 0

    def __post_init__(self) -> None:
        self.handle: TableHandle = self.table.open()

    def path(self, name: str) -> str:
        return self.handle.layout.manifest_path(name)

    def add(self, *files: Entries, **how: Any) -> list[ManifestFileMeta]:
        """Write manifests and a list of them; the list's rows."""
        rows = []
        for entries in files:
            self.count += 1
            name = f"manifest-{self.count}"
            data = encode_manifest(entries, **how)
            self.table.put(self.path(name), data)
            rows.append(list_row(name, data, entries))
        listed = f"manifest-list-{self.count}"
        self.table.put(self.path(listed), encode_manifest_list(rows))
        return read_manifest_list(self.handle, listed)

    def live(self, metas: Sequence[ManifestFileMeta]) -> list[str]:
        return list(live_entries(self.handle, metas).column("file_name").to_pylist())


def test_deleted_files_are_not_alive() -> None:
    t = ManifestTable()
    metas = t.add([entry("a"), entry("b")], [entry("c"), entry("a", 1)])
    assert t.live(metas) == ["b", "c"]


def test_a_table_without_deletes_is_all_alive() -> None:
    t = ManifestTable()
    assert t.live(t.add([entry("a"), entry("b")], [entry("c")])) == ["a", "b", "c"]
    assert t.live([]) == []
    assert t.live(t.add([])) == []


def test_a_delete_whose_add_was_left_out_has_no_effect() -> None:
    t = ManifestTable()
    assert t.live(t.add([entry("a")], [entry("gone", 1)])) == ["a"]
    assert t.live(t.add([entry("gone", 1)])) == []


def test_manifests_may_come_in_any_order() -> None:
    """Compaction of manifests moves unchanged ones in front of others."""
    t = ManifestTable()
    assert t.live(t.add([entry("a", 1), entry("b")], [entry("a")])) == ["b"]


def test_an_upgrade_deletes_a_file_on_one_level_and_adds_it_on_another() -> None:
    t = ManifestTable()
    metas = t.add([entry("a")], [entry("a", 1), entry("a", _LEVEL=5)])
    live = live_entries(t.handle, metas)
    assert live.select(["file_name", "level"]).to_pylist() == [{"file_name": "a", "level": 5}]


DIFFERENCES: list[dict[str, Any]] = [
    {"partition": bytes(11) + b"\1"},
    {"bucket": 1},
    {"_LEVEL": 1},
    {"_EXTRA_FILES": ["a.index"]},
    {"_EXTRA_FILES": ["a", "index"]},
    {"_EMBEDDED_FILE_INDEX": b""},
    {"_EMBEDDED_FILE_INDEX": b"x"},
    {"_EXTERNAL_PATH": "s3://b/a"},
]


@given(st.lists(st.sampled_from(DIFFERENCES), max_size=4), st.sampled_from(DIFFERENCES))
def test_a_file_is_the_same_only_when_all_of_its_identity_is(
    others: list[dict[str, Any]], deleted: dict[str, Any]
) -> None:
    t = ManifestTable()
    distinct = [o for i, o in enumerate(others) if o not in others[:i]]
    metas = t.add([entry("a"), *(entry("a", **o) for o in distinct)], [entry("a", 1, **deleted)])
    assert len(t.live(metas)) == 1 + len(distinct) - (deleted in distinct)


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 1), st.booleans()), max_size=12))
def test_folding_is_what_a_dictionary_would_do(steps: list[tuple[str, int, bool]]) -> None:
    t = ManifestTable()
    added: list[tuple[str, int]] = []
    deleted: set[tuple[str, int]] = set()
    entries = []
    for name, level, delete in steps:
        if delete:
            deleted.add((name, level))
            entries.append(entry(name, 1, _LEVEL=level))
        elif (name, level) not in added:
            added.append((name, level))
            entries.append(entry(name, _LEVEL=level))
    metas = t.add(entries[:5], entries[5:])
    live = live_entries(t.handle, metas).select(["file_name", "level"]).to_pylist()
    assert [(e["file_name"], e["level"]) for e in live] == [a for a in added if a not in deleted]


def test_a_file_added_twice_is_an_error_that_names_the_manifests() -> None:
    t = ManifestTable()
    metas = t.add([entry("a"), entry("b")], [entry("c")], [entry("b")])
    with pytest.raises(CorruptFileError, match=r"'b' is added twice, by .*manifest-1 and by .*manifest-3"):
        t.live(metas)


def test_delta_and_changelog_entries_are_not_folded() -> None:
    t = ManifestTable()
    metas = t.add([entry("a"), entry("a", 1), entry("a", _LEVEL=5)])
    assert read_manifests(t.handle, metas).column("kind").to_pylist() == [0, 1, 0]


def test_a_manifest_cut_at_the_end_of_a_block_is_noticed() -> None:
    t = ManifestTable()
    metas = t.add([entry(f"f{i}") for i in range(10)], sync_interval=1, codec="null")
    data = t.handle.store.read(t.path("manifest-1"))
    sync = data[-16:]
    t.table.put(t.path("manifest-1"), data[: data.rindex(sync, 0, -16) + 16])
    with pytest.raises(CorruptFileError, match="manifest-1 holds 9 entries, and its manifest list says 10"):
        t.live(metas)


def test_a_missing_manifest_is_named() -> None:
    t = ManifestTable()
    metas = t.add([entry("a")])
    t.table.delete(t.path("manifest-1"))
    with pytest.raises(FileMissingError, match="manifest-1"):
        t.live(metas)
    with pytest.raises(FileMissingError, match="manifest-list-99"):
        read_manifest_list(t.handle, "manifest-list-99")


def test_what_was_read_once_is_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    t = ManifestTable()
    metas = t.add([entry("a")], [entry("b")])
    first = live_entries(t.handle, metas)
    monkeypatch.setattr(manifest, "decode_manifests", None)
    assert live_entries(t.handle, metas) is first
    assert read_manifests(t.handle, metas[1:]).column("file_name").to_pylist() == ["b"]
    assert t.live([metas[1], metas[0]]) == ["b", "a"]
    assert read_manifest_list(t.handle, "manifest-list-2") == metas


def test_only_manifests_not_read_before_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    t = ManifestTable()
    old = t.add([entry("a")], [entry("b")])
    t.live(old)
    new = t.add([entry("c")])
    decode, seen = manifest.decode_manifests, list[str]()

    def noting(files: list[tuple[str, bytes]], **how: Any) -> object:
        seen.extend(path for path, _ in files)
        return decode(files, **how)

    monkeypatch.setattr(manifest, "decode_manifests", noting)
    assert t.live([*old, *new]) == ["a", "b", "c"]
    assert [p.rsplit("/", 1)[1] for p in seen] == ["manifest-3"]


def test_manifests_are_read_in_groups_of_bounded_size(monkeypatch: pytest.MonkeyPatch) -> None:
    t = ManifestTable()
    metas = t.add(*([entry(f"f{i}")] for i in range(5)))
    decode, groups = manifest.decode_manifests, list[int]()
    monkeypatch.setattr(manifests, "_READ_BYTES", 2 * metas[0].file_size)

    def noting(files: list[tuple[str, bytes]], **how: Any) -> object:
        groups.append(len(files))
        return decode(files, **how)

    monkeypatch.setattr(manifest, "decode_manifests", noting)
    assert t.live(metas) == [f"f{i}" for i in range(5)]
    assert groups == [2, 2, 1]


def test_nothing_depends_on_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifests.CACHE, "capacity_bytes", 0)
    t = ManifestTable()
    metas = t.add([entry("a"), entry("b")], [entry("a", 1)])
    assert t.live(metas) == ["b"]
    assert manifests.CACHE.used_bytes == 0


def test_writers_remember_the_files_of_one_head_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    t = ManifestTable()
    metas, folds = t.add([entry(f"f{i}") for i in range(50)]), list[int]()
    fold = live_files._fold

    def noting(handle: Any, metas: Sequence[ManifestFileMeta], entries: Any) -> Any:
        folds.append(len(metas))
        return fold(handle, metas, entries)

    monkeypatch.setattr(live_files, "_fold", noting)
    for n in range(20):
        metas = [*metas, *t.add([entry(f"new{n}")])]
        for _ in range(2):
            assert len(live_entries(t.handle, metas, passing=True)) == 51 + n
        assert sum(str(key[0]).startswith("live") for key in manifests.CACHE._values) == 1
    assert len(folds) == 20, "the same head is not folded twice"


def test_index_manifests_are_remembered() -> None:
    t = ManifestTable()
    t.table.put(t.path("index-manifest-1"), encode_index_manifest([]))
    assert read_index_manifest(t.handle, "index-manifest-1") == []
    t.table.delete(t.path("index-manifest-1"))
    assert read_index_manifest(t.handle, "index-manifest-1") == []


def test_a_snapshot_has_base_delta_and_changelog_manifests() -> None:
    t = ManifestTable()
    base, delta, changelog = (t.add([entry(n)]) for n in ("a", "b", "c"))
    snapshot = a_snapshot(
        1,
        base_manifest_list="manifest-list-1",
        delta_manifest_list="manifest-list-2",
        changelog_manifest_list="manifest-list-3",
    )
    assert manifests.data_manifests(t.handle, snapshot) == [*base, *delta]
    assert manifests.delta_manifests(t.handle, snapshot) == delta
    assert manifests.changelog_manifests(t.handle, snapshot) == changelog
    assert manifests.changelog_manifests(t.handle, a_snapshot(2)) == []


def test_the_cache_drops_what_was_used_least_recently() -> None:
    cache = Cache(100)
    cache.put("a", 1, 40)
    cache.put("b", 2, 40)
    assert cache.get("a") == 1
    cache.put("c", 3, 40)
    assert (cache.get("a"), cache.get("b"), cache.get("c")) == (1, None, 3)
    cache.put("huge", 4, 101)
    assert cache.get("huge") is None
    cache.put("a", 5, 10)
    assert (cache.get("a"), cache.used_bytes) == (5, 50)


def test_the_cache_forgets_what_nobody_asked_for_in_a_while_once_more_comes() -> None:
    now = 0.0
    cache = Cache(100, idle_s=10, clock=lambda: now)
    cache.put("a", 1, 10)
    cache.put("b", 2, 10)
    now = 8.0
    assert cache.get("a") == 1
    now = 15.0
    assert cache.used_bytes == 20, "a session that rests keeps what it has"
    cache.put("c", 3, 10)
    assert (cache.get("b"), cache.get("a"), cache.get("c")) == (None, 1, 3)
    assert cache.used_bytes == 20


def test_the_cache_forgets_small_things_that_were_needed_only_at_once_earlier() -> None:
    now = 0.0
    cache = Cache(1 << 20, clock=lambda: now)
    for key, size in (("small", 10), ("asked again", 10), ("large", 100_000)):
        cache.put(key, key, size)
    now = 1.0
    assert cache.get("small") == "small"  # by the trigger that put it
    now = 20.0
    assert cache.get("asked again") == "asked again"
    now = 70.0
    cache.put("more", 1, 10)
    assert [cache.get(k) for k in ("small", "asked again", "large")] == [None, "asked again", "large"]


def test_what_the_cache_holds_of_a_stream_does_not_grow() -> None:
    now = 0.0
    cache = Cache(256 << 20, clock=lambda: now)
    held = []
    for trigger in range(1000):
        now += 0.3
        for file in range(5):
            cache.put((trigger, file), trigger, 3000)
            cache.get((trigger, file))
        held.append(cache.used_bytes)
    assert max(held) == max(held[:300])


def test_the_cache_keeps_the_last_members_of_a_group() -> None:
    cache = Cache(256 << 20)
    for i in range(1000):
        cache.put(i, i, 10, group="lists")
    cache.put("other", 1, 10)
    assert [cache.get(i) for i in (743, 744, 999)] == [None, 744, 999]
    assert cache.used_bytes == 257 * 10


def test_the_cache_is_safe_between_threads() -> None:
    cache = Cache(1000)

    def work(seed: int) -> None:
        for i in range(2000):
            cache.put((seed * i) % 50, i, 30 + i % 7)
            cache.get(i % 50)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(1, 9)))
    assert cache.used_bytes <= 1000
    assert cache.used_bytes == sum(held.size_bytes for held in cache._values.values())


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
    original = manifest.decode_manifests

    def noting(files: list[tuple[str, bytes]], **how: Any) -> object:
        read.extend(path for path, _ in files)
        return original(files, **how)

    monkeypatch.setattr(manifest, "decode_manifests", noting)
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
