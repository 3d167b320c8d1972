"""`spark.sql` in a session of Spark Connect with attached catalogs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.connect.sql_formatter import SQLStringFormatter

from paimon_spark.spark_catalog.connect.attached import AttachedCatalogs
from paimon_spark.sql.execute import execute_beside
from paimon_spark.sql.queries.errors import unknown_catalog_error


def sql(
    attached: AttachedCatalogs,
    spark_call: Callable[..., DataFrame],
    spark: SparkSession,
    sqlQuery: str,  # noqa: N803 - Spark's name
    args: Mapping[str, Any] | list[Any] | None = None,
    **kwargs: Any,
) -> DataFrame:
    """Run a statement, on tables of attached catalogs and of Spark."""
    if not isinstance(args, dict | list | None) or not attached.may_name(sqlQuery):
        try:
            return spark_call(sqlQuery, args, **kwargs)
        except PySparkException as e:
            error = unknown_catalog_error(attached.session(spark), e)
            if error is None:
                raise
            raise error from None
    text, given = _formatted(spark, sqlQuery, kwargs)
    return execute_beside(replace(attached.session(spark), args=args or None, given=given), text)


def _formatted(spark: SparkSession, text: str, values: Mapping[str, Any]) -> tuple[str, Mapping[str, DataFrame]]:
    """The text with values in place of `{name}` as Spark puts them there; DataFrames get names."""
    if not values:
        return text, {}
    # Private to Spark, which has no other way to format values as it does.
    formatter = SQLStringFormatter(spark)  # type: ignore[arg-type]
    formatted = formatter.format(text, **values)
    return formatted, {name: frame for frame, name in formatter._temp_views}
