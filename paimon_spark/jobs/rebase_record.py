"""Rebases that were begun, in the file `REBASED` of a branch.

The commit of a rebase says which snapshot of the branch it holds, and the next rebase begins there. When that commit
has expired, comparing with the snapshot where the branch left main would bring back rows of the branch that main has
deleted or changed since. So the record is written before the commit, and a rebase is refused where it cannot be told
any more whether the commit was made.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from paimon_spark.advice import REPLACE_MAIN
from paimon_spark.errors import (
    BranchDivergedError,
    CommitConflictError,
    CommitRetriesExhaustedError,
    CorruptFileError,
    InvalidInputError,
    UnsupportedFeatureError,
)
from paimon_spark.format.json_files import decode_object, encode_value
from paimon_spark.metadata.branches import logical_name
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.layout import MAIN
from paimon_spark.metadata.small_files import checked_number, checked_text, find_decoded

_VERSION: Final = 1
_NOT_MADE: Final = (
    BranchDivergedError,
    CommitConflictError,
    CommitRetriesExhaustedError,
    InvalidInputError,
    UnsupportedFeatureError,
)
"""Errors after which the target certainly is as it was."""


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
    """Check that no rebase of the branch is forgotten, after none was found whose snapshots both have.

    Args:
        on_branch: the branch.
        target: what it is rebased onto.
        fork: id of the newest snapshot that both share.
        snapshots: ids of those of the target.
        rebases: of them those that hold a snapshot of the branch which that no longer has.

    Raises InvalidInputError.
    """
    head = _read(on_branch).get(logical_name(target))
    if head is None or head < fork:
        return
    if head + 1 >= min(snapshots) and not any(i > head for i in rebases):  # all later ones are there, and none is one
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
    """Target of a rebase → its head before."""
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
