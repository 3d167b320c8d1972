"""Reading a statement word by word, forward. What is read as expressions or queries is cut out as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from paimon_spark.errors import SqlSyntaxError
from paimon_spark.sql.tokens import Nesting
from paimon_spark.sql.tokens import Word, shown, words


class Cursor:
    """A place among the words of a statement.

    Attributes:
        sql: the statement; a `;` at its end is no part of it.
        words: all its words.
        index: of the next one.
    """

    def __init__(self, sql: str) -> None:
        found = list(words(sql))
        while found and found[-1].keyword == ";":
            found.pop()
        self.sql = sql
        self.words: Sequence[Word] = found
        self.index = 0

    def at(self, *keywords: str) -> bool:
        """Whether the next words are these keywords or signs, in any case and not quoted."""
        following = self.words[self.index : self.index + len(keywords)]
        return [w.keyword for w in following] == list(keywords)

    def take(self, *keywords: str) -> bool:
        """Go past these keywords, if they come next; whether they did."""
        found = self.at(*keywords)
        if found:
            self.index += len(keywords)
        return found

    def take_one(self, *keywords: str) -> str | None:
        """Go past one of these keywords, and say which; None when none of them comes next."""
        return next((k for k in keywords if self.take(k)), None)

    def expect(self, *keywords: str) -> None:
        """Go past these keywords. Raises SqlSyntaxError: something else comes next."""
        if not self.take(*keywords):
            self.fail(" ".join(keywords))

    @property
    def word(self) -> Word | None:
        """The next word; None at the end."""
        return self.words[self.index] if self.index < len(self.words) else None

    @property
    def start(self) -> int:
        """Where the next word begins in the text; at the end, after the last one."""
        if self.word is not None:
            return self.word.start
        return self.words[-1].end if self.words else 0

    @property
    def is_over(self) -> bool:
        return self.index >= len(self.words)

    def end(self) -> None:
        """Check that nothing follows. Raises SqlSyntaxError."""
        if not self.is_over:
            self.fail("the end of the statement")

    def identifier(self, what: str = "a name") -> str:
        """Go past one name, quoted or not, and give it. Raises SqlSyntaxError."""
        word = self.word
        if word is None or not word.is_name:
            self.fail(what)
        self.index += 1
        return word.text

    def name(self, what: str = "the name of a table") -> tuple[str, ...]:
        """Go past a name of several parts, `a.b`; `t$branch_x` and `t$tags` need no quotes. Raises SqlSyntaxError."""
        parts = [self._dollars(what)]
        while self.take("."):
            parts.append(self._dollars(what))
        return tuple(parts)

    def _dollars(self, what: str) -> str:
        """A part of a name, with what follows it after `$` signs, all written together."""
        out = self.identifier(what)
        while self.at("$") and self._joins(self.index) and self._joins(self.index + 1):
            self.index += 1
            out += "$" + self.identifier("a name after $")
        return out

    def _joins(self, index: int) -> bool:
        """Whether the word at `index` begins where the one before it ends."""
        return 0 < index < len(self.words) and self.words[index].start == self.words[index - 1].end

    def text(self, what: str = "a text in quotes") -> str:
        """Go past a text literal, and give what it says; several in a row are one text. Raises SqlSyntaxError."""
        begin = self.index
        while self.word is not None and self.word.is_text:
            self.index += 1
        if self.index == begin:
            self.fail(what)
        return "".join(w.text for w in self.words[begin : self.index])

    def whole_number(self, what: str = "a whole number") -> int:
        """Go past a whole number, and give it. Raises SqlSyntaxError."""
        negative = self.take("-")
        word = self.word
        if word is None or not word.is_number or not word.text.isdigit():
            self.fail(what)
        self.index += 1
        return -int(word.text) if negative else int(word.text)

    def parenthesised(self, what: str = "(") -> str:
        """Go past a pair of brackets, and give the text between them. Raises SqlSyntaxError."""
        if not self.at("("):
            self.fail(what)
        start = self.words[self.index].end
        self.index += 1
        self.until()
        inner = self.sql[start : self.start]
        self.expect(")")
        return inner

    def until(self, *keywords: str, of_types: bool = False) -> str:
        """Go to the first of these keywords outside of brackets and CASE … END; the text until there, trimmed.

        The bracket that closes what the cursor is in ends it too, as does the end of the statement. What follows a dot
        is no keyword.

        Args:
            keywords: in upper case.
            of_types: whether `<` and `>` are brackets.
        """
        begin, first, nesting = self.start, self.index, Nesting(of_types=of_types)
        while (word := self.word) is not None:
            is_name = self.index > first and self.words[self.index - 1].keyword == "."
            if nesting.is_outside and word.keyword in keywords and not is_name:
                break
            if not nesting.enter(word, is_name=is_name):
                break
            self.index += 1
        return "" if self.index == first else self.sql[begin : self.words[self.index - 1].end].strip()

    def rest(self) -> str:
        """Go to the end, and give the text until there, trimmed."""
        begin = self.start
        self.index = len(self.words)
        return self.sql[begin : self.start].strip()

    def fail(self, expected: str) -> NoReturn:
        """Raise SqlSyntaxError: `expected` is not what comes next."""
        found = "the end" if self.word is None else repr(self.sql[self.word.start : self.word.end])
        raise SqlSyntaxError(
            f"expected {expected}, found {found} at character {self.start + 1} of: {shown(self.sql)}", sql=self.sql
        )
