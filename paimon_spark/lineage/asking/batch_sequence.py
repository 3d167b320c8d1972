"""Sequence of the batches of a job, with the snapshots of a table that they read or made.

A batch that read or made nothing has the snapshot of the one before: a row is valid until the next one.
Rows of snapshots that were rolled back, as later rows show, are left out; batches of their time have no snapshot.

Source: docs/design/lineage.md.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

FAR: Final = 2**62
"""Greater than every barrier and every snapshot."""


@dataclass(frozen=True, slots=True)
class BatchSequence:
    """Valid rows by barrier, snapshots never falling. The columns are views of Arrow memory.

    Attributes:
        barriers, snapshots: of row i.
        ends: the last barrier at which row i is valid; `FAR` for the newest.
        before: the last barrier before row 0.
        newest: the greatest barrier of all rows; -1 when there is none.
    """

    barriers: Sequence[int] = ()
    snapshots: Sequence[int] = ()
    ends: Sequence[int] = ()
    before: int = FAR
    newest: int = -1

    def __len__(self) -> int:
        return len(self.barriers)

    def row(self, barrier: int) -> int:
        """The row in force at a barrier; -1 before the first."""
        return bisect_right(self.barriers, barrier) - 1

    def end(self, row: int) -> int:
        """The last barrier at which a row is valid; of -1: the last before the first row."""
        return self.ends[row] if row >= 0 else self.before

    def snapshot(self, row: int) -> int:
        """The snapshot of a row; 0 for -1."""
        return self.snapshots[row] if row >= 0 else 0

    def row_of(self, snapshot: int) -> int:
        """The last row with a snapshot up to this one; -1 without any."""
        return bisect_right(self.snapshots, snapshot) - 1


EMPTY: Final = BatchSequence()


@dataclass(frozen=True, slots=True)
class RowsByJobAndTable:
    """Rows of a lineage table, grouped by job and table once for all pairs.

    Attributes:
        rows: columns barrier_id and snapshot_id, sorted by pair.
        places: (job, database, table) → its first row, and how many there are.
    """

    rows: pa.Table
    places: Mapping[tuple[str, str, str], tuple[int, int]]

    @staticmethod
    def of(rows: pa.Table) -> RowsByJobAndTable:
        import numpy as np

        rows = rows.combine_chunks()
        columns = [_encoded(rows[name]) for name in ("job", "database", "table")]
        pairs = np.zeros(rows.num_rows, np.int64)
        for codes, names in columns:
            pairs = pairs * max(1, len(names)) + codes
        if len(pairs) and int(pairs.max()) < 2**16:
            pairs = pairs.astype(np.uint16)  # numpy sorts such numbers by their digits
        order = np.argsort(pairs, kind="stable")
        found, first, counts = np.unique(pairs[order], return_index=True, return_counts=True)
        found = found.astype(np.int64)
        rest, keys = found, list[list[str]]()
        for _, names in reversed(columns):
            rest, code = np.divmod(rest, max(1, len(names)))
            keys.insert(0, [names[i] for i in code.tolist()])
        places = zip(zip(*keys, strict=True), zip(first.tolist(), counts.tolist(), strict=True), strict=True)
        numbers = rows.select(["barrier_id", "snapshot_id"])
        if np.any(pairs[1:] < pairs[:-1]):
            numbers = numbers.take(order).combine_chunks()
        return RowsByJobAndTable(numbers, dict(places))

    def of_pair(self, job: str, database: str, table: str) -> pa.Table:
        """The rows of a job and a table, in their original order."""
        first, count = self.places.get((job, database, table), (0, 0))
        return self.rows.slice(first, count)


def _encoded(column: pa.ChunkedArray) -> tuple[np.ndarray[Any, Any], list[str]]:
    """Dictionary codes of a column, and the distinct values."""
    import numpy as np

    chunks = column.dictionary_encode().unify_dictionaries().chunks
    if not chunks:
        return np.empty(0, np.int64), []
    return np.concatenate([chunk.indices.to_numpy() for chunk in chunks]), chunks[0].dictionary.to_pylist()


def sink_sequence(
    rows: pa.Table, not_ours: Sequence[int] = (), verified: Mapping[int, int] = MappingProxyType({})
) -> BatchSequence:
    """Batches that wrote a table. A row is dropped when a later batch made the same snapshot or an earlier one.

    Args:
        rows: with columns barrier_id and snapshot_id, in any order.
        not_ours: snapshots known to be of another job.
        verified: snapshot → the batch that made it, by its provenance. Rows that contradict one are dropped, also of
            later batches: an undo brings a former history back.
    """
    import numpy as np

    if not rows.num_rows:
        return EMPTY
    barriers, snapshots = _columns(rows)
    holds = _fits(barriers, snapshots, verified)
    later = np.minimum.accumulate(np.where(holds, snapshots, FAR)[::-1])[::-1]
    holds[:-1] &= snapshots[:-1] < later[1:]
    if len(not_ours):
        holds &= ~np.isin(snapshots, np.asarray(not_ours))
    return _sequence(barriers, snapshots, holds)


def _fits(
    barriers: np.ndarray[Any, Any], snapshots: np.ndarray[Any, Any], verified: Mapping[int, int]
) -> np.ndarray[Any, Any]:
    """Whether rows agree with those verified: batches rise with the snapshots that they made."""
    import numpy as np

    if not verified:
        return np.ones(len(snapshots), bool)
    made = np.array(sorted(verified), np.int64)
    by = np.array([verified[s] for s in made.tolist()], np.int64)
    upto = np.concatenate([[-1], np.maximum.accumulate(by)])
    since = np.concatenate([np.minimum.accumulate(by[::-1])[::-1], [FAR]])
    before, after = np.searchsorted(made, snapshots), np.searchsorted(made, snapshots, side="right")
    is_verified = (before < after) & (np.append(by, -1)[before] == barriers)
    found: np.ndarray[Any, Any] = is_verified | (
        (before == after) & (upto[before] <= barriers) & (barriers <= since[after])
    )
    return found


def source_sequence(rows: pa.Table) -> BatchSequence:
    """How far a job had read a table. Where that falls, rows of snapshots that were made again are dropped."""
    import numpy as np

    if not rows.num_rows:
        return EMPTY
    barriers, snapshots = _columns(rows)
    fell_to = np.full(len(snapshots), FAR)
    fell_to[:-1] = np.where(snapshots[1:] < snapshots[:-1], snapshots[1:], FAR)
    return _sequence(barriers, snapshots, snapshots < np.minimum.accumulate(fell_to[::-1])[::-1])


def positions(rows: pa.Table) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Barriers, and the greatest snapshot that any batch up to each had read, whatever was rolled back since."""
    import numpy as np

    barriers, snapshots = _columns(rows)
    return barriers, np.maximum.accumulate(snapshots)


def _columns(rows: pa.Table) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    import numpy as np

    barriers, snapshots = rows["barrier_id"].to_numpy(), rows["snapshot_id"].to_numpy()
    if not np.all(barriers[1:] > barriers[:-1]):
        order = np.argsort(barriers, kind="stable")
        barriers, snapshots = barriers[order], snapshots[order]
    return barriers, snapshots


def _sequence(
    barriers: np.ndarray[Any, Any], snapshots: np.ndarray[Any, Any], holds: np.ndarray[Any, Any]
) -> BatchSequence:
    import numpy as np

    ends = np.append(barriers[1:] - 1, FAR)
    kept, made, until = (np.ascontiguousarray(c[holds]).data for c in (barriers, snapshots, ends))
    return BatchSequence(kept, made, until, int(barriers[0]) - 1, int(barriers[-1]))
