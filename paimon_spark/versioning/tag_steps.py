"""Tags as steps of a change: the tag's file, and the file beside it that says it was made.

Source: Java `utils/TagManager`, `tag/SuccessFileTagCallback`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from datetime import datetime

from paimon_spark.errors import FileMissingError
from paimon_spark.format.metadata_files.snapshot import Snapshot, Tag, encode_tag
from paimon_spark.maintenance.changes import Delete, Put, Step, TableChange
from paimon_spark.maintenance.roots import Root, RootKind
from paimon_spark.metadata.branches import branch_exists
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.tags import guarded_branch
from paimon_spark.options.tags import TagOptions, parse_tag_options
from paimon_spark.versioning.guarding import relative


def new_tag(name: str, snapshot: Snapshot, retained_s: float | None, now: datetime) -> Tag:
    """A tag made now; `retained_s` None is for ever, and then its creation is not written down, as in Java."""
    return Tag(name, snapshot, None if retained_s is None else now, retained_s)


def tag_root(handle: TableHandle, tag: Tag) -> Root:
    """What holds on to the tag's files."""
    return Root(RootKind.TAG, handle.layout.directory_branch, tag.name, tag.snapshot)


def put_tag(handle: TableHandle, tag: Tag) -> Put:
    """Make or replace the tag's file."""
    return Put(relative(handle, handle.layout.tag_path(tag.name)), encode_tag(tag).decode())


def create_steps(handle: TableHandle, options: TagOptions, tag: Tag) -> tuple[Step, ...]:
    """Make a tag, and with option `tag.create-success-file` the file that tells of it, after it."""
    if not options.success_file:
        return (put_tag(handle, tag),)
    now_ms = time.time_ns() // 1_000_000
    path = _success_path(handle, tag.name)
    told = json.dumps({"creationTime": _created_ms(handle, path, now_ms), "modificationTime": now_ms}, indent=2)
    return put_tag(handle, tag), Put(relative(handle, path), told)


def delete_steps(handle: TableHandle, options: TagOptions, name: str) -> tuple[Step, ...]:
    """Remove a tag, and what tells of it."""
    tag = Delete(relative(handle, handle.layout.tag_path(name)))
    return (tag, Delete(relative(handle, _success_path(handle, name)))) if options.success_file else (tag,)


def deletion(handle: TableHandle, tags: Sequence[Tag], kind: str, label: str) -> TableChange:
    """The change that deletes tags with what only they need."""
    options = parse_tag_options(handle.options.raw)
    steps = tuple(step for tag in tags for step in delete_steps(handle, options, tag.name))
    return TableChange(kind, label, steps, tuple(tag_root(handle, tag) for tag in tags))


def living_branch(handle: TableHandle, tag_name: str) -> str | None:
    """The branch whose base a tag of this name guards; None for other tags, and when the branch is gone."""
    branch = guarded_branch(tag_name)
    return branch if branch is not None and branch_exists(handle, branch) else None


def _success_path(handle: TableHandle, name: str) -> str:
    return f"{handle.layout.tag_success_dir}/{name}_SUCCESS"


def _created_ms(handle: TableHandle, path: str, now_ms: int) -> int:
    """When the file was first made; now when it is new, or says nothing of it."""
    try:
        told = json.loads(handle.store.read(path))
        return int(told["creationTime"])
    except (FileMissingError, ValueError, KeyError, TypeError):
        return now_ms
