"""The state of a shared Spark session that a test may change: what it was, and how to bring it back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import paimon_spark
from paimon_spark.spark.session import SEPARATOR, entries_of

_CATALOG: Final = "spark.sql.catalog."


@dataclass(frozen=True)
class SessionState:
    """Settings (among them the attached catalogs), temporary views, and what is current."""

    settings: dict[str, str]
    views: frozenset[str]
    current: tuple[str, str] | None
    """Catalog and database; None where the catalog is gone."""

    @property
    def catalogs(self) -> set[str]:
        """The names of the attached catalogs."""
        names = {key.removeprefix(_CATALOG) for key in self.settings if key.startswith(_CATALOG)}
        return {name for name in names if "." not in name and name != "spark_catalog"}


class SharedSession:
    """A session that tests share. Keeps the objects of the JVM that it asks, as each question takes a call."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        session: Any = spark._jsparkSession
        self._conf = session.conf()
        self._views = session.sessionState().catalog()
        self._catalog = session.catalog()
        self._queries = session.sharedState().activeStreamingQueries()

    def state(self) -> SessionState:
        """What it is now."""
        views = self._views.getTempViewNames().mkString(SEPARATOR)
        return SessionState(
            entries_of(self._conf.getAll().mkString(SEPARATOR)),
            frozenset(views.split(SEPARATOR)) - {""},
            self._current(),
        )

    def _current(self) -> tuple[str, str] | None:
        try:
            return self._catalog.currentCatalog(), self._catalog.currentDatabase()
        except (Py4JError, PySparkException):
            return None

    def stop_queries(self) -> list[str]:
        """Stop the streaming queries of all sessions; the names or ids of those that ran."""
        if not self._queries.size():
            return []
        running = list(self._queries.values())
        for query in running:
            query.stop()
        return sorted(query.name() or str(query.id()) for query in running)

    def restore(self, before: SessionState) -> None:
        """Undo what differs from `before`."""
        now = self.state()
        if now == before:
            return
        for view in now.views - before.views:
            self._spark.catalog.dropTempView(view)
        if before.current is not None and now.current != before.current:
            self._spark.catalog.setCurrentCatalog(before.current[0])
            self._spark.catalog.setCurrentDatabase(before.current[1])
        for catalog in now.catalogs - before.catalogs:
            paimon_spark.detach(self._spark, catalog)
        after = self.state().settings
        for key in after.keys() - before.settings.keys():
            self._conf.unset(key)
        for key, value in before.settings.items():
            if after.get(key) != value:
                self._conf.set(key, value)


class ConnectSession:
    """A session of Spark Connect that tests share."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def state(self) -> SessionState:
        """What it is now."""
        catalog = self._spark.catalog
        views = frozenset(t.name for t in catalog.listTables() if t.isTemporary)
        return SessionState(dict(self._spark.conf.getAll), views, (catalog.currentCatalog(), catalog.currentDatabase()))

    def stop_queries(self) -> list[str]:
        """Stop the streaming queries; the names or ids of those that ran."""
        running = self._spark.streams.active
        for query in running:
            query.stop()
        return sorted(query.name or str(query.id) for query in running)

    def restore(self, before: SessionState) -> None:
        """Undo what differs from `before`."""
        now = self.state()
        for view in now.views - before.views:
            self._spark.catalog.dropTempView(view)
        for key in now.settings.keys() - before.settings.keys():
            self._spark.conf.unset(key)
        for key, value in before.settings.items():
            if now.settings.get(key) != value:
                self._spark.conf.set(key, value)
        assert now.current == before.current, f"the test left {now.current} the current database"
