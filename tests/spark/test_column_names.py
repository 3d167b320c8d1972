"""Columns whose names are no plain identifiers, in every role, on attached catalogs and by `catalog.sql`."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from paimon_spark import Catalog
from paimon_spark.errors import SchemaMismatchError
from tests.harness.doors import Door, refused, rows
from tests.harness.three_reads import setting

pytestmark = [pytest.mark.spark, pytest.mark.catalog_door]


@pytest.fixture
def catalog(door: Door, tmp_path: Path) -> Catalog:
    made = door.load_catalog(str(tmp_path / "wh"))
    made.create_database("d")
    return made


@pytest.mark.parametrize("name", ["pt t", "p-t", "p.t", "tage_ü"])
def test_partitions_by_any_name(catalog: Catalog, spark: SparkSession, name: str) -> None:
    q, t = f"`{name}`", "paimon.d.t"
    catalog.sql(f"CREATE TABLE {t} (id INT, {q} STRING, v STRING) PARTITIONED BY ({q})")
    catalog.sql(f"INSERT INTO {t} VALUES (1, 'a', 'x'), (2, 'b', 'y')")
    assert rows(catalog, f"SELECT * FROM {t} WHERE {q} = 'a'") == [(1, "a", "x")]
    joined = f"SELECT o.id FROM {t} o JOIN (SELECT 'b' AS z) s ON o.{q} = s.z"
    assert rows(catalog, joined) == [(2,)], "partitions are skipped while the query runs"
    catalog.sql(f"UPDATE {t} SET v = 'z' WHERE {q} = 'b'")
    catalog.sql(
        f"MERGE INTO {t} USING (SELECT 3 AS id, 'c' AS {q}, 'm' AS v) s ON t.{q} = s.{q} WHEN NOT MATCHED THEN INSERT *"
    )
    catalog.sql(f"INSERT OVERWRITE {t} PARTITION ({q} = 'a') SELECT 5, 'w'")
    assert rows(catalog, f"SELECT * FROM {t}") == [(2, "b", "z"), (3, "c", "m"), (5, "a", "w")]
    catalog.sql(f"DELETE FROM {t} WHERE {q} = 'b'")
    catalog.sql(f"ALTER TABLE {t} DROP PARTITION ({q} = 'c')")
    assert rows(catalog, f"SELECT * FROM {t}") == [(5, "a", "w")]


def test_keys_sequence_fields_and_buckets_by_any_name(catalog: Catalog) -> None:
    t = "paimon.d.k"
    catalog.sql(
        f"CREATE TABLE {t} (`k.1` INT, `s e` INT, `v-1` STRING) TBLPROPERTIES ('primary-key' = 'k.1', 'bucket' = '2', "
        "'sequence.field' = 's e')"
    )
    catalog.sql(f"INSERT INTO {t} VALUES (1, 5, 'a'), (2, 5, 'b')")
    catalog.sql(f"INSERT INTO {t} VALUES (1, 4, 'older'), (2, 6, 'newer')")
    assert rows(catalog, f"SELECT * FROM {t}") == [(1, 5, "a"), (2, 6, "newer")]
    catalog.table("d.k").create_branch("fix")
    catalog.sql("INSERT INTO paimon.d.`k$branch_fix` VALUES (1, 9, 'fix')")
    differing = rows(catalog, "SELECT _change, `k.1`, `v-1` FROM paimon_table_diff('d.k', 'main', 'fix')")
    assert differing == [("after", 1, "fix"), ("before", 1, "a")]
    catalog.table("d.k").merge_branch("fix", if_main_moved="rebase")
    catalog.sql(f"DELETE FROM {t} WHERE `k.1` = 2")
    assert rows(catalog, f"SELECT `v-1` FROM {t}") == [("fix",)]


def test_structs_are_merged_by_the_names_of_their_fields(catalog: Catalog, spark: SparkSession) -> None:
    t = "paimon.d.s"
    catalog.sql(
        f"CREATE TABLE {t} (id INT, s STRUCT<a: INT, b: STRING>, l ARRAY<STRUCT<a: INT, b: STRING>>) "
        "TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1')"
    )
    catalog.sql(f"INSERT INTO {t} VALUES (1, named_struct('a', 1, 'b', 'x'), array(named_struct('a', 1, 'b', 'x')))")
    given = "named_struct('b', 'y', 'a', 2)"
    catalog.sql(
        f"MERGE INTO {t} t USING (SELECT explode(array(1, 2)) AS id, {given} AS s, array({given}) AS l) n "
        "ON t.id = n.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    wanted = [(1, 2, "y", 2, "y"), (2, 2, "y", 2, "y")]
    assert rows(catalog, f"SELECT id, s.a, s.b, l[0].a, l[0].b FROM {t}") == wanted
    fewer = (
        f"MERGE INTO {t} t USING (SELECT 1 AS id, named_struct('a', 7) AS s) n ON t.id = n.id WHEN MATCHED THEN UPDATE"
    )
    with refused(catalog, SchemaMismatchError, "column s has the field b, and the struct to be stored has only a"):
        catalog.sql(f"{fewer} SET s = n.s")
    with setting(spark, "spark.paimon.write.merge-schema", "true"):
        catalog.sql(f"{fewer} SET *")
        assert rows(catalog, f"SELECT s.a, s.b FROM {t} WHERE id = 1") == [(7, "y")]
        catalog.sql(f"{fewer} SET s = n.s")
        assert rows(catalog, f"SELECT s.a, s.b FROM {t} WHERE id = 1") == [(7, None)]
    catalog.sql(
        f"MERGE INTO {t} t USING (SELECT 2 AS id, CAST(NULL AS STRUCT<b: STRING, a: INT>) AS s) n ON t.id = n.id "
        "WHEN MATCHED THEN UPDATE SET s = n.s"
    )
    assert rows(catalog, f"SELECT s IS NULL FROM {t} WHERE id = 2") == [(True,)]
