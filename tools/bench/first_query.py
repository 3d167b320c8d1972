"""The first query of a Spark session: `python first_query.py attached|parquet TABLE COLUMN` prints seconds as JSON.

What is measured begins with a session that is ready, and ends with the sum of a column: for an attached catalog it has
`attach` in it, and whatever Spark does once.
"""

from __future__ import annotations

import json
import sys
import time

from worker_spark import SPARK


def main() -> None:
    kind, path, column = sys.argv[1:]
    start = time.perf_counter()
    if kind == "attached":
        import paimon_spark

        warehouse, database, table = path.rsplit("/", 2)
        paimon_spark.attach(SPARK, warehouse)
        source = f"paimon.{database.removesuffix('.db')}.{table}"
    else:
        source = f"parquet.`{path}/bucket-0`"
    found = SPARK.sql(f"SELECT sum({column}) FROM {source}").collect()[0][0]
    print(json.dumps({"seconds": time.perf_counter() - start, "rows": 1, "checksum": found % 2**64}), flush=True)


if __name__ == "__main__":
    main()
