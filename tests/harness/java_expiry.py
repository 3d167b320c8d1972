"""Files that Java Paimon deletes when it expires snapshots or deletes tags.

Expiring looks at the tags of main, on whatever branch it runs; deleting a tag looks at the tags and the oldest snapshot
of its own branch. Files are not removed but named, so that a test can say which of them something still needs; the refs
do go.

Source: Java `table/ExpireSnapshotsImpl` with `AbstractFileStore.newTagManager`, `operation/SnapshotDeletion`;
`utils/TagManager.deleteTag` with `AbstractFileStoreTable.tagManager`, `operation/TagDeletion`. 0.9 to 2.0 do the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from paimon_spark.format.metadata_files.manifest import FileKind
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.live_files import live_entries
from paimon_spark.metadata.manifests import data_manifests, delta_manifests, read_manifests
from paimon_spark.metadata.snapshots import list_snapshots
from paimon_spark.metadata.tags import find_tag, list_tags


def data_files(handle: TableHandle, snapshot: Snapshot) -> set[str]:
    """Names of the files alive in a snapshot."""
    return set(live_entries(handle, data_manifests(handle, snapshot)).column("file_name").to_pylist())


def metadata_files(handle: TableHandle, snapshot: Snapshot) -> set[str]:
    """Names of the snapshot's manifest lists and manifests."""
    lists = {snapshot.base_manifest_list, snapshot.delta_manifest_list}
    return lists | {m.file_name for m in data_manifests(handle, snapshot)}


def needed(handle: TableHandle, snapshots: Iterable[Snapshot]) -> set[str]:
    """All files without which one of the snapshots cannot be read."""
    return set().union(*(data_files(handle, s) | metadata_files(handle, s) for s in snapshots))


def expire(handle: TableHandle, keep: int) -> set[str]:
    """Expire all but the newest `keep` snapshots of the handle's branch; names of what Java deletes."""
    alive = list_snapshots(handle)
    if len(alive) <= keep:
        return set()
    gone, end = alive[:-keep], alive[-keep]
    tags = [t.snapshot for t in list_tags(handle.on_branch_directory("main"))]
    deleted: set[str] = set()
    for snapshot in [*gone[1:], end]:
        older = [t for t in tags if t.id < snapshot.id]
        kept = data_files(handle, older[-1]) if older else set()
        deleted |= _deleted_by(handle, snapshot) - kept
    kept = set().union(*(metadata_files(handle, s) for s in [*_overlapping(tags, gone[0].id, end.id), end]))
    for snapshot in gone:
        deleted |= metadata_files(handle, snapshot) - kept
        handle.store.delete(handle.layout.snapshot_path(snapshot.id))
    handle.store.write(f"{handle.layout.snapshot_dir}/EARLIEST", str(end.id).encode())
    return deleted


def delete_tag(handle: TableHandle, name: str) -> set[str]:
    """Delete a tag of the handle's branch; names of what Java deletes."""
    tag = find_tag(handle, name)
    assert tag is not None
    tags = [t for t in list_tags(handle) if t.name != name]
    handle.store.delete(handle.layout.tag_path(name))
    alive = list_snapshots(handle)
    snapshot = tag.snapshot
    if snapshot.id in {s.id for s in alive} or snapshot.id in {t.snapshot.id for t in tags}:
        return set()
    left = [t.snapshot for t in tags if t.snapshot.id < snapshot.id][-1:]
    right = sorted([*[t.snapshot for t in tags if t.snapshot.id > snapshot.id], *alive[:1]], key=lambda s: s.id)[:1]
    return needed(handle, [snapshot]) - needed(handle, [*left, *right])


def _deleted_by(handle: TableHandle, snapshot: Snapshot) -> set[str]:
    entries = read_manifests(handle, delta_manifests(handle, snapshot))
    names: dict[bool, set[str]] = {True: set(), False: set()}
    for kind, name in zip(entries.column("kind").to_pylist(), entries.column("file_name").to_pylist(), strict=True):
        names[kind == FileKind.DELETE].add(name)
    return names[True] - names[False]


def _overlapping(tags: Sequence[Snapshot], begin: int, end: int) -> list[Snapshot]:
    right = max((i for i, t in enumerate(tags) if t.id < end), default=-1)
    left = max((i for i, t in enumerate(tags) if t.id <= begin), default=0)
    return list(tags[left : right + 1])
