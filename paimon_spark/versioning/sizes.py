"""Sizes: what each branch, tag and savepoint alone keeps, so what deleting it would free."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from paimon_spark.display import ShownAsFacts, amount
from paimon_spark.errors import FormatError, UnsafeDeletionError
from paimon_spark.maintenance.removal import Removed, plan_removal
from paimon_spark.maintenance.roots import all_roots, without
from paimon_spark.metadata.branches import list_branch_names
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.journal.change import Root, RootKind
from paimon_spark.metadata.tags import guarded_branch, savepoint_id_of
from paimon_spark.text import counted, safe
from paimon_spark.versioning.branches import roots_of_branch

BRANCH: Final = "branch"
TAG: Final = "tag"
SAVEPOINT: Final = "savepoint"


@dataclass(frozen=True, slots=True, repr=False)
class RefSize(ShownAsFacts):
    """Bytes that a branch, tag or savepoint alone keeps.

    Attributes:
        kind: `branch`, `tag` or `savepoint`.
        name: of it; the id of a savepoint.
        branch: the branch that the tag or savepoint is on; of a branch its own name.
        bytes: of the files that nothing else needs, whose size the metadata states; None where that cannot be told.
        files: number of these files, metadata included; None as `bytes`.
        unknown: why it cannot be told.
    """

    kind: str
    name: str
    branch: str
    bytes: int | None
    files: int | None
    unknown: str | None = None

    @property
    def size_text(self) -> str:
        """Size with a unit; `unknown` where it cannot be found."""
        return "unknown" if self.bytes is None else amount(self.bytes)

    def text_lines(self) -> list[str]:
        on = "" if self.kind == BRANCH else f" on branch {safe(self.branch)}"
        if self.files is None:
            return [f"{self.kind} {safe(self.name)}{on}: unknown, {safe(self.unknown or '')}"]
        return [f"{self.kind} {safe(self.name)}{on}: alone keeps {counted(self.files, 'file')}, {self.size_text}"]


def ref_sizes(main: TableHandle, kinds: Collection[str]) -> list[RefSize]:
    """The sizes of all branches but main, tags and savepoints, in this order. Reads metadata only.

    Args:
        main: any branch of the table; those of all branches are listed.
        kinds: `BRANCH`, `TAG`, `SAVEPOINT`: only of these.
    """
    roots = all_roots(main)
    branches = list_branch_names(main) if BRANCH in kinds else []
    names = [name for name in branches if name != main.layout.main_branch]
    out = [_size(main, BRANCH, name, name, roots_of_branch(roots, name), roots) for name in names]
    tagged = [(*_kind_and_name(root), root) for root in roots if root.kind is RootKind.TAG]
    for wanted in (TAG, SAVEPOINT):
        out += [
            _size(main, kind, name, root.branch_directory, (root,), roots)
            for kind, name, root in tagged
            if kind == wanted and kind in kinds
        ]
    return out


def _kind_and_name(tag: Root) -> tuple[str, str]:
    """The kind of a tag, and its name or the savepoint's id; the guard tag of a branch belongs to the branch."""
    savepoint = savepoint_id_of(tag.name)
    if savepoint is not None:
        return SAVEPOINT, str(savepoint)
    return (TAG if guarded_branch(tag.name) is None else BRANCH), tag.name


def _size(
    main: TableHandle, kind: str, name: str, branch: str, released: tuple[Root, ...], roots: list[Root]
) -> RefSize:
    try:
        found: Removed = plan_removal(main, released, without(roots, released))
    except (UnsafeDeletionError, FormatError) as e:
        return RefSize(kind, name, branch, None, None, e.message)
    return RefSize(kind, name, branch, found.bytes, len(found.paths))
