"""The same tables read the same from a store that is no local disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import fsspec
import pytest

import paimon_spark
from tests.harness.golden import golden_path, golden_reads
from tests.harness.rows import rows_of
from tests.harness.s3_server import make_bucket, s3_server

TABLES = (
    "append_all_types_avro", "append_all_types_parquet", "append_deletion_vectors", "branches", "pk_deletion_vectors",
    "pk_orc", "py_row_tracking", "tags_expired",
)  # fmt: skip
READS = [read for read in golden_reads() if read.table in TABLES]
Place = Callable[[str], tuple[str, dict[str, str]]]


def upload(table: str, filesystem: fsspec.AbstractFileSystem, root: str) -> None:
    home = golden_path(table)
    for file in sorted(p for p in home.rglob("*") if p.is_file()):
        filesystem.pipe_file(f"{root}/{file.relative_to(home).as_posix()}", file.read_bytes())


@pytest.fixture(scope="module")
def in_memory() -> Place:
    filesystem = fsspec.filesystem("memory")

    def place(table: str) -> tuple[str, dict[str, str]]:
        root = f"/other-stores/{table}"
        if not filesystem.exists(root):
            upload(table, filesystem, root)
        return f"memory://{root}", {}

    return place


@pytest.fixture(scope="module")
def on_s3() -> Iterator[Place]:
    with s3_server() as options:
        filesystem = make_bucket(options, "lake")
        placed: set[str] = set()

        def place(table: str) -> tuple[str, dict[str, str]]:
            if table not in placed:
                upload(table, filesystem, f"lake/wh/db.db/{table}")
                placed.add(table)
            return f"s3://lake/wh/db.db/{table}", options

        yield place


@pytest.mark.parametrize("read", READS, ids=str)
def test_in_memory(read: object, in_memory: Place) -> None:
    check(read, in_memory)


@pytest.mark.s3
@pytest.mark.ci
@pytest.mark.parametrize("read", READS, ids=str)
def test_on_s3(read: object, on_s3: Place) -> None:
    check(read, on_s3)


@pytest.mark.s3
@pytest.mark.ci
def test_by_name_in_a_warehouse_on_s3(on_s3: Place) -> None:
    read = next(r for r in READS if r.table == "branches" and r.label == "branch=from_tag")
    _, options = on_s3("branches")
    table = paimon_spark.load_table("db.branches$branch_from_tag", warehouse="s3://lake/wh", **options)
    read.check(rows_of(table.scan().to_arrow(), read.types))


def check(read, place: Place) -> None:  # type: ignore[no-untyped-def]
    url, options = place(read.table)
    table = paimon_spark.load_table(url, **options, **read.options).scan(columns=read.columns).to_arrow()
    read.check(rows_of(table, read.types))


def test_golden_tables_exist() -> None:
    assert {read.table for read in READS} == set(TABLES)
    assert all(isinstance(golden_path(t), Path) for t in TABLES)
