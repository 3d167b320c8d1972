"""The jobs of a pipeline as streaming queries of Spark."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.streaming.query import StreamingQuery

from tests.harness.pipelines import SOURCE_COLUMNS, Job, Pipeline


def rows_of(spark: SparkSession, pipeline: Pipeline, job: Job) -> DataFrame:
    """What a job writes: the union of its sources, each row with the snapshots that it comes from."""
    found: DataFrame | None = None
    for table in job.sources:
        read = spark.readStream.format("paimon").options(columns=SOURCE_COLUMNS, **job.read).load(pipeline.url(table))
        seen = F.col("_SEQUENCE_NUMBER")
        columns = (F.lit(table).alias("source"), seen.alias("seen"), F.coalesce("root", seen).alias("root"))
        part = read.select("id", *columns)
        found = part if found is None else found.unionAll(part)
    assert found is not None
    return found


def start(spark: SparkSession, pipeline: Pipeline, job: Job, *, once: bool) -> StreamingQuery:
    """Start a job.

    Args:
        spark: the session.
        pipeline, job: what is started.
        once: it ends when it has read what there is.
    """
    writer = rows_of(spark, pipeline, job).writeStream.format("paimon").queryName(job.name).options(**job.write)
    writer = writer.option("checkpointLocation", str(pipeline.checkpoint(job).root))
    return (writer.trigger(availableNow=True) if once else writer).start(pipeline.url(job.sink))


def run(spark: SparkSession, pipeline: Pipeline, job: Job) -> None:
    """Let a job read what there is."""
    query = start(spark, pipeline, job, once=True)
    try:
        assert query.awaitTermination(300), f"{job.name} does not end"
    finally:
        query.stop()
