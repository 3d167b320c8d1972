"""Options whose values nobody is to read over a shoulder: keys → what is shown in place of the values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

HIDDEN: Final = "*********(redacted)"
"""What Spark shows, too."""
_SECRET: Final = re.compile(
    r"secret|password|passwd|token|credential|(?:access|account|private)[.-]?key|\bsas\b|url", re.IGNORECASE
)
"""What Spark hides unless it is configured otherwise, and what the keys of object stores are called besides."""


def is_secret(key: str) -> bool:
    """Whether the value of an option is not shown."""
    return _SECRET.search(key) is not None


def shown_option(key: str, value: str) -> str:
    """The value of an option as people may see it."""
    return HIDDEN if is_secret(key) else value


def shown_options(options: Mapping[str, str]) -> dict[str, str]:
    """Options as people may see them."""
    return {key: shown_option(key, value) for key, value in options.items()}


def shown_changes(options: Mapping[str, tuple[str | None, str | None]]) -> dict[str, tuple[str | None, str | None]]:
    """Old and new values of options as people may see them; None is not set, and stays."""
    return {
        key: (None if old is None else shown_option(key, old), None if new is None else shown_option(key, new))
        for key, (old, new) in options.items()
    }
