"""The command line under spark-submit, and SQL from it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import uuid
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from paimon_spark.cli.commands import split
from tests.harness.command_line import CommandLine, orders
from tests.harness.submitting import submitted
from tests.harness.until import until

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


@pytest.mark.parametrize("later_s", [0.0, 1.0])
def test_ctrl_c_while_spark_starts_leaves_no_jvm(tmp_path: Path, later_s: float) -> None:
    mark = f"PAIMON_SPARK_TEST={uuid.uuid4()}"
    environment = {**os.environ, **dict([mark.split("=")])}
    process = subprocess.Popen(
        [sys.executable, "-m", "paimon_spark", "sql", "--warehouse", str(tmp_path), "SELECT 1"],
        env=environment, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    until(lambda: jvms(mark), process.poll)
    if later_s:
        until(lambda: not jvms(mark) or seconds_of(jvms(mark)[0]) > later_s)
    os.killpg(process.pid, signal.SIGINT)
    _, printed = process.communicate(timeout=300)
    assert process.returncode == 130
    assert printed.strip() == "error: interrupted"
    assert jvms(mark) == []


def jvms(mark: str) -> list[Path]:
    """The Java processes with a variable in their environment, below /proc."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if mark.encode() in (process / "environ").read_bytes() and (process / "comm").read_text() == "java\n":
                found.append(process)
    return found


def seconds_of(process: Path) -> float:
    """The processor time that a process has used."""
    try:
        user, system = (process / "stat").read_text().rpartition(")")[2].split()[11:13]
    except OSError:
        return float("inf")
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def test_a_check_starts_spark_silently(tmp_path: Path) -> None:
    orders(tmp_path)
    words = [
        "check",
        "db.orders",
        "--warehouse",
        str(tmp_path),
        "--check",
        "no fives=SELECT id FROM {table} WHERE id = 5",
    ]
    done = subprocess.run([sys.executable, "-m", "paimon_spark", *words], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout == "check no fives failed: 1 row\n  id=5\n"
