"""Which files of a bucket without keys are written again, and which of them together. Pure.

Source: Java `append/AppendCompactCoordinator` for tables without buckets, `append/BucketedAppendCompactManager`. There
a full compaction of buckets begins with the first file worth it and takes all that follow; here files that are large
and have all their rows stay wherever they lie.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from paimon_spark.format.metadata_files.data_file import DataFileMeta
from paimon_spark.options.compaction import AppendCompactionOptions

Group = tuple[int, ...]
"""Numbers of files that are read one after the other and become new files together."""


class Mark(NamedTuple):
    """The deletion vector of a data file.

    Attributes:
        index_file: where it lies.
        rows: how many it deletes; None when the index manifest does not say.
    """

    index_file: str
    rows: int | None


def pick(
    files: Sequence[DataFileMeta],
    marks: Mapping[str, Mark],
    options: AppendCompactionOptions,
    *,
    full: bool,
    ordered: bool,
) -> list[Group]:
    """Groups of files to write again; no two of them have vectors in one index file.

    Args:
        files: all live files of a bucket, or of a partition without buckets.
        marks: deletion vectors by name of the data file.
        options: of the table.
        full: take every small file and every one with deleted rows; else what Paimon finds worth it by now.
        ordered: files lie in the order of their rows, and only neighbours may become one.
    """
    rewrites_all = full and options.rewrites_all

    def wanted(file: DataFileMeta) -> bool:
        mark = marks.get(file.file_name)
        if rewrites_all or file.file_size < options.small_bytes:
            return True
        return mark is not None and (full or _is_worn(file, mark, options.delete_ratio))

    if ordered:
        groups = list(_neighbours(files, wanted, options))
        chosen = [g for g in groups if rewrites_all or _pays_ordered(files, g, marks, options, full)]
        return _one_with_vectors(files, chosen, marks, full)
    numbers = [n for n, f in enumerate(files) if wanted(f)]
    marked = _by_index_file(files, numbers, marks)
    plain = [[n] for n in sorted(numbers, key=lambda n: files[n].file_size) if files[n].file_name not in marks]
    if full:
        bins = _bins(files, [*marked, *plain], options, full)
        return [g for g, _ in bins if rewrites_all or len(g) > 1 or files[g[0]].file_name in marks]
    waiting = _bins(files, plain, options, full)
    return [
        *(g for g, _ in _bins(files, marked, options, full)),
        *(g for g, closed in waiting if closed or len(g) >= max(2, options.min_files)),
    ]


def _is_worn(file: DataFileMeta, mark: Mark, ratio: float) -> bool:
    return mark.rows is None or mark.rows > file.row_count * ratio


def _by_index_file(files: Sequence[DataFileMeta], numbers: Iterable[int], marks: Mapping[str, Mark]) -> list[list[int]]:
    """The numbers that have vectors, by where these lie, smallest first: an index file is rewritten by one task."""
    found: dict[str, list[int]] = {}
    for n in numbers:
        mark = marks.get(files[n].file_name)
        if mark is not None:
            found.setdefault(mark.index_file, []).append(n)
    return sorted(found.values(), key=lambda group: sum(files[n].file_size for n in group))


def _bins(
    files: Sequence[DataFileMeta], parts: Iterable[Sequence[int]], options: AppendCompactionOptions, full: bool
) -> list[tuple[Group, bool]]:
    """Parts put together until they are as large as two files, and whether a bin became that large."""
    cost = 0 if full else options.open_bytes  # many tiny files shall become one when all is to be compact
    out: list[tuple[Group, bool]] = []
    group: list[int] = []
    weight = 0
    for part in parts:
        group += part
        weight += sum(files[n].file_size + cost for n in part)
        if len(group) > 1 and weight >= 2 * options.target_bytes:
            out.append((tuple(group), True))
            group, weight = [], 0
    if group:
        out.append((tuple(group), False))
    return out


def _neighbours(
    files: Sequence[DataFileMeta], wanted: Callable[[DataFileMeta], bool], options: AppendCompactionOptions
) -> Iterable[Group]:
    """Wanted files beside each other, in the order of their rows."""
    order = sorted(range(len(files)), key=lambda n: (files[n].min_sequence_number, files[n].max_sequence_number))
    for is_wanted, run in groupby(order, key=lambda n: wanted(files[n])):
        if is_wanted:
            yield from (group for group, _ in _bins(files, ([n] for n in run), options, full=True))


def _pays_ordered(
    files: Sequence[DataFileMeta],
    group: Group,
    marks: Mapping[str, Mark],
    options: AppendCompactionOptions,
    full: bool,
) -> bool:
    marked = [(files[n], marks[files[n].file_name]) for n in group if files[n].file_name in marks]
    if full:
        return len(group) > 1 or bool(marked)
    if any(_is_worn(f, m, options.delete_ratio) for f, m in marked):
        return True
    return len(group) > 1 and (
        len(group) >= options.min_files or sum(files[n].file_size for n in group) >= 2 * options.target_bytes
    )


def _one_with_vectors(
    files: Sequence[DataFileMeta], groups: list[Group], marks: Mapping[str, Mark], full: bool
) -> list[Group]:
    """At most one group that has vectors, as a bucket has all of them in one index file.

    A full compaction makes one group of all from the first such file to the last. Others leave some for the next time.
    """
    marked = [g for g in groups if any(files[n].file_name in marks for n in g)]
    if len(marked) < 2:
        return groups
    if not full:
        return [g for g in groups if g not in marked[1:]]
    order = sorted(range(len(files)), key=lambda n: (files[n].min_sequence_number, files[n].max_sequence_number))
    place = {n: i for i, n in enumerate(order)}
    between = order[place[marked[0][0]] : place[marked[-1][-1]] + 1]
    inside = set(between)
    return [tuple(between), *(g for g in groups if not inside.intersection(g))]
