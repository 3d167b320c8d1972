"""format("paimon") in a classic session: naming tables and versions, columns, errors."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession

import paimon_spark
from tests.harness.golden import golden_path

pytestmark = [pytest.mark.spark, pytest.mark.oldest]

BRANCHES = str(golden_path("branches"))
ALL_TYPES = str(golden_path("append_all_types_parquet"))
PARTITIONED = str(golden_path("append_partitioned_escaped"))


def load(spark: SparkSession, path: str, **options: str) -> DataFrame:
    return spark.read.format("paimon").options(**options).load(path)


def rows(df: DataFrame) -> list[str]:
    """Rows as text, where NaN equals NaN."""
    return sorted(map(str, df.collect()))


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("wh")
    shutil.copytree(BRANCHES, home / "db.db" / "t")
    return home


@pytest.mark.quick
def test_both_names_need_no_code(spark: SparkSession) -> None:
    first = spark.read.format("paimon").load(BRANCHES)
    second = spark.read.format("paimon_py").load(BRANCHES)
    assert rows(first) == rows(second) != []


@pytest.mark.quick
def test_a_table_by_name_is_the_table_by_path(spark: SparkSession, warehouse: Path) -> None:
    by_name = load(spark, "db.t", warehouse=str(warehouse))
    assert rows(by_name) == rows(load(spark, str(warehouse / "db.db" / "t"))) == rows(load(spark, BRANCHES))
    url = (warehouse / "db.db" / "t").as_uri()
    assert rows(load(spark, url)) == rows(by_name)


def test_spark_plans_once_for_each_dataframe(spark: SparkSession, tmp_path: Path) -> None:
    catalog = paimon_spark.load_catalog(str(tmp_path))
    catalog.create_database("db")
    table = catalog.create_table("db.t", "k INT")
    table.write(pa.table({"k": pa.array([1], pa.int32())}))
    before = load(spark, table.location)
    assert rows(before) == ["Row(k=1)"]
    table.write(pa.table({"k": pa.array([2], pa.int32())}))
    assert rows(before) == ["Row(k=1)"]
    assert rows(load(spark, table.location)) == ["Row(k=1)", "Row(k=2)"]


@pytest.mark.newest
def test_a_branch_in_the_name_is_the_option(spark: SparkSession, warehouse: Path) -> None:
    expected = rows(load(spark, BRANCHES, branch="from_tag"))
    assert rows(load(spark, BRANCHES + "$branch_from_tag")) == expected
    assert rows(load(spark, "db.t$branch_from_tag", warehouse=str(warehouse))) == expected
    assert rows(load(spark, BRANCHES, **{"scan.branch": "from_tag"})) == expected
    assert rows(load(spark, BRANCHES, versionAsOf="from_tag")) == expected
    assert expected != rows(load(spark, BRANCHES))


@pytest.mark.quick
def test_every_way_of_naming_one_snapshot_gives_its_rows(spark: SparkSession) -> None:
    expected = rows(load(spark, BRANCHES, **{"scan.snapshot-id": "1"}))
    for options in (
        {"versionAsOf": "1"},
        {"versionAsOf": "t1"},
        {"scan.version": "snapshot.1"},
        {"versionAsOf": "tag-name.t1"},
        {"versionAsOf": "main.t1"},
        {"scan.tag-name": "t1"},
        {"scan.tag-id": "1"},
    ):
        assert rows(load(spark, BRANCHES, **options)) == expected, options


@pytest.mark.newest
def test_columns_come_in_the_order_asked(spark: SparkSession) -> None:
    df = load(spark, BRANCHES, columns="v,k")
    assert df.columns == ["v", "k"]
    assert rows(df.select("k", "v")) == rows(load(spark, BRANCHES))


@pytest.mark.quick
def test_where_chooses_rows(spark: SparkSession) -> None:
    assert rows(load(spark, BRANCHES, where="k = 1")) == rows(load(spark, BRANCHES).where("k = 1")) != []


@pytest.mark.newest
def test_where_may_look_at_columns_that_do_not_come_out(spark: SparkSession) -> None:
    df = load(spark, BRANCHES, where="k = 1", columns="v")
    assert rows(df) == rows(load(spark, BRANCHES).where("k = 1").select("v"))


def test_a_schema_reads_only_its_columns_and_widens(spark: SparkSession) -> None:
    df = spark.read.format("paimon").schema("K BIGINT").load(BRANCHES)
    assert df.dtypes == [("K", "bigint")]
    assert rows(df) == rows(load(spark, BRANCHES).selectExpr("cast(k as bigint) as K"))


def test_a_schema_may_name_fields_of_a_row_and_other_widths(spark: SparkSession) -> None:
    full = load(spark, ALL_TYPES)
    declared = "id BIGINT, f_tiny INT, f_float DOUBLE, f_dec9 DECIMAL(20,4), f_arr_row ARRAY<STRUCT<y: ARRAY<DOUBLE>>>"
    df = spark.read.format("paimon").schema(declared).load(ALL_TYPES)
    expected = full.selectExpr(
        "cast(id as bigint) id",
        "cast(f_tiny as int) f_tiny",
        "cast(f_float as double) f_float",
        "cast(f_dec9 as decimal(20,4)) f_dec9",
        "transform(f_arr_row, x -> named_struct('y', x.y)) f_arr_row",
    )
    assert rows(df.drop("f_arr_row")) == rows(expected.drop("f_arr_row"))
    assert df.where("f_arr_row is null").count() == full.where("f_arr_row is null").count()
    assert rows(df.selectExpr("id", "f_arr_row.y")) == rows(expected.selectExpr("id", "f_arr_row.y"))


@pytest.mark.quick
def test_metadata_columns_come_on_request(spark: SparkSession) -> None:
    names = "__paimon_file_path,__paimon_row_index,__paimon_partition,__paimon_bucket"
    df = load(spark, PARTITIONED, columns=names)
    found = df.collect()
    assert len(found) == load(spark, PARTITIONED).count() > 0
    assert len({(r[0], r[1]) for r in found}) == len(found)
    assert all(Path(r[0].removeprefix("file://")).is_file() for r in found)
    declared = spark.read.format("paimon").schema("__paimon_bucket INT").load(PARTITIONED)
    assert sorted(r[0] for r in declared.collect()) == sorted(r[3] for r in found)


def test_a_temporary_view_keeps_its_options(spark: SparkSession) -> None:
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW v USING paimon OPTIONS (path '{BRANCHES}', versionAsOf 't1')")
    try:
        assert rows(spark.table("v")) == rows(load(spark, BRANCHES, versionAsOf="t1"))
    finally:
        spark.catalog.dropTempView("v")


@pytest.mark.quick
def test_an_empty_table_and_an_empty_plan_have_no_rows(spark: SparkSession) -> None:
    empty = load(spark, str(golden_path("empty_table")))
    assert empty.columns
    assert empty.collect() == []
    assert load(spark, BRANCHES, where="k > 1000000").collect() == []
    assert load(spark, BRANCHES, branch="empty").count() == 0


def test_counting_needs_no_column(spark: SparkSession) -> None:
    assert load(spark, ALL_TYPES).count() == paimon_spark.load_table(ALL_TYPES).scan().to_arrow().num_rows > 0


@pytest.mark.newest
def test_table_functions_of_spark_work_on_it(spark: SparkSession) -> None:
    df = load(spark, BRANCHES)
    assert df.join(df.withColumnRenamed("v", "w"), "k").count() == df.count()
    assert df.union(load(spark, BRANCHES, versionAsOf="t1")).distinct().count() == df.count()


def test_registering_changes_nothing_where_spark_found_it(spark: SparkSession) -> None:
    paimon_spark.register(spark)
    assert rows(load(spark, BRANCHES))


@pytest.mark.quick
def test_a_table_handle_becomes_a_dataframe(spark: SparkSession) -> None:
    table = paimon_spark.load_table(BRANCHES)
    df = table.branch("from_tag").scan(columns=["v", "k"], where="k > 0").to_spark(spark)
    expected = table.branch("from_tag").scan(columns=["v", "k"], where="k > 0").to_arrow().to_pylist()
    assert rows(df) == sorted(str(Row(**r)) for r in expected)
    assert rows(table.at("t1").scan().to_spark(spark)) == rows(load(spark, BRANCHES, versionAsOf="t1"))


@pytest.mark.newest
def test_row_kinds_come_first_on_request(spark: SparkSession) -> None:
    df = load(spark, BRANCHES, **{"read.changelog": "true"})
    assert df.columns == ["rowkind", "k", "v"]
    assert {r.rowkind for r in df.collect()} == {"+I"}


BAD_READS: dict[str, tuple[Callable[[SparkSession], DataFrame], tuple[str, ...]]] = {
    "a path that is no table": (
        lambda s: load(s, str(Path(BRANCHES).parent)),
        ("TableNotFoundError", "is no Paimon table", "table"),
    ),
    "nothing there": (lambda s: load(s, "/nowhere/t"), ("TableNotFoundError", "/nowhere/t", "nothing exists there")),
    "an unknown option": (
        lambda s: load(s, BRANCHES, **{"scan.tagname": "x"}),
        ("unknown read option 'scan.tagname'", "did you mean 'scan.tag-name'"),
    ),
    "two versions at once": (
        lambda s: load(s, BRANCHES, **{"versionAsOf": "1", "scan.tag-name": "t1"}),
        ("versionAsOf = '1'", "scan.tag-name = 't1'"),
    ),
    "a version that does not exist": (
        lambda s: load(s, BRANCHES, versionAsOf="t11"),
        ("has no version 't11'", "'t1'", "1 to 2"),
    ),
    "a snapshot that does not exist": (
        lambda s: load(s, BRANCHES, **{"scan.snapshot-id": "99"}),
        ("SnapshotNotFoundError", "99", "1 to 2"),
    ),
    "a branch given twice differently": (
        lambda s: load(s, BRANCHES + "$branch_from_tag", branch="other"),
        ("two branches are given", "from_tag", "'other'"),
    ),
    "a branch that does not exist": (
        lambda s: load(s, BRANCHES, branch="from_tg"),
        ("BranchNotFoundError", "'from_tg'", "did you mean 'from_tag'"),
    ),
    "a column that does not exist": (
        lambda s: load(s, BRANCHES, columns="k,vv"),
        ("ColumnNotFoundError", "has no column 'vv'", "k, v"),
    ),
    "a declared column that does not exist": (
        lambda s: s.read.format("paimon").schema("kk INT").load(BRANCHES),
        ("ColumnNotFoundError", "has no column 'kk'"),
    ),
    "a declared type that loses": (
        lambda s: s.read.format("paimon").schema("k SMALLINT").load(BRANCHES),
        ("SchemaMismatchError", "declares column k as smallint", "INT"),
    ),
    "a column in where that does not exist": (
        lambda s: load(s, BRANCHES, where="kk = 1"),
        ("ColumnNotFoundError", "kk"),
    ),
    "a where that is no predicate": (lambda s: load(s, BRANCHES, where="k +"), ("PredicateSyntaxError",)),
    "a version of a system table without": (
        lambda s: load(s, BRANCHES + "$snapshots", versionAsOf="1"),
        ("versionAsOf", "describes the whole branch"),
    ),
    "a system table that is none": (
        lambda s: load(s, BRANCHES + "$snapshot"),
        ("no system table 'snapshot'", "'snapshots'"),
    ),
    "no path": (lambda s: s.read.format("paimon").load(), ("no table is named",)),
    "several paths": (lambda s: s.read.format("paimon").load([BRANCHES, BRANCHES]), ("several paths",)),
    "another bucket key": (lambda s: load(s, BRANCHES, **{"bucket-key": "v"}), ("bucket-key", "read")),
}


ON_OLDEST = {"an unknown option", "a version that does not exist", "a declared type that loses", "no path"}
EACH_BAD_READ = [
    pytest.param(case, marks=() if case in ON_OLDEST else pytest.mark.newest, id=case.replace(" ", "_"))
    for case in BAD_READS
]


@pytest.mark.parametrize("case", EACH_BAD_READ)
def test_bad_input_says_what_is_wrong(spark: SparkSession, case: str) -> None:
    read, words = BAD_READS[case]
    with pytest.raises(PySparkException) as caught:
        read(spark).collect()
    missing = [w for w in words if w not in str(caught.value)]
    assert missing == [], str(caught.value)


@pytest.mark.newest
def test_an_unsupported_feature_is_refused_by_name(spark: SparkSession, tmp_path: Path) -> None:
    home = tmp_path / "t"
    shutil.copytree(BRANCHES, home)
    schema = home / "schema" / "schema-0"
    schema.write_text(schema.read_text().replace('"options" : {', '"options" : {"merge-engine": "astonish",'))
    with pytest.raises(PySparkException, match="merge-engine"):
        load(spark, str(home)).collect()


def test_the_schema_of_a_scan_is_not_asked_for_again(spark: SparkSession, tmp_path: Path) -> None:
    """Spark opens the table only to plan the read, not to know its columns."""
    table = paimon_spark.load_table(str(shutil.copytree(golden_path("branches"), tmp_path / "t")))
    scan = table.scan()
    expected = spark.read.format("paimon").load(table.location)
    (tmp_path / "t" / "schema").rename(tmp_path / "away")

    frame = scan.to_spark(spark)
    assert frame.schema == expected.schema

    (tmp_path / "away").rename(tmp_path / "t" / "schema")
    assert sorted(map(tuple, frame.collect()), key=str) == sorted(map(tuple, expected.collect()), key=str)
