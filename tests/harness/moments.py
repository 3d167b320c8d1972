"""Verbs on refs, killed after each single change of the store, and what a reader who may not write finds then.

`delete_tree`, `delete_many` and a `rename_tree` that copies count as one call for each file, in an order that may be
turned round: stores promise none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

import pytest

from paimon_spark.api.table import Table
from paimon_spark.errors import FileAlreadyThereError, NotFoundError, PaimonError
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.maintenance.change import recover
from paimon_spark.metadata.handle import TableHandle, open_branch, open_table
from paimon_spark.metadata.layout import MAIN, Layout
from paimon_spark.metadata.resolve import resolve
from paimon_spark.metadata.schemas import list_schema_ids, read_schema
from paimon_spark.metadata.snapshots import find_snapshot, list_snapshot_ids
from paimon_spark.metadata.tags import guarded_branch
from paimon_spark.metadata.version import VersionKind, VersionSpec
from paimon_spark.storage.store import Store
from paimon_spark.versioning.branches import check_branch_exists
from tests.harness.fault_store import MUTATING, Fault, FaultStore

Seen: TypeAlias = dict[tuple[str, str], Any]
"""By (branch, tag), or (branch, "") for the branch itself: what is read there."""


@dataclass(frozen=True)
class StepwiseStore(FaultStore):
    """FaultStore on which verbs for many files are many calls.

    Attributes:
        backwards: in descending order of the names.
    """

    backwards: bool = False

    def delete_many(self, paths: Sequence[str]) -> None:
        for path in sorted(paths, reverse=self.backwards):
            self.delete(path)

    def delete_tree(self, directory: str) -> None:
        self.delete_many(self._below(directory))
        self.inner.delete_tree(directory)  # directories without files, where there are any

    def rename_tree(self, old: str, new: str, last: Sequence[str] = ()) -> None:
        if self.inner.renames_directories:
            super().rename_tree(old, new, last)
            return
        if self.inner.exists(new):
            raise FileAlreadyThereError(f"{new} is there", path=new)
        paths = sorted(self._below(old), reverse=self.backwards)
        parts = [[p for p in paths if p.removeprefix(f"{old}/").split("/")[0] == name] for name in last]
        for path in [*(p for p in paths if not any(p in part for part in parts)), *(p for q in parts for p in q)]:
            self.write(new + path.removeprefix(old), self.inner.read(path))
        for part in parts:
            self.delete_many(part)
        self.delete_tree(old)

    def _below(self, directory: str) -> list[str]:
        found = []
        for info in self.inner.list(directory):
            path = f"{directory}/{info.name}"
            found += self._below(path) if info.is_directory else [path]
        return found


@dataclass(frozen=True)
class Moment:
    """What is seen after a number of changes.

    Attributes:
        changes: how many were made before the process died.
        seen: by readers, before anything is repaired.
        foreign: the same for who knows neither `intent/` nor `HANDOVER`; whole branches alone.
        repaired: by readers after the next one who may write.
        over: the verb came to its end.
    """

    changes: int
    seen: Seen
    foreign: set[str]
    repaired: Seen
    over: bool


def moments(
    plant: Callable[[str], tuple[Store, str]],
    act: Callable[[Table], Any],
    names: Sequence[str] = (),
    *,
    backwards: bool = False,
    step: int = 1,
) -> Iterator[Moment]:
    """The verb on a new copy of the table, killed after 0, 1, 2… changes until it ends.

    Args:
        plant: makes a copy of the table in a place of that name: its store and directory.
        act: the verb.
        names: of branches that may be missing; what is said of them then is checked.
        backwards: as `StepwiseStore`.
        step: 2 leaves out every second number of changes.
    """
    inner, root = plant("whole")
    known = frozenset(find_uuids(inner, root))
    for changes in range(0, 1000, step):
        inner, root = plant(str(changes))
        store = StepwiseStore(inner, backwards=backwards)
        table = Table(open_table(store, root, name="db.t"))
        before = whole_branches(inner, root)
        store.arm(Fault(max(changes, 1), after=changes > 0, forever=True, retryable=False, verbs=MUTATING))
        with suppress(PaimonError):
            act(table)
        over = not store.failed
        store.arm(Fault(1, forever=True, retryable=False))  # whatever is left of it does nothing more
        found = seen(inner, root, known)
        for name in names:
            if (name, "") not in found:
                check_missing(inner, root, name)
        foreign = {name for name, whole in whole_branches(inner, root).items() if whole in before.values()}
        recover(open_table(inner, root, name="db.t"))
        yield Moment(changes, found, foreign, seen(inner, root, known), over)
        inner.delete_tree(root)  # memory lists a directory by going through all that it holds
        if over:
            return
    raise AssertionError("it never ends")


def find_uuids(inner: Store, root: str) -> Iterator[str]:
    """Those of all snapshots."""
    main = Table(open_table(inner, root, name="db.t"))
    for branch in (main, *(main.branch(b.name) for b in main.branches(include_internal=True))):
        yield from (s.uuid or "" for s in branch.snapshots())


def seen(inner: Store, root: str, known: frozenset[str]) -> Seen:
    """All refs as a reader who may not write finds them: listed, and each opened by its name.

    Snapshots besides the `known` ones are alike, as each run makes its own.
    """
    store = FaultStore(inner)
    store.arm(Fault(1, forever=True, retryable=False, verbs=MUTATING))
    main = Table(open_table(store, root, name="db.t"))
    listed = [MAIN, *(b.name for b in main.branches(include_internal=True) if not b.name.startswith("main_backup"))]
    found: Seen = {}
    for name in listed:
        branch = main.branch(name)
        found[name, ""] = _state(branch.handle, known)
        for tag in branch.tags(include_internal=True):
            if guarded_branch(tag.name) is None:
                resolved = resolve(branch.handle, VersionSpec(VersionKind.TEXT, tag.name))
                assert resolved.snapshot is not None
                found[name, tag.name] = (_which(resolved.snapshot, known), resolved.handle.schema.row_type)
    main.status()
    main.history()
    assert not store.failed, "who reads changes nothing"
    return found


def check_missing(inner: Store, root: str, name: str) -> None:
    """A branch that is not there is refused, and its own name neither offered nor listed."""
    main = open_table(inner, root, name="db.t")
    for ask in (
        lambda: open_table(inner, root, name, "db.t"),
        lambda: open_branch(main, name),
        lambda: check_branch_exists(main, name),
        lambda: resolve(main, VersionSpec(VersionKind.TEXT, name)),
    ):
        with pytest.raises(NotFoundError) as raised:
            ask()
        offered = re.findall(r"(?:did you mean|branches are) [^?;]*", str(raised.value), re.IGNORECASE)
        assert offered and all(name not in re.findall(r"[\w-]+", text) for text in offered), str(raised.value)


def whole_branches(inner: Store, root: str) -> dict[str, tuple[Any, ...]]:
    """Directories below `branch/` as an engine reads them that knows nothing of ours: schemas, head and snapshots."""
    found = {}
    for info in inner.list(f"{root}/branch"):
        name = info.name.removeprefix("branch-")
        layout = Layout(root).with_branch(name)
        schemas = [(i, inner.read(layout.schema_path(i))) for i in list_schema_ids(inner, layout)]
        snapshots = [
            (i.name, inner.read(f"{layout.snapshot_dir}/{i.name}"))
            for i in inner.list(layout.snapshot_dir)
            if i.name.startswith("snapshot-")
        ]
        if schemas and not name.startswith("."):
            found[name] = (tuple(schemas), tuple(snapshots))
    return found


def _which(snapshot: Snapshot, known: frozenset[str]) -> tuple[int, str | None]:
    return snapshot.id, snapshot.uuid if snapshot.uuid in known else None


def _state(handle: TableHandle, known: frozenset[str]) -> tuple[Any, ...]:
    """What a branch is: its schemas, which its files are read with, and its snapshots."""
    schemas = [read_schema(handle.store, handle.layout, i).row_type for i in range(handle.schema.id + 1)]
    found = (find_snapshot(handle, i) for i in list_snapshot_ids(handle))
    return tuple(schemas), tuple(_which(s, known) for s in found if s is not None)
