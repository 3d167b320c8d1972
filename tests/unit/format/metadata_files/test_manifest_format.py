"""Manifests, lists and index manifests as ORC and Parquet: what was given comes back, and what Java wrote."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.orc as po
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_spark.errors import CorruptFileError, InvalidOptionError
from paimon_spark.format.metadata_files import index_manifest, manifest, manifest_format, manifest_writer
from paimon_spark.format.metadata_files.data_file import SimpleStats
from paimon_spark.format.metadata_files.index_manifest import DeletionVectorRange, GlobalIndexMeta, IndexManifestEntry
from paimon_spark.format.metadata_files.manifest import FileKind, ManifestFileMeta
from tests.harness.golden import FIXTURES
from tests.harness.manifests import files_entries
from tests.unit.format.metadata_files.test_manifest_writer import a_file, entry_tables

FORMATS = ("orc", "parquet")
ALL = ("avro", *FORMATS)
JAVA = FIXTURES / "java-2.0-manifests"
MILLISECONDS = st.none() | st.integers(0, 2**42)


def with_times(table: pa.Table, times: list[int | None]) -> pa.Table:
    index = table.schema.get_field_index("creation_time_ms")
    return table.set_column(index, table.schema.field(index), pa.array(times, pa.int64()))


@settings(max_examples=max(1, settings().max_examples // 4), deadline=None)
@given(entry_tables, st.sampled_from(FORMATS), st.data())
def test_entries_come_back(table: pa.Table, to: str, data: st.DataObject) -> None:
    times = data.draw(st.lists(MILLISECONDS, min_size=len(table), max_size=len(table)))
    table = with_times(table, times)
    decoded, found = manifest.decode_manifests([("m", manifest_writer.encode_manifest(table, file_format=to))])
    assert found == [len(table)]
    assert decoded.to_pylist() == table.to_pylist()


@pytest.mark.parametrize("to", FORMATS)
def test_a_slice_of_entries_is_written_as_it_is(to: str) -> None:
    files = [
        a_file(i, write_cols=("x",) * (i % 3) if i % 2 else None, creation_time_ms=i if i % 5 else None)
        for i in range(50)
    ]
    part = files_entries(FileKind.ADD, b"p" * 12, 3, 4, files).slice(7, 21)
    decoded, _ = manifest.decode_manifests([("m", manifest_writer.encode_manifest(part, file_format=to))])
    assert decoded.to_pylist() == part.to_pylist()


def test_manifests_of_several_formats_are_read_together_in_their_order() -> None:
    table = files_entries(FileKind.ADD, bytes(12), 0, 1, [a_file(i) for i in range(60)])
    files = [
        (f"m{i}", manifest_writer.encode_manifest(table.slice(10 * i, 10), file_format=ALL[i % 3])) for i in range(6)
    ]
    decoded, found = manifest.decode_manifests(files)
    assert found == [10] * 6
    assert decoded.to_pylist() == table.to_pylist()
    bare, found = manifest.decode_manifests(files, statistics=False)
    assert found == [10] * 6
    assert bare.to_pylist() == table.select(manifest.BARE_SCHEMA.names).to_pylist()


@pytest.mark.parametrize("to", FORMATS)
def test_large_manifests_roll_at_about_the_target(to: str) -> None:
    table = files_entries(FileKind.ADD, bytes(12), 0, 1, [a_file(i * 7919) for i in range(4000)])
    target = len(manifest_writer.encode_manifest(table, file_format=to)) // 3
    rolled = list(manifest_writer.encode_manifests(table, file_format=to, target_bytes=target))
    assert 2 <= len(rolled) <= 10
    assert all(len(data) <= 2 * target for _, data in rolled)
    decoded, found = manifest.decode_manifests([(str(i), data) for i, (_, data) in enumerate(rolled)])
    assert found == [count for count, _ in rolled]
    assert decoded.column("file_name").to_pylist() == table.column("file_name").to_pylist()


METAS = [
    ManifestFileMeta("m-1", 3, 1, 0, SimpleStats(b"a", b"b", (1, None)), 3, None, 4, 5, 6, None, 8),
    ManifestFileMeta("m-2", 3, 1, 0, SimpleStats(b"", b"b", None), -(2**63), 1, 4, 5, 6, 7, 8),
]
RANGES = (DeletionVectorRange("f", 1, 2, None), DeletionVectorRange("g", 1, 2, 5))
INDEXES = [
    IndexManifestEntry(0, bytes(12), 1, "HASH", "h", 4, 1),
    IndexManifestEntry(1, bytes(12), 1, "DELETION_VECTORS", "v", 4, 2, RANGES),
    IndexManifestEntry(0, bytes(12), 1, "btree", "b", 4, 1, None, "s3://b/x", GlobalIndexMeta(1, 2, 3)),
    IndexManifestEntry(0, bytes(12), 1, "DELETION_VECTORS", "w", 4, 0, ()),
    IndexManifestEntry(0, bytes(12), 1, "btree", "b", 4, 1, None, None, GlobalIndexMeta(1, 2, 3, (4, 5), b"", b"q")),
]


@pytest.mark.parametrize("to", ALL)
def test_lists_and_index_manifests_come_back(to: str) -> None:
    for metas in (METAS, [], METAS * 300):
        data = manifest_writer.encode_manifest_list(metas, file_format=to)
        assert manifest.decode_manifest_list(data, "l") == metas
    for entries in (INDEXES, [], INDEXES * 300, INDEXES[2:3]):
        assert index_manifest.decode(index_manifest.encode(entries, file_format=to), "i") == entries


def test_parquet_columns_are_required_and_numbered_as_java_has_them() -> None:
    table = files_entries(FileKind.ADD, bytes(12), 0, 1, [a_file(1)])
    for ours, theirs in (
        (manifest_writer.encode_manifest(table, file_format="parquet"), "manifest"),
        (manifest_writer.encode_manifest_list(METAS, file_format="parquet"), "list"),
        (index_manifest.encode(INDEXES, file_format="parquet"), "index"),
    ):
        java = _parquet_columns((JAVA / "parquet" / theirs).read_bytes())
        found = _parquet_columns(ours)
        assert {path: kind for path, kind in found.items() if path in java} == java
        assert {path.split(".")[1] for path in found.keys() - java.keys()} <= {"_WRITE_COLS_SEQUENCES"}


def _parquet_columns(data: bytes) -> dict[str, tuple[object, ...]]:
    schema = pq.ParquetFile(io.BytesIO(data)).schema
    columns = [schema.column(i) for i in range(len(schema))]
    return {
        c.path: (c.physical_type, str(c.logical_type), c.max_definition_level, c.max_repetition_level) for c in columns
    }


def test_orc_columns_have_the_types_that_java_gives_them() -> None:
    table = files_entries(FileKind.ADD, bytes(12), 0, 1, [a_file(1)])
    theirs = po.ORCFile(JAVA / "orc" / "manifest").schema
    ours = po.ORCFile(io.BytesIO(manifest_writer.encode_manifest(table, file_format="orc"))).schema
    assert ours.names == theirs.names
    at = {f.name: f.type for f in ours.field("_FILE").type}
    assert {f.name: at[f.name] for f in theirs.field("_FILE").type} == {
        f.name: f.type for f in theirs.field("_FILE").type
    }
    assert [ours.field(n).type for n in ours.names[:-1]] == [theirs.field(n).type for n in theirs.names[:-1]]


@pytest.mark.parametrize("to", FORMATS)
def test_what_java_wrote_is_read(to: str) -> None:
    [meta] = manifest.decode_manifest_list((JAVA / to / "list").read_bytes(), "list")
    assert (meta.num_added_files, meta.num_deleted_files, meta.file_size) == (
        3, 0, len((JAVA / to / "manifest").read_bytes()),
    )  # fmt: skip
    assert meta.partition_stats.null_counts == (1,)
    table, counts = manifest.decode_manifests([("m", (JAVA / to / "manifest").read_bytes())])
    assert counts == [3]
    files = manifest.files_of(table)
    assert sorted(f.row_count for f in files) == [1, 5, 5]
    assert {f.file_source for f in files} == {0}
    assert all(1_795_409_000_000 < f.creation_time_ms < 1_795_410_000_000 for f in files if f.creation_time_ms)
    assert {f.value_stats.null_counts for f in files} == {(0, 0), (1, 1)}
    found = index_manifest.decode((JAVA / to / "index").read_bytes(), "i")
    assert [e.index_type for e in found] == ["DELETION_VECTORS"] * 2
    vectors = [r for e in found for r in e.deletion_vectors or ()]
    assert {r.data_file_name for r in vectors} <= {f.file_name for f in files}
    assert [r.cardinality for r in vectors] == [1, 1]


@pytest.mark.parametrize("to", FORMATS)
def test_damaged_files_are_named(to: str) -> None:
    table = files_entries(FileKind.ADD, bytes(12), 0, 1, [a_file(i) for i in range(20)])
    good = manifest_writer.encode_manifest(table, file_format=to)
    with pytest.raises(CorruptFileError, match="the-path"):
        manifest.decode_manifests([("the-path", good[: len(good) // 2])])
    with pytest.raises(CorruptFileError, match="the-list"):
        manifest.decode_manifest_list(good[:40], "the-list")
    with pytest.raises(CorruptFileError, match="the-index"):
        index_manifest.decode(good[:4] + bytes(200), "the-index")


@pytest.mark.parametrize("to", FORMATS)
def test_an_entry_that_cannot_be_is_refused(to: str) -> None:
    table = files_entries(FileKind.ADD, bytes(12), 0, 1, [a_file(1, file_size=-1)])
    with pytest.raises(CorruptFileError, match="negative file_size"):
        manifest.decode_manifests([("m", manifest_writer.encode_manifest(table, file_format=to))])


def test_a_time_before_1970_loses_its_fraction_in_orc_which_java_could_not_read() -> None:
    table = files_entries(FileKind.ADD, bytes(12), 0, 1, [a_file(1, creation_time_ms=-1), a_file(2)])
    decoded, _ = manifest.decode_manifests([("m", manifest_writer.encode_manifest(table, file_format="orc"))])
    assert decoded.column("creation_time_ms").to_pylist() == [-1000, None]


@pytest.mark.parametrize(
    ("to", "codec"),
    [("orc", "none"), ("orc", "ZLIB"), ("orc", "lz4"), ("parquet", "none"), ("parquet", "gzip"), ("parquet", "SNAPPY")],
)
def test_codecs_of_the_format_are_written(to: str, codec: str) -> None:
    data = manifest_writer.encode_manifest_list(METAS, codec, file_format=to)
    assert manifest.decode_manifest_list(data, "l") == METAS
    manifest_format.check_codec(to, codec)


@pytest.mark.parametrize(("to", "codec"), [("orc", "gzip"), ("parquet", "deflate"), ("avro", "gzip"), ("orc", "null")])
def test_codecs_that_the_format_lacks_are_refused(to: str, codec: str) -> None:
    with pytest.raises(InvalidOptionError, match=r"manifest\.compression"):
        manifest_format.check_codec(to, codec)
