"""Run a step of a change. Each step may run again after a crash."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Final

from paimon_spark.errors import FileAlreadyThereError, FileMissingError
from paimon_spark.format.metadata_files.snapshot import decode
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.journal.change import (
    Delete,
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
        case Delete(path, sha256):
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
        case IfSnapshots(directory, steps):
            if numbered(store, f"{root}/{directory}", SNAPSHOT_PREFIX):
                for more in steps:
                    run_step(handle, more)


def _set_aside(handle: TableHandle, directory: str, aside: str) -> None:
    for snapshot_id in numbered(handle.store, directory, SNAPSHOT_PREFIX):
        name = f"{SNAPSHOT_PREFIX}{snapshot_id}"
        handle.store.write(f"{aside}/{name}", handle.store.read(f"{directory}/{name}"))
        handle.store.delete(f"{directory}/{name}")


def _move_late(handle: TableHandle, step: MoveLate) -> None:
    """Run `MoveLate`. Snapshots that follow the new head stay, and so do those where that is unknown."""
    store, root = handle.store, handle.layout.root
    directory, aside = (f"{root}/{path}/{SNAPSHOT_PREFIX}" for path in (step.directory, step.aside))
    former = decode(step.former.encode(), directory) if step.former else None
    head = decode(step.head.encode(), directory)
    moved = [i for i in numbered(store, f"{root}/{step.aside}", SNAPSHOT_PREFIX) if former is None or i > former.id]
    for i in moved:  # an interrupted run copied them, and may not have deleted them
        if find_bytes(store, f"{directory}{i}") == store.read(f"{aside}{i}"):
            store.delete(f"{directory}{i}")
    if moved:
        former = find_decoded(store, f"{aside}{moved[-1]}", decode)
    ids = numbered(store, f"{root}/{step.directory}", SNAPSHOT_PREFIX)
    if former is None or former.id < head.id or former.id + 1 not in ids:
        return
    first = find_decoded(store, f"{directory}{former.id + 1}", decode)
    before = find_decoded(store, f"{directory}{former.id}", decode)
    if first is None or follows(handle, former, first) is not True:
        return
    if before is not None and follows(handle, before, first) is not False:
        return
    late: list[int] = []
    for i in (i for i in ids if i >= first.id):
        data = find_bytes(store, f"{directory}{i}")
        if data is None:  # its writer took it back
            break
        store.write(f"{aside}{i}", data)
        late.append(i)
    if late:
        store.write(f"{root}/{step.aside}/{LATEST}", str(late[-1]).encode())
    # Other engines trust a hint even when it names a missing snapshot.
    store.write(
        f"{root}/{step.directory}/{LATEST}", str(max((i for i in ids if i < first.id), default=head.id)).encode()
    )
    for i in late:
        store.delete(f"{directory}{i}")


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
