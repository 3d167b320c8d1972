"""Which files of a bucket a compaction touches, and how. Pure.

Source: Java `mergetree/compact/MergeTreeCompactTask`, `LookupMergeTreeCompactRewriter.upgradeStrategy`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from paimon_spark.merge.runs import Section, key_ranks, sections
from paimon_spark.spec.data_file import DataFileMeta
from paimon_spark.types import DataType


@dataclass(frozen=True, slots=True)
class Rewrite:
    """Sections, neighbours in key order, that become new files together. Numbers are those of the files given."""

    sections: tuple[Section, ...]

    @property
    def files(self) -> tuple[int, ...]:
        return tuple(f for section in self.sections for f in section.files)


@dataclass(frozen=True, slots=True)
class Upgrade:
    """A file of level 0 that goes to the last level as it is."""

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


def pick_level0(
    files: Sequence[DataFileMeta],
    key_types: Sequence[DataType],
    *,
    small_bytes: int,
    trigger: int,
    may_upgrade: Callable[[DataFileMeta], bool],
) -> list[Rewrite | Upgrade]:
    """How to empty level 0 of a bucket: what is rewritten into the last level, what only moves there.

    Files that share no key with one of level 0 stay where they are, except small ones beside others, so that
    small commits do not leave ever more small files.

    Args:
        files: all live files of the bucket.
        key_types: types of the trimmed primary key.
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

    for section in sections(key_ranks(files, key_types)):
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
