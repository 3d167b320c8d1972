"""Columns as Spark's catalogs have them."""

from __future__ import annotations

from typing import Any

from paimon_spark.spark.schema import spark_schema
from paimon_spark.spark_catalog.gateway import CATALOG, Gateway
from paimon_spark.types import RowType


def java_columns(gateway: Gateway, row_type: RowType) -> Any:
    """Spark's `Column[]`, with comments and default values."""
    json = spark_schema(row_type).json()

    def make() -> Any:
        to_columns, struct = gateway.static(CATALOG + "CatalogV2Util", "structTypeToV2Columns"), gateway.struct(json)
        # Later releases of Spark take whether the columns keep their ids, too.
        return to_columns(struct, False) if gateway.has_column_ids else to_columns(struct)

    return gateway.kept("columns", json, make)
