"""Processes that Spark keeps for tasks do not look through our imports after every batch."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from types import ModuleType

import pytest

from paimon_spark.spark.task_read import freeze_gc_once


@pytest.fixture(autouse=True)
def anew() -> Iterator[None]:
    """Nothing is spared before a test, and nothing after it."""
    freeze_gc_once.cache_clear()
    gc.unfreeze()
    yield
    freeze_gc_once.cache_clear()
    gc.unfreeze()


def run_as(monkeypatch: pytest.MonkeyPatch, module: str | None) -> None:
    """Look like a process that runs a module, or a script (None)."""
    main = ModuleType("__main__")
    main.__spec__ = None if module is None else ModuleSpec(module, None)
    monkeypatch.setitem(sys.modules, "__main__", main)


def test_a_process_of_sparks_daemon_is_spared_what_it_holds_once(monkeypatch: pytest.MonkeyPatch) -> None:
    run_as(monkeypatch, "pyspark.daemon")
    assert freeze_gc_once()
    spared = gc.get_freeze_count()
    assert spared > 10_000
    later = [[] for _ in range(1000)]  # type: ignore[var-annotated]
    assert freeze_gc_once()
    assert gc.get_freeze_count() <= spared
    assert len(later) == 1000


@pytest.mark.parametrize("module", [None, "pytest", "pyspark.sql.streaming.python_streaming_source_runner"])
def test_other_programs_are_left_alone(module: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    run_as(monkeypatch, module)
    assert not freeze_gc_once()
    assert gc.get_freeze_count() == 0


def test_garbage_of_before_does_not_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = []

    class Ring:
        def __init__(self) -> None:
            self.itself = self

        def __del__(self) -> None:
            gone.append(True)

    run_as(monkeypatch, "pyspark.daemon")
    Ring()
    freeze_gc_once()
    assert gone
