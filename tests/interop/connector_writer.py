"""Run by the interpreter of the Spark connector: writes tables with Java Paimon's SQL and says what SQL reads.

    python -m tests.interop.connector_writer JAR FOLDER   -> {name: {"path", "rows"} or {"error"}}

Columns are of types whose Python values are the row form already (numbers, text).
"""

from __future__ import annotations

import json
import sys
import traceback
from pathlib import Path
from typing import Any

# Statements per table. {t} is the table's name.
SCENARIOS: dict[str, list[str]] = {
    "append_rewritten": [
        "CREATE TABLE {t} (id INT, v STRING, n DOUBLE) TBLPROPERTIES ('bucket' = '-1')",
        "INSERT INTO {t} SELECT CAST(id AS INT), CONCAT('v', id), id / 2 FROM range(100)",
        "DELETE FROM {t} WHERE id % 7 = 0",
        "UPDATE {t} SET v = 'updated', n = NULL WHERE id BETWEEN 20 AND 30",
        "CALL sys.create_tag(table => 'db.{n}', tag => 'updated', snapshot => 3)",
        """MERGE INTO {t} USING
           (SELECT CAST(id AS INT) AS id, 'merged' AS v, CAST(0 AS DOUBLE) AS n FROM range(95, 110)) s ON {t}.id = s.id
           WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT *""",
    ],
    "append_vectors": [
        """CREATE TABLE {t} (id INT, p STRING, v STRING) PARTITIONED BY (p)
           TBLPROPERTIES ('bucket' = '-1', 'deletion-vectors.enabled' = 'true')""",
        "INSERT INTO {t} SELECT CAST(id AS INT), IF(id % 2 = 0, 'even', 'odd'), CONCAT('v', id) FROM range(200)",
        "DELETE FROM {t} WHERE id < 20 AND p = 'even'",
        "UPDATE {t} SET v = 'updated' WHERE id IN (1, 3, 50, 199)",
        "DELETE FROM {t} WHERE v = 'updated' AND id > 100",
        """MERGE INTO {t} USING
           (SELECT CAST(id AS INT) AS id, 'new' AS p, 'merged' AS v FROM range(195, 205)) s ON {t}.id = s.id
           WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *""",
        "CALL sys.compact(table => 'db.{n}')",
    ],
    "append_bucketed_overwritten": [
        """CREATE TABLE {t} (id INT, p INT, v STRING) PARTITIONED BY (p)
           TBLPROPERTIES ('bucket' = '3', 'bucket-key' = 'id')""",
        "INSERT INTO {t} SELECT CAST(id AS INT), CAST(id % 3 AS INT), CONCAT('v', id) FROM range(60)",
        "INSERT OVERWRITE {t} PARTITION (p = 1) VALUES (1000, 'static')",
        "ALTER TABLE {t} ADD COLUMN extra BIGINT",
        "INSERT INTO {t} (id, v, extra, p) VALUES (2000, 'evolved', 5, 2)",
    ],
    "pk_upserted": [
        """CREATE TABLE {t} (k INT, v STRING, n BIGINT)
           TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '2', 'file.format' = 'orc')""",
        "INSERT INTO {t} SELECT CAST(id AS INT), 'first', id FROM range(50)",
        "INSERT INTO {t} SELECT CAST(id AS INT), 'second', -id FROM range(25, 75)",
        "UPDATE {t} SET v = 'updated' WHERE k = 30",
        "DELETE FROM {t} WHERE k < 5",
        "CALL sys.create_tag(table => 'db.{n}', tag => 'deleted', snapshot => 4)",
        "CALL sys.create_branch(table => 'db.{n}', branch => 'dev', tag => 'deleted')",
        "INSERT INTO `paimon`.`db`.`{n}$branch_dev` VALUES (1, 'on the branch', 1)",
        "CALL sys.compact(table => 'db.{n}')",
        "INSERT INTO {t} VALUES (30, 'after', 1)",
    ],
    "pk_dynamic_vectors": [
        """CREATE TABLE {t} (k INT, p STRING, v STRING) PARTITIONED BY (p)
           TBLPROPERTIES ('primary-key' = 'k,p', 'bucket' = '-1', 'dynamic-bucket.target-row-num' = '20',
                          'deletion-vectors.enabled' = 'true')""",
        "INSERT INTO {t} SELECT CAST(id AS INT), IF(id % 2 = 0, 'a', 'b'), 'first' FROM range(80)",
        "INSERT INTO {t} SELECT CAST(id AS INT), IF(id % 2 = 0, 'a', 'b'), 'second' FROM range(0, 120, 3)",
        "DELETE FROM {t} WHERE k IN (3, 4, 5)",
    ],
}


def main(jar: str, folder: Path) -> dict[str, Any]:
    """Run every scenario in one session."""
    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.jars", jar)
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.extensions", "org.apache.paimon.spark.extensions.PaimonSparkSessionExtensions")
        .config("spark.sql.catalog.paimon", "org.apache.paimon.spark.SparkCatalog")
        .config("spark.sql.catalog.paimon.warehouse", str(folder))
        .config("spark.sql.warehouse.dir", str(folder / "spark"))
        .getOrCreate()
    )
    spark.sql("CREATE DATABASE paimon.db")
    spark.sql("USE paimon.db")
    result: dict[str, Any] = {}
    for name, statements in SCENARIOS.items():
        try:
            for statement in statements:
                spark.sql(statement.format(t=f"paimon.db.{name}", n=name))
            rows = [row.asDict() for row in spark.table(f"paimon.db.{name}").collect()]
            result[name] = {"path": str(folder / "db.db" / name), "rows": rows}
        except Exception as error:  # noqa: BLE001  # the test of this table says what the connector raised
            traceback.print_exc()
            result[name] = {"error": str(error)[:1000]}
    spark.stop()
    return result


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], Path(sys.argv[2]))))
