"""How widely property tests search: the same examples in each run, few in the quick one, many at random in the nightly.

What a search finds is kept beside the property: as an `@example`, or as a test of its own that calls the same check.
"""

from __future__ import annotations

import os
from typing import Final

NIGHTLY: Final = "nightly"
QUICK: Final = "quick"

PROFILE: Final = os.environ.get("HYPOTHESIS_PROFILE", "default")
"""The profile of Hypothesis that `conftest.py` loads."""

SEARCH_FACTOR: Final = 30
"""At least how many times as many examples the nightly search tries."""


QUICK_EXAMPLES: Final = 5
"""The number of examples that the quick run tries at most."""


def is_nightly() -> bool:
    """Whether this run searches at random."""
    return PROFILE == NIGHTLY


def examples(usual: int) -> int:
    """The number of examples for a property that usually gets `usual` of them."""
    if PROFILE == QUICK:
        return min(usual, QUICK_EXAMPLES)
    return usual * SEARCH_FACTOR if is_nightly() else usual
