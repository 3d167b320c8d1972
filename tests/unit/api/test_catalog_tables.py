"""Databases and tables are created, renamed and dropped by a catalog."""

from __future__ import annotations

import pickle
import shutil
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import types as spark

import paimon_spark
from paimon_spark.api.catalog import Catalog
from paimon_spark.errors import (
    DatabaseAlreadyExistsError,
    DatabaseNotFoundError,
    InvalidInputError,
    InvalidOptionError,
    TableAlreadyExistsError,
    TableNotFoundError,
    UnsupportedFeatureError,
)
from paimon_spark.types import RowType
from tests.harness.golden import golden_path
from tests.harness.keywords import keywords
from tests.harness.real_tables import a_catalog, a_table
from tests.harness.s3_server import make_bucket, s3_server


@pytest.fixture(scope="module")
def s3_options() -> Iterator[dict[str, str]]:
    with s3_server() as options:
        yield options


@pytest.fixture(params=["local", "memory", pytest.param("s3", marks=[pytest.mark.s3, pytest.mark.ci])])
def catalog(request: pytest.FixtureRequest, tmp_path: Path) -> Catalog:
    if request.param == "local":
        return paimon_spark.load_catalog(str(tmp_path / "wh"))
    name = f"b{uuid.uuid4().hex}"
    if request.param == "memory":
        return paimon_spark.load_catalog(f"memory://{name}/wh")
    options = request.getfixturevalue("s3_options")
    make_bucket(options, name)
    return paimon_spark.load_catalog(f"s3://{name}/wh", **options)


@pytest.mark.ci
def test_databases_come_and_go(catalog: Catalog) -> None:
    catalog.create_database("a")
    catalog.create_database("b")
    assert (catalog.list_databases(), catalog.list_tables("a")) == (["a", "b"], [])
    with pytest.raises(DatabaseAlreadyExistsError, match="ignore_if_exists=True"):
        catalog.create_database("a")
    catalog.create_database("a", ignore_if_exists=True)
    catalog.drop_database("a")
    with pytest.raises(DatabaseNotFoundError, match="no database 'a'"):
        catalog.drop_database("a")
    catalog.drop_database("a", ignore_if_not_exists=True)
    assert catalog.list_databases() == ["b"]


@pytest.mark.ci
def test_tables_are_made_written_renamed_and_dropped(catalog: Catalog) -> None:
    catalog.create_database("db")
    catalog.create_database("other")
    table = catalog.create_table("db.t", "k BIGINT, v STRING", primary_keys=["k"], options={"bucket": 1}, comment="c")
    assert (table.name, table.schema.comment, table.schema.primary_keys) == ("db.t", "c", ("k",))
    table.write(pa.table({"k": [1, 2], "v": ["a", "b"]}))
    with pytest.raises(TableAlreadyExistsError, match=r"table db\.t already exists"):
        catalog.create_table("db.t", "x INT")
    assert catalog.create_table("db.t", "x INT", ignore_if_exists=True).row_type.names == ("k", "v")

    catalog.rename_table("db.t", "other.u")
    assert (catalog.list_tables("db"), catalog.list_tables("other")) == ([], ["u"])
    assert catalog.table("other.u").scan().to_arrow().num_rows == 2
    with pytest.raises(TableNotFoundError, match="no table 't'"):
        catalog.rename_table("db.t", "db.x")
    catalog.rename_table("db.t", "db.x", ignore_if_not_exists=True)

    with pytest.raises(InvalidInputError, match=r"is not empty: it holds u; .*cascade=True"):
        catalog.drop_database("other")
    catalog.drop_table("other.u")
    with pytest.raises(TableNotFoundError):
        catalog.drop_table("other.u")
    catalog.drop_table("other.u", ignore_if_not_exists=True)
    catalog.drop_table("nowhere.u", ignore_if_not_exists=True)
    assert catalog.list_tables("other") == []
    assert catalog.create_table("other.u", "x INT").scan().to_arrow().num_rows == 0
    catalog.drop_database("other", cascade=True)
    assert catalog.list_databases() == ["db"]


def test_a_table_is_not_renamed_onto_another(catalog: Catalog) -> None:
    catalog.create_database("db")
    catalog.create_table("db.a", "x INT")
    catalog.create_table("db.b", "y INT")
    with pytest.raises(TableAlreadyExistsError, match=r"db\.a cannot be renamed to db\.b"):
        catalog.rename_table("db.a", "db.b")
    with pytest.raises(DatabaseNotFoundError):
        catalog.rename_table("db.a", "nope.a")
    assert catalog.table("db.a").row_type.names == ("x",)
    assert catalog.table("db.b").row_type.names == ("y",)


@pytest.mark.ci
def test_of_racing_creators_one_wins(catalog: Catalog) -> None:
    catalog.create_database("db")

    def create(number: int) -> int | None:
        try:
            catalog.create_table("db.t", f"c{number} INT")
        except TableAlreadyExistsError:
            return None
        return number

    with ThreadPoolExecutor(6) as pool:
        winners = [n for n in pool.map(create, range(6)) if n is not None]
    assert len(winners) == 1
    assert catalog.table("db.t").row_type.names == (f"c{winners[0]}",)


STRUCT = spark.StructType(
    [
        spark.StructField("k", spark.LongType(), False),
        spark.StructField("v", spark.VarcharType(5), metadata={"CURRENT_DEFAULT": "'x'"}),
    ]
)


@pytest.mark.parametrize(
    ("schema", "types"),
    [
        (pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.string())]), ["BIGINT NOT NULL", "STRING"]),
        ("k BIGINT NOT NULL, v VARCHAR(5)", ["BIGINT NOT NULL", "VARCHAR(5)"]),
        (STRUCT, ["BIGINT NOT NULL", "VARCHAR(5)"]),
    ],
)
def test_columns_are_stated_in_three_languages(tmp_path: Path, schema: object, types: list[str]) -> None:
    table = a_table(schema, where=tmp_path)
    assert [str(f.type) for f in table.row_type] == types
    assert isinstance(table.row_type, RowType)


def test_what_states_no_columns_is_refused(tmp_path: Path) -> None:
    catalog = a_catalog(tmp_path)
    with pytest.raises(InvalidInputError, match=r"found builtins\.list"):
        catalog.create_table("db.t", ["k"])
    assert catalog.list_tables("db") == []


def test_defaults_of_the_catalog_are_options_of_its_tables(tmp_path: Path) -> None:
    catalog = paimon_spark.load_catalog(
        str(tmp_path), **keywords({"table-default.file.format": "orc", "table-default.bucket": 3})
    )
    assert pickle.loads(pickle.dumps(catalog)) == catalog
    catalog.create_database("db")
    table = catalog.create_table("db.t", "k INT", primary_keys=["k"], options={"bucket": 2})
    assert table.schema.options == {"file.format": "orc", "bucket": "2"}


def test_tables_need_a_database(tmp_path: Path) -> None:
    catalog = paimon_spark.load_catalog(str(tmp_path))
    with pytest.raises(DatabaseNotFoundError, match="no database 'db'"):
        catalog.create_table("db.t", "k INT")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["t", "db.t$branch_x", "db.t$snapshots", "db.", "db.a/b", "db.`.t`", ""])
def test_names_that_tables_cannot_have_are_refused(tmp_path: Path, name: str) -> None:
    catalog = a_catalog(tmp_path)
    with pytest.raises(InvalidOptionError):
        catalog.create_table(name, "k INT")
    with pytest.raises((InvalidOptionError, TableNotFoundError)):
        catalog.drop_table(name)
    assert catalog.list_tables("db") == []


@pytest.mark.parametrize("name", ["sys", "", " ", "a/b", "a$b", "..", ".a"])
def test_names_that_databases_cannot_have_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidOptionError):
        paimon_spark.load_catalog(str(tmp_path)).create_database(name)
    assert list(tmp_path.iterdir()) == []


def test_a_table_with_branches_is_dropped_whole(tmp_path: Path) -> None:
    shutil.copytree(golden_path("branches"), tmp_path / "db.db" / "t")
    paimon_spark.load_catalog(str(tmp_path)).drop_table("db.t")
    assert list((tmp_path / "db.db").iterdir()) == []


def test_a_table_whose_main_is_a_branch_is_one(tmp_path: Path) -> None:
    shutil.copytree(golden_path("branches"), tmp_path / "db.db" / "t")
    (tmp_path / "db.db" / "t" / "MAIN-BRANCH").write_text("from_tag")
    shutil.rmtree(tmp_path / "db.db" / "t" / "schema")
    catalog = paimon_spark.load_catalog(str(tmp_path))
    assert catalog.list_tables("db") == ["t"]
    with pytest.raises(TableAlreadyExistsError):
        catalog.create_table("db.t", "k INT")
    catalog.drop_table("db.t")
    assert catalog.list_tables("db") == []


@pytest.mark.parametrize("option", ["data-file.external-paths", "metadata.iceberg.storage"])
def test_files_outside_the_table_are_not_forgotten(tmp_path: Path, option: str) -> None:
    catalog = a_catalog(tmp_path)
    with pytest.raises(UnsupportedFeatureError, match=f"db.t cannot be made with {option} = 's3://x/y'"):
        catalog.create_table("db.t", "k INT", options={option: "s3://x/y"})
    assert catalog.list_tables("db") == []


def test_tables_with_external_paths_are_dropped(tmp_path: Path) -> None:
    catalog = a_catalog(tmp_path)
    for name in ("empty", "filled"):
        table = catalog.create_table(f"db.{name}", "k INT")
        if name == "filled":
            table.write(pa.table({"k": pa.array([1], pa.int32())}))
        table.alter(set_options={"data-file.external-paths": "s3://x/y"})
    catalog.drop_table("db.empty")
    assert catalog.list_tables("db") == ["filled"]
    catalog.drop_database("db", cascade=True)
    assert catalog.list_databases() == []
