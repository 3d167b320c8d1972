"""Earlier rebases of a branch, from which the next one begins.

The commit of a rebase says which snapshot of the branch it holds, and the next rebase begins there. When that commit
has expired, a comparison with the snapshot where the branch left main would bring back rows of the branch that main has
deleted or changed since. So a record of it is written before the commit, in the file `REBASED` of the
branch, and a rebase is refused where it is unknown whether the commit that was begun was made.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final, NamedTuple

from paimon_spark.advice import REPLACE_MAIN
from paimon_spark.errors import (
    BranchDivergedError,
    CommitConflictError,
    CommitRetriesExhaustedError,
    CorruptFileError,
    InvalidInputError,
    UnsupportedFeatureError,
)
from paimon_spark.format.json_files import decode_object, encode_value, find_object
from paimon_spark.format.metadata_files.snapshot import CommitKind, Snapshot, Tag
from paimon_spark.metadata.branches import logical_name, snapshot_identity
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.layout import MAIN
from paimon_spark.metadata.resolve import Resolved, resolve
from paimon_spark.metadata.schemas import read_schema
from paimon_spark.metadata.small_files import checked_number, checked_text, find_decoded
from paimon_spark.metadata.snapshots import find_snapshot, list_snapshots
from paimon_spark.metadata.tags import find_tag, rebase_guard_name
from paimon_spark.metadata.version import VersionKind, VersionSpec
from paimon_spark.versioning.merge import REBASE_PROPERTY

_VERSION: Final = 1
_NOT_MADE: Final = (
    BranchDivergedError,
    CommitConflictError,
    CommitRetriesExhaustedError,
    InvalidInputError,
    UnsupportedFeatureError,
)
"""Errors after which the target certainly is as it was."""


class _Rebased(NamedTuple):
    """Property of the commit of a rebase.

    Attributes:
        branch: the branch that was rebased.
        identity: of its snapshot that the commit holds, as `snapshot_identity`.
        schema_id: of its newest schema then; None in commits of earlier releases.
    """

    branch: str
    identity: tuple[int, str, str]
    schema_id: int | None

    @classmethod
    def of(cls, snapshot: Snapshot) -> _Rebased | None:
        """The property of a snapshot; None if no rebase made it."""
        text = (snapshot.properties or {}).get(REBASE_PROPERTY)
        return None if text is None else find_object(text, cls._decoded)

    @classmethod
    def _decoded(cls, raw: dict[str, Any]) -> _Rebased:
        snapshot_id, base, delta = raw["snapshot"]
        schema = raw.get("schema")
        identity = int(snapshot_id), str(base), str(delta)
        return cls(str(raw["branch"]), identity, None if schema is None else int(schema))


def rebase_property(branch: str, held: Resolved) -> dict[str, str]:
    """The property of a commit that holds a version of a branch."""
    assert held.snapshot is not None
    identity, schema_id = list(snapshot_identity(held.snapshot)), held.handle.schema.id
    return {REBASE_PROPERTY: json.dumps({"branch": branch, "snapshot": identity, "schema": schema_id})}


def holds_rebase(snapshots: Iterable[Snapshot], branch: str) -> bool:
    """Whether a rebase of the branch made one of some snapshots."""
    return any(found is not None and found.branch == branch for found in map(_Rebased.of, snapshots))


class LastRebase(NamedTuple):
    """The newest rebase of a branch of which branch and target still have the snapshots.

    Attributes:
        of_branch, of_target: these snapshots; None where there is no such rebase.
        lost: ids of newer rebases of the branch, whose snapshots the branch no longer has.
    """

    of_branch: Resolved | None
    of_target: Resolved | None
    lost: list[int]


def find_last_rebase(target: TableHandle, on_branch: TableHandle, fork: Snapshot) -> LastRebase:
    """The newest rebase of a branch since `fork`, the newest snapshot that both share."""
    lost: list[int] = []
    guard = rebase_guard_name(on_branch.branch)
    target_guard, branch_guard = (find_tag(handle, guard) for handle in (target, on_branch))
    snapshots = {s.id: s for s in (*([] if target_guard is None else [target_guard.snapshot]), *list_snapshots(target))}
    for snapshot in (snapshots[i] for i in sorted(snapshots, reverse=True) if i > fork.id):
        rebased = _Rebased.of(snapshot)
        if rebased is None:
            continue
        of_branch = _find_version(on_branch, rebased.identity, branch_guard)
        if of_branch is None:
            lost += [snapshot.id] if rebased.branch == on_branch.branch else []
            continue
        if rebased.schema_id is not None:  # the branch may have been altered after its newest snapshot
            schema = read_schema(on_branch.store, on_branch.layout, rebased.schema_id)
            of_branch = replace(of_branch, handle=of_branch.handle.with_schema(schema))
        visible = _last_of_compactions(target, snapshot)
        of_target = _find_version(target, snapshot_identity(visible), target_guard)
        if of_target is not None:
            return LastRebase(of_branch, of_target, lost)
    return LastRebase(None, None, lost)


def _find_version(handle: TableHandle, identity: tuple[int, str, str], guard: Tag | None) -> Resolved | None:
    """A snapshot of a branch that is alive, or that the tag `guard` keeps; else None."""
    found = find_snapshot(handle, identity[0])
    if found is not None and snapshot_identity(found) == identity:
        return resolve(handle, VersionSpec(VersionKind.SNAPSHOT, identity[0]))
    if guard is not None and snapshot_identity(guard.snapshot) == identity:
        return resolve(handle, VersionSpec(VersionKind.TAG, guard.name))
    return None


def _last_of_compactions(handle: TableHandle, snapshot: Snapshot) -> Snapshot:
    """The last of the compactions that directly follow a snapshot: they make the rows of some tables visible."""
    following = find_snapshot(handle, snapshot.id + 1)
    while following is not None and following.commit_kind is CommitKind.COMPACT:
        snapshot, following = following, find_snapshot(handle, following.id + 1)
    return snapshot


@contextmanager
def recorded(
    on_branch: TableHandle, target: TableHandle, head: int, not_made: tuple[type[Exception], ...] = ()
) -> Iterator[None]:
    """Record that the branch is rebased onto `target`, whose head is the snapshot `head`.

    After an error that certainly leaves the target as it was, such as `not_made`, the record is as before.
    """
    before = _read(on_branch)
    _write(on_branch, {**before, logical_name(target): head})
    try:
        yield
    except Exception as e:
        if isinstance(e, (*_NOT_MADE, *not_made)):
            _write(on_branch, before)
        raise


def check_not_forgotten(
    on_branch: TableHandle, target: TableHandle, fork: int, snapshots: Collection[int], rebases: Collection[int]
) -> None:
    """Check that no rebase of the branch is forgotten, after `find_last_rebase` found none.

    Args:
        on_branch: the branch.
        target: the branch that it is rebased onto.
        fork: id of the newest snapshot that both share.
        snapshots: ids of the snapshots of the target.
        rebases: ids among them, as `LastRebase.lost`.

    Raises InvalidInputError.
    """
    head = _read(on_branch).get(logical_name(target))
    if head is None or head < fork:
        return
    if head + 1 >= min(snapshots) and not any(
        i > head for i in rebases
    ):  # no later snapshot is missing, and none is a rebase
        return
    onto = logical_name(target)
    replace_it = f", or pass {REPLACE_MAIN}, so that main becomes the branch" if onto == MAIN else ""
    raise InvalidInputError(
        f"{on_branch.describe()} was rebased before, and the snapshots that tell what {onto} got then "
        "have expired: rows that were deleted or changed there since could come back. Create a branch from "
        f"{onto}'s head for further corrections{replace_it}",
        table=on_branch.name,
        branch=on_branch.branch,
    )


def _read(on_branch: TableHandle) -> Mapping[str, int]:
    """The head of each target before the rebase onto it that was begun last, by the name of the target."""
    return find_decoded(on_branch.store, on_branch.layout.rebased_file, _decode) or {}


def _write(on_branch: TableHandle, record: Mapping[str, int]) -> None:
    path = on_branch.layout.rebased_file
    if record:
        on_branch.store.write(path, encode_value({"version": _VERSION, "heads": dict(record)}, indent=2))
    else:
        on_branch.store.delete(path)


def _decode(data: bytes, path: str) -> Mapping[str, int]:
    def build(raw: dict[str, Any]) -> Mapping[str, int]:
        if raw["version"] != _VERSION:
            raise ValueError(f"version {raw['version']!r} is not known")
        return {checked_text(name): checked_number(head) for name, head in raw["heads"].items()}

    return decode_object(
        data,
        build,
        lambda why: CorruptFileError(
            f"{path} cannot be decoded ({why}). It says which rebases of the branch were begun; remove it if none was",
            path=path,
        ),
    )
