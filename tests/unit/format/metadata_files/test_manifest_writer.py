"""Manifests, lists and index manifests written: fastavro and our decoders read back what was given."""

from __future__ import annotations

import io
import subprocess
import sys
from typing import Any
from unittest.mock import patch

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_spark.errors import InvalidOptionError
from paimon_spark.format.avro_codec import container as avro
from paimon_spark.format.avro_codec import decoder
from paimon_spark.format.metadata_files import index_manifest, manifest, manifest_format, manifest_writer
from paimon_spark.format.metadata_files.data_file import DataFileMeta, SimpleStats
from paimon_spark.format.metadata_files.index_manifest import DeletionVectorRange, GlobalIndexMeta, IndexManifestEntry
from paimon_spark.format.metadata_files.manifest import FileKind, ManifestFileMeta
from tests.harness import golden
from tests.harness.manifests import files_entries

names = st.text(st.characters(exclude_characters="/\\\0", codec="utf-8"), min_size=3, max_size=12)
longs = st.integers(-(2**63), 2**63 - 1) | st.integers(-70, 70)
counts = st.integers(0, 2**63 - 1) | st.integers(0, 200)
rows = st.binary(min_size=12, max_size=300)
nulls = st.none() | st.lists(st.none() | longs, max_size=70).map(tuple)
stats = st.builds(SimpleStats, rows, rows, nulls)
some_names = st.lists(names, max_size=3).map(tuple)
files = st.builds(
    DataFileMeta,
    names,
    counts,
    counts,
    rows,
    rows,
    stats,
    stats,
    longs,
    longs,
    longs,
    st.integers(0, 2**31 - 1),
    some_names,
    st.none() | longs,
    st.none() | longs,
    st.none() | st.binary(max_size=300),
    st.sampled_from([None, 0, 1]),
    st.none() | some_names,
    st.none() | st.text(max_size=90),
    st.none() | longs,
    st.none() | some_names,
    st.none() | st.lists(longs, max_size=3).map(tuple),
)
buckets = st.integers(-(2**31), 2**31 - 1)
entry_tables = st.lists(
    st.builds(files_entries, st.sampled_from(list(FileKind)), rows, buckets, buckets, st.lists(files, max_size=6)),
    min_size=1,
    max_size=3,
).map(pa.concat_tables)


def fastavro_rows(data: bytes) -> list[Any]:
    return list(fastavro.reader(io.BytesIO(data)))


@settings(max_examples=max(1, settings().max_examples // 2))
@given(entry_tables, st.sampled_from(["zstd", "null", "deflate", "snappy", "bzip2"]), st.booleans())
def test_entries_come_back(table: pa.Table, compression: str, in_parallel: bool) -> None:
    data = manifest_writer.encode_manifest(table, compression)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decoder, "_pays", lambda *_: in_parallel)
        decoded, found = manifest.decode_manifests([("m", data)])
    assert found == [len(table)]
    assert decoded.to_pylist() == table.to_pylist()


@settings(max_examples=max(1, settings().max_examples // 2))
@given(entry_tables)
def test_fastavro_reads_what_its_own_writer_would_have_written(table: pa.Table) -> None:
    container = avro.open_container(manifest_writer.encode_manifest(table, "null"), "m")
    ours = list(avro.records(container))
    payload = b"".join(p.data for p in container.payloads())
    assert manifest_format.ENTRY.encode_rows(ours) == payload


@given(entry_tables)
def test_few_entries_are_written_as_many_are(table: pa.Table) -> None:
    found = []
    for few in (0, 1_000_000):
        with patch.object(manifest_writer, "_FEW_ROWS", few):
            container = avro.open_container(manifest_writer.encode_manifest(table, "null"), "m")
        found.append(b"".join(p.data for p in container.payloads()))
    assert found[0] == found[1]


@given(st.lists(files, max_size=5), rows, buckets)
def test_files_become_entries_and_files_again(given_files: list[DataFileMeta], partition: bytes, bucket: int) -> None:
    table = files_entries(FileKind.DELETE, partition, bucket, 7, given_files)
    table.validate(full=True)
    assert table.schema == manifest.ENTRY_SCHEMA
    assert manifest.files_of(table) == given_files
    assert table.column("kind").to_pylist() == [FileKind.DELETE] * len(given_files)
    assert table.column("partition").to_pylist() == [partition] * len(given_files)
    assert table.column("bucket").to_pylist() == [bucket] * len(given_files)
    assert table.column("total_buckets").to_pylist() == [7] * len(given_files)


def a_file(number: int, **changes: Any) -> DataFileMeta:
    stats = SimpleStats(bytes(20), bytes(20), (0,))
    file = DataFileMeta(f"data-{number}", 1000, 10, bytes(12), bytes(12), stats, stats, 0, 9, 0, 0)
    return file._replace(**changes)


def test_extra_files_that_nobody_recorded_are_written_as_none() -> None:
    table = files_entries(FileKind.ADD, bytes(12), 0, 1, [a_file(1)])
    index = table.schema.get_field_index("extra_files")
    table = table.set_column(index, table.schema.field(index), pa.nulls(1, pa.list_(pa.string())))
    assert fastavro_rows(manifest_writer.encode_manifest(table))[0]["_FILE"]["_EXTRA_FILES"] == []


def test_a_slice_of_entries_is_written_as_it_is() -> None:
    table = files_entries(FileKind.ADD, b"p" * 12, 3, 4, [a_file(i, write_cols=("x",) * (i % 3)) for i in range(50)])
    part = table.slice(7, 21)
    decoded, _ = manifest.decode_manifests([("m", manifest_writer.encode_manifest(part))])
    assert decoded.to_pylist() == part.to_pylist()


def test_large_manifests_have_blocks_and_roll_at_the_target() -> None:
    table = files_entries(FileKind.ADD, bytes(12), 0, 1, [a_file(i * 7919) for i in range(3000)])
    one = manifest_writer.encode_manifest(table)
    assert len(avro.open_container(one, "m").blocks) > 5
    rolled = list(manifest_writer.encode_manifests(table, target_bytes=len(one) // 3))
    assert 3 <= len(rolled) <= 7
    decoded, found = manifest.decode_manifests([(str(i), data) for i, (_, data) in enumerate(rolled)])
    assert found == [count for count, _ in rolled]
    assert decoded.column("file_name").to_pylist() == table.column("file_name").to_pylist()
    assert all(len(data) >= len(one) // 3 for _, data in rolled[:-1])
    assert all(count % 256 == 0 for count, _ in rolled[:-1])


def test_no_entries_are_an_empty_manifest_or_none() -> None:
    empty = manifest.ENTRY_SCHEMA.empty_table()
    assert manifest.decode_manifests([("m", manifest_writer.encode_manifest(empty))])[1] == [0]
    assert list(manifest_writer.encode_manifests(empty, target_bytes=1)) == []


def test_what_java_compares_of_a_manifest_is_java_s() -> None:
    data = manifest_writer.encode_manifest(manifest.ENTRY_SCHEMA.empty_table())
    schema = avro.open_container(data, "m").type
    assert schema.names == ("_VERSION", "_KIND", "_PARTITION", "_BUCKET", "_TOTAL_BUCKETS", "_FILE")
    assert [t.kind for t in schema.inner] == ["int", "int", "bytes", "int", "int", "record"]
    assert all(t.null_branch in (None, 0) for t in schema.inner[5].inner)


def test_an_unknown_compression_is_refused() -> None:
    with pytest.raises(InvalidOptionError, match="'lzo' cannot be written"):
        manifest_writer.encode_manifest(manifest.ENTRY_SCHEMA.empty_table(), "lzo")


maybe_int = st.none() | st.integers(-2, 2**31 - 1)
metas = st.builds(
    ManifestFileMeta, names, counts, counts, counts, stats, longs, maybe_int, maybe_int, maybe_int, maybe_int,
    st.none() | longs, st.none() | longs,
)  # fmt: skip


@given(st.lists(metas, max_size=4))
def test_lists_come_back(given_metas: list[ManifestFileMeta]) -> None:
    assert manifest.decode_manifest_list(manifest_writer.encode_manifest_list(given_metas), "l") == given_metas


ints = st.integers(0, 2**31 - 1)
index_entries = st.builds(
    IndexManifestEntry,
    st.sampled_from([0, 1]),
    rows,
    buckets,
    st.sampled_from(["HASH", "DELETION_VECTORS", "other"]),
    names,
    counts,
    counts,
    st.none() | st.lists(st.builds(DeletionVectorRange, names, ints, ints, st.none() | counts), max_size=3).map(tuple),
    st.none() | st.text(max_size=9),
    st.none()
    | st.builds(
        GlobalIndexMeta, longs, longs, ints, st.none() | st.lists(ints, max_size=3).map(tuple),
        st.none() | st.binary(max_size=5), st.none() | st.binary(max_size=5),
    ),
)  # fmt: skip


@given(st.lists(index_entries, max_size=4))
def test_index_manifests_come_back(given_entries: list[IndexManifestEntry]) -> None:
    assert index_manifest.decode(index_manifest.encode(given_entries), "i") == given_entries


@given(st.lists(st.integers(-(2**31), 2**31 - 1), max_size=9))
def test_hash_indexes_come_back(hashes: list[int]) -> None:
    data = index_manifest.encode_hashes(np.array(hashes, np.int32))
    assert len(data) == 4 * len(hashes)
    assert index_manifest.decode_hashes(data, "h").tolist() == hashes


def test_a_hash_index_has_the_bytes_of_java() -> None:
    data = index_manifest.encode_hashes(np.array([-771300025, 1340390384, 1465514398], np.int32))
    assert data.hex() == "d206e5474fe4bbf05759f99e"


@pytest.mark.ci
@pytest.mark.parametrize("producer", golden.PRODUCERS)
def test_metadata_of_real_tables_stays_the_same_when_written_again(producer: str) -> None:
    found = sorted((golden.FIXTURES / producer).glob("*/table/manifest/*"))
    for path in found:
        data = path.read_bytes()
        if path.name.startswith("manifest-list-"):
            metas = manifest.decode_manifest_list(data, "l")
            assert manifest.decode_manifest_list(manifest_writer.encode_manifest_list(metas), "l") == metas
        elif path.name.startswith("index-manifest-"):
            index = index_manifest.decode(data, "i")
            assert index_manifest.decode(index_manifest.encode(index), "i") == index
        else:
            table, _ = manifest.decode_manifests([("m", data)])
            again, _ = manifest.decode_manifests([("m", manifest_writer.encode_manifest(table))])
            assert again.drop(["extra_files"]).equals(table.drop(["extra_files"]))
            assert manifest.files_of(again) == manifest.files_of(table)
    assert len(found) > 20


@pytest.mark.ci
def test_encoding_does_not_import_pandas() -> None:
    code = """
import sys
from paimon_spark.format.metadata_files import manifest, manifest_writer
from paimon_spark.format.metadata_files.data_file import DataFileMeta
from paimon_spark.format.metadata_files.data_file import SimpleStats
stats = SimpleStats(bytes(20), bytes(20), (0, None))
file = DataFileMeta("data", 1000, 10, bytes(12), bytes(12), stats, stats, 0, 9, 0, 0, ("x",), None, 1, b"", 0, ("a",))
part = manifest_writer.FilesOfBucket(manifest.FileKind.ADD, bytes(12), 0, 1, [file] * 600)
table = manifest_writer.entries([part])
manifest_writer.encode_manifest(table.slice(5))
assert "pandas" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=golden.FIXTURES.parents[1])
