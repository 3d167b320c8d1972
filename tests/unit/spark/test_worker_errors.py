"""Errors of Spark's workers: which of them lose their traceback, and where."""

from __future__ import annotations

import inspect
import logging
import os
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql.types import StructType

from paimon_spark.errors import InvalidOptionError
from paimon_spark.spark import session
from paimon_spark.spark.batch_write import BatchWriter
from paimon_spark.spark.source import PaimonDataSource, PaimonPyDataSource, stream_reader
from paimon_spark.spark.worker_errors import errors_in_one_line


@errors_in_one_line
class Source:
    def schema(self, name: str) -> str:
        if name == "ours":
            raise InvalidOptionError("unknown option")
        raise KeyError(name)

    def read(self, stop: int) -> Iterator[int]:
        yield from range(stop)
        raise InvalidOptionError("no more")

    def other(self) -> None:
        raise InvalidOptionError("not called by Spark")


@pytest.fixture
def in_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_HIDE_TRACEBACK", raising=False)
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", ModuleSpec("pyspark.daemon", None))


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HIDE_TRACEBACK", "")


def hides() -> bool:
    return bool(os.environ.get("SPARK_HIDE_TRACEBACK"))


@pytest.mark.usefixtures("in_worker")
def test_a_worker_leaves_the_traceback_of_our_errors_to_the_debug_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "paimon_spark"), pytest.raises(InvalidOptionError, match="unknown option"):
        Source().schema("ours")
    assert hides()
    [record] = caplog.records
    assert record.exc_info is not None and record.exc_info[2] is not None


@pytest.mark.usefixtures("in_worker")
def test_errors_while_rows_are_read_are_ours_too() -> None:
    rows = Source().read(2)
    assert [next(rows), next(rows)] == [0, 1] and not hides()
    with pytest.raises(InvalidOptionError, match="no more"):
        next(rows)
    assert hides()


@pytest.mark.usefixtures("in_worker")
def test_other_errors_and_other_methods_keep_their_traceback() -> None:
    with pytest.raises(KeyError):
        Source().schema("theirs")
    with pytest.raises(InvalidOptionError):
        Source().other()
    assert not hides()


def test_outside_of_workers_nothing_is_set() -> None:
    with pytest.raises(InvalidOptionError):
        Source().schema("ours")
    assert not hides()


def test_everything_that_spark_calls_is_covered() -> None:
    for cls in (PaimonDataSource, BatchWriter, PaimonPyDataSource, type(stream_reader({}, StructType()))):
        for base in cls.__mro__:
            if base.__module__.startswith("paimon_spark"):
                for name, method in vars(base).items():
                    if inspect.isfunction(method) and not name.startswith("_"):
                        assert hasattr(method, "__wrapped__"), f"{base.__name__}.{name}"


def test_the_message_of_an_error_that_ends_the_process_is_the_last_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(session, "_HOOKS", [sys.__excepthook__])
    text = (
        "[STREAM_FAILED] Query [id = 1] terminated with exception: "
        "paimon_spark.errors.ColumnNotFoundError: column 'nope' does not exist; there are id\n SQLSTATE: 38000\n"
        "=== Streaming Query ===\nCurrent State: INITIALIZING"
    )
    error = StreamingQueryException(text)
    session._tell_last(type(error), error, None)
    assert capsys.readouterr().err.splitlines()[-2:] == [
        "",
        "ColumnNotFoundError: column 'nope' does not exist; there are id",
    ]
    session._tell_last(ValueError, ValueError("x"), None)
    assert capsys.readouterr().err == "ValueError: x\n"
