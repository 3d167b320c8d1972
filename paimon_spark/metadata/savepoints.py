"""Savepoints: tags named `savepoint-<snapshot id>`, which every Paimon engine protects from expiry.

Source: PIP-4, kept in the released format as tags.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from paimon_spark.display.values import ShownAsFacts
from paimon_spark.errors import SavepointNotFoundError
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.tags import find_tag, get_tag, listed, tag_names

_NAME: Final = re.compile(r"savepoint-(\d{1,19})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Savepoint(ShownAsFacts):
    """A savepoint; its id is that of its snapshot."""

    id: int
    snapshot: Snapshot


def savepoint_tag(savepoint_id: int) -> str:
    """Name of the tag that is the savepoint."""
    return f"savepoint-{savepoint_id:d}"


def savepoint_id_of(tag_name: str) -> int | None:
    """The savepoint that a tag is; None for an ordinary tag."""
    match = _NAME.fullmatch(tag_name)
    return int(match[1]) if match else None


def get_savepoint(handle: TableHandle, savepoint_id: int) -> Savepoint:
    """The savepoint. Raises SavepointNotFoundError listing those there are; CorruptFileError."""
    tag = find_tag(handle, savepoint_tag(savepoint_id))
    if tag is None:
        ids = [str(i) for i in _ids(handle)]
        raise SavepointNotFoundError(
            f"{handle.describe()} has no savepoint {savepoint_id}; {listed('savepoints', ids)}",
            table=handle.name,
            branch=handle.branch,
            savepoint_id=savepoint_id,
        )
    return Savepoint(savepoint_id, tag.snapshot)


def list_savepoints(handle: TableHandle) -> list[Savepoint]:
    """The branch's savepoints by id. Raises CorruptFileError."""
    return [Savepoint(i, get_tag(handle, savepoint_tag(i)).snapshot) for i in _ids(handle)]


def _ids(handle: TableHandle) -> list[int]:
    found = (savepoint_id_of(name) for name in tag_names(handle))
    return sorted(i for i in found if i is not None)
