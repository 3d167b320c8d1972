"""Manifests are merged by Java's thresholds, and mean the same files afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_spark.engine.commit.entries import data_changes, no_entries, of_kind, together
from paimon_spark.engine.commit.manifest_merge import MergedManifests, cancelled, merge, reuse
from paimon_spark.errors import CorruptFileError
from paimon_spark.format.metadata_files.manifest import FileKind, ManifestFileMeta
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.live_files import live_entries
from paimon_spark.metadata.manifests import read_manifests, write_manifest
from paimon_spark.options.write import CommitOptions, parse_commit_options
from paimon_spark.storage.urls import open_store
from tests.harness.commits import PARTITIONED, a_file, make_table, message
from tests.harness.search import examples

OPTIONS = parse_commit_options({})


def a_table() -> TableHandle:
    from uuid import uuid4

    store, root = open_store(f"memory://{uuid4().hex}/t")
    return make_table(store, root, PARTITIONED)


def entries(table: TableHandle, *names: str, p: int = 1, kind: FileKind = FileKind.ADD) -> pa.Table:
    """Entries of files; one partition."""
    return of_kind(data_changes([message(table, *(a_file(n) for n in names), p=p)]).files, kind)


def manifest(table: TableHandle, *tables: pa.Table, size: int | None = None) -> ManifestFileMeta:
    (meta,) = write_manifest(table, together(*tables))
    return meta if size is None else meta._replace(file_size=size)


def live_names(table: TableHandle, metas: Sequence[ManifestFileMeta]) -> list[str]:
    return sorted(live_entries(table, metas).column("file_name").to_pylist())


def limits(target: int = 8 << 20, full: int = 16 << 20, count: int = 30) -> CommitOptions:
    return replace(
        OPTIONS, manifest_target_bytes=target, manifest_full_compaction_bytes=full, manifest_merge_min_count=count
    )


def test_few_small_manifests_stay() -> None:
    table = a_table()
    metas = [manifest(table, entries(table, f"f{i}")) for i in range(29)]
    assert merge(table, metas, limits()).after == tuple(metas)


def test_thirty_small_manifests_become_one() -> None:
    table = a_table()
    metas = [manifest(table, entries(table, f"f{i}")) for i in range(30)]
    merged = merge(table, metas, limits())
    assert len(merged.after) == 1 and merged.after[0].num_added_files == 30
    assert live_names(table, merged.after) == live_names(table, metas)


def test_manifests_are_merged_as_soon_as_they_fill_one() -> None:
    table = a_table()
    metas = [manifest(table, entries(table, f"f{i}"), size=60) for i in range(5)]
    merged = merge(table, metas, limits(target=100, full=10**9))
    assert [m.num_added_files for m in merged.after] == [2, 2, 1]
    assert merged.after[2] == metas[4]
    whole = [manifest(table, entries(table, "x"), size=200), metas[0]]
    assert merge(table, whole, limits(target=100, full=10**9)).after == tuple(whole)


def test_a_pair_in_a_group_goes_and_a_delete_without_its_add_stays() -> None:
    table = a_table()
    gone, far = entries(table, "a", kind=FileKind.DELETE), entries(table, "far", kind=FileKind.DELETE)
    metas = [manifest(table, entries(table, "a", "b")), manifest(table, gone, far)]
    merged = merge(table, metas, limits(count=2))
    assert len(merged.after) == 1
    kept = read_manifests(table, merged.after)
    assert dict(zip(kept["file_name"].to_pylist(), kept["kind"].to_pylist(), strict=True)) == {"b": 0, "far": 1}
    empty = [manifest(table, entries(table, "a")), manifest(table, gone)]
    assert merge(table, empty, limits(count=2)).after == ()


def test_a_full_compaction_leaves_manifests_of_other_partitions_alone() -> None:
    table = a_table()
    target, full = 100, 50
    far = manifest(table, entries(table, "far", p=9), size=target)
    hit = manifest(table, entries(table, "a", "b", p=1), size=target)
    near = manifest(table, entries(table, "c", p=1), size=target)
    small = manifest(table, entries(table, "d", p=1), size=10)
    delete = manifest(table, entries(table, "a", kind=FileKind.DELETE), size=full - 10)
    merged = merge(table, [far, hit, near, small, delete], limits(target, full))
    assert merged.after[:2] == (far, near) and len(merged.after) == 3
    assert merged.after[2].num_deleted_files == 0
    assert live_names(table, merged.after) == ["b", "c", "d", "far"]


def test_a_full_compaction_waits_for_its_threshold_and_for_two_manifests() -> None:
    table = a_table()
    one = manifest(table, entries(table, "a"), size=10)
    assert merge(table, [one, one._replace(file_name="x")], limits(100, 21)).after[0] == one
    assert merge(table, [one], limits(100, 10)).after == (one,)


def test_contradicting_manifests_stop_the_commit() -> None:
    table = a_table()
    twice = together(entries(table, "a"), entries(table, "a"))
    with pytest.raises(CorruptFileError, match="its manifests ADD the file 'a' twice"):
        cancelled(table, twice)
    assert len(cancelled(table, no_entries())) == 0


def test_a_file_that_came_back_counts_once() -> None:
    table = a_table()
    back = together(entries(table, "a"), entries(table, "a", kind=FileKind.DELETE), entries(table, "a"))
    assert cancelled(table, back).column("kind").to_pylist() == [0]


@settings(max_examples=examples(60))
@given(st.data())
def test_merging_keeps_the_live_files(data: st.DataObject) -> None:
    """Java's conditions hold whatever the sizes are: the same live files, and groups in order."""
    table = a_table()
    live: set[str] = set()
    metas: list[ManifestFileMeta] = []
    for i in range(data.draw(st.integers(1, 8))):
        new = [f"f{i}{'-' * j}" for j in range(data.draw(st.integers(0, 3)))]
        old = data.draw(st.sets(st.sampled_from(sorted(live)))) if live else set()
        parts = [entries(table, n, p=len(n) % 2) for n in new]
        parts += [entries(table, n, p=len(n) % 2, kind=FileKind.DELETE) for n in sorted(old)]
        if parts:
            metas.append(manifest(table, *parts, size=data.draw(st.sampled_from([10, 60, 100, 200]))))
        live = (live - old) | set(new)
    options = limits(100, data.draw(st.sampled_from([50, 150, 10**9])), data.draw(st.integers(1, 4)))
    merged = merge(table, metas, options)
    assert live_names(table, merged.after) == sorted(live) == live_names(table, metas)
    assert len(merged.after) <= len(metas)


def test_a_merge_is_used_again_where_its_input_is_found() -> None:
    a, b, c, d = (ManifestFileMeta(n, 1, 1, 0, None, 0) for n in "abcd")  # type: ignore[arg-type]
    merged = MergedManifests((a, b), (d,))
    assert reuse(merged, [a, b, c]) == MergedManifests((a, b, c), (d, c))
    assert reuse(merged, [c, a, b]) == MergedManifests((c, a, b), (c, d))
    assert reuse(merged, [a, c, b]) is None
    assert reuse(MergedManifests((), ()), []) == MergedManifests((), ())
    assert reuse(MergedManifests((), ()), [a]) is None
