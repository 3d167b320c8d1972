"""Statements that change rows are read word by word; what Spark is to read stays as it was written."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from paimon_spark.errors import SqlSyntaxError
from paimon_spark.spark.merge_clauses import Verb, When
from paimon_spark.sql.commands.expressions import bind_parameters, partition_condition, replace_qualifier, with_defaults
from paimon_spark.sql.execute import parse
from paimon_spark.sql.grammar.clauses import Assignment
from paimon_spark.sql.grammar.write import (
    Delete,
    Insert,
    Merge,
    Truncate,
    Update,
    WhenClause,
)
from paimon_spark.sql.requests import InsertRequest
from paimon_spark.sql.session import Session
from paimon_spark.sql.statement import Query, UnsupportedStatement
from paimon_spark.types import INT, STRING, DataField

T = ("db", "t")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("INSERT INTO db.t VALUES (1, 'a;b')", {"query": "VALUES (1, 'a;b')"}),
        ("insert into table db.t select 1", {"query": "select 1"}),
        ("INSERT OVERWRITE db.t TABLE x.y", {"query": "SELECT * FROM x.y", "overwrites": True}),
        ("INSERT OVERWRITE TABLE db.t FROM x SELECT a", {"query": "FROM x SELECT a", "overwrites": True}),
        ("INSERT INTO db.t (SELECT 1)", {"query": "(SELECT 1)"}),
        ("INSERT INTO db.t (a, `B c`) SELECT 1, 2", {"query": "SELECT 1, 2", "columns": ("a", "B c")}),
        ("INSERT INTO db.t (select, b) VALUES (1, 2)", {"query": "VALUES (1, 2)", "columns": ("select", "b")}),
        ("INSERT INTO db.t BY NAME SELECT 1 a", {"query": "SELECT 1 a", "by_name": True}),
        (
            "INSERT OVERWRITE db.t PARTITION (p = 'x,y', q = DATE '2024-01-01', r) (a) SELECT 1",
            {
                "query": "SELECT 1",
                "overwrites": True,
                "columns": ("a",),
                "partition": {"p": "'x,y'", "q": "DATE '2024-01-01'", "r": None},
            },
        ),
        (
            "INSERT OVERWRITE db.t PARTITION (p = 1) IF NOT EXISTS SELECT 1",
            {"query": "SELECT 1", "overwrites": True, "partition": {"p": "1"}, "if_not_exists": True},
        ),
        (
            "INSERT INTO db.t REPLACE WHERE p = 1 SELECT 1, 1",
            {"query": "SELECT 1, 1", "overwrites": True, "replace_where": "p = 1"},
        ),
        (
            "INSERT INTO db.t WITH ('a.b' = 'true', c.d-e 5) SELECT 1",
            {"query": "SELECT 1", "options": {"a.b": "true", "c.d-e": "5"}},
        ),
        ("INSERT INTO db.t WITH s AS (SELECT 1) SELECT * FROM s", {"query": "WITH s AS (SELECT 1) SELECT * FROM s"}),
        ("WITH s AS (SELECT 1) INSERT INTO db.t SELECT * FROM s", {"query": "WITH s AS (SELECT 1) SELECT * FROM s"}),
        ("FROM x y INSERT INTO db.t SELECT a WHERE b", {"query": "FROM x y SELECT a WHERE b"}),
        (
            "FROM (SELECT 1 AS a) INSERT OVERWRITE TABLE db.t PARTITION (p = 1) SELECT a",
            {"query": "FROM (SELECT 1 AS a) SELECT a", "overwrites": True, "partition": {"p": "1"}},
        ),
        (
            "WITH s AS (SELECT 1 AS a) FROM s INSERT INTO db.t SELECT a",
            {"query": "WITH s AS (SELECT 1 AS a) FROM s SELECT a"},
        ),
    ],
)
def test_an_insert_says_what_goes_where(words: str, expected: dict[str, Any]) -> None:
    query = expected.pop("query")
    assert parse(words) == Insert(words, T, query, InsertRequest(**expected))


@pytest.mark.parametrize(
    "words",
    [
        "INSERT OVERWRITE DIRECTORY '/x' USING csv SELECT 1",
        "INSERT INTO IDENTIFIER('a.' || 'b') SELECT 1",
        "WITH s AS (SELECT 1) SELECT * FROM s",
        "FROM t SELECT a",
    ],
)
def test_what_is_no_change_of_rows_is_left_to_spark(words: str) -> None:
    assert parse(words) == Query(words)


def test_a_delete_an_update_and_a_truncate_are_read() -> None:
    def read(words: str) -> Any:
        statement = parse(words)
        assert statement.sql == words
        return statement

    assert read("DELETE FROM db.t") == Delete("DELETE FROM db.t", T)
    found = read("DELETE FROM db.t AS `x y` WHERE a IN (SELECT b FROM u WHERE c) AND d")
    assert (found.alias, found.where) == ("x y", "a IN (SELECT b FROM u WHERE c) AND d")
    assert read("DELETE FROM db.t x WHERE a").alias == "x"
    found = read("WITH q AS (SELECT 1) DELETE FROM db.t WHERE a IN (SELECT * FROM q)")
    assert found.prefix == "WITH q AS (SELECT 1)"
    found = read("UPDATE db.t SET a = f(1, 2), s.`c 2` = CASE WHEN x THEN 1 END, b = DEFAULT WHERE y = 'WHERE'")
    assert isinstance(found, Update) and found.where == "y = 'WHERE'" and found.alias is None
    assert found.assignments == (
        Assignment(("a",), "f(1, 2)"),
        Assignment(("s", "c 2"), "CASE WHEN x THEN 1 END"),
        Assignment(("b",), "DEFAULT"),
    )
    found = read("TRUNCATE TABLE t$branch_fix PARTITION (dt = '2024-01-01')")
    assert isinstance(found, Truncate)
    assert (found.table, found.partition) == (("t$branch_fix",), {"dt": "'2024-01-01'"})


def test_a_merge_keeps_its_clauses_in_order() -> None:
    words = """MERGE INTO db.t AS a USING (SELECT * FROM u JOIN w ON u.x = w.x) AS b ON a.id = b.id AND CASE WHEN
        a.v THEN true ELSE b.end END
    WHEN MATCHED AND a.v = CASE WHEN b.v = 1 THEN 2 END THEN UPDATE SET v = b.v, a.s.f = 1
    WHEN MATCHED AND b.gone THEN DELETE
    WHEN MATCHED THEN UPDATE SET *
    WHEN NOT MATCHED BY TARGET AND b.v > 1 THEN INSERT (id, v) VALUES (b.id, coalesce(b.v, 0))
    WHEN NOT MATCHED THEN INSERT *
    WHEN NOT MATCHED BY SOURCE AND a.v = 1 THEN UPDATE SET v = DEFAULT
    WHEN NOT MATCHED BY SOURCE THEN DELETE"""
    found = parse(words)
    assert isinstance(found, Merge)
    assert (found.table, found.alias, found.source_alias) == (T, "a", "b")
    assert found.source == "(SELECT * FROM u JOIN w ON u.x = w.x) AS b"
    assert found.condition.startswith("a.id = b.id AND CASE") and found.condition.endswith("b.end END")
    both, source, target = When.MATCHED, When.NOT_MATCHED, When.NOT_MATCHED_BY_SOURCE
    assert found.clauses == (
        WhenClause(
            both,
            Verb.UPDATE,
            "a.v = CASE WHEN b.v = 1 THEN 2 END",
            (Assignment(("v",), "b.v"), Assignment(("a", "s", "f"), "1")),
        ),
        WhenClause(both, Verb.DELETE, "b.gone"),
        WhenClause(both, Verb.UPDATE),
        WhenClause(
            source, Verb.INSERT, "b.v > 1", (Assignment(("id",), "b.id"), Assignment(("v",), "coalesce(b.v, 0)"))
        ),
        WhenClause(source, Verb.INSERT),
        WhenClause(target, Verb.UPDATE, "a.v = 1", (Assignment(("v",), "DEFAULT"),)),
        WhenClause(target, Verb.DELETE),
    )


@pytest.mark.parametrize(
    ("source", "alias"),
    [
        ("u", "u"),
        ("x.u", "u"),
        ("x.u$branch_b", "u$branch_b"),
        ("u AS s", "s"),
        ("x.u `s t`", "s t"),
        ("(SELECT 1)", None),
        ("(SELECT 1) s", "s"),
        ("(VALUES (1)) AS s(a, b)", "s"),
        ("x.u s (a)", "s"),
        ("x.u VERSION AS OF 3", "u"),
        ("x.u VERSION AS OF 3 AS s", "s"),
        ("x.u VERSION AS OF v1", "u"),
        ("x.u WITH ('scan.mode' = 'latest')", "u"),
        ("x.u s WITH ('scan.mode' = 'latest')", "s"),
        ("f(1)", None),
        ("f(1) s", "s"),
    ],
)
def test_the_source_of_a_merge_is_called_by_its_alias_or_its_name(source: str, alias: str | None) -> None:
    found = parse(f"MERGE INTO t USING {source} ON 1 = 1 WHEN MATCHED THEN DELETE")
    assert isinstance(found, Merge)
    assert (found.source, found.source_alias) == (source, alias)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("INSERT db.t VALUES (1)", "expected INTO or OVERWRITE, found 'db'"),
        ("INSERT INTO db.t", "expected a query, VALUES or TABLE, found the end"),
        ("INSERT INTO db.t (t.a) VALUES (1)", "names of columns without the table's"),
        ("INSERT INTO db.t PARTITION (a = 1, A = 2) SELECT 1", "each column once, not A again"),
        ("DELETE FROM t WHERE", "expected an expression, found the end"),
        ("UPDATE t v = 1", "expected SET, found '='"),
        ("UPDATE t SET v 1", "expected =, found '1'"),
        ("TRUNCATE TABLE t PARTITION (dt)", "expected a value of dt"),
        ("TRUNCATE TABLE t WHERE x", "expected the end of the statement, found 'WHERE'"),
        ("MERGE INTO t USING s ON 1 = 1", "expected WHEN MATCHED or WHEN NOT MATCHED"),
        ("MERGE INTO t USING s ON 1 = 1 WHEN NOT MATCHED THEN DELETE", "expected INSERT, found 'DELETE'"),
        ("MERGE INTO t USING s ON 1 = 1 WHEN MATCHED THEN INSERT *", "expected UPDATE SET, found 'INSERT'"),
        ("MERGE INTO t USING s ON 1 = 1 WHEN NOT MATCHED THEN INSERT (a, b) VALUES (1)", "expected 2 values"),
        (
            "MERGE INTO t USING s ON 1 = 1 WHEN MATCHED THEN DELETE WHEN MATCHED AND a THEN DELETE",
            "a condition in every WHEN MATCHED but the last",
        ),
    ],
)
def test_a_statement_that_is_written_wrongly_says_where(words: str, message: str) -> None:
    with pytest.raises(SqlSyntaxError, match=message.replace("*", r"\*")):
        parse(words)


@pytest.mark.parametrize(
    ("words", "feature", "names"),
    [
        ("COPY INTO db.t FROM '/x' FILE_FORMAT = (TYPE = CSV)", "COPY INTO", (T,)),
        ("COPY INTO '/x' FROM db.t FILE_FORMAT = (TYPE = CSV)", "COPY INTO", ()),
        ("LOAD DATA LOCAL INPATH '/x' OVERWRITE INTO TABLE db.t", "LOAD DATA", (T,)),
        ("INSERT INTO db.t REPLACE ON x = y SELECT 1", "INSERT INTO … REPLACE other than REPLACE WHERE", (T,)),
        (
            "FROM x INSERT INTO db.t SELECT a INSERT OVERWRITE TABLE u SELECT b WHERE c",
            "several INSERTs",
            (T, ("u",)),
        ),
    ],
)
def test_what_is_not_supported_is_named(words: str, feature: str, names: tuple[Any, ...]) -> None:
    found = parse(words)
    assert isinstance(found, UnsupportedStatement)
    assert found.feature.startswith(feature) and found.names == names and found.instead


def test_a_qualified_column_is_found_among_other_names() -> None:
    names = [("paimon", "db", "t"), ("db", "t")]
    text = "db.t.a = `DB`.`t`.`b c` AND u.db.t.a = 'db.t.a' AND paimon.db.t.x.y = db.t AND 1.5 > t.a"
    assert replace_qualifier(text, names, "t 1") == (
        "`t 1`.a = `t 1`.`b c` AND u.db.t.a = 'db.t.a' AND `t 1`.x.y = db.t AND 1.5 > t.a"
    )
    assert replace_qualifier("t.a = db.t.b AND x.t.a = 1", [*names, ("t",)], None) == "a = b AND x.t.a = 1"


def test_default_is_replaced_only_where_it_is_a_whole_value() -> None:
    columns = [DataField(0, "a", INT, None, "5"), DataField(1, "b", STRING)]
    assert with_defaults("VALUES (DEFAULT, default), (1, 'DEFAULT')", columns) == (
        "VALUES (CAST('5' AS int), CAST(NULL AS string)), (1, 'DEFAULT')"
    )
    assert with_defaults("VALUES DEFAULT, (DEFAULT)", columns[:1]) == "VALUES CAST('5' AS int), (CAST('5' AS int))"
    assert with_defaults("SELECT 1, DEFAULT FROM x", columns) == "SELECT 1, CAST(NULL AS string) FROM x"
    assert with_defaults("VALUES (1, f(DEFAULT))", columns) == "VALUES (1, f(DEFAULT))"


def test_parameters_become_literals_and_texts_that_look_like_them_stay() -> None:
    def session(args: Any) -> Session:
        return Session(None, None, args)  # type: ignore[arg-type]

    sql = "UPDATE t SET a = :a, b = ':a ?' WHERE c = :b AND d[x:a] = :other"
    args = {"a": "it's", "b": -3}
    assert bind_parameters(session(args), sql)[1] == (
        "UPDATE t SET a = 'it\\'s', b = ':a ?' WHERE c = (-3) AND d[x:a] = :other"
    )
    values = [None, True, 2**40, 1.5, Decimal("1.50"), b"\x01", date(2024, 1, 2), float("nan")]
    marks = ", ".join("?" * len(values))
    assert bind_parameters(session(values), f"DELETE FROM t WHERE a IN ({marks})")[1] == (
        "DELETE FROM t WHERE a IN (NULL, TRUE, 1099511627776L, (1.5D), (1.50BD), X'01', DATE '2024-01-02', "
        "CAST('nan' AS DOUBLE))"
    )
    at = datetime(2024, 1, 2, 3, 4, 5, 6, tzinfo=UTC)
    assert bind_parameters(session({"t": at}), "SELECT :t")[1] == (
        "SELECT TIMESTAMP_LTZ '2024-01-02 03:04:05.000006+00:00'"
    )
    with pytest.raises(SqlSyntaxError, match="2 parameters"):
        bind_parameters(session([1]), "DELETE FROM t WHERE a = ? OR b = ?")


def test_a_partition_named_by_a_condition_is_read() -> None:
    assert partition_condition("dt = '2024' AND hr == 5") == [("dt", "'2024'"), ("hr", "5")]
    for text in ("dt > 1", "dt = 1 OR hr = 2", "f(dt) = 1"):
        with pytest.raises(SqlSyntaxError):
            partition_condition(text)
