"""TableChange: steps that change snapshots, tags and branches; their journal as JSON.

Steps name paths relative to the table's directory and run in order. After a crash all of them run again from the
first, so each must do no harm when it was done before, and readers must find the old state or the new one after every
step.

Source: own, a redo log.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from enum import StrEnum
from typing import Any, Final, TypeAlias

from paimon_spark.errors import CorruptFileError, FormatError
from paimon_spark.format.json_files import decode_object, encode_value
from paimon_spark.format.metadata_files import snapshot as snapshot_file
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.journal.decision import (
    Decision,
    decide,
    decision_path,
    find_decision,
    is_decision_id,
    split_root,
)
from paimon_spark.metadata.journal.lock import Owner, journal_path
from paimon_spark.metadata.layout import MAIN, is_file_name
from paimon_spark.metadata.small_files import find_decoded, text_of

VERSION: Final = 1
VERSION_WITH_DECISION: Final = 2
"""Of journals whose steps run only if a decision says so, which older releases must not run."""

_REF_PATHS: Final = frozenset(("snapshot", "changelog", "tag", "schema", "consumer", "sink", "branch", "MAIN-BRANCH"))
"""Directories and files that steps may touch. Files that several roots share are deleted by `maintenance.removal`."""


@dataclass(frozen=True, slots=True)
class Put:
    """Create or replace a small file; readers see the old bytes or the new ones."""

    path: str
    text: str


@dataclass(frozen=True, slots=True)
class PutNew:
    """Create a file where there was none; what other engines created there since is moved to `aside` first."""

    path: str
    text: str
    aside: str


@dataclass(frozen=True, slots=True)
class DeleteFile:
    """Delete a file, if it exists.

    Attributes:
        sha256: hex digest of the bytes that it must still have; a file with other bytes stays. For snapshots whose id
            may be given again: the step, repeated after a crash, must not delete what was committed since.
    """

    path: str
    sha256: str | None = None


@dataclass(frozen=True, slots=True)
class DeleteFiles:
    """Delete the files that exist, in any order."""

    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DeleteTree:
    """Delete a directory and everything in it, if it exists."""

    directory: str


@dataclass(frozen=True, slots=True)
class SetAside:
    """Move the snapshot files left in a directory to another one: those that other engines committed meanwhile."""

    directory: str
    aside: str


@dataclass(frozen=True, slots=True)
class MoveLate:
    """Move snapshots that other engines committed on a head that was replaced meanwhile, where they follow it.

    Attributes:
        directory: the directory of snapshots in which the history was replaced.
        aside: the directory of snapshots where they go; other steps may have moved earlier ones there.
        former: text of the snapshot file of the former head; empty when there was none.
        head: text of that of the new head.
    """

    directory: str
    aside: str
    former: str
    head: str


@dataclass(frozen=True, slots=True)
class RenameTree:
    """Move a branch's directory; when only `new` exists, that was done before."""

    old: str
    new: str


@dataclass(frozen=True, slots=True)
class IfSnapshots:
    """Run more steps when a directory holds snapshot files, which `PutNew`, `SetAside` or `MoveLate` moved there."""

    directory: str
    steps: tuple[Put | DeleteFile, ...]


@dataclass(frozen=True, slots=True)
class CreateOnServer:
    """Let the server that has the table create a branch of main, from a tag or, with an empty one, without rows."""

    branch: str
    tag: str


Step: TypeAlias = (
    Put
    | PutNew
    | DeleteFile
    | DeleteFiles
    | DeleteTree
    | SetAside
    | MoveLate
    | RenameTree
    | IfSnapshots
    | CreateOnServer
)


class RootKind(StrEnum):
    """The kind of a root, which decides what of its snapshot is needed.

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
    """A snapshot, tag or long-lived changelog, whose files must be kept.

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
        """Unique among the roots of a table."""
        return self.kind.value, self.branch_directory, self.name

    def describe(self) -> str:
        """The root as text, for messages."""
        on = "" if self.branch_directory == MAIN else f" of branch {self.branch_directory!r}"
        return f"{self.kind.value} {self.name if self.kind is not RootKind.TAG else repr(self.name)}{on}"


@dataclass(frozen=True, slots=True)
class TableChange:
    """One operation.

    Attributes:
        kind: such as `create-branch`.
        label: the operation as text, for messages: `merge into main of branch 'fix'`.
        steps: run in order.
        released: roots that do not exist any more after the steps. Files that no other root needs are then deleted.
        decision: id of the decision that the steps wait for, of a change of several tables (`decision.py`); None: they
            run once the journal is written.
        ended_by_commits: until that decision, a commit that the change was not planned with decides that it does not
            run, so that the commit stays. Otherwise such a commit is moved where the steps say.
    """

    kind: str
    label: str
    steps: tuple[Step, ...]
    released: tuple[Root, ...] = ()
    decision: str | None = None
    ended_by_commits: bool = False


def encode(change: TableChange) -> bytes:
    """The change as a journal. Raises ValueError: a step touches other files than refs, a bug of its operation."""
    for path in _paths(change.steps):
        if not _is_ref_path(path):
            raise ValueError(f"a step of {change.label} may not touch {path!r}")
    decided = (
        {} if change.decision is None else {"decision": change.decision, "endedByCommits": change.ended_by_commits}
    )
    raw = {
        "version": VERSION if change.decision is None else VERSION_WITH_DECISION,
        **decided,
        "kind": change.kind,
        "label": change.label,
        "steps": [_encode_step(step) for step in change.steps],
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
    return encode_value(raw)


def decode(data: bytes, path: str) -> TableChange:
    """The change in the bytes of a journal; `path` is for messages. Raises CorruptFileError."""

    def build(raw: dict[str, Any]) -> TableChange:
        if raw["version"] not in (VERSION, VERSION_WITH_DECISION):
            raise FormatError(f"it is not a change of version {VERSION} or {VERSION_WITH_DECISION}")
        steps = tuple(_decode_step(step) for step in raw["steps"])
        for touched in _paths(steps):
            if not _is_ref_path(touched):
                raise FormatError(f"a step touches {touched!r}, which is not a snapshot, tag or branch of the table")
        released = tuple(_decode_root(r, path) for r in raw["released"])
        decision = raw["decision"] if raw["version"] == VERSION_WITH_DECISION else None
        if decision is not None and not is_decision_id(_text(decision)):
            raise FormatError(f"{decision!r} is not the id of a decision")
        ended_by_commits = raw.get("endedByCommits") is True
        return TableChange(_text(raw["kind"]), _text(raw["label"]), steps, released, decision, ended_by_commits)

    return decode_object(
        data,
        build,
        lambda why: CorruptFileError(
            f"{path} is not a readable plan of a change: {why}. Nothing was done; if no process works on the table, "
            "remove the file and look at the table with doctor()",
            path=path,
        ),
    )


def find_change(handle: TableHandle, owner: Owner) -> TableChange | None:
    """The change in the journal of an operation; None when it has not written one. Raises CorruptFileError."""
    return find_decoded(
        handle.store, journal_path(handle, owner), lambda data, path: decode(data, handle.store.url(path))
    )


def is_to_run(handle: TableHandle, change: TableChange, *, ends: bool) -> bool:
    """Whether a change in a journal runs: one of several tables only if that was decided.

    `ends`: decide that it does not, where nobody has decided yet.

    Raises CorruptFileError: the decision cannot be read, or is one of other tables.
    """
    if change.decision is None:
        return True
    warehouse, table = split_root(handle)
    path = decision_path(warehouse, change.decision)
    found = find_decision(handle.store, path)
    if found is None and ends:
        found = decide(handle.store, path, Decision(runs=False))
    if found is not None and found.runs and table not in found.tables:
        raise CorruptFileError(
            f"the {change.label} of table {handle.name} waits for the decision in {handle.store.url(path)}, which is "
            f"about {', '.join(found.tables) or 'no table'}; nothing was done. If no process works on the table, "
            "remove its directory intent/ and look at it with doctor()",
            path=path,
        )
    return found is not None and found.runs


def put_all(files: Sequence[tuple[str, bytes]]) -> tuple[Put, ...]:
    """Puts of (relative path, bytes)."""
    return tuple(Put(path, text_of(data, path)) for path, data in files)


def roots_put(change: TableChange) -> list[Root]:
    """The snapshots, tags and changelogs that the steps write. Raises CorruptFileError: one cannot be decoded."""
    roots = []
    for step in change.steps:
        found = _ROOT.fullmatch(step.path) if isinstance(step, (Put, PutNew)) else None
        if found is not None and isinstance(step, (Put, PutNew)):
            kind, branch = RootKind(found["kind"]), found["branch"] or MAIN
            raw = step.text.encode()
            snapshot = snapshot_file.decode_tag(raw, found["name"], step.path).snapshot
            roots.append(Root(kind, branch, found["name"], snapshot))
    return roots


def written_texts(steps: Sequence[Step]) -> Iterator[str]:
    """Yield the texts of all files that the steps write, also those that they write only in some cases."""
    for step in steps:
        if isinstance(step, (Put, PutNew)):
            yield step.text
        elif isinstance(step, IfSnapshots):
            yield from written_texts(step.steps)


def relative_path(handle: TableHandle, path: str) -> str:
    """A path below the table's directory, as steps name it."""
    return path.removeprefix(f"{handle.layout.root}/")


def delete_unchanged(handle: TableHandle, path: str, data: bytes) -> DeleteFile:
    """The step that deletes a file only while it has these bytes."""
    return DeleteFile(relative_path(handle, path), hashlib.sha256(data).hexdigest())


_ROOT: Final = re.compile(
    r"(branch/branch-(?P<branch>[^/]+)/)?((?P<kind>snapshot|tag|changelog)/(?P=kind)-(?P<name>[^/]+))", re.DOTALL
)


_TextStep: TypeAlias = (
    type[Put]
    | type[PutNew]
    | type[DeleteFile]
    | type[DeleteTree]
    | type[SetAside]
    | type[MoveLate]
    | type[RenameTree]
    | type[CreateOnServer]
)
_TEXT_STEPS: Final[Mapping[str, _TextStep]] = {
    "put": Put,
    "put-new": PutNew,
    "delete": DeleteFile,
    "delete-tree": DeleteTree,
    "set-aside": SetAside,
    "move-late": MoveLate,
    "rename-tree": RenameTree,
    "create-on-server": CreateOnServer,
}
"""Steps whose fields are texts, by their names in a journal."""
_NAMES: Final = {kind: name for name, kind in _TEXT_STEPS.items()}


def _encode_step(step: Step) -> list[object]:
    match step:
        case DeleteFiles(paths):
            return ["delete-files", *paths]
        case IfSnapshots(directory, steps):
            return ["if-snapshots", directory, *map(_encode_step, steps)]
    return [_NAMES[type(step)], *(text for text in astuple(step) if text is not None)]


def _decode_step(raw: Sequence[object]) -> Step:
    if not isinstance(raw, list) or not raw:
        raise FormatError(f"{raw!r} is not a step")
    name, *values = raw
    if name == "if-snapshots":
        steps = tuple(map(_decode_step, values[1:]))
        return IfSnapshots(_text(values[0]), tuple(step for step in steps if isinstance(step, (Put, DeleteFile))))
    texts = [_text(value) for value in values]
    if name == "delete-files":
        return DeleteFiles(tuple(texts))
    if name not in _TEXT_STEPS:
        raise FormatError(f"unknown step {name!r}")
    return _TEXT_STEPS[name](*texts)  # a TypeError when there are too few or too many


def _decode_root(raw: Mapping[str, Any], path: str) -> Root:
    snapshot = snapshot_file.decode(json.dumps(raw["snapshot"]).encode(), path)
    return Root(RootKind(raw["kind"]), _text(raw["branch"]), _text(raw["name"]), snapshot)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise FormatError(f"{str(value)[:50]!r} is not text")
    return value


def _paths(steps: Sequence[Step]) -> list[str]:
    paths: list[str] = []
    for step in steps:
        match step:
            case Put(path, _) | DeleteFile(path):
                paths.append(path)
            case PutNew(path, _, aside):
                paths += [path, aside]
            case DeleteFiles(many):
                paths += many
            case DeleteTree(directory):
                paths.append(directory)
            case SetAside(old, new) | MoveLate(old, new) | RenameTree(old, new):
                paths += [old, new]
            case IfSnapshots(directory, more):
                paths += [directory, *_paths(more)]
            case CreateOnServer():
                pass
    return paths


def _is_ref_path(path: str) -> bool:
    """Whether the path is of a ref, and inside the table."""
    parts = path.split("/")
    return all(map(is_file_name, parts)) and parts[0] in _REF_PATHS
