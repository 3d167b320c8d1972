"""Queries before Spark sees them: what is found, put in, read and left as it was."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import paimon_spark
from paimon_spark.api.catalog import Catalog
from paimon_spark.errors import SqlSyntaxError, UnsupportedFeatureError
from paimon_spark.jobs.read.scan import Scan
from paimon_spark.predicate.ast import Predicate, sql_text
from paimon_spark.predicate.parse import parse_predicate
from paimon_spark.sql.connect.rewrite import replaced
from paimon_spark.sql.connect.scans import read_of
from paimon_spark.sql.queries.parse import parse_query
from paimon_spark.sql.queries.references import references
from paimon_spark.sql.run import run_query
from paimon_spark.sql.session import Session


class NoSpark:
    """A session that keeps the texts it is to run."""

    def __init__(self, *views: str) -> None:
        self.texts: list[str] = []
        tables = [SimpleNamespace(name=v, isTemporary=True) for v in views]
        self.catalog = SimpleNamespace(listTables=lambda pattern=None: tables)

    def sql(self, text: str, args: Any = None, **frames: Any) -> None:
        assert not frames
        self.texts.append(text)


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    found = paimon_spark.load_catalog(str(tmp_path_factory.mktemp("warehouse")))
    for database in ("db", "default"):
        found.create_database(database)
    found.create_table(
        "db.t",
        "a INT, b STRING, c DATE, d DECIMAL(10,2), e DOUBLE, f BOOLEAN, g CHAR(3), h TIMESTAMP, n BIGINT",
        options={"row-tracking.enabled": True},
    )
    found.create_table("db.u", "a INT, y STRING")
    found.create_table("default.one", "a INT")
    versioned = found.create_table("db.v", "a INT")
    versioned.write(pa.table({"a": pa.array([1], pa.int32())}))
    versioned.create_tag("v1")
    return found


def _session(catalog: Catalog, *views: str, args: Any = None, **conf: str) -> Session:
    said = {"spark.sql.session.timeZone": "UTC", "spark.sql.catalog.ice": "org.Ice", **conf}
    return Session(catalog, NoSpark(*views), args, said, is_of_catalog=True, seen={})  # type: ignore[arg-type]


def _put(catalog: Catalog, sql: str, *views: str) -> str:
    parsed = parse_query(sql)
    return replaced(parsed, references(_session(catalog, *views), parsed), {})


def _scans(catalog: Catalog, sql: str, args: Any = None) -> list[Any]:
    """Each read of a query."""
    parsed, session = parse_query(sql), _session(catalog, args=args)
    return [read_of(parsed, r, None) for r in references(session, parsed)]


def _parsed(scan: Scan, where: str | None) -> tuple[Predicate, ...]:
    """What a scan has as its filters where it keeps the condition `where`."""
    return () if where is None else (parse_predicate(where, scan.schema.row_type),)


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT a FROM db.t", "SELECT a FROM {p0} AS `t`"),
        ("SELECT a FROM paimon.db.t x", "SELECT a FROM {p0} x"),
        ("SELECT a FROM db.t FOR SYSTEM_VERSION AS OF 3 AS x", "SELECT a FROM {p0} AS x"),
        ("SELECT a FROM db.t VERSION AS OF fix.v-1 WHERE a=1", "SELECT a FROM {p0} AS `t` WHERE a=1"),
        ("SELECT a FROM db.t TIMESTAMP AS OF now() - INTERVAL 1 HOUR x", "SELECT a FROM {p0} x"),
        ("SELECT a FROM db.t TIMESTAMP AS OF now() - INTERVAL '1 2' DAY TO HOUR", "SELECT a FROM {p0} AS `t`"),
        ("SELECT a FROM db.t TIMESTAMP AS OF date_sub(:d, 1), db.u", "SELECT a FROM {p0} AS `t`, {p1} AS `u`"),
        ("SELECT a FROM db.t TABLESAMPLE (3 ROWS) REPEATABLE (7) WHERE a=1",
         "SELECT a FROM {p0} TABLESAMPLE (3 ROWS) REPEATABLE (7) AS `t` WHERE a=1"),
        ("SELECT db.t.a, `db`.`t`.b, paimon.db.t.* FROM db.t", "SELECT `t`.a, `t`.b, `t`.* FROM {p0} AS `t`"),
        ("SELECT db.t.a FROM db.t t", "SELECT db.t.a FROM {p0} t"),
        ("SELECT t$branch_x.a FROM db.t$branch_x", "SELECT `t$branch_x`.a FROM {p0} AS `t$branch_x`"),
        ("SELECT '{' FROM db.t -- }", "SELECT '{{' FROM {p0} AS `t` -- }}"),
        ("TABLE db.t", "SELECT * FROM {p0} AS `t`"),
        ("SELECT one.a FROM one JOIN db.u ON default.one.a = u.a",
         "SELECT one.a FROM {p0} AS `one` JOIN {p1} AS `u` ON `one`.a = u.a"),
        ("INSERT INTO ice.d.k SELECT * FROM db.t", "INSERT INTO ice.d.k SELECT * FROM {p0} AS `t`"),
        ("EXPLAIN COST SELECT * FROM db.t", "EXPLAIN COST SELECT * FROM {p0} AS `t`"),
        ("WITH t AS (SELECT * FROM db.t) SELECT * FROM t", "WITH t AS (SELECT * FROM {p0} AS `t`) SELECT * FROM t"),
        ("WITH one AS (SELECT * FROM one) SELECT * FROM one",
         "WITH one AS (SELECT * FROM {p0} AS `one`) SELECT * FROM one"),
        ("FROM db.t |> JOIN db.u USING (a) |> SELECT b", "FROM {p0} AS `t` |> JOIN {p1} AS `u` USING (a) |> SELECT b"),
        ("SELECT extract(day FROM c), 'FROM db.t' FROM db.t",
         "SELECT extract(day FROM c), 'FROM db.t' FROM {p0} AS `t`"),
        ("SELECT extract(day FROM one), a IS DISTINCT FROM one FROM db.u",
         "SELECT extract(day FROM one), a IS DISTINCT FROM one FROM {p0} AS `u`"),
        ("SELECT version AS of FROM db.t", "SELECT version AS of FROM {p0} AS `t`"),
        ("SELECT 1 FROM db.u JOIN db.u AS w ON u.a = w.a", "SELECT 1 FROM {p0} AS `u` JOIN {p1} AS w ON u.a = w.a"),
        ("MERGE INTO ice.k USING db.t ON k.a = t.a WHEN MATCHED THEN DELETE",
         "MERGE INTO ice.k USING {p0} AS `t` ON k.a = t.a WHEN MATCHED THEN DELETE"),
    ],
)  # fmt: skip
def test_a_frame_comes_where_the_table_stood(catalog: Catalog, sql: str, expected: str) -> None:
    assert _put(catalog, sql) == expected


def test_a_temporary_view_hides_a_table_of_its_name(catalog: Catalog) -> None:
    assert _put(catalog, "SELECT * FROM one", "one") == "SELECT * FROM one"
    assert _put(catalog, "SELECT * FROM default.one", "one") == "SELECT * FROM {p0} AS `one`"


@pytest.mark.parametrize(
    ("sql", "columns"),
    [
        ("SELECT a FROM db.t", ("a",)),
        ("SELECT A, `B` FROM db.t WHERE c IS NULL ORDER BY length(b)", ("a", "b", "c")),
        ("SELECT * FROM db.t", None),
        ("SELECT t.* FROM db.t", None),
        ("SELECT count(*) FROM db.t", ("__paimon_bucket",)),
        ("SELECT count(*), count(t.*) FROM db.t", None),
        ("SELECT b FROM (SELECT * FROM db.t) WHERE a = 1", ("a", "b")),
        ("SELECT b FROM (SELECT DISTINCT * FROM db.t)", None),
        ("SELECT b FROM (SELECT * FROM db.t ORDER BY 2 LIMIT 1)", None),
        ("SELECT b FROM (SELECT * FROM db.t ORDER BY a LIMIT 1)", ("a", "b")),
        ("WITH q AS (SELECT * FROM db.t) SELECT q.b FROM q JOIN q r ON q.a = r.a", ("a", "b")),
        ("WITH q AS (SELECT * FROM db.t) SELECT r.* FROM q JOIN q r ON q.a = r.a", None),
        ("WITH q AS (SELECT * FROM db.t), r AS (SELECT * FROM q) SELECT a FROM r", ("a",)),
        ("WITH q(x) AS (SELECT * FROM db.t) SELECT x FROM q", None),
        ("SELECT 1 WHERE EXISTS (SELECT * FROM db.t WHERE b = 'x')", ("b",)),
        ("SELECT 1 WHERE 1 IN (SELECT * FROM db.t)", None),
        ("SELECT struct(*) FROM db.t", None),
        ("SELECT t FROM db.t", None),
        ("SELECT a FROM db.t NATURAL JOIN (SELECT 1 AS n)", None),
        ("SELECT b FROM db.t AS q(p1, b, p3, p4, p5, p6, p7, p8, p9)", None),
        ("SELECT b FROM (SELECT * FROM db.t UNION SELECT * FROM db.t)", None),
        ("TABLE db.t", None),
        ("FROM db.t |> SELECT a", None),
        ("SELECT * EXCEPT (a) FROM db.t", None),
        ("SELECT a, __paimon_file_path FROM db.t", ("a", "__paimon_file_path")),
        ("SELECT _row_id FROM db.t", ("_ROW_ID",)),
        ("INSERT INTO ice.k SELECT * FROM db.t", None),
        ("SELECT IDENTIFIER(:c) FROM db.t", None),
        ("SELECT map(a, 1), transform(array(n), x -> x + 1) FROM db.t", ("a", "n")),
    ],
)
def test_only_the_columns_that_a_query_needs_are_read(
    catalog: Catalog, sql: str, columns: tuple[str, ...] | None
) -> None:
    assert {scan.options.columns for scan in _scans(catalog, sql)} == {columns}


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT t.a AS n, u.y AS b FROM db.t JOIN db.u ON t.a = u.a WHERE u.y = 'k'",
         [("db.t", ("a",), None), ("db.u", ("a", "y"), "`y` = 'k'")]),
        ("SELECT x.b FROM db.t x JOIN db.t VERSION AS OF v1 y ON x.a = y.n AND y.c IS NULL WHERE Y.n = 3",
         [("db.t", ("a", "b"), None), ("db.t", ("c", "n"), "(`n` = 3) AND (`c` IS NULL)")]),
        ("WITH u AS (SELECT a, y FROM db.u) SELECT T.b FROM db.t AS T JOIN u ON T.a = u.a",
         [("db.u", ("a", "y"), None), ("db.t", ("a", "b"), None)]),
        ("WITH q AS (SELECT a FROM db.t WHERE c IS NULL) SELECT count(y) FROM db.u WHERE y IN ('b') AND n = 1",
         [("db.t", ("a", "c"), "`c` IS NULL"), ("db.u", ("y",), "`y` IN ('b')")]),
        ("SELECT a FROM db.u UNION ALL SELECT n FROM db.t ORDER BY a",
         [("db.u", ("a",), None), ("db.t", ("a", "n"), None)]),
        ("(SELECT a FROM db.t) ORDER BY b", [("db.t", ("a", "b"), None)]),
        ("SELECT q.n FROM (SELECT * FROM db.t) q, db.u WHERE u.a = q.c",
         [("db.t", ("a", "c", "n"), None), ("db.u", ("a",), None)]),
        ("SELECT (SELECT max(t.n) FROM db.t WHERE t.a = u.a AND t.b = u.y) FROM db.u",
         [("db.t", ("a", "b", "n"), None), ("db.u", ("a", "y"), None)]),
        ("SELECT (SELECT max(x.c) FROM (SELECT c FROM db.t WHERE n = u.a) x) FROM db.u",
         [("db.t", ("c", "n"), None), ("db.u", ("a",), None)]),
        ("SELECT date_trunc(b, h) FROM db.t", [("db.t", ("b", "h"), None)]),  # sqlglot takes b for a unit
        ("SELECT v.e FROM db.t, LATERAL (SELECT t.n AS e) v", [("db.t", ("n",), None)]),
        ("SELECT e FROM db.t LATERAL VIEW explode(array(n)) v AS e", [("db.t", ("e", "n"), None)]),
        ("SELECT s.a FROM db.t", [("db.t", ("a",), None)]),
        ("SELECT x FROM explode((SELECT collect_list(struct(*)) FROM db.t)) AS q(x)", [("db.t", None, None)]),
        ("SELECT x FROM explode((WITH one AS (SELECT array(1)) SELECT * FROM one)) AS q(x), one",
         [("default.one", ("__paimon_bucket",), None)]),
        ("SELECT a FROM db.t GROUP BY ALL", [("db.t", None, None)]),
        ("SELECT a, n + 1 AS b FROM db.t ORDER BY ALL", [("db.t", None, None)]),
        ("SELECT b FROM (SELECT * FROM db.t GROUP BY 1, 2)", [("db.t", None, None)]),
        ("SELECT b FROM (SELECT b, c FROM db.t ORDER BY 1)", [("db.t", ("b", "c"), None)]),
        ("SELECT * FROM db.t PIVOT (max(a) FOR b IN ('x'))", [("db.t", None, None)]),
        ("SELECT b FROM (db.t) AS q", [("db.t", None, None)]),
        ("SELECT b FROM (SELECT * FROM db.t) AS q(a, b, c, d, e, f, g, h, n)", [("db.t", None, None)]),
        ("SELECT b AS a, a + 1 AS c FROM db.t", [("db.t", ("a", "b"), None)]),
        ("SELECT u.*, b FROM db.t JOIN db.u USING (a)", [("db.t", ("a", "b"), None), ("db.u", None, None)]),
        ("MERGE INTO ice.k USING db.t ON k.a = t.a WHEN MATCHED THEN UPDATE SET b = (SELECT max(y) FROM db.u)",
         [("db.t", None, None), ("db.u", ("y",), None)]),
        ("WITH RECURSIVE q AS (SELECT a FROM db.u UNION ALL SELECT q.a FROM q JOIN db.t ON t.n = q.a) SELECT * FROM q",
         [("db.u", ("a",), None), ("db.t", ("a", "n"), None)]),
        ("SELECT t.__paimon_bucket AS a, u.a AS b FROM db.t, db.u",
         [("db.t", ("__paimon_bucket",), None), ("db.u", ("a",), None)]),
    ],
)  # fmt: skip
def test_a_query_reads_columns_of_the_tables_that_its_scopes_name(
    catalog: Catalog, sql: str, expected: list[tuple[str, tuple[str, ...] | None, str | None]]
) -> None:
    parsed, session = parse_query(sql), _session(catalog)
    found = references(session, parsed)
    assert [str(r.name) for r in found] == [table for table, _, _ in expected]
    for reference, (_, columns, where) in zip(found, expected, strict=True):
        scan = read_of(parsed, replace(reference, version=None), None)
        assert isinstance(scan, Scan)
        assert (scan.options.columns, scan.filters) == (columns, _parsed(scan, where)), reference


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("a = 1", "(`a` = 1)"),
        ("1 < A AND t.b = 'x'", "(`a` > 1) AND (`b` = 'x')"),
        ("b IN ('x', \"y\") OR a BETWEEN -1 AND 4", "((`b` IN ('x', 'y')) OR (`a` BETWEEN -1 AND 4))"),
        ("NOT (b LIKE 'x%' OR b IS NULL)", "(NOT ((`b` LIKE 'x%') OR (`b` IS NULL)))"),
        ("c = '2024-01-31' AND c < DATE '2025-01-01'", "(`c` = DATE '2024-01-31') AND (`c` < DATE '2025-01-01')"),
        ("d >= 1.50 AND f = true AND n <=> 3", "(`d` >= 1.50) AND (`f` = true) AND (`n` <=> 3)"),
        ("a = :i AND b = :s", "(`a` = 7) AND (`b` = 'it\\'s')"),
        ("a = 1 AND rand() < 0.5", "(`a` = 1)"),
        ("b = 1", None),
        ("a = '1'", None),
        ("a = 1.5", None),
        ("e = 1", None),
        ("g = 'x'", None),
        ("h > '2024-01-01'", None),
        ("c = '2024-1-31'", None),
        ("c = '2024-02-31'", None),
        ("d > 1e3", None),
        ("b = 'it''s'", None),
        ("b = 'a\\tb'", None),
        ("b = r'x'", None),
        ("b = 'x' COLLATE UTF8_LCASE", None),
        ("b NOT LIKE 'x%'", "(NOT (`b` LIKE 'x%'))"),
        ("b LIKE '_x'", None),
        ("b LIKE 'x!%' ESCAPE '!'", None),
        ("a = 1 OR e = 1", None),
        ("a = a", None),
        ("a IN (SELECT a FROM db.u)", None),
        ("x.a = 1", None),
        ("f", None),
    ],
)
def test_a_scan_gets_only_conditions_that_are_certain(catalog: Catalog, where: str, expected: str | None) -> None:
    found = _scans(catalog, f"SELECT a FROM db.t WHERE {where}", {"i": 7, "s": "it's"})[0]
    assert found.filters == _parsed(found, expected)
    assert found.options.where is None
    for predicate in found.filters:  # as it travels to Spark's tasks
        assert parse_predicate(sql_text(predicate), found.schema.row_type) == predicate


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT 1 FROM db.t JOIN db.u ON t.a = u.a AND t.b = 'x' WHERE y = 'k' AND u.y = 'm'",
         ["(`b` = 'x')", "(`y` = 'm')"]),
        ("SELECT 1 FROM db.u LEFT JOIN db.t ON t.a = u.a AND u.y = 'k' WHERE t.b = 'x' AND u.a = 1",
         ["(`a` = 1)", None]),
        ("SELECT 1 FROM db.u RIGHT JOIN db.t ON t.a = u.a WHERE t.a = 1 AND u.a = 1", [None, "(`a` = 1)"]),
        ("SELECT 1 FROM db.u FULL JOIN db.t ON t.a = u.a WHERE t.a = 1 AND u.a = 1", [None, None]),
        ("SELECT 1 FROM db.u LEFT ANTI JOIN db.t ON t.a = u.a WHERE u.a = 1", ["(`a` = 1)", None]),
        ("SELECT 1 FROM (SELECT * FROM db.t LIMIT 3) WHERE a = 1", [None]),
        ("SELECT a FROM db.t GROUP BY a HAVING a = 1", [None]),
        ("SELECT a FROM db.t TABLESAMPLE (3 ROWS) WHERE a = 1", [None]),
        ("SELECT a FROM db.t AS q(a, b, c, d, e, f, g, h, i) WHERE a = 1", [None]),
        ("SELECT a FROM db.t LATERAL VIEW explode(array(1)) v AS a WHERE a = 1", [None]),
        ("SELECT 1 FROM db.u WHERE EXISTS (SELECT 1 FROM db.t WHERE t.a = 1 AND u.a = 2 AND y = 'x')",
         [None, "(`a` = 1)"]),
        ("SELECT 1 FROM db.t x, db.t y WHERE x.a = 1 AND y.a = 2", ["(`a` = 1)", "(`a` = 2)"]),
        ("SELECT 1 FROM db.u JOIN (db.t JOIN db.u w ON t.a = w.a) ON u.a = t.a WHERE t.a = 1", [None, None, None]),
    ],
)  # fmt: skip
def test_conditions_go_to_the_table_they_are_about(catalog: Catalog, query: str, expected: list[str | None]) -> None:
    found = _scans(catalog, query)
    assert [s.filters for s in found] == [_parsed(s, w) for s, w in zip(found, expected, strict=True)]


@pytest.mark.parametrize(
    "sql",
    [
        "BEGIN SELECT * FROM db.t; END",
        "CREATE FUNCTION f() RETURNS INT RETURN SELECT max(a) FROM db.t",
        "ALTER VIEW v AS SELECT * FROM db.t",
        "SELECT * FROM f(TABLE(db.t))",
        "SELECT * FROM f(TABLE db.t PARTITION BY a)",
        "SELECT FROM WHERE db.t",
    ],
)
def test_a_table_in_what_is_not_understood_is_refused_by_name(catalog: Catalog, sql: str) -> None:
    with pytest.raises(UnsupportedFeatureError, match=r"db\.t.*temporary view"):
        references(_session(catalog), parse_query(sql))


@pytest.mark.parametrize(
    "call", ["vector_search('db.t', 'v', array(1.0), 5)", "VECTOR_SEARCH(TABLE db.t, 1)", "hybrid_search('db.t')",
             "paimon_full_text_search('db.t', 'b', 'x', 3)"]
)  # fmt: skip
def test_a_function_that_searches_is_refused_with_another_way(catalog: Catalog, call: str) -> None:
    for sql in (f"SELECT * FROM {call}", f"SELECT a FROM db.t, {call} AS s WHERE s.a = 1"):
        with pytest.raises(UnsupportedFeatureError, match=r"_search searches indexes.*filter with WHERE"):
            references(_session(catalog), parse_query(sql))


@pytest.mark.parametrize(
    "sql", ["WITH q AS (SELECT 1) INSERT INTO db.u SELECT * FROM q", "FROM ice.k INSERT INTO db.u SELECT *"]
)
def test_a_write_after_its_query_is_refused_with_the_other_order(catalog: Catalog, sql: str) -> None:
    with pytest.raises(UnsupportedFeatureError, match=r"INSERT INTO db\.u WITH"):
        references(_session(catalog), parse_query(sql))


def test_names_in_double_quotes_are_names_where_the_session_says_so(catalog: Catalog) -> None:
    session = _session(catalog, **{"spark.sql.ansi.doubleQuotedIdentifiers": "true"})
    parsed = parse_query('SELECT "a" FROM db.t WHERE b = "c"')
    scan = read_of(parsed, references(session, parsed)[0], None)
    assert isinstance(scan, Scan)
    assert (scan.options.columns, scan.options.where, scan.filters) == (None, None, ())


@pytest.mark.parametrize(
    ("clause", "args", "version"),
    [
        ("VERSION AS OF v1", None, ("versionAsOf", "v1")),
        ("VERSION AS OF 1", None, ("versionAsOf", "1")),
        ("FOR SYSTEM_VERSION AS OF tag-name.v1", None, ("versionAsOf", "tag-name.v1")),
        ("VERSION AS OF 'v1' AS q", None, ("versionAsOf", "v1")),
        ("VERSION AS OF :v", {"v": 1}, ("versionAsOf", "1")),
        ("VERSION AS OF ? WHERE a = ?", ["v1", 3], ("versionAsOf", "v1")),
        ("TIMESTAMP AS OF '2100-01-31'", None, ("timestampAsOf", "2100-01-31")),
        ("FOR SYSTEM_TIME AS OF 4102444800.5 q", None, ("timestampAsOf", "4102444800.5")),
        ("TIMESTAMP AS OF :m", {"m": dt.datetime(2100, 1, 2)}, ("timestampAsOf", "2100-01-02 00:00:00.000000")),
        ("TIMESTAMP AS OF :m", {"m": dt.datetime(2100, 1, 1, tzinfo=dt.UTC)},
         ("scan.timestamp-millis", "4102444800000")),
        ("TIMESTAMP AS OF :m", {"m": dt.date(2100, 1, 2)}, ("timestampAsOf", "2100-01-02")),
    ],
)  # fmt: skip
def test_a_version_is_read_as_options_name_it(
    catalog: Catalog, clause: str, args: Any, version: tuple[str, str]
) -> None:
    session = _session(catalog, args=args, **{"spark.sql.session.timeZone": "Asia/Tokyo"})
    parsed = parse_query(f"SELECT a FROM db.v {clause}")
    scan = read_of(parsed, references(session, parsed)[0], None)
    assert isinstance(scan, Scan)
    options = scan.options
    assert (options.version, options.time_zone) == (version, "Asia/Tokyo")


@pytest.mark.parametrize("args", [None, {}, {"v": None}, {"v": True}, {"v": [1]}, ["v1"]])
def test_a_version_that_is_a_parameter_without_a_value_is_refused(catalog: Catalog, args: Any) -> None:
    session, parsed = _session(catalog, args=args), parse_query("SELECT a FROM db.v VERSION AS OF :v")
    with pytest.raises(paimon_spark.PaimonError, match=r"the version of db\.v is the parameter :v"):
        read_of(parsed, references(session, parsed)[0], None)


def test_a_version_needs_a_value() -> None:
    with pytest.raises(SqlSyntaxError, match="expected a version"):
        parse_query("SELECT * FROM db.t VERSION AS OF + 1")


def test_settings_count_for_the_tables_they_name(catalog: Catalog) -> None:
    keys = {"scan.snapshot-id": "1", "*.db.t.scan.snapshot-id": "2", "write.merge-schema": "true"}
    session = _session(catalog, **{f"spark.paimon.{k}": v for k, v in keys.items()})
    t, u = (r.name for r in references(session, parse_query("SELECT * FROM db.t, db.u")))
    assert (session.options(t), session.options(u)) == ({"scan.snapshot-id": "2"}, {"scan.snapshot-id": "1"})
    assert session.write_options(t) == {"write.merge-schema": "true"}
    with pytest.raises(paimon_spark.PaimonError, match=r"did you mean 'scan\.snapshot-id'"):
        _session(catalog, **{"spark.paimon.scan.snapshotid": "1"}).options(t)


NAMES = st.sampled_from(("x", "T1", "`a.b`", "`o``d`", "größe", "s3.k", "ice.d.t", "`{n}`", "_9", "date", "nodb.t"))
VALUES = st.sampled_from(
    ("1", "-2.5", "1e3", "10L", "'x'", '"{y}"', "'it\\'s'", "'{p0} $t'", "r'\\d'", "'é'",
     "X'1F'", "null", ":v", "DATE '2024-01-01'",
     "INTERVAL 1 DAY", "current_date()", "count(*)", "CAST(1 AS STRING)", "a.b[0]", "m['{k}']", "f(x -> x + 1)")
)  # fmt: skip
SPACES = st.sampled_from((" ", "\n", "  ", " /* {c} db.t */ ", " -- FROM db.t {\n", "\t"))


@st.composite
def statements(draw: st.DrawFn, depth: int = 2) -> str:
    """A query of Spark's that names none of the warehouse's tables."""
    select = ", ".join(draw(st.lists(VALUES | NAMES, min_size=1, max_size=3)))
    relations = NAMES if not depth else NAMES | statements(depth - 1).map(lambda q: f"({q}\n)")
    text = f"SELECT{draw(SPACES)}{select}{draw(SPACES)}FROM {draw(relations)}{draw(SPACES)}"
    if draw(st.booleans()):
        join = draw(st.sampled_from(("JOIN", "LEFT JOIN", "CROSS JOIN")))
        text += f"{join} {draw(relations)} AS j ON {draw(VALUES)} = j.k"
    if draw(st.booleans()):
        text += f" WHERE{draw(SPACES)}{draw(NAMES)} = {draw(VALUES)}"
    if depth and draw(st.booleans()):
        text += f" AND EXISTS ({draw(statements(0))}\n)" if "WHERE" in text else f"\nUNION ALL {draw(statements(0))}"
    if draw(st.booleans()):
        text = f"WITH {draw(st.sampled_from(('c', '`t`')))} AS ({text}\n) SELECT * FROM c{draw(SPACES)}"
    prefix = ("", "", "EXPLAIN ", "INSERT INTO s3.k ", "CREATE TABLE ice.k AS ", "CACHE TABLE k AS ", "SHOW TABLES -- ")
    return draw(st.sampled_from(prefix)) + text


@given(sql=statements() | st.text(alphabet="SELECT*FROMxyz.,()'\"`${}:?-|>/ \n", max_size=40))
def test_a_statement_without_paimon_tables_reaches_spark_byte_for_byte(catalog: Catalog, sql: str) -> None:
    session = replace(_session(catalog), current=("spark_catalog", "default"), is_of_catalog=False)
    try:
        run_query(session, sql)
    except SqlSyntaxError:
        return  # a quote that does not end
    assert session.spark.texts == [sql]  # type: ignore[attr-defined]


def test_a_path_is_no_name_of_a_table(catalog: Catalog, tmp_path: Path) -> None:
    sql = f"SELECT * FROM parquet.`{tmp_path}/x`"
    assert _put(catalog, sql) == sql
