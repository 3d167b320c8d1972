"""Statements of Iceberg and Delta Lake say what to write here, in sessions without Spark."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import paimon_spark
from paimon_spark.api.catalog import Catalog
from paimon_spark.errors import PaimonError
from paimon_spark.foreign.options import documented_options, documented_properties
from paimon_spark.foreign.procedures import PROCEDURES, documented_procedures
from paimon_spark.foreign.statements import METADATA_TABLES, documented_statements, documented_tables
from paimon_spark.operations import PROCEDURES as OURS
from paimon_spark.sql.execute import execute_beside, parse, run_statement
from paimon_spark.sql.functions import refuse_foreign
from paimon_spark.sql.names import resolve_name
from paimon_spark.sql.routing import may_lack_catalog, refuse_unknown_catalog, run_routed
from paimon_spark.sql.run import run_query
from paimon_spark.sql.session import CurrentNames, Session
from paimon_spark.sql.statement import Outcome
from paimon_spark.system_tables.registry import NAMES
from tests.harness.foreign import IN_CURRENT, MISSPELT, statements

_PAGE = Path(__file__).resolve().parents[3] / "docs" / "tasks" / "from-iceberg-and-delta.md"
_CONF = {"spark.sql.session.timeZone": "UTC", "spark.sql.catalog.ice": "org.Ice"}


class NoSpark:
    """A session that runs nothing, and has no temporary views."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.catalog = SimpleNamespace(listTables=lambda **_: [])
        self.conf = SimpleNamespace(getAll={}, get=lambda key, default=None: default)

    def sql(self, text: str, args: Any = None, **frames: Any) -> Any:
        self.texts.append(text)


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    found = paimon_spark.load_catalog(str(tmp_path_factory.mktemp("warehouse")))
    found.create_database("db")
    found.create_table("db.t", "a INT, b INT")
    return found


def _alone(catalog: Catalog, sql: str) -> None:
    """As `catalog.sql`."""
    spark: Any = NoSpark()
    session = Session(catalog, spark, None, _CONF, current=("paimon", "db"), is_of_catalog=True)
    if run_statement(session, parse(sql)) is Outcome.RUN_BY_SPARK:
        run_query(session, sql)


def _attached(catalog: Catalog, sql: str) -> None:
    """As `spark.sql` of a classic session, whose parser has refused the statement, or that reads a table."""
    spark: Any = NoSpark()
    session = Session.attached(catalog, spark, "paimon", ("paimon", "db"), _CONF)
    refuse_foreign(lambda: [session], sql)
    if sql.startswith("SELECT"):
        name = resolve_name(session, tuple(sql.split()[3].split(".")))
        assert name is not None
        catalog.table(name.text)
    run_routed([session], sql, is_unknown=True)


def _beside(catalog: Catalog, sql: str) -> None:
    """As `spark.sql` of Spark Connect."""
    spark: Any = NoSpark()
    execute_beside(Session.beside({"paimon": catalog}, spark, CurrentNames(("paimon", "db")), _CONF), sql)


DOORS: dict[str, Callable[[Catalog, str], None]] = {"alone": _alone, "attached": _attached, "beside": _beside}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("case", range(len(statements("", "paimon", is_plain=False))))
def test_what_is_written_elsewhere_is_named_here(catalog: Catalog, door: str, case: int) -> None:
    for prefix in ("paimon.", ""):
        sql, said = statements(prefix, "paimon", is_plain=door != "alone")[case]
        with pytest.raises(PaimonError) as found:
            DOORS[door](catalog, sql)
        assert said in str(found.value)
        assert "\n" not in str(found.value)


@pytest.mark.parametrize("door", ["alone", "beside"])
@pytest.mark.parametrize(("sql", "said"), IN_CURRENT)
def test_metadata_tables_of_the_current_database_are_named(catalog: Catalog, door: str, sql: str, said: str) -> None:
    with pytest.raises(PaimonError) as found:
        DOORS[door](catalog, sql)
    assert said in str(found.value)


@pytest.mark.parametrize("sql", [sql for sql in MISSPELT if not sql.startswith("CREATE")])
def test_a_catalog_that_is_not_there_is_named_with_the_nearest(catalog: Catalog, sql: str) -> None:
    said = (
        "there is no catalog 'paimn' for paimn.*; did you mean 'paimon'.* The catalogs are ice, paimon, spark_catalog"
    )
    with pytest.raises(PaimonError, match=said):
        _beside(catalog, sql.format(c="paimn"))


def test_names_of_three_parts_that_mean_something_are_sparks(catalog: Catalog) -> None:
    spark: Any = NoSpark()
    sessions = [Session.attached(catalog, spark, "paimon", ("paimon", "db"), _CONF)]
    for parts in (["paimn", "db", "t"], ["lake", "db", "t"]):
        with pytest.raises(PaimonError, match=f"there is no catalog '{parts[0]}'"):
            refuse_unknown_catalog(sessions, parts)
    for parts in (
        ["ice", "db", "t"],
        ["ICE", "a", "b", "t"],
        ["db", "t", "files"],
        ["paimn", "t"],
        ["system", "x", "y"],
    ):
        refuse_unknown_catalog(sessions, parts)
    elsewhere = [Session.attached(catalog, spark, "paimon", ("ice", "db"), _CONF)]
    refuse_unknown_catalog(elsewhere, ["paimn", "db", "t"])  # catalogs of others have databases in databases


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT * FROM paimn.db.t", {"paimn"}),
        ("SELECT * FROM `pai mn` . db . `t`", {"pai mn"}),
        ("SELECT a.b FROM paimon.db.t", set()),
        ("SELECT * FROM PAIMON.db.t JOIN x.y", set()),
        ("SELECT * FROM paimon.db.t.branch_x", set()),
    ],
)
def test_only_statements_with_other_long_names_are_looked_at(sql: str, expected: set[str]) -> None:
    assert may_lack_catalog(sql, ["paimon"]) == expected


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM table_changes('elsewhere.t', 1, 2)",
        "CALL ice.system.rollback_to_snapshot('db.t', 1)",
        "SELECT 'table_changes(' FROM ice.db.t",
    ],
)
def test_what_is_of_other_catalogs_is_sparks(catalog: Catalog, sql: str) -> None:
    spark: Any = NoSpark()
    used = CurrentNames(None)
    execute_beside(Session.beside({"paimon": catalog}, spark, used, _CONF), sql)
    assert spark.texts == [sql]


def test_metadata_tables_have_names_of_their_own() -> None:
    assert {ours for each in METADATA_TABLES.values() for ours in each} <= set(NAMES)
    assert METADATA_TABLES.keys().isdisjoint(NAMES)


def test_procedures_are_called_by_parameters_that_they_have() -> None:
    for name, procedure in PROCEDURES.items():
        assert set(procedure.arguments) <= set(procedure.parameters), name
        assert set(procedure.shown) <= set(procedure.parameters), name
        if procedure.name:
            known = {p.name for form in OURS[procedure.name] for p in form.parameters}
            assert set(procedure.arguments.values()) <= known, name


def test_the_page_has_all_equivalents() -> None:
    page = _PAGE.read_text(encoding="utf-8")
    listed = (
        *documented_statements(), *documented_procedures(), *documented_tables(),
        *documented_options(), *documented_properties(),
    )  # fmt: skip
    missing = [row for row in (f"| {theirs} | {ours} |" for theirs, ours in listed) if row not in page]
    assert not missing
