"""A table with branches as dictionaries: what every version of every branch reads, said by replaying what was done.

A snapshot is known by its uuid, which copies of it on other branches and in tags share, so its rows are said once.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from paimon_spark.api.table import Table
from paimon_spark.metadata.tags import guarded_branch
from paimon_spark.versioning.rollback import AS_LATEST

Rows = tuple[tuple[Any, ...], ...]
"""(k, v, further columns in order of their names…), sorted."""


@dataclass
class BranchModel:
    """The history of one branch.

    Attributes:
        history: uuid by id of all snapshots that ever led to the head, expired ones too.
        tags: snapshot id and uuid by name, without guards.
        columns: columns that were added to k and v.
        schemas: what made each schema after the first.
    """

    history: dict[int, str] = field(default_factory=dict)
    tags: dict[str, tuple[int, str]] = field(default_factory=dict)
    columns: tuple[str, ...] = ()
    schemas: tuple[str, ...] = ()

    @property
    def head(self) -> int:
        return max(self.history, default=0)

    def up_to(self, snapshot_id: int) -> BranchModel:
        """What a branch made from a snapshot has, and what stays after rolling back to it."""
        return BranchModel(
            {i: u for i, u in self.history.items() if i <= snapshot_id},
            {name: tag for name, tag in self.tags.items() if tag[0] <= snapshot_id},
            self.columns,
            self.schemas,
        )

    def fork(self, other: BranchModel) -> int:
        """The newest snapshot that both histories share; 0 when they share none."""
        return max((i for i, u in self.history.items() if other.history.get(i) == u), default=0)


@dataclass
class Model:
    """All branches; `main` may be another name for one of them."""

    lines: dict[str, BranchModel] = field(default_factory=lambda: {"main": BranchModel()})
    rows: dict[str, Rows] = field(default_factory=dict)
    main_is: str = "main"

    def copy(self) -> Model:
        return deepcopy(self)

    def line(self, branch: str) -> BranchModel:
        return self.lines[self.main_is if branch == "main" else branch]

    @property
    def names(self) -> list[str]:
        """Names that branches can be asked for by."""
        return ["main", *sorted(n for n in self.lines if n != "main")]

    def head_rows(self, branch: str) -> dict[Any, tuple[Any, ...]]:
        """Rows of the head by key, with the branch's columns."""
        line = self.line(branch)
        return self.rows_at(line, line.head)

    def rows_at(self, line: BranchModel, snapshot_id: int) -> dict[Any, tuple[Any, ...]]:
        """The same for any snapshot; none for id 0."""
        rows = self.rows[line.history[snapshot_id]] if snapshot_id else ()
        width = 2 + len(line.columns)
        return {row[0]: (*row, *(None,) * (width - len(row))) for row in rows}


def roots_of(table: Table) -> Iterator[tuple[str, str, int, str, Table]]:
    """Branch, name of the version, snapshot id, uuid and the table there, of every live version."""
    for name in ("main", *(b.name for b in table.branches(include_internal=True))):
        branch = table.branch(name)
        for snapshot in branch.snapshots():
            yield (
                name,
                f"snapshot.{snapshot.id}",
                snapshot.id,
                snapshot.uuid or "",
                branch.at(f"snapshot.{snapshot.id}"),
            )
        for tag in branch.tags(include_internal=True):
            at = branch.at(f"tag-name.{tag.name}")
            yield name, f"tag-name.{tag.name}", tag.snapshot.id, tag.snapshot.uuid or "", at


def read(table: Table) -> Rows:
    """The rows of a version."""
    arrow = table.scan().to_arrow()
    names = ["k", "v", *sorted(n for n in arrow.column_names if n not in ("k", "v"))]
    columns = [arrow.column(n).to_pylist() for n in names]
    return tuple(sorted(zip(*columns, strict=True), key=repr))


def shape_of(table: Table) -> dict[str, tuple[str, dict[str, str]]]:
    """Head and tags by branch, as uuids; guards and what `rollback_to_as_latest` tags are left out."""
    shape = {}
    for name in ("main", *(b.name for b in table.branches(include_internal=True))):
        branch = table.branch(name)
        snapshots = branch.snapshots()
        named = (
            t
            for t in branch.tags(include_internal=True)
            if guarded_branch(t.name) is None and not t.name.startswith(AS_LATEST)
        )
        tags = {t.name: t.snapshot.uuid or "" for t in named}
        shape[name] = (snapshots[-1].uuid or "" if snapshots else "", tags)
    return shape


def shape_said(model: Model) -> dict[str, tuple[str, dict[str, str]]]:
    """The same, as the model says."""
    shape = {}
    for name in model.names:
        line = model.line(name)
        shape[name] = (line.history.get(line.head, ""), {tag: uuid for tag, (_, uuid) in line.tags.items()})
    return shape
