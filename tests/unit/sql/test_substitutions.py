"""Flink's hints, `t#savepoints`, IDENTIFIER(…) and current_database() stand for what the parser knows."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from paimon_spark.api.catalog import Catalog
from paimon_spark.errors import SqlSyntaxError
from paimon_spark.sql.session import Session
from paimon_spark.sql.substitutions import substituted

USED = {"spark.paimon-spark.current-database": "it's"}


def read(tmp_path: Path, sql: str, args: Any = None, conf: dict[str, str] | None = None) -> tuple[str, Any]:
    """The statement after substitution, and the parameters that are left."""
    evaluator: Any = SimpleNamespace(sql=lambda *_, **__: pytest.fail("Spark is not needed"))
    current = ("paimon", (conf or {}).get("spark.paimon-spark.current-database", "default"))
    session = Session(Catalog(str(tmp_path)), evaluator, args, conf or {}, current=current, is_of_catalog=True)
    session, text = substituted(session, sql)
    return text, session.args


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("FROM db.t /*+ OPTIONS('scan.tag-name'='v1') */ x", "FROM db.t  WITH ('scan.tag-name'='v1')  x"),
        ("FROM t /*+ options ( 'a' = ')' , 'b'='2' ) */", "FROM t  WITH ( 'a' = ')' , 'b'='2' ) "),
        ("INSERT INTO t /*+ OPTIONS('a'='b') */ VALUES (1)", "INSERT INTO t  WITH ('a'='b')  VALUES (1)"),
        ("SELECT /*+ BROADCAST(t) */ * FROM t", "SELECT /*+ BROADCAST(t) */ * FROM t"),
        ("SELECT * FROM t -- /*+ OPTIONS('a'='b') */\n", "SELECT * FROM t -- /*+ OPTIONS('a'='b') */\n"),
        ("SELECT '/*+ OPTIONS(1) */ t#savepoints'", "SELECT '/*+ OPTIONS(1) */ t#savepoints'"),
        ("FROM db.t#savepoints", "FROM db.t$savepoints"),
        ("FROM t$branch_x#SAVEPOINTS s", "FROM t$branch_x$SAVEPOINTS s"),
        ("SELECT t # savepoints", "SELECT t # savepoints"),
        ("FROM IDENTIFIER('db.t') x", "FROM `db`.`t` x"),
        ("TABLE IDENTIFIER('db.`a.b$tags`')", "TABLE `db`.`a.b$tags`"),
        ("DROP TABLE IF EXISTS IDENTIFIER('t#savepoints')", "DROP TABLE IF EXISTS `t$savepoints`"),
        ("FROM a, (SELECT 1, 2) b, IDENTIFIER('db.t')", "FROM a, (SELECT 1, 2) b, `db`.`t`"),
        ("INSERT INTO IDENTIFIER('db.t') (a, b) VALUES", "INSERT INTO `db`.`t` (a, b) VALUES"),
        (
            "SELECT a, IDENTIFIER('b') FROM IDENTIFIER('range')(2)",
            "SELECT a, IDENTIFIER('b') FROM IDENTIFIER('range')(2)",
        ),
        ("SELECT current_database()", "SELECT 'default' AS `current_schema()`"),
    ],
)
def test_what_stands_for_something_else_is_replaced(tmp_path: Path, sql: str, expected: str) -> None:
    assert read(tmp_path, sql)[0] == expected


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT current_database() FROM t", r"SELECT '`it\'s`' AS `current_schema()` FROM t"),
        ("SELECT a, Current_Schema(), 1", r"SELECT a, '`it\'s`' AS `current_schema()`, 1"),
        ("SELECT current_catalog() AS c", "SELECT 'paimon' AS c"),
        ("SELECT f(1, current_catalog())", "SELECT f(1, 'paimon')"),
        ("SELECT a FROM t GROUP BY b, current_catalog()", "SELECT a FROM t GROUP BY b, 'paimon'"),
        ("SELECT x.current_catalog(), `current_catalog`()", "SELECT x.current_catalog(), `current_catalog`()"),
    ],
)
def test_the_current_database_is_that_of_use(tmp_path: Path, sql: str, expected: str) -> None:
    assert read(tmp_path, sql, conf=USED)[0] == expected


def test_a_parameter_by_position_is_used_up_by_a_name(tmp_path: Path) -> None:
    sql = "SELECT ? FROM IDENTIFIER(?) WHERE a = ?"

    assert read(tmp_path, sql, [1, "db.t", 2]) == ("SELECT ? FROM `db`.`t` WHERE a = ?", [1, 2])


def test_a_name_is_computed_from_its_own_parameters(tmp_path: Path) -> None:
    asked: list[Any] = []

    def run(sql: str, args: Any) -> Any:
        asked.append((sql, args))
        return SimpleNamespace(schema=[], columns=["v0"], collect=lambda: [("db." + args[0],)])

    session = Session(Catalog(str(tmp_path)), cast("Any", SimpleNamespace(sql=run)), ["v", "t", 1], {})
    found, text = substituted(session, "SELECT ? FROM IDENTIFIER('db.' || ?) WHERE id > ?")

    assert (text, found.args) == ("SELECT ? FROM `db`.`t` WHERE id > ?", ["v", 1])
    assert asked == [("SELECT 'db.' || ? AS v0", ["t"])]


@pytest.mark.parametrize(
    "sql", ["FROM IDENTIFIER(5)", "FROM IDENTIFIER(NULL)", "FROM IDENTIFIER('')", "FROM IDENTIFIER(?)"]
)
def test_a_name_is_text(tmp_path: Path, sql: str) -> None:
    with pytest.raises(SqlSyntaxError, match="give the name as text"):
        read(tmp_path, sql)


def test_a_name_has_nothing_behind_it(tmp_path: Path) -> None:
    with pytest.raises(SqlSyntaxError, match="expected the end of the statement"):
        read(tmp_path, "FROM IDENTIFIER('db.t x')")
