"""Spark sessions that Python refers to without keeping them alive."""

from __future__ import annotations

from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql.catalog import Catalog
from pyspark.sql.conf import RuntimeConfig

from paimon_spark.spark_catalog.gateway import Gateway


class WeakSession(SparkSession):
    """A classic session as attached catalogs know it.

    The JVM's session refers to its catalogs, which are Python objects. If these referred to the session in turn,
    neither the JVM nor Python could ever see that nobody else does, and each streaming query, which has a session of
    its own, would leave one behind.
    """

    def __init__(self, gateway: Gateway, context: SparkContext, jsession: Any) -> None:
        self._weakly = gateway.cls("java.lang.ref.WeakReference")
        super().__init__(context, jsession)

    @property
    def _jsparkSession(self) -> Any:
        found = self._reference.get()
        if found is None:
            raise ReferenceError("the Spark session no longer exists")
        return found

    @_jsparkSession.setter
    def _jsparkSession(self, jsession: Any) -> None:
        self._reference: Any = self._weakly(jsession)

    @property
    def conf(self) -> RuntimeConfig:
        """The settings."""
        return RuntimeConfig(self._jsparkSession.conf())

    @property
    def catalog(self) -> Catalog:
        """Spark's functions on its catalogs."""
        return Catalog(self)

    def createDataFrame(self, *args: Any, **kwargs: Any) -> Any:
        """A DataFrame of rows."""
        # PySpark makes the session the active one of the whole process, which outlives this one.
        before = SparkSession._activeSession
        try:
            return SparkSession(self._sc, self._jsparkSession).createDataFrame(*args, **kwargs)
        finally:
            SparkSession._activeSession = before
