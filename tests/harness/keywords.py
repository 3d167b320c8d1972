"""Keyword arguments whose names are no identifiers, such as options of a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def keywords(given: Mapping[str, Any]) -> dict[str, Any]:
    """`given` for `**`. Without it mypy compares the type of the values with every parameter of the function."""
    return dict(given)
