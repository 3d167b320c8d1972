"""Text → INSERT, DELETE, UPDATE, TRUNCATE; and what is refused. MERGE is in `merge_grammar`.

Statements that change rows, as they were read: names, and text that Spark is to read.
"""

from __future__ import annotations

from typing import Final
from paimon_spark.sql.tokens import outside
from paimon_spark.sql.cursor import Cursor
from paimon_spark.sql.grammar.merge_into import read_merge
from paimon_spark.sql.rows.pieces import assignments, names, options, partition, piece, whole_partition
from paimon_spark.sql.statement import Statement
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias
from paimon_spark.sql.statement import Statement

_EVOLUTION: Final = "Set spark.paimon.write.merge-schema=true and write INSERT INTO … BY NAME …"


def read_insert(cursor: Cursor, prefix: str = "") -> Statement | None:
    """INSERT …; None for INSERT OVERWRITE DIRECTORY and names that Spark computes, which are Spark's.

    Raises SqlSyntaxError.
    """
    cursor.expect("INSERT")
    evolves = cursor.take("WITH", "SCHEMA", "EVOLUTION")
    verb = cursor.take_one("INTO", "OVERWRITE")
    if verb is None:
        cursor.fail("INTO or OVERWRITE")
    if cursor.at("DIRECTORY") or cursor.at("LOCAL", "DIRECTORY"):
        return None
    cursor.take("TABLE")
    if cursor.at("IDENTIFIER", "("):
        return None
    name = cursor.name()
    if evolves:
        return Refused(cursor.sql, (name,), "INSERT WITH SCHEMA EVOLUTION", _EVOLUTION)
    given = options(cursor) if cursor.at("WITH", "(") and cursor.take("WITH") else {}
    static = partition(cursor) if cursor.take("PARTITION") else {}
    if_not_exists = cursor.take("IF", "NOT", "EXISTS")
    by_name = cursor.take("BY", "NAME")
    where = None
    if verb == "INTO" and cursor.at("REPLACE") and not static:
        if not cursor.at("REPLACE", "WHERE"):
            return Refused(
                cursor.sql,
                (name,),
                "INSERT INTO … REPLACE other than REPLACE WHERE",
                "MERGE INTO replaces rows by a condition; INSERT OVERWRITE … PARTITION (…) replaces partitions",
            )
        cursor.take("REPLACE", "WHERE")
        where = piece(cursor, "SELECT", "VALUES", "TABLE", "FROM", "WITH")
    columns = None if by_name else _column_list(cursor)
    start = cursor.start
    query = cursor.rest()
    if not query:
        cursor.fail("a query, VALUES or TABLE")
    first = Cursor(query)
    if first.take("TABLE"):
        query = "SELECT * FROM " + query[first.start :]  # noqa: S608 - the user's own
    elif first.at("FROM") and _finds(cursor, start, "INSERT"):
        return _several(cursor)
    return Insert(
        cursor.sql,
        name,
        f"{prefix} {query}" if prefix else query,
        overwrites=verb == "OVERWRITE" or where is not None,
        partition=static,
        columns=columns,
        by_name=by_name,
        replace_where=where,
        if_not_exists=if_not_exists,
        options=given,
    )


def _column_list(cursor: Cursor) -> tuple[str, ...] | None:
    """The names in brackets that come next; None when what is in brackets is a query, or nothing is."""
    if not cursor.at("("):
        return None
    following = [w.keyword for w in cursor.words[cursor.index + 1 : cursor.index + 3]]
    if following[:1] in (["SELECT"], ["WITH"], ["VALUES"], ["FROM"], ["TABLE"], ["("]) and following[1:] not in (
        [","],
        [")"],
    ):
        return None
    found = names(cursor)
    if any(len(n) > 1 for n in found):
        cursor.fail("names of columns without the table's")
    return tuple(n[0] for n in found)


def read_with(cursor: Cursor) -> Statement | None:
    """WITH … INSERT, DELETE, UPDATE or MERGE; None for WITH … SELECT, which is a query. Raises SqlSyntaxError."""
    place = _at_top(cursor, 0, "INSERT", "DELETE", "UPDATE", "MERGE", "SELECT", "VALUES", "FROM", "TABLE")
    if place is None:
        return None
    cursor.index = place
    prefix = cursor.sql[: cursor.start].strip()
    if cursor.at("INSERT"):
        return read_insert(cursor, prefix)
    if cursor.at("DELETE", "FROM"):
        return read_delete(cursor, prefix)
    if cursor.at("UPDATE"):
        return read_update(cursor, prefix)
    return read_merge(cursor, prefix) if cursor.at("MERGE") else None


def read_from(cursor: Cursor) -> Statement | None:
    """FROM … INSERT … INSERT …; None for FROM … SELECT, which is a query."""
    return None if _at_top(cursor, 0, "INSERT") is None else _several(cursor)


def read_delete(cursor: Cursor, prefix: str = "") -> Delete:
    """DELETE FROM … . Raises SqlSyntaxError."""
    cursor.expect("DELETE", "FROM")
    name = cursor.name()
    alias = alias_before(cursor, "WHERE")
    where = _where(cursor)
    cursor.end()
    return Delete(cursor.sql, name, alias, where, prefix)


def read_update(cursor: Cursor, prefix: str = "") -> Update:
    """UPDATE … SET … . Raises SqlSyntaxError."""
    cursor.expect("UPDATE")
    name = cursor.name()
    alias = alias_before(cursor, "SET")
    cursor.expect("SET")
    found = assignments(cursor, "WHERE")
    where = _where(cursor)
    cursor.end()
    return Update(cursor.sql, name, found, alias, where, prefix)


def alias_before(cursor: Cursor, *keywords: str) -> str | None:
    """Go past an alias, with AS or without, unless one of `keywords` comes next. Raises SqlSyntaxError."""
    if cursor.take("AS"):
        return cursor.identifier("an alias")
    return None if cursor.is_over or any(map(cursor.at, keywords)) else cursor.identifier("an alias")


def _where(cursor: Cursor) -> str | None:
    return piece(cursor) if cursor.take("WHERE") else None


def read_truncate(cursor: Cursor) -> Truncate:
    """TRUNCATE TABLE … . Raises SqlSyntaxError."""
    cursor.expect("TRUNCATE", "TABLE")
    name = cursor.name()
    found = whole_partition(cursor) if cursor.take("PARTITION") else {}
    cursor.end()
    return Truncate(cursor.sql, name, found)


def read_copy(cursor: Cursor) -> Refused:
    """COPY INTO …, which is refused."""
    cursor.expect("COPY", "INTO")
    out = cursor.word is not None and cursor.word.is_text
    instead = (
        "Write files with catalog.sql('SELECT …').write.format('csv').option('header', True).save(path); also json, "
        "parquet"
        if out
        else "INSERT INTO t BY NAME SELECT … FROM parquet.`path` does it, as does INSERT INTO t SELECT … FROM "
        "csv.`path`, read_files or a temporary view: CREATE TEMPORARY VIEW v (…) USING csv OPTIONS (path '…', header "
        "'true', sep '|', nullValue '', pathGlobFilter '*.csv', mode 'FAILFAST')"
    )
    return Refused(cursor.sql, (), "COPY INTO", instead)


def read_load(cursor: Cursor) -> Refused | None:
    """LOAD DATA … INTO TABLE …, which is refused for tables of the catalog."""
    place = _at_top(cursor, 0, "TABLE")
    if place is None:
        return None
    cursor.index = place + 1
    return Refused(
        cursor.sql,
        (cursor.name(),),
        "LOAD DATA",
        "INSERT INTO t SELECT … FROM parquet.`path` reads files and writes rows",
    )


def _several(cursor: Cursor) -> Refused:
    """Several INSERTs of one FROM: the tables that they write to."""
    found: list[Name] = []
    index = 0
    while (place := _at_top(cursor, index, "INSERT")) is not None:
        cursor.index = place + 1
        if cursor.take_one("INTO", "OVERWRITE") is not None and not cursor.at("DIRECTORY"):
            cursor.take("TABLE")
            found.append(cursor.name())
        index = max(cursor.index, place + 1)
    return Refused(
        cursor.sql,
        tuple(found),
        "several INSERTs of one FROM",
        "They would be several commits, of which some may fail: write one INSERT … SELECT for each table",
    )


def _finds(cursor: Cursor, start: int, keyword: str) -> bool:
    first = next((i for i, w in enumerate(cursor.words) if w.start >= start), len(cursor.words))
    return _at_top(cursor, first, keyword) is not None


def _at_top(cursor: Cursor, start: int, *keywords: str) -> int | None:
    """The index of the first of `keywords` that stands in no brackets, from word `start`."""
    words = cursor.words
    for index in outside(words, start):
        if words[index].keyword in keywords and (index == 0 or words[index - 1].keyword != "."):
            return index
    return None


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
