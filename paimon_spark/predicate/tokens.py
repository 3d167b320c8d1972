"""SQL text as tokens with positions, for conditions, definitions of columns and statements.

sqlglot tokenizes. Its trees have no positions for most nodes and do not know all of Spark's grammar, so text of Spark
that has no tree is read token by token.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar, Final

from sqlglot.dialects.spark import Spark
from sqlglot.tokens import TokenType  # type: ignore[attr-defined, unused-ignore]

_TEXTS: Final = (TokenType.STRING, TokenType.RAW_STRING)


class _Tokenizer(Spark.Tokenizer):
    COMMANDS: ClassVar[set[TokenType]] = set()  # else all that follows CALL or SHOW is one token
    KEYWORDS: ClassVar[dict[str, TokenType]] = {k: v for k, v in Spark.Tokenizer.KEYWORDS.items() if " " not in k}
    """Without keywords of several words, such as PARTITIONED BY, so that each word is a token."""


@dataclass(frozen=True, slots=True)
class Token:
    """A token of the text, from position `start` to before `end`.

    `text` of quoted names and text literals is their content, with escapes resolved; names in backquotes are quoted.
    """

    text: str
    start: int
    end: int
    is_quoted: bool = False
    is_text: bool = False
    is_number: bool = False

    @property
    def keyword(self) -> str:
        """The token in upper case when it may be a keyword or a sign, else empty."""
        return "" if self.is_quoted or self.is_text else self.text.upper()

    @property
    def is_name(self) -> bool:
        """Whether it can be a part of a name: quoted, or of letters, digits and _."""
        return self.is_quoted or (not self.is_text and self.text.replace("_", "a").isalnum())


def tokens_of(sql: str) -> tuple[Token, ...]:
    """The tokens of `sql`, without comments. A number is one token, including letters of its type, as in `10L`.

    Raises sqlglot's SqlglotError: a quote or a comment does not end.
    """
    found = _Tokenizer(dialect=Spark()).tokenize(sql)
    out: list[Token] = []
    for before, t in pairwise([None, *found]):
        if t is None or (before is not None and before.start == t.start):
            continue  # the letters of a number's type come as a token of their own, at the same position
        kind = t.token_type
        token = Token(
            t.text, t.start, t.end + 1, kind is TokenType.IDENTIFIER, kind in _TEXTS, kind is TokenType.NUMBER
        )
        if out and _continues(sql, out[-1], token):
            first = out.pop()
            token = replace(first, text=first.text + sql[token.start] + token.text, end=token.end)
        out.append(token)
    return tuple(out)


def _continues(sql: str, before: Token, token: Token) -> bool:
    """Whether two texts are one with a doubled quote inside, as in `'it''s'`; raw texts have no such quotes."""
    if not (before.is_text and token.is_text and before.end == token.start):
        return False
    return sql[before.start] == sql[token.start] and sql[token.start] in "'\""
