"""The command line under spark-submit, and SQL from it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from paimon_spark.cli.commands import split
from tests.harness.command_line import CommandLine, orders
from tests.harness.submitting import submitted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.newest]


def test_jobs_carry_out_commands_and_their_exit_codes_carry_over(tmp_path: Path) -> None:
    warehouse = tmp_path / "wh"
    orders(warehouse)
    named = ("--warehouse", str(warehouse), "--database", "db", "--table", "orders")

    deleted = submitted(
        tmp_path, "sql", *named[:2], "DELETE FROM db.orders WHERE id = 1; SELECT count(*) AS n FROM db.orders", "--json"
    )
    assert deleted.returncode == 0, deleted.stderr[-2000:]
    assert json.loads(deleted.stdout) == [{"n": 4}]

    missing = submitted(tmp_path, "create-branch", *named, "--name", "b", "--tag", "nope")
    assert missing.returncode == 3
    assert missing.stdout == ""
    assert "error: table db.orders has no tag 'nope'" in missing.stderr


def test_sql_runs_statements_and_prints_the_rows_of_the_last(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    orders(tmp_path)
    cli = CommandLine(tmp_path, capsys)
    file = tmp_path / "job.sql"
    file.write_text(
        "INSERT INTO db.orders VALUES (7, '2024-01-03', 'a;b'); -- a comment;\n"
        "SELECT id, note FROM db.orders VERSION AS OF 'main' WHERE id IN (3, 7) ORDER BY id;\n"
    )
    assert cli.done("sql", "--file", str(file)).out == "id  note\n 3  -\n 7  a;b\n"
    assert cli.done("sql", "SELECT 1 AS a, 2 AS a", "--json").json == [{"a_0": 1, "a_1": 2}]
    assert cli.done("sql", "SELECT id FROM db.orders", "-n", "2").out.splitlines()[-1] == "first 2 rows; use --limit N"
    assert cli.done("sql", "ALTER TABLE db.orders CREATE TAG made").out == "done\n"
    assert cli.done("savepoint", "create", "db.orders", "--json").json["id"] > 0
    assert cli.done("sql", "DELETE FROM db.orders WHERE id = 7").out == "num_affected_rows\n                1\n"
    assert cli.done("sql", "INSERT INTO db.orders VALUES (7, 'd', 'n')", "--json").json == [
        {"num_affected_rows": 1, "num_inserted_rows": 1}
    ]
    broken = cli("sql", "SELEC 1")
    assert (broken.code, broken.out) == (2, "")
    assert "JVM stacktrace" not in broken.err
    assert cli("sql", "SELECT nothing FROM db.orders").code == 2
    assert cli("sql", "SELECT * FROM db.orders VERSION AS OF 'nope'").code == 3


def test_statements_are_split_between_semicolons_that_end_them() -> None:
    assert split("SELECT ';' AS `a;b` -- ;\n; /* ; */ SELECT 2;") == ["SELECT ';' AS `a;b` -- ;", "/* ; */ SELECT 2"]
