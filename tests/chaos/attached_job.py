"""Statements on tables of an attached catalog, of all kinds at once, until the driver is killed."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

import paimon_spark
from tests.chaos.stream_job import session_at

ROWS: Final = 40
KINDS: Final = ("query", "append", "keys", "overwrite", "create", "replace")


def main(home: str, life: int) -> None:
    """Run statements of each kind in a thread, and log each when it begins and when it has ended.

    The rows of a statement have its number as `n`, and `i` from 0 to `ROWS`.
    """
    spark = session_at(home)
    paimon_spark.attach(spark, f"{home}/wh", name="p")
    spark.sql("CREATE DATABASE IF NOT EXISTS p.db")
    columns = "(i INT, n INT, p INT)"
    spark.sql(f"CREATE TABLE IF NOT EXISTS p.db.append {columns}")
    spark.sql(f"CREATE TABLE IF NOT EXISTS p.db.overwrite {columns} PARTITIONED BY (p)")
    spark.sql(f"CREATE TABLE IF NOT EXISTS p.db.keys {columns} TBLPROPERTIES ('primary-key' = 'i', 'bucket' = '2')")
    acts = {kind: _act(spark, kind) for kind in KINDS}
    log = (Path(home) / "log").open("a", buffering=1)

    def work(kind: str) -> None:
        for n in count(life * 10_000):
            log.write(f"begin {kind} {n}\n")
            acts[kind](n)
            log.write(f"end {kind} {n}\n")

    threads = [threading.Thread(target=work, args=(kind,)) for kind in KINDS]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _act(spark: SparkSession, kind: str) -> Callable[[int], object]:
    rows = f"SELECT CAST(id AS INT) i, {{n}} n, CAST(id % 2 AS INT) p FROM range(0, {ROWS}, 1, 2)"

    def written(n: int) -> object:
        frame = spark.sql(rows.format(n=n))
        frame.writeTo(f"p.db.{kind}").append()
        return None

    statements = {
        "query": f"SELECT count(*), sum(a.n) FROM p.db.append a JOIN p.db.keys k ON a.i = k.i, range({ROWS})",
        "overwrite": f"INSERT OVERWRITE p.db.overwrite {rows}",
        "create": f"CREATE TABLE p.db.made_{{n}} AS {rows}",
        "replace": f"CREATE OR REPLACE TABLE p.db.replaced AS {rows}",
    }
    return written if kind not in statements else lambda n: spark.sql(statements[kind].format(n=n)).collect()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
