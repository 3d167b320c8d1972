"""Numbers that only the commit knows: row ids, and sequence numbers that are snapshot ids.

Source: Java `operation/commit/RowTrackingCommitUtils`, `FileStoreCommitImpl.stampSequenceWithSnapshotId`.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.engine.commit.entries import adds, codes, column, numbers, present, with_numbers
from paimon_spark.errors import UnsupportedFeatureError
from paimon_spark.format.arrays import arrow_numpy
from paimon_spark.format.arrays.arrow_numpy import Bool
from paimon_spark.format.metadata_files.data_file import FileSource

_ROW_ID = "_ROW_ID"


def assign(entries: pa.Table, snapshot_id: int, next_row_id: int, *, by_partition: bool) -> tuple[pa.Table, int]:
    """Entries with sequence numbers and first row ids where they were left open, and the next free row id.

    A file whose smallest sequence number is 0 is all new; one whose largest is 0 has changed rows among old ones.

    Args:
        entries: ADD and DELETE entries.
        snapshot_id: of the snapshot being made.
        next_row_id: first id that no row has.
        by_partition: whether files are put together by partition first, so that ids of one are in a row.

    Raises:
        UnsupportedFeatureError: files that share the row ids of others (blobs, vectors) among the new ones.
    """
    if by_partition and len(entries):
        order = np.argsort(codes(column(entries, "partition")), kind="stable")
        entries = entries.take(arrow_numpy.take_indices(order)).combine_chunks()
    entries = _stamped(entries, snapshot_id)
    wanted = _without_row_ids(entries)
    if not wanted.any():
        return entries, next_row_id
    _refuse_shared_ids(entries, wanted)
    rows = np.where(wanted, numbers(entries, "row_count"), 0)
    ends = next_row_id + np.cumsum(rows)
    valid = present(entries, "first_row_id")
    ids = np.where(wanted, ends - rows, np.where(valid, numbers(entries, "first_row_id"), 0) if valid.any() else 0)
    return with_numbers(entries, "first_row_id", ids, valid | wanted), int(ends[-1])


def stamp(entries: pa.Table, snapshot_id: int) -> pa.Table:
    """Entries whose new files have the snapshot's id as the sequence number of all rows."""
    new = adds(entries)
    for name in ("min_sequence_number", "max_sequence_number"):
        entries = with_numbers(entries, name, np.where(new, snapshot_id, numbers(entries, name)))
    return entries


def _stamped(entries: pa.Table, snapshot_id: int) -> pa.Table:
    least, most = numbers(entries, "min_sequence_number"), numbers(entries, "max_sequence_number")
    all_new = least == 0
    entries = with_numbers(entries, "min_sequence_number", np.where(all_new, snapshot_id, least))
    return with_numbers(entries, "max_sequence_number", np.where(all_new | (most == 0), snapshot_id, most))


def _without_row_ids(entries: pa.Table) -> Bool:
    if len(entries) == 0:
        return np.zeros(0, np.bool_)
    appended = present(entries, "file_source") & (numbers(entries, "file_source") == FileSource.APPEND)
    wanted = adds(entries) & appended & ~present(entries, "first_row_id")
    written = column(entries, "write_cols")
    if written.null_count < len(written):
        wanted &= ~np.array([_ROW_ID in (names or ()) for names in written.to_pylist()], np.bool_)
    return np.asarray(wanted)


def _refuse_shared_ids(entries: pa.Table, wanted: Bool) -> None:
    names = column(entries, "file_name").filter(arrow_numpy.boolean_array(wanted))
    for ending in (".blob", ".vector"):
        if arrow_numpy.values(pc.match_substring(names, ending)).any():
            raise UnsupportedFeatureError(
                f"a commit cannot give row ids to files of the format {ending[1:]}; write such columns with Paimon",
                feature=f"{ending[1:]} files",
            )
