"""Results of SHOW and DESCRIBE; SHOW CREATE TABLE makes the same table again."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from paimon_spark.api.catalog import Catalog
from paimon_spark.api.table import Table
from paimon_spark.errors import (
    ColumnNotFoundError,
    DatabaseNotFoundError,
    InvalidInputError,
    PaimonError,
    PredicateSyntaxError,
    SqlSyntaxError,
    TableNotFoundError,
    UnsupportedFeatureError,
)
from tests.harness.doors import Door, refused

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.newest, pytest.mark.catalog_door]

CURRENT = "spark.paimon-spark.current-database"


@pytest.fixture
def catalog(tmp_path: Path, door: Door) -> Catalog:
    """A warehouse with a partitioned table db.t, its branch fix, and a database of an odd name."""
    made = door.load_catalog(warehouse=str(tmp_path / "warehouse"))
    made.create_database("db")
    made.create_database("o.d")
    table = made.create_table(
        "db.t",
        "id BIGINT NOT NULL COMMENT 'the key', v STRING DEFAULT 'x', c CHAR(3), dt STRING, hh INT",
        primary_keys=["id", "dt", "hh"],
        partition_keys=["dt", "hh"],
        comment="a table",
        options={"bucket": "1", "my.secret-key": "hush"},
    )
    for key, day, hour in ((1, "2024-01-01", 1), (2, "2024-01-01", 2), (3, "a/b=ü", 10)):
        table.write(pa.table({"id": [key], "dt": [day], "hh": pa.array([hour], pa.int32())}))
    table.create_branch("fix", snapshot_id=1)
    table.branch("fix").alter(add={"extra": "ARRAY<STRUCT<a: INT>>"})
    made.create_table(
        "`o.d`.`odd name`", "`a b` INT, p DATE, q BOOLEAN, r DECIMAL(5,2)", partition_keys=["p", "q", "r"]
    )
    return made


def test_a_partition_is_described_as_the_connector_does(catalog: Catalog, spark: SparkSession) -> None:
    def sql(text: str) -> list[list[Any]]:
        return [list(row) for row in catalog.sql(text, session=spark).collect()]

    table = catalog.table("db.t")
    table.write(pa.table({"id": [7, 8], "dt": ["2024-01-01"] * 2, "hh": pa.array([2, 2], pa.int32())}))
    found = sql("DESCRIBE FORMATTED db.t PARTITION (dt = '2024-01-01', HH = 2)")
    whole = sql("DESCRIBE FORMATTED db.t")
    at = whole.index(["# Column Not Null", "", ""])
    assert (found[:at], found[-4:]) == (whole[:at], whole[at:])
    details = {row[0]: row[1] for row in found[at:-4] if row[0]}
    (files,) = catalog.sql(
        "SELECT file_count, file_size_in_bytes, CAST(last_update_time AS STRING) FROM db.t$partitions "
        "WHERE partition = 'dt=2024-01-01/hh=2'",
        session=spark,
    ).collect()
    moment = datetime.fromisoformat(files[2]).astimezone()
    assert details == {
        "# Detailed Partition Information": "",
        "Database": "db",
        "Table": "t",
        "Partition Values": "[dt=2024-01-01, hh=2]",
        "Partition Parameters": (
            f"{{fileCount=2, fileSizeInBytes={files[1]}, lastFileCreationTime={round(moment.timestamp() * 1000)}, "
            "recordCount=3}"
        ),
        "Created Time": f"{moment:%a %b %d %H:%M:%S %Z %Y}",
        "Last Access": "UNKNOWN",
        "Partition Statistics": f"{files[1]} bytes, 3 rows",
    }
    assert sql("DESC db.t PARTITION (hh = 10, dt = 'a/b=ü')") == sql("DESC db.t")
    for partition, error, words in (
        ("dt = '2024-01-01'", InvalidInputError, "needs a value of each partition column"),
        ("dt = '2024-01-01', hh = 9", InvalidInputError, "has no partition with"),
        ("dt = '2024-01-01', hour = 1", ColumnNotFoundError, "hour"),
    ):
        with refused(catalog, error, words):
            sql(f"DESC EXTENDED db.t PARTITION ({partition})")


@pytest.mark.quick
def test_tables_are_described_and_listed_as_spark_does(catalog: Catalog, spark: SparkSession) -> None:
    def sql(text: str) -> list[list[Any]]:
        return [list(row) for row in catalog.sql(text, session=spark).collect()]

    columns = [
        ["id", "bigint", "the key"],
        ["v", "string", None],
        ["c", "char(3)", None],
        ["dt", "string", None],
        ["hh", "int", None],
    ]
    partition = [
        ["# Partition Information", "", ""],
        ["# col_name", "data_type", "comment"],
        ["dt", "string", None],
        ["hh", "int", None],
    ]
    where = catalog.table("db.t").location
    hidden = "my.secret-key=*********(redacted)"
    assert sql("DESCRIBE db.t") == [*columns, *partition]
    assert sql("DESC TABLE EXTENDED paimon.db.t") == [
        *columns,
        *partition,
        ["", "", ""],
        ["# Metadata Columns", "", ""],
        ["__paimon_file_path", "string", ""],
        ["__paimon_row_index", "bigint", ""],
        ["__paimon_partition", "struct<dt:string,hh:int>", ""],
        ["__paimon_bucket", "int", ""],
        ["", "", ""],
        ["# Detailed Table Information", "", ""],
        ["Name", "db.t", ""],
        ["Type", "MANAGED", ""],
        ["Comment", "a table", ""],
        ["Location", where, ""],
        ["Provider", "paimon", ""],
        ["Table Properties", f"[bucket=1,{hidden},path={where},primary-key=id,dt,hh]", ""],
        ["", "", ""],
        ["# Column Default Values", "", ""],
        ["v", "string", "'x'"],
        ["# Column Not Null", "", ""],
        ["id", "bigint", "NOT NULL"],
        ["dt", "string", "NOT NULL"],
        ["hh", "int", "NOT NULL"],
    ]
    assert sql("DESC db.t$branch_fix") == [*columns, ["extra", "array<struct<a:int>>", None], *partition]
    assert sql("DESC db.t VERSION AS OF 'fix'")[5] == ["extra", "array<struct<a:int>>", None]
    assert sql("DESC db.t$branches")[:2] == [["branch_name", "string", None], ["create_time", "timestamp_ntz", None]]
    unknown = ["min", "max", "num_nulls", "distinct_count", "avg_col_len", "max_col_len", "histogram"]
    assert sql("DESC EXTENDED db.t ID") == [
        ["col_name", "id"],
        ["data_type", "bigint"],
        ["comment", "the key"],
        *([name, "NULL"] for name in unknown),
    ]
    assert sql("DESC db.t v")[2] == ["comment", "NULL"]
    assert sql("DESC DATABASE EXTENDED `o.d`")[:2] == [["Catalog Name", "paimon"], ["Namespace Name", "`o.d`"]]
    assert sql("SHOW COLUMNS IN t IN db") == [["id"], ["v"], ["c"], ["dt"], ["hh"]]
    assert sql("SHOW TBLPROPERTIES db.t") == [
        ["bucket", "1"],
        ["my.secret-key", "*********(redacted)"],
        ["path", where],
        ["primary-key", "id,dt,hh"],
    ]
    assert sql("SHOW TBLPROPERTIES db.t ('nix')") == [["nix", "Table paimon.db.t does not have property: nix"]]
    assert sql("SHOW DATABASES") == [["db"], ["`o.d`"]]
    assert sql("SHOW NAMESPACES IN paimon LIKE 'D*'") == [["db"]]
    assert sql("SHOW TABLES IN `o.d`") == [["`o.d`", "odd name", False]]
    assert sql("SHOW TABLES IN db LIKE 'x|T*'") == [["db", "t", False]]
    assert sql("REFRESH TABLE db.t") == []


def test_partitions_of_every_type_are_shown_as_spark_writes_them(catalog: Catalog, spark: SparkSession) -> None:
    def sql(text: str) -> list[str]:
        return [row[0] for row in catalog.sql(text, session=spark).collect()]

    first, second, third = "dt=2024-01-01/hh=1", "dt=2024-01-01/hh=2", "dt=a%2Fb%3Dü/hh=10"
    assert sql("SHOW PARTITIONS db.t") == [first, second, third]
    assert sql("SHOW PARTITIONS db.t PARTITION (HH = 1)") == [first]
    assert sql("SHOW PARTITIONS db.t PARTITION (dt = 'a/b=ü', hh = 10)") == [third]
    assert sql("SHOW PARTITIONS db.t PARTITION (dt = 'none')") == []
    assert sql("SHOW PARTITIONS db.t$branch_fix") == [first]
    assert sql("SHOW PARTITIONS `o.d`.`odd name`") == []
    kinds = "p DATE, q BOOLEAN, r DECIMAL(5,2), s TIMESTAMP, u TIMESTAMP_NTZ, w BIGINT"
    table = catalog.create_table("db.kinds", f"k INT, {kinds}", partition_keys=list("pqrsuw"))
    noon = datetime(2024, 1, 1, 12, tzinfo=UTC)
    values = {"k": 1, "p": date(2024, 1, 5), "q": True, "r": Decimal("1.50"), "w": -7}
    values |= {"s": noon, "u": noon.replace(tzinfo=None, microsecond=250_000)}
    table.write(pa.table({f.name: pa.array([values[f.name]], f.type) for f in table.scan().arrow_schema}))
    table.write(pa.table({"k": pa.array([2], pa.int32())}))
    expected = "p=2024-01-05/q=true/r=1.50/s=2024-01-01 12%3A00%3A00/u=2024-01-01 12%3A00%3A00.25/w=-7"
    assert sql("SHOW PARTITIONS db.kinds") == [expected, "/".join(f"{c}=null" for c in "pqrsuw")]
    assert sql("SHOW PARTITIONS db.kinds PARTITION (p = DATE'2024-01-05', q = true)") == [expected]
    assert sql("SHOW PARTITIONS db.kinds PARTITION (w = null)") == ["/".join(f"{c}=null" for c in "pqrsuw")]


def test_show_create_table_makes_the_same_table_again(catalog: Catalog, spark: SparkSession) -> None:
    catalog.create_table(
        "db.`everything`",
        "`a b` INT NOT NULL COMMENT 'it\\'s \\\\ here', `c``d` STRING DEFAULT 'it\\'s', n BIGINT DEFAULT -3, "
        "b BOOLEAN DEFAULT true, dd DATE DEFAULT DATE'2024-01-05', e ARRAY<INT NOT NULL> NOT NULL, "
        "f STRUCT<`x y`: INT NOT NULL COMMENT 'in', z: MAP<STRING, DECIMAL(4,1)>>, g TIMESTAMP_LTZ(3), "
        "h TIMESTAMP_NTZ(9), i TIME(3), j VARCHAR(5), l VARBINARY(9), `grün` STRING, dt DATE",
        partition_keys=["dt", "grün"],
        options={"bucket": "4", "bucket-key": "a b", "file.format": "orc", "any.key": "it's\nso"},
        comment="über 'all'",
    )
    catalog.create_table("db.bare", "a INT")
    for name in ("db.t", "db.everything", "db.bare", "`o.d`.`odd name`"):
        old = catalog.table(name)
        ((text,),) = catalog.sql(f"SHOW CREATE TABLE {name}", session=spark).collect()
        moved = catalog.table(name).name.split(".")[-1]
        catalog.rename_table(name, "db.former")
        catalog.sql(text.replace("*********(redacted)", "hush"), session=spark)
        made = catalog.table(name)
        assert definition(made) == definition(old), moved
        catalog.drop_table("db.former")


def definition(table: Table) -> tuple[Any, ...]:
    schema = table.schema
    return schema.row_type, schema.partition_keys, schema.primary_keys, dict(schema.options), schema.comment


def test_use_makes_a_database_of_the_warehouse_or_of_spark_the_current_one(
    catalog: Catalog, spark: SparkSession, door: Door
) -> None:
    def sql(text: str) -> list[list[Any]]:
        return [list(row) for row in catalog.sql(text, session=spark).collect()]

    try:
        sql("USE db")
        assert sql("SHOW CURRENT NAMESPACE") == [["paimon", "db"]]
        assert sql("SHOW TABLES") == [["db", "t", False]]
        assert sql("DESC t v")[0] == ["col_name", "v"]
        sql("USE paimon.`o.d`")
        assert sql("SHOW TABLES") == [["`o.d`", "odd name", False]]
        with refused(catalog, DatabaseNotFoundError, match="did you mean 'db'"):
            sql("USE dbb")
        assert sql("SHOW CURRENT SCHEMA") == [["paimon", "`o.d`"]]
        sql("USE default")  # only Spark has it
        assert spark.conf.get(CURRENT, None) is None
        sql("USE DATABASE db")
        sql("USE paimon.default" if door.is_plain else "USE paimon")  # USE of the current catalog changes nothing
        assert sql("SHOW CURRENT NAMESPACE") == [["paimon", "default"]]
        spark.range(1).createOrReplaceTempView("of_spark")
        assert sql("DESC of_spark") == [["id", "bigint", None]]
        assert sql("SHOW COLUMNS IN of_spark") == [["id"]]
        if not door.is_plain:  # Spark asks the current catalog, which has no views
            assert ["of_spark"] in [row[1:2] for row in sql("SHOW VIEWS")]
    finally:
        spark.conf.unset(CURRENT)
        spark.catalog.dropTempView("of_spark")


def test_what_is_not_there_is_said_with_the_nearest_name(catalog: Catalog, spark: SparkSession, door: Door) -> None:
    wrong: list[tuple[Any, ...]] = [
        ("DESC db.tt", TableNotFoundError, "did you mean 't'"),
        ("DESC dbb.t", DatabaseNotFoundError, "did you mean 'db'"),
        ("DESC db.t idd", ColumnNotFoundError, "did you mean 'id'"),
        ("DESC db.t AS JSON", UnsupportedFeatureError, r"AS JSON is not supported for table db\.t\. Use Table\.schema"),
        ("DESC db.t id.x", UnsupportedFeatureError, "DESCRIBE db.t id"),
        ("DESC EXTENDED db.t PARTITION (dt = '2024-01-01')", InvalidInputError, "each partition column"),
        ("SHOW PARTITIONS db.t PARTITION (hh = 1, `HH` = 2)", SqlSyntaxError, "each column once", "DUPLICATE_KEY"),
        ("SHOW PARTITIONS db.t PARTITION (dt = 'no' OR hh = 1)", PredicateSyntaxError, "is not supported"),
        ("SHOW PARTITIONS db.t PARTITION (x = 1)", ColumnNotFoundError, "it has dt, hh"),
        ("SHOW PARTITIONS db.t PARTITION (hh = 'x')", PaimonError, "hh"),
        ("SHOW PARTITIONS db.t$files", UnsupportedFeatureError, "has no partitions"),
        ("SHOW CREATE TABLE db.t$files", UnsupportedFeatureError, "system table"),
        ("SHOW TABLES IN dbb", DatabaseNotFoundError, "did you mean 'db'"),
        ("SHOW TBLPROPERTIES db.tt", TableNotFoundError, "did you mean 't'"),
        ("REFRESH TABLE db.tt", TableNotFoundError, "did you mean 't'"),
    ]
    for text, kind, said, *plain in wrong:
        with refused(catalog, kind, match=said, plain=next(iter(plain), None)):
            catalog.sql(text, session=spark)
    extended = "SHOW TABLE EXTENDED IN db LIKE 't'"
    if door.is_plain:  # Spark has an answer of its own
        assert "Provider: paimon" in catalog.sql(extended).collect()[0].information
    else:
        with refused(catalog, UnsupportedFeatureError, match="use SHOW TABLES, DESCRIBE EXTENDED t"):
            catalog.sql(extended, session=spark)
    catalog.create_table("db.plain", "a INT")
    with refused(catalog, InvalidInputError, match="is not partitioned"):
        catalog.sql("SHOW PARTITIONS db.plain", session=spark)


def test_rows_of_statements_need_no_job(catalog: Catalog, spark: SparkSession) -> None:
    tracker = spark.sparkContext.statusTracker()
    spark.sparkContext.setJobGroup("shows", "statements that only show")
    try:
        found = catalog.sql("SHOW TABLES IN db", session=spark)
        assert [tuple(r) for r in found.collect()] == [("db", "t", False)]
        assert found.schema.simpleString() == "struct<namespace:string,tableName:string,isTemporary:boolean>"
        assert not any(field.nullable for field in found.schema)
        nothing = catalog.sql("COMMENT ON TABLE db.t IS 'x'", session=spark)
        assert (nothing.columns, nothing.collect()) == ([], [])
        assert list(tracker.getJobIdsForGroup("shows")) == []
    finally:
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]  # None removes it
