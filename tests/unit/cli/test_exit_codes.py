"""Errors of commands: on stderr, in words or as JSON, and as the exit code."""

from __future__ import annotations

import io
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from paimon_spark import Table, errors
from paimon_spark.cli.exit_codes import EXIT_CODES, Exit, NotConfirmedError, error_text, exit_code, reported
from paimon_spark.cli.main import main
from paimon_spark.operations.operation import UsageError
from tests.harness.command_line import CommandLine, orders


@pytest.fixture
def cli(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    orders(tmp_path)
    return CommandLine(tmp_path, capsys)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UsageError("x"), 2),
        (errors.InvalidOptionError("x"), 2),
        (errors.UnsupportedFeatureError("x"), 2),
        (errors.BranchAlreadyExistsError("x"), 2),
        (NotConfirmedError("x"), 2),
        (errors.TableNotFoundError("x"), 3),
        (errors.SnapshotExpiredError("x"), 3),
        (errors.CommitConflictError("x"), 4),
        (errors.CommitRetriesExhaustedError("x"), 4),
        (errors.OperationInProgressError("x"), 4),
        (errors.CommitOutcomeUnknownError("x"), 5),
        (errors.StorageError("x"), 5),
        (errors.FileMissingError("x"), 5),
        (errors.CorruptFileError("x"), 5),
        (errors.UnsafeDeletionError("x"), 5),
        (PermissionError("x"), 5),
        (ZeroDivisionError("x"), 70),
        (KeyboardInterrupt(), 130),
        (BrokenPipeError(), 141),
    ],
    ids=lambda e: type(e).__name__,
)
def test_exit_codes_say_what_a_caller_can_do_next(error: BaseException, code: int) -> None:
    assert exit_code(error) == code
    assert Exit(code) in EXIT_CODES


def test_errors_are_lines_or_json() -> None:
    error = errors.TagNotFoundError("no tag 'x\x1b'", tag="x\x1b", path=Path("/t"))
    assert error_text(error, as_json=False) == "error: no tag 'x\\x1b'"
    assert json.loads(error_text(error, as_json=True)) == {
        "error": {"kind": "tag-not-found", "message": "no tag 'x\\x1b'", "context": {"tag": "x\x1b", "path": "/t"}}
    }


def test_a_table_that_is_misspelt_offers_the_nearest(cli: CommandLine) -> None:
    ran = cli("status", "db.order")
    assert (ran.code, ran.out) == (3, "")
    assert ran.err.startswith("error: ")
    assert "did you mean 'orders'" in ran.err
    assert cli("status", "dbb.orders", "--json").error["kind"] == "database-not-found"
    assert cli("show", "db.orders", "--columns", "idd").code == 3
    assert cli("show", "db.orders", "--version", "v2").code == 3
    assert cli("branch", "delete", "db.orders", "fxi", "--dry-run").code == 3


def test_a_table_without_its_database_and_a_database_offer_the_tables_meant(cli: CommandLine) -> None:
    for word in ("orders", "db"):
        ran = cli("status", word)
        assert ran.code == 3
        assert f"no table '{word}': a table is named database.table" in ran.err
        assert ran.err.endswith("did you mean db.orders?\n")
    assert cli("status", "elsewhere").err.endswith(f"the databases of warehouse {cli.warehouse} are db\n")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("tag create db.orders v1", "`tag replace` moves it, `tag delete` deletes it"),
        ("branch create db.orders fix", "or --if-not-exists"),
        ("table create db.orders x\\ INT", "create it with --if-not-exists"),
        ("database create db", "create it with --if-not-exists"),
        ("database drop db --yes", "or give --cascade"),
        ("lineage upstream", "lineage upstream needs TABLE, with or without --snapshot, or --job alone"),
        ("lineage upstream db.orders --job j", "needs TABLE, with or without --snapshot, or --job alone"),
        ("lineage upstream db.orders", "paimon-spark lineage enable"),
    ],
)
def test_messages_say_what_to_do_in_a_shell(words: str, told: str, cli: CommandLine) -> None:
    ran = cli(*shlex.split(words))
    assert ran.code == 2
    assert told in ran.err


def test_a_job_of_a_lineage_without_jobs_is_said_to_be_none(cli: CommandLine) -> None:
    cli.done("lineage", "enable")
    ran = cli("lineage", "forget", "nope", "--yes")
    assert (ran.code, ran.err.partition("; ")[2]) == (3, "jobs: none\n")


def test_without_a_warehouse_a_name_says_how_to_give_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("PAIMON_WAREHOUSE", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert main(["status", "db.t"]) == 2
    assert main(["table", "list"]) == 2
    assert capsys.readouterr().err.count("set PAIMON_WAREHOUSE") == 2


def test_the_warehouse_may_come_from_the_environment(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PAIMON_WAREHOUSE", str(cli.warehouse))
    assert main(["table", "list"]) == 0
    assert capsys.readouterr().out == "table\ndb.orders\n"


@pytest.mark.parametrize(
    "words",
    [
        "table list",
        "table list db",
        "database list",
        "status db.t",
        "table create db.t x",
        "database drop db",
        "compact-database",
        "lineage status",
        "lineage enable",
        "sql SELECT",
        "call compact_database",
    ],
)
def test_a_directory_that_is_not_there_is_no_empty_warehouse(
    words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    typo = tmp_path / "none"
    ran = CommandLine(typo, capsys)(*words.split())
    assert (ran.code, ran.out) == (3, "")
    assert f"error: there is no warehouse at {typo}: file://{typo} does not exist; check the path" in ran.err
    assert CommandLine(typo, capsys)(*words.split(), "--json").error["kind"] == "warehouse-not-found"
    assert not typo.exists()


def test_a_first_database_makes_the_warehouse(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cli = CommandLine(tmp_path / "new", capsys)
    cli.done("database", "create", "db")
    assert cli.done("table", "list").out == "no tables\n"


def test_an_object_store_without_objects_is_an_empty_warehouse_and_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # fsspec's memory stands for a store without directories.
    monkeypatch.setattr("paimon_spark.catalogs.file_system.has_directories", lambda url: False)
    assert main(["table", "list", "-w", "memory://nothing/here"]) == 0
    ran = capsys.readouterr()
    assert ran.out == "no tables\n"
    assert ran.err == (
        "warning: warehouse memory://nothing/here is empty: the store has no object under it; check the bucket and "
        "the path\n"
    )
    assert main(["table", "list", "-w", "memory://nothing/here", "--quiet"]) == 0
    assert capsys.readouterr().err == ""


def test_a_store_that_cannot_be_read_is_no_crash(cli: CommandLine) -> None:
    snapshot = cli.warehouse / "db.db" / "orders" / "snapshot" / "snapshot-3"
    snapshot.write_text("{ not json")
    ran = cli("show", "db.orders")
    assert ran.code == 5
    assert "snapshot-3" in ran.err
    assert "Traceback" not in ran.err


def test_a_traceback_only_comes_when_asked_for(cli: CommandLine) -> None:
    assert "Traceback" not in cli("status", "db.no").err
    assert "Traceback" in cli("status", "db.no", "--verbose").err


def test_ctrl_c_ends_with_130(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Table, "branches", interrupted)
    ran = cli("branch", "list", "db.orders")
    assert (ran.code, ran.err) == (130, "error: interrupted\n")


def test_an_error_of_the_program_says_so(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Table, "branches", lambda self, include_internal: 1 // 0)
    ran = cli("branch", "list", "db.orders")
    assert ran.code == 70
    assert "ZeroDivisionError" in ran.err
    assert "--verbose" in ran.err


@pytest.mark.ci
def test_a_reader_that_goes_away_is_no_error(cli: CommandLine) -> None:
    words = f"'{sys.executable}' -m paimon_spark show db.orders -w '{cli.warehouse}' -n all; echo $? >&2"
    done = subprocess.run(
        ["bash", "-c", f"({words}) | true"], capture_output=True, text=True, check=False, cwd=Path(__file__).parents[3]
    )
    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr
    assert done.stderr.strip().splitlines()[-1] in ("0", "141")


@pytest.mark.parametrize(
    "words",
    [
        "branch delete db.orders fix",
        "branch merge db.orders fix --if-main-moved replace",
        "branch replace-main db.orders fix",
        "tag delete db.orders v1",
        "tag replace db.orders v1",
        "tag expire db.orders",
        "snapshot expire db.orders --retain-max 1",
        "snapshot rollback db.orders 1",
        "partition drop db.orders --partition dt=2024-01-01",
        "orphan remove db.orders",
        "purge db.orders",
        "table drop db.orders",
        "database drop db --cascade",
        "drop-table db.orders",
    ],
)
def test_nothing_is_taken_away_unless_somebody_says_yes(
    words: str, cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def files() -> list[Path]:
        return sorted(p for p in cli.warehouse.rglob("*") if p.is_file())

    give_something_to_expire(cli)
    before = files()
    dry = cli(*words.split(), "--dry-run")
    assert (dry.code, files()) == (0, before), dry.err
    refused = cli(*words.split())
    assert (refused.code, files()) == (2, before)
    assert "--yes" in refused.err
    assert refused.err.startswith(dry.out[:20])
    as_json = cli(*words.split(), "--json")
    assert as_json.error["kind"] == "not-confirmed"
    assert as_json.error["context"]["would"]
    monkeypatch.setattr(sys, "stdin", Terminal("no\n"))
    denied = cli(*words.split())
    assert (denied.code, files()) == (2, before)
    assert "? [y/N] " in denied.err


def give_something_to_expire(cli: CommandLine) -> None:
    """Give db.orders a tag whose time is up, and a file that no snapshot needs."""
    cli.done("tag", "create", "db.orders", "old", "--time-retained", "1 ms")
    orphan = cli.warehouse / "db.db" / "orders" / "manifest" / f"manifest-{uuid4()}-0"
    orphan.write_bytes(b"")
    os.utime(orphan, (0, 0))


@pytest.mark.parametrize("words", ["tag expire db.orders", "changelog expire db.orders", "orphan remove db.orders"])
def test_nothing_is_asked_where_there_is_nothing_to_take_away(
    words: str, cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = sorted(cli.warehouse.rglob("*"))
    for stdin in (None, Terminal("no\n")):
        monkeypatch.setattr(sys, "stdin", stdin)
        done = cli(*words.split())
        assert (done.code, done.err, sorted(cli.warehouse.rglob("*"))) == (0, "", before)
        assert done.out


@pytest.mark.parametrize(
    "words",
    [
        "merge-branch --database db --table orders --name fix",
        "fast_forward --database db --table orders --branch_name fix",
        "replace-main-branch --database db --table orders --name fix",
        "delete-branch --database db --table orders --branch_name fix",
        "delete-tag --database db --table orders --tag_name v1",
        "rollback-to --database db --table orders --version v1",
        "rollback-to-timestamp --database db --table orders --timestamp 9999999999999",
        "expire-snapshots --database db --table orders --retain_max 1",
        "remove_orphan_files --database db --table orders",
        "drop_partition --database db --table orders --partition dt=2024-01-02",
        "delete --database db --table orders --where id=1",
    ],
)
def test_actions_run_without_a_terminal_and_ask_on_one(
    words: str, cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    give_something_to_expire(cli)
    with monkeypatch.context() as patched:
        patched.setattr(sys, "stdin", Terminal("no\n"))
        denied = cli(*words.split())
    assert (denied.code, "? [y/N] " in denied.err) == (2, True)
    assert cli("branch", "delete", "db.orders", "fix").code == 2
    assert cli(*words.split()).code == 0
    monkeypatch.setattr(sys, "stdin", None)
    assert cli(*words.split()).code in (0, 2, 3)


def test_who_says_yes_on_a_terminal_gets_it_done(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal("y\n"))
    assert cli("branch", "delete", "db.orders", "fix").code == 0
    assert cli.done("branch", "list", "db.orders").out == "no branches but main\n"


def test_the_end_of_the_input_is_no_yes(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(""))
    assert cli("branch", "delete", "db.orders", "fix").code == 2


def test_two_names_for_a_table_are_one_too_many(cli: CommandLine) -> None:
    assert cli("status", "--table", "db.orders", "--path", str(cli.warehouse / "db.db" / "orders")).code == 2
    assert cli("status", "db.orders$branch_fix", "--branch", "other").code == 2
    assert cli("table", "drop", "db.orders", "--branch", "fix", "--yes").code == 2


def test_options_that_nobody_knows_are_refused(cli: CommandLine) -> None:
    assert cli("status", "db.orders", "-o", "scan.verison=3").code == 2
    assert cli("log", "db.orders", "-n", "0").code == 2
    assert cli("diff", "db.orders", "..fix").code == 2


def test_sql_needs_a_statement_and_files_must_be_there(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    for given in (io.StringIO(""), io.StringIO("-- nothing\n;"), None):
        monkeypatch.setattr(sys, "stdin", given)
        refused = cli("sql")
        assert (refused.code, "there is no SQL statement; give one" in refused.err) == (2, True)
    assert cli("sql", "SELECT 1", "--file", "x.sql").code == 2
    assert cli("sql", "--file", str(cli.warehouse / "none.sql")).code == 2
    assert cli("sql", " ; ").code == 2


def test_an_interrupt_says_what_becomes_of_the_operation(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*args: object, **options: object) -> None:
        raise KeyboardInterrupt("the merge of table orders is not finished; doctor(repair=True) finishes it")

    monkeypatch.setattr(Table, "merge_branch", interrupted)
    ran = cli("merge-branch", "--table", "db.orders", "--name", "fix")
    assert (ran.code, ran.out) == (130, "")
    said = "the merge of table orders is not finished; `doctor --repair` finishes it"
    assert ran.err == f"error: interrupted: {said}\n"


def test_errors_of_spark_are_one_line() -> None:
    from pyspark.errors import ParseException, PythonException

    parse = ParseException("[PARSE] Syntax error at 'x' (line 1, pos 0)\n\n== SQL ==\nx\n^^^\n\nJVM stacktrace:\na\nb")
    assert error_text(parse, as_json=False) == "error: [PARSE] Syntax error at 'x' (line 1, pos 0)"
    raised = PythonException("Worker failed:\nTraceback (most recent call last):\n  File x\nValueError: bad\n")
    assert error_text(raised, as_json=False) == "error: Worker failed: ValueError: bad"
    cancelled = PythonException("Job 3 cancelled")
    cancelled.__context__ = KeyboardInterrupt()
    assert exit_code(reported(cancelled)) == Exit.INTERRUPTED


@pytest.mark.parametrize(
    "trace",
    [
        "Failed: Traceback (most recent call last):\n  File x\npaimon_spark.errors.TagNotFoundError: no tag 'v9'\n",
        "[PYTHON_DATA_SOURCE_ERROR] Failed: paimon_spark.errors.TagNotFoundError: no tag 'v9'\n SQLSTATE: 38000",
    ],
)
def test_what_a_read_within_spark_refuses_is_said_without_sparks_trace(trace: str) -> None:
    from pyspark.errors import AnalysisException

    shown = reported(AnalysisException(trace))

    assert error_text(shown, as_json=False) == "error: no tag 'v9'"
    assert exit_code(shown) == Exit.NOT_FOUND


@pytest.mark.parametrize("words", [["log", "shop.orders", "--limit", "x"], ["show", "shop.orders", "--limit", "-1"]])
def test_a_number_that_is_none_is_refused_in_words(cli: CommandLine, words: list[str]) -> None:
    run = cli(*words)

    assert run.code == Exit.USAGE
    assert "--limit cannot be" in run.err
    assert "expected" in run.err


def test_a_missing_database_or_warehouse_is_reported_with_the_command_that_creates_it(
    cli: CommandLine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ran = cli("log", "dv.orders")
    assert ran.code == 3
    assert "has no database 'dv'; its databases are db; " in ran.err
    assert "create one with `paimon-spark database create NAME` or" in ran.err
    ran = CommandLine(tmp_path / "missing", capsys)("log", "db.orders")
    assert ran.code == 3
    assert "first database: `paimon-spark database create NAME`" in ran.err
