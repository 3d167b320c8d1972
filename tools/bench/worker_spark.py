"""A Spark session as a worker: this package and Spark's own, or the Java connector (`java JAR`).
With the argument `tuned`, under the settings of `paimon_spark.configure_session`.

The same protocol as worker_pypaimon. Requests: {"op": noop|sum|smallest|window,
"format": paimon|sql|parquet|range, "path", "columns"}, and {"op": "query", "tables": paths by name, "text"}. Other
queries than the last kind end in the noop sink or in one number, so that no result is shipped.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import worker_pypaimon
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as f
from worker_pypaimon import main


def session() -> SparkSession:
    builder = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.memory", "4g")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.driver.extraJavaOptions", "-Dlog4j2.level=error")
    )
    if "java" in sys.argv:
        builder = builder.config("spark.jars", sys.argv[sys.argv.index("java") + 1])
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    if "java" not in sys.argv:
        from bare_source import BareSource

        spark.dataSource.register(BareSource)
    if "tuned" in sys.argv:
        import paimon_spark

        paimon_spark.configure_session(spark)
    return spark


SPARK = session()


def source(request: dict[str, Any]) -> DataFrame:
    if request["format"] == "sql":
        return sql(request)
    if request["format"] == "range":
        return SPARK.range(10)
    reader = SPARK.read.format(request["format"])
    path = request["path"]
    if request["format"] == "parquet":
        frame = reader.option("recursiveFileLookup", "true").option("pathGlobFilter", "*.parquet").load(path)
        return frame.select(*request["columns"]) if request.get("columns") else frame
    if request.get("columns") and "java" not in sys.argv:
        reader = reader.option("columns", ",".join(request["columns"]))
    return reader.load(path)


def sql(request: dict[str, Any]) -> DataFrame:
    """The columns of a table of the database `bench`, by `catalog.sql`."""
    from paimon_spark import load_catalog

    warehouse, database, table = request["path"].rsplit("/", 2)
    catalog = load_catalog(warehouse)
    return catalog.sql(f"SELECT {', '.join(request['columns'])} FROM {database.removesuffix('.db')}.{table}")


CACHED: dict[str, DataFrame] = {}


def write(request: dict[str, Any]) -> dict[str, Any]:
    """Write rows that are in Spark's memory already to a new table, or to Parquet files with the same codec.

    The count is read back outside of the time.
    """
    from write_tables import FreshTable

    path = request["path"]
    if path not in CACHED:
        CACHED[path] = SPARK.read.parquet(path + "/rows.parquet").repartition(2).cache()
        CACHED[path].count()
    with FreshTable(path, request.get("keys", []), request.get("options", {})) as fresh:
        target = str(fresh.path) + ("/files" if request["format"] == "parquet" else "")
        start = time.perf_counter()
        writer = CACHED[path].write.format(request["format"]).mode("append")
        (writer.option("compression", "zstd") if request["format"] == "parquet" else writer).save(target)
        seconds = time.perf_counter() - start
        count = 0 if request["format"] == "bare" else SPARK.read.format(request["format"]).load(target).count()
    return {"seconds": seconds, "rows": count, "checksum": 0}


def run(request: dict[str, Any]) -> int:
    frame = source(request)
    match request["op"]:
        case "noop":
            frame.write.format("noop").mode("overwrite").save()
            return 0
        case "window":
            latest = Window.partitionBy("id").orderBy(f.col("_SEQUENCE_NUMBER").desc())
            merged = frame.withColumn("_rank", f.row_number().over(latest)).where("_rank = 1 and _VALUE_KIND in (0, 2)")
            merged.drop("_rank", "_SEQUENCE_NUMBER", "_VALUE_KIND").write.format("noop").mode("overwrite").save()
            return 0
        case "sum":
            return int(frame.agg(f.sum(request["columns"][0])).collect()[0][0])
        case "smallest":
            return len(frame.collect())
    raise ValueError(request["op"])


def query(request: dict[str, Any]) -> dict[str, Any]:
    """Run a query on tables, which are views here; the first time makes them, outside of the time."""
    for name, path in request["tables"].items():
        if path not in CACHED:
            CACHED[path] = SPARK.read.format("paimon").load(path)
            CACHED[path].createOrReplaceTempView(name)
    start = time.perf_counter()
    rows = SPARK.sql(request["text"]).collect()
    return {"seconds": time.perf_counter() - start, "rows": len(rows), "checksum": 0}


def handle(request: dict[str, Any]) -> dict[str, Any]:
    if request["op"] == "write":
        return write(request)
    if request["op"] == "query":
        return query(request)
    start = time.perf_counter()
    answer = run(request)
    return {"seconds": time.perf_counter() - start, "rows": 0, "checksum": answer % 2**64}


if __name__ == "__main__":
    worker_pypaimon.handle = handle
    main()
