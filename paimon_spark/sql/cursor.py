"""Read a statement token by token; expressions and queries stay text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn, TypeVar

from paimon_spark.errors import SqlSyntaxError
from paimon_spark.predicate.tokens import Token
from paimon_spark.sql.tokens import Nesting, abbreviated, tokenize

T = TypeVar("T")


class Cursor:
    """A position among the tokens of a statement; a `;` at its end is not part of it."""

    def __init__(self, sql: str) -> None:
        tokens = list(tokenize(sql))
        while tokens and tokens[-1].keyword == ";":
            tokens.pop()
        self.sql = sql
        self.tokens: Sequence[Token] = tokens
        self.index = 0

    def at(self, *keywords: str) -> bool:
        """Whether these keywords or signs come next, in any case and not quoted."""
        following = self.tokens[self.index : self.index + len(keywords)]
        return [t.keyword for t in following] == list(keywords)

    def take(self, *keywords: str) -> bool:
        """Go past these keywords if they come next; whether they did."""
        found = self.at(*keywords)
        if found:
            self.index += len(keywords)
        return found

    def take_one(self, *keywords: str) -> str | None:
        """Go past one of these keywords, and return it; None when none of them comes next."""
        return next((k for k in keywords if self.take(k)), None)

    def expect(self, *keywords: str) -> None:
        """Go past these keywords. Raises SqlSyntaxError: something else comes next."""
        if not self.take(*keywords):
            self.fail(" ".join(keywords))

    @property
    def token(self) -> Token | None:
        """The next token; None at the end."""
        return self.tokens[self.index] if self.index < len(self.tokens) else None

    @property
    def at_text(self) -> bool:
        """Whether a text literal comes next."""
        return self.token is not None and self.token.is_text

    @property
    def start(self) -> int:
        """Position of the next token in the text; at the end, after the last one."""
        if self.token is not None:
            return self.token.start
        return self.tokens[-1].end if self.tokens else 0

    @property
    def at_end(self) -> bool:
        return self.index >= len(self.tokens)

    def end(self) -> None:
        """Check that nothing follows. Raises SqlSyntaxError."""
        if not self.at_end:
            self.fail("the end of the statement")

    def identifier(self, what: str = "a name") -> str:
        """Read one name, quoted or not. Raises SqlSyntaxError."""
        token = self.token
        if token is None or not token.is_name:
            self.fail(what)
        self.index += 1
        return token.text

    def name(self, what: str = "the name of a table") -> tuple[str, ...]:
        """Read a name of several parts, `a.b`; `t$branch_x` and `t$tags` need no quotes. Raises SqlSyntaxError."""
        parts = [self._name_part(what)]
        while self.take("."):
            parts.append(self._name_part(what))
        return tuple(parts)

    def _name_part(self, what: str) -> str:
        """A part of a name, with suffixes after `$` that follow it without blanks."""
        out = self.identifier(what)
        while self.at("$") and self._is_adjacent(self.index) and self._is_adjacent(self.index + 1):
            self.index += 1
            out += "$" + self.identifier("a name after $")
        return out

    def _is_adjacent(self, index: int) -> bool:
        """Whether the token at `index` begins where the one before it ends."""
        return 0 < index < len(self.tokens) and self.tokens[index].start == self.tokens[index - 1].end

    def text(self, what: str = "text in quotes") -> str:
        """Read a text literal; several in a row are one text. Raises SqlSyntaxError."""
        begin = self.index
        while self.at_text:
            self.index += 1
        if self.index == begin:
            self.fail(what)
        return "".join(t.text for t in self.tokens[begin : self.index])

    def whole_number(self, what: str = "a whole number") -> int:
        """Read a whole number. Raises SqlSyntaxError."""
        negative = self.take("-")
        token = self.token
        if token is None or not token.is_number or not token.text.isdigit():
            self.fail(what)
        self.index += 1
        return -int(token.text) if negative else int(token.text)

    def parenthesised(self) -> str:
        """Read a pair of brackets; the text between them. Raises SqlSyntaxError."""
        self.expect("(")
        start = self.tokens[self.index - 1].end
        self.until()
        inner = self.sql[start : self.start]
        self.expect(")")
        return inner

    def parenthesised_list(self, read: Callable[[], T]) -> list[T]:
        """Read `(item, item, …)`, each item by `read`. Raises SqlSyntaxError."""
        self.expect("(")
        found = self.listed(read)
        if not self.take(")"):
            self.fail("',' or ')'")
        return found

    def listed(self, read: Callable[[], T]) -> list[T]:
        """Read `item, item, …`, each item by `read`. Raises SqlSyntaxError."""
        found = [read()]
        while self.take(","):
            found.append(read())
        return found

    def until(self, *keywords: str, of_types: bool = False) -> str:
        """Go to the first of these keywords outside brackets and CASE … END; the text up to there, trimmed.

        A bracket that closes what surrounds the cursor ends it too, as does the end of the statement. What follows a
        dot is not a keyword. With `of_types`, `<` and `>` are brackets.
        """
        begin, first, nesting = self.start, self.index, Nesting(of_types=of_types)
        while (token := self.token) is not None:
            is_name = self.index > first and self.tokens[self.index - 1].keyword == "."
            if nesting.is_outside and token.keyword in keywords and not is_name:
                break
            if not nesting.enter(token, is_name=is_name):
                break
            self.index += 1
        return "" if self.index == first else self.sql[begin : self.tokens[self.index - 1].end].strip()

    def rest(self) -> str:
        """Go to the end; the text up to there, trimmed."""
        begin = self.start
        self.index = len(self.tokens)
        return self.sql[begin : self.start].strip()

    def fail(self, expected: str) -> NoReturn:
        """Raise SqlSyntaxError: `expected` does not come next."""
        found = "the end" if self.token is None else repr(self.sql[self.token.start : self.token.end])
        raise SqlSyntaxError(
            f"expected {expected}, found {found} at position {self.start + 1} of: {abbreviated(self.sql)}",
            sql=self.sql,
        )
