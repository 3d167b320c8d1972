"""Tags as they are listed: which are savepoints, which guard a branch, and which branches were created from them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from paimon_spark.format.metadata_files.snapshot import Tag
from paimon_spark.metadata.branches import list_branch_names
from paimon_spark.metadata.forks import fork_of, logical_name
from paimon_spark.metadata.guards import guarded_branch
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.savepoints import savepoint_id_of
from paimon_spark.metadata.tags import TagInfo, list_tags


def list_tag_infos(handle: TableHandle) -> list[TagInfo]:
    """The branch's tags, savepoints and guards included, by snapshot id and then name.

    Reads the tags, and of each branch where it comes from. Raises CorruptFileError.
    """
    tags = list_tags(handle)
    created = _branches_by_tag(handle) if tags else {}
    return [tag_info(tag, created.get((tag.name, tag.snapshot.id), ())) for tag in tags]


def tag_info(tag: Tag, branches: Sequence[str] = ()) -> TagInfo:
    """A tag with what its name says."""
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
