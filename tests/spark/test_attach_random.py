"""Random conditions, and wrong statements, on attached tables beside Spark's own table of the same rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import paimon_spark
from tests.harness.conditions import ROW_TYPE, SPARK_TYPES, ZONE, RandomConditions, make_rows
from tests.harness.search import examples
from tests.harness.three_reads import setting

SEED = 5
AT_ONCE = 20
TABLES = {
    "plain": {"file.compression": "zstd"},
    "partitioned": {"partition": "num"},
    "keys": {"primary-key": "id", "bucket": "2"},
    "vectors": {"primary-key": "id", "bucket": "1", "deletion-vectors.enabled": "true"},
}


@dataclass(frozen=True)
class Beside:
    """A session whose attached tables `paimon.db.<name>` have the rows of Spark's Parquet table `rows_of_spark`."""

    spark: SparkSession
    names: Sequence[str]

    def matching(self, table: str, conditions: Sequence[str]) -> dict[str, list[int] | str]:
        """The ids of the rows that each condition lets through; `error` for one that fails at some row."""
        if len(conditions) > AT_ONCE:
            parts = [conditions[n : n + AT_ONCE] for n in range(0, len(conditions), AT_ONCE)]
            return {c: ids for part in parts for c, ids in self.matching(table, part).items()}
        queries = [f"SELECT {n} AS c, id FROM {table} WHERE {c}" for n, c in enumerate(conditions)]
        try:
            found = self.spark.sql(" UNION ALL ".join(queries)).collect()
        except PySparkException:
            if len(conditions) == 1:
                return {conditions[0]: "error"}
            half = len(conditions) // 2
            return {**self.matching(table, conditions[:half]), **self.matching(table, conditions[half:])}
        return {c: sorted(row.id for row in found if row.c == n) for n, c in enumerate(conditions)}


@pytest.fixture(scope="module")
def beside(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    folder = tmp_path_factory.mktemp("random")
    with setting(spark, "spark.sql.session.timeZone", ZONE):
        catalog = paimon_spark.attach(spark, str(folder / "wh"))
        catalog.create_database("db")
        batch = make_rows(spark, 60, SEED, str(folder / "rows"))
        rows = pa.table([pa.array(range(batch.num_rows), pa.int32()), *batch.columns], ["id", *ROW_TYPE.names])
        columns = ", ".join(f"{name} {t}" for name, t in {"id": "INT", **SPARK_TYPES}.items())
        for name, options in TABLES.items():
            given = ", ".join(f"'{k}' = '{v}'" for k, v in options.items())
            spark.sql(f"CREATE TABLE paimon.db.{name} ({columns}) TBLPROPERTIES ({given})")
            table = catalog.table(f"db.{name}")
            if table.schema.primary_keys:
                table.write(rows.slice(0, 40).set_column(1, "flag", pa.nulls(40, pa.bool_())))
            for part in (rows.slice(0, 25), rows.slice(25, 25), rows.slice(50)):
                table.write(part)
        spark.sql("DROP TABLE IF EXISTS rows_of_spark")
        spark.table("awkward").write.mode("overwrite").saveAsTable("rows_of_spark", format="parquet")
        yield Beside(spark, tuple(TABLES))
        spark.sql("DROP TABLE rows_of_spark")
        paimon_spark.detach(spark)


@pytest.mark.slow
def test_random_conditions_let_the_same_rows_through(beside: Beside) -> None:
    made = RandomConditions(SEED)
    conditions = [made.condition() for _ in range(examples(80))]
    wanted = beside.matching("rows_of_spark", conditions)
    assert sum(not isinstance(ids, str) for ids in wanted.values()) > len(wanted) * 0.7
    for name in beside.names:
        found = beside.matching(f"paimon.db.{name}", conditions)
        assert {c: (ids, wanted[c]) for c, ids in found.items() if ids != wanted[c]} == {}, name


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT nope FROM <t>",
        "SELECT t.nope FROM <t> t",
        "SELECT s.x FROM <t>",
        "SELECT id FROM <t> a JOIN <t> b ON a.id = b.id",
        "SELECT upper(i, 1) FROM <t>",
        "SELECT nofunction(i) FROM <t>",
        "SELECT s + flag FROM <t>",
        "SELECT i, count(*) FROM <t>",
        "SELECT * FROM <t> WHERE count(*) > 1",
        "SELECT * FROM <t> ORDER BY nope",
        "SELECT * FROM <t> GROUP BY 99",
        "SELECT * FROM <t> UNION SELECT 1",
        "SELECT * FROM <t> WHERE i IN (SELECT id, i FROM <t>)",
        "SELECT CAST(s AS INT) FROM <t>",
        "SELECT 1 / (i - i) FROM <t> WHERE i = 1",
        "SELECT id FROM <t> LIMIT -1",
        "SELECT * FROM <t> PIVOT (sum(i) FOR nope IN (1))",
        "SELECT FROM WHERE <t>",
        "SELECT * FROM <t> TABLESAMPLE (200 PERCENT)",
        "SELECT * FROM <t> NATURAL JOIN (SELECT 1 AS other) o WHERE nope = 1",
        "SELECT * EXCEPT (nope) FROM <t>",
        "SELECT i FROM <t>_missing",
        "DESCRIBE TABLE <t>_missing",
        "DROP TABLE <t>_missing",
        "ALTER TABLE <t>_missing ADD COLUMNS (c INT)",
        "INSERT INTO <t>_missing SELECT 1",
        "INSERT INTO <t> SELECT nope FROM <t>",
        "INSERT INTO <t> SELECT * FROM <t>_missing",
        "CREATE TABLE <t> (id INT)",
    ],
)
def test_wrong_statements_have_the_same_error_conditions(beside: Beside, statement: str) -> None:
    def condition(table: str) -> str | None:
        with pytest.raises(PySparkException) as raised:
            beside.spark.sql(statement.replace("<t>", table)).collect()
        return raised.value.getCondition()

    wanted = condition("rows_of_spark")
    assert wanted is not None and condition("paimon.db.plain") == wanted
