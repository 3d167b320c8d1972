"""Steps of a change, run on the table's store. Each may be run again after a crash."""

from __future__ import annotations

import hashlib

from paimon_spark.errors import FileAlreadyThereError, FileMissingError
from paimon_spark.maintenance.changes import Delete, DeleteFiles, DeleteTree, Put, PutNew, RenameTree, SetAside, Step
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.layout import SNAPSHOT_PREFIX
from paimon_spark.metadata.small_files import numbered


def run_step(handle: TableHandle, step: Step) -> None:
    """Do one step. Raises StorageError."""
    store, root = handle.store, handle.layout.root
    match step:
        case Put(path, text):
            store.write(f"{root}/{path}", text.encode())
        case PutNew(path, text, aside):
            _put_new(handle, f"{root}/{path}", text.encode(), f"{root}/{aside}")
        case Delete(path, sha256):
            if sha256 is None or _has(handle, f"{root}/{path}", sha256):
                store.delete(f"{root}/{path}")
        case DeleteFiles(paths):
            store.delete_many([f"{root}/{path}" for path in paths])
        case DeleteTree(directory):
            store.delete_tree(f"{root}/{directory}")
        case SetAside(directory, aside):
            _set_aside(handle, f"{root}/{directory}", f"{root}/{aside}")
        case RenameTree(old, new):
            _rename(handle, f"{root}/{old}", f"{root}/{new}")


def _set_aside(handle: TableHandle, directory: str, aside: str) -> None:
    for snapshot_id in numbered(handle.store, directory, SNAPSHOT_PREFIX):
        name = f"{SNAPSHOT_PREFIX}{snapshot_id}"
        handle.store.write(f"{aside}/{name}", handle.store.read(f"{directory}/{name}"))
        handle.store.delete(f"{directory}/{name}")


def _put_new(handle: TableHandle, path: str, data: bytes, aside: str) -> None:
    store = handle.store
    try:
        store.create_exclusive(path, data)
    except FileAlreadyThereError:
        found = store.read(path)
        if found != data:  # else the step was done before
            store.write(aside, found)
            store.write(path, data)


def _has(handle: TableHandle, path: str, sha256: str) -> bool:
    try:
        return hashlib.sha256(handle.store.read(path)).hexdigest() == sha256
    except FileMissingError:
        return False


def _rename(handle: TableHandle, old: str, new: str) -> None:
    store = handle.store
    try:
        store.rename_tree(old, new)
    except FileMissingError:
        if not store.exists(new):
            raise
    except FileAlreadyThereError:
        # Where renaming is copying, either the copy or the removal was broken off: what is left is copied again.
        _copy_tree(handle, old, new)
        store.delete_tree(old)


def _copy_tree(handle: TableHandle, old: str, new: str) -> None:
    for info in handle.store.list(old):
        if info.is_directory:
            _copy_tree(handle, f"{old}/{info.name}", f"{new}/{info.name}")
        else:
            handle.store.write(f"{new}/{info.name}", handle.store.read(f"{old}/{info.name}"))
