"""Manifests written to a table: names, rolling, and what their list says of them."""

from __future__ import annotations

import math
import re
from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.format import binary_row
from paimon_spark.format.metadata_files import manifest
from paimon_spark.format.metadata_files.data_file import DataFileMeta, SimpleStats
from paimon_spark.format.metadata_files.index_manifest import IndexManifestEntry
from paimon_spark.format.metadata_files.manifest import FileKind
from paimon_spark.metadata import manifests
from paimon_spark.metadata import manifests as manifest_files
from paimon_spark.metadata.handle import TableHandle, open_table
from paimon_spark.storage.urls import open_store
from paimon_spark.types import DataField, RowType, parse_type
from tests.harness import golden
from tests.harness.manifests import files_entries
from tests.harness.tables import MetadataTable, a_schema

EMPTY_STATS = SimpleStats(binary_row.EMPTY, binary_row.EMPTY, ())


def a_table(**options: str) -> TableHandle:
    table = MetadataTable().schema(a_schema(options=options))
    return table.open()


def a_file(number: int = 0, **changes: Any) -> DataFileMeta:
    file = DataFileMeta(f"data-{number}", 1000, 10, bytes(12), bytes(12), EMPTY_STATS, EMPTY_STATS, 0, 9, 0, 0)
    return file._replace(**changes)


def entries(
    *files: DataFileMeta, kind: FileKind = FileKind.ADD, partition: bytes = bytes(12), bucket: int = 0
) -> pa.Table:
    return files_entries(kind, partition, bucket, 1, files)


def test_a_manifest_and_its_list_come_back() -> None:
    handle = a_table()
    table = pa.concat_tables([entries(a_file(1), a_file(2)), entries(a_file(0), kind=FileKind.DELETE)])
    metas = manifest_files.write_manifest(handle, table)
    name, size = manifest_files.write_manifest_list(handle, metas)
    manifests.CACHE.clear()
    assert len(handle.store.read(handle.layout.manifest_path(name))) == size
    assert manifests.read_manifest_list(handle, name) == metas
    assert manifests.read_manifests(handle, metas).to_pylist() == table.to_pylist()
    assert (metas[0].num_added_files, metas[0].num_deleted_files) == (2, 1)
    assert len(handle.store.read(handle.layout.manifest_path(metas[0].file_name))) == metas[0].file_size


@pytest.mark.parametrize(("manifest_format", "magic"), [("orc", b"ORC"), ("PARQUET", b"PAR1"), ("avro", b"Obj\x01")])
def test_everything_is_written_in_the_format_of_the_option(manifest_format: str, magic: bytes) -> None:
    handle = a_table(**{"manifest.format": manifest_format})
    table = pa.concat_tables([entries(a_file(1), a_file(2)), entries(a_file(0), kind=FileKind.DELETE)])
    metas = manifest_files.write_manifest(handle, table)
    name, size = manifest_files.write_manifest_list(handle, metas)
    entry = IndexManifestEntry(0, bytes(12), 3, "HASH", "index-1", 8, 2)
    index = manifest_files.write_index_manifest(handle, [entry])
    manifests.CACHE.clear()
    for file in (metas[0].file_name, name, index):
        assert handle.store.read(handle.layout.manifest_path(file)).startswith(magic)
    assert len(handle.store.read(handle.layout.manifest_path(name))) == size
    assert manifests.read_manifest_list(handle, name) == metas
    assert manifests.read_manifests(handle, metas).to_pylist() == table.to_pylist()
    assert manifests.read_index_manifest(handle, index) == [entry]


def test_what_was_written_is_remembered_as_it_would_be_read() -> None:
    handle = a_table(**{"manifest.target-file-size": "1 kb"})
    stats = SimpleStats(bytes(20), bytes(20), (None, 3))
    files = [
        a_file(i, value_stats=stats, write_cols=("a", "b"), first_row_id=i, embedded_index=b"x") for i in range(600)
    ]
    table = pa.concat_tables([entries(*files[:10]), entries(*files[10:])])
    metas = manifest_files.write_manifest(handle, table)
    name, _ = manifest_files.write_manifest_list(handle, metas)
    remembered = manifests.read_manifests(handle, metas), manifests.read_manifest_list(handle, name)
    manifests.CACHE.clear()
    read = manifests.read_manifests(handle, metas), manifests.read_manifest_list(handle, name)
    assert len(metas) > 1
    assert remembered[0].combine_chunks().equals(read[0].combine_chunks())
    assert remembered[1] == read[1]


def test_the_next_commit_reads_nothing_of_what_was_written(monkeypatch: pytest.MonkeyPatch) -> None:
    handle = a_table()
    metas = manifest_files.write_manifest(handle, entries(a_file(1)))
    name, _ = manifest_files.write_manifest_list(handle, metas)
    for verb in ("read", "read_many"):
        monkeypatch.setattr(type(handle.store), verb, lambda *_: pytest.fail("it was read"))
    assert len(manifests.read_manifests(handle, manifests.read_manifest_list(handle, name))) == 1


def test_names_are_java_s_and_new_each_time() -> None:
    handle = a_table()
    uuid = "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
    first, second = (manifest_files.write_manifest(handle, entries(a_file()))[0].file_name for _ in range(2))
    assert first != second
    for name, shape in (
        (first, f"^manifest-{uuid}-0$"),
        (manifest_files.write_manifest_list(handle, [])[0], f"^manifest-list-{uuid}-0$"),
        (manifest_files.write_index_manifest(handle, []), f"^index-manifest-{uuid}-0$"),
    ):
        assert re.match(shape, name)


def test_an_index_manifest_comes_back() -> None:
    handle = a_table()
    entry = IndexManifestEntry(0, bytes(12), 3, "HASH", "index-1", 8, 2)
    assert manifests.read_index_manifest(handle, manifest_files.write_index_manifest(handle, [entry])) == [entry]


def test_manifests_roll_at_the_target_size() -> None:
    handle = a_table(**{"manifest.target-file-size": "20 kb", "manifest.compression": "null"})
    metas = manifest_files.write_manifest(handle, entries(*(a_file(i) for i in range(2000))))
    assert len(metas) > 3
    assert [m.file_name.rpartition("-")[2] for m in metas] == [str(i) for i in range(len(metas))]
    assert all(20 << 10 <= m.file_size < 100 << 10 for m in metas[:-1])
    names = manifests.read_manifests(handle, metas).column("file_name").to_pylist()
    assert names == [f"data-{i}" for i in range(2000)]


def test_no_entries_make_no_manifest() -> None:
    assert manifest_files.write_manifest(a_table(), manifest.ENTRY_SCHEMA.empty_table()) == []


def test_ranges_are_over_all_entries_deleted_ones_too() -> None:
    table = pa.concat_tables(
        [
            entries(a_file(1, schema_id=3, level=2, first_row_id=100), bucket=4),
            entries(a_file(2, schema_id=1, level=5, first_row_id=7), bucket=2, kind=FileKind.DELETE),
        ]
    )
    meta = manifest_files.write_manifest(a_table(), table)[0]
    assert (meta.schema_id, meta.min_bucket, meta.max_bucket, meta.min_level, meta.max_level) == (3, 2, 4, 2, 5)
    assert (meta.min_row_id, meta.max_row_id) == (7, 109)


def test_row_ids_are_known_only_when_every_file_has_them() -> None:
    meta = manifest_files.write_manifest(a_table(), entries(a_file(1, first_row_id=4), a_file(2)))[0]
    assert (meta.min_row_id, meta.max_row_id) == (None, None)


def test_a_failing_store_leaves_no_manifest(monkeypatch: pytest.MonkeyPatch) -> None:
    handle = a_table(**{"manifest.target-file-size": "1 kb"})
    store = type(handle.store)
    write, calls = store.write, []

    def failing(self: Any, path: str, data: bytes) -> None:
        calls.append(path)
        if len(calls) == 2:
            raise OSError("no space")
        write(self, path, data)

    monkeypatch.setattr(store, "write", failing)
    with pytest.raises(OSError, match="no space"):
        manifest_files.write_manifest(handle, entries(*(a_file(i) for i in range(2000))))
    assert len(calls) == 2
    assert handle.store.list(f"{handle.layout.root}/manifest") == []


@pytest.mark.parametrize(
    ("type_text", "values", "least", "greatest"),
    [
        ("INT", [3, None, -5, 3], -5, 3),
        ("BIGINT", [None, None], None, None),
        ("STRING", ["b", "a much longer text", None, "ü"], "a much longer text", "ü"),
        ("BOOLEAN", [True, False], False, True),
        ("BYTES", [b"\xff", b"\x01"], b"\x01", b"\xff"),
        ("DATE", [date(2020, 1, 1), date(1969, 1, 1)], date(1969, 1, 1), date(2020, 1, 1)),
        ("DECIMAL(10, 2)", [Decimal("-1.50"), Decimal("7.25")], Decimal("-1.50"), Decimal("7.25")),
        ("DECIMAL(30, 5)", [Decimal("-1.5"), None, Decimal(7)], Decimal("-1.50000"), Decimal("7.00000")),
        ("TIMESTAMP(3)", [(5000, 0), (-1, 0)], (-1, 0), (5000, 0)),
        ("TIMESTAMP(9)", [(5, 3), (5, 999_999), None], (5, 3), (5, 999_999)),
        ("DOUBLE", [1.5, -0.5, math.inf], -0.5, math.inf),
        ("TIME", [5, 3], 3, 5),
    ],
)
def test_statistics_of_partitions(type_text: str, values: list[Any], least: Any, greatest: Any) -> None:
    partition_type = RowType(False, (DataField(0, "p", parse_type(type_text)),))
    types = [partition_type.fields[0].type]
    rows = [binary_row.encode([v], types) for v in values]
    stats = manifest_files.partition_stats(partition_type, pa.chunked_array([pa.array(rows, pa.binary())]))
    decoded = [binary_row.decode(b, types, raw_timestamps=True)[0] for b in (stats.min_values, stats.max_values)]
    assert decoded == [least, greatest]
    assert stats.null_counts == (sum(v is None for v in values),)


def test_nulls_are_counted_per_entry() -> None:
    partition_type = RowType(False, (DataField(0, "p", parse_type("INT")), DataField(1, "q", parse_type("INT"))))
    types = [f.type for f in partition_type.fields]
    rows = [binary_row.encode(v, types) for v in ((None, 1), (None, 1), (None, 2), (4, None))]
    column = pa.chunked_array([pa.array(rows[:2], pa.binary()), pa.array(rows[2:], pa.binary())])
    stats = manifest_files.partition_stats(partition_type, column)
    assert stats.null_counts == (3, 1)
    assert binary_row.decode(stats.min_values, types) == (4, 1)
    assert binary_row.decode(stats.max_values, types) == (4, 2)


@pytest.mark.ci
@pytest.mark.parametrize("producer", golden.PRODUCERS)
def test_lists_of_real_tables_say_what_we_would_say(producer: str) -> None:
    """Fields that their writer did not record, or pypaimon records in its own way, are left out."""
    compared = 0
    for home in sorted((golden.FIXTURES / producer).glob("*/table")):
        store, root = open_store(f"file://{home}")
        handle = open_table(store, root)
        for path in sorted(home.glob("manifest/manifest-list-*")):
            for meta in manifest.decode_manifest_list(path.read_bytes(), str(path)):
                beside = path.with_name(meta.file_name)
                if not beside.exists():
                    continue
                table, _ = manifest.decode_manifests([(str(beside), beside.read_bytes())])
                ours = manifest_files.describe(handle.schema.partition_type, meta.file_name, meta.file_size, table)
                known = {n: v for n, v in meta._asdict().items() if v is not None}
                assert {n: getattr(ours, n) for n in known} == known, home
                compared += 1
    assert compared > 10
