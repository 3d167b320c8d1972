"""Which manifests, entries and index files are of the partitions that a commit touches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.engine.commit.entries import column, together, where
from paimon_spark.engine.merge.ordering import column_words, sort_rows
from paimon_spark.format.arrays.arrow_numpy import Bool, fixed_array, validity, values
from paimon_spark.format.arrays.python_values import array_of
from paimon_spark.format.binary_row_columns import decode_column
from paimon_spark.format.metadata_files.manifest import ManifestFileMeta
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.live_files import live_entries
from paimon_spark.metadata.manifests import data_manifests, delta_manifests, read_manifests
from paimon_spark.types import DataType

_MOST_COMPARED: Final = 1 << 22
"""Manifests times partitions up to which each pair is looked at; beyond, only the span of the partitions is."""


class Touched:
    """A set of partitions.

    Attributes:
        rows: their BinaryRow bytes, each once.
    """

    def __init__(self, handle: TableHandle, partitions: pa.Array) -> None:
        self._handle = handle
        self.rows: pa.BinaryArray = pc.unique(partitions)
        self.bytes: frozenset[bytes] = frozenset(self.rows.to_pylist())

    def __bool__(self) -> bool:
        return len(self.rows) > 0

    def entries(self, entries: pa.Table) -> Bool:
        """Which entries are of these partitions."""
        return values(pc.is_in(column(entries, "partition"), value_set=self.rows))

    def manifests(self, metas: Sequence[ManifestFileMeta]) -> Bool:
        """Which manifests may hold entries of these partitions, by the partition statistics of their lists."""
        possible = np.full((len(metas), max(len(self.rows), 1)), bool(self))
        if not self or not metas or possible.size > _MOST_COMPARED:
            return np.asarray(possible.any(axis=1))
        low = array_of([m.partition_stats.min_values for m in metas], pa.binary())
        high = array_of([m.partition_stats.max_values for m in metas], pa.binary())
        for i, field in enumerate(self._handle.schema.partition_type):
            possible &= self._column(metas, low, high, i, field.type)
        return np.asarray(possible.any(axis=1))

    def _column(
        self, metas: Sequence[ManifestFileMeta], low: pa.Array, high: pa.Array, i: int, dtype: DataType
    ) -> npt.NDArray[Any]:
        wanted = decode_column(self.rows, i, dtype, exact=False)  # what Arrow cannot hold is looked for everywhere
        lows, highs = (decode_column(rows, i, dtype, exact=False) for rows in (low, high))
        ranks = _ranks(pa.concat_arrays([wanted, lows, highs]))
        w, m = len(wanted), len(metas)
        value, least, most = ranks[:w], ranks[w : w + m], ranks[w + m :]
        unknown = ~(validity(lows) & validity(highs))
        inside = (least[:, None] <= value[None, :]) & (value[None, :] <= most[:, None]) | unknown[:, None]
        return np.where(validity(wanted)[None, :], inside, True)

    def live(self, snapshot: Snapshot) -> pa.Table:
        """The live entries of these partitions in a snapshot."""
        metas = data_manifests(self._handle, snapshot)
        return self._only(live_entries(self._handle, _where(metas, self.manifests(metas)), passing=True))

    def delta(self, snapshot: Snapshot) -> pa.Table:
        """The entries of these partitions that a snapshot's commit made."""
        metas = delta_manifests(self._handle, snapshot)
        return self._only(read_manifests(self._handle, _where(metas, self.manifests(metas))))

    def _only(self, entries: pa.Table) -> pa.Table:
        return together(where(entries, self.entries(entries))) if len(entries) else entries


def _where(metas: Sequence[ManifestFileMeta], mask: Bool) -> list[ManifestFileMeta]:
    return [m for m, wanted in zip(metas, mask.tolist(), strict=True) if wanted]


def _ranks(array: pa.Array) -> npt.NDArray[np.int64]:
    """A number per value, in the order of the values, equal for equal ones; of two zeros either may be a bound."""
    if pa.types.is_floating(array.type):
        array = fixed_array(values(array) + 0.0, array.type, validity(array))
    order, ties = sort_rows(column_words(array), len(array))
    ranks = np.empty(len(array), np.int64)
    ranks[order] = np.cumsum(~ties)
    return ranks
