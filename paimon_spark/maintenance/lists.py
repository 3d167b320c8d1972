"""Which manifests roots name: each list read once, each manifest a number.

What a root that goes names may be gone in part, after a foreign expiry or a deletion that was broken off. What a root
that stays names must be there, or nobody can tell what it needs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from paimon_spark.errors import FormatError, UnsafeDeletionError
from paimon_spark.format.metadata_files.manifest import ManifestFileMeta
from paimon_spark.maintenance.roots import Root, RootKind
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.manifests import find_manifest_lists

Ids = npt.NDArray[np.int64]

_TOGETHER: Final = 256
"""Lists fetched together."""

_NONE: Final = np.empty(0, np.int64)


class State(NamedTuple):
    """The manifests of a root's base and delta lists.

    Attributes:
        manifests: their numbers, ascending.
        delta: the numbers of the delta list's, ascending.
        complete: whether both lists were there.
    """

    manifests: Ids
    delta: Ids
    complete: bool


class RootLists:
    """Manifest lists of many roots of a table."""

    def __init__(self, handle: TableHandle) -> None:
        self.metas: list[ManifestFileMeta] = []
        self._handle = handle
        self._numbers: dict[str, int] = {}
        self._lists: dict[str, Ids | None] = {}

    def read(self, roots: Sequence[Root], *, changelogs: bool, kept: bool) -> None:
        """Read the lists of roots' states, and those of their changelogs.

        Raises:
            UnsafeDeletionError: a list that a kept root needs cannot be decoded.
            CorruptFileError, UnknownFormatVersionError: a list of another root cannot be decoded.
        """
        owners: dict[str, Root] = {}
        for root in roots:
            for name in (*state_lists(root), *(changelog_lists(root) if changelogs else ())):
                if name not in self._lists:
                    owners.setdefault(name, root)
        names = list(owners)
        for start in range(0, len(names), _TOGETHER):
            try:
                found = find_manifest_lists(self._handle, names[start : start + _TOGETHER])
            except FormatError as e:
                if not kept:
                    raise
                raise unsafe(self._handle, owners, e) from e
            for name, metas in found.items():
                self._lists[name] = None if metas is None else self._numbered(metas)

    def state(self, root: Root) -> State:
        """The root's state, as far as its lists are there."""
        parts = [self._lists[name] for name in state_lists(root)]
        there = [part for part in parts if part is not None]
        delta = parts[-1] if parts and parts[-1] is not None else _NONE
        return State(union(there), delta, len(there) == len(parts) > 0)

    def before(self, root: Root) -> State:
        """The state that the root's delta came upon."""
        state = self.state(root)
        return State(difference(state.manifests, state.delta), _NONE, state.complete)

    def changelog(self, root: Root) -> Ids:
        """The manifests of the root's changelog files."""
        return union(self._lists[name] for name in changelog_lists(root))

    def is_missing(self, name: str) -> bool:
        """Whether a list that was read was not there."""
        return self._lists[name] is None

    def _numbered(self, metas: Iterable[ManifestFileMeta]) -> Ids:
        out = []
        for meta in metas:
            number = self._numbers.get(meta.file_name)
            if number is None:
                number = self._numbers[meta.file_name] = len(self.metas)
                self.metas.append(meta)
            out.append(number)
        return np.unique(np.array(out, np.int64))


def state_lists(root: Root) -> tuple[str, ...]:
    """Base and delta list, where the root needs them."""
    if root.kind is RootKind.CHANGELOG and root.snapshot.changelog_manifest_list is not None:
        return ()
    return root.snapshot.base_manifest_list, root.snapshot.delta_manifest_list


def changelog_lists(root: Root) -> tuple[str, ...]:
    """The list of changelog manifests, where the root needs it and has one."""
    name = root.snapshot.changelog_manifest_list
    return () if name is None or root.kind is RootKind.TAG else (name,)


def union(parts: Iterable[Ids | None]) -> Ids:
    """Numbers in any of the parts, ascending."""
    there = [part for part in parts if part is not None]
    return np.unique(np.concatenate(there)) if there else _NONE


def difference(left: Ids, right: Ids) -> Ids:
    """Numbers in `left` alone; both ascending."""
    return np.setdiff1d(left, right, assume_unique=True)


def unsafe(handle: TableHandle, roots: dict[str, Root], error: FormatError) -> UnsafeDeletionError:
    """The error for a file that a kept root needs and that cannot be read."""
    path = str(error.context.get("path", ""))
    name = path.rpartition("/")[2]
    root = roots.get(name)
    who = "a version that stays" if root is None else root.describe()
    return doubt(handle, f"{who} needs {path}, which cannot be read ({error})", path=path)


def doubt(handle: TableHandle, what: str, **context: Any) -> UnsafeDeletionError:
    """The error when it cannot be told what is needed."""
    return UnsafeDeletionError(
        f"nothing of table {handle.name} was deleted, as it cannot be told which files are still needed: {what}. "
        "doctor() says which versions are damaged; a damaged tag or branch that nobody needs can be deleted first",
        table=handle.name,
        **context,
    )
