"""What was taken away, or would be, in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from paimon_spark.cli.answer import Answer, plain
from paimon_spark.cli.text import counted, safe, size

if TYPE_CHECKING:
    from paimon_spark.maintenance.removal import Removed

_NAMED = 10


def names(found: Sequence[object], noun: str) -> str:
    """`2 tags (v1, v2)`; only some of many are named."""
    shown = [safe(str(n)) for n in found[:_NAMED]]
    more = [f"and {len(found) - _NAMED} more"] if len(found) > _NAMED else []
    return f"{counted(len(found), noun)} ({', '.join([*shown, *more])})"


def files_of(removed: Removed) -> str:
    """`14 files, 1.2 MiB`: all kinds of files together."""
    count = (
        removed.data_files
        + removed.changelog_files
        + removed.manifest_files
        + removed.index_files
        + removed.statistics_files
    )
    return f"{counted(count, 'file')}, {size(removed.bytes)}"


def removal(done: str, would: str, removed: Removed, dry_run: bool, *more: str) -> Answer:
    """The answer of a command that takes something away.

    Args:
        done: what was done, such as `deleted branch fix`.
        would: the same for a dry run, such as `would delete branch fix`.
        removed: what went.
        dry_run: whether it only would.
        more: further lines.
    """
    parts = [
        names(found, noun)
        for found, noun in (
            (removed.snapshots, "snapshot"),
            (removed.tags, "tag"),
            (removed.changelogs, "changelog"),
        )
        if found
    ]
    told = [f"{would if dry_run else done}: {', '.join([*parts, files_of(removed)])}"]
    if removed.finished is not None:
        told.append(f"finished on the way: {safe(removed.finished)}")
    if removed.left is not None:
        told.append(f"left to `orphan remove`: {safe(removed.left)}")
    return Answer({"dry_run": dry_run, **plain(removed)}, lambda room: [*told, *more])
