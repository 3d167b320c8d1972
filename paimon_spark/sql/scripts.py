"""Several statements in one text → one text each: cut at `;`, but not inside BEGIN … END, which is one statement.

Source: Spark's SQL scripting: compound statements, IF, CASE, WHILE, REPEAT, LOOP, FOR.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from paimon_spark.errors import SqlSyntaxError
from paimon_spark.sql.tokens import Word, shown, words

_BEGINS: Final = frozenset((";", ":", "THEN", "ELSE", "DO", "LOOP", "REPEAT", "BEGIN"))
"""What a statement inside another follows: BEGIN is the beginning of a block there, elsewhere a name."""
_CLOSED_BY_TWO: Final = frozenset(("IF", "WHILE", "REPEAT", "LOOP", "FOR"))
"""What END and one of these end has no END of its own."""


def statements_of(text: str) -> list[str]:
    """The statements of a text, trimmed, without the `;` between them; none of a text of blanks and comments.

    Raises:
        SqlSyntaxError: a quote, a comment or a BEGIN does not end.
    """
    out: list[str] = []
    found = words(text)
    first, index = 0, 0
    while index <= len(found):
        if index < len(found) and found[index].keyword == "BEGIN" and index == first:
            index = _end_of_block(text, found, index) + 1
        elif index == len(found) or found[index].keyword == ";":
            if index > first:
                start = 0 if first == 0 else found[first - 1].end
                out.append(text[start : found[index].start if index < len(found) else len(text)].strip())
            first = index = index + 1
        else:
            index += 1
    return out


def _end_of_block(text: str, found: Sequence[Word], begin: int) -> int:
    """The index of the END of the block that begins at `begin`. Raises SqlSyntaxError: there is none."""
    open_ = 0
    for index, keyword in _keywords(found, begin):
        following = found[index + 1].keyword if index + 1 < len(found) else ""
        if keyword == "CASE" or (keyword == "BEGIN" and (index == begin or _is_block(found, index))):
            open_ += 1
        elif keyword == "END" and following not in _CLOSED_BY_TWO:
            open_ -= 1
            if open_ == 0:
                return index
    raise SqlSyntaxError(f"a BEGIN has no END of its own in: {shown(text[found[begin].start :])}", sql=text)


def _keywords(found: Sequence[Word], start: int) -> Iterator[tuple[int, str]]:
    """Words that can open or close something, with their indexes: no names behind a dot, and no CASE behind END."""
    for index in range(start, len(found)):
        keyword, before = found[index].keyword, found[index - 1].keyword if index > start else ""
        if before != "." and not (keyword == "CASE" and before == "END"):
            yield index, keyword


def _is_block(found: Sequence[Word], index: int) -> bool:
    """Whether a BEGIN inside a block opens one: at the beginning of a statement, or for the handler of a condition."""
    if found[index - 1].keyword in _BEGINS:
        return True
    for word in reversed(found[:index]):
        if word.keyword in (";", "BEGIN"):
            return False
        if word.keyword == "HANDLER":
            return True
    return False
