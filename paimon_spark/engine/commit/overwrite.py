"""Rows that an overwrite replaces: all, or those of named or of written partitions.

Source: Java `operation/FileStoreCommitImpl.overwritePartition`, `operation/commit/OverwriteChangesProvider`.

Tests: tests/unit/engine/commit/test_overwrite.py, test_model.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from paimon_spark.engine.commit.conflicts import overlapping_groups
from paimon_spark.engine.commit.entries import (
    Changes,
    Touched,
    adds,
    column,
    numbers,
    of_kind,
    where,
    with_numbers,
)
from paimon_spark.engine.commit.index_files import head_index
from paimon_spark.engine.scan.fallback import other_branch, other_partitions
from paimon_spark.engine.scan.file_stats import Partitions
from paimon_spark.engine.scan.prune import Filters, manifests_wanted
from paimon_spark.errors import InvalidInputError, PredicateSyntaxError
from paimon_spark.format.arrays.arrow_numpy import Bool, array_of
from paimon_spark.format.metadata_files.index_manifest import IndexManifestEntry
from paimon_spark.format.metadata_files.manifest import FileKind, ManifestFileMeta
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.layout import POSTPONE_BUCKET
from paimon_spark.metadata.live_files import live_entries
from paimon_spark.metadata.manifests import data_manifests
from paimon_spark.metadata.partition_path import partition_path_of
from paimon_spark.metadata.snapshots import latest_snapshot
from paimon_spark.options.descriptor import did_you_mean
from paimon_spark.options.write import CommitOptions
from paimon_spark.predicate.ast import Column, NullSafeEqual, Or, Predicate, conjunction
from paimon_spark.predicate.literals import partition_equal
from paimon_spark.text import sql_quoted
from paimon_spark.types import CharType


@dataclass(frozen=True, slots=True)
class WholeTable:
    """All rows of the table."""


@dataclass(frozen=True, slots=True)
class NamedPartitions:
    """The rows of partitions named by values of all or some partition columns.

    Attributes:
        specs: value by column: text, or a value of the column's type; None and `partition.default-name` mean null.
    """

    specs: tuple[Mapping[str, object], ...]


@dataclass(frozen=True, slots=True)
class PresentPartitions:
    """The rows of the partitions that have new files. The whole table when it has no partitions."""


@dataclass(frozen=True, slots=True)
class ChosenPartitions:
    """The rows of partitions chosen among those that exist when the snapshot is made; nothing replaces them.

    Attributes:
        choose: the partitions, as BinaryRow bytes, among the live files of the head; asked at every attempt.
    """

    choose: Callable[[pa.Table], Sequence[bytes]]


Overwritten: TypeAlias = WholeTable | NamedPartitions | PresentPartitions | ChosenPartitions


class _Matcher(Protocol):
    """A set of partitions."""

    def manifests(self, metas: Sequence[ManifestFileMeta]) -> Bool: ...

    def entries(self, entries: pa.Table) -> Bool: ...


@dataclass(frozen=True, slots=True)
class _ByPredicate:
    handle: TableHandle
    predicate: Predicate | None

    def manifests(self, metas: Sequence[ManifestFileMeta]) -> Bool:
        return manifests_wanted(self.handle, metas, Filters(self.predicate))

    def entries(self, entries: pa.Table) -> Bool:
        if self.predicate is None or len(entries) == 0:
            return np.ones(len(entries), np.bool_)
        partitions = Partitions(self.handle, column(entries, "partition"))
        return np.asarray(partitions.matching(self.predicate)[partitions.codes])


def checked_overwrite(
    handle: TableHandle, options: CommitOptions, overwritten: Overwritten, new: Changes, *, upgrade: bool
) -> Changes | None:
    """Check the new files that replace `overwritten`; None when there is nothing to replace and nothing new.

    With `upgrade`, new files with keys may go to the highest level at once.

    Raises:
        InvalidInputError: a partition is named wrongly, or new files lie outside of what is replaced.
    """
    if isinstance(overwritten, PresentPartitions) and handle.schema.partition_keys and len(new.files) == 0:
        return None
    if isinstance(overwritten, ChosenPartitions):
        return new
    outside = ~_matcher(handle, overwritten, new).entries(new.files)
    if outside.any():
        row = column(where(new.files, outside), "partition")[0].as_py()
        raise InvalidInputError(
            f"the overwrite of {handle.describe()} names partitions, and has rows for "
            f"{partition_path_of(handle, row)}, which is not among them; "
            "filter the rows, or overwrite the partitions present in the data",
            table=handle.name,
        )
    return replace(new, files=upgraded(handle, options, new.files)) if upgrade else new


def replaced_on(
    handle: TableHandle, overwritten: Overwritten, new: Changes, head: Snapshot
) -> tuple[pa.Table, tuple[IndexManifestEntry, ...]]:
    """The DELETE entries of data files and of index files that replace `overwritten` as it is in `head`."""
    if isinstance(overwritten, ChosenPartitions):
        chosen = overwritten.choose(live_entries(handle, data_manifests(handle, head)))
        matcher: _Matcher = Touched(handle, array_of(chosen, pa.binary()))
    else:
        matcher = _matcher(handle, overwritten, new)
    index = tuple(e._replace(kind=int(FileKind.DELETE)) for e in _index(handle, matcher, head))
    return of_kind(_live(handle, matcher, head), FileKind.DELETE), index


def check_nothing_appears(handle: TableHandle, overwritten: Overwritten, new: Changes) -> None:
    """Refuse to empty partitions whose rows are, or would then be, read from another branch.

    Raises:
        UnsupportedFeatureError: `scan.fallback-branch` or `scan.primary-branch` names a branch that has such a one.
        InvalidInputError: a partition is named wrongly.
    """
    found = None if other_branch(handle) is None else other_partitions(handle, latest_snapshot(handle))
    if found is None or found.snapshot is None:
        return
    kept = set(column(where(new.files, adds(new.files)), "partition").to_pylist())
    theirs = live_entries(found.other.handle, data_manifests(found.other.handle, found.snapshot))
    if isinstance(overwritten, ChosenPartitions):
        emptied = set(overwritten.choose(theirs))
    else:
        mask = _matcher(handle, overwritten, new).entries(theirs)
        emptied = set(column(where(theirs, mask), "partition").to_pylist())
    for partition in sorted(emptied - kept):
        if partition in found.read:
            raise found.not_reached(partition)
        if partition in found.behind:
            raise found.would_appear(partition)


def _live(handle: TableHandle, matcher: _Matcher, head: Snapshot) -> pa.Table:
    """The live files to replace; those of the postponed bucket only when all of the table's are."""
    metas = data_manifests(handle, head)
    wanted = [m for m, possible in zip(metas, matcher.manifests(metas).tolist(), strict=True) if possible]
    live = live_entries(handle, wanted)
    mask = matcher.entries(live)
    if handle.options.bucket != POSTPONE_BUCKET:
        mask = mask & (numbers(live, "bucket") >= 0)
    return where(live, mask)


def _index(handle: TableHandle, matcher: _Matcher, head: Snapshot) -> list[IndexManifestEntry]:
    found = head_index(handle, head)
    partitions = pa.table({"partition": array_of([e.partition for e in found], pa.binary())})
    return [e for e, hit in zip(found, matcher.entries(partitions).tolist(), strict=True) if hit]


def _matcher(handle: TableHandle, overwritten: Overwritten, new: Changes) -> _Matcher:
    match overwritten:
        case NamedPartitions(specs):
            if not specs:
                raise InvalidInputError(f"no partition of {handle.describe()} is named; name at least one")
            return _ByPredicate(handle, partitions_named(handle, specs))
        case PresentPartitions() if handle.schema.partition_keys:
            return Touched(handle, column(new.files, "partition"))
    return _ByPredicate(handle, None)


def partitions_named(handle: TableHandle, specs: Sequence[Mapping[str, object]]) -> Predicate | None:
    """The partitions that match one of `specs`, as in `NamedPartitions`; None for all of them.

    Raises:
        InvalidInputError: a column is not a partition column, or a value is not one of its type.
    """
    return Or(tuple(_predicate(handle, s) for s in specs)) if all(specs) else None


def _predicate(handle: TableHandle, spec: Mapping[str, object]) -> Predicate:
    parts = [_equal(handle, name, value) for name, value in spec.items()]
    found = conjunction(parts)
    assert found is not None
    return found


def _equal(handle: TableHandle, name: str, value: Any) -> Predicate:
    keys = handle.schema.partition_keys
    if name not in keys:
        raise InvalidInputError(
            f"{name!r} is not a partition column of {handle.describe()}{did_you_mean(name, keys)}; "
            f"it is partitioned by {', '.join(keys) or 'nothing'}",
            column=name,
            table=handle.name,
        )
    column_of = Column((name,), handle.schema.row_type.field(name).type)
    wanted = None if value == handle.options.partition_default_name else value
    try:
        found = partition_equal(column_of, wanted)
    except PredicateSyntaxError as e:
        raise InvalidInputError(
            f"{sql_quoted(value)} is not a value of partition column {name!r}: {e}", column=name
        ) from e
    if not isinstance(found, NullSafeEqual):
        raise InvalidInputError(
            f"{sql_quoted(value)} is not a value of partition column {name!r}, which is {column_of.type}", column=name
        )
    if isinstance(column_of.type, CharType) and not column_of.type.varying and isinstance(found.literal, str):
        # Tables have CHAR values with or without padding.
        bare = found.literal.rstrip(" ")
        return Or(tuple(NullSafeEqual(column_of, text) for text in (bare, bare.ljust(column_of.type.length))))
    return found


def upgraded(handle: TableHandle, options: CommitOptions, files: pa.Table) -> pa.Table:
    """New files with keys at the highest level, bucket by bucket where no two of them share keys.

    Source: Java `FileStoreCommitImpl.tryUpgrade`.
    """
    if not handle.schema.primary_keys or not options.overwrite_upgrade or options.pk_clustering_override:
        return files
    levels = numbers(files, "level")
    if len(files) == 0 or (levels > 0).any() or (numbers(files, "bucket") < 0).any() or not adds(files).all():
        return files
    overlapping = overlapping_groups(handle.schema.key_type, files)
    return with_numbers(files, "level", np.where(overlapping, levels, handle.options.num_levels - 1))
