"""Tables with indexes of data files: what is written, what is skipped, and what happens when an index is gone."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark.api.table import Table
from paimon_spark.engine.read import file_reader
from paimon_spark.engine.scan.prune import one_batch
from paimon_spark.engine.scan.splits import file_metas
from paimon_spark.errors import InvalidOptionError, UnsupportedFeatureError
from paimon_spark.format.data_files.registry import read_rows
from paimon_spark.format.data_files.requests import FileRead, Rows
from paimon_spark.format.file_index.bloom_filter import BloomFilterBuilder
from paimon_spark.format.file_index.indexes import read_head, write_container
from paimon_spark.format.file_index.keys import key_type
from paimon_spark.format.metadata_files.data_file import DataFileMeta
from paimon_spark.metadata.live_files import live_entries
from paimon_spark.metadata.manifests import data_manifests
from paimon_spark.metadata.snapshots import latest_snapshot
from paimon_spark.options.data_files import parse_file_index_options
from paimon_spark.storage.local import LocalStore
from paimon_spark.types import BIGINT
from tests.harness.clock import age_files
from tests.harness.commits import a_file, committer, make_table, message
from tests.harness.fault_store import FaultStore, killed_at_each_change
from tests.harness.real_tables import a_catalog, a_table
from tests.harness.table_files import files_on_disk, missing_files, reachable_files

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("s", pa.string()), ("v", pa.int32())])
BLOOM = {"file-index.bloom-filter.columns": "s", "file-index.bloom-filter.s.items": "200"}
OFF: dict[str, Any] = {"file-index.read.enabled": "false"}
IN_FILES = {"file-index.in-manifest-threshold": "0 b"}
IN_MANIFESTS = {"file-index.in-manifest-threshold": "1 mb"}


def rows(start: int, count: int = 100) -> pa.Table:
    ids = range(start, start + count)
    columns = [
        pa.array(ids, pa.int64()),
        pa.array([f"s{i * 7919 % 1000:03}" for i in ids]),
        pa.array([i % 10 for i in ids]),
    ]
    return pa.table([c.cast(t) for c, t in zip(columns, SCHEMA.types, strict=True)], schema=SCHEMA)


def make(root: Path, options: Mapping[str, str], *, keys: tuple[str, ...] = ()) -> Table:
    table = a_table(SCHEMA, keys=keys, options=options, where=root)
    for start in (0, 100, 200):
        table.write(rows(start))
    return table


def files(table: Table) -> list[DataFileMeta]:
    return [f for split in table.scan().plan().splits for f in split.files]


def ids(table: Table, where: str) -> list[int]:
    found: list[int] = table.scan(where=where).to_arrow().column("id").to_pylist()
    return sorted(found)


def data_files(root: Path, suffix: str = "") -> list[Path]:
    return sorted(p for p in (root / "db.db" / "t").rglob("data-*") if p.name.endswith(suffix))


def test_small_indexes_are_in_manifests_and_large_ones_in_files(tmp_path: Path) -> None:
    table = make(tmp_path / "a", {**BLOOM, **IN_MANIFESTS})
    assert all(f.embedded_index and not f.extra_files for f in files(table))
    assert data_files(tmp_path / "a", ".index") == []
    table = make(tmp_path / "b", {**BLOOM, **IN_FILES})
    assert all(f.embedded_index is None and f.extra_files == (f"{f.file_name}.index",) for f in files(table))
    assert len(data_files(tmp_path / "b", ".index")) == 3
    table = table.alter(unset_options=["file-index.in-manifest-threshold"])  # the default, 500 bytes
    table.write(rows(300))
    assert sum(f.embedded_index is not None for f in files(table)) == 1


@pytest.mark.parametrize("keys", [(), ("id",)])
def test_files_without_the_value_are_skipped_when_planning(tmp_path: Path, keys: tuple[str, ...]) -> None:
    table = make(tmp_path, {**BLOOM, **IN_MANIFESTS, "bucket": "1", "bucket-key": "id"}, keys=keys)
    present = rows(150, 1).column("s")[0].as_py()
    plan = table.scan(where=f"s = '{present}'").plan()
    assert len([f for s in plan.splits for f in s.files]) == 1
    assert "skipped by file indexes: 2 files" in str(plan)
    assert ids(table, f"s = '{present}'") == [150]
    off = table.scan(where=f"s = '{present}'", **OFF)
    assert "file indexes" not in str(off.plan()) and off.to_arrow().num_rows == 1


@pytest.mark.parametrize("format", ["parquet", "orc", "avro"])
def test_files_without_the_value_are_not_opened(tmp_path: Path, format: str) -> None:
    table = make(tmp_path, {**BLOOM, **IN_FILES, "file.format": format})
    where = "s = 's500x'"
    assert len(table.scan(where=where).plan().splits) == 1  # by statistics none can be skipped
    for path in data_files(tmp_path, f".{format}"):
        path.unlink()
    assert ids(table, where) == []


@pytest.mark.parametrize("format", ["parquet", "orc", "avro"])
def test_parts_of_a_file_without_wanted_rows_are_not_decoded(
    tmp_path: Path, format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 60_000
    settings = {
        "parquet.block.size": "4 kb",
        "orc.stripe.size": "4 kb",
        "orc.row.index.stride": "1000",
        "file.format": format,
    }
    table = a_table(SCHEMA, options={"file-index.bitmap.columns": "v", **settings}, where=tmp_path)
    groups = pa.array([i // 1000 for i in range(count)], pa.int32())
    texts = pa.array([f"{i * 2654435761 % 2**32}" for i in range(count)])
    table.write(pa.table([pa.array(range(count), pa.int64()), texts, groups], schema=SCHEMA))
    decoded: list[int] = []

    def counted(read: FileRead) -> Iterator[Rows]:
        for found in read_rows(read):
            decoded.append(found.row_count)
            yield found

    monkeypatch.setattr(file_reader, "read_rows", counted)
    assert ids(table, "v = 17") == list(range(17_000, 18_000))
    assert 1000 <= sum(decoded) < count * 0.6
    decoded.clear()
    assert ids(table, "v IN (17, 59)") == [*range(17_000, 18_000), *range(59_000, 60_000)]
    assert sum(decoded) < count
    assert table.scan().to_arrow().num_rows == count


def test_a_bitmap_chooses_rows_beside_deleted_ones(tmp_path: Path) -> None:
    options = {
        "file-index.bitmap.columns": "v",
        "file-index.range-bitmap.columns": "id",
        "deletion-vectors.enabled": "true",
    }
    table = make(tmp_path, options)
    table.delete("id < 250 AND id % 2 = 0")
    assert ids(table, "v = 3") == [i for i in range(300) if i % 10 == 3]
    assert ids(table, "v IN (2, 4)") == [i for i in range(250, 300) if i % 10 in (2, 4)]
    assert ids(table, "id BETWEEN 240 AND 252") == [241, 243, 245, 247, 249, 250, 251, 252]


def test_rows_are_read_without_an_index_that_is_gone_or_damaged(tmp_path: Path, caplog: Any) -> None:
    table = make(tmp_path, {**BLOOM, **IN_FILES})
    present = rows(150, 1).column("s")[0].as_py()
    first, second, _ = data_files(tmp_path, ".index")
    first.unlink()
    second.write_bytes(b"garbage" * 10)
    with caplog.at_level(logging.WARNING):
        assert ids(table, f"s = '{present}'") == [150]
    assert len([r for r in caplog.records if "is not used" in r.message]) == 2


@pytest.mark.parametrize("where", ["v = 3", "v > 7", "v IS NULL", "v <> 4"])
def test_merged_rows_are_those_without_indexes(tmp_path: Path, where: str) -> None:
    options = {"file-index.bitmap.columns": "v,id", "file-index.range-bitmap.columns": "v", **IN_FILES, "bucket": "1"}
    table = make(tmp_path, options, keys=("id",))
    table.write(
        pa.table(
            [pa.array(range(50, 250), pa.int64()), pa.array(["x"] * 200), pa.nulls(200, pa.int32())], schema=SCHEMA
        )
    )
    table.delete("id IN (3, 13, 151)")
    plain = table.scan(where=where, **OFF).to_arrow().sort_by("id")
    assert table.scan(where=where).to_arrow().sort_by("id") == plain
    for key in (3, 60, 299, 1000):
        wanted = [] if key in (3, 1000) else [key]
        assert ids(table, f"id = {key}") == wanted
    table.compact(full=True)
    assert all(f.embedded_index or f.index_file for f in files(table))
    assert table.scan(where=where).to_arrow().sort_by("id") == plain


def test_changed_columns_are_read_by_rows(tmp_path: Path) -> None:
    options = {"file-index.bitmap.columns": "v", **BLOOM, **IN_MANIFESTS}
    table = make(tmp_path, options)
    table = table.alter(rename={"s": "name"}, retype={"v": "BIGINT"})
    present = rows(150, 1).column("s")[0].as_py()
    plan = table.scan(where=f"name = '{present}'").plan()
    assert "skipped by file indexes: 2 files" in str(plan)  # the index of the file has the column by its old name
    assert ids(table, f"name = '{present}'") == [150]
    assert ids(table, "v = 3") == [i for i in range(300) if i % 10 == 3]
    assert "file indexes" not in str(table.scan(where="v = 77").plan())


def test_keys_of_maps_are_indexed(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("m", pa.map_(pa.string(), pa.int32()))])
    catalog = a_catalog(tmp_path)
    options = {"file-index.bitmap.columns": "m[a],m[b]", "file-index.bitmap.m.version": "1", **IN_MANIFESTS}
    table = catalog.create_table("db.t", schema, options=options)
    table.write(pa.table([pa.array([1, 2]), pa.array([[("a", 5)], None], schema.field(1).type)], schema=schema))
    [file] = files(table)
    assert file.embedded_index is not None
    assert sorted(read_head(file.embedded_index)) == ["m[a]", "m[b]"]


def test_changelog_files_have_no_indexes(tmp_path: Path) -> None:
    make(tmp_path, {**BLOOM, **IN_FILES, "bucket": "1", "changelog-producer": "input"}, keys=("id",))
    found = [p.name for p in (tmp_path / "db.db" / "t").rglob("changelog-*") if p.is_file()]
    assert len(found) == 3 and not any(n.endswith(".index") for n in found)


def test_indexes_live_and_die_with_their_files(tmp_path: Path) -> None:
    table = make(tmp_path, {**BLOOM, **IN_FILES, "bucket": "1"}, keys=("id",))
    table.compact(full=True)
    table.expire_snapshots(retain_max=1, retain_min=1)
    assert len(data_files(tmp_path, ".index")) == len(data_files(tmp_path, ".parquet")) == 1
    with pytest.raises(paimon_spark.PaimonError):
        table.write(pa.table({"id": ["no number"], "s": ["x"], "v": [1]}))
    assert len(data_files(tmp_path)) == 2


@pytest.mark.ci
def test_a_write_with_indexes_killed_at_any_change_of_the_store(tmp_path: Path) -> None:
    table = make(tmp_path / "made", {**BLOOM, **IN_FILES})
    every = list(range(300))

    def write(copied: Table, store: FaultStore) -> None:
        replace(copied, handle=replace(copied.handle, store=store)).write(rows(300))

    for copied in killed_at_each_change(table, tmp_path, write, step=1, between=(4, 30)):
        assert sorted(copied.scan().to_arrow().column("id").to_pylist()) in (every, [*every, *range(300, 400)])
        assert missing_files(copied.handle) == []
        age_files(Path(copied.location.removeprefix("file://")))
        copied.remove_orphan_files(older_than=datetime.now(UTC))
        assert {f.path for f in files_on_disk(copied.handle)} == reachable_files(copied.handle)
        assert all(f.index_file for f in files(copied))
        present = rows(150, 1).column("s")[0].as_py()
        assert ids(copied, f"s = '{present}'") == [150]


def test_indexes_of_types_that_they_do_not_take_are_refused(tmp_path: Path) -> None:
    catalog = a_catalog(tmp_path)
    schema = pa.schema([("id", pa.int64()), ("d", pa.decimal128(5, 2)), ("b", pa.bool_()), ("y", pa.binary())])
    data = pa.table(
        [pa.array([1]), pa.nulls(1, pa.decimal128(5, 2)), pa.array([True]), pa.array([b"x"])], schema=schema
    )
    for n, (kind, column) in enumerate(
        [("bloom-filter", "d"), ("bloom-filter", "b"), ("bitmap", "d"), ("bitmap", "y"), ("range-bitmap", "y")]
    ):
        table = catalog.create_table(f"db.t{n}", schema, options={f"file-index.{kind}.columns": column})
        with pytest.raises(UnsupportedFeatureError, match=f"file-index.{kind}.columns.*column {column}"):
            table.write(data)
        assert table.snapshots() == []


def test_files_of_writers_that_recorded_no_extra_files_have_none(tmp_path: Path) -> None:
    handle = make(tmp_path, {**BLOOM, **IN_FILES}).handle
    head = latest_snapshot(handle)
    assert head is not None
    entries = one_batch(live_entries(handle, data_manifests(handle, head)))
    at = entries.schema.names.index("extra_files")
    lists = pa.array([None, *entries.column(at).to_pylist()[1:]], entries.schema.field(at).type)
    mixed = entries.set_column(at, entries.schema.field(at), lists)
    found = file_metas(mixed, np.arange(3), keys=False)
    assert [f.index_file for f in found] == [None, *(f"{f.file_name}.index" for f in found[1:])]


@pytest.mark.ci
def test_a_key_of_ten_thousand_files_is_in_three_at_most(tmp_path: Path) -> None:
    handle = make_table(LocalStore(), str(tmp_path / "t"))
    kind = key_type(BIGINT)
    assert kind is not None
    made = []
    for number in range(10_000):
        builder = BloomFilterBuilder(kind, 10, 0.00001)
        builder.add(pa.array(range(number, 100_000, 10_000), pa.int64()))
        index = write_container({"k": {"bloom-filter": builder.finish()}})
        made.append(a_file(f"data-{number}.parquet")._replace(embedded_index=index))
    committer(handle).commit([message(handle, *made)])
    table = paimon_spark.load_table(str(tmp_path / "t"))
    for key in (1, 4711, 99_999):
        plan = table.scan(where=f"k = {key}").plan()
        found = [f.file_name for split in plan.splits for f in split.files]
        assert f"data-{key % 10_000}.parquet" in found
        assert len(found) <= 3


def test_options_of_indexes_are_parsed() -> None:
    given = {
        "file-index.bloom-filter.columns": "a, m[k]",
        "file-index.bloom-filter.a.fpp": "0.01",
        "file-index.bloom-filter.m.items": "5",
        "file-index.bitmap.columns": "a",
        "other": "x",
    }
    found = parse_file_index_options(given)
    assert [(i.kind, i.column, i.key) for i in found.indexes] == [
        ("bloom-filter", "a", None),
        ("bloom-filter", "m", "k"),
        ("bitmap", "a", None),
    ]
    assert found.in_manifest_bytes == 500
    assert [i.items for i in found.indexes[:2]] == [1_000_000, 5]
    assert [i.false_positives for i in found.indexes[:2]] == [0.01, 0.1]
    with pytest.raises(InvalidOptionError, match=r"add .z. to file-index\.bitmap\.columns"):
        parse_file_index_options({**given, "file-index.bitmap.z.version": "1"})
    for text in ("0", "1", "2", "x"):
        [bad] = parse_file_index_options(
            {"file-index.bloom-filter.columns": "a", "file-index.bloom-filter.a.fpp": text}
        ).indexes
        with pytest.raises(InvalidOptionError, match=r"file-index.bloom-filter.a.fpp"):
            _ = bad.false_positives
