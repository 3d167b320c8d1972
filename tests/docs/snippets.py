"""The code in Markdown pages: text of a page → snippets, in the order in which they stand.

A block of python, sql or sh is run. A block of text right after one is what that one prints: `…` stands for anything in
a line, and a line of `…` alone for any lines. `<!-- not run: why -->` above a block says why it is not run.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Final

LANGUAGES: Final = ("python", "sql", "sh")
_FENCE: Final = re.compile(r"^(?P<indent> *)```(?P<language>\w*)[^`]*$")
_NOT_RUN: Final = re.compile(r"^\s*<!-- not run: (?P<reason>.+) -->\s*$")
_ANYTHING: Final = "…"


@dataclass(frozen=True, slots=True)
class Snippet:
    """A block of code.

    Attributes:
        page: path of its page, for messages.
        line: of its first line in the page, from 1.
        language: `python`, `sql` or `sh`.
        not_run: why it cannot be run; None when it is run.
        prints: what it prints, as the page shows it; None when the page does not.
    """

    page: str
    line: int
    language: str
    text: str
    not_run: str | None = None
    prints: str | None = None

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


@dataclass(frozen=True, slots=True)
class _Part:
    """A block of a page, or a line of its prose, whose language is empty."""

    language: str
    line: int
    text: str
    not_run: str | None = None


def snippets(page: str, text: str) -> list[Snippet]:
    """The snippets of a page."""
    found: list[Snippet] = []
    shows = False  # whether a block of text would be what the last snippet prints
    for part in _parts(text):
        if part.language in LANGUAGES:
            found.append(Snippet(page, part.line, part.language, part.text, part.not_run))
        elif part.language == "text" and shows:
            found[-1] = replace(found[-1], prints=part.text)
        shows = part.language in LANGUAGES
    return found


def _parts(text: str) -> Iterator[_Part]:
    lines = iter(enumerate(text.splitlines(), 1))
    reason: str | None = None
    for number, line in lines:
        fence = _FENCE.match(line)
        if fence is not None:
            inside = list(takewhile(lambda numbered: numbered[1].strip() != "```", lines))
            body = textwrap.dedent("".join(f"{inner}\n" for _, inner in inside))
            yield _Part(fence["language"] or "plain", number + 1, body, reason)
            reason = None
        elif line.strip():
            comment = _NOT_RUN.match(line)
            reason = None if comment is None else comment["reason"]
            if comment is None:
                yield _Part("", number, line)


def differs(shown: str, printed: str) -> bool:
    """Whether `printed` is not what a page shows."""
    patterns = []
    for line in shown.strip("\n").splitlines():
        if line.strip() == _ANYTHING:
            patterns.append(r"(?:.*\n)*?")
        else:
            patterns.append(".*".join(re.escape(piece) for piece in line.rstrip().split(_ANYTHING)) + r"[ ]*\n")
    plain = "\n".join(line.rstrip() for line in printed.strip("\n").splitlines()) + "\n"
    return re.fullmatch("".join(patterns), plain) is None
