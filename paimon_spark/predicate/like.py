"""LIKE patterns: `%` any text, `_` any one character; a backslash takes them, or itself, literally.

Source: Spark `StringUtils.escapeLikeRegex`.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from paimon_spark.errors import PredicateSyntaxError


class LikeShape(NamedTuple):
    """A pattern taken apart.

    Attributes:
        prefix: literal text before the first wildcard.
        exact: whether there is no wildcard at all.
        regex: the whole pattern as an anchored regular expression (RE2).
    """

    prefix: str
    exact: bool
    regex: str


def like_pattern(pattern: str, escape: str = "\\") -> str:
    """`pattern` checked, and with a backslash as its escape character whatever it was.

    Raises:
        PredicateSyntaxError: the escape character ends the pattern or stands before an ordinary character.
    """
    out: list[str] = []
    chars = iter(pattern)
    for c in chars:
        if c == escape:
            following = next(chars, None)
            if following is None or following not in ("%", "_", escape):
                raise PredicateSyntaxError(
                    f"the LIKE pattern {pattern!r} is wrong: {escape!r} must stand before %, _ or {escape!r}"
                )
            out.append(_literal(following))
        else:
            out.append(c if c in "%_" else _literal(c))
    return "".join(out)


def like_shape(pattern: str) -> LikeShape:
    """A pattern, as `like_pattern` gives it, taken apart."""
    prefix: list[str] = []
    regex: list[str] = []
    exact = True
    chars = iter(pattern)
    for c in chars:
        if c in "%_":
            exact = False
            regex.append(".*" if c == "%" else ".")
            continue
        text = next(chars, c) if c == "\\" else c
        regex.append(re_escape(text))
        if exact:
            prefix.append(text)
    return LikeShape("".join(prefix), exact, rf"(?s)\A(?:{''.join(regex)})\z")


def re_escape(text: str) -> str:
    """`text` as a regular expression that RE2 takes literally."""
    return re.sub(r"([\\.+*?()|\[\]{}^$])", r"\\\1", text)


def _literal(c: str) -> str:
    return "\\" + c if c in "%_\\" else c
