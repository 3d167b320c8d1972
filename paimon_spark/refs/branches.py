"""Branches of a table.

Source: Java `utils/BranchManager`; PIP-14 for `MAIN-BRANCH`. The base of a branch is derived as Paimon 0.9 did.
"""

from __future__ import annotations

from dataclasses import dataclass

from paimon_spark.metadata.handle import TableHandle, branch_names
from paimon_spark.metadata.layout import BRANCH_PREFIX, MAIN, is_ref_name
from paimon_spark.metadata.schemas import list_schema_ids
from paimon_spark.metadata.snapshots import earliest_snapshot
from paimon_spark.refs.tags import list_tags


@dataclass(frozen=True, slots=True)
class Branch:
    """A branch of a table.

    Attributes:
        is_main: whether `main` means this branch (file `MAIN-BRANCH`).
        created_from_tag, created_from_snapshot_id: its base as far as it can be told from its files.
        modified_ms: epoch milliseconds of the directory's last change; None when the store does not say.
    """

    name: str
    is_main: bool
    created_from_tag: str | None
    created_from_snapshot_id: int | None
    modified_ms: int | None


def branch_exists(handle: TableHandle, name: str) -> bool:
    """Whether the table has a branch of this name; main always exists."""
    if name == MAIN:
        return True
    return is_ref_name(name) and bool(list_schema_ids(handle.store, handle.layout.with_branch(name)))


def list_branch_names(handle: TableHandle) -> list[str]:
    """Names of the branches, sorted, without `main` itself."""
    return branch_names(handle.store, handle.layout)


def list_branches(handle: TableHandle) -> list[Branch]:
    """The branches, sorted by name, without `main` itself; a branch that main means is marked."""
    times = {info.name: info.modified_ms for info in handle.store.list(handle.layout.branches_dir)}
    return [_branch(handle, name, times.get(BRANCH_PREFIX + name)) for name in list_branch_names(handle)]


def _branch(handle: TableHandle, name: str, modified_ms: int | None) -> Branch:
    on_branch = handle.on_branch_directory(name)
    earliest = earliest_snapshot(on_branch)
    first_tag = next(iter(list_tags(on_branch)), None)
    # The branch was made from its oldest tag exactly when its snapshots begin with that tag's.
    from_tag = first_tag is not None and earliest is not None and first_tag.snapshot.id == earliest.id
    return Branch(
        name,
        handle.layout.main_branch == name,
        first_tag.name if first_tag is not None and from_tag else None,
        None if earliest is None else earliest.id,
        modified_ms,
    )
