"""catalog.sql in classic sessions: names of one catalog, in a session that stays as it is for everybody else."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

import paimon_spark
from paimon_spark.api.catalog import Catalog
from paimon_spark.errors import TableNotFoundError, UnsupportedFeatureError

pytestmark = pytest.mark.spark

_ROUNDS = 5


def _catalog(warehouse: Path, *values: int, **options: Any) -> Catalog:
    """A warehouse with table `db.t` of one column."""
    found = paimon_spark.load_catalog(str(warehouse), **options)
    found.create_database("db")
    found.create_table("db.t", "a INT").write(pa.table({"a": pa.array(values, pa.int32())}))
    return found


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return _catalog(tmp_path / "own", 1, 2)


@pytest.fixture
def attached(tmp_path: Path, spark: SparkSession) -> Iterator[Catalog]:
    """Another warehouse, which is attached under the name that `catalog` has."""
    _catalog(tmp_path / "attached", 7)
    yield paimon_spark.attach(spark, str(tmp_path / "attached"))
    spark.catalog.setCurrentCatalog("spark_catalog")
    paimon_spark.detach(spark)


def _values(catalog: Catalog, spark: SparkSession, sql: str) -> list[Any]:
    return sorted(row[0] for row in catalog.sql(sql, session=spark).collect())


@pytest.mark.quick
def test_the_session_is_as_before(catalog: Catalog, spark: SparkSession) -> None:
    before = spark.catalog.currentCatalog(), spark.catalog.currentDatabase(), spark.conf.getAll
    catalogs = [row[0] for row in spark.sql("SHOW CATALOGS").collect()]
    frame = catalog.sql("SELECT a FROM db.t", session=spark)
    with pytest.raises(TableNotFoundError, match="has no table 'x'"):
        catalog.sql("SELECT * FROM db.x", session=spark)
    assert (spark.catalog.currentCatalog(), spark.catalog.currentDatabase(), spark.conf.getAll) == before
    assert [row[0] for row in spark.sql("SHOW CATALOGS").collect()] == catalogs
    assert sorted(frame.collect()) == [(1,), (2,)]
    with pytest.raises(AnalysisException):
        spark.sql("SELECT * FROM db.t")


@pytest.mark.quick
def test_names_are_those_of_the_catalog_beside_one_of_the_same_name(
    catalog: Catalog, attached: Catalog, spark: SparkSession
) -> None:
    spark.catalog.setCurrentCatalog("paimon")
    for sql in (
        "SELECT a FROM db.t",
        "SELECT a FROM paimon.db.t",
        "SELECT paimon.db.t.a FROM paimon.db.t",
        "SELECT t.a FROM db.t WHERE EXISTS (SELECT 1 FROM db.t u WHERE u.a = t.a)",
        "WITH t AS (SELECT a FROM db.t) SELECT a FROM t",
        "SELECT a FROM paimon_incremental_query('db.t', 0, 1)",
    ):
        assert _values(catalog, spark, sql) == [1, 2], sql
    assert [tuple(row) for row in spark.sql("SELECT a FROM db.t").collect()] == [(7,)]
    with pytest.raises(AnalysisException, match="cannot be resolved") as error:
        catalog.sql("SELECT b FROM db.t, db.t$branch_main u", session=spark)
    assert "paimon (" not in str(error.value)


def test_a_name_of_with_or_of_a_view_hides_a_table(catalog: Catalog, spark: SparkSession) -> None:
    catalog.sql("USE db", session=spark)
    try:
        assert _values(catalog, spark, "WITH t AS (SELECT a + 10 AS a FROM t) SELECT a FROM t") == [11, 12]
        nested = "WITH t AS (SELECT 5 AS a) SELECT y.a FROM (WITH u AS (SELECT a FROM t) SELECT a FROM u) y, db.t"
        assert _values(catalog, spark, nested) == [5, 5]
        assert _values(catalog, spark, "SELECT (WITH t AS (SELECT 6 AS a) SELECT a FROM t) FROM t") == [6, 6]
        catalog.sql("CREATE TEMPORARY VIEW t AS SELECT max(a) AS a FROM db.t", session=spark)
        assert _values(catalog, spark, "SELECT a FROM t") == [2]
        assert _values(catalog, spark, "SELECT a FROM db.t") == [1, 2]
        assert [tuple(row) for row in spark.sql("SELECT a FROM t").collect()] == [(2,)]
    finally:
        spark.catalog.dropTempView("t")
        spark.conf.unset("spark.paimon-spark.current-database")


def test_views_and_cached_rows_outlive_the_statement(catalog: Catalog, spark: SparkSession) -> None:
    catalog.sql("SELECT a FROM db.t", session=spark).createOrReplaceTempView("kept")
    try:
        catalog.sql("CACHE LAZY TABLE kept_too OPTIONS ('storageLevel' = 'MEMORY_ONLY') AS SELECT a FROM db.t")
        for view in ("kept", "kept_too"):
            assert spark.table(view).count() == 2
        assert spark.catalog.isCached("kept_too")
        with pytest.raises(UnsupportedFeatureError, match=r"on the Paimon table db\.t: attach the catalog"):
            catalog.sql("CACHE TABLE db.t", session=spark)
    finally:
        spark.catalog.uncacheTable("kept_too")
        for view in ("kept", "kept_too"):
            spark.catalog.dropTempView(view)


def test_statements_of_many_threads_do_not_mix(catalog: Catalog, spark: SparkSession, tmp_path: Path) -> None:
    others = [_catalog(tmp_path / f"other-{n}", 10 * n) for n in (1, 2)]
    wrong: list[Any] = []
    begin = threading.Barrier(len(others) + 2)

    def read(own: Catalog, expected: list[int]) -> None:
        begin.wait()
        for _ in range(_ROUNDS):
            found = _values(own, spark, "SELECT a FROM db.t")
            wrong.extend([] if found == expected else [found])

    def plain() -> None:
        begin.wait()
        for _ in range(_ROUNDS):
            here = spark.catalog.currentCatalog()
            wrong.extend([] if here == "spark_catalog" else [here])

    threads = [threading.Thread(target=read, args=(own, [10 * n])) for n, own in enumerate(others, 1)]
    threads += [threading.Thread(target=read, args=(catalog, [1, 2])), threading.Thread(target=plain)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_parameters_of_every_kind_have_values(catalog: Catalog, spark: SparkSession) -> None:
    sql = "SELECT a FROM db.t WHERE array_contains(:ids, a) AND :names['k'] = 'v' AND a < :most"
    args = {"ids": [2, 3], "names": {"k": "v"}, "most": 3}
    assert [tuple(row) for row in catalog.sql(sql, args=args, session=spark).collect()] == [(2,)]
    assert catalog.sql("SELECT count(*) FROM db.t VERSION AS OF ?", args=[1], session=spark).collect()[0][0] == 2
    with pytest.raises(AnalysisException, match="UNBOUND_SQL_PARAMETER"):
        catalog.sql("SELECT a FROM db.t WHERE a = :missing", session=spark)
