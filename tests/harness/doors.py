"""The doors of SQL statements: plain `spark.sql` with an attached catalog, and `catalog.sql`, classic and in Connect.

Tests of statements take the fixture `door`, open their warehouses by it, and run everything by `catalog.sql`. Behind
plain `spark.sql` the attached catalog and its current database are the session's. Through Spark Connect the fixture
`spark` is a session of a server in another process; `connect_limits.py` lists the tests that do not go through it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

import pytest
from pyspark.errors import (
    AnalysisException,
    IllegalArgumentException,
    ParseException,
    PySparkException,
    UnsupportedOperationException,
)
from pyspark.sql import DataFrame, SparkSession

import paimon_spark
from paimon_spark.api.catalog import Catalog
from paimon_spark.errors import (
    ColumnNotFoundError,
    DatabaseAlreadyExistsError,
    DatabaseNotFoundError,
    PaimonError,
    SqlSyntaxError,
    TableAlreadyExistsError,
    TableNotFoundError,
    UnsupportedFeatureError,
    WarehouseNotFoundError,
)

NAME: Final = "paimon"
_SPARK: Final = "spark_catalog"
_CURRENT: Final = "spark.paimon-spark.current-database"
CONNECT_MODE: Final = "SPARK_CONNECT_MODE_ENABLED"
"""Environment variable by which PySpark makes objects of Connect where it makes classic ones else."""
_NO_TABLE: Final = ("TABLE_OR_VIEW_NOT_FOUND", "SCHEMA_NOT_FOUND")
CONDITIONS: Final[Mapping[type[PaimonError], tuple[str, ...]]] = {
    TableNotFoundError: _NO_TABLE,
    DatabaseNotFoundError: _NO_TABLE,
    WarehouseNotFoundError: _NO_TABLE,
    TableAlreadyExistsError: ("TABLE_OR_VIEW_ALREADY_EXISTS",),
    DatabaseAlreadyExistsError: ("SCHEMA_ALREADY_EXISTS",),
    ColumnNotFoundError: ("UNRESOLVED_COLUMN.WITH_SUGGESTION",),
    SqlSyntaxError: ("PARSE_SYNTAX_ERROR",),
}
"""Spark's conditions that mean the same as our errors, in Spark's words."""
_NOT_FOR_USERS: Final = re.compile(r"Traceback|py4j|Py4J|\bat org\.apache|\.py\"|CALLBACK|JVM stacktrace|CALL sys\\.")


class DoorName(Enum):
    """By what statements are run."""

    CATALOG = "catalog.sql"
    PLAIN = "spark.sql"
    CONNECT = "catalog.sql in Spark Connect"


@dataclass(frozen=True)
class Door:
    """How the statements of a test are run."""

    name: DoorName
    spark: SparkSession

    @property
    def is_plain(self) -> bool:
        """Whether statements go through `spark.sql`."""
        return self.name is DoorName.PLAIN

    @property
    def is_connect(self) -> bool:
        """Whether statements go through a session of Spark Connect."""
        return self.name is DoorName.CONNECT

    def load_catalog(self, warehouse: str, **options: Any) -> Catalog:
        """As `paimon_spark.load_catalog`, with this door."""
        found = paimon_spark.load_catalog(warehouse, **options)
        return self.through(found)

    def through(self, catalog: Catalog) -> Catalog:
        """The catalog with this door."""
        if not self.is_plain:
            return catalog
        made = PlainCatalog(catalog.warehouse, catalog.options)
        made.state["spark"] = self.spark
        return made

    def close(self) -> None:
        """Detach what was attached."""
        if self.is_connect:
            return
        if NAME in attached(self.spark):
            paimon_spark.detach(self.spark, NAME)
        self.spark.catalog.setCurrentCatalog(_SPARK)


def run_through_doors(metafunc: pytest.Metafunc) -> None:
    """Run a test that takes the fixture `door` through its doors.

    Each goes through plain `spark.sql` and, with the slow tests unless marked `connect_door`, through Spark Connect.
    Where `catalog.sql` of classic sessions has code of its own, the suite or test is marked `catalog_door`, to go
    through it with the slow tests, or `both_doors`, to go through it always.
    """
    if "door" not in metafunc.fixturenames:
        return

    def has(mark: str) -> bool:
        return metafunc.definition.get_closest_marker(mark) is not None

    doors = [_through(DoorName.PLAIN, "plain")]
    if has("catalog_door") or has("both_doors"):
        doors.insert(0, _through(DoorName.CATALOG, "catalog", *([] if has("both_doors") else [pytest.mark.slow])))
    slow = [] if has("connect_door") else [pytest.mark.slow]
    doors.append(_through(DoorName.CONNECT, "connect", pytest.mark.connect, *slow))
    metafunc.parametrize(("spark", "door"), doors, indirect=True, scope="module")


def run_through_classic_doors(metafunc: pytest.Metafunc) -> None:
    """Run a test that takes the fixture `door` through `catalog.sql` and `spark.sql` of a classic session."""
    if "door" in metafunc.fixturenames:
        doors = [pytest.param(DoorName.CATALOG, id="catalog"), pytest.param(DoorName.PLAIN, id="plain")]
        metafunc.parametrize("door", doors, indirect=True, scope="module")


def _through(name: DoorName, test: str, *marks: pytest.MarkDecorator) -> Any:
    """The parameters of the fixtures `spark` and `door`."""
    return pytest.param(name, name, id=test, marks=marks)


@pytest.fixture(scope="session")
def spark(request: pytest.FixtureRequest) -> SparkSession:
    """The session of a test: the classic one, or that of Spark Connect where the test goes through that door."""
    name = "connect_session" if getattr(request, "param", None) is DoorName.CONNECT else "classic_session"
    found: SparkSession = request.getfixturevalue(name)
    return found


@pytest.fixture(scope="module")
def door(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[Door]:
    """By what the statements of a test are run."""
    made = Door(request.param, spark)
    if not made.is_connect:
        yield made
        made.close()
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(CONNECT_MODE, "1")
        yield made


def attached(spark: SparkSession) -> set[str]:
    """Names of the attached catalogs, by their settings."""
    key = f"spark.sql.catalog.{NAME}"
    return {NAME} if spark.conf.get(key, None) is not None else set()


class PlainCatalog(Catalog):
    """A catalog whose statements are run by `spark.sql`, attached as `paimon`."""

    state: dict[str, Any]

    def __init__(self, warehouse: str, options: Mapping[str, str], name: str = NAME) -> None:
        super().__init__(warehouse, options, name)
        object.__setattr__(self, "state", {"database": "default"})

    def __reduce__(self) -> Any:
        return Catalog, (self.warehouse, self.options)

    def sql(
        self,
        statement: str,
        *,
        args: Mapping[str, Any] | Sequence[Any] | None = None,
        session: SparkSession | None = None,
    ) -> DataFrame:
        """The statement by `spark.sql`; what it makes current is current again for the next one."""
        with self.in_force() as spark:
            return spark.sql(statement, args=args)  # type: ignore[arg-type]

    @contextmanager
    def in_force(self) -> Iterator[SparkSession]:
        """The session with the current catalog and database of the statements; afterwards Spark's own are current."""
        spark = self.state["spark"]
        self._attach(spark)
        spark.catalog.setCurrentCatalog(self.state.get("catalog", NAME))
        spark.catalog.setCurrentDatabase(self.state["database"])
        try:
            yield spark
        finally:
            self.state["catalog"] = spark.catalog.currentCatalog()
            self.state["database"] = spark.catalog.currentDatabase()
            spark.catalog.setCurrentCatalog(_SPARK)

    def _attach(self, spark: SparkSession) -> None:
        if spark.conf.get("tests.attached", "") != repr((self.warehouse, dict(self.options))) or not attached(spark):
            paimon_spark.attach(spark, self.warehouse, name=NAME, **self.options)
            spark.conf.set("tests.attached", repr((self.warehouse, dict(self.options))))


@contextmanager
def using(catalog: Catalog, spark: SparkSession, database: str) -> Iterator[None]:
    """Let names without a database be of this one."""
    if isinstance(catalog, PlainCatalog):
        catalog.state["database"] = database
    else:
        spark.conf.set(_CURRENT, database)
    try:
        yield
    finally:
        if isinstance(catalog, PlainCatalog):
            catalog.state["database"] = "default"
        else:
            spark.conf.unset(_CURRENT)


def rows(
    catalog: Catalog, statement: str, args: Mapping[str, Any] | Sequence[Any] | None = None
) -> list[tuple[Any, ...]]:
    """The rows of a statement, sorted."""
    return sorted(tuple(row) for row in catalog.sql(statement, args=args).collect())


def collected(catalog: Catalog, frame: DataFrame) -> list[tuple[Any, ...]]:
    """The rows of a query about what is current, which Spark looks up when the query runs."""
    if not isinstance(catalog, PlainCatalog):
        return [tuple(row) for row in frame.collect()]
    with catalog.in_force():
        return [tuple(row) for row in frame.collect()]


@contextmanager
def refused(
    catalog: Catalog, kind: type[Exception] | tuple[type[Exception], ...], match: str = "", *, plain: str | None = None
) -> Iterator[pytest.ExceptionInfo[Any]]:
    """Check that a statement of a catalog raises an error of our class whose text matches.

    Behind `spark.sql` it is Spark's condition of the same meaning (`CONDITIONS`), in Spark's words, else our text in
    one line as an error of Spark's for wrong arguments or unsupported operations. `plain` is Spark's condition where
    Spark finds the error before it asks the catalog.
    """
    if not isinstance(catalog, PlainCatalog):
        with pytest.raises(kind, match=match or None) as caught:
            yield caught
        return
    with pytest.raises(PySparkException) as caught:
        yield caught
    check_plain_error(caught.value, kind, match, plain)


def check_plain_error(
    error: PySparkException, kind: type[Exception] | tuple[type[Exception], ...], match: str, plain: str | None
) -> None:
    """Check an error of plain `spark.sql` against ours."""
    text, condition = str(error).strip(), error.getCondition()
    assert _NOT_FOR_USERS.search(text) is None, text
    text = text.replace(f"CALL {NAME}.sys.", "CALL sys.")
    if plain is not None:
        assert condition == plain, f"{condition}: {text}"
        assert isinstance(error, AnalysisException)
        return
    kinds = kind if isinstance(kind, tuple) else (kind,)
    if condition is not None and any(condition in found for k, found in CONDITIONS.items() if k in kinds):
        assert isinstance(error, AnalysisException)
        return
    assert re.search(match, text), text
    if any(issubclass(k, AnalysisException) for k in kinds):
        assert isinstance(error, AnalysisException)
        return
    assert "\n" not in text, text
    if any(issubclass(k, SqlSyntaxError) for k in kinds):
        assert isinstance(error, ParseException), type(error)
    elif any(issubclass(k, UnsupportedFeatureError) for k in kinds):
        assert isinstance(error, UnsupportedOperationException), type(error)
    else:
        assert isinstance(error, IllegalArgumentException), type(error)
