"""Tests of statements that Spark Connect refuses, or that look at what only a classic session has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from paimon_spark.errors import UnsupportedFeatureError


@dataclass(frozen=True)
class Limit:
    """Why a test does not go through Spark Connect as it goes through a classic session.

    Attributes:
        refusal: what the message of the error matches; None where the test says nothing of Connect and is skipped.
        error: the class of the error.
    """

    reason: str
    refusal: str | None = None
    error: type[Exception] = UnsupportedFeatureError


LIMITS: Final[Mapping[str, Limit]] = {}
"""By file and test, with or without the parameters behind the door."""


def limit_of(node_id: str) -> Limit | None:
    """The limit of a test, by its id; None without one."""
    name = node_id.rpartition("/")[2]
    return LIMITS.get(name.replace("[connect]", "").replace("[connect-", "["), LIMITS.get(name.partition("[")[0]))
