"""Which files of a bucket a compaction touches, how, and at which level the result lies. Pure.

Source: Java `mergetree/compact/MergeTreeCompactTask`, `LookupMergeTreeCompactRewriter.upgradeStrategy`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum

from paimon_spark.engine.merge.runs import Section, key_ranks, sections
from paimon_spark.format.metadata_files.data_file import DataFileMeta
from paimon_spark.types import DataType


class Way(Enum):
    """How the files of a unit are compacted.

    Attributes:
        MERGE: all get to the level, those alone as they are, others merged (Java `MergeTreeCompactTask`).
        LEVEL_0: those of level 0 do, with the ones they share keys with; others stay where they are.
        EACH_ALONE: they are in the last level, and each is written anew by itself (Java `FileRewriteCompactTask`).
    """

    MERGE = "merge"
    LEVEL_0 = "level 0"
    EACH_ALONE = "each alone"


@dataclass(frozen=True, slots=True)
class Unit:
    """Files of a bucket that a compaction takes, whole sorted runs from the newest on, and where they go.

    Attributes:
        files: numbers of the files.
        level: where they go.
        way: how.
    """

    files: tuple[int, ...]
    level: int
    way: Way = Way.MERGE


@dataclass(frozen=True, slots=True)
class Rewrite:
    """Sections, neighbours in key order, that become new files together. Numbers are those of the files given."""

    sections: tuple[Section, ...]

    @property
    def files(self) -> tuple[int, ...]:
        return tuple(f for section in self.sections for f in section.files)


@dataclass(frozen=True, slots=True)
class Upgrade:
    """A file that goes to the output level as it is."""

    file: int


@dataclass(slots=True)
class _Pending:
    """Sections that will be rewritten if it pays."""

    sections: list[Section] = field(default_factory=list)
    must: bool = False
    new: int = 0

    def add(self, section: Section, *, must: bool, new: bool) -> None:
        self.sections.append(section)
        self.must |= must
        self.new += new


def output_level(files: Sequence[DataFileMeta], last_level: int, small_bytes: int) -> int:
    """The level that level 0 is merged into.

    Levels are taken along, from the first on, while they are small or not larger than what is taken already, so
    that a row is written again only as often as the bucket doubles.

    Args:
        files: all live files of the bucket.
        last_level: the deepest level there is.
        small_bytes: a level below is small.
    """
    taken = sum(f.file_size for f in files if f.level == 0)
    for level in range(1, last_level + 1):
        size = sum(f.file_size for f in files if f.level == level)
        if level > 1 and size > max(taken, small_bytes):
            return level - 1
        taken += size
    return last_level


def pick_level0(
    files: Sequence[DataFileMeta],
    key_types: Sequence[DataType],
    *,
    level: int,
    small_bytes: int,
    trigger: int,
    may_upgrade: Callable[[DataFileMeta], bool],
) -> list[Rewrite | Upgrade]:
    """How to empty level 0 of a bucket: what is rewritten into `level`, what only moves there.

    Files that share no key with one of level 0 stay where they are, except small ones beside others, so that
    small commits do not leave ever more small files. Files below `level` are not touched.

    Args:
        files: all live files of the bucket.
        key_types: types of the trimmed primary key.
        level: where the result lies.
        small_bytes: files below are small.
        trigger: so many small files beside each other are worth being made one.
        may_upgrade: whether a file of level 0 that shares no key with others may move as it is.
    """
    if not any(f.level == 0 for f in files):
        return []
    out: list[Rewrite | Upgrade] = []
    pending = _Pending()

    def settle() -> None:
        nonlocal pending
        if pending.must or (pending.new and len(pending.sections) >= trigger):
            out.append(Rewrite(tuple(pending.sections)))
        else:
            out.extend(Upgrade(n) for s in pending.sections for n in s.files if files[n].level == 0)
        pending = _Pending()

    for section in _sections(files, key_types, level):
        if len(section.runs) > 1:
            if any(files[n].level == 0 for n in section.files):
                pending.add(section, must=True, new=True)
            else:
                settle()
            continue
        for number in section.files:
            file = files[number]
            new = file.level == 0
            alone = Section(((number,),))
            if new and not may_upgrade(file):
                pending.add(alone, must=True, new=True)
            elif file.file_size < small_bytes:
                pending.add(alone, must=False, new=new)
            else:
                settle()
                if new:
                    out.append(Upgrade(number))
    settle()
    return out


def pick_merge(
    files: Sequence[DataFileMeta],
    key_types: Sequence[DataType],
    unit: Unit,
    *,
    small_bytes: int,
    must_rewrite: Callable[[DataFileMeta], bool],
) -> list[Rewrite | Upgrade]:
    """How all files of a unit get to its level: what is written anew, together, and what only moves there.

    Args:
        files: all live files of the bucket.
        key_types: types of the trimmed primary key.
        unit: the files to take.
        small_bytes: smaller files are written anew along with their neighbours.
        must_rewrite: whether a file may not stay as it is even alone.
    """
    out: list[Rewrite | Upgrade] = []
    pending: list[Section] = []

    def move(number: int) -> None:
        if must_rewrite(files[number]):
            out.append(Rewrite((Section(((number,),)),)))
        elif files[number].level != unit.level:
            out.append(Upgrade(number))

    def settle() -> None:
        if len(pending) == 1 and len(pending[0].runs) == 1:
            for number in pending[0].files:
                move(number)
        elif pending:
            out.append(Rewrite(tuple(pending)))
        pending.clear()

    for section in _sections_of(files, key_types, unit.files):
        if len(section.runs) > 1:
            pending.append(section)
            continue
        for number in section.files:
            if files[number].file_size < small_bytes:
                pending.append(Section(((number,),)))
            else:
                settle()
                move(number)
    settle()
    return out


def _sections(files: Sequence[DataFileMeta], key_types: Sequence[DataType], level: int) -> list[Section]:
    """Sections of the files down to a level, with the numbers these have in `files`."""
    return _sections_of(files, key_types, [n for n, f in enumerate(files) if f.level <= level])


def _sections_of(files: Sequence[DataFileMeta], key_types: Sequence[DataType], numbers: Sequence[int]) -> list[Section]:
    """Sections of some files, with the numbers these have in `files`."""
    found = sections(key_ranks([files[n] for n in numbers], key_types))
    return [Section(tuple(tuple(numbers[n] for n in run) for run in section.runs)) for section in found]
