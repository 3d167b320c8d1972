"""Choose the manifests that a commit merges, and merge them.

Source: Java 2.0 `operation/ManifestFileMerger`. Sorting (`manifest-sort.enabled`) is not done: it never matters
for what a table holds.

Tests: tests/unit/engine/commit/test_manifest_merge.py, test_compact_manifest.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from paimon_spark.engine.commit.entries import Touched, adds, column, no_entries, numbers, together, where
from paimon_spark.errors import CorruptFileError
from paimon_spark.format.metadata_files.manifest import FileKind, ManifestFileMeta
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.live_files import file_ids
from paimon_spark.metadata.manifests import forget, read_manifests, write_manifest
from paimon_spark.options.write import CommitOptions

Metas = tuple[ManifestFileMeta, ...]


@dataclass(frozen=True, slots=True)
class MergedManifests:
    """Manifests before and after a merge; both mean the same files."""

    before: Metas
    after: Metas


def merge(handle: TableHandle, metas: Sequence[ManifestFileMeta], options: CommitOptions) -> MergedManifests:
    """Merge manifests where Paimon's thresholds ask for it; the live files stay the same.

    Raises:
        CorruptFileError: the manifests contradict each other.
    """
    before = tuple(metas)
    full = _full(handle, before, options)
    after = full if full is not None else _minor(handle, before, options)
    merged = {m.file_name for m in before} - {m.file_name for m in after}
    forget(handle, map(handle.layout.manifest_path, merged))
    return MergedManifests(before, after)


def reuse(previous: MergedManifests, current: Sequence[ManifestFileMeta]) -> MergedManifests | None:
    """The merge of an earlier attempt applied to a later head; None when its input is not there in one run."""
    metas, width = tuple(current), len(previous.before)
    if width == 0:
        return None if metas else MergedManifests(metas, previous.after)
    names = [m.file_name for m in metas]
    wanted = [m.file_name for m in previous.before]
    for start in range(len(metas) - width + 1):
        if names[start : start + width] == wanted:
            return MergedManifests(metas, (*metas[:start], *previous.after, *metas[start + width :]))
    return None


def _minor(handle: TableHandle, metas: Metas, options: CommitOptions) -> Metas:
    out: list[ManifestFileMeta] = []
    group: list[ManifestFileMeta] = []
    size = 0
    for meta in metas:
        group.append(meta)
        size += meta.file_size
        if size >= options.manifest_target_bytes:
            out += _merged_group(handle, group)
            group, size = [], 0
    out += _merged_group(handle, group) if len(group) >= options.manifest_merge_min_count else group
    return tuple(out)


def _merged_group(handle: TableHandle, group: Sequence[ManifestFileMeta]) -> Sequence[ManifestFileMeta]:
    if len(group) <= 1:
        return group
    kept = cancelled(handle, read_manifests(handle, group))
    return write_manifest(handle, kept) if len(kept) else ()


def cancelled(handle: TableHandle, entries: pa.Table) -> pa.Table:
    """The entries without pairs that add and delete one file; a DELETE without its ADD stays.

    Raises:
        CorruptFileError: a file is added or deleted twice.
    """
    if len(entries) == 0:
        return entries
    ids, added = file_ids(entries), adds(entries)
    count = int(ids.max()) + 1
    add_counts, all_counts = np.bincount(ids[added], minlength=count), np.bincount(ids, minlength=count)
    net = 2 * add_counts - all_counts
    if (np.abs(net) > 1).any():
        row = int(np.flatnonzero(np.abs(net[ids]) > 1)[0])
        name, kind = column(entries, "file_name")[row].as_py(), FileKind(int(numbers(entries, "kind")[row])).name
        raise CorruptFileError(
            f"{handle.describe()}: its manifests {kind} the file {name!r} twice; they contradict each other, "
            "so nothing is committed on top of them",
            table=handle.name,
            branch=handle.branch,
            file_name=name,
        )
    stays = np.zeros(len(ids), np.bool_)
    last = np.empty(count, np.int64)
    for rows in (np.flatnonzero(added & (net[ids] == 1)), np.flatnonzero(~added & (net[ids] == -1))):
        last[ids[rows]] = rows  # of a repeated index the last assignment stays
        stays[last[ids[rows]]] = True
    return where(entries, stays)


def _full(handle: TableHandle, metas: Metas, options: CommitOptions) -> Metas | None:
    def must_change(meta: ManifestFileMeta) -> bool:
        return meta.num_deleted_files > 0 or meta.file_size < options.manifest_target_bytes

    if sum(m.file_size for m in metas if must_change(m)) < options.manifest_full_compaction_bytes:
        return None
    deleted = _deletes(handle, [m for m in metas if m.num_deleted_files > 0])
    untouched, candidates = _apart(handle, metas, deleted, {m.file_name for m in metas if must_change(m)})
    if len(candidates) <= 1:
        return None
    kept: list[ManifestFileMeta] = list(untouched)
    rewritten: list[pa.Table] = []
    for meta in candidates:
        entries = read_manifests(handle, [meta])
        live = _without(entries, deleted)
        if must_change(meta) or len(live) < len(entries):
            rewritten.append(live)
        else:
            kept.append(meta)
    merged = together(*rewritten)
    return (*kept, *(write_manifest(handle, merged) if len(merged) else ()))


def _deletes(handle: TableHandle, metas: Sequence[ManifestFileMeta]) -> pa.Table:
    found = [no_entries()]
    for meta in metas:
        entries = read_manifests(handle, [meta])
        found.append(where(entries, ~adds(entries)))
    return together(*found)


def _apart(
    handle: TableHandle, metas: Metas, deleted: pa.Table, must_change: set[str]
) -> tuple[list[ManifestFileMeta], list[ManifestFileMeta]]:
    """Manifests in which certainly nothing is deleted, and the others."""
    touched = Touched(handle, column(deleted, "partition"))
    possible = touched.manifests(metas).tolist()
    untouched: list[ManifestFileMeta] = []
    candidates: list[ManifestFileMeta] = []
    for meta, maybe in zip(metas, possible, strict=True):
        (candidates if maybe or meta.file_name in must_change else untouched).append(meta)
    return untouched, candidates


def _without(entries: pa.Table, deleted: pa.Table) -> pa.Table:
    """The ADD entries whose file `deleted` does not name."""
    live = where(entries, adds(entries))
    if len(deleted) == 0 or len(live) == 0:
        return live
    ids = file_ids(together(deleted, live))
    gone = np.unique(ids[: len(deleted)])
    return where(live, ~np.isin(ids[len(deleted) :], gone))
