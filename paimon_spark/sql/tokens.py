"""SQL text as words with their places in it. Text is never written anew: pieces are cut out or put in by place."""

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
