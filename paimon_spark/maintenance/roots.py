"""Roots (snapshots, tags and changelogs of all branches) and the manifests they list.

Files of a released root may already be missing, after expiry by another engine or an interrupted deletion. Those of a
kept root must exist; otherwise what it needs is unknown, and nothing is deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from paimon_spark.errors import FormatError, UnsafeDeletionError
from paimon_spark.format.metadata_files.manifest import ManifestFileMeta
from paimon_spark.format.metadata_files.snapshot import Snapshot, decode
from paimon_spark.metadata.handle import TableHandle, branch_names
from paimon_spark.metadata.journal.change import Root, RootKind
from paimon_spark.metadata.layout import (
    CHANGELOG_PREFIX,
    LATEST,
    MAIN,
    SNAPSHOT_PREFIX,
    TAG_PREFIX,
    Layout,
)
from paimon_spark.metadata.manifests import find_manifest_lists
from paimon_spark.metadata.small_files import find_decoded, find_many
from paimon_spark.metadata.snapshots import read_hint
from paimon_spark.metadata.tags import decode_tag_file
from paimon_spark.storage.ahead import ahead
from paimon_spark.text import id_of

_ROUNDS: Final = 5
"""How often roots are listed again while new ones appear."""


def all_roots(handle: TableHandle) -> list[Root]:
    """Read every root of the table, of all branches, by branch, kind and id.

    Includes directories below `branch/` without a schema and of running merges, and the table's own directory even when
    `main` means a branch. Lists each branch's directories; small concurrent reads.

    Raises:
        CorruptFileError: a root cannot be decoded, so what it needs is unknown.
        UnsafeDeletionError: a listing leaves out an existing snapshot.
    """
    # Other engines take no lock: a root that one of them moves to a directory that was already listed would be missed,
    # so everything is listed again until nothing new appears.
    found: dict[tuple[str, str, str], Root | None] = {}
    for _ in range(_ROUNDS):
        before = len(found)
        main = Layout(handle.layout.root)
        # A pass may list in any order: the next one finds what was moved meanwhile.
        with ahead(handle.store, directories=[_FILES[kind](main)[0] for kind in RootKind], trees=[main.branches_dir]):
            branches = branch_directories(handle)
            for branch in branches:
                for kind in RootKind:
                    _find(branch, kind, found)
        if len(found) == before:
            break
    with ahead(handle.store, [f"{branch.layout.snapshot_dir}/{LATEST}" for branch in branches]):
        for branch in branches:
            _check_listing(branch, found)
    order = {kind.value: n for n, kind in enumerate(RootKind)}
    roots = [root for root in found.values() if root is not None]
    return sorted(
        roots, key=lambda r: (r.branch_directory != MAIN, r.branch_directory, order[r.key[0]], r.snapshot.id, r.name)
    )


def branch_directories(handle: TableHandle) -> list[TableHandle]:
    """Handles on the table's own directory, then on each directory below `branch/`.

    Includes branches without a schema, left by an interrupted creation: their roots still need files.
    """
    layout = Layout(handle.layout.root, MAIN, None, handle.layout.data_directory)
    main = replace(handle, layout=layout)
    return [main, *(main.on_branch_directory(name) for name in branch_names(main.store, layout))]


def without(roots: Sequence[Root], released: Sequence[Root]) -> list[Root]:
    """The roots except `released`."""
    gone = {root.key for root in released}
    return [root for root in roots if root.key not in gone]


def still_there(handle: TableHandle, root: Root) -> bool:
    """Whether the root's file still exists, with the snapshot that was read from it."""
    at = next((b for b in branch_directories(handle) if b.branch == root.branch_directory), None)
    if at is None:
        return False
    directory, prefix, decoder = _FILES[root.kind](at.layout)
    found = find_decoded(at.store, f"{directory}/{prefix}{root.name}", decoder)
    return found is not None and found.base_manifest_list == root.snapshot.base_manifest_list


def _find(branch: TableHandle, kind: RootKind, found: dict[tuple[str, str, str], Root | None]) -> None:
    """Read the roots of a kind that are not in `found`; None for one deleted before it was read."""
    directory, prefix, decoder = _FILES[kind](branch.layout)
    names = _names(branch, directory, prefix, numbers=kind is not RootKind.TAG)
    new = [name for name in names if (kind.value, branch.branch, name) not in found]
    snapshots = find_many(branch.store, [f"{directory}/{prefix}{name}" for name in new], decoder)
    for name, snapshot in zip(new, snapshots, strict=True):
        root = None if snapshot is None else Root(kind, branch.branch, name, snapshot)
        found[kind.value, branch.branch, name] = root


def _check_listing(branch: TableHandle, found: dict[tuple[str, str, str], Root | None]) -> None:
    """Check that the snapshot that the branch's hint names was listed, if it exists."""
    hint = read_hint(branch.store, f"{branch.layout.snapshot_dir}/{LATEST}")
    if hint is None or (RootKind.SNAPSHOT.value, branch.branch, str(hint)) in found:
        return
    path = branch.layout.snapshot_path(hint)
    _find(branch, RootKind.SNAPSHOT, found)  # it may have been committed just now
    if (RootKind.SNAPSHOT.value, branch.branch, str(hint)) not in found and branch.store.exists(path):
        raise UnsafeDeletionError(
            f"nothing of table {branch.name} was deleted: the store does not list {branch.store.url(path)}, which "
            "exists, so other files may be missing from listings too; try again later",
            table=branch.name,
            path=path,
        )


def _names(branch: TableHandle, directory: str, prefix: str, *, numbers: bool) -> Iterator[str]:
    for info in branch.store.list(directory):
        name = info.name.removeprefix(prefix)
        if info.is_directory or not info.name.startswith(prefix) or not name:
            continue
        if not numbers or id_of(name) is not None:
            yield name


def _tagged(data: bytes, path: str) -> Snapshot:
    return decode_tag_file(data, path).snapshot


_Files = tuple[str, str, Callable[[bytes, str], Snapshot]]
_FILES: Final[dict[RootKind, Callable[[Layout], _Files]]] = {
    RootKind.SNAPSHOT: lambda layout: (layout.snapshot_dir, SNAPSHOT_PREFIX, decode),
    RootKind.TAG: lambda layout: (layout.tag_dir, TAG_PREFIX, _tagged),
    RootKind.CHANGELOG: lambda layout: (layout.changelog_dir, CHANGELOG_PREFIX, decode),
}


Ids = npt.NDArray[np.int64]
T = TypeVar("T")

_TOGETHER: Final = 256
"""Lists fetched together."""

_READ_BYTES: Final = 8 << 20
"""Bytes of manifests decoded together."""

_NONE: Final = np.empty(0, np.int64)


class State(NamedTuple):
    """The manifests of a root's base and delta lists.

    Attributes:
        manifests: their numbers, ascending.
        delta: the numbers of the delta list's, ascending.
        complete: whether both lists exist.
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
        """Read the lists of roots' states, and with `changelogs` those of their changelogs.

        Raises UnsafeDeletionError: a list that a kept root needs cannot be decoded.
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
        """The root's state, as far as its lists exist."""
        parts = [self._lists[name] for name in state_lists(root)]
        there = [part for part in parts if part is not None]
        delta = parts[-1] if parts and parts[-1] is not None else _NONE
        return State(union(there), delta, len(there) == len(parts) > 0)

    def before(self, root: Root) -> State:
        """The state before the root's delta."""
        state = self.state(root)
        return State(difference(state.manifests, state.delta), _NONE, state.complete)

    def changelog(self, root: Root) -> Ids:
        """The manifests of the root's changelog files."""
        return union(self._lists[name] for name in changelog_lists(root))

    def is_missing(self, name: str) -> bool:
        """Whether a list was found missing."""
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
    """Base and delta list, if the root needs them."""
    if root.kind is RootKind.CHANGELOG and root.snapshot.changelog_manifest_list is not None:
        return ()
    return root.snapshot.base_manifest_list, root.snapshot.delta_manifest_list


def changelog_lists(root: Root) -> tuple[str, ...]:
    """The list of changelog manifests, if the root needs it and has one."""
    name = root.snapshot.changelog_manifest_list
    return () if name is None or root.kind is RootKind.TAG else (name,)


def grouped(items: Iterable[T], size_of: Callable[[T], int]) -> Iterator[list[T]]:
    """Yield the items in groups of at most `_READ_BYTES`, or of one larger item: what is decoded together."""
    group: list[T] = []
    total = 0
    for item in items:
        size = size_of(item)
        if group and total + size > _READ_BYTES:
            yield group
            group, total = [], 0
        group.append(item)
        total += size
    if group:
        yield group


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
    return _unsafe(handle, f"{who} needs {path}, which cannot be read ({error})", path)


def missing_metadata(handle: TableHandle, root: Root, name: str) -> UnsafeDeletionError:
    """The error for a missing metadata file that a kept root needs."""
    path = handle.store.url(handle.layout.manifest_path(name))
    return _unsafe(handle, f"{root.describe()} needs {path}, which does not exist", path)


def _unsafe(handle: TableHandle, what: str, path: str) -> UnsafeDeletionError:
    return UnsafeDeletionError(
        f"nothing of table {handle.name} was deleted, as the files still needed are unknown: {what}. doctor() lists "
        "damaged versions; delete a damaged tag or branch that is not needed, and try again",
        table=handle.name,
        path=path,
    )
