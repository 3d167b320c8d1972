"""Java Paimon's Spark connector writes by SQL, DELETE, UPDATE and MERGE included, and we read what Java reads."""

from __future__ import annotations

from typing import Any

import pytest

from tests.harness.rows import difference
from tests.interop.comparing import disagreement, version_options
from tests.interop.connector import Connector
from tests.interop.java_paimon import JavaPaimon

pytestmark = pytest.mark.interop

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
"""Statements per table, whose name {t} stands for. Columns are of types whose JSON is the row form already."""


@pytest.fixture(scope="module")
def written(connector: Connector, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Name of the scenario -> {"path", "rows"}, the rows being what SQL reads from the table, or {"error"}."""
    folder = tmp_path_factory.mktemp("connector")
    asked = [("", "CREATE DATABASE paimon.db"), ("", "USE paimon.db")]
    for name, statements in SCENARIOS.items():
        asked += [(name, text.format(t=f"paimon.db.{name}", n=name)) for text in statements]
        asked.append((name, f"SELECT * FROM paimon.db.{name}"))
    found: dict[str, Any] = {}
    for (name, _), answer in zip(
        asked, connector.answers({"paimon": folder}, [text for _, text in asked]), strict=True
    ):
        if "error" in answer or "error" in found.get(name, {}):
            found.setdefault(name, {}).setdefault("error", answer.get("error"))
            continue
        names = [column for column, _, _ in answer["columns"]]
        rows = [dict(zip(names, row, strict=True)) for row in answer["rows"]]
        found[name] = {"path": str(folder / "db.db" / name), "rows": rows}
    return found


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_version_reads_as_java_reads_it(name: str, written: dict[str, Any], java: JavaPaimon) -> None:
    table = written[name]
    assert "error" not in table, table["error"]
    versions = java.call("versions", path=table["path"])["versions"]
    # Two releases of Java agree on the head, so that a mistake of this test's own does not pass for one of ours.
    assert difference(table["rows"], versions["latest"]["rows"]) is None
    problems = []
    for label, theirs in versions.items():
        assert "error" not in theirs, f"{label}: {theirs['error']}"
        found = disagreement(table["path"], theirs, options=version_options(label))
        if found is not None:
            problems.append(f"{label}: {found}")
    assert not problems, "\n\n".join([table["path"], *problems])
