"""Statements on definitions of tables and databases are read as they are written."""

from __future__ import annotations

from typing import Any

import pytest

from paimon_spark.errors import InvalidInputError, PaimonError, SqlSyntaxError, UnsupportedFeatureError
from paimon_spark.metadata.definition.ddl import data_type, row_type
from paimon_spark.metadata.definition.schema_changes import (
    AddColumn,
    After,
    DropColumn,
    First,
    MoveColumn,
    RemoveOption,
    RenameColumn,
    SetOption,
    UpdateComment,
    UpdateDefault,
    UpdateNullability,
    UpdateTableComment,
    UpdateType,
)
from paimon_spark.sql.execute import parse
from paimon_spark.sql.grammar.alter_table import (
    AddPartitions,
    AlterTable,
    CommentOnColumn,
    DropPartitions,
    DropTable,
    RenameTable,
)
from paimon_spark.sql.grammar.create import (
    AlterDatabase,
    CreateDatabase,
    CreateTable,
    CreateTableLike,
    CreateView,
    DropDatabase,
    DropView,
)
from paimon_spark.sql.requests import CreateMode
from paimon_spark.sql.statement import InvalidStatement, Query
from paimon_spark.types import BIGINT, INT, STRING


def changes(action: str) -> list[Any]:
    statement = parse(f"ALTER TABLE t {action}")
    assert isinstance(statement, AlterTable), statement
    assert statement.table == ("t",)
    return list(statement.changes)


def test_a_table_with_every_clause_is_read() -> None:
    sql = """create table if not exists paimon.`my db`.t (
        id BIGINT NOT NULL COMMENT 'it''s the key', -- a comment
        `odd, name` DECIMAL(10, 2) DEFAULT -1.5,
        s STRUCT<a: INT COMMENT 'x, y', b: ARRAY<MAP<STRING, INT>>>,
        after STRING DEFAULT 'FIRST',
        dt STRING
    ) USING Paimon PARTITIONED BY (dt) COMMENT 'all "of" it' LOCATION '/w/t'
    OPTIONS (bucket 2, 'file.format' = 'orc') TBLPROPERTIES ('primary-key' = 'id,dt', a.b = true, n = -1);"""
    found = parse(sql)
    assert isinstance(found, CreateTable)
    assert found.table == ("paimon", "my db", "t")
    assert found.request.mode is CreateMode.IF_NOT_EXISTS
    assert found.request.columns == row_type(
        "id BIGINT NOT NULL COMMENT 'it''s the key', `odd, name` DECIMAL(10, 2) DEFAULT -1.5, "
        "s STRUCT<a: INT COMMENT 'x, y', b: ARRAY<MAP<STRING, INT>>>, after STRING DEFAULT 'FIRST', dt STRING"
    )
    assert found.request.partition == ("dt",)
    assert found.request.properties == {
        "bucket": "2",
        "file.format": "orc",
        "primary-key": "id,dt",
        "a.b": "true",
        "n": "-1",
    }
    assert (found.request.comment, found.request.location, found.request.provider) == ('all "of" it', "/w/t", "Paimon")
    assert found.query is None


def test_partition_columns_of_hive_stand_behind_the_others() -> None:
    found = parse("CREATE TABLE t (a INT) PARTITIONED BY (dt STRING COMMENT 'day', h INT)")
    assert isinstance(found, CreateTable)
    assert found.request.columns == row_type("a INT, dt STRING COMMENT 'day', h INT")
    assert found.request.partition == ("dt", "h")


@pytest.mark.parametrize(
    ("sql", "query"),
    [
        ("CREATE TABLE t AS SELECT 1 AS a", "SELECT 1 AS a"),
        ("CREATE TABLE t SELECT 1 AS a", "SELECT 1 AS a"),
        ("CREATE TABLE t USING paimon AS (SELECT 1 AS a)", "(SELECT 1 AS a)"),
        ("CREATE TABLE t (SELECT 1 AS a)", "(SELECT 1 AS a)"),
        ("CREATE TABLE t PARTITIONED BY (dt) AS WITH x AS (SELECT 1) FROM x", "WITH x AS (SELECT 1) FROM x"),
        ("CREATE OR REPLACE TABLE t TBLPROPERTIES ('a' = 'b') AS VALUES (1), (2)", "VALUES (1), (2)"),
        ("REPLACE TABLE t AS FROM x SELECT a", "FROM x SELECT a"),
    ],
)  # fmt: skip
def test_the_query_of_a_table_is_cut_out(sql: str, query: str) -> None:
    found = parse(sql)
    assert isinstance(found, CreateTable)
    assert (found.query, found.request.columns) == (query, None)


def test_words_of_queries_may_be_names_of_columns() -> None:
    found = parse("CREATE TABLE t (`from` INT, values STRING)")
    assert isinstance(found, CreateTable)
    assert found.request.columns is not None
    assert found.request.columns.names == ("from", "values")
    found = parse("CREATE TABLE t (table STRING, first INT)")
    assert isinstance(found, CreateTable)
    assert found.request.columns is not None
    assert found.request.columns.names == ("table", "first")


def test_a_table_like_another_is_read() -> None:
    found = parse("CREATE TABLE IF NOT EXISTS a.t LIKE `s$branch_fix` USING paimon TBLPROPERTIES ('bucket' = '8')")
    assert found == CreateTableLike(found.sql, ("a", "t"), ("s$branch_fix",), True, {"bucket": "8"}, None, "paimon")


def test_tables_and_databases_are_dropped_made_and_altered() -> None:
    for sql, expected in [
        ("DROP TABLE IF EXISTS a.t PURGE", DropTable("", ("a", "t"), True)),
        ("DROP TABLE t$branch_x", DropTable("", ("t$branch_x",))),
        ("CREATE SCHEMA IF NOT EXISTS x", CreateDatabase("", ("x",), True)),
        (
            "CREATE DATABASE paimon.x COMMENT 'c' LOCATION '/x.db' WITH DBPROPERTIES ('a' = 'b')",
            CreateDatabase("", ("paimon", "x"), False, "/x.db", ("COMMENT", "PROPERTIES")),
        ),
        ("DROP NAMESPACE IF EXISTS x CASCADE", DropDatabase("", ("x",), True, True)),
        ("DROP DATABASE x RESTRICT", DropDatabase("", ("x",))),
        ("ALTER DATABASE x SET LOCATION '/y'", AlterDatabase("", ("x",))),
        ("CREATE VIEW v AS SELECT 1", CreateView("", ("v",), "SELECT 1")),
        (
            "CREATE OR REPLACE VIEW db.v (a COMMENT 'x', `b c`) COMMENT 'c' TBLPROPERTIES ('k' = '1') AS SELECT 1, 2",
            CreateView("", ("db", "v"), "SELECT 1, 2", True, False, (("a", "x"), ("b c", None)), "c", {"k": "1"}),
        ),
        (
            "CREATE VIEW IF NOT EXISTS v WITH SCHEMA BINDING AS WITH a AS (SELECT 1) SELECT * FROM a",
            CreateView(
                "", ("v",), "WITH a AS (SELECT 1) SELECT * FROM a", if_not_exists=True, other="WITH SCHEMA BINDING"
            ),
        ),
        ("DROP VIEW IF EXISTS db.v", DropView("", ("db", "v"), True)),
        ("DROP VIEW v", DropView("", ("v",), False)),
        ("ALTER TABLE a.t RENAME TO paimon.b.u", RenameTable("", ("a", "t"), ("paimon", "b", "u"))),
        (
            "ALTER TABLE t DROP IF EXISTS PARTITION (dt = '2024-01-01', h = -5), PARTITION (dt = NULL) PURGE",
            DropPartitions("", ("t",), ({"dt": "2024-01-01", "h": "-5"}, {"dt": None}), True),
        ),
        (
            "ALTER TABLE t DROP PARTITION (dt = DATE '2024-01-01', b = TRUE)",
            DropPartitions("", ("t",), ({"dt": "2024-01-01", "b": "true"},)),
        ),
        (
            "ALTER TABLE t ADD IF NOT EXISTS PARTITION (a = 1) PARTITION (a = 2)",
            AddPartitions("", ("t",), ({"a": "1"}, {"a": "2"})),
        ),
    ]:
        found: Any = parse(sql)
        assert type(found) is type(expected), sql
        for name in type(expected).__dataclass_fields__:
            if name != "sql":
                assert getattr(found, name) == getattr(expected, name), sql


def test_columns_and_properties_are_altered() -> None:
    for action, expected in [
        ("SET TBLPROPERTIES ('a' = '1', 'comment' = 'c')", [SetOption("a", "1"), UpdateTableComment("c")]),
        ("UNSET TBLPROPERTIES IF EXISTS ('a', 'comment')", [RemoveOption("a"), UpdateTableComment(None)]),
        ("ADD COLUMN c INT", [AddColumn(("c",), INT)]),
        (
            "ADD COLUMNS (c1 INT COMMENT 'one' FIRST, `c.2` STRING AFTER c1)",
            [AddColumn(("c1",), INT, "one", None, First()), AddColumn(("c.2",), STRING, None, None, After("c1"))],
        ),
        ("ADD COLUMN v.element.f STRING AFTER g", [AddColumn(("v", "element", "f"), STRING, None, None, After("g"))]),
        ("ADD COLUMN s STRUCT<a: INT, first: INT> AFTER b COMMENT 'c'",
         [AddColumn(("s",), data_type("STRUCT<a: INT, first: INT>"), "c", None, After("b"))]),
        ("RENAME COLUMN v.f1 TO `f 100`", [RenameColumn(("v", "f1"), "f 100")]),
        ("DROP COLUMNS (c1, v.f2)", [DropColumn(("c1",)), DropColumn(("v", "f2"))]),
        ("DROP COLUMN a, b", [DropColumn(("a",)), DropColumn(("b",))]),
        ("ALTER COLUMN v.value.f2 TYPE BIGINT", [UpdateType(("v", "value", "f2"), BIGINT, keep_nullability=True)]),
        ("ALTER a COMMENT 'buy count'", [UpdateComment(("a",), "buy count")]),
        ("ALTER COLUMN a FIRST", [MoveColumn(("a",), First())]),
        ("ALTER COLUMN a AFTER `b`", [MoveColumn(("a",), After("b"))]),
        ("ALTER COLUMN a SET NOT NULL", [UpdateNullability(("a",), False)]),
        ("ALTER COLUMN a DROP NOT NULL", [UpdateNullability(("a",), True)]),
        ("ALTER COLUMN a SET DEFAULT 'x'", [UpdateDefault(("a",), "'x'")]),
        ("ALTER COLUMN a DROP DEFAULT", [UpdateDefault(("a",), None)]),
        ("ALTER COLUMN a TYPE DECIMAL(10, 2) COMMENT 'c', b AFTER a",
         [UpdateType(("a",), data_type("DECIMAL(10, 2)"), keep_nullability=True), UpdateComment(("a",), "c"),
          MoveColumn(("b",), After("a"))]),
        ("CHANGE COLUMN a A BIGINT COMMENT 'c' FIRST",
         [UpdateType(("a",), BIGINT, keep_nullability=True), UpdateComment(("a",), "c"), MoveColumn(("a",), First())]),
        ("CHANGE a TYPE BIGINT", [UpdateType(("a",), BIGINT, keep_nullability=True)]),
    ]:  # fmt: skip
        assert changes(action) == expected, action


def test_comments_are_of_tables_and_columns() -> None:
    sql = "COMMENT ON TABLE db.t IS 'all ' 'orders'"
    assert parse(sql) == AlterTable(sql, ("db", "t"), (UpdateTableComment("all orders"),))
    sql = "COMMENT ON TABLE t$branch_x IS NULL"
    assert parse(sql) == AlterTable(sql, ("t$branch_x",), (UpdateTableComment(None),))
    assert parse("COMMENT ON COLUMN db.t.a IS 'x'") == CommentOnColumn(
        "COMMENT ON COLUMN db.t.a IS 'x'", ("db", "t", "a"), "x"
    )
    assert isinstance(parse("COMMENT ON DATABASE db IS 'x'"), AlterDatabase)
    with pytest.raises(SqlSyntaxError, match="expected text in quotes, or NULL"):
        parse("COMMENT ON TABLE db.t IS x")


def test_statements_of_tags_and_branches_are_of_another_family() -> None:
    for action in ["CREATE TAG x", "CREATE OR REPLACE BRANCH x", "DROP BRANCH x", "RENAME TAG a TO b", "REPLACE TAG x",
                   "DELETE TAG `a,b`"]:  # fmt: skip
        assert type(parse(f"ALTER TABLE t {action}")).__module__ == "paimon_spark.sql.grammar.tags_and_branches", action
    for sql in [
        "CREATE TEMPORARY VIEW v AS SELECT 1",
        "CREATE FUNCTION f AS 'x'",
        "ALTER VIEW v AS SELECT 1",
    ]:
        assert parse(sql) == Query(sql), sql


@pytest.mark.parametrize(
    ("sql", "kind", "message"),
    [
        ("CREATE TABLE t (a INT", SqlSyntaxError, "expected ',' or ')', found the end"),
        ("CREATE TABLE t", SqlSyntaxError, "expected the columns of the table in brackets, or AS and a query"),
        ("CREATE TABLE t (a INT) TBLPROPERTIES ('a')", SqlSyntaxError, "a value of property 'a' in quotes, found ')'"),
        ("CREATE TABLE t (a INT) COMMENT 'x' COMMENT 'y'", SqlSyntaxError, "COMMENT is given twice"),
        ("CREATE TABLE t (a INT, A STRING)", InvalidInputError, "column 'a' is defined twice"),
        ("CREATE TABLE t (a INTT)", UnsupportedFeatureError, "INTT"),
        ("CREATE TABLE t (a INT) AS SELECT 1", SqlSyntaxError, "takes its columns from the query"),
        ("CREATE TABLE t (a INT) PARTITIONED BY (days(a))", UnsupportedFeatureError, "partitions by days(a)"),
        ("CREATE TABLE t (a INT) PARTITIONED BY (a, b INT)", SqlSyntaxError, "not both"),
        ("CREATE TABLE t (a INT) CLUSTERED BY (a) INTO 4 BUCKETS", UnsupportedFeatureError, "'bucket-key'"),
        ("CREATE TABLE t (a INT PRIMARY KEY)", UnsupportedFeatureError, "'primary-key' = 'a'"),
        ("CREATE TABLE t (a INT, PRIMARY KEY (a) NOT ENFORCED)", UnsupportedFeatureError, "'primary-key'"),
        ("CREATE TABLE t (a INT, b INT GENERATED ALWAYS AS (a + 1))", UnsupportedFeatureError, "generated columns"),
        ("CREATE TABLE t (a INT DEFAULT current_date())", UnsupportedFeatureError, "a default is a literal"),
        ("CREATE TABLE t LIKE s COMMENT 'x'", SqlSyntaxError, "USING, TBLPROPERTIES or LOCATION"),
        ("ALTER TABLE t FROB", SqlSyntaxError, "found 'FROB' at position 15"),
        ("ALTER TABLE t ADD COLUMN c INT DEFAULT 1", UnsupportedFeatureError, "SET DEFAULT"),
        ("ALTER TABLE t ADD COLUMN c", SqlSyntaxError, "the type of column c"),
        ("ALTER TABLE t RENAME COLUMN a TO b.c", SqlSyntaxError, "one name"),
        ("ALTER TABLE t REPLACE COLUMNS (a INT)", UnsupportedFeatureError, "ADD, DROP, RENAME or ALTER"),
        ("ALTER TABLE t CHANGE a b INT", UnsupportedFeatureError, "RENAME COLUMN a TO b"),
        ("ALTER TABLE t SET LOCATION '/x'", UnsupportedFeatureError, "stays in its place"),
        ("ALTER TABLE t RECOVER PARTITIONS", UnsupportedFeatureError, "need no recovery"),
        ("ALTER TABLE t DROP PARTITION (a > 1)", SqlSyntaxError, "'=' and a value"),
        ("ALTER TABLE t DROP PARTITION (a = 1, a = 2)", SqlSyntaxError, "each column once, not a again"),
        ("ALTER TABLE t ADD PARTITION (a = 1) LOCATION '/x'", UnsupportedFeatureError, "own directory"),
        ("ALTER TABLE t SET TBLPROPERTIES ('a' = '1', 'a' = '2')", SqlSyntaxError, "'a' is given twice"),
        ("MSCK REPAIR TABLE t SYNC PARTITIONS", UnsupportedFeatureError, "need no repair"),
        ("DROP TABLE t CASCADE", SqlSyntaxError, "expected the end of the statement, found 'CASCADE'"),
    ],
)
def test_what_is_wrong_is_told_once_it_is_known_whose_the_table_is(
    sql: str, kind: type[PaimonError], message: str
) -> None:
    found = parse(sql)
    assert isinstance(found, InvalidStatement), found
    assert found.table == ("t",)
    assert isinstance(found.error, kind), repr(found.error)
    assert message in found.error.message


@pytest.mark.parametrize("sql", ["CREATE TABLE", "DROP TABLE 'x'", "CREATE DATABASE d FROB", "DROP DATABASE d x"])
def test_a_statement_without_its_name_is_wrong_for_everybody(sql: str) -> None:
    with pytest.raises(SqlSyntaxError):
        parse(sql)


def test_the_format_is_known_even_when_the_rest_cannot_be_read() -> None:
    found = parse("CREATE TABLE t (a INT COLLATE X, b frob<>) USING parquet CLUSTERED BY (a) INTO 2 BUCKETS")
    assert isinstance(found, InvalidStatement)
    assert (found.creates, found.provider) == (True, "parquet")
    found = parse("CREATE TABLE t (a INT) STORED AS ORC")
    assert isinstance(found, InvalidStatement)
    assert found.provider == "hive"
