"""Keys that a table has, for writes that move them or widen their types.

Source: Java `crosspartition/IndexBootstrap`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from paimon_spark.engine.read.split_reader import read_split
from paimon_spark.engine.scan.one_branch import plan_branch
from paimon_spark.engine.scan.query import ScanQuery
from paimon_spark.engine.write.request import KnownKeys
from paimon_spark.errors import SchemaMismatchError
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.metadata.definition.schema_changes import SchemaChange, UpdateType
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.snapshots import latest_snapshot
from paimon_spark.options.core import MergeEngine
from paimon_spark.predicate.ast import Column, Compare, Not, NullSafeEqual, Op, Predicate, conjunction
from paimon_spark.types import INTEGER_NAMES, AtomicType, CharType, DataType

_ALL_LEVELS: Final = {"deletion-vectors.merge-on-read": "true"}
"""Rows that wait for a compaction have keys too."""


@dataclass(frozen=True, slots=True)
class ExistingKeys:
    """Reads the keys of a snapshot, bucket by bucket. Picklable; driver or executor.

    Attributes:
        without: columns and values of a partition whose keys are left out; empty for none.
    """

    handle: TableHandle
    snapshot: Snapshot | None
    without: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self) -> Iterator[KnownKeys]:
        """The keys of all rows. Raises as `read_split`."""
        query = ScanQuery(self.handle.schema.primary_keys, self._predicate())
        options = self.handle.options.changed(_ALL_LEVELS)
        if options.merge_engine is MergeEngine.FIRST_ROW:
            options = options.changed({"merge-engine": MergeEngine.DEDUPLICATE.value})
        plan = plan_branch(replace(self.handle, options=options), self.snapshot, query)
        for split in plan.splits:
            for batch in read_split(plan.request, split):
                yield KnownKeys(split.partition, split.bucket, batch)

    def _predicate(self) -> Predicate | None:
        types = {f.name: f.type for f in self.handle.schema.partition_type}
        same = conjunction([NullSafeEqual(Column((n,), types[n]), v) for n, v in self.without.items()])
        return None if same is None else Not(same)


def check_widened_keys(handle: TableHandle, changes: Sequence[SchemaChange]) -> None:
    """Check that the keys that a table has keep their binary form in the new types of their columns.

    Buckets come from hashes of that form, and manifests hold it. It stays that of whole numbers that are not negative,
    and that of text. Java changes the types without a check, and then finds negative keys in no bucket.

    Args:
        handle: the branch before the changes.
        changes: of its schema.

    Raises:
        SchemaMismatchError: the form changes, or may change as the table has negative keys or files without statistics.
    """
    schema = handle.schema
    for change in changes:
        if not isinstance(change, UpdateType) or change.path[0] not in {*schema.primary_keys, *schema.bucket_keys}:
            continue
        name, old = change.path[0], schema.row_type.field(change.path[0]).type
        why = f"its values would be found in other buckets then; write them as {old}"
        if _are_whole(old, change.type):
            if not _may_have_negative(handle, name, old):
                continue
            why = "negative values would be found in other buckets then, and the table has some, or may have"
        elif isinstance(old, CharType) and isinstance(change.type, CharType) and old.varying and change.type.varying:
            continue
        raise SchemaMismatchError(
            f"column {name} of {handle.describe()} is part of a key and cannot change from {old} to {change.type}: "
            f"{why}",
            column=name,
        )


def _are_whole(*types: DataType) -> bool:
    return all(isinstance(t, AtomicType) and t.name in INTEGER_NAMES for t in types)


def _may_have_negative(handle: TableHandle, name: str, t: DataType) -> bool:
    """Whether a file of the head may have a negative value in a column, by its statistics."""
    query = ScanQuery((name,), Compare(Op.LT, Column((name,), t), 0))
    options = handle.options.changed(_ALL_LEVELS)
    plan = plan_branch(replace(handle, options=options), latest_snapshot(handle), query)
    return bool(plan.splits)
