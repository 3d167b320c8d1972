"""Run a step of a change. Each step may run again after a crash."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Final

from paimon_spark.errors import CatalogError, FileAlreadyThereError, FileMissingError
from paimon_spark.format.metadata_files.snapshot import Snapshot, decode
from paimon_spark.metadata.handle import TableHandle, server_of
from paimon_spark.metadata.journal.change import (
    CreateOnServer,
    DeleteFile,
    DeleteFiles,
    DeleteTree,
    IfSnapshots,
    MoveLate,
    Put,
    PutNew,
    RenameTree,
    SetAside,
    Step,
)
from paimon_spark.metadata.layout import BRANCH_PREFIX, LATEST, SCHEMA_PREFIX, SNAPSHOT_PREFIX
from paimon_spark.metadata.manifests import follows
from paimon_spark.metadata.schemas import HANDOVER, Handover, encode_handover, visible_schema_ids
from paimon_spark.metadata.small_files import find_bytes, find_decoded, numbered

_CONCURRENT: Final = 8


def run_step(handle: TableHandle, step: Step) -> None:
    """Run one step. Raises StorageError."""
    store, root = handle.store, handle.layout.root
    match step:
        case Put(path, text):
            store.write(f"{root}/{path}", text.encode())
        case PutNew(path, text, aside):
            _put_new(handle, f"{root}/{path}", text.encode(), f"{root}/{aside}")
        case DeleteFile(path, sha256):
            found = None if sha256 is None else find_bytes(store, f"{root}/{path}")
            if sha256 is None or (found is not None and hashlib.sha256(found).hexdigest() == sha256):
                store.delete(f"{root}/{path}")
        case DeleteFiles(paths):
            store.delete_many([f"{root}/{path}" for path in paths])
        case DeleteTree(directory):
            store.delete_tree(f"{root}/{directory}")
        case SetAside(directory, aside):
            _set_aside(handle, f"{root}/{directory}", f"{root}/{aside}")
        case MoveLate():
            _move_late(handle, step)
        case RenameTree(old, new):
            _move_branch(handle, f"{root}/{old}", f"{root}/{new}")
        case CreateOnServer(branch, tag):
            _create_on_server(handle, branch, tag)
        case IfSnapshots(directory, steps):
            if numbered(store, f"{root}/{directory}", SNAPSHOT_PREFIX):
                for more in steps:
                    run_step(handle, more)


def _create_on_server(handle: TableHandle, branch: str, tag: str) -> None:
    server = server_of(handle.store)
    if server is None:
        raise CatalogError(
            f"the creation of branch {branch!r} of table {handle.name} was begun through a REST catalog; open the "
            "table by that catalog, which finishes it"
        )
    server.create_branch(branch, tag or None)


def _set_aside(handle: TableHandle, directory: str, aside: str) -> None:
    """Run `SetAside`, oldest first, up to the first snapshot that its own writer takes back meanwhile."""
    for snapshot_id in numbered(handle.store, directory, SNAPSHOT_PREFIX):
        name = f"{SNAPSHOT_PREFIX}{snapshot_id}"
        found = find_bytes(handle.store, f"{directory}/{name}")
        if found is None:
            return  # later ones contain its files, which its writer deletes
        handle.store.write(f"{aside}/{name}", found)
        handle.store.delete(f"{directory}/{name}")


def _move_late(handle: TableHandle, step: MoveLate) -> None:
    """Run `MoveLate`, oldest first. Snapshots that may follow the new history stay."""
    store, root = handle.store, handle.layout.root
    head = decode(step.head.encode(), step.directory)
    newest = decode(step.former.encode(), step.aside) if step.former else None
    for i in itertools.count(newest.id + 1 if newest else 1):
        path, aside = (f"{root}/{directory}/{SNAPSHOT_PREFIX}{i}" for directory in (step.directory, step.aside))
        moved, found = find_bytes(store, aside), find_bytes(store, path)
        if moved is not None:  # by another step, or by this one before it was interrupted
            if found == moved:
                store.delete(path)
            newest = decode(moved, aside)
            continue
        if newest is None or found is None or not _is_late(handle, step, newest, decode(found, path), head):
            return
        store.write(aside, found)
        if i > head.id:  # other engines trust a hint even when it names a missing snapshot
            store.write(f"{root}/{step.directory}/{LATEST}", str(head.id).encode())
        store.delete(path)
        store.write(f"{root}/{step.aside}/{LATEST}", str(i).encode())
        newest = decode(found, path)


def _is_late(handle: TableHandle, step: MoveLate, newest: Snapshot, found: Snapshot, head: Snapshot) -> bool:
    """Whether a snapshot was made on the former history, whose newest one is `newest`, and not on the new one."""
    before = find_decoded(handle.store, f"{handle.layout.root}/{step.directory}/{SNAPSHOT_PREFIX}{newest.id}", decode)
    if before is not None and follows(handle, before, found) is not False:
        return False
    is_end = before is None and found.id > head.id + 1  # nothing of the new history can come before it
    return is_end or follows(handle, newest, found) is True


def _put_new(handle: TableHandle, path: str, data: bytes, aside: str) -> None:
    store = handle.store
    try:
        store.create_exclusive(path, data)
    except FileAlreadyThereError:
        found = store.read(path)
        if found != data:  # otherwise the step was done before
            store.write(aside, found)
            store.write(path, data)


def _move_branch(handle: TableHandle, old: str, new: str) -> None:
    """Move a branch's directory, at once where the store can; readers always see it in exactly one place."""
    store = handle.store
    if not store.list(old):
        if not store.exists(new):
            raise FileMissingError(f"cannot move {store.url(old)}: it does not exist", path=old)
        return
    ids = numbered(store, f"{old}/schema", SCHEMA_PREFIX)
    if not visible_schema_ids(store, handle.layout.with_branch(_branch_of(new))):
        if ids:  # files at `new` are of an interrupted copy, or of a late commit
            store.delete_tree(new)
        if store.renames_directories:
            with suppress(FileAlreadyThereError):
                store.rename_tree(old, new)
                return
        _copy_branch(handle, old, new, ids)
    _move_late_commits(handle, old, new)
    # Schemas first: a directory without them is not a branch, whatever else is left.
    store.delete_many([_schema_path(old, i) for i in ids])
    store.delete_tree(old)
    store.delete(f"{new}/schema/{HANDOVER}")


def _copy_branch(handle: TableHandle, old: str, new: str, ids: Sequence[int]) -> None:
    """Copy everything, schemas last: with the last of them the new directory becomes the branch instead of the old."""
    store = handle.store
    if ids:
        # In `old` first: a reader that finds the one in `new` finds this one too.
        note = encode_handover(Handover(_branch_of(new), frozenset(ids)))
        store.write(f"{old}/schema/{HANDOVER}", note)
        store.write(f"{new}/schema/{HANDOVER}", note)
    places = [i.name for i in store.list(old) if i.is_directory and i.name != "schema"]
    files = [f"{old}/{i.name}" for i in store.list(old) if not i.is_directory]
    files += [file for place in places for file in _files_below(handle, f"{old}/{place}")]
    with ThreadPoolExecutor(_CONCURRENT, thread_name_prefix="paimon-move") as pool:
        list(pool.map(lambda path: _copy(handle, path, new + path.removeprefix(old)), files))
    for i in ids:
        _copy(handle, _schema_path(old, i), _schema_path(new, i))


def _move_late_commits(handle: TableHandle, old: str, new: str) -> None:
    """Move snapshots committed to the old directory after it was copied, where they follow the new head."""
    store = handle.store
    head = max(numbered(store, f"{new}/snapshot", SNAPSHOT_PREFIX), default=0)
    for snapshot_id in numbered(store, f"{old}/snapshot", SNAPSHOT_PREFIX):
        if snapshot_id != head + 1:
            continue
        name = f"{SNAPSHOT_PREFIX}{snapshot_id}"
        with suppress(FileAlreadyThereError, FileMissingError):
            store.create_exclusive(f"{new}/snapshot/{name}", store.read(f"{old}/snapshot/{name}"))
            head = snapshot_id


def _copy(handle: TableHandle, old: str, new: str) -> None:
    with suppress(FileMissingError):  # it expired meanwhile
        handle.store.write(new, handle.store.read(old))


def _files_below(handle: TableHandle, directory: str) -> Iterator[str]:
    for info in handle.store.list(directory):
        path = f"{directory}/{info.name}"
        if info.is_directory:
            yield from _files_below(handle, path)
        else:
            yield path


def _schema_path(directory: str, schema_id: int) -> str:
    return f"{directory}/schema/{SCHEMA_PREFIX}{schema_id}"


def _branch_of(directory: str) -> str:
    return directory.rpartition("/")[2].removeprefix(BRANCH_PREFIX)
