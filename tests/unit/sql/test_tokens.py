"""Text that Spark is to read is cut out of statements where brackets and CASE … END say.

A text of several statements is cut between them, and nowhere else.
"""

from __future__ import annotations

import pytest

from paimon_spark.cli.commands import split
from paimon_spark.errors import SqlSyntaxError
from paimon_spark.operations.operation import UsageError
from paimon_spark.sql.cursor import Cursor
from paimon_spark.sql.execute import parse
from paimon_spark.sql.grammar.alter_table import AlterTable
from paimon_spark.sql.statement import Query
from paimon_spark.sql.tokens import matching_bracket, outside_brackets, split_statements, tokenize
from paimon_spark.types import in_any_case


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("a, b", "a"),
        ("f(a, b)[c, d], e", "f(a, b)[c, d]"),
        ("CASE WHEN a THEN b, c END, d", "CASE WHEN a THEN b, c END"),
        ("t.case, b", "t.case"),
        ("(case, b), c", "(case, b)"),
        ("a.end, b", "a.end"),
        ("f(a)), b", "f(a)"),
        ("a -- one, two\n, b", "a"),
        ("a /* , */ + b", "a /* , */ + b"),
        ("a < b, c > d", "a < b"),
        (", a", ""),
    ],
)
def test_an_expression_ends_outside_of_brackets_and_case(sql: str, expected: str) -> None:
    assert Cursor(sql).until(",") == expected


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("MAP<INT, STRUCT<a: INT, b: INT>>, c", "MAP<INT, STRUCT<a: INT, b: INT>>"),
        ("STRUCT<>, c", "STRUCT<>"),
        ("INT DEFAULT 1 >= 2, c", "INT DEFAULT 1 >= 2"),
        ("INT> , c", "INT"),
    ],
)
def test_a_type_ends_outside_of_its_own_brackets_too(sql: str, expected: str) -> None:
    assert Cursor(sql).until(",", of_types=True) == expected


def test_brackets_are_found_from_either_end() -> None:
    found = tokenize("f(a, (b), [c]) + g(d")

    assert matching_bracket(found, 1) == 11
    assert matching_bracket(found, 11) == 1
    assert matching_bracket(found, len(found) - 2) is None
    assert matching_bracket(found, 0) == 0
    assert [found[i].text for i in outside_brackets(found)] == ["f", "(", "+", "g", "("]


def test_a_comment_behind_a_type_hides_nothing_of_the_column() -> None:
    statement = parse("ALTER TABLE db.t ADD COLUMNS (a INT -- of the shop\n AFTER b COMMENT 'x')")

    assert isinstance(statement, AlterTable)
    assert getattr(statement.changes[0], "comment", None) == "x"


@pytest.mark.parametrize(
    ("name", "expected"), [("a", "a"), ("A", "A"), ("b", "B"), ("B", "B"), ("c", None), ("DD", None), ("dd", "dd")]
)
def test_a_name_in_another_case_counts_where_it_is_the_only_one(name: str, expected: str | None) -> None:
    assert in_any_case(name, ["a", "A", "B", "Dd", "dd"]) == expected


SCRIPT = """BEGIN
  DECLARE total INT DEFAULT 0;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN SELECT 'END;' AS x; END;
  outer_loop: BEGIN
    SET total = CASE WHEN total > 1 THEN 2 ELSE CASE total WHEN 1 THEN 0 END END;
  END outer_loop;
  IF total = 0 THEN SELECT 1; ELSEIF total = 1 THEN BEGIN SELECT 2; END; ELSE SELECT `end`, t.end FROM t; END IF;
  CASE total WHEN 1 THEN SELECT 3; ELSE SELECT begin FROM t; END CASE;
  WHILE total < 3 DO SET total = total + 1; END WHILE;
  REPEAT SET total = total - 1; UNTIL total = 0 END REPEAT;
  here: LOOP LEAVE here; END LOOP here;
  FOR r AS SELECT 1 AS a DO SELECT r.a; END FOR; -- END;
  SELECT IF(total = 0, repeat('x', 2), '') AS case_;
END"""


def test_a_script_is_one_statement() -> None:
    assert split_statements(SCRIPT) == [SCRIPT]
    assert split_statements(f"SELECT 1; {SCRIPT} ; SELECT 2;") == ["SELECT 1", SCRIPT, "SELECT 2"]
    assert split_statements(f"{SCRIPT};\n{SCRIPT}") == [SCRIPT, SCRIPT]
    assert isinstance(parse(SCRIPT + ";"), Query)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT 1", ["SELECT 1"]),
        ("SELECT 1;; SELECT ';' ; -- ;\n SELECT 2;", ["SELECT 1", "SELECT ';'", "-- ;\n SELECT 2"]),
        ("SELECT begin, CASE a WHEN 1 THEN 1 END; SELECT 2", ["SELECT begin, CASE a WHEN 1 THEN 1 END", "SELECT 2"]),
        ("begin select 1; end; select 2", ["begin select 1; end", "select 2"]),
        ("BEGIN END", ["BEGIN END"]),
        ("SELECT 'BEGIN'; TABLE `begin`; /* BEGIN */ TABLE t", [
            "SELECT 'BEGIN'", "TABLE `begin`", "/* BEGIN */ TABLE t",
        ]),
        ("", []),
        (" ; -- nothing\n ;", []),
    ],
)  # fmt: skip
def test_statements_are_cut_at_semicolons(text: str, expected: list[str]) -> None:
    assert split_statements(text) == expected


def test_what_cannot_be_cut_is_refused() -> None:
    with pytest.raises(SqlSyntaxError, match="BEGIN without END"):
        split("BEGIN SELECT CASE WHEN a THEN 1 END; END IF;")
    with pytest.raises(UsageError, match="no SQL statement"):
        split("-- nothing")
    with pytest.raises(SqlSyntaxError, match="one statement at a time"):
        parse(f"{SCRIPT}; SELECT 1")
