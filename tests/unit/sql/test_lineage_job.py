"""Names of the lineage jobs of statements: one for each target and shape, whatever the literals."""

from __future__ import annotations

import re

import pytest

from paimon_spark.lineage.index.provenance import TableRef
from paimon_spark.sql.lineage_job import names_no_table, read_names, shape, statement_job
from paimon_spark.sql.tokens import tokenize

B = TableRef("d", "b")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("INSERT INTO d.b SELECT * FROM d.a WHERE dt = '2024'", "insert into d.b\n select * from `d`.A where DT=:d"),
        ("INSERT INTO d.b VALUES (7)", "INSERT INTO d.b VALUES (8), (-9), (null) -- three\n;"),
        ("INSERT INTO d.b VALUES (1, 'a', true)", "INSERT INTO d.b VALUES (?, X'1F', 1.5e-3), (0x1F, 'it''s', .5D)"),
        ("DELETE FROM d.b WHERE id IN (1, 2, 3)", "DELETE FROM d.b WHERE id IN (-4)"),
        ("UPDATE d.b SET v = +1 WHERE x >= DATE '2024-01-01'", "UPDATE d.b SET v = -2 WHERE x >= DATE '2025-01-01'"),
        ("INSERT INTO d.b SELECT * FROM d.a VERSION AS OF 5", "INSERT INTO d.b SELECT * FROM d.a VERSION AS OF 'v1'"),
    ],
)  # fmt: skip
def test_a_statement_with_other_literals_is_the_same_job(one: str, other: str) -> None:
    assert shape(one) == shape(other) and statement_job(B, one) == statement_job(B, other)


@pytest.mark.parametrize(
    "other",
    [
        "INSERT INTO d.b SELECT * FROM d.c",
        "INSERT OVERWRITE d.b SELECT * FROM d.a",
        "INSERT INTO d.b SELECT id FROM d.a",
        "INSERT INTO d.b SELECT * FROM d.a WHERE id IS NOT NULL",
        "INSERT INTO d.b SELECT * FROM d.a WHERE id IS NULL",
        "INSERT INTO d.b SELECT * FROM d.a WHERE id - 1 > 0",
        "INSERT INTO d.b SELECT * FROM d.a WHERE -1 > 0",
        "INSERT INTO d.b VALUES (1)",
    ],
)
def test_another_statement_is_another_job(other: str) -> None:
    job = statement_job(B, "INSERT INTO d.b SELECT * FROM d.a")
    assert statement_job(B, other) != job and shape(other) != shape("INSERT INTO d.b SELECT * FROM d.a WHERE id > 0")


def test_the_name_says_the_target_and_the_verb() -> None:
    verbs = {
        "INSERT INTO b SELECT 1": "insert",
        "INSERT OVERWRITE b SELECT 1": "overwrite",
        "WITH q AS (SELECT 1) INSERT INTO b SELECT * FROM q": "insert",
        "WITH q AS (SELECT 1) DELETE FROM b WHERE id IN (SELECT * FROM q)": "delete",
        "MERGE INTO b USING a ON b.id = a.id WHEN MATCHED THEN UPDATE SET *": "merge",
        "UPDATE b SET v = 1": "update",
        "CREATE OR REPLACE TABLE b AS SELECT 1": "create",
        "REPLACE TABLE b AS SELECT 1": "replace",
        "TRUNCATE TABLE b": "truncate",
    }
    for sql, verb in verbs.items():
        assert re.fullmatch(rf"d\.b:{verb}:[0-9a-f]{{8}}", statement_job(B, sql)), sql


def test_a_statement_on_the_branch_of_a_session_is_the_job_of_main() -> None:
    assert statement_job(TableRef.of("d", "b", "fix"), "TRUNCATE TABLE b") == statement_job(B, "TRUNCATE TABLE b")


@pytest.mark.parametrize(
    ("sql", "names"),
    [
        ("INSERT INTO b SELECT a, x FROM d.t WHERE a IN (1, v) GROUP BY a, x ORDER BY a, x", ""),
        ("INSERT INTO d.b SELECT * FROM v", "v"),
        ("INSERT INTO d.b SELECT * FROM d.t x, `V` JOIN w ON x.id = w.id, d.u", "v w"),
        ("INSERT INTO d.b SELECT * FROM (SELECT a, z FROM d.t WHERE a > 1) s, v", "v"),
        ("INSERT INTO d.b SELECT * FROM (v CROSS JOIN d.t)", "v"),
        ("INSERT INTO d.b SELECT 1 WHERE EXISTS (SELECT * FROM v)", "v"),
        ("INSERT INTO d.b TABLE v", "v"),
        ("MERGE INTO d.b USING v ON b.id = v.id WHEN MATCHED THEN UPDATE SET a = v.a, c = v.c", "v"),
        ("DELETE FROM d.b WHERE id IN (SELECT id FROM v)", "v"),
        ("UPDATE d.b SET a = 1, c = z", ""),
        ("INSERT INTO d.b VALUES (1), (2)", ""),
    ],
)
def test_names_that_may_be_temporary_views(sql: str, names: str) -> None:
    assert read_names(tokenize(sql)) == set(names.split())


@pytest.mark.parametrize(
    "query",
    [
        "VALUES (1, 'a'), (2, 'b')",
        "SELECT 1",
        "SELECT id, id FROM range(5)",
        "SELECT * FROM range(0, 10, 2) AS r JOIN range(3) s USING (id), LATERAL explode(array(1, 2)) AS e(x)",
        "FROM range(3) SELECT id",
        "SELECT * FROM (VALUES (1, 2), (3, 4)) AS q(x, y) WHERE x IN (1, 2)",
        "WITH x AS (SELECT 1 AS id), y(a, b) AS (SELECT id, 2 FROM x) SELECT * FROM x JOIN y ON x.id = y.a",
        "SELECT extract(DAY FROM d), trim(BOTH ' ' FROM s), a IS DISTINCT FROM b FROM inline(array(struct(1, 2, 3)))",
        "SELECT id FROM (SELECT id FROM range(5) r) GROUP BY id HAVING max(id) > 1 ORDER BY id, 1 LIMIT 3",
    ],
)
def test_a_query_that_reads_no_table_is_known_by_its_text(query: str) -> None:
    assert names_no_table(query)


@pytest.mark.parametrize(
    "query",
    [
        "TABLE t",
        "SELECT * FROM t",
        "SELECT * FROM db.range",
        "SELECT * FROM range(3), t",
        "SELECT * FROM range(3) a JOIN range(3) b ON a.id = b.id, t",
        "SELECT * FROM range(3) JOIN `t` USING (id)",
        "SELECT * FROM range(3) WHERE id IN (SELECT id FROM t)",
        "SELECT * FROM explode((SELECT collect_list(id) FROM t))",
        "SELECT extract(DAY FROM (SELECT max(d) FROM t))",
        "WITH x AS (SELECT * FROM x) SELECT * FROM x",
        "WITH x AS (SELECT 1) SELECT * FROM x, db.x",
        "SELECT * FROM (WITH x AS (SELECT 1) SELECT * FROM x), x",
        "SELECT sum(id) OVER w FROM w WINDOW w AS (ORDER BY id)",
        "SELECT * FROM parquet.`/files`",
        "SELECT * FROM my_function(1)",
        "SELECT 1 UNION ALL TABLE t",
        "SELECT * FROM ((range(3) CROSS JOIN t))",
        "SELECT * FROM IDENTIFIER('t')",
    ],
)
def test_a_query_that_may_read_a_table_is_not_taken_for_one_that_reads_none(query: str) -> None:
    assert not names_no_table(query)
