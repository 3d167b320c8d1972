"""The life of tables whose manifests are ORC or Parquet: commits, deletes, refs, expiry and cleaning."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_spark.api.table import Table
from paimon_spark.maintenance.orphan_files import orphans
from paimon_spark.metadata.manifests import CACHE
from tests.harness.real_tables import a_catalog
from tests.harness.table_files import missing_files

MAGIC = {"avro": b"Obj", "orc": b"ORC", "parquet": b"PAR1"}
MERGING = {"manifest.merge-min-count": "2", "manifest.full-compaction-threshold-size": "1 b"}
KEYED = {"bucket": "1", "deletion-vectors.enabled": "true", "changelog-producer": "lookup"}


def rows(first: int, count: int = 8) -> pa.Table:
    numbers = range(first, first + count)
    return pa.table({"k": pa.array(numbers, pa.int64()), "p": [f"p{n % 2}" for n in numbers]})


def formats_in(folder: Path) -> set[bytes]:
    return {f.read_bytes()[:3] for f in folder.iterdir()}


@pytest.fixture(params=["orc", "parquet"])
def manifest_format(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.ci
@pytest.mark.parametrize("keyed", [False, True], ids=["append", "keyed"])
def test_a_table_lives_as_with_avro(tmp_path: Path, manifest_format: str, keyed: bool) -> None:
    catalog = a_catalog(tmp_path)

    def live(name: str, **options: str) -> Table:
        given = {**MERGING, "deletion-vectors.enabled": "true", **(KEYED if keyed else {}), **options}
        table = catalog.create_table(
            f"db.{name}",
            "k BIGINT, p STRING",
            primary_keys=["k", "p"] if keyed else [],
            partition_keys=["p"],
            options=given,
        )
        for n in range(4):
            table.write(rows(5 * n))
            CACHE.clear()
        table.create_tag("t")
        table.create_branch("b", tag="t")
        table.branch("b").write(rows(100))
        table.delete("k = 3")
        table.compact(full=True)
        table.compact_manifest()
        table.write(rows(50))
        CACHE.clear()
        return table

    avro, other = live("avro"), live("other", **{"manifest.format": manifest_format})
    manifests = tmp_path / "db.db" / "other" / "manifest"
    assert formats_in(manifests) == {MAGIC[manifest_format][:3]}

    def seen(table: Table) -> object:
        CACHE.clear()
        read = [table.scan(version=s.id) for s in table.snapshots()] + [table.branch("b").scan(), table.scan()]
        shown = [
            catalog.table(f"{table.name}${n}").scan().to_arrow().num_rows
            for n in ("files", "manifests", "partitions", "buckets")
        ]
        return [sorted(map(str, s.to_arrow().to_pylist())) for s in read], shown

    assert seen(other) == seen(avro)
    for table in (avro, other):
        table.expire_snapshots(retain_max=2, retain_min=1, older_than=datetime.now(UTC))
        CACHE.clear()
        assert missing_files(table.handle) == []
        assert list(orphans(table.handle)) == []
    assert seen(other) == seen(avro)
    assert len(list(manifests.iterdir())) == len(list((tmp_path / "db.db" / "avro" / "manifest").iterdir()))


def test_manifests_from_before_the_option_was_altered_by_others_are_read(tmp_path: Path, manifest_format: str) -> None:
    catalog = a_catalog(tmp_path)
    table = catalog.create_table("db.t", "k BIGINT, p STRING", options=MERGING)
    table.write(rows(0))
    schema = tmp_path / "db.db" / "t" / "schema" / "schema-0"
    schema.write_text(
        schema.read_text().replace(
            '"manifest.merge-min-count"', f'"manifest.format":"{manifest_format}","manifest.merge-min-count"'
        )
    )
    CACHE.clear()
    table = catalog.table("db.t")
    table.write(rows(8))
    CACHE.clear()
    assert sorted(table.scan().to_arrow()["k"].to_pylist()) == list(range(16))
    assert formats_in(tmp_path / "db.db" / "t" / "manifest") == {b"Obj", MAGIC[manifest_format][:3]}
    assert missing_files(table.handle) == []
