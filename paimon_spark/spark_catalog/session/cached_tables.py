"""Tables of attached catalogs that Spark has cached: `CACHE TABLE`, `df.cache()`.

Spark reads a cached table at the snapshot of the cached rows until one of its own writes, or REFRESH TABLE, has it read
again. Statements that are run without Spark's planner are writes, too.

Source: Spark `execution/CacheManager.scala`, `datasources/v2/V2TableRefreshUtil.scala`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from paimon_spark.errors import PaimonError
from paimon_spark.spark_catalog.jvm.gateway import Gateway
from paimon_spark.spark_catalog.jvm.java_objects import python_object
from paimon_spark.spark_catalog.table import TableProxy

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from paimon_spark.spark_catalog.catalog import CatalogProxy

_RELATION: Final = "DataSourceV2Relation"


def refresh_cached(gateway: Gateway, spark: SparkSession) -> None:
    """Let Spark read those cached tables again that have changed."""
    jsession = spark._jsparkSession
    cache = jsession.sharedState().cacheManager()
    if cache.isEmpty():
        return
    names = {(t.session.catalog_name, *_parts(r)) for _, r, t in _cached(gateway, cache) if _has_changed(t)}
    for parts in names:
        cache.recacheTableOrView(jsession, gateway.seq(parts), True)


def forget_cached(gateway: Gateway, spark: SparkSession, catalog: CatalogProxy) -> None:
    """Let Spark drop the cached rows of tables of a catalog."""
    jsession = spark._jsparkSession
    cache = jsession.sharedState().cacheManager()
    if cache.isEmpty():
        return
    for plan, relation, _ in list(_cached(gateway, cache)):
        found = relation.catalog()
        if found.isDefined() and python_object(gateway, found.get()) is catalog:
            cache.uncacheQuery(jsession, plan, True)


def _cached(gateway: Gateway, cache: Any) -> Iterator[tuple[Any, Any, TableProxy]]:
    """Cached plans, and each relation of our tables in them."""
    entries = gateway.private_field(cache, "cachedData").get(cache)
    for i in range(entries.size()):
        plan = entries.apply(i).plan()
        for part in (plan, *_items(plan.subqueriesAll())):
            for leaf in _items(part.collectLeaves()):
                if leaf.getClass().getSimpleName() == _RELATION:
                    table = python_object(gateway, leaf.table())
                    if isinstance(table, TableProxy) and leaf.identifier().isDefined():
                        yield plan, leaf, table


def _items(seq: Any) -> list[Any]:
    return [seq.apply(i) for i in range(seq.size())]


def _parts(relation: Any) -> tuple[str, ...]:
    ident = relation.identifier().get()
    return (*ident.namespace(), ident.name())


def _has_changed(table: TableProxy) -> bool:
    try:
        return table.has_changed()
    except PaimonError:
        return True  # reading it says what is wrong
