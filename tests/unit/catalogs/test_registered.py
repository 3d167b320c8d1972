"""Catalogs whose names are in a metastore: what was interrupted, what only one side knows, and who comes first."""

from __future__ import annotations

import pickle
import sqlite3
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark.api.catalog import Catalog
from paimon_spark.catalogs import jdbc
from paimon_spark.catalogs.jdbc import JdbcRegistry
from paimon_spark.catalogs.registered import RegisteredCatalog
from paimon_spark.errors import (
    CatalogError,
    DatabaseAlreadyExistsError,
    DatabaseNotFoundError,
    InvalidInputError,
    InvalidOptionError,
    NotFoundError,
    TableAlreadyExistsError,
    TableNotFoundError,
    UnsupportedFeatureError,
)
from paimon_spark.options.catalog import parse_catalog_options
from paimon_spark.storage.local import LocalStore
from tests.harness.real_tables import a_catalog
from tests.harness.views import check_views

ROWS = pa.table({"a": pa.array([1, 2], pa.int32())})


@pytest.fixture
def options(tmp_path: Path) -> dict[str, str]:
    return {"metastore": "jdbc", "uri": f"jdbc:sqlite:{tmp_path}/names.db"}


@pytest.fixture
def catalog(options: dict[str, str], tmp_path: Path) -> Catalog:
    made = paimon_spark.load_catalog(str(tmp_path / "wh"), **options)
    made.create_database("db")
    return made


def listed(tmp_path: Path) -> list[tuple[Any, ...]]:
    connection = sqlite3.connect(tmp_path / "names.db")
    try:
        return sorted(connection.execute("SELECT * FROM paimon_tables").fetchall())
    finally:
        connection.close()


def test_names_are_those_of_the_metastore(catalog: Catalog, tmp_path: Path) -> None:
    catalog.create_table("db.t", "a INT").write(ROWS)
    assert listed(tmp_path) == [("jdbc", "db", "t")]
    assert (catalog.list_databases(), catalog.list_tables("db")) == (["db"], ["t"])
    (tmp_path / "wh" / "db.db" / "directory" / "schema").mkdir(parents=True)
    (tmp_path / "wh" / "other.db").mkdir()
    assert (catalog.list_databases(), catalog.list_tables("db")) == (["db"], ["t"])
    with pytest.raises(DatabaseAlreadyExistsError):
        catalog.create_database("db")
    catalog.create_database("db", ignore_if_exists=True)
    with pytest.raises(DatabaseNotFoundError, match="its databases are db"):
        catalog.list_tables("other")
    with pytest.raises(InvalidInputError, match="is not empty: it holds t"):
        catalog.drop_database("db")
    catalog.rename_table("db.t", "db.u")
    assert listed(tmp_path) == [("jdbc", "db", "u")]
    assert pickle.loads(pickle.dumps(catalog.table("db.u"))).scan().to_arrow().num_rows == 2
    catalog.drop_database("db", cascade=True)
    assert (catalog.list_databases(), listed(tmp_path)) == ([], [])


def test_catalogs_of_one_database_have_names_of_their_own(options: dict[str, str], tmp_path: Path) -> None:
    for key in ("one", "two"):
        catalog = paimon_spark.load_catalog(str(tmp_path / key), **options, **{"catalog-key": key})
        catalog.create_database("db")
        catalog.create_table(f"db.{key}", "a INT")
    assert catalog.list_tables("db") == ["two"]
    assert listed(tmp_path) == [("one", "db", "one"), ("two", "db", "two")]


def test_a_table_that_is_not_listed_is_named_and_can_be_registered(catalog: Catalog, tmp_path: Path) -> None:
    paimon_spark.load_catalog(str(tmp_path / "wh")).create_table("db.t", "a INT").write(ROWS)
    acts: tuple[Callable[[], object], ...] = (
        lambda: catalog.table("db.t"),
        lambda: paimon_spark.load_table("db.t", warehouse=catalog.warehouse, **catalog.options),
    )
    for act in acts:
        with pytest.raises(TableNotFoundError, match=r"does not list table db\.t.*register_table\('db\.t'\)"):
            act()
    with pytest.raises(TableAlreadyExistsError, match="does not list"):
        catalog.create_table("db.t", "a INT")
    with pytest.raises(TableNotFoundError):
        catalog.register_table("db.none")
    catalog.register_table("db.t")
    catalog.register_table("db.t")
    assert catalog.table("db.t").scan().to_arrow().num_rows == 2


def test_a_write_creates_and_lists_a_table(catalog: Catalog, tmp_path: Path) -> None:
    from paimon_spark.jobs.opened_table import find_place
    from paimon_spark.jobs.write.target import open_target, undo_creation
    from paimon_spark.options.write_request import BatchWriteOptions
    from paimon_spark.types import INT, DataField, RowType

    options = {**catalog.options, "warehouse": catalog.warehouse}
    place = find_place("db.t", options, None, catalog.options)
    handle, created, _ = open_target(
        place, BatchWriteOptions(), ROWS.schema, lambda: RowType(fields=(DataField(0, "a", INT),))
    )
    assert (created, listed(tmp_path)) == (True, [("jdbc", "db", "t")])
    undo_creation(handle)
    assert (catalog.list_tables("db"), listed(tmp_path)) == ([], [])


@pytest.mark.parametrize("failing", ["create_schema", "add_table"])
def test_a_creation_that_fails_can_be_repeated(
    catalog: Catalog, failing: str, monkeypatch: Any, tmp_path: Path
) -> None:
    def fail(*args: Any, **named: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        if failing == "add_table":
            patch.setattr(JdbcRegistry, "add_table", fail)
        else:
            patch.setattr("paimon_spark.metadata.definition.create.create_schema", fail)
        with pytest.raises(KeyboardInterrupt):
            catalog.create_table("db.t", "a INT")
    assert listed(tmp_path) == []
    catalog.create_table("db.t", "a INT").write(ROWS)
    assert catalog.list_tables("db") == ["t"]


def test_a_listed_table_without_files_can_be_created_and_dropped(catalog: Catalog, tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "names.db")
    connection.execute("INSERT INTO paimon_tables VALUES ('jdbc', 'db', 't')")
    connection.commit()
    with pytest.raises(TableNotFoundError):
        catalog.table("db.t")
    catalog.create_table("db.t", "a INT").write(ROWS)
    assert catalog.table("db.t").scan().to_arrow().num_rows == 2
    connection.execute("INSERT INTO paimon_tables VALUES ('jdbc', 'db', 'u')")
    connection.commit()
    connection.close()
    catalog.drop_table("db.u")
    assert catalog.list_tables("db") == ["t"]


@pytest.mark.parametrize("moved", [False, True])
def test_an_interrupted_rename_is_finished_by_renaming_again(
    catalog: Catalog, moved: bool, monkeypatch: Any, tmp_path: Path
) -> None:
    def fail(*args: Any, **named: Any) -> None:
        raise KeyboardInterrupt

    catalog.create_table("db.t", "a INT").write(ROWS)
    with monkeypatch.context() as patch:
        target = (JdbcRegistry, "move_table") if moved else (RegisteredCatalog, "_move_files")
        patch.setattr(*target, fail)
        with pytest.raises(KeyboardInterrupt):
            catalog.rename_table("db.t", "db.u")
    if not moved:
        with pytest.raises(TableNotFoundError):
            catalog.table("db.u")
        catalog.rename_table("db.t", "db.u")
    assert catalog.table("db.u").scan().to_arrow().num_rows == 2
    assert (catalog.list_tables("db"), listed(tmp_path)) == (["u"], [("jdbc", "db", "u")])
    with pytest.raises(TableNotFoundError):
        catalog.rename_table("db.t", "db.v")


def test_an_interrupted_drop_is_finished_by_dropping_again(catalog: Catalog, tmp_path: Path) -> None:
    calls = 0
    for fails_at in range(1, 100):
        catalog.create_table("db.t", "a INT", ignore_if_exists=True).write(ROWS)
        calls = dropped_until(catalog, fails_at)
        catalog.drop_table("db.t", ignore_if_not_exists=True)
        assert (catalog.list_tables("db"), listed(tmp_path)) == ([], [])
        assert not (tmp_path / "wh" / "db.db" / "t").exists()
        if calls < fails_at:
            break
    assert 3 <= calls < 99, "every call has failed once, and then none"


def dropped_until(catalog: Catalog, fails_at: int) -> int:
    """Drop the table `db.t`, and fail at a call that deletes. Returns how many such calls there were."""
    calls = 0

    def counted(delete: Any) -> Any:
        def act(*args: Any, **named: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == fails_at:
                raise KeyboardInterrupt
            return delete(*args, **named)

        return act

    with pytest.MonkeyPatch.context() as patch:
        for owner, name in ((LocalStore, "delete"), (LocalStore, "delete_tree"), (JdbcRegistry, "remove_table")):
            patch.setattr(owner, name, counted(getattr(owner, name)))
        with suppress(KeyboardInterrupt):
            catalog.drop_table("db.t")
    return calls


def test_files_do_not_move_to_another_store(catalog: Catalog, monkeypatch: Any, tmp_path: Path) -> None:
    catalog.create_table("db.t", "a INT").write(ROWS)
    catalog.create_database("far")
    asked = JdbcRegistry.database_url

    def elsewhere(self: JdbcRegistry, database: str, default: str) -> str | None:
        return "memory://far" if database == "far" else asked(self, database, default)

    monkeypatch.setattr(JdbcRegistry, "database_url", elsewhere)
    with pytest.raises(UnsupportedFeatureError, match="to another store, memory://"):
        catalog.rename_table("db.t", "far.t")
    assert listed(tmp_path) == [("jdbc", "db", "t")]
    assert catalog.table("db.t").scan().to_arrow().num_rows == 2


def test_nothing_is_renamed_onto_another_table(catalog: Catalog) -> None:
    catalog.create_table("db.t", "a INT").write(ROWS)
    catalog.create_table("db.u", "a INT")
    with pytest.raises(TableAlreadyExistsError, match="choose another name"):
        catalog.rename_table("db.t", "db.u")
    assert catalog.table("db.t").scan().to_arrow().num_rows == 2
    assert catalog.list_tables("db") == ["t", "u"]


def test_one_of_two_creators_wins_and_both_find_the_table(options: dict[str, str], tmp_path: Path) -> None:
    paimon_spark.load_catalog(str(tmp_path / "wh"), **options).create_database("db")
    barrier, outcomes = threading.Barrier(4), []

    def create() -> None:
        mine = paimon_spark.load_catalog(str(tmp_path / "wh"), **options)
        barrier.wait(60)
        try:
            mine.create_table("db.t", "a INT")
            outcomes.append("made")
        except TableAlreadyExistsError:
            outcomes.append("there")

    threads = [threading.Thread(target=create) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(outcomes) == ["made", "there", "there", "there"]
    assert listed(tmp_path) == [("jdbc", "db", "t")]


def test_processes_that_make_the_tables_of_names_at_once(options: dict[str, str]) -> None:
    barrier, found = threading.Barrier(4), []

    def look() -> None:
        registry = JdbcRegistry(parse_catalog_options(options))
        barrier.wait(60)
        found.append(registry.list_databases())

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found == [[]] * 4


def test_who_may_only_read_the_names_reads_them(catalog: Catalog, monkeypatch: Any) -> None:
    catalog.create_table("db.t", "a INT").write(ROWS)
    monkeypatch.setattr(jdbc, "_TABLES", dict.fromkeys(jdbc._TABLES, "NOTHING MAY BE MADE"))
    assert catalog.list_tables("db") == ["t"]
    assert catalog.table("db.t").scan().to_arrow().num_rows == 2


@pytest.mark.ci
def test_commits_wait_for_the_lock(options: dict[str, str], tmp_path: Path) -> None:
    settings = {**options, "lock.enabled": "true"}
    catalog = paimon_spark.load_catalog(str(tmp_path / "wh"), **settings)
    catalog.create_database("db")
    table = catalog.create_table("db.t", "a INT")
    registry = JdbcRegistry(parse_catalog_options(settings))
    held, free = threading.Event(), threading.Event()

    def hold() -> None:
        with registry.lock("db", "t"):
            held.set()
            free.wait(60)

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait(60)
    impatient = JdbcRegistry(parse_catalog_options({**settings, "lock-acquire-timeout": "1 s"}))
    with (
        pytest.raises(CatalogError, match=r"lock jdbc\.db\.t .* was not free within 1000 ms"),
        impatient.lock("db", "t"),
    ):
        pass
    writer = threading.Thread(target=table.write, args=(ROWS,))
    writer.start()
    writer.join(0.5)
    assert writer.is_alive() and table.snapshots() == []
    free.set()
    holder.join(60)
    writer.join(60)
    assert len(table.snapshots()) == 1


def test_a_lock_whose_time_is_over_is_broken(options: dict[str, str], tmp_path: Path) -> None:
    registry = JdbcRegistry(parse_catalog_options({**options, "lock-acquire-timeout": "1 s"}))
    with registry.lock("db", "t"):
        pass
    connection = sqlite3.connect(tmp_path / "names.db")
    connection.execute("INSERT INTO paimon_distributed_locks VALUES ('jdbc.db.t', '2020-01-01 00:00:00', 1)")
    connection.commit()
    connection.close()
    with registry.lock("db", "t"):
        pass


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"metastore": "jdbc"}, "needs the option uri"),
        ({"metastore": "hdbc"}, "expected one of filesystem, jdbc, hive"),
        ({"metastor": "jdbc"}, "unknown catalog option"),
        ({"metastore": "jdbc", "uri": "jdbc:oracle:x"}, "expected jdbc:sqlite"),
        ({"metastore": "hive", "uri": "http://h:1"}, "no address of a Hive metastore"),
        ({"metastore": "hive"}, "no address of a Hive metastore"),
    ],
)
def test_wrong_options_are_named(given: dict[str, str], said: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.delenv("HIVE_CONF_DIR", raising=False)
    with pytest.raises(InvalidOptionError, match=said):
        paimon_spark.load_catalog(str(tmp_path), **given).list_databases()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"metastore": "jdbc", "uri": "jdbc:sqlite:/no/such/folder/x.db"}, "cannot be used: OperationalError"),
        ({"metastore": "jdbc", "uri": "jdbc:postgresql://127.0.0.1:9/x"}, "cannot be used|install paimon-spark"),
        ({"metastore": "hive", "uri": "thrift://127.0.0.1:9"}, "no Hive metastore answers|install paimon-spark"),
    ],
)
def test_a_metastore_that_does_not_answer_is_named(given: dict[str, str], said: str, tmp_path: Path) -> None:
    with pytest.raises(CatalogError, match=said) as caught:
        paimon_spark.load_catalog(str(tmp_path), **given).list_databases()
    assert "\n" not in str(caught.value)


def test_views(catalog: Catalog, tmp_path: Path) -> None:
    check_views(catalog)
    catalog.create_view("db.v", "SELECT a FROM t", columns="a INT")
    connection = sqlite3.connect(tmp_path / "names.db")
    (row,) = connection.execute("SELECT * FROM paimon_views").fetchall()
    assert row[:3] == ("jdbc", "db", "v")
    for text in ("no JSON", "[]", '{"query": 1}', '{"query": "q", "fields": [{"id": 0}]}'):
        connection.execute("UPDATE paimon_views SET view_schema = ?", (text,))
        connection.commit()
        with pytest.raises(CatalogError, match=r"view db\.v"):
            catalog.view("db.v")
    connection.close()
    catalog.drop_database("db", cascade=True)
    catalog.create_database("db")
    assert catalog.list_views("db") == []


def test_a_directory_holds_no_views(tmp_path: Path) -> None:
    catalog = a_catalog(tmp_path)
    with pytest.raises(UnsupportedFeatureError, match="holds no views"):
        catalog.create_view("db.v", "SELECT 1", columns="a INT")
    assert catalog.list_views("db") == []
    with pytest.raises(NotFoundError, match=r"there is no view db\.v"):
        catalog.view("db.v")
