from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from paimon_spark.engine.tasks.split import DataSplit, DeletionFile, SplitMode
from paimon_spark.format.metadata_files.data_file import DataFileMeta, SimpleStats
from paimon_spark.spark.batch_read import pack

MIB = 1 << 20


def file(name: str, size: int) -> DataFileMeta:
    stats = SimpleStats(b"lots of", b"bytes", (1,))
    return DataFileMeta(name, size, 10, b"", b"", stats, stats, 0, 0, 0, 0, embedded_index=b"x" * 100)


def split(bucket: int, sizes: list[int], mode: SplitMode = SplitMode.RAW, deleted: bool = False) -> DataSplit:
    files = tuple(file(f"{bucket}-{i}", size) for i, size in enumerate(sizes))
    deletions = tuple(DeletionFile(f"dv-{f.file_name}", 1, 2, 3) for f in files) if deleted else ()
    return DataSplit("main", 1, b"", bucket, f"/t/bucket-{bucket}", mode, files, deletions)


def test_no_splits_make_no_partitions() -> None:
    assert pack([], 128 * MIB, 4 * MIB, cores=2) == []


def test_many_small_splits_become_one_task() -> None:
    assert len(pack([split(i, [1000]) for i in range(3)], 128 * MIB, 4 * MIB, cores=8)) == 1


def test_a_table_that_fits_into_one_target_still_keeps_all_cores_busy() -> None:
    groups = pack([split(0, [20 * MIB] * 4)], 128 * MIB, 4 * MIB, cores=2)
    assert [sum(s.size_bytes for s in g) for g in groups] == [40 * MIB, 40 * MIB]


def test_a_big_table_is_cut_at_the_target() -> None:
    groups = pack([split(i, [64 * MIB]) for i in range(100)], 128 * MIB, 4 * MIB, cores=2)
    assert len(groups) == 50
    assert {sum(s.size_bytes for s in g) for g in groups} == {128 * MIB}


def test_files_that_must_be_merged_stay_together() -> None:
    groups = pack([split(0, [200 * MIB] * 3, SplitMode.MERGE)], 128 * MIB, 4 * MIB, cores=2)
    assert [len(s.files) for g in groups for s in g] == [3]


def test_a_deletion_vector_stays_with_its_file() -> None:
    for group in pack([split(0, [100 * MIB] * 3, deleted=True)], 128 * MIB, 4 * MIB, cores=2):
        for s in group:
            assert [d.path for d in s.deletions if d] == [f"dv-{f.file_name}" for f in s.files]


def test_statistics_do_not_travel() -> None:
    (group,) = pack([split(0, [1])], 128 * MIB, 4 * MIB, cores=1)
    f = group[0].files[0]
    assert f.embedded_index is None
    assert f.value_stats == SimpleStats(b"", b"", ())


@given(
    st.lists(st.tuples(st.lists(st.integers(0, 300), min_size=1, max_size=6), st.sampled_from(list(SplitMode)))),
    st.integers(1, 8),
)
def test_every_file_is_read_once(shapes: list[tuple[list[int], SplitMode]], cores: int) -> None:
    splits = [split(i, [s * MIB for s in sizes], mode) for i, (sizes, mode) in enumerate(shapes)]
    groups = pack(splits, 128 * MIB, 4 * MIB, cores)
    assert all(groups)
    found = sorted(f.file_name for g in groups for s in g for f in s.files)
    assert found == sorted(f.file_name for s in splits for f in s.files)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 300)), max_size=30), st.integers(1, 8))
def test_what_belongs_together_stays_in_order_in_one_task(files: list[tuple[int, int]], cores: int) -> None:
    splits = [replace(split(bucket, [size * MIB, 1]), bucket_path=str(i)) for i, (bucket, size) in enumerate(files)]
    groups = pack(splits, 128 * MIB, 4 * MIB, cores, together=lambda s: s.bucket)
    for bucket in {b for b, _ in files}:
        (group,) = [g for g in groups if any(s.bucket == bucket for s in g)]
        assert [s.bucket_path for s in group if s.bucket == bucket] == [
            str(i) for i, (b, _) in enumerate(files) if b == bucket
        ]
    assert sum(len(s.files) for g in groups for s in g) == 2 * len(files)
