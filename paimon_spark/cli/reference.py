"""The reference of the command line, for the documentation."""

from __future__ import annotations

from paimon_spark.cli import manual
from paimon_spark.cli.registry import commands


def markdown() -> str:
    """The page, in Markdown."""
    return manual.markdown(commands())
