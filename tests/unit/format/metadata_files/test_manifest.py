"""Manifests, lists and index manifests of every writer, and damaged ones."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_spark.errors import CorruptFileError, UnknownFormatVersionError, UnsupportedFeatureError
from paimon_spark.format.avro_codec import decoder
from paimon_spark.format.metadata_files import deletion_vector, index_manifest, manifest
from paimon_spark.format.metadata_files.data_file import DataFileMeta, SimpleStats
from tests.harness import golden
from tests.harness.avro_files import avro_file
from tests.harness.manifests import (
    encode_index_manifest,
    encode_manifest,
    encode_manifest_list,
    entry,
    list_row,
)

names = st.text(st.characters(exclude_characters="/\\\0", codec="utf-8"), min_size=3, max_size=12)
longs = st.integers(0, 2**63 - 1) | st.integers(0, 70)
rows = st.binary(min_size=12, max_size=30)
stats = st.fixed_dictionaries(
    {
        "_MIN_VALUES": rows,
        "_MAX_VALUES": rows,
        "_NULL_COUNTS": st.none() | st.lists(st.none() | longs, max_size=3),
    }
)
entries = st.builds(
    entry,
    names,
    kind=st.sampled_from([0, 1]),
    partition=rows,
    bucket=st.integers(-2, 1000),
    _FILE_SIZE=longs,
    _KEY_STATS=stats,
    _VALUE_STATS=stats,
    _MIN_SEQUENCE_NUMBER=st.integers(-(2**63), 2**63 - 1),
    _LEVEL=st.integers(0, 5),
    _EXTRA_FILES=st.lists(names, max_size=2),
    _CREATION_TIME=st.none() | longs,
    _DELETE_ROW_COUNT=st.none() | longs,
    _EMBEDDED_FILE_INDEX=st.none() | st.binary(max_size=5),
    _FILE_SOURCE=st.sampled_from([None, 0, 1]),
    _VALUE_STATS_COLS=st.none() | st.lists(names, max_size=3),
    _EXTERNAL_PATH=st.none() | st.text(max_size=9),
    _FIRST_ROW_ID=st.none() | longs,
    _WRITE_COLS=st.none() | st.lists(names, max_size=3),
    _WRITE_COLS_SEQUENCES=st.none() | st.lists(longs, max_size=3),
)


def expected(e: dict[str, Any]) -> tuple[tuple[Any, ...], DataFileMeta]:
    f = e["_FILE"]

    def some(name: str) -> Any:
        value = f.get(name)
        return tuple(value) if isinstance(value, list) else value

    def stats_of(name: str) -> SimpleStats:
        nulls = f[name]["_NULL_COUNTS"]
        return SimpleStats(f[name]["_MIN_VALUES"], f[name]["_MAX_VALUES"], None if nulls is None else tuple(nulls))

    plain = [n.upper() for n in DataFileMeta._fields]
    special = {
        "CREATION_TIME_MS": some("_CREATION_TIME"),
        "EMBEDDED_INDEX": some("_EMBEDDED_FILE_INDEX"),
        "KEY_STATS": stats_of("_KEY_STATS"),
        "VALUE_STATS": stats_of("_VALUE_STATS"),
    }
    file = DataFileMeta(*(special.get(n, some("_" + n)) for n in plain))
    return (e["_KIND"], e["_PARTITION"], e["_BUCKET"], e["_TOTAL_BUCKETS"]), file


def decoded(*files: bytes) -> list[tuple[tuple[Any, ...], DataFileMeta]]:
    table, counts = manifest.decode_manifests([(f"file {i}", f) for i, f in enumerate(files)])
    table.validate(full=True)
    assert table.schema == manifest.ENTRY_SCHEMA
    assert sum(counts) == len(table)
    columns = (table.column(n).to_pylist() for n in ("kind", "partition", "bucket", "total_buckets"))
    return list(zip(zip(*columns, strict=True), manifest.files_of(table), strict=True))


@pytest.mark.parametrize("in_parallel", [True, False])
@given(files=st.lists(st.lists(entries, max_size=5), min_size=1, max_size=3), interval=st.sampled_from([1, 500]))
def test_entries_come_back(in_parallel: bool, files: list[list[dict[str, Any]]], interval: int) -> None:
    data = [encode_manifest(f, sync_interval=interval) for f in files]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decoder, "_pays", lambda *_: in_parallel)
        assert decoded(*data) == [expected(e) for f in files for e in f]


def test_fields_that_a_writer_did_not_know_are_null() -> None:
    full = [entry("a", _FIRST_ROW_ID=7, _VALUE_STATS_COLS=["x"])]
    old = decoded(encode_manifest(full, file_fields=12))[0][1]
    assert old.creation_time_ms is None
    assert old.file_source is None
    assert old.value_stats_cols is None
    assert old.first_row_id is None


def test_manifests_of_several_writers_keep_their_order() -> None:
    old = [[entry(f"old-{i}-{j}") for j in range(i)] for i in range(4)]
    new = [[entry(f"new-{i}-{j}") for j in range(3 - i)] for i in range(4)]
    data = [
        encode_manifest(e, file_fields=n)
        for pair in zip(old, new, strict=True)
        for e, n in zip(pair, (16, 21), strict=True)
    ]
    wanted = [e["_FILE"]["_FILE_NAME"] for pair in zip(old, new, strict=True) for part in pair for e in part]
    assert [f.file_name for _, f in decoded(*data)] == wanted


def test_no_manifests_and_empty_manifests() -> None:
    assert decoded() == []
    assert decoded(encode_manifest([]), encode_manifest([], file_fields=16)) == []


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", "a\\b", "a\0b", "/etc/passwd"], ids=lambda n: repr(n))
@pytest.mark.parametrize("where", ["name", "extra"])
def test_names_that_lead_elsewhere_are_refused(name: str, where: str) -> None:
    bad = entry(name) if where == "name" else entry("good", _EXTRA_FILES=["fine", name])
    with pytest.raises(CorruptFileError, match="file 1 is not a readable manifest: it names the file"):
        decoded(encode_manifest([entry("a")]), encode_manifest([entry("b"), bad]))


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"_KIND": 2}, "of kind"),
        ({"_KIND": 300}, "_KIND"),
        ({"file": {"_FILE_SIZE": -1}}, "negative file_size"),
        ({"file": {"_ROW_COUNT": -1}}, "negative row_count"),
        ({"file": {"_LEVEL": -1}}, "negative level"),
    ],
)
def test_entries_that_cannot_be_are_refused(changes: dict[str, Any], what: str) -> None:
    bad = entry("a", **changes.pop("file", {}))
    with pytest.raises(CorruptFileError, match=f"file 0 is not a readable manifest: .*{what}"):
        decoded(encode_manifest([{**bad, **changes}]))


@pytest.mark.parametrize("version", [1, 3])
def test_other_versions_are_refused(version: int) -> None:
    with pytest.raises(UnknownFormatVersionError, match=f"file 1 .*version \\[{version}\\]"):
        decoded(encode_manifest([entry("a")]), encode_manifest([{**entry("b"), "_VERSION": version}]))
    row = {**list_row("m", b"", []), "_VERSION": version}
    with pytest.raises(UnknownFormatVersionError, match=f"the list has a row of version {version}"):
        manifest.decode_manifest_list(encode_manifest_list([row]), "the list")


def test_a_manifest_that_lacks_a_field_is_refused() -> None:
    with pytest.raises(CorruptFileError, match=r"_FILE\._SCHEMA_ID is missing"):
        decoded(encode_manifest([entry("a")], file_fields=9))
    with pytest.raises(CorruptFileError, match="file 0"):
        decoded(avro_file("long", [1]))


@given(st.data())
def test_damaged_manifests_are_refused_or_readable(data: st.DataObject) -> None:
    whole = bytearray(encode_manifest([entry(f"f{i}") for i in range(3)], codec="null", sync_interval=300))
    for _ in range(data.draw(st.integers(1, 3))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(whole)))
    for damaged in (bytes(whole), bytes(whole[:cut])):
        error = "file 0"
        try:
            decoded(damaged)
        except (CorruptFileError, UnknownFormatVersionError, UnsupportedFeatureError) as e:
            # The name of the codec may be what was damaged.
            error = str(e)
        assert "file 0" in error


def test_lists_come_back() -> None:
    full = list_row("m-1", b"xyz", [entry("a"), entry("b", 1)], _MIN_BUCKET=1, _MAX_ROW_ID=9)
    metas = manifest.decode_manifest_list(encode_manifest_list([full, list_row("m-2", b"", [])]), "l")
    assert metas[0] == manifest.ManifestFileMeta(
        "m-1", 3, 1, 1, SimpleStats(bytes(12), bytes(12), ()), 0, min_bucket=1, max_row_id=9
    )
    assert metas[1].file_name == "m-2"
    assert manifest.decode_manifest_list(encode_manifest_list([]), "l") == []


def test_lists_that_lead_elsewhere_or_are_none_are_refused() -> None:
    with pytest.raises(CorruptFileError, match=r"names a manifest '\.\./m'"):
        manifest.decode_manifest_list(encode_manifest_list([list_row("../m", b"", [])]), "l")
    for data in (b"", b"{}", avro_file("long", [1]), encode_manifest([entry("a")])):
        with pytest.raises(CorruptFileError, match="the list"):
            manifest.decode_manifest_list(data, "the list")


INDEX_ROW = {
    "_VERSION": 1,
    "_KIND": 0,
    "_PARTITION": bytes(12),
    "_BUCKET": 0,
    "_INDEX_TYPE": "DELETION_VECTORS",
    "_FILE_NAME": "index-1",
    "_FILE_SIZE": 9,
    "_ROW_COUNT": 1,
    "_DELETIONS_VECTORS_RANGES": [{"f0": "data", "f1": 1, "f2": 22, "_CARDINALITY": 3}],
}


@pytest.mark.parametrize("bare_items", [True, False])
def test_index_manifests_come_back(bare_items: bool) -> None:
    rows = [INDEX_ROW, {**INDEX_ROW, "_INDEX_TYPE": "HASH", "_DELETIONS_VECTORS_RANGES": None}]
    vectors, hashes = index_manifest.decode(encode_index_manifest(rows, bare_items=bare_items), "i")
    assert vectors.deletion_vectors == (index_manifest.DeletionVectorRange("data", 1, 22, 3),)
    assert (hashes.index_type, hashes.deletion_vectors) == (index_manifest.HASH, None)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"_VERSION": 2}, UnknownFormatVersionError),
        ({"_KIND": 5}, CorruptFileError),
        ({"_FILE_NAME": "../x"}, CorruptFileError),
        ({"_DELETIONS_VECTORS_RANGES": [{"f0": "data", "f1": -1, "f2": 22}]}, CorruptFileError),
        ({"_DELETIONS_VECTORS_RANGES": [None]}, CorruptFileError),
    ],
)
def test_index_entries_that_cannot_be_are_refused(changes: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error, match="the index"):
        index_manifest.decode(encode_index_manifest([{**INDEX_ROW, **changes}]), "the index")


def test_hash_indexes_are_big_endian_numbers() -> None:
    data = bytes.fromhex("d206e5474fe4bbf0")
    assert index_manifest.decode_hashes(data, "h").tolist() == [-771300025, 1340390384]
    with pytest.raises(CorruptFileError, match="four per key"):
        index_manifest.decode_hashes(data[:-1], "h")


@pytest.mark.parametrize("producer", golden.PRODUCERS)
def test_manifests_of_real_tables_decode_alike_both_ways(producer: str) -> None:
    found = sorted((golden.FIXTURES / producer).glob("*/table/manifest/manifest-*"))
    files = [(str(p), p.read_bytes()) for p in found if "manifest-list-" not in p.name]
    tables = []
    for in_parallel in (True, False):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(decoder, "_pays", lambda *_, choice=in_parallel: choice)
            tables.append(manifest.decode_manifests(files)[0].combine_chunks())
            bare = manifest.decode_manifests(files, statistics=False)[0].combine_chunks()
        assert bare.equals(tables[-1].select(manifest.BARE_SCHEMA.names))
    assert len(tables[0]) >= 20
    assert tables[0].equals(tables[1])
    assert len(manifest.files_of(tables[0])) == len(tables[0])


@pytest.mark.ci
@pytest.mark.parametrize("producer", golden.PRODUCERS)
def test_lists_of_real_tables_count_the_entries_of_their_manifests(producer: str) -> None:
    lists = sorted((golden.FIXTURES / producer).glob("*/table/manifest/manifest-list-*"))
    assert lists
    for path in lists:
        for meta in manifest.decode_manifest_list(path.read_bytes(), str(path)):
            beside = path.with_name(meta.file_name)
            if beside.exists():
                _, counts = manifest.decode_manifests([(str(beside), beside.read_bytes())])
                assert counts == [meta.num_added_files + meta.num_deleted_files]
                assert beside.stat().st_size == meta.file_size


def test_deletion_vectors_and_hashes_of_real_tables_are_as_their_index_manifests_say() -> None:
    vectors = hashes = 0
    for path in sorted(golden.FIXTURES.glob("*/*/table/manifest/index-manifest-*")):
        for e in index_manifest.decode(path.read_bytes(), str(path)):
            file = path.parents[1] / "index" / e.file_name
            data = file.read_bytes() if file.exists() else b""
            if e.index_type == index_manifest.HASH and data:
                hashes += 1
                assert len(index_manifest.decode_hashes(data, str(file))) == e.row_count
            for r in e.deletion_vectors or () if data else ():
                vectors += 1
                record = data[r.offset : r.offset + r.length + deletion_vector.FRAME_BYTES]
                positions = deletion_vector.decode(record, str(file), length=r.length)
                assert r.cardinality in (None, len(positions))
    assert vectors
    assert hashes


@pytest.mark.ci
def test_decoding_does_not_import_pandas() -> None:
    code = """
import sys
from paimon_spark.format.metadata_files import manifest
from tests.harness.manifests import encode_manifest, entry
for count in (1, 300):
    data = encode_manifest([entry(f"f{i}") for i in range(count)], sync_interval=1)
    table, _ = manifest.decode_manifests([("m", data)])
    assert len(manifest.files_of(table)) == count
assert "pandas" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=golden.FIXTURES.parents[1])
