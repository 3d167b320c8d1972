"""TableChange: what an operation does to a table's refs, as steps that can be repeated. JSON and back; pure.

Steps name paths relative to the table's directory. They are run in order; after a crash all of them are run again from
the first, so each must do no harm when it was done before, and readers must find the old state or the new one after
every step. Source of the idea: redo logs.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, TypeAlias

from paimon_spark.errors import CorruptFileError, FormatError
from paimon_spark.format.metadata_files import snapshot as snapshot_file
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.layout import MAIN, is_file_name

VERSION: Final = 1

_PLACES: Final = frozenset(("snapshot", "changelog", "tag", "schema", "consumer", "sink", "branch", "MAIN-BRANCH"))
"""What steps may touch: refs. Files that refs share are deleted by `removal.py` alone."""


@dataclass(frozen=True, slots=True)
class Put:
    """Make or replace a small file; readers see the old bytes or the new ones."""

    path: str
    text: str


@dataclass(frozen=True, slots=True)
class PutNew:
    """Make a file where the plan found none. What others made there since is not lost: it goes to `aside` first."""

    path: str
    text: str
    aside: str


@dataclass(frozen=True, slots=True)
class Delete:
    """Remove a file; one that is not there is fine.

    Attributes:
        sha256: hex digest of the bytes it must still have; a file with others stays. For snapshots that make way for
            others of the same id: repeated after a crash, the step must not meet what was committed since.
    """

    path: str
    sha256: str | None = None


@dataclass(frozen=True, slots=True)
class DeleteFiles:
    """Remove many files, in no order; those that are not there are fine."""

    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DeleteTree:
    """Remove a directory with all that is in it; one that is not there is fine."""

    directory: str


@dataclass(frozen=True, slots=True)
class SetAside:
    """Move the snapshot files that are left in a directory to another one: those that nobody knew of."""

    directory: str
    aside: str


@dataclass(frozen=True, slots=True)
class RenameTree:
    """Move a branch's directory; when only `new` is there, it was done before."""

    old: str
    new: str


@dataclass(frozen=True, slots=True)
class IfSnapshots:
    """Run more steps when a directory holds snapshot files: those that `PutNew` or `SetAside` moved there."""

    directory: str
    steps: tuple[Put | Delete, ...]


Step: TypeAlias = Put | PutNew | Delete | DeleteFiles | DeleteTree | SetAside | RenameTree | IfSnapshots


class RootKind(str, Enum):
    """What kind of file the root is; it says what of its snapshot is needed.

    A SNAPSHOT needs its state (base and delta lists, index manifest, statistics) and its changelog. A TAG needs its
    state alone. A CHANGELOG needs its changelog list, or where it has none (no changelog producer) its base and delta
    lists with their manifests, and what readers of changes read of its delta: the files that it adds, of an overwrite
    those that it deletes too, of a compaction none.
    """

    SNAPSHOT = "snapshot"
    TAG = "tag"
    CHANGELOG = "changelog"


@dataclass(frozen=True, slots=True)
class Root:
    """A file that holds on to others.

    Attributes:
        branch_directory: the branch whose directory the file lies in (`main` for the table's own).
        name: `5` of a snapshot or changelog, the name of a tag.
    """

    kind: RootKind
    branch_directory: str
    name: str
    snapshot: Snapshot

    @property
    def key(self) -> tuple[str, str, str]:
        """What no two roots share."""
        return self.kind.value, self.branch_directory, self.name

    def describe(self) -> str:
        """The root in words, for messages."""
        on = "" if self.branch_directory == MAIN else f" of branch {self.branch_directory!r}"
        return f"{self.kind.value} {self.name if self.kind is not RootKind.TAG else repr(self.name)}{on}"


@dataclass(frozen=True, slots=True)
class TableChange:
    """What one operation does.

    Attributes:
        kind: the verb, `create-branch`; for messages and for who finishes it.
        label: the operation in words, for messages: `merge into main of branch 'fix'`.
        steps: run in order.
        released: roots that are no longer there after the steps. Files that then no root needs are deleted.
    """

    kind: str
    label: str
    steps: tuple[Step, ...]
    released: tuple[Root, ...] = ()


def encode(change: TableChange) -> dict[str, object]:
    """The change as JSON values. Raises ValueError: a step touches what is no ref of the table, a bug of its verb."""
    for path in _paths(change.steps):
        if not _is_ref_path(path):
            raise ValueError(f"a step of {change.label} may not touch {path!r}")
    return {
        "version": VERSION,
        "kind": change.kind,
        "label": change.label,
        "steps": [_encoded(step) for step in change.steps],
        "released": [
            {
                "kind": root.kind.value,
                "branch": root.branch_directory,
                "name": root.name,
                "snapshot": json.loads(snapshot_file.encode(root.snapshot)),
            }
            for root in change.released
        ],
    }


def decode(raw: object, path: str) -> TableChange:
    """The change of JSON values. Raises CorruptFileError naming `path`."""
    try:
        if not isinstance(raw, dict) or raw["version"] != VERSION:
            raise FormatError(f"it is no change of version {VERSION}")
        steps = tuple(_decoded(step) for step in raw["steps"])
        for place in _paths(steps):
            if not _is_ref_path(place):
                raise FormatError(f"a step touches {place!r}, which is no ref of the table")
        released = tuple(_root(r, path) for r in raw["released"])
        return TableChange(_text(raw["kind"]), _text(raw["label"]), steps, released)
    except (KeyError, TypeError, ValueError, AttributeError, FormatError) as e:
        raise CorruptFileError(
            f"{path} is not a readable plan of a change: {e}. Nothing was done; if nobody is at work on the table, "
            "remove the file and look at the table with doctor()",
            path=path,
        ) from e


def put_all(files: Sequence[tuple[str, bytes]]) -> tuple[Put, ...]:
    """Puts of (relative path, bytes)."""
    return tuple(Put(path, data.decode()) for path, data in files)


def roots_put(change: TableChange) -> list[Root]:
    """The snapshots, tags and changelogs that the steps put. Raises CorruptFileError: one is none."""
    roots = []
    for step in change.steps:
        found = _ROOT.fullmatch(step.path) if isinstance(step, (Put, PutNew)) else None
        if found is not None and isinstance(step, (Put, PutNew)):
            kind, branch = RootKind(found["kind"]), found["branch"] or MAIN
            raw = step.text.encode()
            snapshot = snapshot_file.decode_tag(raw, found["name"], step.path).snapshot
            roots.append(Root(kind, branch, found["name"], snapshot))
    return roots


def relative_path(handle: TableHandle, path: str) -> str:
    """A path below the table's directory, as steps name it."""
    return path.removeprefix(f"{handle.layout.root}/")


def delete_unchanged(handle: TableHandle, path: str, data: bytes) -> Delete:
    """The step that removes a file with these bytes, and no other that comes in its place after a crash."""
    return Delete(relative_path(handle, path), hashlib.sha256(data).hexdigest())


_ROOT: Final = re.compile(
    r"(branch/branch-(?P<branch>[^/]+)/)?((?P<kind>snapshot|tag|changelog)/(?P=kind)-(?P<name>[^/]+))", re.DOTALL
)


def _encoded(step: Step) -> list[object]:
    match step:
        case Put(path, text):
            return ["put", path, text]
        case PutNew(path, text, aside):
            return ["put-new", path, text, aside]
        case Delete(path, sha256):
            return ["delete", path] if sha256 is None else ["delete", path, sha256]
        case DeleteFiles(paths):
            return ["delete-files", *paths]
        case DeleteTree(directory):
            return ["delete-tree", directory]
        case SetAside(directory, aside):
            return ["set-aside", directory, aside]
        case RenameTree(old, new):
            return ["rename-tree", old, new]
        case IfSnapshots(directory, steps):
            return ["if-snapshots", directory, *map(_encoded, steps)]


def _decoded(raw: Sequence[object]) -> Step:
    if not isinstance(raw, list):
        raise FormatError(f"{raw!r} is no step")
    if raw[:1] == ["if-snapshots"]:
        steps = tuple(map(_decoded, raw[2:]))
        return IfSnapshots(_text(raw[1]), tuple(step for step in steps if isinstance(step, (Put, Delete))))
    name, *texts = (_text(part) for part in raw)
    match name, texts:
        case "put", [path, text]:
            return Put(path, text)
        case "put-new", [path, text, aside]:
            return PutNew(path, text, aside)
        case "delete", [path]:
            return Delete(path)
        case "delete", [path, sha256]:
            return Delete(path, sha256)
        case "delete-files", paths:
            return DeleteFiles(tuple(paths))
        case "delete-tree", [directory]:
            return DeleteTree(directory)
        case "set-aside", [directory, aside]:
            return SetAside(directory, aside)
        case "rename-tree", [old, new]:
            return RenameTree(old, new)
    raise FormatError(f"the step {name!r} is not known")


def _root(raw: Mapping[str, Any], path: str) -> Root:
    snapshot = snapshot_file.decode(json.dumps(raw["snapshot"]).encode(), path)
    return Root(RootKind(raw["kind"]), _text(raw["branch"]), _text(raw["name"]), snapshot)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise FormatError(f"{str(value)[:50]!r} is no text")
    return value


def _paths(steps: Sequence[Step]) -> list[str]:
    paths: list[str] = []
    for step in steps:
        match step:
            case Put(path, _) | Delete(path):
                paths.append(path)
            case PutNew(path, _, aside):
                paths += [path, aside]
            case DeleteFiles(many):
                paths += many
            case DeleteTree(directory):
                paths.append(directory)
            case SetAside(old, new) | RenameTree(old, new):
                paths += [old, new]
            case IfSnapshots(directory, more):
                paths += [directory, *_paths(more)]
    return paths


def _is_ref_path(path: str) -> bool:
    """Whether it is a path of refs that stays in the table."""
    parts = path.split("/")
    return all(map(is_file_name, parts)) and parts[0] in _PLACES
