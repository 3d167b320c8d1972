"""Find and delete the files that only released roots need.

Nothing else deletes files that snapshots share, except the clean-up of orphan files.

A root needs a file that is alive in its snapshot. Two roots differ only by the manifests that they do not share, so
only those are read (`liveness.py`), compared with a kept root near the released ones. Append-only history reads no
manifest.

Changelog manifests are never merged: a changelog list that no other root names tells alone what it needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark import progress
from paimon_spark.display import ShownAsFacts, amount
from paimon_spark.errors import FormatError, UnsupportedFeatureError
from paimon_spark.format.arrays.arrow_numpy import Bool, array_of
from paimon_spark.format.metadata_files.index_manifest import IndexManifestEntry
from paimon_spark.format.metadata_files.snapshot import CommitKind, Snapshot
from paimon_spark.maintenance.liveness import Counts, changed_manifests
from paimon_spark.maintenance.reachable import PATHS, deletable, deletable_indexes, entry_paths, index_paths
from paimon_spark.maintenance.roots import (
    Ids,
    RootLists,
    State,
    changelog_lists,
    difference,
    missing_metadata,
    state_lists,
    still_there,
    union,
    unsafe,
)
from paimon_spark.metadata.external_files import left_outside, open_for_deletion
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.journal.change import Root, RootKind
from paimon_spark.metadata.layout import MAIN
from paimon_spark.metadata.manifests import find_index_manifests, forget
from paimon_spark.metadata.tags import guarded_branch
from paimon_spark.redaction import get_logger
from paimon_spark.spark_port import can_spread, spread
from paimon_spark.text import counted, moment, named, safe

_LOG = get_logger(__name__)
_TOGETHER: Final = 1000
"""Files deleted with one call, and index manifests read with one."""
_ROUND: Final = 100_000
"""Files deleted by one Spark job."""
_MANY: Final = 20_000
"""Files that are worth a Spark job."""


@dataclass(frozen=True, slots=True, repr=False)
class Removed(ShownAsFacts):
    """Result of a deletion, or of its dry run.

    Attributes:
        snapshots, tags, changelogs: ids and names of roots released, each as `branch.name` except on main.
        data_files: data files with their extra files; changelog_files those of changelogs.
        bytes: of all files whose size the metadata states.
        paths: absolute paths in the table's store, or full URLs in another store.
        finished: label of an earlier operation that was finished first; None if none was.
        left: why unneeded files were left for `remove_orphan_files`; None if none were.
        older_than_ms: the moment that was asked for, in epoch milliseconds; None if none was.
        dry_run: whether nothing was deleted.
        outside: unneeded files outside the table that were left, as none may be deleted there.
    """

    snapshots: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    changelogs: tuple[str, ...] = ()
    data_files: int = 0
    changelog_files: int = 0
    manifest_files: int = 0
    index_files: int = 0
    statistics_files: int = 0
    bytes: int = 0
    paths: tuple[str, ...] = ()
    finished: str | None = None
    left: str | None = None
    dry_run: bool = field(default=False, compare=False)
    older_than_ms: int | None = field(default=None, compare=False)
    outside: tuple[str, ...] = ()

    @property
    def summary(self) -> str:
        """The snapshots, tags, changelogs and files in one line: `2 snapshots (1, 2), 14 files, 1.2 MiB`."""
        return ", ".join([*released_names(self.snapshots, self.tags, self.changelogs), self.files_summary])

    @property
    def files_summary(self) -> str:
        """The files of all kinds: `14 files, 1.2 MiB`; without bytes where no size is known."""
        of_metadata = self.manifest_files + self.index_files + self.statistics_files
        files = self.data_files + self.changelog_files + of_metadata
        return counted(files, "file") + (f", {amount(self.bytes)}" if self.bytes or not files else "")

    @property
    def remarks(self) -> list[str]:
        """Remarks about other effects, by line."""
        out = [] if self.older_than_ms is None else [f"older than {moment(self.older_than_ms)}"]
        if self.finished is not None:
            out.append(f"finished an earlier operation: {safe(self.finished)}")
        if self.outside:
            out.append(left_outside(self.outside))
        return out if self.left is None else [*out, f"left to `orphan remove`: {safe(self.left)}"]

    def text_lines(self) -> list[str]:
        return [f"{'would delete' if self.dry_run else 'deleted'} {self.summary}", *self.remarks]

    def _repr_html_(self) -> str:
        return ShownAsFacts._repr_html_(replace(self, tags=shown_tags(self.tags)))


def released_names(snapshots: Sequence[object], tags: Sequence[str], changelogs: Sequence[object]) -> list[str]:
    """The released snapshots, tags and changelogs, by kind; guard tags only where nothing else goes."""
    if snapshots or changelogs or not all(map(_is_guard, tags)):
        tags = shown_tags(tags)
    kinds = ((snapshots, "snapshot"), (tags, "tag"), (changelogs, "changelog"))
    return [named(found, noun) for found, noun in kinds if found]


def shown_tags(tags: Sequence[str]) -> tuple[str, ...]:
    """The released tags without those that guard branches."""
    return tuple(t for t in tags if not _is_guard(t))


def _is_guard(name: str) -> bool:
    """Whether a tag, named with its branch except on main, guards a branch."""
    branch, _, of_branch = name.partition(".")
    return guarded_branch(branch) is not None or guarded_branch(of_branch) is not None


def _no_paths() -> pa.Array:
    return array_of([], PATHS)


@dataclass(slots=True)
class Removal:
    """Files to delete, as `reachable.PATHS`, in the order of the fields: files before the metadata that names them.

    Attributes:
        released: the roots that they belonged to.
        outside: external paths that may not be deleted, and are left.
    """

    released: Sequence[Root] = ()
    data: pa.Array = field(default_factory=_no_paths)
    changelog: pa.Array = field(default_factory=_no_paths)
    index: pa.Array = field(default_factory=_no_paths)
    statistics: pa.Array = field(default_factory=_no_paths)
    manifests: pa.Array = field(default_factory=_no_paths)
    lists: pa.Array = field(default_factory=_no_paths)
    bytes: int = 0
    outside: list[str] = field(default_factory=list)

    @property
    def groups(self) -> tuple[pa.Array, ...]:
        return self.data, self.changelog, self.index, self.statistics, self.manifests, self.lists

    def removed(self) -> Removed:
        """Summarize what the removal deletes."""
        return Removed(
            _names(self.released, RootKind.SNAPSHOT),
            _names(self.released, RootKind.TAG),
            _names(self.released, RootKind.CHANGELOG),
            len(self.data),
            len(self.changelog),
            len(self.manifests) + len(self.lists),
            len(self.index),
            len(self.statistics),
            self.bytes,
            tuple(path for group in self.groups for path in group.to_pylist()),
            outside=tuple(dict.fromkeys(self.outside)),
        )


def plan_removal(handle: TableHandle, released: Sequence[Root], kept: Sequence[Root]) -> Removed:
    """Summarize `find_removal`, for a dry run. Raises as it."""
    return find_removal(handle, released, kept).removed()


def find_removal(handle: TableHandle, released: Sequence[Root], kept: Sequence[Root]) -> Removal:
    """Find the files that `released` need and `kept` do not. Raises UnsafeDeletionError."""
    removal = Removal(released)
    _find_statistics(handle, removal, kept)
    _find_index_files(handle, removal, kept)
    needed = {name for root in kept for name in (*state_lists(root), *changelog_lists(root))}
    going = [r for r in released if not needed.issuperset((*state_lists(r), *changelog_lists(r)))]
    if going:
        _find_manifests(handle, removal, going, kept, needed)
    return removal


def delete(handle: TableHandle, removal: Removal, before_each: Callable[[], None]) -> None:
    """Delete the files; missing ones are ignored. `before_each` as of `delete_files`."""
    if removal.outside:
        _LOG.warning("%s: %s", handle.describe(), left_outside(list(dict.fromkeys(removal.outside))))
    done, total = 0, sum(len(group) for group in removal.groups)
    for group in removal.groups:
        delete_files(handle, group, before_each, done=done, total=total)
        done += len(group)
    forget(handle, (*removal.manifests.to_pylist(), *removal.lists.to_pylist()))
    if handle.options.expiry.clean_empty_directories:
        _remove_empty_directories(handle, (*removal.data.to_pylist(), *removal.changelog.to_pylist()))


def delete_files(
    handle: TableHandle,
    paths: pa.Array | Sequence[str],
    before_each: Callable[[], None] = lambda: None,
    *,
    here: bool = False,
    done: int = 0,
    total: int | None = None,
) -> None:
    """Delete files of the table by path, and external ones that may be deleted; missing ones are ignored.

    Args:
        handle: the branch.
        paths: as `reachable.PATHS`, or a list.
        before_each: called before each call of the store, and before each Spark job; raises what must stop them.
        here: in this process; else executors of an active Spark session delete many files.
        done: files deleted before, for the progress.
        total: all files, for the progress; default is these.
    """
    total = len(paths) if total is None else total
    spreads = not here and len(paths) >= _MANY and can_spread()
    step = _ROUND if spreads else _TOGETHER
    for start in range(0, len(paths), step):
        some = paths[start : start + step]
        texts: list[str] = some.to_pylist() if isinstance(some, pa.Array) else list(some)
        if spreads:
            before_each()
            parts = [texts[n : n + _TOGETHER] for n in range(0, len(texts), _TOGETHER)]
            for count in spread(partial(_delete_paths, handle), parts):
                progress.report("delete", done := done + count, total)
        else:
            progress.report("delete", done := done + _delete_paths(handle, texts, before_each), total)


def _delete_paths(handle: TableHandle, paths: Sequence[str], before_each: Callable[[], None] = lambda: None) -> int:
    """Delete files, and return how many they were. Executor, or in process."""
    own = []
    for path in paths:
        try:
            store, inside = open_for_deletion(handle, path)
        except UnsupportedFeatureError as e:  # it was left out before, unless a link was made since
            _LOG.warning("%s", e)
            continue
        if store is handle.store:
            own.append(inside)
        else:
            before_each()
            store.delete(inside)
    before_each()
    handle.store.delete_many(own)
    return len(paths)


def _remove_empty_directories(handle: TableHandle, files: Sequence[str]) -> None:
    """Remove emptied buckets and partitions, on stores that can do so safely beside writers."""
    remove = getattr(handle.store, "remove_if_empty", None)
    if remove is None:
        return
    root = handle.layout.data_root
    directories = {path.rpartition("/")[0] for path in files if path.startswith(f"{root}/")}
    while directories:
        removed = [d for d in directories if d != root and remove(d)]
        directories = {d.rpartition("/")[0] for d in removed}


def _names(roots: Sequence[Root], kind: RootKind) -> tuple[str, ...]:
    return tuple(
        root.name if root.branch_directory == MAIN else f"{root.branch_directory}.{root.name}"
        for root in roots
        if root.kind is kind
    )


def _find_statistics(handle: TableHandle, removal: Removal, kept: Sequence[Root]) -> None:
    needed = {root.snapshot.statistics for root in kept if root.kind is not RootKind.CHANGELOG}
    named = dict.fromkeys(root.snapshot.statistics for root in removal.released if root.kind is not RootKind.CHANGELOG)
    names = [name for name in named if name is not None and name not in needed]
    removal.statistics = array_of([handle.layout.statistics_path(n) for n in names], PATHS)


def _index_manifests(roots: Sequence[Root]) -> dict[str, Root]:
    """Index manifests, each with the first root that names it."""
    out: dict[str, Root] = {}
    for root in roots:
        if root.kind is not RootKind.CHANGELOG and root.snapshot.index_manifest is not None:
            out.setdefault(root.snapshot.index_manifest, root)
    return out


def _find_index_files(handle: TableHandle, removal: Removal, kept: Sequence[Root]) -> None:
    """Index files of released roots, and their index manifests among the manifests."""
    staying = _index_manifests(kept)
    going = [name for name in _index_manifests(removal.released) if name not in staying]
    named: dict[str, IndexManifestEntry] = {}
    there = []
    for start in range(0, len(going), _TOGETHER):
        for name, entries in find_index_manifests(handle, going[start : start + _TOGETHER]).items():
            if entries is not None:
                there.append(name)
                named.update((e.file_name, e) for e in entries)
    if named:
        for name in _staying_index_files(handle, staying):
            named.pop(name, None)
    going_files, left = deletable_indexes(handle, named.values())
    removal.outside += left
    removal.index = index_paths(handle, going_files)
    removal.manifests = array_of([handle.layout.manifest_path(name) for name in there], PATHS)
    removal.bytes += sum(e.file_size for e in going_files)


def _staying_index_files(handle: TableHandle, staying: dict[str, Root]) -> Iterator[str]:
    names = list(staying)
    for start in range(0, len(names), _TOGETHER):
        try:
            found = find_index_manifests(handle, names[start : start + _TOGETHER])
        except FormatError as e:
            raise unsafe(handle, staying, e) from e
        for name, entries in found.items():
            if entries is not None:
                yield from (e.file_name for e in entries)
            elif still_there(handle, staying[name]):
                raise missing_metadata(handle, staying[name], name)


def _find_manifests(
    handle: TableHandle, removal: Removal, going: Sequence[Root], kept: Sequence[Root], needed: set[str]
) -> None:
    """Find data files, changelog files, manifests and lists of roots that have a list for themselves."""
    lists = RootLists(handle)
    lists.read(going, changelogs=True, kept=False)
    # Changelog manifests are never merged: roots that share no list share no changelog file, so those of kept roots
    # stay unread.
    lists.read(kept, changelogs=False, kept=True)
    kept = [root for root in kept if _is_whole(handle, lists, root)]
    own = {name for root in going for name in changelog_lists(root) if name not in needed}
    logs = union(lists.changelog(root) for root in going if own.issuperset(changelog_lists(root)))
    states = [lists.state(root) for root in going if state_lists(root)]
    staying = union(lists.state(root).manifests for root in kept)
    manifests = difference(union([logs, *(s.manifests for s in states)]), staying)

    changelog = Counts(handle, lists.metas)
    changelog.load(logs.tolist())
    removal.changelog = _paths(removal, changelog, np.ones(len(changelog.files), np.bool_))
    counts = Counts(handle, lists.metas)
    before = [lists.before(root) for root in going if root.kind is RootKind.CHANGELOG and _reads_deleted(root)]
    removal.data = _paths(removal, counts, _released_files(handle, counts, lists, [*before, *states], kept))
    missing = counts.missing | changelog.missing
    metas = [lists.metas[m] for m in manifests.tolist() if m not in missing]
    removal.bytes += sum(m.file_size for m in metas)
    paths = array_of([handle.layout.manifest_path(m.file_name) for m in metas], PATHS)
    removal.manifests = pa.concat_arrays([removal.manifests, paths])
    names = dict.fromkeys(
        name
        for root in going
        for name in (*state_lists(root), *changelog_lists(root))
        if name not in needed and not lists.is_missing(name)
    )
    removal.lists = array_of([handle.layout.manifest_path(name) for name in names], PATHS)
    sizes = dict[str, int]()
    for root in going:
        sizes.update(_list_sizes(root.snapshot))
    removal.bytes += sum(sizes.get(name, 0) for name in names)


def _list_sizes(snapshot: Snapshot) -> dict[str, int]:
    """Sizes of manifest lists, where the snapshot states them."""
    stated = (
        (snapshot.base_manifest_list, snapshot.base_manifest_list_size),
        (snapshot.delta_manifest_list, snapshot.delta_manifest_list_size),
        (snapshot.changelog_manifest_list, snapshot.changelog_manifest_list_size),
    )
    return {name: size for name, size in stated if name is not None and size is not None}


def _is_whole(handle: TableHandle, lists: RootLists, root: Root) -> bool:
    """Whether a root's lists exist; False when the root itself is gone. Raises UnsafeDeletionError."""
    missing = [name for name in state_lists(root) if lists.is_missing(name)]
    # Lists of long-lived changelogs expire with their snapshots where the table has a changelog producer.
    if not missing or root.kind is RootKind.CHANGELOG:
        return True
    if still_there(handle, root):
        raise missing_metadata(handle, root, missing[0])
    return False


def _paths(removal: Removal, counts: Counts, chosen: Bool) -> pa.Array:
    if not chosen.any():
        return _no_paths()
    files, left = deletable(counts.handle, counts.files.table(np.flatnonzero(chosen)))
    removal.outside += left
    removal.bytes += pc.sum(files.column("file_size")).as_py() or 0
    return entry_paths(counts.handle, files).unique()


def _released_files(
    handle: TableHandle, counts: Counts, lists: RootLists, states: Sequence[State], kept: Sequence[Root]
) -> Bool:
    """Which files, by number, are alive in any of `states` but in no kept root."""
    staying = _distinct([lists.state(r).manifests for r in kept if r.kind is not RootKind.CHANGELOG])
    going = _distinct([s.manifests for s in states if s.complete])
    first = _nearest(going, staying)
    # Counted relative to one kept state, so manifests that both have are never read.
    going = [s for s in reversed(going) if _may_bring(lists, first, s)]
    while True:
        counts.load(changed_manifests(first, going).tolist())
        # A state with missing manifests cannot be counted; its data files were deleted before its manifests.
        broken = {m for m in counts.missing if m not in first}
        whole = [s for s in going if broken.isdisjoint(s.tolist())]
        if len(whole) == len(going):
            break
        going = whole
    _check(handle, counts, lists, kept)
    released = counts.alive(first, going)
    if not released.any():
        return released
    others = [s for s in staying if s is not first and _may_bring(lists, first, s)]
    last = going[-1]
    # A file is usually needed by a near state; once all are found to be needed, the rest need not be read.
    others.sort(key=lambda s: _distance(s, last))
    for some in _doubling(others):
        counts.load(changed_manifests(first, some).tolist(), only=released)
        _check(handle, counts, lists, kept)
        released &= ~counts.alive(first, some)
        if not released.any():
            return released
    logs = [r for r in kept if r.kind is RootKind.CHANGELOG and r.snapshot.commit_kind is not CommitKind.COMPACT]
    counts.load(union(lists.state(r).delta for r in logs).tolist(), only=released)
    _check(handle, counts, lists, kept)
    for root in logs:
        for manifest in lists.state(root).delta.tolist():
            released[counts.named(manifest) if _reads_deleted(root) else counts.added(manifest)] = False
    return released


def _reads_deleted(root: Root) -> bool:
    """Whether readers of the changes also read the files that the root's delta deletes."""
    return root.snapshot.commit_kind is CommitKind.OVERWRITE


def _check(handle: TableHandle, counts: Counts, lists: RootLists, kept: Sequence[Root]) -> None:
    """Check that no kept root names a missing manifest. Raises UnsafeDeletionError."""
    if not counts.missing:
        return
    for root in kept:
        gone = [m for m in lists.state(root).manifests.tolist() if m in counts.missing]
        if gone and root.kind is not RootKind.CHANGELOG and still_there(handle, root):
            raise missing_metadata(handle, root, lists.metas[gone[0]].file_name)


def _distinct(states: Sequence[Ids]) -> list[Ids]:
    return list({state.tobytes(): state for state in states}.values())


def _nearest(going: Sequence[Ids], staying: Sequence[Ids]) -> Ids:
    """The kept state that shares most manifests with the last released one; empty when none is kept."""
    if not going or not staying:
        return np.empty(0, np.int64)
    last = going[-1]
    return min(staying, key=lambda s: _distance(s, last))


def _distance(left: Ids, right: Ids) -> int:
    """How many manifests two states do not share."""
    return len(left) + len(right) - 2 * int(np.isin(left, right, assume_unique=True).sum())


def _doubling(states: Sequence[Ids]) -> Iterator[Sequence[Ids]]:
    """Yield one, then two, then four, …: few sequential reads, and at most twice as many as needed."""
    start, count = 0, 1
    while start < len(states):
        yield states[start : start + count]
        start, count = start + count, 2 * count


def _may_bring(lists: RootLists, first: Ids, state: Ids) -> bool:
    """Whether a file that is not alive in `first` may be alive in `state`."""
    return any(lists.metas[m].num_added_files > 0 for m in difference(state, first).tolist()) or any(
        lists.metas[m].num_deleted_files > 0 for m in difference(first, state).tolist()
    )
