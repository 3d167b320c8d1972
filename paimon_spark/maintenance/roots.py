"""Roots: the snapshots, tags and long-lived changelogs of all branches. What no root needs may go."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from paimon_spark.errors import CorruptFileError, FileMissingError, UnsafeDeletionError
from paimon_spark.format.metadata_files.snapshot import Snapshot, decode, decode_tag
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.layout import (
    BRANCH_PREFIX,
    CHANGELOG_PREFIX,
    LATEST,
    MAIN,
    SNAPSHOT_PREFIX,
    TAG_PREFIX,
    Layout,
)
from paimon_spark.metadata.small_files import find_decoded
from paimon_spark.metadata.snapshots import read_hint

_ROUNDS: Final = 5
"""Times refs that turned up meanwhile are looked for."""


class RootKind(str, Enum):
    """What kind of file the root is; it says what of its snapshot is needed.

    A SNAPSHOT needs its state (base and delta lists, index manifest, statistics) and its changelog. A TAG needs its
    state alone. A CHANGELOG needs its changelog list, or where it has none (no changelog producer) its base and delta
    lists with their manifests, and what readers of changes read of its delta: the files that it adds, of an overwrite
    those that it deletes too, of a compaction none.
    """

    SNAPSHOT = "snapshot"
    TAG = "tag"
    CHANGELOG = "changelog"


@dataclass(frozen=True, slots=True)
class Root:
    """A file that holds on to others.

    Attributes:
        branch_directory: the branch whose directory the file lies in (`main` for the table's own).
        name: `5` of a snapshot or changelog, the name of a tag.
    """

    kind: RootKind
    branch_directory: str
    name: str
    snapshot: Snapshot

    @property
    def key(self) -> tuple[str, str, str]:
        """What no two roots share."""
        return self.kind.value, self.branch_directory, self.name

    def describe(self) -> str:
        """The root in words, for messages."""
        on = "" if self.branch_directory == MAIN else f" of branch {self.branch_directory!r}"
        return f"{self.kind.value} {self.name if self.kind is not RootKind.TAG else repr(self.name)}{on}"


def all_roots(handle: TableHandle) -> list[Root]:
    """Every root of the table, whatever branch the handle is on, by branch, kind and id.

    Directories below `branch/` count even without a schema, those of merges under way too, and the table's own though
    `main` may mean a branch. Listings of each branch's directories and concurrent small reads.

    Raises:
        CorruptFileError: a root cannot be decoded, so nobody can tell what it needs.
        UnsafeDeletionError: a listing leaves out a snapshot that is there.
        StorageError: a directory cannot be listed, or a file not be read.
    """
    # Other engines ask for no lock: what one of them moves from a place not yet looked at to one looked at before
    # would be missed, so it is looked again until nothing new turns up.
    found: dict[tuple[str, str, str], Root | None] = {}
    for _ in range(_ROUNDS):
        before = len(found)
        branches = branch_directories(handle)
        for branch in branches:
            for kind in RootKind:
                _find(branch, kind, found)
        if len(found) == before:
            break
    for branch in branches:
        _check_listing(branch, found)
    order = {kind.value: n for n, kind in enumerate(RootKind)}
    roots = [root for root in found.values() if root is not None]
    return sorted(roots, key=lambda r: (r.branch_directory != MAIN, r.branch_directory, order[r.key[0]], _place(r)))


def branch_directories(handle: TableHandle) -> list[TableHandle]:
    """The table's own directory, then each directory below `branch/`, to read metadata with.

    A branch without schema, left by a creation that was broken off, counts too: its refs hold on to files.
    """
    layout = Layout(handle.layout.root, MAIN, None, handle.layout.data_directory)
    main = replace(handle, layout=layout)
    names = (
        info.name.removeprefix(BRANCH_PREFIX)
        for info in main.store.list(layout.branches_dir)
        if info.is_directory and info.name.startswith(BRANCH_PREFIX)
    )
    return [main, *(main.on_branch_directory(name) for name in names if name)]


def without(roots: Sequence[Root], released: Sequence[Root]) -> list[Root]:
    """The roots that stay when `released` go."""
    gone = {root.key for root in released}
    return [root for root in roots if root.key not in gone]


def still_there(handle: TableHandle, root: Root) -> bool:
    """Whether the root's file still is there, with the snapshot that was read from it."""
    main, *branches = branch_directories(handle)
    at = next((b for b in (main, *branches) if b.branch == root.branch_directory), None)
    if at is None:
        return False
    directory, prefix, decoder = _FILES[root.kind](at.layout)
    found = find_decoded(at.store, f"{directory}/{prefix}{root.name}", decoder)
    return found is not None and found.base_manifest_list == root.snapshot.base_manifest_list


def _place(root: Root) -> tuple[int, str]:
    return root.snapshot.id, root.name


def _find(branch: TableHandle, kind: RootKind, found: dict[tuple[str, str, str], Root | None]) -> None:
    """Read the roots of a kind that are not in `found`; None for one that went away before it was read."""
    directory, prefix, decoder = _FILES[kind](branch.layout)
    new = [
        name
        for name in _names(branch, directory, prefix, numbers=kind is not RootKind.TAG)
        if (kind.value, branch.branch, name) not in found
    ]
    for name, snapshot in _read(branch, directory, prefix, new, decoder):
        root = None if snapshot is None else Root(kind, branch.branch, name, snapshot)
        found[kind.value, branch.branch, name] = root


def _check_listing(branch: TableHandle, found: dict[tuple[str, str, str], Root | None]) -> None:
    """Check that the snapshot that the branch's hint names was listed, if it is there."""
    hint = read_hint(branch.store, f"{branch.layout.snapshot_dir}/{LATEST}")
    if hint is None or (RootKind.SNAPSHOT.value, branch.branch, str(hint)) in found:
        return
    path = branch.layout.snapshot_path(hint)
    _find(branch, RootKind.SNAPSHOT, found)  # it may have been committed just now
    if (RootKind.SNAPSHOT.value, branch.branch, str(hint)) not in found and branch.store.exists(path):
        raise UnsafeDeletionError(
            f"nothing of table {branch.name} was deleted: the store does not list {branch.store.url(path)}, which is "
            "there, so it cannot be told what else it leaves out; try again later",
            table=branch.name,
            path=path,
        )


def _names(branch: TableHandle, directory: str, prefix: str, *, numbers: bool) -> Iterator[str]:
    for info in branch.store.list(directory):
        name = info.name.removeprefix(prefix)
        if info.is_directory or not info.name.startswith(prefix) or not name:
            continue
        if not numbers or (name.isascii() and name.isdigit() and len(name) < 20):
            yield name


def _read(
    branch: TableHandle, directory: str, prefix: str, names: list[str], decoder: Callable[[bytes, str], Snapshot]
) -> Iterator[tuple[str, Snapshot | None]]:
    paths = [f"{directory}/{prefix}{name}" for name in names]
    try:
        snapshots: list[Snapshot | None] = [
            decoder(data, path) for data, path in zip(branch.store.read_many(paths), paths, strict=True)
        ]
    except (FileMissingError, CorruptFileError):  # one was deleted meanwhile, or is being written
        snapshots = [find_decoded(branch.store, path, decoder) for path in paths]
    yield from zip(names, snapshots, strict=True)


def _tagged(data: bytes, path: str) -> Snapshot:
    return decode_tag(data, path.rpartition("/")[2].removeprefix(TAG_PREFIX), path).snapshot


_Files = tuple[str, str, Callable[[bytes, str], Snapshot]]
_FILES: Final[dict[RootKind, Callable[[Layout], _Files]]] = {
    RootKind.SNAPSHOT: lambda layout: (layout.snapshot_dir, SNAPSHOT_PREFIX, decode),
    RootKind.TAG: lambda layout: (layout.tag_dir, TAG_PREFIX, _tagged),
    RootKind.CHANGELOG: lambda layout: (layout.changelog_dir, CHANGELOG_PREFIX, decode),
}
