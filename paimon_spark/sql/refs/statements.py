"""Statements on tags, branches and savepoints, as they were read."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import Enum

from paimon_spark.sql.statement import Statement


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
