"""Branches of a table.

Source: Java `utils/BranchManager`; PIP-14 for `MAIN-BRANCH`. The base of a branch is what its `FORK` file says, else
derived from its own files as Paimon 0.9 did.
"""

from __future__ import annotations

from dataclasses import dataclass

from paimon_spark.display.values import ShownAsFacts
from paimon_spark.metadata.forks import Fork, fork_of
from paimon_spark.metadata.guards import guarded_branch
from paimon_spark.metadata.handle import TableHandle, seen_branch_names
from paimon_spark.metadata.handover import seen_schema_ids
from paimon_spark.metadata.layout import BRANCH_PREFIX, MAIN, is_ref_name
from paimon_spark.metadata.snapshots import earliest_snapshot
from paimon_spark.metadata.tags import list_tags


@dataclass(frozen=True, slots=True)
class Branch(ShownAsFacts):
    """A branch of a table.

    Attributes:
        is_main: whether `main` means this branch (file `MAIN-BRANCH`).
        created_from_tag, created_from_snapshot_id: its base as far as it can be told from its files.
        modified_ms: epoch milliseconds of the directory's last change; None when the store does not say.
        fork: where it left another branch; None where nothing tells.
    """

    name: str
    is_main: bool
    created_from_tag: str | None
    created_from_snapshot_id: int | None
    modified_ms: int | None
    fork: Fork | None = None


def branch_exists(handle: TableHandle, name: str) -> bool:
    """Whether the table has a branch of this name; main always exists."""
    if name == MAIN:
        return True
    return is_ref_name(name) and bool(seen_schema_ids(handle.store, handle.layout.with_branch(name)))


def list_branch_names(handle: TableHandle) -> list[str]:
    """Names of the branches that readers see, sorted, without `main` itself; as `metadata.handle.seen_branch_names`."""
    return seen_branch_names(handle.store, handle.layout)


def list_branches(handle: TableHandle) -> list[Branch]:
    """The branches, sorted by name, without `main` itself; a branch that main means is marked."""
    times = {info.name: info.modified_ms for info in handle.store.list(handle.layout.branches_dir)}
    return [_branch(handle, name, times.get(BRANCH_PREFIX + name)) for name in list_branch_names(handle)]


def _branch(handle: TableHandle, name: str, modified_ms: int | None) -> Branch:
    on_branch = handle.on_branch_directory(name)
    fork = fork_of(on_branch)
    tag, snapshot_id = (fork.tag, fork.snapshot_id) if fork is not None and fork.recorded else _first(on_branch)
    return Branch(name, handle.layout.main_branch == name, tag, snapshot_id, modified_ms, fork)


def _first(on_branch: TableHandle) -> tuple[str | None, int | None]:
    """The tag and snapshot that the branch's own files begin with."""
    earliest = earliest_snapshot(on_branch)
    first_tag = next((t for t in list_tags(on_branch) if guarded_branch(t.name) is None), None)
    # The branch was made from its oldest tag exactly when its snapshots begin with that tag's.
    from_tag = first_tag is not None and earliest is not None and first_tag.snapshot.id == earliest.id
    return (
        first_tag.name if first_tag is not None and from_tag else None,
        None if earliest is None else earliest.id,
    )
