"""When Spark's Python workers run the Python of the process: with a local master, and where nobody chose another."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from paimon_spark.spark import session as sessions


def _session(master: str, python: str = "python3", conf: Mapping[str, str] | None = None) -> Any:
    found = SimpleNamespace(contains=lambda key: key in (conf or {}))
    return SimpleNamespace(sparkContext=SimpleNamespace(master=master, pythonExec=python, getConf=lambda: found))


@pytest.fixture(autouse=True)
def _classic_without_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "is_classic", lambda _: True)
    for name in sessions.PYTHON_VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*]", "local[2, 4]"])
def test_local_sessions_run_this_python(master: str) -> None:
    spark = _session(master)
    assert sessions.run_workers_here(spark)
    assert spark.sparkContext.pythonExec == sys.executable
    assert not sessions.run_workers_here(spark)  # nothing is left to change


@pytest.mark.parametrize(
    "spark",
    [
        _session("yarn"),
        _session("local-cluster[2,1,1024]"),
        _session("spark://host:7077"),
        _session("local[2]", "/opt/python"),
        _session("local[2]", conf={"spark.pyspark.python": "python3"}),
        _session("local[2]", conf={"spark.pyspark.driver.python": "python3"}),
    ],
)
def test_other_sessions_run_what_they_ran(spark: Any) -> None:
    before = spark.sparkContext.pythonExec
    assert not sessions.run_workers_here(spark)
    assert spark.sparkContext.pythonExec == before


@pytest.mark.parametrize("name", sessions.PYTHON_VARIABLES)
def test_a_variable_of_the_user_counts(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "python3")
    assert not sessions.run_workers_here(_session("local[2]"))


def test_sessions_of_spark_connect_have_workers_of_their_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "is_classic", lambda _: False)
    assert not sessions.run_workers_here(_session("local[2]"))
