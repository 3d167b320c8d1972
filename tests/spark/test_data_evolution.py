"""DELETE, UPDATE and MERGE of tables with data evolution as Spark jobs."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import paimon_spark
from paimon_spark.errors import DataError, InvalidInputError, PaimonError, UnsupportedFeatureError

pytestmark = [pytest.mark.spark, pytest.mark.newest]

EVOLUTION = {"row-tracking.enabled": "true", "data-evolution.enabled": "true", "deletion-vectors.enabled": "true"}


@pytest.mark.slow
def test_with_data_evolution_only_changed_columns_are_written(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    rows = spark.range(0, 60, numPartitions=3).selectExpr("id", "concat('p', id % 2) dt", "id * 2 v", "'x' w")
    options = {**EVOLUTION, "partition": "dt"}
    rows.write.format("paimon").mode("append").options(**options).save(str(path))
    table = paimon_spark.load_table(str(path))

    def now() -> dict[int, tuple[int, int, str]]:
        read = table.scan(columns=["id", "_ROW_ID", "v", "w"]).to_arrow().to_pylist()
        assert len(read) == len({r["id"] for r in read})
        assert spark.read.format("paimon").load(str(path)).count() == len(read)
        return {r["id"]: (r["_ROW_ID"], r["v"], r["w"]) for r in read}

    def added() -> set[tuple[str, ...] | None]:
        head = table.snapshots()[-1].id
        found = spark.read.format("paimon").option("scan.snapshot-id", head).load(f"{path}$files")
        names = {f.file_path for f in found.select("file_path").collect()}
        old = spark.read.format("paimon").option("scan.snapshot-id", head - 1).load(f"{path}$files")
        new = names - {f.file_path for f in old.select("file_path").collect()}
        return {None if f.write_cols is None else tuple(f.write_cols) for f in found.collect() if f.file_path in new}

    expected = now()
    table.delete("id in (7, 8)")
    del expected[7], expected[8]
    assert now() == expected
    table.update("id < 20", {"v": "v + 1000"})
    assert added() == {("v",)}
    expected = {k: (i, v + 1000 if k < 20 else v, w) for k, (i, v, w) in expected.items()}
    assert now() == expected

    source = table.scan(columns=["id", "_ROW_ID"]).to_spark().where("id < 4")
    more = spark.createDataFrame([(100, None), (101, None)], "id LONG, _ROW_ID LONG")
    table.merge(
        source.union(more),
        "t._ROW_ID = s._ROW_ID",
        when_matched_delete="s.id = 2",
        when_matched_update={"w": "concat(t.w, s.id)"},
        when_not_matched_insert={"id": "s.id", "dt": "'p0'", "v": "0", "w": "'new'"},
    )
    assert added() == {("w",), None}
    del expected[2]
    expected |= {k: (*expected[k][:2], f"x{k}") for k in (0, 1, 3)}
    found_ids = {now()[k][0] for k in (100, 101)}
    assert found_ids == {60, 61}
    expected |= {k: (now()[k][0], 0, "new") for k in (100, 101)}
    assert now() == expected
    table.compact(full=True)
    assert now() == expected

    files = {p for p in path.rglob("*") if p.is_file()}
    with pytest.raises(UnsupportedFeatureError, match="partition column dt"):
        table.update("id = 3", {"dt": "'p9'"})
    with pytest.raises(DataError, match="several rows of the source"):
        table.merge(source.union(source), "t.id = s.id", when_matched_update={"w": "'y'"})
    with pytest.raises(PaimonError, match="column v"):
        table.update("id = 3", {"v": "'text'"})
    assert {p for p in path.rglob("*") if p.is_file()} == files
    catalog = paimon_spark.load_catalog(str(tmp_path))
    catalog.create_database("db")
    catalog.sql("CREATE TABLE db.c (id INT, v INT) TBLPROPERTIES ('row-tracking.enabled' = 'true', "
                "'data-evolution.enabled' = 'true')")  # fmt: skip
    catalog.sql("INSERT INTO db.c VALUES (1, 1), (2, 2)")
    catalog.sql("UPDATE db.c SET v = v * 10 WHERE id = 2")
    with pytest.raises(UnsupportedFeatureError, match="cannot be deleted"):
        catalog.sql("DELETE FROM db.c WHERE id = 2")
    with pytest.raises(UnsupportedFeatureError, match="NOT MATCHED BY SOURCE THEN UPDATE"):
        catalog.sql(
            "MERGE INTO db.c t USING (SELECT 1 AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = 5 "
            "WHEN NOT MATCHED BY SOURCE THEN UPDATE SET v = 0"
        )
    catalog.sql("MERGE INTO db.c t USING (SELECT 1 AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = 5")
    assert sorted(tuple(r.values()) for r in catalog.table("db.c").scan().to_arrow().to_pylist()) == [(1, 5), (2, 20)]


def test_an_update_of_all_columns_compares_the_partition(spark: SparkSession, tmp_path: Path) -> None:
    catalog = paimon_spark.load_catalog(str(tmp_path))
    catalog.create_database("db")
    columns = "id BIGINT, dt STRING, tags ARRAY<MAP<STRING, INT>>, v INT"
    table = catalog.create_table("db.t", columns, partition_keys=["dt"], options=EVOLUTION)
    catalog.sql("INSERT INTO db.t VALUES (1, 'a', array(map('x', 1)), 1), (2, 'b', NULL, 2)")

    def rows() -> set[tuple[int, str, int]]:
        return {(r["id"], r["dt"], r["v"]) for r in table.scan().to_arrow().to_pylist()}

    catalog.sql(
        "MERGE INTO db.t t USING (SELECT id, 'a' AS dt, array(map('y', 2)) AS tags, 9 AS v FROM range(1, 4, 2)) s "
        "ON t.id = s.id AND t.dt = s.dt WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    assert rows() == {(1, "a", 9), (2, "b", 2), (3, "a", 9)}
    table.merge(spark.sql("SELECT 2L id, 'b' dt, 7 v"), "t.id = s.id", when_matched_update="*")
    assert rows() == {(1, "a", 9), (2, "b", 7), (3, "a", 9)}
    table.merge(spark.sql("SELECT 2L AS number, 'b' dt"), "t.id = s.number", when_matched_update="*")
    with pytest.raises(UnsupportedFeatureError, match="partition column dt"):
        table.merge(spark.sql("SELECT 2L id, 'a' dt, 8 v"), "t.id = s.id", when_matched_update="*")
    with pytest.raises(InvalidInputError, match="the source has other"):
        table.merge(spark.sql("SELECT 2L other"), "t.id = s.other", when_matched_update="*")
    catalog.sql("UPDATE db.t SET tags = array(map('z', 3)) WHERE id = 1")
    assert table.scan(columns=["tags"], where="id = 1").to_arrow().to_pylist() == [{"tags": [[("z", 3)]]}]
    assert rows() == {(1, "a", 9), (2, "b", 7), (3, "a", 9)}
