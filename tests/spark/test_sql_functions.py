"""Table functions and views of plain `spark.sql`."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import SparkSession

import paimon_spark

pytestmark = pytest.mark.spark

ROW = (
    "SELECT {0} id, 'p{0}' p, TIMESTAMP '2024-01-0{0} 10:00:00' ts, CAST(1.5 AS DECIMAL(10, 2)) de, array(1, NULL) a, "
    "struct(map('k', CAST(NULL AS INT)) AS m) st"
)


@pytest.mark.quick
def test_plain_sql_reads_versions_by_functions_and_views(spark: SparkSession, tmp_path: Path) -> None:
    catalog = paimon_spark.load_catalog(warehouse=str(tmp_path))
    catalog.create_database("default")
    columns = "id INT, p STRING, ts TIMESTAMP, de DECIMAL(10, 2), a ARRAY<INT>, st STRUCT<m: MAP<STRING, INT>>"
    table = catalog.create_table("default.t", columns, partition_keys=["p"])
    for i in (1, 2):
        table.write(spark.sql(ROW.format(i)))
    table.create_tag("v1", snapshot_id=1)
    table.create_branch("fix", tag="v1")
    catalog.create_table("default.empty", "k INT")
    assert catalog.register_functions(spark, prefix="w_") == [
        "w_paimon_table",
        "w_paimon_table_diff",
        "w_paimon_incremental_query",
        "w_paimon_incremental_between_timestamp",
        "w_paimon_incremental_to_auto_tag",
    ]
    first = spark.sql("SELECT * FROM w_paimon_table('t', 'v1')").collect()
    assert [tuple(r) for r in first] == [
        (1, "p1", datetime(2024, 1, 1, 10), Decimal("1.50"), [1, None], ({"k": None},))
    ]

    def ids(query: str) -> list[int]:
        return sorted(row[0] for row in spark.sql(query).collect())

    assert ids("SELECT id FROM w_paimon_table('default.t')") == [1, 2]
    assert ids("SELECT id FROM w_paimon_table('paimon.default.t', version => 'fix')") == [1]
    assert ids("SELECT id FROM w_paimon_table('`t$branch_fix`')") == [1]
    assert ids("SELECT k FROM w_paimon_table('empty')") == []
    assert ids("SELECT snapshot_id FROM w_paimon_table('t$tags') WHERE tag_name = 'v1'") == [1]
    assert ids(
        "SELECT c.id FROM w_paimon_table('t') t JOIN w_paimon_incremental_query('t', 'v1', 2) c ON c.id = t.id"
    ) == [2]
    assert ids("SELECT id FROM w_paimon_incremental_between_timestamp('t', '2000-01-01 00:00:00', '2999-01-01')") == [
        1,
        2,
    ]
    table.create_tag("2024-01-01", snapshot_id=1)
    table.create_tag("2024-01-03")
    for tag, expected in (("2024-01-01", []), ("2024-01-02", []), ("2024-01-03", [2])):
        assert ids(f"SELECT id FROM w_paimon_incremental_to_auto_tag('t', '{tag}')") == expected
        reader = spark.read.format("paimon").option("incremental-to-auto-tag", tag)
        assert [row.id for row in reader.load(str(tmp_path / "default.db/t")).collect()] == expected
        said = catalog.sql(f"SELECT id FROM paimon_incremental_to_auto_tag('default.t', '{tag}')")
        assert [row.id for row in said.collect()] == expected
    with pytest.raises(AnalysisException, match="has no table 'u'"):
        spark.sql("SELECT * FROM w_paimon_table('u')")
    with pytest.raises(AnalysisException, match="constants"):
        spark.sql("SELECT * FROM VALUES ('t') AS x(n), LATERAL w_paimon_table(n)")

    table.at("v1").create_temp_view("v1_of_t", session=spark)
    catalog.table("default.t$tags").create_temp_view("tags_of_t", session=spark)
    assert ids("SELECT id FROM v1_of_t") == [1]
    assert ids("SELECT snapshot_id FROM tags_of_t WHERE tag_name = 'v1'") == [1]
    for view in ("v1_of_t", "tags_of_t"):
        spark.catalog.dropTempView(view)

    # What plain SQL cannot say: the errors that the documentation tells of.
    with pytest.raises(ParseException):
        spark.sql("CALL sys.create_tag 'x'")
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        spark.sql("SELECT * FROM t VERSION AS OF 'v1'").collect()
