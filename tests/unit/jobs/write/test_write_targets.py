"""Misspelt targets of writes and reads: no database, no table by accident, and the nearest name."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark.errors import (
    DatabaseNotFoundError,
    InvalidOptionError,
    NotFoundError,
    TableNotFoundError,
    WarehouseNotFoundError,
)
from paimon_spark.jobs.read.stream import open_stream
from paimon_spark.jobs.write.batch import plan_path_write
from paimon_spark.jobs.write.stream import plan_stream_write
from paimon_spark.metadata.definition.from_arrow import row_type
from paimon_spark.options.write_request import WriteMode

ROWS = pa.table({"id": pa.array([1, 2], pa.int64())})


def batch(path: str, **options: str) -> None:
    given = {"path": path, **options}
    job = plan_path_write(given, WriteMode.APPEND, ROWS.schema, lambda: row_type(ROWS.schema))
    job.commit(job.write(ROWS.to_batches()))


def stream(path: str, **options: str) -> None:
    given = {"path": path, **options}
    plan_stream_write(given, complete=False, source=ROWS.schema, columns=lambda: row_type(ROWS.schema))


WRITES = [batch, stream]
Write = Callable[..., None]


@pytest.fixture(autouse=True)
def _no_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PAIMON_WAREHOUSE", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    catalog = paimon_spark.load_catalog(str(tmp_path / "warehouse"))
    catalog.create_database("shop")
    catalog.create_table("shop.orders", ROWS.schema)
    return tmp_path / "warehouse"


def everything(path: Path) -> list[str]:
    return sorted(str(p.relative_to(path)) for p in path.rglob("*"))


@pytest.mark.parametrize("write", WRITES)
def test_a_write_never_creates_a_database(write: Write, warehouse: Path) -> None:
    before = everything(warehouse)
    with pytest.raises(
        DatabaseNotFoundError, match=r"no database 'shp'; did you mean 'shop'\?.*create_database\(name\)"
    ):
        write("shp.orders", warehouse=str(warehouse))
    assert everything(warehouse) == before
    with pytest.raises(InvalidOptionError, match="cannot be the name of a table"):
        write("shop.`.orders`", warehouse=str(warehouse))
    write("shop.items", warehouse=str(warehouse))
    assert paimon_spark.load_catalog(str(warehouse)).list_tables("shop") == ["items", "orders"]


@pytest.mark.parametrize("write", WRITES)
def test_a_write_never_creates_a_warehouse(write: Write, warehouse: Path) -> None:
    misspelt = warehouse.parent / "warehuse"
    with pytest.raises(WarehouseNotFoundError, match=f"no warehouse at {misspelt}: .*did you mean {warehouse}"):
        write("shop.orders", warehouse=str(misspelt))
    assert not misspelt.exists()


@pytest.mark.parametrize("write", WRITES)
def test_a_name_without_a_warehouse_is_not_written(write: Write, tmp_path: Path) -> None:
    with pytest.raises(
        InvalidOptionError, match=r"'d\.byname' is a name .* option warehouse .* '\./d\.byname' for a path"
    ):
        write("d.byname")
    assert everything(tmp_path / "here") == []
    write("./d.byname")
    assert (tmp_path / "here" / "d.byname" / "schema").is_dir()
    with pytest.raises(InvalidOptionError, match="option warehouse"):
        write("d.byname")


@pytest.mark.parametrize("write", WRITES)
def test_half_a_name_in_a_warehouse_is_not_written(write: Write, warehouse: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidOptionError, match=r"'orders' is not the name .* write database\.table, or '\./orders'"):
        write("orders", warehouse=str(warehouse))
    assert everything(tmp_path / "here") == []


@pytest.mark.parametrize("read", [paimon_spark.load_table, lambda path: open_stream(path, {})])
def test_a_name_without_a_warehouse_is_read_only_where_it_is_the_path_of_a_table(read: Any) -> None:
    with pytest.raises(InvalidOptionError, match=r"no warehouse is given; .*option warehouse"):
        read("d.byname")
    batch("./d.byname")
    read("d.byname")
    assert paimon_spark.load_table("d.byname").scan().to_arrow().num_rows == 2


@pytest.mark.parametrize("read", [paimon_spark.load_table, lambda path, **options: open_stream(path, options)])
def test_a_read_by_a_misspelt_name_offers_the_nearest(read: Any, warehouse: Path) -> None:
    with pytest.raises(TableNotFoundError, match="no table 'ordrs'; did you mean 'orders'"):
        read("shop.ordrs", warehouse=str(warehouse))
    with pytest.raises(DatabaseNotFoundError, match="no database 'shp'; did you mean 'shop'"):
        read("shp.orders", warehouse=str(warehouse))
    with pytest.raises(WarehouseNotFoundError, match=f"did you mean {warehouse}"):
        read("shop.orders", warehouse=f"{warehouse}s")


@pytest.mark.parametrize(
    "verb",
    [
        lambda catalog: catalog.list_databases(),
        lambda catalog: catalog.list_tables("shop"),
        lambda catalog: catalog.table("shop.orders"),
        lambda catalog: catalog.create_table("shop.items", ROWS.schema),
        lambda catalog: catalog.drop_database("shop"),
    ],
)
def test_a_warehouse_that_does_not_exist_is_reported(verb: Callable[[Any], Any], warehouse: Path) -> None:
    misspelt = f"{warehouse}s"
    catalog = paimon_spark.load_catalog(misspelt)
    with pytest.raises(WarehouseNotFoundError, match=rf"did you mean {warehouse}\?.* catalog\.create_database\(name\)"):
        verb(catalog)
    assert not Path(misspelt).exists()
    assert issubclass(WarehouseNotFoundError, NotFoundError)


def test_the_first_database_creates_the_warehouse(tmp_path: Path) -> None:
    catalog = paimon_spark.load_catalog(str(tmp_path / "new" / "warehouse"))
    catalog.drop_database("shop", ignore_if_not_exists=True)
    with pytest.raises(WarehouseNotFoundError, match="check the path"):
        catalog.list_databases()
    catalog.create_database("shop")
    assert catalog.list_databases() == ["shop"]
    catalog.drop_database("shop")
    assert catalog.list_databases() == []


def test_a_prefix_without_objects_is_an_empty_warehouse(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    # fsspec's memory stands for a store without directories.
    monkeypatch.setattr("paimon_spark.catalogs.file_system.has_directories", lambda url: False)
    catalog = paimon_spark.load_catalog("memory://lake/wh-of-write-targets")
    assert catalog.list_databases() == []
    assert "is empty: the store has no object under it; check the bucket and the path" in caplog.text
    caplog.clear()
    catalog.create_database("shop")
    assert catalog.list_tables("shop") == []
    assert catalog.list_databases() == ["shop"]
    assert caplog.text == ""
    with pytest.raises(DatabaseNotFoundError, match="no database 'shp'; did you mean 'shop'"):
        batch("shp.orders", warehouse=catalog.warehouse)


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("name", ["order", "ordres", "orderz", "Orders"])
def test_a_new_table_beside_one_of_nearly_the_same_name_warns(
    name: str, write: Write, warehouse: Path, caplog: pytest.LogCaptureFixture
) -> None:
    message = rf"creates table shop\.{name} beside table 'orders' of nearly the same name"
    with pytest.warns(UserWarning, match=message):
        write(f"shop.{name}", warehouse=str(warehouse))
    assert [r.levelno for r in caplog.records if "nearly the same name" in r.message] == [logging.WARNING]
    write(f"shop.{name}", warehouse=str(warehouse))  # it exists now: warnings are errors in tests


@pytest.mark.parametrize("name", ["orders_1", "orders_23", "items", "customers"])
def test_other_names_and_other_numbers_do_not_warn(name: str, warehouse: Path) -> None:
    paimon_spark.load_catalog(str(warehouse)).create_table("shop.orders_2", ROWS.schema)
    (warehouse / "shop.db" / "item").mkdir()  # a directory, no table
    batch(f"shop.{name}", warehouse=str(warehouse))


def test_a_path_in_a_database_of_nearly_the_same_name_warns(warehouse: Path) -> None:
    with pytest.warns(UserWarning, match=r"creates table file://.*/shops\.db/orders beside database 'shop'"):
        batch(f"{warehouse}/shops.db/orders")
    batch(f"{warehouse}/shops.db/items")
