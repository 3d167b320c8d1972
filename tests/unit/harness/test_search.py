"""Each run of the tests tries the same examples, whatever ran before it; the nightly search tries many more."""

from __future__ import annotations

import importlib.util
import random
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.harness.search import NIGHTLY, PROFILE, QUICK, QUICK_EXAMPLES, SEARCH_FACTOR, examples, is_nightly

usual = pytest.mark.skipif(is_nightly(), reason="the nightly search is random")


def tried() -> list[tuple[int, str]]:
    """The examples of a property."""
    found = []

    @given(st.integers(), st.text())
    def holds(number: int, text: str) -> None:
        found.append((number, text))

    holds()
    return found


@usual
def test_examples_are_the_same_whatever_was_loaded_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = tried()
    assert len(first) == settings().max_examples
    file = tmp_path / "loaded_late.py"
    file.write_text("".join(f"x{i} = ({10_000 + i}, 'text {i}')\n" for i in range(100)))
    spec = importlib.util.spec_from_file_location("loaded_late", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "loaded_late", module)
    spec.loader.exec_module(module)
    random.seed(7)
    assert tried() == first


@usual
def test_no_failure_of_an_earlier_run_is_replayed() -> None:
    assert settings().database is None
    assert settings().derandomize


@usual
def test_the_order_of_tests_is_that_of_their_files(request: pytest.FixtureRequest) -> None:
    assert not request.config.pluginmanager.hasplugin("randomly")


def test_the_nightly_search_tries_more() -> None:
    assert examples(10) == {NIGHTLY: 10 * SEARCH_FACTOR, QUICK: QUICK_EXAMPLES}.get(PROFILE, 10)
    nightly, default = settings.get_profile("nightly"), settings.get_profile("default")
    assert nightly.max_examples >= SEARCH_FACTOR * default.max_examples
    assert not nightly.derandomize and nightly.database is not None
