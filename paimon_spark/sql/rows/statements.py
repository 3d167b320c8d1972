"""Statements that change rows, as they were read: names, and text that Spark is to read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from paimon_spark.sql.statement import Statement

Name: TypeAlias = tuple[str, ...]
"""A name of several parts: of a table, a column, or a field of a column."""


@dataclass(frozen=True, slots=True)
class Insert(Statement):
    """INSERT.

    Attributes:
        name: the table.
        query: whence the rows come, with what WITH stated before INSERT.
        overwrites: INSERT OVERWRITE, or INSERT INTO … REPLACE WHERE.
        partition: text of the constant by column of `PARTITION (…)`; None for a column without a value.
        columns: of the column list; None without one.
        by_name: BY NAME.
        replace_where: the condition of REPLACE WHERE.
        if_not_exists: IF NOT EXISTS.
        options: of `WITH ('key' = 'value')` behind the name.
    """

    name: Name
    query: str
    overwrites: bool = False
    partition: Mapping[str, str | None] = field(default_factory=dict)
    columns: tuple[str, ...] | None = None
    by_name: bool = False
    replace_where: str | None = None
    if_not_exists: bool = False
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Assignment:
    """`target = value` of a SET.

    Attributes:
        target: a column, or a field of one, perhaps with the name of the table before it.
        value: an expression, or DEFAULT.
    """

    target: Name
    value: str


@dataclass(frozen=True, slots=True)
class Delete(Statement):
    """DELETE FROM.

    Attributes:
        name: the table.
        alias: what conditions call it; None where nothing is said.
        where: the condition; None for all rows.
        prefix: WITH and what it states.
    """

    name: Name
    alias: str | None = None
    where: str | None = None
    prefix: str = ""


@dataclass(frozen=True, slots=True)
class Update(Statement):
    """UPDATE. Attributes as in Delete; `assignments` is what SET says."""

    name: Name
    assignments: tuple[Assignment, ...]
    alias: str | None = None
    where: str | None = None
    prefix: str = ""


class Matched(Enum):
    """Which rows a clause of MERGE is about: pairs that match, rows of the source alone, rows of the table alone."""

    BOTH = "MATCHED"
    SOURCE = "NOT MATCHED"
    TARGET = "NOT MATCHED BY SOURCE"


class Action(Enum):
    """What a clause of MERGE does."""

    UPDATE = "UPDATE"
    DELETE = "DELETE"
    INSERT = "INSERT"


@dataclass(frozen=True, slots=True)
class WhenClause:
    """WHEN … THEN ….

    Attributes:
        matched: which rows.
        action: what comes of them.
        condition: of those only the ones for which this is true.
        assignments: of columns; None for `*`, and for DELETE.
    """

    matched: Matched
    action: Action
    condition: str | None = None
    assignments: tuple[Assignment, ...] | None = None


@dataclass(frozen=True, slots=True)
class Merge(Statement):
    """MERGE INTO.

    Attributes:
        name: the table.
        alias: as in Delete.
        source: what stands behind USING: a table or a query, with its alias.
        source_alias: what conditions call it; None where it has no name.
        condition: behind ON.
        clauses: in order.
        prefix: WITH and what it states.
    """

    name: Name
    alias: str | None
    source: str
    source_alias: str | None
    condition: str
    clauses: tuple[WhenClause, ...]
    prefix: str = ""


@dataclass(frozen=True, slots=True)
class Truncate(Statement):
    """TRUNCATE TABLE. `partition` as in Insert."""

    name: Name
    partition: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Refused(Statement):
    """A statement that is not carried out on tables of the catalog.

    Attributes:
        names: the tables that it is about; refused when one of them is the catalog's, or when there is no name.
        feature: what is refused.
        instead: what to do.
    """

    names: tuple[Name, ...]
    feature: str
    instead: str
