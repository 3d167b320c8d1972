"""Parsed statements: the base class, and those of no particular kind."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias, Union

from paimon_spark.errors import PaimonError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Name: TypeAlias = tuple[str, ...]
"""The parts of a name: of a table, a column, or a nested field."""


class Outcome(Enum):
    """Result of a command without rows."""

    RUN_BY_SPARK = "the statement is not about tables of the catalog, so Spark runs it"


Result: TypeAlias = Union["DataFrame", Outcome, None]
"""What a command returns: rows, None for no rows, or that Spark is to run the statement."""


@dataclass(frozen=True, slots=True)
class Statement:
    """A parsed statement and its text. Subclasses are frozen; they hold names, values, and text that Spark parses."""

    sql: str


@dataclass(frozen=True, slots=True)
class TableStatement(Statement):
    """A statement about one table; `$branch_<name>` at the end of its name means that branch."""

    table: Name


@dataclass(frozen=True, slots=True)
class Query(Statement):
    """A query, or any other statement that Spark runs."""


@dataclass(frozen=True, slots=True)
class InvalidStatement(TableStatement):
    """A statement that is wrong for tables of the catalog; for other tables Spark decides.

    `provider` is the format after USING of a table that it `creates`; `copies` says that it is LIKE another.
    """

    error: PaimonError
    creates: bool = False
    provider: str | None = None
    copies: bool = False


@dataclass(frozen=True, slots=True)
class UnsupportedStatement(Statement):
    """A statement that is not supported for tables of the catalog.

    It is refused when one of the tables it names is the catalog's, or when it names none. They exist, unless they
    `may_be_missing`.
    """

    names: tuple[Name, ...]
    feature: str
    instead: str
    may_be_missing: bool = False
