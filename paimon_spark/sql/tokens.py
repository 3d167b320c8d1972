"""SQL text as words with their places in it. Text is never written anew: pieces are cut out or put in by place.

Brackets among the words of a statement: which belong together, and which words stand in none.

Several statements in one text → one text each: cut at `;`, but not inside BEGIN … END, which is one statement.

Source: Spark's SQL scripting: compound statements, IF, CASE, WHILE, REPEAT, LOOP, FOR.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar, Final, NamedTuple
from sqlglot.dialects.spark import Spark
from sqlglot.errors import SqlglotError
from sqlglot.tokens import TokenType  # type: ignore[attr-defined, unused-ignore]
from paimon_spark.errors import SqlSyntaxError
from paimon_spark.options.location import quoted as quoted
from collections.abc import Iterator, Sequence
from typing import Final
from collections.abc import Iterator, Sequence
from typing import Final
from paimon_spark.errors import SqlSyntaxError

_QUOTED: Final = frozenset((TokenType.IDENTIFIER,))
_TEXTS: Final = frozenset((TokenType.STRING, TokenType.RAW_STRING))
_SHOWN: Final = 60
"""Characters of a statement that messages show."""


class _Tokenizer(Spark.Tokenizer):
    COMMANDS: ClassVar[set[TokenType]] = set()  # else what follows CALL or SHOW is one word
    KEYWORDS: ClassVar[dict[str, TokenType]] = {k: v for k, v in Spark.Tokenizer.KEYWORDS.items() if " " not in k}
    """Without PARTITIONED BY and its kin: each of their words is a word."""


@dataclass(frozen=True, slots=True)
class Word:
    """A token of the text.

    Attributes:
        text: what it says: of quoted names and of texts, what is meant by what is between the quotes.
        start: of its first character in the text, from 0.
        end: after its last one.
        is_quoted: whether it is a name in backquotes.
        is_text: whether it is a text literal.
        is_number: whether it is a number.
    """

    text: str
    start: int
    end: int
    is_quoted: bool = False
    is_text: bool = False
    is_number: bool = False

    @property
    def keyword(self) -> str:
        """The word in upper case, when it may be a keyword or a sign; else empty."""
        return "" if self.is_quoted or self.is_text else self.text.upper()

    @property
    def is_name(self) -> bool:
        """Whether it can be a part of a name: a quoted one, or letters, digits and _."""
        return self.is_quoted or (not self.is_text and self.text.replace("_", "a").isalnum())


class Edit(NamedTuple):
    """What comes in place of the text from `start` to before `end`."""

    start: int
    end: int
    text: str


def words(sql: str) -> tuple[Word, ...]:
    """The words of `sql`, without comments. A number is one word, also where letters say its type, as in `10L`.

    Raises:
        SqlSyntaxError: a quote or a comment does not end.
    """
    try:
        tokens = _Tokenizer(dialect=Spark()).tokenize(sql)
    except SqlglotError as e:
        raise SqlSyntaxError(
            f"the statement cannot be read; does a quote or a comment not end? {shown(sql)}", sql=sql
        ) from e
    found = (t for before, t in pairwise([None, *tokens]) if t and (before is None or before.start != t.start))
    out: list[Word] = []
    for t in found:
        word = Word(
            t.text,
            t.start,
            t.end + 1,
            t.token_type in _QUOTED,
            t.token_type in _TEXTS,
            t.token_type is TokenType.NUMBER,
        )
        if out and _goes_on(sql, out[-1], word):
            before = out.pop()
            word = replace(before, text=before.text + sql[word.start] + word.text, end=word.end)
        out.append(word)
    return tuple(out)


def _goes_on(sql: str, before: Word, word: Word) -> bool:
    """Whether two texts are one, in which a quote is written twice, as in `'it''s'`; raw ones know no such quote."""
    if not (before.is_text and word.is_text and before.end == word.start):
        return False
    return sql[before.start] == sql[word.start] and sql[word.start] in "'\""


def edited(sql: str, edits: Iterable[Edit]) -> str:
    """`sql` with pieces replaced; the pieces do not overlap."""
    out: list[str] = []
    at = 0
    for edit in sorted(edits):
        assert at <= edit.start, "pieces overlap"
        out += [sql[at : edit.start], edit.text]
        at = edit.end
    return "".join([*out, sql[at:]])


def shown(sql: str) -> str:
    """A statement as messages show it: its beginning, on one line."""
    line = " ".join(sql.split())
    return line if len(line) <= _SHOWN else line[: _SHOWN - 1] + "…"


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
