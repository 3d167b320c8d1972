"""Brackets among the words of a statement: which belong together, and which words stand in none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from paimon_spark.sql.tokens import Word

_OPENING: Final = frozenset("([{")
_CLOSING: Final = frozenset(")]}")
_OF_TYPES: Final = frozenset("<>")


def change(word: Word) -> int:
    """By how much a word makes brackets deeper: 1 where it opens one, -1 where it closes one, else 0."""
    return (word.keyword in _OPENING) - (word.keyword in _CLOSING)


def closing(words: Sequence[Word], at: int) -> int | None:
    """The index of the bracket that closes the one at `at`; None where none does."""
    depth = 0
    for index in range(at, len(words)):
        depth += change(words[index])
        if depth == 0:
            return index
    return None


def opening(words: Sequence[Word], at: int) -> int | None:
    """The index of the bracket that the one at `at` closes; None where it closes none."""
    depth = 0
    for index in range(at, -1, -1):
        depth += change(words[index])
        if depth == 0:
            return index
    return None


def outside(words: Sequence[Word], start: int = 0) -> Iterator[int]:
    """Indexes, from `start` on, of the words that stand in no brackets; of brackets, of those that open."""
    depth = 0
    for index in range(start, len(words)):
        deeper = change(words[index])
        if depth == 0 and deeper >= 0:
            yield index
        depth += deeper


class Nesting:
    """What a reader is in, word by word: brackets, and CASE … END.

    Args:
        of_types: whether `<` and `>` are brackets, as in `ARRAY<INT>`.
    """

    def __init__(self, *, of_types: bool = False) -> None:
        self._open: list[str] = []
        self._of_types = of_types

    @property
    def is_outside(self) -> bool:
        """Whether the reader is in nothing."""
        return not self._open

    def enter(self, word: Word, *, is_name: bool = False) -> bool:
        """Go past a word. False, and nothing done, where it closes a bracket that was open before the reader began.

        Args:
            word: the next one.
            is_name: whether it can be no keyword, as what follows a dot.
        """
        keyword = word.keyword
        if keyword == "CASE" and not is_name:
            self._open.append(keyword)
        elif keyword == "END" and not is_name and self._open[-1:] == ["CASE"]:
            self._open.pop()
        elif self._of_types and keyword and _OF_TYPES.issuperset(keyword):
            return all(self._step(sign == "<") for sign in keyword)
        elif change(word):
            return self._step(change(word) > 0)
        return True

    def _step(self, is_deeper: bool) -> bool:
        if is_deeper:
            self._open.append("(")
            return True
        while self._open[-1:] == ["CASE"]:  # a column of that name
            self._open.pop()
        return bool(self._open) and bool(self._open.pop())
