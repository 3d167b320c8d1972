"""Tables with data evolution: which files of a commit hold new rows, and which other columns of rows already there.

A stream of an append table tells of new rows. Files that give columns to rows which were there before the commit are
passed over, as overwrites are; read alone they would be rows with nulls in all other columns, as in Java.

Source: Paimon spec, chapter Data Evolution; own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from paimon_spark.engine.scan.prune import Selection
from paimon_spark.engine.scan.report import Reason, Tally
from paimon_spark.engine.scan.units import Longs
from paimon_spark.errors import SnapshotExpiredError
from paimon_spark.format.arrays.arrow_numpy import validity, values
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.snapshots import alive_range, find_snapshot

_UNKNOWN: Final = -1


def first_new_rows(handle: TableHandle, snapshots: Sequence[Snapshot]) -> Longs:
    """For each commit the first row id that was new with it; -1 where the snapshot before has expired.

    Reads that snapshot, where it is not among those given.
    """
    out = []
    before: Snapshot | None = None
    for snapshot in snapshots:
        if before is None or before.id != snapshot.id - 1:
            before = find_snapshot(handle, snapshot.id - 1) if snapshot.id > 1 else None
        out.append((before.next_row_id or 0) if before is not None else 0 if snapshot.id == 1 else _UNKNOWN)
        before = snapshot
    return np.array(out, np.int64)


def only_new_rows(
    handle: TableHandle,
    selection: Selection,
    commit: Longs,
    snapshots: Sequence[Snapshot],
    first_new: Longs,
    tally: Tally,
) -> Selection:
    """The files whose rows are new with their commit.

    Args:
        handle: the table.
        selection: files that commits added.
        commit: for each file, the number of its commit.
        snapshots: the commits.
        first_new: of `first_new_rows`.
        tally: counts what is skipped.

    Raises:
        SnapshotExpiredError: a file may hold either, and the snapshot that would tell has expired.
    """
    first = selection.entries.column("first_row_id")
    floor = first_new[commit]
    unsure = (floor == _UNKNOWN) & validity(first) & validity(selection.entries.column("write_cols"))
    if unsure.any():
        snapshot = snapshots[int(commit[unsure][0])]
        raise SnapshotExpiredError(
            f"snapshot {snapshot.id} of {handle.describe()} added files with some columns; whether their rows "
            f"were new, snapshot {snapshot.id - 1} knew, and it has expired: {alive_range(handle)}; begin a new query "
            "at a snapshot alive",
            table=handle.name,
            branch=handle.branch,
            snapshot_id=snapshot.id - 1,
        )
    kept = ~validity(first) | (values(first) >= floor)
    tally.skip(Reason.UPDATED, ~kept, values(selection.entries.column("file_size")))
    return selection.keep(kept)
