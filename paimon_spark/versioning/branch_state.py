"""Line: what one branch's directory holds of its own, as values that can be planned with and laid down elsewhere.

The texts of files are kept as they were read, so that a copy is the same to the byte, whoever wrote it.

A whole line laid down in a directory, as steps: into a new one, or over another line, with readers beside.

Readers find the head by the hint LATEST, which they believe when no snapshot follows the one it names, else by listing.
Whoever reads while `written_over` runs finds the old head or the new one after every step, and the schema of what he
finds; files in between may be of either. Pure.

Source of the readers' rule: Java `utils/HintFileUtils`, `schema/SchemaManager`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from paimon_spark.errors import FileMissingError
from paimon_spark.format.metadata_files.snapshot import Snapshot, decode, encode
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.journal.change import Delete, Put, PutNew, Step
from paimon_spark.metadata.layout import EARLIEST, LATEST, MAIN, SCHEMA_PREFIX, Layout
from paimon_spark.metadata.schemas import HANDOVER, Handover, encode_handover, list_schema_ids
from paimon_spark.metadata.snapshots import list_changelog_ids, list_snapshot_ids
from paimon_spark.metadata.tags import tag_names
from paimon_spark.storage.store import Store

_GONE = encode_handover(Handover(None)).decode()
K = TypeVar("K", int, str)

_CONSUMER_PREFIX = "consumer-"


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
class Line:
    """The files of one branch's directory.

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
        """Id of the newest snapshot; 0 when there is none."""
        return max(self.snapshots, default=0)

    @property
    def known(self) -> dict[int, Ref]:
        """A file with each snapshot that is known by any: alive, else a tag of it."""
        found = {ref.id: ref for ref in self.tags.values()}
        return {**found, **self.snapshots}


def read_line(handle: TableHandle) -> Line:
    """Everything in the directory of the handle's branch. Five listings, and concurrent small reads.

    What expires meanwhile is left out.

    Raises:
        CorruptFileError: a snapshot, changelog or tag cannot be decoded.
        StorageError: a file cannot be read.
    """
    store, layout = handle.store, handle.layout
    consumers = [
        info.name.removeprefix(_CONSUMER_PREFIX)
        for info in store.list(layout.consumer_dir)
        if info.name.startswith(_CONSUMER_PREFIX) and not info.is_directory
    ]
    return Line(
        layout.directory_branch,
        _refs(store, {i: layout.snapshot_path(i) for i in list_snapshot_ids(handle)}),
        _refs(store, {name: layout.tag_path(name) for name in tag_names(handle)}),
        _refs(store, {i: layout.changelog_path(i) for i in list_changelog_ids(handle)}),
        _texts(store, {i: layout.schema_path(i) for i in list_schema_ids(store, layout)}),
        _texts(store, {name: f"{layout.consumer_dir}/{_CONSUMER_PREFIX}{name}" for name in consumers}),
    )


def snapshot_of_tag(snapshot: Snapshot) -> Ref:
    """The snapshot file of an expired snapshot that a tag keeps: its state, not the changelog, which went before."""
    state = replace(
        snapshot, changelog_manifest_list=None, changelog_manifest_list_size=None, changelog_record_count=None
    )
    return Ref(encode(state).decode(), state)


def run_up_to(ids: Iterable[int], head: int) -> list[int]:
    """The ids without hole that end at `head`, ascending."""
    alive = set(ids)
    first = head
    while first - 1 in alive:
        first -= 1
    return [i for i in range(first, head + 1) if i in alive]


def _refs(store: Store, paths: Mapping[K, str]) -> dict[K, Ref]:
    return {key: Ref(text, decode(text.encode(), paths[key])) for key, text in _texts(store, paths).items()}


def _texts(store: Store, paths: Mapping[K, str]) -> dict[K, str]:
    try:
        return {key: data.decode() for key, data in zip(paths, store.read_many(list(paths.values())), strict=True)}
    except FileMissingError:  # one went meanwhile
        return {key: data.decode() for key, path in paths.items() if (data := _found(store, path)) is not None}


def _found(store: Store, path: str) -> bytes | None:
    try:
        return store.read(path)
    except FileMissingError:
        return None


V = TypeVar("V", str, Ref)

_ROOT = "/table"
STAGING_PREFIX = ".merge-"
"""Names of directories below `branch/` in which a new main is laid down, while it moves into main's own."""


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


def latest_path(directory: str) -> str:
    """The hint that names a branch's head, relative to the table's directory."""
    return f"{relative(layout_of(directory).snapshot_dir)}/{LATEST}"


def main_branch_path() -> str:
    """The file that says which branch main is, relative to the table's directory."""
    return relative(layout_of(MAIN).main_branch_file)


def laid_down(line: Line) -> tuple[Put | Delete, ...]:
    """The line in a directory where nothing is. A branch is there when it has its schemas, so these come last."""
    directory = line.directory
    consumers = relative(layout_of(directory).consumer_dir)
    return (
        *(Put(changelog_path(directory, i), ref.text) for i, ref in sorted(line.changelogs.items())),
        *(Put(snapshot_path(directory, i), ref.text) for i, ref in sorted(line.snapshots.items())),
        *(Put(tag_path(directory, name), ref.text) for name, ref in sorted(line.tags.items())),
        *_hints(relative(layout_of(directory).changelog_dir), line.changelogs),
        *_hints(relative(layout_of(directory).snapshot_dir), line.snapshots),
        *(Put(f"{consumers}/consumer-{name}", text) for name, text in sorted(line.consumers.items())),
        *schemas_put(directory, relative(layout_of(directory).schema_dir), line.schemas),
    )


def schemas_put(branch: str, schema_dir: str, schemas: Mapping[int, str]) -> tuple[Put | Delete, ...]:
    """Make a branch seen: with the last of its schemas, and not before.

    Args:
        branch: whose directory it is.
        schema_dir: of the branch, relative to the table's directory.
        schemas: text by id.
    """
    puts = [Put(f"{schema_dir}/{SCHEMA_PREFIX}{i}", text) for i, text in sorted(schemas.items())]
    if len(puts) < 2:
        return tuple(puts)
    path = f"{schema_dir}/{HANDOVER}"
    return (Put(path, encode_handover(Handover(branch, frozenset(schemas))).decode()), *puts, Delete(path))


def schemas_gone(schema_dir: str, ids: Collection[int]) -> tuple[Step, ...]:
    """Make a branch unseen, with the first step; its directory goes afterwards."""
    hidden = [Put(f"{schema_dir}/{HANDOVER}", _GONE)] if len(ids) > 1 else []
    return (*hidden, *(Delete(f"{schema_dir}/{SCHEMA_PREFIX}{i}") for i in sorted(ids)))


def written_over(old: Line, new: Line, late: str | None = None) -> tuple[Step, ...]:
    """The steps from `old` to `new` in the directory of `old`. Its consumers stay as they are.

    Args:
        old: as it was read.
        new: what it becomes.
        late: the branch to whose directory snapshots are moved that others commit to `old` meanwhile, where ones of
            `new` take their ids; None when they may go.
    """
    directory = old.directory
    return (
        *(Put(schema_path(directory, i), text) for i, text in _changed(old.schemas, new.schemas)),
        *(Put(tag_path(directory, name), ref.text) for name, ref in _changed(old.tags, new.tags)),
        *_changelogs_put(old, new),
        *_snapshots_over(old, new, late),
        *(Delete(tag_path(directory, name)) for name in sorted(old.tags.keys() - new.tags.keys())),
        *_changelogs_gone(old, new),
        *(Delete(schema_path(directory, i)) for i in sorted(old.schemas.keys() - new.schemas.keys(), reverse=True)),
    )


def snapshot_gone(line: Line, snapshot_id: int) -> Delete:
    """Delete a snapshot of the line, and no other that got its id since."""
    return Delete(snapshot_path(line.directory, snapshot_id), line.snapshots[snapshot_id].sha256)


def _snapshots_over(old: Line, new: Line, late: str | None) -> Iterator[Step]:
    directory = old.directory
    hints = relative(layout_of(directory).snapshot_dir)
    changed = {i: ref.text for i, ref in _changed(old.snapshots, new.snapshots)}
    gone = sorted(old.snapshots.keys() - new.snapshots.keys())
    head, before = new.head, old.head
    # Top down: what follows the old head comes last of the new ids, and only then the hint is believed no more.
    order = sorted(changed, reverse=True) if head > before else sorted(changed)
    for i in order:
        path = snapshot_path(directory, i)
        is_free = late is not None and i > before
        yield PutNew(path, changed[i], snapshot_path(str(late), i)) if is_free else Put(path, changed[i])
    # Between the heads from below, the old head after the hint: neither is ever missing for who believes in it.
    yield from (snapshot_gone(old, i) for i in gone if head < i < before)
    yield Put(f"{hints}/{LATEST}", str(head))
    yield from (snapshot_gone(old, i) for i in gone if i == before)
    yield from (snapshot_gone(old, i) for i in gone if i < head)
    yield Put(f"{hints}/{EARLIEST}", str(min(new.snapshots)))


def _changelogs_put(old: Line, new: Line) -> Iterator[Step]:
    yield from (Put(changelog_path(old.directory, i), ref.text) for i, ref in _changed(old.changelogs, new.changelogs))


def _changelogs_gone(old: Line, new: Line) -> Iterator[Step]:
    gone = sorted(old.changelogs.keys() - new.changelogs.keys())
    hints = relative(layout_of(old.directory).changelog_dir)
    if new.changelogs:
        yield from _hints(hints, new.changelogs)
    elif gone:
        yield from (Delete(f"{hints}/{name}") for name in (LATEST, EARLIEST))
    yield from (Delete(changelog_path(old.directory, i)) for i in gone)


def _hints(directory: str, refs: Mapping[int, Ref]) -> Iterator[Put]:
    if refs:
        yield Put(f"{directory}/{EARLIEST}", str(min(refs)))
        yield Put(f"{directory}/{LATEST}", str(max(refs)))


def _changed(old: Mapping[K, V], new: Mapping[K, V]) -> list[tuple[K, V]]:
    """What `new` has, and `old` has not or otherwise, by key ascending."""
    return [(key, value) for key, value in sorted(new.items()) if old.get(key) != value]
