"""Settings of a Spark session under which this source reads and writes fastest."""

from __future__ import annotations

from typing import Final

from pyspark.sql import SparkSession

from paimon_spark.spark.register import find_sources_here

SETTINGS: Final = {
    # With a lower limit the JVM adds up the Arrow buffers after every single row, which costs more than all the rest
    # of a write. Batches keep to 10,000 rows (spark.sql.execution.arrow.maxRecordsPerBatch).
    "spark.sql.execution.arrow.maxBytesPerBatch": "2147483647",
}


def configure_session(spark: SparkSession) -> dict[str, str]:
    """Set what makes `format("paimon")` fastest in `spark`, classic or Connect; return what was set, by key.

    No answer changes by it. One thing is set:

    - `spark.sql.execution.arrow.maxBytesPerBatch = 2147483647`: writes take about half the time. Spark then bounds
      the batches it hands to Python by rows alone (10,000), so leave it at Spark's default, or lower
      `spark.sql.execution.arrow.maxRecordsPerBatch`, when single rows are very large (100 KB and more).

    Filters of queries are not among it: with `spark.sql.python.filterPushdown.enabled` Spark gives a DataFrame that is
    used twice the rows of its first filter, so this source takes no filters from Spark. To skip partitions, buckets and
    files say `option("where", "dt = '2024-01-01'")`, or query by `catalog.sql`, which does so by itself.

    Call it in every thread that writes or starts queries: elsewhere than in the thread that made a classic session,
    `df.write` and `df.writeStream` find no data source in Python (DATA_SOURCE_NOT_FOUND) without it.
    """
    find_sources_here(spark)
    for key, value in SETTINGS.items():
        spark.conf.set(key, value)
    return dict(SETTINGS)
