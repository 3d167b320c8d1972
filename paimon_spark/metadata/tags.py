"""Tags of a branch.

Source: Java `utils/TagManager`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from paimon_spark.display.values import ShownAsFacts
from paimon_spark.errors import FileMissingError, TagNotFoundError
from paimon_spark.format.metadata_files.snapshot import Snapshot, Tag, decode_tag
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.layout import TAG_PREFIX, is_ref_name
from paimon_spark.metadata.small_files import find_decoded
from paimon_spark.options.descriptor import did_you_mean

_SHOWN = 20
"""Names listed in a message."""


@dataclass(frozen=True, slots=True)
class TagInfo(ShownAsFacts):
    """A tag as it is listed; `tag_infos.py` has the list.

    Attributes:
        create_time: local wall clock of the creator; None for tags that live for ever.
        time_retained_s: seconds to live from then; None means for ever.
        is_savepoint: it is named as savepoints are.
        guards: the branch whose base it keeps; None for every other tag.
        branches: names of the branches that were created from it.
    """

    name: str
    snapshot: Snapshot
    create_time: datetime | None = None
    time_retained_s: float | None = None
    is_savepoint: bool = False
    guards: str | None = None
    branches: tuple[str, ...] = ()


def tag_names(handle: TableHandle) -> list[str]:
    """Names of the branch's tags, savepoints included, sorted."""
    names = (
        info.name.removeprefix(TAG_PREFIX)
        for info in handle.store.list(handle.layout.tag_dir)
        # `tag-success-file` is a directory that only looks like a tag.
        if info.name.startswith(TAG_PREFIX) and not info.is_directory
    )
    return sorted(n for n in names if n)


def find_tag(handle: TableHandle, name: str) -> Tag | None:
    """The tag with exactly this name; None when there is none, or no tag could have the name.

    Raises:
        CorruptFileError: the tag's file cannot be decoded.
    """
    if not is_ref_name(name):
        return None
    path = handle.layout.tag_path(name)
    return find_decoded(handle.store, path, lambda data, path: decode_tag(data, name, path))


def get_tag(handle: TableHandle, name: str) -> Tag:
    """The tag with exactly this name.

    Raises:
        TagNotFoundError: there is none; the nearest names are offered.
        CorruptFileError: its file cannot be decoded.
    """
    tag = find_tag(handle, name)
    if tag is None:
        names = tag_names(handle)
        raise TagNotFoundError(
            f"{handle.describe()} has no tag {name!r}{did_you_mean(str(name), names)}; {listed('tags', names)}",
            table=handle.name,
            branch=handle.branch,
            tag=name,
        )
    return tag


def list_tags(handle: TableHandle) -> list[Tag]:
    """The branch's tags, savepoints included, by snapshot id and then name. Raises CorruptFileError."""
    names = tag_names(handle)
    paths = [handle.layout.tag_path(n) for n in names]
    try:
        found = zip(names, handle.store.read_many(paths), paths, strict=True)
        tags = [decode_tag(data, name, path) for name, data, path in found]
    except FileMissingError:  # one was deleted meanwhile
        tags = [tag for tag in (find_tag(handle, n) for n in names) if tag is not None]
    return sorted(tags, key=lambda t: (t.snapshot.id, t.name))


def tag_of_snapshot(handle: TableHandle, snapshot_id: int) -> Tag | None:
    """The first tag, by name, of the snapshot with this id; None when there is none."""
    return next((t for t in list_tags(handle) if t.snapshot.id == snapshot_id), None)


def listed(what: str, names: list[str]) -> str:
    """`its tags are a, b`, for messages."""
    if not names:
        return f"it has no {what}"
    return f"its {what} are " + ", ".join(names[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")
