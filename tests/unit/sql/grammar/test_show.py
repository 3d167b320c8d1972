"""SHOW, DESCRIBE, USE and ANALYZE are read as Spark's grammar has them; types are written so that they come back."""

from __future__ import annotations

from typing import Any

import pytest

from paimon_spark.errors import SqlSyntaxError
from paimon_spark.metadata.definition.ddl import row_type
from paimon_spark.sql.commands.column_text import ddl_column
from paimon_spark.sql.commands.describe import spark_text
from paimon_spark.sql.commands.show import matching
from paimon_spark.sql.execute import parse
from paimon_spark.sql.grammar.show import (
    Analyze,
    Describe,
    DescribeDatabase,
    DescribeHistory,
    Refresh,
    ShowColumns,
    ShowCreateTable,
    ShowCurrent,
    ShowDatabases,
    ShowPartitions,
    ShowProcedures,
    ShowProperties,
    ShowTablePartition,
    ShowTables,
    Use,
    UseKind,
)
from paimon_spark.sql.statement import Query, UnsupportedStatement
from paimon_spark.types import BIGINT, INT, STRING, ArrayType, DataField, RowType

T = ("db", "t")


def described(**given: Any) -> dict[str, Any]:
    rest = {"version": None, "extended": False, "column": (), "partition": ()}
    return {"table": T, **rest, **given}


@pytest.mark.parametrize(
    ("sql", "kind", "given"),
    [
        ("DESCRIBE db.t", Describe, described()),
        ("desc table extended db.t", Describe, described(extended=True)),
        ("DESC FORMATTED `db`.`t`", Describe, described(extended=True)),
        ("DESC db.t$branch_fix", Describe, described(table=("db", "t$branch_fix"))),
        ("DESC db.t a.`b c`", Describe, described(column=("a", "b c"))),
        ("DESC db.t VERSION AS OF 'fix.v1' a", Describe, described(version="fix.v1", column=("a",))),
        ("DESC db.t VERSION AS OF 3", Describe, described(version="3")),
        (
            "DESC EXTENDED db.t PARTITION (dt = DATE'2024-01-01', `h h`=1)",
            Describe,
            described(extended=True, partition=(("dt", "DATE'2024-01-01'"), ("h h", "1"))),
        ),
        (
            "DESC EXTENDED db.t AS JSON",
            UnsupportedStatement,
            {"names": (T,), "feature": "DESCRIBE AS JSON", "instead": "Use Table.schema in Python"},
        ),
        ("DESC extended", Describe, described(table=("extended",))),
        ("DESC database", Describe, described(table=("database",))),
        ("DESC DATABASE EXTENDED db", DescribeDatabase, {"name": ("db",), "extended": True}),
        ("DESCRIBE NAMESPACE paimon.db", DescribeDatabase, {"name": ("paimon", "db"), "extended": False}),
        ("DESC HISTORY db.t", DescribeHistory, {"table": T, "limit": None}),
        ("DESCRIBE HISTORY t$branch_x LIMIT 3", DescribeHistory, {"table": ("t$branch_x",), "limit": 3}),
        ("DESCRIBE history", Describe, described(table=("history",))),
        ("SHOW PROCEDURES", ShowProcedures, {"database": ()}),
        ("SHOW PROCEDURES IN paimon.sys", ShowProcedures, {"database": ("paimon", "sys")}),
        ("SHOW CREATE TABLE db.t", ShowCreateTable, {"table": T}),
        ("SHOW COLUMNS IN db.t", ShowColumns, {"table": T}),
        ("SHOW COLUMNS FROM t IN db", ShowColumns, {"table": T}),
        ("SHOW COLUMNS FROM db.t FROM db", ShowColumns, {"table": T}),
        ("SHOW PARTITIONS db.t", ShowPartitions, {"table": T, "partition": ()}),
        ("SHOW PARTITIONS db.t PARTITION (a='x,y')", ShowPartitions, {"table": T, "partition": (("a", "'x,y'"),)}),
        ("SHOW TBLPROPERTIES db.t", ShowProperties, {"table": T, "key": None}),
        ("SHOW TBLPROPERTIES db.t ('a.b')", ShowProperties, {"table": T, "key": "a.b"}),
        ("SHOW TBLPROPERTIES db.t (file.format)", ShowProperties, {"table": T, "key": "file.format"}),
        ("SHOW TABLES", ShowTables, {"database": (), "pattern": None, "extended": False}),
        ("SHOW TABLES 'a*'", ShowTables, {"database": (), "pattern": "a*", "extended": False}),
        (
            "SHOW TABLE EXTENDED FROM db LIKE 't' PARTITION (a=1)",
            ShowTablePartition,
            {"table": T, "partition": (("a", "1"),)},
        ),
        (
            "SHOW TABLE EXTENDED FROM db LIKE 't*'",
            ShowTables,
            {"database": ("db",), "pattern": None, "extended": True},
        ),
        ("SHOW DATABASES", ShowDatabases, {"catalog": None, "pattern": None}),
        ("SHOW SCHEMAS IN paimon LIKE 'd*|e'", ShowDatabases, {"catalog": "paimon", "pattern": "d*|e"}),
        ("SHOW CURRENT NAMESPACE", ShowCurrent, {}),
        ("USE db", Use, {"name": ("db",), "kind": UseKind.ANY}),
        ("USE DATABASE `a.b`", Use, {"name": ("a.b",), "kind": UseKind.DATABASE}),
        ("USE schema", Use, {"name": ("schema",), "kind": UseKind.ANY}),
        ("SET CATALOG paimon", Use, {"name": ("paimon",), "kind": UseKind.CATALOG}),
        ("REFRESH TABLE db.t", Refresh, {"table": T}),
        (
            "ANALYZE TABLE db.t COMPUTE STATISTICS",
            Analyze,
            {"table": T, "columns": ()},
        ),
        (
            "ANALYZE TABLE db.t PARTITION (a=1) COMPUTE STATISTICS NOSCAN",
            UnsupportedStatement,
            {
                "names": (T,),
                "feature": "ANALYZE TABLE PARTITION",
                "instead": "Paimon's statistics are of all rows of a snapshot; leave PARTITION out. Counts by file and "
                "partition are in db.t$files and db.t$partitions",
            },
        ),
        (
            "ANALYZE TABLE db.t COMPUTE STATISTICS FOR COLUMNS a, `b c`",
            Analyze,
            {"table": T, "columns": ("a", "b c")},
        ),
        (
            "ANALYZE TABLE db.t COMPUTE STATISTICS FOR ALL COLUMNS",
            Analyze,
            {"table": T, "columns": None},
        ),
    ],
)
def test_a_statement_is_read(sql: str, kind: Any, given: dict[str, Any]) -> None:
    assert parse(sql) == kind(sql, **given)


@pytest.mark.parametrize(
    "sql",
    [
        "DESC FUNCTION abs",
        "DESCRIBE QUERY SELECT 1",
        "DESCRIBE SELECT 1",
        "DESC WITH a AS (SELECT 1) SELECT * FROM a",
        "ANALYZE TABLES IN db COMPUTE STATISTICS",
        "REFRESH '/a/path'",
        "SET spark.sql.shuffle.partitions = 2",
        "SHOW FUNCTIONS IN db",
    ],
)
def test_what_is_of_no_table_is_left_to_spark(sql: str) -> None:
    assert parse(sql) == Query(sql)


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("DESC", "expected the name of a table, found the end"),
        ("DESC t a b", "expected the end of the statement"),
        ("SHOW COLUMNS t", "expected IN or FROM"),
        ("SHOW COLUMNS IN a.t IN b", "table a.t is not in database b"),
        ("SHOW TABLES LIKE x", "expected a pattern in quotes"),
        ("SHOW PARTITIONS t PARTITION (a)", "expected a value of a"),
        ("SHOW PARTITIONS t PARTITION (a=)", "expected an expression"),
        ("SHOW CURRENT DAY", "expected NAMESPACE"),
        ("USE a b", "expected the end of the statement"),
    ],
)
def test_what_is_written_wrongly_is_said(sql: str, said: str) -> None:
    with pytest.raises(SqlSyntaxError, match=said):
        parse(sql)


def test_patterns_of_show_know_stars_and_alternatives_in_any_case() -> None:
    names = ["Orders", "orders_old", "users", "a.b"]
    assert list(matching(names, None)) == names
    assert list(matching(names, "ORDERS*")) == ["Orders", "orders_old"]
    assert list(matching(names, "users|orders")) == ["Orders", "users"]
    assert list(matching(names, "a.b")) == ["a.b"]
    assert list(matching(names, "(")) == []


TYPES = [
    "BOOLEAN",
    "TINYINT",
    "SMALLINT",
    "INT",
    "BIGINT",
    "FLOAT",
    "DOUBLE",
    "DATE",
    "STRING",
    "CHAR(3)",
    "VARCHAR(7)",
    "BINARY",
    "BINARY(4)",
    "VARBINARY(9)",
    "DECIMAL(10,2)",
    "TIME(3)",
    "TIMESTAMP",
    "TIMESTAMP_NTZ",
    "TIMESTAMP_LTZ(3)",
    "TIMESTAMP_NTZ(9)",
    "VARIANT",
    "ARRAY<INT>",
    "MAP<STRING,ARRAY<CHAR(2)>>",
    "MULTISET<INT>",
    "STRUCT<a:INT,b:STRUCT<c:TIMESTAMP_NTZ(0)>>",
]


def columns(text: str) -> RowType:
    return row_type(text)


def test_every_column_is_written_so_that_the_same_comes_back() -> None:
    stated = [f"c{i} {text}" for i, text in enumerate(TYPES)]
    stated += [
        "`a b` INT NOT NULL COMMENT 'it\\'s \\\\ here'",
        "`c``d` STRING DEFAULT '7'",
        "`1` INT DEFAULT -3",
        "`grün` BOOLEAN DEFAULT true COMMENT 'über'",
        "d DATE DEFAULT DATE'2024-01-05'",
        "e ARRAY<INT NOT NULL> NOT NULL",
        "f STRUCT<`x y`: INT NOT NULL COMMENT 'in \\'side\\'', z: STRING>",
    ]
    made = columns(", ".join(stated))
    assert columns(",\n  ".join(ddl_column(field) for field in made)) == made


def test_types_are_shown_with_sparks_words() -> None:
    shown = [spark_text(field.type) for field in columns("a CHAR(3), b VARCHAR(7), c STRING, d BINARY(4), e TIME(3)")]
    assert shown == ["char(3)", "varchar(7)", "string", "binary", "int"]
    inner = RowType(fields=(DataField(0, "x", ArrayType(element=STRING)), DataField(1, "y", BIGINT)))
    assert spark_text(inner) == "struct<x:array<string>,y:bigint>"
    assert ddl_column(DataField(0, "n", INT.with_nullable(False), "", None)) == "n INT NOT NULL"


@pytest.mark.parametrize(
    ("sql", "verb", "instead"),
    [
        ("OPTIMIZE db.t WHERE a = 1", "OPTIMIZE", ["CALL sys.compact(table => 'db.t', where => 'a = 1')"]),
        (
            "VACUUM db.t RETAIN 3 HOURS DRY RUN",
            "VACUUM",
            [
                "older_than => current_timestamp() - INTERVAL 3 HOURS, dry_run => true)",
                "CALL sys.remove_orphan_files(table => 'db.t', dry_run => true)",
            ],
        ),
        ("RESTORE TABLE db.t TO VERSION AS OF 1", "RESTORE", ["CALL sys.rollback(table => 'db.t', version => '1')"]),
        ("RESTORE db.t TO TIMESTAMP AS OF '2024-01-01'", "RESTORE", ["CALL sys.rollback_to_as_latest("]),
    ],
)
def test_statements_of_delta_lake_name_the_procedure_instead(sql: str, verb: str, instead: list[str]) -> None:
    found = parse(sql)

    assert isinstance(found, UnsupportedStatement)
    assert (found.names, found.feature) == ((T,), verb)
    assert all(text in found.instead for text in instead)


@pytest.mark.parametrize(
    "sql", ["VACUUM '/data/t' RETAIN 0 HOURS", "OPTIMIZE delta.`/data/t`", "RESTORE TABLE '/t' TO 1"]
)
def test_a_table_of_delta_lake_by_its_path_is_left_to_spark(sql: str) -> None:
    assert isinstance(parse(sql), Query)
