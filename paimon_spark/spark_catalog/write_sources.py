"""Sources of the rows of a write, for lineage."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from paimon_spark.options.lineage import JOB, NO_SOURCES, UNKNOWN_SOURCES
from paimon_spark.spark_catalog.gateway import Gateway
from paimon_spark.spark_catalog.java_objects import python_object
from paimon_spark.spark_catalog.proxies import Proxy

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from paimon_spark.options.location import TableName
    from paimon_spark.sql.session import Session

_RELATION: Final = "DataSourceV2Relation"
_CONSTANTS: Final = ("LocalRelation", "OneRowRelation", "Range")


def lineage_options(
    gateway: Gateway, session: Session, name: TableName, options: Mapping[str, str], rows: DataFrame
) -> dict[str, str]:
    """Options of a write to a table which say that `rows` read no tables, or others than those of attached catalogs.

    None where lineage is not recorded, or where the user names the job, whose reads are known by that name.
    """
    if not session.catalog.lineage.is_enabled:
        return {}
    if JOB.key in {**session.catalog.options, **session.settings_of(name), **options}:
        return {}
    # Rows that are cached have been read by another job.
    leaves = rows._jdf.queryExecution().withCachedData().collectLeaves()
    found = [leaves.apply(i) for i in range(leaves.size())]
    kinds = {leaf.getClass().getSimpleName() for leaf in found}
    if kinds <= {*_CONSTANTS}:
        return {NO_SOURCES.key: "true"}
    tables = (leaf.table() for leaf in found if leaf.getClass().getSimpleName() == _RELATION)
    is_known = kinds <= {*_CONSTANTS, _RELATION} and all(
        isinstance(python_object(gateway, table), Proxy) for table in tables
    )
    return {} if is_known else {UNKNOWN_SOURCES.key: "true"}
