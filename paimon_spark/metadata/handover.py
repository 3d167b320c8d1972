"""The moment in which readers see one branch directory and no longer another: the file `HANDOVER` among its schemas.

A branch is there when its directory has a schema. No store changes two directories at once, so while a branch is
renamed by copying, `schema/HANDOVER` in both directories says which schemas the new one needs: with the last of them,
one small file, the new directory is the branch, and the old one is not. While a branch is made, the file in its own
directory says the same; while one is deleted, it says that there is none. Opening a branch lists `schema/` anyway,
which shows whether the file is there, so it costs nothing where it is not. Other engines look at `schema-<id>` alone.

Source: own; `versioning/branches.py` and `maintenance/running.py` write what is read here.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final, NamedTuple

from paimon_spark.errors import CorruptFileError
from paimon_spark.metadata.layout import SCHEMA_PREFIX, Layout
from paimon_spark.metadata.small_files import find_decoded, numbered, numbers
from paimon_spark.storage.store import Store

HANDOVER: Final = "HANDOVER"
"""Name of the file, beside a branch's schemas."""
_RACES: Final = 5
"""Times that a directory is listed again when the file went after it was listed."""


@dataclass(frozen=True, slots=True)
class Handover:
    """When a branch directory is seen.

    Attributes:
        branch: the branch that is seen as soon as its directory holds `schemas`, and instead of the one whose directory
            holds this; None when this directory is not seen any more.
        schemas: ids.
    """

    branch: str | None
    schemas: frozenset[int] = frozenset()

    def is_done(self, ids: Collection[int]) -> bool:
        """Whether the branch it names is seen, whose directory holds schemas of these ids."""
        return self.branch is None or self.schemas <= set(ids)


class BranchLook(NamedTuple):
    """What a listing of a branch's schemas says: their ids, ascending, and the handover beside them."""

    ids: list[int]
    handover: Handover | None


def encode(handover: Handover) -> bytes:
    """The bytes of a `HANDOVER` file."""
    return json.dumps({"version": 1, "branch": handover.branch, "schemas": sorted(handover.schemas)}).encode()


def decode(data: bytes, path: str) -> Handover:
    """The handover in the bytes of such a file; `path` is for messages. Raises CorruptFileError."""
    try:
        raw = json.loads(data)
        branch, schemas = raw["branch"], frozenset(int(i) for i in raw["schemas"])
        if not isinstance(branch, str | None) or raw["version"] != 1:
            raise ValueError("it names no branch, or is of another version")
    except (ValueError, KeyError, TypeError) as e:
        raise CorruptFileError(
            f"{path} does not say when its branch is there ({e!r}); when it is removed, the branch is there", path=path
        ) from e
    return Handover(branch, schemas)


def look_at_branch(store: Store, layout: Layout) -> BranchLook:
    """One listing of the branch's schemas, and a small read where a handover lies beside them."""
    ids: list[int] = []
    for _ in range(_RACES):
        names = [info.name for info in store.list(layout.schema_dir)]
        ids = numbers(names, SCHEMA_PREFIX)
        if not ids or HANDOVER not in names:
            break
        handover = find_decoded(store, f"{layout.schema_dir}/{HANDOVER}", decode)
        if handover is not None:
            return BranchLook(ids, handover)
    return BranchLook(ids, None)


def is_seen(name: str, look: BranchLook, other: Collection[int]) -> bool:
    """Whether readers see a branch directory.

    Args:
        name: of the branch.
        look: what its directory says.
        other: ids of the schemas in the directory of the branch that its handover names, if that is another one.
    """
    if not look.ids or look.handover is None:
        return bool(look.ids)
    if look.handover.branch is None:
        return False
    if look.handover.branch == name:
        return look.handover.is_done(look.ids)
    return not look.handover.is_done(other)


def seen_schema_ids(store: Store, layout: Layout) -> list[int]:
    """Ids of the branch's schemas, ascending; empty when readers see no branch there.

    One listing; two small requests more while the branch is renamed, made or deleted. Raises CorruptFileError.
    """
    look = look_at_branch(store, layout)
    other: list[int] = []
    if look.handover is not None and look.handover.branch not in (None, layout.directory_branch):
        other = numbered(store, layout.with_branch(str(look.handover.branch)).schema_dir, SCHEMA_PREFIX)
    return look.ids if is_seen(layout.directory_branch, look, other) else []
