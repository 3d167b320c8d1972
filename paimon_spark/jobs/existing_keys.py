"""Read the keys that a table has, for writes that may move a key to another partition.

Source: Java `crosspartition/IndexBootstrap`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from paimon_spark.engine.read.split_reader import read_split
from paimon_spark.engine.scan.one_branch import plan_branch
from paimon_spark.engine.scan.query import ScanQuery
from paimon_spark.engine.write.request import KnownKeys
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.options.core import MergeEngine
from paimon_spark.predicate.ast import Column, Not, NullSafeEqual, Predicate, conjunction

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
