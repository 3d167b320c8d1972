"""Marks for parameters of tests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def slow_except(values: Iterable[str], *quick: str) -> list[Any]:
    """The values as parameters of a test; those not in `quick` run with the slow tests only."""
    names = list(values)
    assert set(quick) <= set(names), f"{quick} not among {names}"
    return [pytest.param(v, marks=() if v in quick else pytest.mark.slow, id=v) for v in names]
