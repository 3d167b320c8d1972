"""Statements in a Spark session that does not know its attached catalogs: which are whose, and what names mean."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

import paimon_spark
from paimon_spark.api.catalog import Catalog
from paimon_spark.errors import (
    DatabaseNotFoundError,
    InvalidInputError,
    SqlSyntaxError,
    TableNotFoundError,
    UnsupportedFeatureError,
)
from paimon_spark.options.location import TableName
from paimon_spark.sql.connect.rewrite import replaced, with_scalars
from paimon_spark.sql.execute import execute_beside
from paimon_spark.sql.names import resolve_name, resolve_source
from paimon_spark.sql.queries.parse import parse_query
from paimon_spark.sql.queries.references import references
from paimon_spark.sql.session import CurrentNames, Session


class Rows(list[Any]):
    """A DataFrame of rows that are known."""

    def collect(self) -> Rows:
        return self

    def select(self) -> Rows:
        return Rows()


class OtherSpark:
    """A session that keeps the texts it is to run, and knows temporary views and its own catalog."""

    def __init__(self, *views: str) -> None:
        self.texts: list[str] = []
        tables = [SimpleNamespace(name=v, isTemporary=True) for v in views]
        self.catalog = SimpleNamespace(listTables=lambda pattern=None: [t for t in tables if pattern in (None, t.name)])
        self.conf = SimpleNamespace(getAll={}, get=lambda key, default=None: default)

    def sql(self, text: str, args: Any = None, **frames: Any) -> Rows:
        self.texts.append(text)
        return Rows([("spark_catalog",)] if text.lower().startswith("show catalogs") else [])

    def createDataFrame(self, rows: Sequence[Any], schema: Any) -> Rows:
        return Rows(rows)


@pytest.fixture(scope="module")
def catalogs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Catalog]:
    home = tmp_path_factory.mktemp("warehouses")
    found = {name: paimon_spark.load_catalog(str(home / name)) for name in ("paimon", "lake")}
    for catalog in found.values():
        catalog.create_database("db")
        catalog.create_table("db.t", "a INT, b STRING")
    found["lake"].create_table("db.only", "a INT")
    return found


def _session(catalogs: dict[str, Catalog], use: str | None = None, *views: str, **conf: str) -> Session:
    current = None if use is None else tuple(use.split("."))
    used = CurrentNames(current)  # type: ignore[arg-type]
    spark: Any = OtherSpark(*views)
    return Session.beside(catalogs, spark, used, {"spark.sql.session.timeZone": "UTC", **conf})


def _whose(session: Session, text: str) -> str | None:
    """The full name of the table that a query reads; None when it is Spark's."""
    parts = text.split(".")
    found = [(s, n) for s in session.each() if (n := resolve_source(s, parts)) is not None]
    assert len(found) < 2, found
    return f"{found[0][0].catalog_name}.{found[0][1]}" if found else None


@pytest.mark.parametrize(
    ("use", "text", "expected"),
    [
        (None, "paimon.db.t", "paimon.db.t"),
        (None, "LAKE.db.t", "lake.db.t"),
        (None, "lake.db.nope", "lake.db.nope"),
        (None, "lake.t", "lake.default.t"),
        (None, "lake.db.t$branch_x", "lake.db.t$branch_x"),
        (None, "lake.db.t.branch_x", "lake.db.t$branch_x"),
        (None, "db.t", None),
        (None, "t", None),
        (None, "spark_catalog.db.t", None),
        ("lake.db", "t", "lake.db.t"),
        ("lake.db", "nope", "lake.db.nope"),
        ("lake.db", "db.t", "lake.db.t"),
        ("lake.db", "nope.t", "lake.nope.t"),
        ("lake.db", "paimon.db.t", "paimon.db.t"),
        ("lake.db", "paimon.t", "paimon.default.t"),
        ("lake.db", "spark_catalog.db.t", None),
        ("lake.db", "ice.db.t", None),
        ("lake.db", "v", None),
        ("lake.db", "global_temp.v", None),
        ("lake.db", "parquet./tmp/x", None),
    ],
)
def test_names_mean_what_they_mean_to_spark(
    catalogs: dict[str, Catalog], use: str | None, text: str, expected: str | None
) -> None:
    session = _session(catalogs, use, "v", **{"spark.sql.catalog.ice": "org.Ice"})
    assert _whose(session, text) == expected


def test_a_table_to_write_is_not_hidden_by_a_view(catalogs: dict[str, Catalog]) -> None:
    assert resolve_name(_session(catalogs, "lake.db", "v"), ["v"]) == TableName("db", "v")


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        (
            "SELECT paimon.db.t.a, lake.db.t.b FROM paimon.db.t JOIN lake.db.t ON paimon.db.t.a = lake.db.t.a",
            (
                "SELECT `paimon.db.t`.a, `lake.db.t`.b FROM {p0} AS `paimon.db.t` JOIN {p1} AS `lake.db.t` "
                "ON `paimon.db.t`.a = `lake.db.t`.a"
            ),
        ),
        ("SELECT x.a FROM paimon.db.t x, lake.db.only", "SELECT x.a FROM {p0} x, {p1} AS `only`"),
        ("SELECT lake.db.only.a FROM lake.db.only, k", "SELECT `only`.a FROM {p0} AS `only`, k"),
        ("SELECT db.t.a FROM paimon.db.t, lake.db.t",
         "SELECT db.t.a FROM {p0} AS `paimon.db.t`, {p1} AS `lake.db.t`"),
        ("SELECT * FROM paimon.db.t.branch_x", "SELECT * FROM {p0} AS `t$branch_x`"),
        ("INSERT INTO k SELECT * FROM lake.db.t", "INSERT INTO k SELECT * FROM {p0} AS `t`"),
    ],
)  # fmt: skip
def test_frames_come_where_tables_of_several_catalogs_stood(
    catalogs: dict[str, Catalog], sql: str, expected: str
) -> None:
    parsed = parse_query(sql)
    assert replaced(parsed, references(_session(catalogs), parsed), {}) == expected


@pytest.mark.parametrize(
    ("statement", "use", "expected"),
    [
        ("USE lake", None, ("lake", "default")),
        ("USE lake.db", None, ("lake", "db")),
        ("SET CATALOG 'lake'", None, ("lake", "default")),
        ("USE lake.default", None, ("lake", "default")),
        ("USE lake", "paimon.db", ("lake", "default")),
        ("USE db", "paimon.default", ("paimon", "db")),
        ("USE DATABASE db", "paimon.default", ("paimon", "db")),
        ("USE spark_catalog", "paimon.db", None),
        ("USE spark_catalog.x", "paimon.db", None),
        ("USE x", None, None),
    ],
)
def test_use_changes_the_current_catalog(
    catalogs: dict[str, Catalog], statement: str, use: str | None, expected: tuple[str, str] | None
) -> None:
    session = _session(catalogs, use)
    execute_beside(session, statement)
    assert session.used is not None
    assert session.used.names == expected
    assert session.spark.texts == ([statement] if expected is None else [])  # type: ignore[attr-defined]


def test_use_of_a_missing_database_changes_nothing(catalogs: dict[str, Catalog]) -> None:
    session = _session(catalogs, "paimon.db")
    for wrong in ("USE nope", "USE lake.nope", "USE DATABASE lake"):
        with pytest.raises(DatabaseNotFoundError):
            execute_beside(session, wrong)
    assert session.used is not None
    assert session.used.names == ("paimon", "db")


@pytest.mark.parametrize(
    ("statement", "use", "expected"),
    [
        ("SHOW CATALOGS", None, [("lake",), ("paimon",), ("spark_catalog",)]),
        ("SHOW DATABASES IN lake", None, [("db",)]),
        ("SHOW DATABASES", "lake.db", [("db",)]),
        ("SHOW TABLES IN lake.db", "paimon.db", [("db", "only", False), ("db", "t", False)]),
        ("SHOW TABLES", "paimon.db", [("db", "t", False)]),
        ("SHOW TABLES IN lake", None, []),
        ("SHOW CURRENT NAMESPACE", "lake.db", [("lake", "db")]),
        ("SHOW COLUMNS IN lake.db.only", None, [("a",)]),
    ],
)
def test_shows_of_attached_catalogs(
    catalogs: dict[str, Catalog], statement: str, use: str | None, expected: list[tuple[Any, ...]]
) -> None:
    assert list(execute_beside(_session(catalogs, use), statement)) == expected  # type: ignore[call-overload]


@pytest.mark.parametrize(
    "statement",
    [
        "SHOW DATABASES",
        "SHOW TABLES",
        "SHOW TABLES IN db",
        "SHOW CURRENT NAMESPACE",
        "SHOW PROCEDURES",
        "DROP DATABASE db",
        "CREATE DATABASE x",
        "CREATE TABLE db.x (a INT) USING paimon",
        "CREATE TABLE db.x (a INT) USING parquet",
        "DROP TABLE t",
        "DELETE FROM db.t",
        "CALL sys.create_tag('db.t', 'v1')",
        "COPY INTO '/x' FROM db.t",
        "COMMENT ON COLUMN db.t.a IS 'x'",
        "SELECT sys.max_pt('db.t'), current_database() FROM db.t -- of lake.db",
        "SELECT 'lake.db.t' -- not read",
        "SELEC * FROM t",
        "OPTIMIZE db.t",
    ],
)
def test_what_names_no_attached_catalog_is_sparks(catalogs: dict[str, Catalog], statement: str) -> None:
    session = _session(catalogs)
    execute_beside(session, statement)
    assert session.spark.texts == [statement]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("statement", "error"),
    [
        ("SELEC * FROM lake.db.t; SELECT 1", SqlSyntaxError),
        ("DELETE FROM lake.db.nope", TableNotFoundError),
        ("INSERT INTO lake.nope.t VALUES (1)", DatabaseNotFoundError),
        ("CREATE TABLE lake.db.x (a INT) USING parquet", UnsupportedFeatureError),
        ("CREATE VIEW lake.db.v AS SELECT 1", UnsupportedFeatureError),
        ("CREATE VIEW v AS SELECT * FROM lake.db.t", UnsupportedFeatureError),
        ("CACHE TABLE lake.db.t", UnsupportedFeatureError),
        ("EXPLAIN INSERT INTO lake.db.t VALUES (1, 'b')", UnsupportedFeatureError),
        ("OPTIMIZE lake.db.t", UnsupportedFeatureError),
        ("ALTER TABLE lake.db.t RENAME TO paimon.db.u", InvalidInputError),
    ],
)
def test_what_cannot_be_done_says_so(catalogs: dict[str, Catalog], statement: str, error: type[Exception]) -> None:
    with pytest.raises(error) as found:
        execute_beside(_session(catalogs, "paimon.db"), statement)
    assert "\n" not in str(found.value)


def test_a_missing_table_of_the_current_catalog_is_not_looked_for_in_sparks(catalogs: dict[str, Catalog]) -> None:
    with pytest.raises(TableNotFoundError, match=r"has no table 'nope'"):
        execute_beside(_session(catalogs, "lake.db"), "SELECT * FROM nope")


def test_statements_create_and_rename_in_the_catalog_that_they_name(catalogs: dict[str, Catalog]) -> None:
    session = _session(catalogs)
    for statement in (
        "CREATE DATABASE lake.made",
        "CREATE TABLE lake.made.x (a INT) USING paimon",
        "CREATE TABLE paimon.db.like LIKE lake.made.x",
        "ALTER TABLE lake.made.x RENAME TO made.y",
        "COMMENT ON COLUMN lake.made.y.a IS 'first'",
    ):
        execute_beside(session, statement)
    assert catalogs["lake"].list_tables("made") == ["y"]
    assert catalogs["lake"].table("made.y").row_type.fields[0].description == "first"
    assert catalogs["paimon"].table("db.like").row_type.names == ("a",)
    execute_beside(_session(catalogs, "lake.db"), "DROP TABLE made.y")
    execute_beside(session, "DROP DATABASE lake.made")
    execute_beside(session, "DROP TABLE paimon.db.like")
    assert catalogs["lake"].list_databases() == ["db"]
    assert not session.spark.texts  # type: ignore[attr-defined]


def test_scalar_functions_belong_to_a_catalog(catalogs: dict[str, Catalog]) -> None:
    query = "SELECT sys.max_pt('db.t')"
    assert with_scalars(_session(catalogs), query) == query
    for session, text in (
        (_session(catalogs), "SELECT lake.sys.max_pt('db.t')"),
        (_session(catalogs, "lake.db"), query),
    ):
        with pytest.raises(InvalidInputError, match="has no partition columns"):
            with_scalars(session, text)


def test_settings_are_for_tables_of_one_catalog(catalogs: dict[str, Catalog]) -> None:
    session = _session(catalogs, None, **{"spark.paimon.lake.*.*.scan.tag-name": "v1"})
    found = {s.catalog_name: s.options(TableName("db", "t")) for s in session.each()}
    assert found == {"lake": {"scan.tag-name": "v1"}, "paimon": {}}
