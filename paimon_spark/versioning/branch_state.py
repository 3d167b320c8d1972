"""BranchState: the refs in a branch's directory, and the steps that write them.

The texts of files are kept as they were read, so that a copy has the same bytes, whichever engine wrote it.

Readers find the head by the hint LATEST, which they believe when no snapshot follows the one it names, else by listing.
Whoever reads while `replace_state` runs finds the old head or the new one after every step, and the schema of the rows
found; other files may be of either.

Source of the readers' rule: Java `utils/HintFileUtils`, `schema/SchemaManager`.

Tests: tests/unit/versioning/test_merge_steps.py, test_every_moment.py.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from paimon_spark.errors import InvalidInputError
from paimon_spark.format.metadata_files import table_schema as schema_file
from paimon_spark.format.metadata_files.snapshot import Snapshot, decode, encode
from paimon_spark.maintenance.consumers import CONSUMER_PREFIX, consumer_names
from paimon_spark.maintenance.consumers import consumer_path as path_of_consumer
from paimon_spark.metadata.branches import UNDO_FILE, snapshot_identity
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.journal.change import DeleteFile, Put, PutNew, Step
from paimon_spark.metadata.layout import EARLIEST, LATEST, MAIN, SCHEMA_PREFIX, Layout
from paimon_spark.metadata.schemas import HANDOVER, Handover, encode_handover, list_schema_ids
from paimon_spark.metadata.small_files import read_existing, text_of
from paimon_spark.metadata.snapshots import list_changelog_ids, list_snapshot_ids
from paimon_spark.metadata.tags import tag_names
from paimon_spark.redaction import get_logger
from paimon_spark.storage.store import Store

_LOG = get_logger(__name__)
_GONE = encode_handover(Handover(None)).decode()
K = TypeVar("K", int, str)


@dataclass(frozen=True, slots=True)
class Ref:
    """A snapshot, changelog or tag file: its text, and the snapshot in it."""

    text: str
    snapshot: Snapshot

    @property
    def id(self) -> int:
        return self.snapshot.id

    @property
    def sha256(self) -> str:
        """Of the file's bytes, in hex."""
        return hashlib.sha256(self.text.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class BranchState:
    """The refs in one branch's directory.

    Attributes:
        directory: the branch whose directory it is, `main` for the table's own.
        snapshots, changelogs: by id.
        tags: by name, guards and savepoints included.
        schemas: text by id.
        consumers: text by name.
    """

    directory: str
    snapshots: Mapping[int, Ref] = field(default_factory=dict)
    tags: Mapping[str, Ref] = field(default_factory=dict)
    changelogs: Mapping[int, Ref] = field(default_factory=dict)
    schemas: Mapping[int, str] = field(default_factory=dict)
    consumers: Mapping[str, str] = field(default_factory=dict)

    @property
    def head(self) -> int:
        """Id of the newest snapshot; 0 without one."""
        return max(self.snapshots, default=0)

    @property
    def known(self) -> dict[int, Ref]:
        """By id, the file of each snapshot: its own, or a tag of it when it has expired."""
        found = {ref.id: ref for ref in self.tags.values()}
        return {**found, **self.snapshots}


def read_branch_state(handle: TableHandle) -> BranchState:
    """The refs in the directory of the handle's branch. Five listings, and concurrent small reads.

    Files that are deleted meanwhile are left out. Raises InvalidInputError: a tag or a consumer has no possible name.
    """
    store, layout = handle.store, handle.layout
    return BranchState(
        layout.directory_branch,
        _refs(store, {i: layout.snapshot_path(i) for i in list_snapshot_ids(handle)}),
        _refs(store, {name: layout.tag_path(name) for name in tag_names(handle)}),
        _refs(store, {i: layout.changelog_path(i) for i in list_changelog_ids(handle)}),
        _texts(store, {i: layout.schema_path(i) for i in list_schema_ids(store, layout)}),
        _texts(store, {name: path_of_consumer(handle, name) for name in consumer_names(handle)}),
    )


def snapshot_of_tag(snapshot: Snapshot) -> Ref:
    """The snapshot file of an expired snapshot, from a tag of it: without its changelog, which has expired."""
    # A tag keeps the state only. Paimon copies the name of the changelog too; a snapshot that names a missing one would
    # make every later deletion of files unsafe.
    without_changelog = replace(
        snapshot, changelog_manifest_list=None, changelog_manifest_list_size=None, changelog_record_count=None
    )
    return Ref(encode(without_changelog).decode(), without_changelog)


def _refs(store: Store, paths: Mapping[K, str]) -> dict[K, Ref]:
    return {key: Ref(text, decode(text.encode(), paths[key])) for key, text in _texts(store, paths).items()}


def _texts(store: Store, paths: Mapping[K, str]) -> dict[K, str]:
    keys = {path: key for key, path in paths.items()}
    return {keys[path]: text_of(data, path) for path, data in read_existing(store, list(keys))}


V = TypeVar("V", str, Ref)

_ROOT = "/table"
STAGING_PREFIX = ".merge-"
"""Prefix of the directories below `branch/` that hold a new main while main's own directory is replaced."""


def layout_of(directory: str) -> Layout:
    """The layout of a branch's directory in a table at `_ROOT`."""
    return Layout(_ROOT, MAIN, None if directory == MAIN else directory)


def relative(path: str) -> str:
    """A path of `layout_of`, relative to the table's directory."""
    return path.removeprefix(_ROOT + "/")


def directory_path(directory: str) -> str:
    """The directory of a branch, relative to the table's."""
    return relative(layout_of(directory).branch_root)


def snapshot_path(directory: str, snapshot_id: int) -> str:
    """A snapshot file, relative to the table's directory."""
    return relative(layout_of(directory).snapshot_path(snapshot_id))


def tag_path(directory: str, name: str) -> str:
    """A tag file, relative to the table's directory."""
    return relative(layout_of(directory).tag_path(name))


def schema_path(directory: str, schema_id: int) -> str:
    """A schema file, relative to the table's directory."""
    return relative(layout_of(directory).schema_path(schema_id))


def changelog_path(directory: str, snapshot_id: int) -> str:
    """A long-lived changelog file, relative to the table's directory."""
    return relative(layout_of(directory).changelog_path(snapshot_id))


def consumer_path(directory: str, name: str) -> str:
    """A consumer file, relative to the table's directory."""
    return f"{relative(layout_of(directory).consumer_dir)}/{CONSUMER_PREFIX}{name}"


def fork_path(directory: str) -> str:
    """The file `FORK` of a branch, relative to the table's directory."""
    return relative(layout_of(directory).fork_file)


def undo_path(directory: str) -> str:
    """The file `UNDO` of a backup branch, relative to the table's directory."""
    return f"{directory_path(directory)}/{UNDO_FILE}"


def undo_put(backup: BranchState, operation: str, head: Snapshot, main: BranchState) -> Put:
    """Write the file `UNDO` of a backup branch; `main` is main after the operation, and `head` its head."""
    kept = snapshot_identity(backup.snapshots[backup.head].snapshot)
    raw = {
        "version": 1,
        "operation": operation,
        "head": list(snapshot_identity(head)),
        "kept": list(kept),
        "tags": sorted(main.tags),
        "schema": max(main.schemas, default=None),
    }
    return Put(undo_path(backup.directory), json.dumps(raw, ensure_ascii=False))


def late_commits(handle: TableHandle, backup: str, planned: Collection[int]) -> tuple[int, ...]:
    """Ids of the snapshots in a backup branch besides the planned ones: commits of other engines that were moved there.

    A listing.
    """
    late = tuple(i for i in list_snapshot_ids(handle.on_branch_directory(backup)) if i not in planned)
    if late:
        _LOG.warning(
            "snapshots %s were committed to the former main of table %s while it was replaced; they are on branch %r",
            list(late),
            handle.name,
            backup,
        )
    return late


def main_branch_path() -> str:
    """The file `MAIN-BRANCH`, relative to the table's directory."""
    return relative(layout_of(MAIN).main_branch_file)


def create_state(state: BranchState) -> tuple[Put | DeleteFile, ...]:
    """Write the state into an empty directory. The schemas come last, as with them the branch becomes visible."""
    directory = state.directory
    return (
        *(Put(changelog_path(directory, i), ref.text) for i, ref in sorted(state.changelogs.items())),
        *(Put(snapshot_path(directory, i), ref.text) for i, ref in sorted(state.snapshots.items())),
        *(Put(tag_path(directory, name), ref.text) for name, ref in sorted(state.tags.items())),
        *_hints(relative(layout_of(directory).changelog_dir), state.changelogs),
        *_hints(relative(layout_of(directory).snapshot_dir), state.snapshots),
        *(Put(consumer_path(directory, name), text) for name, text in sorted(state.consumers.items())),
        *publish_schemas(directory, relative(layout_of(directory).schema_dir), state.schemas),
    )


def read_schemas(handle: TableHandle, newest: int | None) -> dict[int, str]:
    """Schema files for a new branch of the handle's branch by id: all, or those up to the schema of its snapshot.

    Raises InvalidInputError: that schema is missing.
    """
    store, layout = handle.store, handle.layout
    paths = {i: layout.schema_path(i) for i in list_schema_ids(store, layout)}
    if newest is None:
        newest = max(paths)
    if sum(i <= newest for i in paths) <= newest:
        # Branches of Paimon 0.9 and older have only one schema; the others are read from main.
        for place in (layout.with_branch(MAIN), Layout(layout.root)):
            paths = {**{i: place.schema_path(i) for i in list_schema_ids(store, place)}, **paths}
    if newest not in paths:
        raise InvalidInputError(
            f"cannot create a branch: {store.url(layout.schema_path(newest))} is missing, the schema of the requested "
            f"snapshot of {handle.describe()}; doctor() shows what is damaged",
            table=handle.name,
            schema_id=newest,
        )
    ids = sorted(i for i in paths if i <= newest)
    contents = store.read_many([paths[i] for i in ids])
    for i, data in zip(ids, contents, strict=True):
        schema_file.decode(data, paths[i])
    return {i: text_of(data, f"schema {i}") for i, data in zip(ids, contents, strict=True)}


def publish_schemas(branch: str, schema_dir: str, schemas: Mapping[int, str]) -> tuple[Put | DeleteFile, ...]:
    """Make a branch visible, with the last of its schemas.

    `schema_dir`: of the branch, relative to the table's directory.
    """
    puts = [Put(f"{schema_dir}/{SCHEMA_PREFIX}{i}", text) for i, text in sorted(schemas.items())]
    if len(puts) < 2:
        return tuple(puts)
    # Between the first schema and the last, a reader would look for older schemas on main, which may have others. The
    # handover names all schemas that the branch needs, so the last of them shows the whole branch.
    path = f"{schema_dir}/{HANDOVER}"
    return (Put(path, encode_handover(Handover(branch, frozenset(schemas))).decode()), *puts, DeleteFile(path))


def withdraw_schemas(schema_dir: str, ids: Collection[int]) -> tuple[Step, ...]:
    """Make a branch invisible with the first step, and delete its schemas."""
    hidden = [Put(f"{schema_dir}/{HANDOVER}", _GONE)] if len(ids) > 1 else []
    return (*hidden, *(DeleteFile(f"{schema_dir}/{SCHEMA_PREFIX}{i}") for i in sorted(ids)))


def replace_state(old: BranchState, new: BranchState, late: str | None = None) -> tuple[Step, ...]:
    """Replace `old` by `new` in the directory of `old`. Its consumers stay as they are.

    `late`: the branch to whose directory the snapshots are moved that other engines commit to `old` meanwhile and whose
    ids `new` takes; None when they may be deleted.
    """
    directory = old.directory
    return (
        *(Put(schema_path(directory, i), text) for i, text in _changed(old.schemas, new.schemas)),
        *(Put(tag_path(directory, name), ref.text) for name, ref in _changed(old.tags, new.tags)),
        *(Put(changelog_path(directory, i), ref.text) for i, ref in _changed(old.changelogs, new.changelogs)),
        *_snapshots_over(old, new, late),
        *(DeleteFile(tag_path(directory, name)) for name in sorted(old.tags.keys() - new.tags.keys())),
        *_changelogs_gone(old, new),
        *(DeleteFile(schema_path(directory, i)) for i in sorted(old.schemas.keys() - new.schemas.keys(), reverse=True)),
    )


def delete_snapshot(state: BranchState, snapshot_id: int) -> DeleteFile:
    """Delete a snapshot of the state, but no other snapshot that was given its id since."""
    # By its bytes, not only by its name: after a rollback ids are given again, and an interrupted deletion runs again
    # later.
    return DeleteFile(snapshot_path(state.directory, snapshot_id), state.snapshots[snapshot_id].sha256)


def _snapshots_over(old: BranchState, new: BranchState, late: str | None) -> Iterator[Step]:
    directory = old.directory
    hints = relative(layout_of(directory).snapshot_dir)
    changed = {i: ref.text for i, ref in _changed(old.snapshots, new.snapshots)}
    gone = sorted(old.snapshots.keys() - new.snapshots.keys())
    head, before = new.head, old.head
    # Newest first: the id after the old head comes last, and only then readers stop believing the hint.
    order = sorted(changed, reverse=True) if head > before else sorted(changed)
    for i in order:
        path = snapshot_path(directory, i)
        is_free = late is not None and i > before
        yield PutNew(path, changed[i], snapshot_path(str(late), i)) if is_free else Put(path, changed[i])
    # Between the heads oldest first, the old head after the hint: readers of either hint find its snapshot.
    yield from (delete_snapshot(old, i) for i in gone if head < i < before)
    yield Put(f"{hints}/{LATEST}", str(head))
    yield from (delete_snapshot(old, i) for i in gone if i == before)
    yield from (delete_snapshot(old, i) for i in gone if i < head)
    yield Put(f"{hints}/{EARLIEST}", str(min(new.snapshots)))


def _changelogs_gone(old: BranchState, new: BranchState) -> Iterator[Step]:
    gone = sorted(old.changelogs.keys() - new.changelogs.keys())
    hints = relative(layout_of(old.directory).changelog_dir)
    if new.changelogs:
        yield from _hints(hints, new.changelogs)
    elif gone:
        yield from (DeleteFile(f"{hints}/{name}") for name in (LATEST, EARLIEST))
    yield from (DeleteFile(changelog_path(old.directory, i)) for i in gone)


def _hints(directory: str, refs: Mapping[int, Ref]) -> Iterator[Put]:
    if refs:
        yield Put(f"{directory}/{EARLIEST}", str(min(refs)))
        yield Put(f"{directory}/{LATEST}", str(max(refs)))


def _changed(old: Mapping[K, V], new: Mapping[K, V]) -> list[tuple[K, V]]:
    """The entries of `new` that `old` lacks or has with another value, by key."""
    return [(key, value) for key, value in sorted(new.items()) if old.get(key) != value]
