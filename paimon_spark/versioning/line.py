"""Line: what one branch's directory holds of its own, as values that can be planned with and laid down elsewhere.

The texts of files are kept as they were read, so that a copy is the same to the byte, whoever wrote it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from paimon_spark.errors import FileMissingError
from paimon_spark.format.metadata_files.snapshot import Snapshot, decode, encode
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.schemas import list_schema_ids
from paimon_spark.metadata.snapshots import list_changelog_ids, list_snapshot_ids
from paimon_spark.metadata.tags import tag_names
from paimon_spark.storage.store import Store

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
