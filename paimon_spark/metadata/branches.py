"""Branches of a table, and where each forked from another.

The fork of a branch is in its file `FORK`, beside `snapshot/`, where no other engine looks. Without that file it is
derived: histories are shared up to the fork and never after it, so the newest shared snapshot is the fork.

Source: Java `utils/BranchManager`, which derived the base from the branch's own files in 0.9; PIP-14 for `MAIN-BRANCH`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from paimon_spark.display import ShownAsFacts
from paimon_spark.errors import CorruptFileError
from paimon_spark.format.json_files import decode_object, encode_value, find_object
from paimon_spark.format.metadata_files.snapshot import Snapshot, Tag
from paimon_spark.metadata.handle import TableHandle, branch_names, visible_branch_names
from paimon_spark.metadata.layout import BRANCH_PREFIX, MAIN, Layout, is_ref_name
from paimon_spark.metadata.schemas import visible_schema_ids
from paimon_spark.metadata.small_files import checked_number, checked_text, find_bytes, find_decoded
from paimon_spark.metadata.snapshots import earliest_snapshot, find_snapshot, list_snapshot_ids
from paimon_spark.metadata.tags import TagInfo, guarded_branch, list_tags, savepoint_id_of
from paimon_spark.storage.ahead import ahead, remote_of
from paimon_spark.storage.store import Store
from paimon_spark.text import safe


@dataclass(frozen=True, slots=True, repr=False)
class Branch(ShownAsFacts):
    """A branch of a table.

    Attributes:
        is_main: whether `main` means this branch (file `MAIN-BRANCH`).
        created_from_tag, created_from_snapshot_id: its base as far as it can be told from its files.
        modified_ms: epoch milliseconds of the directory's last change; None when the store does not say.
        fork: where it left another branch; None where nothing tells.
    """

    name: str
    is_main: bool
    created_from_tag: str | None
    created_from_snapshot_id: int | None
    modified_ms: int | None
    fork: Fork | None = None

    @property
    def base_text(self) -> str:
        """Origin of the branch, as the end of a sentence."""
        if self.created_from_tag is not None:
            return f" from tag {safe(self.created_from_tag)}"
        return ", empty" if self.created_from_snapshot_id is None else f" from snapshot {self.created_from_snapshot_id}"

    def text_lines(self) -> list[str]:
        return [f"branch {safe(self.name)}{self.base_text}{', main means it' if self.is_main else ''}"]


def branch_exists(handle: TableHandle, name: str) -> bool:
    """Whether the table has a branch of this name; main always exists."""
    return name == MAIN or is_branch(handle.store, handle.layout, name)


def is_branch(store: Store, layout: Layout, name: str) -> bool:
    """Whether readers see a branch of this name, other than main, in the table's directory. One listing or two."""
    return is_ref_name(name) and bool(visible_schema_ids(store, layout.with_branch(name)))


def list_branch_names(handle: TableHandle) -> list[str]:
    """Names of the branches that readers see, sorted, without `main` itself."""
    return visible_branch_names(handle.store, handle.layout)


def list_branches(handle: TableHandle) -> list[Branch]:
    """The branches, sorted by name, without `main` itself; a branch that main means is marked."""
    store, layout = handle.store, handle.layout
    # Object stores know no times of directories, and would be asked for nothing.
    times = {} if remote_of(store) else {info.name: info.modified_ms for info in store.list(layout.branches_dir)}
    names = list_branch_names(handle)
    with ahead(store, [handle.on_branch_directory(name).layout.fork_file for name in names]):
        return [_branch(handle, name, times.get(BRANCH_PREFIX + name)) for name in names]


def _branch(handle: TableHandle, name: str, modified_ms: int | None) -> Branch:
    on_branch = handle.on_branch_directory(name)
    fork = fork_of(on_branch)
    tag, snapshot_id = (fork.tag, fork.snapshot_id) if fork is not None and fork.recorded else _first(on_branch)
    return Branch(name, handle.layout.main_branch == name, tag, snapshot_id, modified_ms, fork)


def _first(on_branch: TableHandle) -> tuple[str | None, int | None]:
    """The tag and snapshot that the branch's own files begin with."""
    earliest = earliest_snapshot(on_branch)
    first_tag = next((t for t in list_tags(on_branch) if guarded_branch(t.name) is None), None)
    # The branch was made from its oldest tag exactly when its snapshots begin with that tag's.
    from_tag = first_tag is not None and earliest is not None and first_tag.snapshot.id == earliest.id
    return (
        first_tag.name if first_tag is not None and from_tag else None,
        None if earliest is None else earliest.id,
    )


NEW_BACKUP: Final = "main_backup_"
"""How names of branches begin that keep what main lost (`versioning.publish`)."""
_OLD_BACKUP: Final = "main-backup-"
"""The same in earlier versions, whose tables may have such branches."""
_BACKUP_NAME: Final = re.compile(rf"{_OLD_BACKUP}.*|{NEW_BACKUP}\d{{8}}T\d{{6}}(_\d+)?", re.ASCII | re.DOTALL)
UNDO_FILE: Final = "UNDO"
"""The file of a backup branch that holds its `UndoNote`."""
REBASE_PREFIX: Final = "main-rebase-"
"""Prefix of the branches on which rebases are made before main gets them (`jobs.rebase`)."""
_VERSION: Final = 1


def is_backup_name(name: str) -> bool:
    """Whether it is the name of a branch that keeps what main lost."""
    return _BACKUP_NAME.fullmatch(name) is not None


def is_like_backup(name: str) -> bool:
    """Whether a name begins as those of backups, so that users cannot give it."""
    return name.startswith((NEW_BACKUP, _OLD_BACKUP))


def is_internal_branch(name: str) -> bool:
    """Whether a branch is a backup or the work of a rebase, which listings leave out unless asked for."""
    return is_backup_name(name) or name.startswith(REBASE_PREFIX)


@dataclass(frozen=True, slots=True, repr=False)
class Fork(ShownAsFacts):
    """Where a branch left another.

    Attributes:
        parent: the branch left; `main` whichever directory that means.
        snapshot_id: the newest snapshot shared with the parent; None for a branch that shares none.
        tag: the tag it was created from, None if it was none.
        time_ms: when that snapshot was committed, epoch milliseconds.
        created_ms: when the branch was created; None when it is not recorded.
        guards: names of the guard tags, by the branch (`main`, parents) that they lie on. The branch's own copy is not
            among them.
        recorded: whether the branch has a `FORK` file; else this was derived.
    """

    parent: str
    snapshot_id: int | None
    tag: str | None = None
    time_ms: int | None = None
    created_ms: int | None = None
    guards: Mapping[str, str] = field(default_factory=dict)
    recorded: bool = True

    def text_lines(self) -> list[str]:
        place = "" if self.snapshot_id is None else f" at snapshot {self.snapshot_id}"
        tag = "" if self.tag is None else f" (tag {safe(self.tag)})"
        return [f"from {safe(self.parent)}{place}{tag}"]


def encode_fork(fork: Fork) -> bytes:
    """The bytes of a `FORK` file."""
    raw = {
        "version": _VERSION,
        "parent": fork.parent,
        "snapshotId": fork.snapshot_id,
        "tag": fork.tag,
        "timeMillis": fork.time_ms,
        "createdMillis": fork.created_ms,
        "guards": dict(fork.guards),
    }
    return encode_value(raw, indent=2)


def decode_fork(data: bytes, path: str) -> Fork:
    """The fork in the bytes of a `FORK` file; `path` is for messages. Raises CorruptFileError."""

    def build(raw: dict[str, Any]) -> tuple[int, Fork]:
        fork = Fork(
            checked_text(raw["parent"]),
            _optional_number(raw["snapshotId"]),
            _optional_text(raw.get("tag")),
            _optional_number(raw.get("timeMillis")),
            _optional_number(raw.get("createdMillis")),
            {checked_text(k): checked_text(v) for k, v in (raw.get("guards") or {}).items()},
        )
        return checked_number(raw["version"]), fork

    version, fork = decode_object(
        data,
        build,
        lambda why: CorruptFileError(
            f"{path} cannot be decoded ({why}); remove it to derive the fork of the branch instead", path=path
        ),
    )
    if version != _VERSION:
        raise CorruptFileError(f"{path} is of version {version}, known is {_VERSION}; use a newer release", path=path)
    return fork


def fork_path(handle: TableHandle) -> str:
    """The path of the branch's `FORK` file."""
    return handle.layout.fork_file


def read_fork(handle: TableHandle) -> Fork | None:
    """Read the branch's `FORK` file; None when it has none. Raises CorruptFileError."""
    return find_decoded(handle.store, fork_path(handle), decode_fork)


def recorded_forks(handle: TableHandle, *, other_than: str | None = None) -> Iterator[tuple[TableHandle, Fork]]:
    """Yield the branches that have a `FORK` file, by name, with their forks. Raises CorruptFileError."""
    for name in list_branch_names(handle):
        branch = handle.on_branch_directory(name)
        fork = None if name == other_than else read_fork(branch)
        if fork is not None:
            yield branch, fork


def fork_of(handle: TableHandle) -> Fork | None:
    """Where the handle's branch left another: recorded, else derived. None for main, and where nothing is shared.

    Raises:
        CorruptFileError: a `FORK` file, snapshot or tag cannot be decoded.
    """
    if is_main(handle):
        return None
    return read_fork(handle) or _derived(handle)


def is_main(handle: TableHandle) -> bool:
    """Whether the handle is on the branch that `main` means, by that name or by its own."""
    return handle.layout.directory_branch == (handle.layout.main_branch or MAIN)


def logical_name(handle: TableHandle) -> str:
    """How `FORK` files call the handle's branch: `main` also where it is asked for by its own name."""
    return MAIN if is_main(handle) else handle.branch


def ancestry(handle: TableHandle, snapshot_id: int) -> list[tuple[str, int]]:
    """A snapshot of the branch, and where its history lay on the parents before: (branch, snapshot id), up to main.

    Ends early at a branch that shares nothing with another. Raises as `fork_of`.
    """
    found: dict[str, int] = {}
    at, newest = handle, snapshot_id
    while logical_name(at) not in found:
        found[logical_name(at)] = newest
        fork = fork_of(at)
        if fork is None or fork.snapshot_id is None:
            break
        newest = min(newest, fork.snapshot_id)
        at = handle.on_branch_directory(fork.parent)
    return list(found.items())


def same_snapshot(a: Snapshot | None, b: Snapshot | None) -> bool:
    """Whether two snapshots are one commit; names of manifest lists are never reused."""
    return a is not None and b is not None and snapshot_identity(a) == snapshot_identity(b)


def snapshot_identity(snapshot: Snapshot) -> tuple[int, str, str]:
    """Identity of a commit, unique among snapshots."""
    return snapshot.id, snapshot.base_manifest_list, snapshot.delta_manifest_list


def newest_shared(handle: TableHandle, other: TableHandle) -> Snapshot | None:
    """The newest snapshot that both branches have, alive or in a tag; None when they share none.

    Two listings and few small reads for each branch, as shared snapshots are the older ones. Raises CorruptFileError.
    """
    return newest_of_both(Refs.of(handle), Refs.of(other))


class NamedSnapshot(Protocol):
    """A tag: a snapshot with a name."""

    @property
    def name(self) -> str: ...

    @property
    def snapshot(self) -> Snapshot: ...


@dataclass(frozen=True, slots=True)
class Refs:
    """Snapshots and tags of a branch, for comparing.

    Attributes:
        handle: the branch.
        ids: of its snapshots alive, ascending.
        tags: by snapshot id and then name.
        alive: its snapshots by id where they were read; else each is read when it is asked for.
    """

    handle: TableHandle
    ids: tuple[int, ...]
    tags: tuple[NamedSnapshot, ...]
    alive: Mapping[int, Snapshot] | None = None

    @staticmethod
    def of(handle: TableHandle) -> Refs:
        return Refs(handle, tuple(list_snapshot_ids(handle)), tuple(list_tags(handle)))

    def find(self, snapshot_id: int) -> Snapshot | None:
        """The snapshot of the branch that is alive with this id."""
        if self.alive is not None:
            return self.alive.get(snapshot_id)
        return find_snapshot(self.handle, snapshot_id) if snapshot_id in self.ids else None

    def known(self, snapshot_id: int) -> Snapshot | None:
        """The snapshot of the branch, alive or in a tag; None when it has expired."""
        tagged = (tag.snapshot for tag in self.tags if tag.snapshot.id == snapshot_id)
        return self.find(snapshot_id) or next(tagged, None)

    @property
    def earliest(self) -> int | None:
        ids = [*self.ids[:1], *(tag.snapshot.id for tag in self.tags)]
        return min(ids, default=None)

    def has(self, snapshot: Snapshot) -> bool:
        """Whether the snapshot is of the branch's history: a tag of another history may lie among its tags."""
        alive = self.find(snapshot.id)
        if alive is not None:
            return same_snapshot(alive, snapshot)
        is_later = bool(self.ids) and snapshot.id > self.ids[-1]
        return not is_later and any(same_snapshot(tag.snapshot, snapshot) for tag in self.tags)


def newest_of_both(own: Refs, other: Refs) -> Snapshot | None:
    """As `newest_shared`."""
    found = _shared_alive(own, other)
    tagged = {snapshot_identity(t.snapshot): t.snapshot for t in (*own.tags, *other.tags)}.values()
    for snapshot in sorted(tagged, key=lambda s: s.id, reverse=True):
        if found is not None and snapshot.id <= found.id:
            break
        if own.has(snapshot) and other.has(snapshot):
            return snapshot
    return found


def _shared_alive(own: Refs, other: Refs) -> Snapshot | None:
    ids = sorted(set(own.ids) & set(other.ids))
    found, low, high = None, 0, len(ids) - 1
    while low <= high:
        middle = (low + high) // 2
        snapshot = own.find(ids[middle])
        if same_snapshot(snapshot, other.find(ids[middle])):
            found, low = snapshot, middle + 1
        else:
            high = middle - 1
    return found


def _derived(handle: TableHandle) -> Fork | None:
    own = Refs.of(handle)
    if own.earliest is None:
        return None
    main = Refs.of(handle.on_branch_directory(MAIN))
    shared = newest_of_both(own, main)
    if shared is not None:
        return _fork(own, main, shared)
    best: tuple[Snapshot, Refs] | None = None
    for name in branch_names(handle.store, handle.layout):
        if name.startswith(".") or name in (handle.branch, handle.layout.main_branch):
            continue
        other = Refs.of(handle.on_branch_directory(name))
        # Of two branches that share a base the one that goes back further was there first; never both ways.
        if other.earliest is None or (other.earliest, name) > (own.earliest, handle.branch):
            continue
        shared = newest_of_both(own, other)
        if shared is not None and (best is None or shared.id > best[0].id):
            best = shared, other
    return None if best is None else _fork(own, best[1], best[0])


def _fork(own: Refs, parent: Refs, shared: Snapshot) -> Fork:
    names = {t.name for t in parent.tags if same_snapshot(t.snapshot, shared)}
    tag = next(
        (t.name for t in own.tags if t.name in names and guarded_branch(t.name) is None),
        None,
    )
    return Fork(logical_name(parent.handle), shared.id, tag, shared.time_ms, recorded=False)


def _optional_text(value: Any) -> str | None:
    return None if value is None else checked_text(value)


def _optional_number(value: Any) -> int | None:
    return None if value is None else checked_number(value)


def list_tag_infos(handle: TableHandle) -> list[TagInfo]:
    """The branch's tags, savepoints and guards included, by snapshot id and then name.

    Reads the tags, and of each branch where it comes from. Raises CorruptFileError.
    """
    tags = list_tags(handle)
    created = _branches_by_tag(handle) if tags else {}
    return [tag_info(tag, created.get((tag.name, tag.snapshot.id), ())) for tag in tags]


def tag_info(tag: Tag, branches: Sequence[str] = ()) -> TagInfo:
    """A tag with what its name tells, and the branches created from it."""
    return TagInfo(
        tag.name,
        tag.snapshot,
        tag.create_time,
        tag.time_retained_s,
        savepoint_id_of(tag.name) is not None,
        guarded_branch(tag.name),
        tuple(branches),
    )


def _branches_by_tag(handle: TableHandle) -> dict[tuple[str, int], list[str]]:
    """Branches by the tag they were created from and its snapshot id then: a name can come to mean another."""
    found = defaultdict(list)
    for name in list_branch_names(handle):
        fork = fork_of(handle.on_branch_directory(name))
        if fork is None or fork.tag is None or fork.snapshot_id is None or fork.parent != logical_name(handle):
            continue
        found[fork.tag, fork.snapshot_id].append(name)
    return found


@dataclass(frozen=True, slots=True)
class UndoNote:
    """The file `UNDO` of a backup branch: which operation it was made by, so that this can be undone.

    Attributes:
        operation: such as `merge into main of branch 'fix'`.
        head: `snapshot_identity` of main's head after it.
        kept: that of main's head before it, which is the branch's.
        tags: main's tags after it; None where an older release did not write them.
        schema_id: main's newest schema after it; None likewise.
    """

    operation: str
    head: tuple[int, str, str]
    kept: tuple[int, str, str]
    tags: frozenset[str] | None = None
    schema_id: int | None = None


def read_undo_note(handle: TableHandle, directory: str) -> UndoNote | None:
    """Read the note of a backup branch; None without one that this release can read."""
    data = find_bytes(handle.store, f"{handle.on_branch_directory(directory).layout.branch_root}/{UNDO_FILE}")

    def build(raw: dict[str, Any]) -> UndoNote:
        (head, *head_lists), (kept, *kept_lists) = raw["head"], raw["kept"]
        (base, delta), (kept_base, kept_delta) = head_lists, kept_lists
        tags, schema_id = raw.get("tags"), raw.get("schema")
        return UndoNote(
            str(raw["operation"]),
            (int(head), checked_text(base), checked_text(delta)),
            (int(kept), checked_text(kept_base), checked_text(kept_delta)),
            None if tags is None else frozenset(map(str, tags)),
            None if schema_id is None else int(schema_id),
        )

    return None if data is None else find_object(data, build)
