"""A driver of its own whose session has an attached catalog: started again, interrupted, or called by a stranger."""

from __future__ import annotations

import os
import signal
import socket
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
        print("application", application, flush=True)
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


def called(home: str) -> None:
    """Call Python by the port of the JVM, as another user of the machine may."""
    spark = session_at(home)
    _stream_once(spark, home, "before")
    gateway: Any = spark.sparkContext._gateway
    open_to_all = gateway._callback_server.get_listening_port()
    paimon_spark.attach(spark, f"{home}/wh")
    spark.sql("CREATE DATABASE IF NOT EXISTS paimon.db")
    spark.sql("CREATE TABLE paimon.db.t (id INT)")
    server = gateway._callback_server
    port, token = server.get_listening_port(), server.callback_server_parameters.auth_token
    assert server.server_socket.getsockname()[0] == "127.0.0.1"
    # With PYSPARK_PIN_THREAD=false PySpark's own port has a token.
    assert port == open_to_all or not _is_open(open_to_all)
    known = next(k for k, v in gateway.gateway_property.pool.dict.items() if hasattr(v, "toString"))
    call = f"c\n{known}\ntoString\ne\n"
    assert "!ys" in _answer(port, f"A\n{token}\ne\n{call}")
    for first in ("", "A\n\ne\n", "A\nx\ne\n", f"A\n{token[:-1]}\ne\n", f"a\n{token}\ne\n", f"\n{token}\n", "g\nx\n"):
        assert "!ys" not in _answer(port, first + call), first
    spark.sql("INSERT INTO paimon.db.t VALUES (1)")
    _stream_once(spark, home, "after")
    assert _ids(spark.table("paimon.db.t")) == [1]
    collect: Any = gateway.jvm.java.lang.System.gc
    spark.stop()
    assert not _is_open(port)
    collect()  # Java's proxies of Python's objects have nobody to tell, and do not try
    print("held", flush=True)


def _stream_once(spark: SparkSession, home: str, name: str) -> None:
    counts = []
    spark.range(3).write.mode("overwrite").parquet(f"{home}/rows")
    stream = spark.readStream.schema("id LONG").parquet(f"{home}/rows").writeStream
    query = stream.foreachBatch(lambda rows, _: counts.append(rows.count())).option(
        "checkpointLocation", f"{home}/{name}"
    )
    assert query.trigger(availableNow=True).start().awaitTermination(120)
    assert counts == [3]


def _is_open(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 5).close()
    except ConnectionRefusedError:
        return False
    return True


def _answer(port: int, sent: str) -> str:
    """What the port answers before it closes, or falls silent."""
    found = b""
    with socket.create_connection(("127.0.0.1", port), 5) as stranger:
        stranger.settimeout(2)
        stranger.sendall(sent.encode())
        try:
            while part := stranger.recv(1000):
                found += part
        except OSError:
            pass
    return found.decode()


def _sleeping(number: int) -> int:
    time.sleep(0.25)
    return number


def _ids(rows: DataFrame) -> list[int]:
    return sorted(row.id for row in rows.select("id").collect())


if __name__ == "__main__":
    {"restarted": restarted, "interrupted": interrupted, "called": called}[sys.argv[1]](sys.argv[2])
