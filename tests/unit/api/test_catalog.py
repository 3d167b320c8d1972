"""A catalog of existing tables: listing, opening by name, and errors that name the alternatives."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path

import pytest

import paimon_spark
from paimon_spark.errors import DatabaseNotFoundError, InvalidOptionError, TableNotFoundError
from tests.harness.golden import golden_path


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    shutil.copytree(golden_path("branches"), tmp_path / "db.db" / "orders")
    shutil.copytree(golden_path("append_tags_live"), tmp_path / "db.db" / "tagged")
    (tmp_path / "db.db" / "no_table").mkdir()
    (tmp_path / "other.db").mkdir()
    (tmp_path / "not_a_database").mkdir()
    return tmp_path


def test_a_warehouse_lists_its_databases_and_tables(warehouse: Path) -> None:
    catalog = paimon_spark.load_catalog(warehouse=str(warehouse))
    assert catalog.list_databases() == ["db", "other"]
    assert catalog.list_tables("db") == ["orders", "tagged"]
    assert catalog.list_tables("other") == []
    assert pickle.loads(pickle.dumps(catalog)) == catalog


def test_a_table_is_opened_by_name(warehouse: Path) -> None:
    catalog = paimon_spark.load_catalog(str(warehouse))
    table = catalog.table("db.orders")
    assert table.name == "db.orders"
    expected = paimon_spark.load_table(str(golden_path("branches"))).scan().to_arrow()
    assert table.scan().to_arrow().equals(expected)
    assert catalog.table("db.orders$branch_from_tag").branch_name == "from_tag"
    assert catalog.table("db.orders", branch="from_tag").branch_name == "from_tag"
    assert paimon_spark.load_table("db.orders", warehouse=str(warehouse)).name == "db.orders"


def test_the_warehouse_may_come_from_the_environment(warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAIMON_WAREHOUSE", str(warehouse))
    assert paimon_spark.load_catalog().list_databases() == ["db", "other"]
    assert paimon_spark.load_table("db.orders").name == "db.orders"
    assert paimon_spark.load_table(str(warehouse / "db.db" / "orders")).name == "db.orders"


def test_what_does_not_exist_offers_what_does(warehouse: Path) -> None:
    catalog = paimon_spark.load_catalog(str(warehouse))
    with pytest.raises(TableNotFoundError, match="no table 'order'; did you mean 'orders'"):
        catalog.table("db.order")
    with pytest.raises(TableNotFoundError, match="no table 'no_table'"):
        catalog.table("db.no_table")
    with pytest.raises(DatabaseNotFoundError, match="no database 'othr'; did you mean 'other'"):
        catalog.table("othr.t")
    with pytest.raises(DatabaseNotFoundError, match="its databases are db, other"):
        catalog.list_tables("xyz")


def test_wrong_calls_say_what_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PAIMON_WAREHOUSE", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    with pytest.raises(InvalidOptionError, match="no warehouse is given"):
        paimon_spark.load_catalog()
    with pytest.raises(InvalidOptionError, match="unknown catalog option 'warehouze'; did you mean 'warehouse'"):
        paimon_spark.load_catalog(str(tmp_path), warehouze="x")
    with pytest.raises(InvalidOptionError, match=r"expected database\.table"):
        paimon_spark.load_catalog(str(tmp_path)).table("orders")
    with pytest.raises(InvalidOptionError):
        paimon_spark.load_catalog(str(tmp_path)).table("db.../x")
