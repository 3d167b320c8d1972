"""Grammar of tags and branches: ALTER TABLE … CREATE TAG, SHOW TAGS and the like.

Tags follow Paimon's `PaimonSqlExtensions.g4`, which comes from Iceberg; branches follow Iceberg's
`IcebergSqlExtensions.g4`. DROP and DELETE mean the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from typing import Final

from paimon_spark.sql.cursor import Cursor
from paimon_spark.sql.grammar.clauses import version, version_clause
from paimon_spark.sql.statement import Name, Statement, TableStatement

_TAG: Final = "the name of a tag, in backquotes when it is more than letters, digits and _"
_BRANCH: Final = "the name of a branch, in backquotes when it is more than letters, digits and _"
_VERBS: Final = ("CREATE", "REPLACE", "DELETE", "DROP", "RENAME")
_UNITS: Final = {"DAYS": "days", "HOURS": "hours", "MINUTES": "minutes"}


@dataclass(frozen=True, slots=True)
class CreateTag(TableStatement):
    """CREATE TAG, CREATE OR REPLACE TAG and REPLACE TAG.

    The version is a snapshot id, or the text of a version of any branch; None is the head. `replace` moves an existing
    tag; a missing one is created, by REPLACE TAG too, as in Paimon.
    """

    tag: str
    version: int | str | None
    retained: timedelta | None
    replace: bool
    if_not_exists: bool


@dataclass(frozen=True, slots=True)
class DropTags(TableStatement):
    """DELETE TAG, DROP TAG: of several, all or none."""

    tags: tuple[str, ...]
    if_exists: bool


@dataclass(frozen=True, slots=True)
class CreateBranch(TableStatement):
    """CREATE BRANCH, CREATE OR REPLACE BRANCH and REPLACE BRANCH.

    It begins with the tag, or with a version: a snapshot id, or the text of a version of any branch; without both, with
    the head. `retention` is the text of its retention clauses, empty without. `must_exist`: of REPLACE BRANCH.
    """

    branch: str
    tag: str | None
    version: int | str | None
    replace: bool
    if_not_exists: bool
    retention: str
    must_exist: bool = False


@dataclass(frozen=True, slots=True)
class DropBranch(TableStatement):
    """DROP BRANCH, DELETE BRANCH."""

    branch: str
    if_exists: bool


@dataclass(frozen=True, slots=True)
class RenameRef(TableStatement):
    """RENAME TAG and RENAME BRANCH."""

    old: str
    new: str
    is_tag: bool


@dataclass(frozen=True, slots=True)
class PublishBranch(TableStatement):
    """FAST FORWARD BRANCH and MERGE BRANCH: main becomes what the branch is.

    FAST FORWARD also takes main back when it has all commits of the branch and more.
    """

    branch: str
    takes_back: bool = False


class Refs(Enum):
    """Objects of a table that SHOW lists, and the system table with all columns."""

    TAGS = "tags"
    BRANCHES = "branches"
    SAVEPOINTS = "savepoints"
    SNAPSHOTS = "snapshots"


@dataclass(frozen=True, slots=True)
class ShowRefs(TableStatement):
    """SHOW TAGS, SHOW BRANCHES, SHOW SAVEPOINTS, SHOW SNAPSHOTS."""

    what: Refs


def read_alter_refs(cursor: Cursor, table: Name) -> Statement | None:
    """Read what follows ALTER TABLE t of a tag or branch; None, with the cursor unmoved, of anything else.

    Raises SqlSyntaxError.
    """
    begin = cursor.index
    publish = cursor.take_one("FAST", "MERGE")
    if publish is not None:
        if publish == "FAST":
            cursor.expect("FORWARD")
        cursor.expect("BRANCH")
        return PublishBranch(cursor.sql, table, cursor.identifier(_BRANCH), publish == "FAST")
    verb = cursor.take_one(*_VERBS)
    or_replace = verb == "CREATE" and cursor.take("OR", "REPLACE")
    what = cursor.take_one("TAG", "BRANCH")
    if verb is None or what is None:
        cursor.index = begin
        return None
    replace = or_replace or verb == "REPLACE"
    match verb, what:
        case "CREATE" | "REPLACE", "TAG":
            return _create_tag(cursor, table, replace=replace)
        case "CREATE" | "REPLACE", _:
            return _create_branch(cursor, table, replace=replace, must_exist=verb == "REPLACE")
        case "RENAME", _:
            return _rename(cursor, table, what)
        case _:
            return _drop(cursor, table, what)


def read_show_refs(what: Refs, cursor: Cursor) -> Statement:
    """Read SHOW TAGS t and its like; IN or FROM may precede the table. Raises SqlSyntaxError."""
    cursor.take_one("IN", "FROM")
    return ShowRefs(cursor.sql, cursor.name(), what)


def _create_tag(cursor: Cursor, table: Name, *, replace: bool) -> CreateTag:
    if_not_exists = not replace and cursor.take("IF", "NOT", "EXISTS")
    name = cursor.identifier(_TAG)
    tagged = _version(cursor)
    retained = _retention(cursor) if cursor.take("RETAIN") else None
    return CreateTag(cursor.sql, table, name, tagged, retained, replace, if_not_exists)


def _create_branch(cursor: Cursor, table: Name, *, replace: bool, must_exist: bool) -> CreateBranch:
    if_not_exists = not replace and cursor.take("IF", "NOT", "EXISTS")
    name = cursor.identifier(_BRANCH)
    tag: str | None = None
    start = _version(cursor)
    if start is None and cursor.take("FROM"):
        if cursor.take("TAG"):
            tag = cursor.identifier(_TAG)
        else:
            cursor.expect("SNAPSHOT")
            start = cursor.whole_number("the id of a snapshot")
    retention = cursor.rest() if cursor.at("RETAIN") or cursor.at("WITH", "SNAPSHOT", "RETENTION") else ""
    return CreateBranch(cursor.sql, table, name, tag, start, replace, if_not_exists, retention, must_exist)


def _drop(cursor: Cursor, table: Name, what: str) -> Statement:
    if_exists = cursor.take("IF", "EXISTS")
    if what == "BRANCH":
        return DropBranch(cursor.sql, table, cursor.identifier(_BRANCH), if_exists)
    given = cursor.listed(lambda: cursor.identifier(_TAG))
    # Paimon writes several names in one pair of backquotes.
    names = [name.strip() for text in given for name in text.split(",")]
    return DropTags(cursor.sql, table, tuple(names), if_exists)


def _rename(cursor: Cursor, table: Name, what: str) -> Statement:
    expected = _TAG if what == "TAG" else _BRANCH
    old = cursor.identifier(expected)
    cursor.expect("TO")
    return RenameRef(cursor.sql, table, old, cursor.identifier(expected), is_tag=what == "TAG")


def _version(cursor: Cursor) -> int | str | None:
    """Read AS OF VERSION … or VERSION AS OF …; None when neither comes next."""
    return version(cursor) if cursor.take("AS", "OF", "VERSION") else version_clause(cursor)


def _retention(cursor: Cursor) -> timedelta:
    count = cursor.whole_number("a number of days, hours or minutes")
    unit = cursor.take_one(*_UNITS)
    if unit is None:
        cursor.fail("DAYS, HOURS or MINUTES")
    try:
        return timedelta(**{_UNITS[unit]: count})
    except OverflowError:
        cursor.index -= 2
        cursor.fail("a shorter time")
