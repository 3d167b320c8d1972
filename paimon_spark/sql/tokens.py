"""SQL text as tokens with positions: brackets, edits of the text, splitting at `;`.

Statements are read token by token (`cursor.py`), and what Spark is to run keeps its text: parts are cut out or replaced
by position.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from sqlglot.errors import SqlglotError

from paimon_spark.errors import SqlSyntaxError
from paimon_spark.predicate.tokens import Token, tokens_of
from paimon_spark.types import quoted as quoted

_ABBREVIATED: Final = 60
"""Characters of a statement that messages show."""
_OPENING: Final = frozenset("([{")
_CLOSING: Final = frozenset(")]}")
_TYPE_BRACKETS: Final = frozenset("<>")
_BEFORE_STATEMENT: Final = frozenset((";", ":", "THEN", "ELSE", "DO", "LOOP", "REPEAT", "BEGIN"))
"""What precedes a statement inside a block. After these BEGIN opens a block; elsewhere it is a name."""
_AFTER_END: Final = frozenset(("IF", "WHILE", "REPEAT", "LOOP", "FOR"))
"""END with one of these behind it closes a construct that is not counted, as it opened without BEGIN or CASE."""


class Edit(NamedTuple):
    """A replacement of the text from `start` to before `end`."""

    start: int
    end: int
    text: str


def tokenize(sql: str) -> tuple[Token, ...]:
    """The tokens of `sql`, without comments. A number is one token, including letters of its type, as in `10L`.

    Raises SqlSyntaxError: a quote or a comment does not end.
    """
    try:
        return tokens_of(sql)
    except SqlglotError as e:
        raise SqlSyntaxError(
            f"the statement cannot be read; a quote or a comment may lack its end: {abbreviated(sql)}", sql=sql
        ) from e


def edited(sql: str, edits: Iterable[Edit]) -> str:
    """`sql` with replacements, which must not overlap."""
    out: list[str] = []
    position = 0
    for edit in sorted(edits):
        assert position <= edit.start, "edits overlap"
        out += [sql[position : edit.start], edit.text]
        position = edit.end
    return "".join([*out, sql[position:]])


def abbreviated(sql: str) -> str:
    """The beginning of a statement on one line, for messages."""
    line = " ".join(sql.split())
    return line if len(line) <= _ABBREVIATED else line[: _ABBREVIATED - 1] + "…"


def depth_change(token: Token) -> int:
    """1 for an opening bracket, -1 for a closing one, else 0."""
    return (token.keyword in _OPENING) - (token.keyword in _CLOSING)


def matching_bracket(tokens: Sequence[Token], at: int) -> int | None:
    """The index of the bracket that matches the one at index `at`, on either side; None when none does."""
    depth = 0
    closes = at < len(tokens) and depth_change(tokens[at]) < 0
    for index in range(at, -1, -1) if closes else range(at, len(tokens)):
        depth += depth_change(tokens[index])
        if depth == 0:
            return index
    return None


def outside_brackets(tokens: Sequence[Token], start: int = 0) -> Iterator[int]:
    """Indexes, from `start` on, of the tokens outside brackets, and of the brackets that open there."""
    depth = 0
    for index in range(start, len(tokens)):
        change = depth_change(tokens[index])
        if depth == 0 and change >= 0:
            yield index
        depth += change


class Nesting:
    """Tracks brackets and CASE … END, token by token; with `of_types`, `<` and `>` are brackets, as in `ARRAY<INT>`."""

    def __init__(self, *, of_types: bool = False) -> None:
        self._open: list[str] = []
        self._of_types = of_types

    @property
    def is_outside(self) -> bool:
        """Whether nothing is open."""
        return not self._open

    def enter(self, token: Token, *, is_name: bool = False) -> bool:
        """Go past a token. False, with no effect, when it closes a bracket that was opened before the tracking.

        `is_name`: it cannot be a keyword, as after a dot.
        """
        keyword = token.keyword
        if keyword == "CASE" and not is_name:
            self._open.append(keyword)
        elif keyword == "END" and not is_name and self._open[-1:] == ["CASE"]:
            self._open.pop()
        elif self._of_types and keyword and _TYPE_BRACKETS.issuperset(keyword):
            return all(self._step(sign == "<") for sign in keyword)
        elif depth_change(token):
            return self._step(depth_change(token) > 0)
        return True

    def _step(self, opens: bool) -> bool:
        if opens:
            self._open.append("(")
            return True
        while self._open[-1:] == ["CASE"]:  # a column of that name
            self._open.pop()
        return bool(self._open) and bool(self._open.pop())


def split_statements(text: str) -> list[str]:
    """Split a text at `;` into trimmed statements; BEGIN … END is one statement. Blank parts are left out.

    Raises SqlSyntaxError: a quote, a comment or a BEGIN does not end.

    Source: Spark's SQL scripting: compound statements, IF, CASE, WHILE, REPEAT, LOOP, FOR.
    """
    out: list[str] = []
    tokens = tokenize(text)
    first, index = 0, 0
    while index <= len(tokens):
        if index < len(tokens) and tokens[index].keyword == "BEGIN" and index == first:
            index = _end_of_block(text, tokens, index) + 1
        elif index == len(tokens) or tokens[index].keyword == ";":
            if index > first:
                start = 0 if first == 0 else tokens[first - 1].end
                out.append(text[start : tokens[index].start if index < len(tokens) else len(text)].strip())
            first = index = index + 1
        else:
            index += 1
    return out


def statements_of_block(text: str) -> list[str]:
    """The statements inside a BEGIN … END, in any depth; parts of IF, WHILE and their kin stand beside them.

    Raises SqlSyntaxError: a quote or a comment does not end.
    """
    tokens = tokenize(text)
    starts = [n + 1 for n, t in enumerate(tokens) if t.keyword in _BEFORE_STATEMENT]
    out = []
    for start, after in zip(starts, [*starts[1:], len(tokens) + 1], strict=True):
        if start < len(tokens):
            end = tokens[min(after, len(tokens)) - 1].start if after <= len(tokens) else len(text)
            out.append(text[tokens[start].start : end].strip())
    return [part for part in out if part]


def _end_of_block(text: str, tokens: Sequence[Token], begin: int) -> int:
    """The index of the END of the block that begins at index `begin`. Raises SqlSyntaxError: END is missing."""
    depth = 0
    for index, keyword in _block_keywords(tokens, begin):
        following = tokens[index + 1].keyword if index + 1 < len(tokens) else ""
        if keyword == "CASE" or (keyword == "BEGIN" and (index == begin or _opens_block(tokens, index))):
            depth += 1
        elif keyword == "END" and following not in _AFTER_END:
            depth -= 1
            if depth == 0:
                return index
    raise SqlSyntaxError(f"BEGIN without END in: {abbreviated(text[tokens[begin].start :])}", sql=text)


def _block_keywords(tokens: Sequence[Token], start: int) -> Iterator[tuple[int, str]]:
    """Index and keyword of tokens that can open or close a block: not behind a dot, and not the CASE of END CASE."""
    for index in range(start, len(tokens)):
        keyword, before = tokens[index].keyword, tokens[index - 1].keyword if index > start else ""
        if before != "." and not (keyword == "CASE" and before == "END"):
            yield index, keyword


def _opens_block(tokens: Sequence[Token], index: int) -> bool:
    """Whether a BEGIN inside a block opens one: where a statement begins, or for the handler of a condition."""
    if tokens[index - 1].keyword in _BEFORE_STATEMENT:
        return True
    for token in reversed(tokens[:index]):
        if token.keyword in (";", "BEGIN"):
            return False
        if token.keyword == "HANDLER":
            return True
    return False
