"""Statements from a terminal and from stdin, what Spark prints while it starts, and Ctrl-C."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.harness.command_line import orders
from tests.harness.terminal import END, INTERRUPT, ROOT, on_terminal

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.newest]

ENDLESS = "SELECT max(hash(id)) AS m FROM range(100000000000000)"


def test_statements_are_typed_and_an_error_or_an_interrupt_ends_none_but_its_own(tmp_path: Path) -> None:
    orders(tmp_path / "wh")
    words = ("sql", "--warehouse", str(tmp_path / "wh"))
    with on_terminal(*words, settings={"XDG_STATE_HOME": str(tmp_path)}) as terminal:
        start = terminal.wait_for("sql> ")
        assert start.startswith("starting Spark ...\r\x1b[KSQL on warehouse ")
        assert start.count("\n") == 1

        terminal.type("SELECT id, ';' AS s -- ;\n")
        terminal.wait_for("...> ")
        terminal.type("FROM db.orders WHERE id < 3 ORDER BY id; SELECT 7 AS x;\n")
        assert terminal.wait_for("sql> ").endswith("\nid  s\n 1  ;\n 2  ;\nx\n7\nsql> ")

        for wrong, found in (
            ("SELEC 1;", "[PARSE_SYNTAX_ERROR]"),
            ("SELECT idd FROM db.orders;", "`idd` cannot be resolved"),
            ("SELECT CAST('a' AS INT);", "[CAST_INVALID_INPUT]"),
            ("SELECT * FROM db.nope;", "db.nope"),
        ):
            terminal.type(wrong + "\n")
            shown = terminal.wait_for("sql> ")
            assert (shown.count("\n"), found in shown) == (2, True), shown  # what was typed, and the error

        terminal.type(ENDLESS + ";\n")
        terminal.wait_for(";\n")
        with pytest.raises(AssertionError):  # it runs
            terminal.wait_for("sql> ", timeout_s=5)
        terminal.type(INTERRUPT)
        assert terminal.wait_for("sql> ").endswith("error: interrupted\nsql> ")
        terminal.type("SELECT 'never run")
        terminal.wait_for("never run")
        time.sleep(0.5)  # Python waits for the next key then; it notices an interrupt just before only at that key
        terminal.type(INTERRUPT)
        terminal.wait_for("sql> ")
        terminal.type("SELECT count(*) AS n FROM db.orders;\n")
        assert terminal.wait_for("sql> ").endswith("\nn\n5\nsql> ")
        terminal.type("exit\n")
        assert terminal.end() == (0, "exit\n")
    assert "SELECT 7 AS x;" in (tmp_path / "paimon-spark" / "sql_history").read_text()

    with on_terminal(*words, "--quiet", settings={"XDG_STATE_HOME": str(tmp_path)}) as terminal:
        terminal.wait_for("sql> ")
        terminal.type(END)
        assert terminal.end()[0] == 0


@pytest.mark.parametrize("after_s", [0.5, 25])
def test_an_interrupt_ends_the_command_without_a_traceback(tmp_path: Path, after_s: float) -> None:
    orders(tmp_path)
    with on_terminal("sql", ENDLESS, "--warehouse", str(tmp_path)) as terminal:
        shown = terminal.wait_for("starting Spark ...")
        with pytest.raises(AssertionError):
            terminal.wait_for("\n", timeout_s=after_s)
        terminal.type(INTERRUPT)
        code, rest = terminal.end()
    assert code == 130, shown + rest
    assert rest.replace("\r\x1b[K", "") == "^Cerror: interrupted\n"


def test_statements_come_from_stdin_and_spark_says_nothing_unless_asked(tmp_path: Path) -> None:
    orders(tmp_path)
    command = [sys.executable, "-m", "paimon_spark", "sql", "--warehouse", str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable}

    def run(text: str, *options: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*command, *options], input=text, capture_output=True, text=True, check=False, env=environment
        )

    done = run("INSERT INTO db.orders VALUES (8, 'd', 'n');\nSELECT count(*) AS n FROM db.orders;\n")
    assert (done.returncode, done.stdout, done.stderr) == (0, "n\n6\n", "")
    failed = run("SELECT CAST('a' AS INT)")
    assert (failed.returncode, failed.stdout, failed.stderr.count("\n")) == (2, "", 1)
    verbose = run("SELECT 1 AS x", "--verbose")
    assert (verbose.returncode, verbose.stdout) == (0, "x\n1\n")
    assert "log4j" in verbose.stderr
