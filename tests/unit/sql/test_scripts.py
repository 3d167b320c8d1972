"""A text of several statements is cut between them, and nowhere else."""

from __future__ import annotations

import pytest

from paimon_spark.cli.program import split
from paimon_spark.errors import SqlSyntaxError
from paimon_spark.operations.operation import UsageError
from paimon_spark.sql.parse import parse
from paimon_spark.sql.queries.statements import Query
from paimon_spark.sql.scripts import statements_of

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
    assert statements_of(SCRIPT) == [SCRIPT]
    assert statements_of(f"SELECT 1; {SCRIPT} ; SELECT 2;") == ["SELECT 1", SCRIPT, "SELECT 2"]
    assert statements_of(f"{SCRIPT};\n{SCRIPT}") == [SCRIPT, SCRIPT]
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
    assert statements_of(text) == expected


def test_what_cannot_be_cut_is_refused() -> None:
    with pytest.raises(SqlSyntaxError, match="BEGIN has no END"):
        split("BEGIN SELECT CASE WHEN a THEN 1 END; END IF;")
    with pytest.raises(UsageError, match="no SQL statement"):
        split("-- nothing")
    with pytest.raises(SqlSyntaxError, match="one statement at a time"):
        parse(f"{SCRIPT}; SELECT 1")
