"""Statements typed one after the other: how they are read, and that an error ends only one of them."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from paimon_spark.cli.commands import run_statements


@pytest.fixture(autouse=True)
def history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "paimon-spark" / "sql_history"


def typed(text: str, monkeypatch: pytest.MonkeyPatch, *, verbose: bool = False) -> list[str]:
    """The statements that are run."""
    ran: list[str] = []

    def run(statement: str) -> None:
        ran.append(statement)
        if statement == "BAD":
            raise ZeroDivisionError("by zero")
        if statement == "LONG":
            raise KeyboardInterrupt

    monkeypatch.setattr(sys, "stdin", io.StringIO(text))
    run_statements(run, verbose=verbose)
    return ran


def test_statements_end_with_a_semicolon_outside_quotes_and_comments(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], history: Path
) -> None:
    text = "SELECT 1; SELECT\n ';';\n\n-- no;\nSELECT 2 -- two;\n;\nEXIT;\nSELECT 3;\n"
    assert typed(text, monkeypatch) == ["SELECT 1", "SELECT\n ';'", "SELECT 2 -- two;"]
    assert capsys.readouterr().err.count("sql> ") == 5
    assert history.exists()


def test_an_error_or_an_interrupt_ends_the_statement_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert typed("BAD;\nLONG;\nSELECT 1;\n", monkeypatch) == ["BAD", "LONG", "SELECT 1"]
    lines = [line.removeprefix("sql> ") for line in capsys.readouterr().err.splitlines()]
    assert lines[:2] == ["error: ZeroDivisionError: by zero; --verbose shows the traceback", "error: interrupted"]


def test_with_verbose_the_traceback_of_an_error_is_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert typed("BAD;\n", monkeypatch, verbose=True) == ["BAD"]
    assert "Traceback (most recent call last)" in capsys.readouterr().err
