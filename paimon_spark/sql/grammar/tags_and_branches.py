"""Text → statements on refs.

Tags are written as in Paimon's `PaimonSqlExtensions.g4`, which comes from Iceberg; branches as in Iceberg's
`IcebergSqlExtensions.g4`; DROP and DELETE mean the same.

Statements on tags, branches and savepoints, as they were read.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final
from paimon_spark.sql.cursor import Cursor
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from paimon_spark.sql.statement import Statement

_TAG: Final = "the name of a tag, in backquotes when it is more than letters, digits and _"
_BRANCH: Final = "the name of a branch, in backquotes when it is more than letters, digits and _"
_VERBS: Final = ("CREATE", "REPLACE", "DELETE", "DROP", "RENAME")
_UNITS: Final = {"DAYS": "days", "HOURS": "hours", "MINUTES": "minutes"}


def read_alter(cursor: Cursor) -> RefStatement | None:
    """ALTER TABLE … of a tag or a branch; None when it alters something else.

    Raises:
        SqlSyntaxError: it is of a tag or branch, and written wrongly.
    """
    cursor.expect("ALTER", "TABLE")
    table = cursor.name()
    published = cursor.take_one("FAST", "MERGE")
    if published is not None:
        takes_back = published == "FAST"
        if takes_back:
            cursor.expect("FORWARD")
        cursor.expect("BRANCH")
        statement: RefStatement = PublishBranch(cursor.sql, table, cursor.identifier(_BRANCH), takes_back)
        cursor.end()
        return statement
    verb = cursor.take_one(*_VERBS)
    or_replace = verb == "CREATE" and cursor.take("OR", "REPLACE")
    what = cursor.take_one("TAG", "BRANCH")
    if verb is None or what is None:
        return None
    replace = or_replace or verb == "REPLACE"
    match verb, what:
        case "CREATE" | "REPLACE", "TAG":
            statement = _tag(cursor, table, replace=replace)
        case "CREATE" | "REPLACE", _:
            statement = _branch(cursor, table, replace=replace)
        case "RENAME", _:
            statement = _renamed(cursor, table, what)
        case _:
            statement = _dropped(cursor, table, what)
    cursor.end()
    return statement


def read_show(cursor: Cursor) -> RefStatement:
    """SHOW TAGS t and its kin; IN or FROM may stand before the table. Raises SqlSyntaxError."""
    cursor.expect("SHOW")
    what = next(what for what in Refs if cursor.take(what.name))
    cursor.take_one("IN", "FROM")
    statement = ShowRefs(cursor.sql, cursor.name(), what)
    cursor.end()
    return statement


def _tag(cursor: Cursor, table: tuple[str, ...], *, replace: bool) -> CreateTag:
    if_not_exists = not replace and cursor.take("IF", "NOT", "EXISTS")
    name = cursor.identifier(_TAG)
    version = _version(cursor)
    retained = _retained(cursor) if cursor.take("RETAIN") else None
    return CreateTag(cursor.sql, table, name, version, retained, replace, if_not_exists)


def _branch(cursor: Cursor, table: tuple[str, ...], *, replace: bool) -> CreateBranch:
    if_not_exists = not replace and cursor.take("IF", "NOT", "EXISTS")
    name = cursor.identifier(_BRANCH)
    tag: str | None = None
    version = _version(cursor)
    if version is None and cursor.take("FROM"):
        if cursor.take("TAG"):
            tag = cursor.identifier(_TAG)
        else:
            cursor.expect("SNAPSHOT")
            version = cursor.whole_number("the id of a snapshot")
    retention = cursor.rest() if cursor.at("RETAIN") or cursor.at("WITH", "SNAPSHOT", "RETENTION") else ""
    return CreateBranch(cursor.sql, table, name, tag, version, replace, if_not_exists, retention)


def _dropped(cursor: Cursor, table: tuple[str, ...], what: str) -> RefStatement:
    if_exists = cursor.take("IF", "EXISTS")
    if what == "BRANCH":
        return DropBranch(cursor.sql, table, cursor.identifier(_BRANCH), if_exists)
    given = [cursor.identifier(_TAG)]
    while cursor.take(","):
        given.append(cursor.identifier(_TAG))
    # Paimon writes several names in one pair of backquotes.
    names = [name.strip() for text in given for name in text.split(",")]
    return DropTags(cursor.sql, table, tuple(names), if_exists)


def _renamed(cursor: Cursor, table: tuple[str, ...], what: str) -> RefStatement:
    wanted = _TAG if what == "TAG" else _BRANCH
    old = cursor.identifier(wanted)
    cursor.expect("TO")
    new = cursor.identifier(wanted)
    return RenameTag(cursor.sql, table, old, new) if what == "TAG" else RenameBranch(cursor.sql, table, old, new)


def _version(cursor: Cursor) -> int | str | None:
    """What follows AS OF VERSION; None when nothing does."""
    if not (cursor.take("AS", "OF", "VERSION") or cursor.take("VERSION", "AS", "OF")):
        return None
    if cursor.word is not None and cursor.word.is_text:
        return cursor.text()
    return cursor.whole_number("the id of a snapshot, or a version in quotes")


def _retained(cursor: Cursor) -> timedelta:
    count = cursor.whole_number("a number of days, hours or minutes")
    unit = cursor.take_one(*_UNITS)
    if unit is None:
        cursor.fail("DAYS, HOURS or MINUTES")
    try:
        return timedelta(**{_UNITS[unit]: count})
    except OverflowError:
        cursor.index -= 2
        cursor.fail("a time that a calendar can hold")


@dataclass(frozen=True, slots=True)
class RefStatement(Statement):
    """A statement on the refs of a table.

    Attributes:
        table: parts of the table's name; `$branch_<name>` in it means the refs of that branch.
    """

    table: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CreateTag(RefStatement):
    """CREATE TAG, CREATE OR REPLACE TAG and REPLACE TAG.

    Attributes:
        tag: its name.
        version: what to tag: a snapshot id, or text that means a version of the branch; None is the head.
        retained: how long it lives; None when that is not said.
        replace: whether one that is there is moved; one that is not there is made, by REPLACE TAG too, as in Paimon.
        if_not_exists: whether one that is there is left alone.
    """

    tag: str
    version: int | str | None
    retained: timedelta | None
    replace: bool
    if_not_exists: bool


@dataclass(frozen=True, slots=True)
class DropTags(RefStatement):
    """DELETE TAG, DROP TAG: of several, all or none."""

    tags: tuple[str, ...]
    if_exists: bool


@dataclass(frozen=True, slots=True)
class RenameTag(RefStatement):
    """RENAME TAG."""

    old: str
    new: str


@dataclass(frozen=True, slots=True)
class CreateBranch(RefStatement):
    """CREATE BRANCH, CREATE OR REPLACE BRANCH and REPLACE BRANCH.

    Attributes:
        branch: its name.
        tag: the tag to begin with, when one is named as such.
        version: a snapshot id, or text that means a version of any branch; without either, the head.
        replace: whether a branch that is there shall begin elsewhere.
        if_not_exists: whether one that is there is left alone.
        retention: words on how long it or its snapshots shall live; empty when there are none.
    """

    branch: str
    tag: str | None
    version: int | str | None
    replace: bool
    if_not_exists: bool
    retention: str


@dataclass(frozen=True, slots=True)
class DropBranch(RefStatement):
    """DROP BRANCH, DELETE BRANCH."""

    branch: str
    if_exists: bool


@dataclass(frozen=True, slots=True)
class RenameBranch(RefStatement):
    """RENAME BRANCH."""

    old: str
    new: str


@dataclass(frozen=True, slots=True)
class PublishBranch(RefStatement):
    """FAST FORWARD BRANCH and MERGE BRANCH: main becomes what the branch is.

    Attributes:
        takes_back: FAST FORWARD, which also takes main back where it has every commit of the branch and more.
    """

    branch: str
    takes_back: bool = False


class Refs(Enum):
    """What SHOW lists of a table, and the system table that has more of it."""

    TAGS = "tags"
    BRANCHES = "branches"
    SAVEPOINTS = "savepoints"
    SNAPSHOTS = "snapshots"


@dataclass(frozen=True, slots=True)
class ShowRefs(RefStatement):
    """SHOW TAGS, SHOW BRANCHES, SHOW SAVEPOINTS, SHOW SNAPSHOTS."""

    what: Refs
