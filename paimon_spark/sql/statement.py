"""What a family of statements gives to `parse` and `execute`.

A query as it was read: its text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from dataclasses import dataclass

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from paimon_spark.sql.cursor import Cursor
    from paimon_spark.sql.session import Session

@dataclass(frozen=True, slots=True)
class Statement:
    """A statement as it was read. Classes of it are frozen, and hold names, values, and text that Spark is to read.

    Attributes:
        sql: its whole text.
    """

    sql: str


@dataclass(frozen=True, slots=True)
class Family:
    """Statements that belong together.

    Attributes:
        readers: what reads a statement, by the keywords that it begins with (`("SHOW", "TAGS")`). It gets the cursor at
            the first word, and gives None when the statement is not of this family after all. Longer beginnings win.
        runners: what runs it, by its class. Gives the rows, or None for none. It gives NotImplemented when the
            statement is about no table of the catalog: then Spark runs it, as a query.
    """

    readers: Mapping[tuple[str, ...], Callable[[Cursor], Statement | None]]
    runners: Mapping[type[Statement], Callable[[Session, Any], DataFrame | None]]


@dataclass(frozen=True, slots=True)
class Query(Statement):
    """Whatever Spark is to run."""
