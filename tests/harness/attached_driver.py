"""A driver of its own whose session has an attached catalog: started again in one process, or interrupted by Ctrl-C."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import paimon_spark
from tests.chaos.stream_job import session_at

_SLOW = "SELECT CAST(sleeping(id) AS INT) id FROM range(0, 40, 1, 2)"


def restarted(home: str) -> None:
    """Attach in two applications, one after the other."""
    for application in (1, 2):
        spark = session_at(home)
        paimon_spark.attach(spark, f"{home}/wh")
        spark.sql("CREATE DATABASE IF NOT EXISTS paimon.db")
        spark.sql("CREATE TABLE IF NOT EXISTS paimon.db.t (id INT, v STRING)")
        spark.sql(f"INSERT INTO paimon.db.t VALUES ({application}, 'a')")
        new = spark.newSession()
        new.sql("USE paimon.db")
        new.createDataFrame([(application + 10, "b")], "id INT, v STRING").writeTo("t").append()
        assert len(_ids(new.table("t"))) == 2 * application

        def read(number: int, spark: SparkSession = spark, application: int = application) -> int:
            found = spark.sql(f"SELECT * FROM paimon.db.t a JOIN paimon.db.t b USING (id) WHERE id > {number % 2}")
            return len(_ids(found)) - 2 * application + (number % 2)

        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(read, range(8))) == [0] * 8
        stream = spark.readStream.table("paimon.db.t").writeStream.option("checkpointLocation", f"{home}/checkpoint")
        query = stream.foreachBatch(_copy).trigger(availableNow=True).start()
        assert query.awaitTermination(120)
        assert _ids(spark.table("paimon.db.copy")) == _ids(spark.table("paimon.db.t"))
        if application == 1:
            spark.stop()
    paimon_spark.detach(spark)
    print("held", flush=True)
    spark.stop()


def _copy(rows: DataFrame, _: int) -> None:
    rows.sparkSession.sql("CREATE TABLE IF NOT EXISTS paimon.db.copy (id INT, v STRING)")
    rows.writeTo("paimon.db.copy").append()


def interrupted(home: str) -> None:
    """Press Ctrl-C in the middle of a read and of writes: the session goes on."""
    spark = session_at(home)
    paimon_spark.attach(spark, f"{home}/wh")
    spark.udf.register("sleeping", _sleeping, "long")
    spark.sql("CREATE DATABASE paimon.db")
    spark.sql("CREATE TABLE paimon.db.t AS SELECT 1000 id")
    acts: dict[str, Callable[[], Any]] = {
        "read": lambda: spark.sql(f"SELECT * FROM ({_SLOW}) JOIN paimon.db.t USING (id)").collect(),
        "insert": lambda: spark.sql(f"INSERT INTO paimon.db.t {_SLOW}"),
        "append": lambda: spark.sql(_SLOW).writeTo("paimon.db.t").append(),
        "create": lambda: spark.sql(f"CREATE TABLE paimon.db.made AS {_SLOW}"),
    }
    for name, act in acts.items():
        timer = threading.Timer(2, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        try:
            act()
        except KeyboardInterrupt:
            print(f"interrupted {name}", flush=True)
        assert 1000 in _ids(spark.table("paimon.db.t"))
        spark.sql("INSERT INTO paimon.db.t VALUES (2000)")
        assert 2000 in _ids(spark.table("paimon.db.t"))
    whole = set(range(40))
    found = [i for i in _ids(spark.table("paimon.db.t")) if i < 1000]
    assert set(found) in (set(), whole) and len(found) % 40 == 0, found  # each write as a whole, or nothing
    print("held", flush=True)
    spark.stop()


def _sleeping(number: int) -> int:
    time.sleep(0.25)
    return number


def _ids(rows: DataFrame) -> list[int]:
    return sorted(row.id for row in rows.select("id").collect())


if __name__ == "__main__":
    {"restarted": restarted, "interrupted": interrupted}[sys.argv[1]](sys.argv[2])
