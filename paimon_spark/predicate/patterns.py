"""Patterns of LIKE and RLIKE as regular expressions of RE2.

In LIKE patterns `%` is any text, `_` any character; a backslash escapes them and itself. RLIKE takes the regular
expressions of Java; what RE2 has no exact form for is refused.

Source: Spark `StringUtils.escapeLikeRegex`; Java `java.util.regex.Pattern`.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.errors import PredicateSyntaxError


class _LikeShape(NamedTuple):
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

    Raises PredicateSyntaxError: the escape character ends the pattern or stands before an ordinary character.
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


def like_shape(pattern: str) -> _LikeShape:
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
    return _LikeShape("".join(prefix), exact, rf"(?s)\A(?:{''.join(regex)})\z")


def re_escape(text: str) -> str:
    """`text` as a regular expression that RE2 takes literally."""
    return re.sub(r"([\\.+*?()|\[\]{}^$])", r"\\\1", text)


def _literal(c: str) -> str:
    return "\\" + c if c in "%_\\" else c


_LINE_ENDS: Final = r"\n\r\x{85}\x{2028}\x{2029}"
_END_OF_LINE: Final = rf"(?:\r\n|[{_LINE_ENDS}])\z"
"""A line terminator at the end of text, before which `$` matches too."""
_SPACE: Final = r"\t\n\x0B\f\r "
_CLASSES: Final = {"d": "0-9", "w": "a-zA-Z0-9_", "s": _SPACE}
_ESCAPES: Final = {"t": r"\t", "n": r"\n", "r": r"\r", "f": r"\f", "a": r"\x07", "e": r"\x1B"}
_CODE: Final = re.compile(r"x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})")
_REPEAT: Final = re.compile(r"([*+?]|\{\d{1,3}(?:,\d{0,3})?\})\??", re.ASCII)
_SURROGATES: Final = range(0xD800, 0xE000)


class _RlikeShape(NamedTuple):
    """Expressions that find the matches of a pattern of RLIKE.

    Attributes:
        regex: found anywhere in the text (RE2).
        line_end: finds the line end to remove before the text is searched once more; None when the pattern has no `$`.
    """

    regex: str
    line_end: str | None


def rlike_shape(pattern: str) -> _RlikeShape:
    """A regular expression of Java as one of RE2 that finds a match in the same texts.

    Raises PredicateSyntaxError: the pattern is wrong, or has a part without a certain equivalent.
    """
    regex = _JavaPattern(pattern)
    found = regex.translated()
    try:
        pc.match_substring_regex(pa.array([""], pa.string()), pattern=found)  # without texts nothing is compiled
    except pa.ArrowInvalid as e:
        raise PredicateSyntaxError(f"the RLIKE pattern {pattern!r} cannot be used: {e}") from e
    return _RlikeShape(found, _END_OF_LINE if regex.has_end else None)


class _JavaPattern:
    """Reads a pattern of Java from left to right."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0
        self.has_end = False

    def translated(self) -> str:
        out: list[str] = []
        depth = 0
        while self.at < len(self.pattern):
            c = self._next()
            if c == "(":
                depth += 1
                out.append(self._group())
            elif c == ")":
                depth -= 1
                if depth < 0:
                    raise self._refused("an unmatched )")
                out.append(")" + self._repeat())
            elif c == "|":
                out.append("|")
            elif c == "^":
                out.append(r"\A")
            elif c == "$":
                out.append(self._end(depth))
            else:
                out.append(self._one(c) + self._repeat())
        if depth:
            raise self._refused("an unmatched (")
        return "".join(out)

    def _next(self) -> str:
        self.at += 1
        return self.pattern[self.at - 1]

    def _rest(self) -> str:
        return self.pattern[self.at :]

    def _group(self) -> str:
        if self._rest().startswith("?:"):
            self.at += 2
            return "(?:"
        if self._rest().startswith("?"):
            raise self._refused("the group (" + self._rest()[:2])
        return "(?:"

    def _end(self, depth: int) -> str:
        if depth or (self._rest() and not self._rest().startswith("|")):
            raise self._refused("$ elsewhere than at the end")
        self.has_end = True
        return r"\z"

    def _repeat(self) -> str:
        m = _REPEAT.match(self.pattern, self.at)
        if m is None:
            if self._rest()[:1] == "{":
                raise self._refused("{ without a number of repetitions up to 999; write \\{ for the character")
            return ""
        self.at = m.end()
        if self._rest()[:1] in ("*", "+", "?", "{") and self._rest():
            raise self._refused(f"the repetition {m[0] + self._rest()[0]}")
        return m[1]

    def _one(self, c: str) -> str:
        if c == ".":
            return f"[^{_LINE_ENDS}]"
        if c == "[":
            return self._set()
        if c == "\\":
            return self._escape(in_set=False)
        if c in "*+?{":
            raise self._refused(f"{c} without anything to repeat")
        return _re2(c)

    def _escape(self, *, in_set: bool) -> str:
        if not self._rest():
            raise self._refused("a backslash at the end")
        if m := _CODE.match(self.pattern, self.at):
            self.at = m.end()
            code = int(m[1] or m[2], 16)
            if code in _SURROGATES:
                raise self._refused(f"\\{m[0]}, half a character")
            return _re2(chr(code))
        c = self._next()
        if c in _ESCAPES:
            return _ESCAPES[c]
        if c in _CLASSES:
            return _CLASSES[c] if in_set else f"[{_CLASSES[c]}]"
        if c.lower() in _CLASSES and not in_set:
            return f"[^{_CLASSES[c.lower()]}]"
        if c.isascii() and not c.isalnum():
            return _re2(c)
        raise self._refused(f"\\{c}")

    def _set(self) -> str:
        out = ["["]
        if self._rest().startswith("^"):
            out.append(self._next())
        first = self.at
        while True:
            if not self._rest():
                raise self._refused("an unmatched [")
            c = self._next()
            if c == "]" and self.at - 1 > first:
                return "".join([*out, "]"])
            if c in "[]^" or (c == "&" and self._rest().startswith("&")):
                raise self._refused(f"{c} inside [ ]; write \\{c} for the character")
            member, is_class = self._member(c)
            out.append(member)
            if self._rest().startswith("-") and self._rest()[1:2] not in ("]", ""):
                self._next()
                last, is_last_class = self._member(self._next())
                if is_class or is_last_class or last.startswith("["):
                    raise self._refused("a range of classes")
                out.append("-" + last)

    def _member(self, c: str) -> tuple[str, bool]:
        """One character of a set, or a class of characters."""
        if c in "[]^&" and c != "&":
            raise self._refused(f"{c} inside [ ]; write \\{c} for the character")
        if c != "\\":
            return _re2(c), False
        is_class = self._rest()[:1] in _CLASSES
        return self._escape(in_set=True), is_class

    def _refused(self, what: str) -> PredicateSyntaxError:
        return PredicateSyntaxError(
            f"the RLIKE pattern {self.pattern!r} has {what} at position {self.at}, which is not supported"
        )


def _re2(c: str) -> str:
    """A character that RE2 takes literally, inside a set too."""
    return c if c.isalnum() and c.isascii() else f"\\x{{{ord(c):X}}}"
