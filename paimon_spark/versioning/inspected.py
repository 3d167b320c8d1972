"""Refs of a table that were read once, for the checks of `doctor`.

Tests: tests/unit/versioning/test_doctor.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.metadata.branches import Refs
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.journal.change import Root, RootKind


@dataclass(frozen=True, slots=True)
class Inspected:
    """The refs of a table, read once.

    Attributes:
        main: main; the table's own directory when `MAIN-BRANCH` names no branch.
        branches: a handle on each branch with a schema, main's first.
        roots: by the directory of their branch.
        directories: names of all directories of branches, with a schema or without.
        names: of the branches, without `main`.
    """

    main: TableHandle
    branches: tuple[TableHandle, ...]
    roots: dict[str, list[Root]]
    directories: frozenset[str]
    names: frozenset[str]
    _kinds: dict[tuple[str, RootKind], list[Root]] = field(default_factory=dict)
    _refs: dict[str, Refs] = field(default_factory=dict)
    _hidden: dict[str, list[str]] = field(default_factory=dict)

    def of(self, branch: TableHandle, kind: RootKind) -> list[Root]:
        """The roots of a kind in the branch's directory, by snapshot id and then name."""
        key = branch.layout.directory_branch, kind
        found = self._kinds.get(key)
        if found is None:
            roots = (r for r in self.roots.get(key[0], []) if r.kind is kind)
            found = self._kinds[key] = sorted(roots, key=lambda r: (r.snapshot.id, r.name))
        return found

    def refs(self, branch: TableHandle) -> Refs:
        """The snapshots and tags of a branch, without reading them again."""
        directory = branch.layout.directory_branch
        found = self._refs.get(directory)
        if found is None:
            alive = {r.snapshot.id: r.snapshot for r in self.of(branch, RootKind.SNAPSHOT)}
            tags = tuple(self.of(branch, RootKind.TAG))
            found = self._refs[directory] = Refs(branch, tuple(sorted(alive)), tags, alive)
        return found

    def known(self, branch: TableHandle, snapshot_id: int) -> Snapshot | None:
        """The snapshot of a branch, alive or in a tag."""
        return self.refs(branch).known(snapshot_id)

    def tags_with(self, prefix: str) -> list[str]:
        """Names of tags of any branch that begin with `prefix` and a dot."""
        if not self._hidden:
            self._hidden[""] = []
            for name in (r.name for b in self.branches for r in self.of(b, RootKind.TAG)):
                for at in (i for i, c in enumerate(name) if c == "." and i):
                    self._hidden.setdefault(name[:at], []).append(name)
        return self._hidden.get(prefix, [])
