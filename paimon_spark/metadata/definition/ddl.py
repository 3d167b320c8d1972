"""Parser of Spark DDL for the columns of a table: `id BIGINT NOT NULL, tags ARRAY<STRING>`.

Types are Spark's, so TIMESTAMP is an instant (TIMESTAMP_LTZ); Paimon's own words are understood beside them
(TIME(3), BYTES, MULTISET<…>, TIMESTAMP(3) WITH LOCAL TIME ZONE). Field ids are those of `create.new_schema`.
"""

from __future__ import annotations

from typing import Final

from sqlglot.errors import SqlglotError

from paimon_spark.errors import FormatError, InvalidInputError, UnsupportedFeatureError
from paimon_spark.format.casts.defaults import collection_text
from paimon_spark.options.descriptor import did_you_mean
from paimon_spark.predicate.tokens import Token, tokens_of
from paimon_spark.text import integer_of
from paimon_spark.types import (
    DOUBLE,
    ArrayType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    OpaqueType,
    RowType,
    TimestampType,
    parse_type,
)

_SPARK_WORDS: Final = {"BYTE": "TINYINT", "SHORT": "SMALLINT", "LONG": "BIGINT", "REAL": "FLOAT", "INTEGER": "INT"}
_MAX_DEPTH: Final = 100
_TIMESTAMP_WORDS: Final = ("TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ")
_NAMES: Final = (
    "BOOLEAN", "TINYINT", "SMALLINT", "INT", "INTEGER", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL", "DATE", "TIME",
    *_TIMESTAMP_WORDS, "STRING", "CHAR", "VARCHAR", "BINARY", "BYTES", "VARIANT", "ARRAY", "MAP", "STRUCT",
)  # fmt: skip
"""Names that messages offer for an unknown one."""


def row_type(text: str) -> RowType:
    """The columns of DDL text.

    Raises:
        InvalidInputError: not DDL; the message says where.
        UnsupportedFeatureError: a type, or an expression as default, that tables here cannot have.
    """
    parser = _Parser(text)
    fields = parser.fields(None, nested=False)
    parser.end()
    return RowType(False, fields)


def data_type(text: str) -> DataType:
    """The type of DDL text such as `DECIMAL(10, 2) NOT NULL`. Raises as `row_type`."""
    parser = _Parser(text)
    found = parser.type()
    nullable = parser.nullability()
    parser.end()
    return found.with_nullable(nullable)


def default_text(sql: str, column: str) -> str | None:
    """The text that a default written in SQL stands for; None for NULL. Raises as `row_type`."""
    parser = _Parser(sql)
    found = parser.default(column)
    parser.end()
    return found


class _Parser:
    """Walks over the tokens of one text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._next = 0
        self._depth = 0
        try:
            self._tokens = tokens_of(text)
        except SqlglotError as e:
            raise InvalidInputError(f"{_shown(text)} is not DDL: {e}") from e

    # Tokens

    def _word(self) -> str:
        """The next token in upper case, quoted names and literals aside; empty at the end."""
        token = self._peek()
        return "" if token is None else token.keyword

    def _peek(self, ahead: int = 0) -> Token | None:
        place = self._next + ahead
        return self._tokens[place] if place < len(self._tokens) else None

    def _take(self, *words: str) -> bool:
        """Step over the next token when it is one of `words`."""
        if self._word() in words:
            self._next += 1
            return True
        return False

    def _expect(self, word: str) -> None:
        if not self._take(word):
            raise self._wrong(f"expected {word!r}")

    def _wrong(self, what: str) -> InvalidInputError:
        token = self._peek()
        found = "the end" if token is None else f"{self._text[token.start :][:20]!r} at position {token.start + 1}"
        return InvalidInputError(
            f"{_shown(self._text)} is not DDL: {what}, found {found}; write columns as "
            "id BIGINT NOT NULL COMMENT '…', tags ARRAY<STRING>"
        )

    def end(self) -> None:
        """Check that nothing is left."""
        if self._peek() is not None:
            raise self._wrong("expected a comma or the end")

    # Columns

    def fields(self, closing: str | None, nested: bool) -> tuple[DataField, ...]:
        """Columns, or fields of a row up to `closing`, which is left."""
        found: list[DataField] = []
        while True:
            found.append(self._field(len(found), nested))
            if not self._take(","):
                return tuple(found)
            if closing is not None and self._word() == closing:
                raise self._wrong("expected a field")

    def _field(self, position: int, nested: bool) -> DataField:
        name = self._name()
        self._take(":")
        found, nullable = self.type(), True
        comment: str | None = None
        default: str | None = None
        while True:
            if self._word() == "NOT":
                nullable = self.nullability()
            elif self._take("NULL"):
                nullable = True
            elif self._take("COMMENT"):
                comment = self._string()
            elif not nested and self._take("DEFAULT"):
                default = self.default(name)
            else:
                return DataField(position, name, found.with_nullable(nullable), comment, default)

    def _name(self) -> str:
        token = self._peek()
        if token is None or not token.is_name:
            raise self._wrong("expected the name of a column")
        self._next += 1
        return token.text

    def nullability(self) -> bool:
        """Whether the type just read is nullable: `NOT NULL` may follow."""
        if self._take("NOT"):
            self._expect("NULL")
            return False
        return True

    def _string(self) -> str:
        token = self._peek()
        if token is None or not token.is_text:
            raise self._wrong("expected a text in quotes")
        self._next += 1
        return token.text

    def default(self, column: str) -> str | None:
        """The text of a constant: what Paimon keeps, and casts to the column's type."""
        text, is_quoted = self._constant(column)
        if self._is_inside():
            raise self._no_constant(column)
        return f"'{text}'" if is_quoted else text

    def _constant(self, column: str) -> tuple[str | None, bool]:
        """Text of a constant (None for null), and whether it is quoted."""
        if self._take("DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ", "TIME"):
            return self._string(), True
        if self._take("NULL"):
            return None, False
        token = self._peek()
        if token is not None and token.is_text:
            return self._string(), True
        following = self._peek(1)
        if self._word() in ("ARRAY", "MAP", "STRUCT") and following is not None and following.text == "(":
            return self._collection(column), False
        sign = "-" if self._take("-") else ""
        token = self._peek()
        if token is not None and (token.is_number or (not sign and self._word() in ("TRUE", "FALSE"))):
            self._next += 1
            return sign + token.text.lower(), False
        raise self._no_constant(column)

    def _collection(self, column: str) -> str:
        """The text of `array(…)`, `map(…)` or `struct(…)`."""
        word = self._word().lower()
        self._next += 2
        items: list[tuple[str, bool]] = []
        while not self._take(")"):
            if items:
                self._expect(",")
            text, is_quoted = self._constant(column)
            if self._word() not in (",", ")"):
                raise self._no_constant(column)
            items.append(("null" if text is None else text, is_quoted))
        return collection_text(word, items, column)

    def _is_inside(self) -> bool:
        """Whether an expression goes on behind what was read."""
        after = self._peek()
        return after is not None and after.text != "," and self._word() not in ("NOT", "NULL", "COMMENT", "DEFAULT")

    def _no_constant(self, column: str) -> UnsupportedFeatureError:
        return UnsupportedFeatureError(
            f"column {column}: a default is a literal (a number, a text in quotes, TRUE, FALSE, DATE '…'), or "
            "array(…), map(…) or struct(…) of literals, not an expression",
            feature="default expression",
            column=column,
        )

    # Types

    def type(self) -> DataType:
        """A type, nullable."""
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise InvalidInputError(f"{_shown(self._text)}: types are nested more than {_MAX_DEPTH} deep")
        try:
            return self._nested_type() or self._plain_type()
        finally:
            self._depth -= 1

    def _nested_type(self) -> DataType | None:
        after = self._peek(1)
        if after is None or after.text not in ("<", "<>"):
            return None
        word = self._word()
        if word not in ("ARRAY", "MAP", "MULTISET", "STRUCT", "ROW"):
            raise self._wrong("expected ARRAY<…>, MAP<…>, MULTISET<…> or STRUCT<…>")
        self._next += 1
        self._expect("<")
        found = self._inside(word)
        self._expect(">")
        return found

    def _inside(self, word: str) -> DataType:
        match word:
            case "ARRAY":
                return ArrayType(element=self._element())
            case "MULTISET":
                return MultisetType(element=self._element())
            case "MAP":
                key = self._element().with_nullable(False)
                self._expect(",")
                return MapType(key=key, value=self._element())
        return RowType(fields=self.fields(">", nested=True))

    def _element(self) -> DataType:
        found = self.type()
        return found.with_nullable(self.nullability())

    def _plain_type(self) -> DataType:
        start = self._next
        word, token = self._word(), self._peek()
        if token is None or not word or not token.is_name:
            raise self._wrong("expected a type")
        self._next += 1
        if word == "DOUBLE" and self._take("PRECISION"):
            return DOUBLE
        arguments = self._arguments()
        if word in _TIMESTAMP_WORDS:
            return self._timestamp(word, arguments)
        text = "BYTES" if word == "BINARY" and not arguments else _SPARK_WORDS.get(word, word)
        if word in ("CHAR", "CHARACTER", "VARCHAR") and len(arguments) != 1:
            self._next = start
            raise self._wrong(f"{word} needs a length, as in {word}(10)")
        return self._checked(text.replace("CHARACTER", "CHAR"), arguments, start)

    def _checked(self, word: str, arguments: list[int], start: int) -> DataType:
        text = word + (f"({', '.join(map(str, arguments))})" if arguments else "")
        try:
            found = parse_type(text)
        except FormatError as e:
            raise InvalidInputError(f"{_shown(self._text)}: {e.message}") from e
        if isinstance(found, OpaqueType):
            token = self._tokens[start]
            raise UnsupportedFeatureError(
                f"{_shown(self._text)}: unknown type {text} at position {token.start + 1}{did_you_mean(word, _NAMES)}",
                feature=f"type {text}",
            )
        return found

    def _arguments(self) -> list[int]:
        if not self._take("("):
            return []
        found = []
        while True:
            token = self._peek()
            number = integer_of(token.text) if token is not None and token.is_number else None
            if number is None:
                raise self._wrong("expected a number")
            found.append(number)
            self._next += 1
            if self._take(")"):
                return found
            self._expect(",")

    def _timestamp(self, word: str, arguments: list[int]) -> DataType:
        zone = self._zone()
        if zone is None:
            if word == "TIMESTAMP" and arguments:
                raise self._wrong(
                    f"TIMESTAMP({arguments[0]}) is an instant for Spark and none for Paimon; "
                    f"write TIMESTAMP_LTZ({arguments[0]}) or TIMESTAMP_NTZ({arguments[0]})"
                )
            zone = word != "TIMESTAMP_NTZ"
        precision = arguments[0] if arguments else 6
        if not 0 <= precision <= 9:
            raise self._wrong(f"{word}({precision}): 0 to 9 digits")
        return TimestampType(precision=precision, local_zone=zone)

    def _zone(self) -> bool | None:
        """`WITH LOCAL TIME ZONE` is True, `WITHOUT TIME ZONE` False, neither None."""
        for first, rest, local in (("WITHOUT", ("TIME", "ZONE"), False), ("WITH", ("LOCAL", "TIME", "ZONE"), True)):
            if self._take(first):
                for word in rest:
                    self._expect(word)
                return local
        return None


def _shown(text: str) -> str:
    return repr(text if len(text) <= 200 else text[:200] + "…")
