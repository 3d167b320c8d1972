"""The declared commands → docs/reference/command-line.md."""

from __future__ import annotations

from paimon_spark.cli.reference import markdown
from tools.reference.text import page


def command_line_page() -> str:
    """The page; the command line describes itself."""
    text = markdown().strip("\n")
    title, _, rest = text.partition("\n") if text.startswith("# ") else ("# Command line", "", text)
    return page(title.removeprefix("# "), rest)
