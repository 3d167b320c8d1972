"""Data evolution: combine the columns that several files store for one range of row ids.

For every column the newest file that wrote it counts; older copies are dead.

Source: Paimon spec, chapter Data Evolution; Java `operation/DataEvolutionSplitRead`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from paimon_spark.engine.read.file_reader import (
    FileRows,
    deleted_positions,
    fields_in,
    fields_of,
    file_url,
    iter_rows,
    kept_rows,
    schema_of,
)
from paimon_spark.engine.read.metadata_columns import file_column, is_of_file, is_tracking, output_schema
from paimon_spark.engine.tasks import DataSplit, DeletionFile, ReadRequest
from paimon_spark.errors import CorruptFileError
from paimon_spark.format.arrays import arrow_numpy
from paimon_spark.format.arrays.arrow_types import arrow_type, record_batch
from paimon_spark.format.metadata_files.data_file import DEDICATED, DataFileMeta
from paimon_spark.storage.store import Store
from paimon_spark.types import TRACKING_FIELDS


def read_evolved(request: ReadRequest, split: DataSplit) -> Iterator[pa.RecordBatch]:
    """The rows of a split's row id ranges, deleted ones left out, in order of row id.

    `__paimon_file_path` is the oldest file of a row's range, which deletion vectors name, and `__paimon_row_index` the
    position in the range.
    """
    deletions = _deletions(split)
    schema = output_schema(request)
    for group in _groups(request.store, split):
        for arrays, count in _group_rows(request, split, group, deletions.get(anchor_of(group).file_name)):
            yield record_batch(arrays, schema, count)


def anchor_of(files: Iterable[DataFileMeta]) -> DataFileMeta:
    """The file of a range of row ids whose deletion vector counts for all: the oldest.

    Source: Java `utils/DataEvolutionUtils.retrieveAnchorFile`.
    """
    return min(files, key=lambda f: (f.max_sequence_number, f.file_name))


def split_by_range(store: Store, split: DataSplit) -> Iterator[DataSplit]:
    """The split's ranges of row ids, as splits of one range each whose first file is the anchor.

    Raises CorruptFileError: a file has no row ids, or ranges overlap in part.
    """
    deletions = _deletions(split)
    for group in _groups(store, split):
        anchor = anchor_of(group)
        files = (anchor, *(f for f in group if f is not anchor))
        of_files = tuple(deletions.get(f.file_name) for f in files)
        yield replace(split, files=files, deletions=of_files if any(of_files) else ())


def _deletions(split: DataSplit) -> dict[str, DeletionFile | None]:
    return dict(zip((f.file_name for f in split.files), split.deletions, strict=False))


def _groups(store: Store, split: DataSplit) -> Iterator[list[DataFileMeta]]:
    """The plain files of each range of row ids, newest first."""
    group: list[DataFileMeta] = []
    end = -1
    for file in sorted(split.files, key=lambda f: -1 if f.first_row_id is None else f.first_row_id):
        if file.first_row_id is None:
            url = file_url(store, split, file)
            raise CorruptFileError(f"data file {url} has no row ids, though its table tracks rows", path=url)
        if is_dedicated(file):
            continue
        if group and file.first_row_id >= end:
            yield _checked(store, split, group)
            group = []
        group.append(file)
        end = max(end, file.first_row_id + file.row_count)
    if group:
        yield _checked(store, split, group)


def is_dedicated(file: DataFileMeta) -> bool:
    """Whether the file holds the values of one large column for part of a range."""
    return any(mark in file.file_name for mark in DEDICATED)


def _checked(store: Store, split: DataSplit, group: list[DataFileMeta]) -> list[DataFileMeta]:
    first = group[0]
    for file in group[1:]:
        if (file.first_row_id, file.row_count) != (first.first_row_id, first.row_count):
            url = file_url(store, split, file)
            raise CorruptFileError(
                f"data file {url} has {file.row_count} rows from row id {file.first_row_id}, which overlap the "
                f"{first.row_count} from {first.first_row_id} of {first.file_name}",
                path=url,
            )
    return sorted(group, key=lambda f: -f.max_sequence_number)


def _group_rows(
    request: ReadRequest, split: DataSplit, group: list[DataFileMeta], deletion: DeletionFile | None
) -> Iterator[tuple[list[pa.Array], int]]:
    special = [n for n in request.columns if is_of_file(request, n)]
    anchor = anchor_of(group)
    fields = fields_of(request.schema, [n for n in request.columns if n not in special])
    # For each column the number of the newest file that has it; -1 for none.
    ids = [{f.id for f in fields_in(file, schema_of(request, split, file))} for file in group]
    owners = [
        0 if f.name in request.schema.partition_keys else next((i for i, known in enumerate(ids) if f.id in known), -1)
        for f in fields
    ]
    # File 0 is always read: it gives the tracking columns, and the rows when no column is in any file.
    used = sorted({0, *(o for o in owners if o >= 0)})
    wanted = {n: [f for f, o in zip(fields, owners, strict=True) if o == n] for n in used}
    streams = [
        iter_rows(
            request,
            split,
            group[n],
            None,
            wanted[n],
            batch_rows=request.batch_rows,
            extra=TRACKING_FIELDS if n == 0 else (),
        )
        for n in used
    ]
    deleted = None if deletion is None else deleted_positions(request.store, deletion, group[0].row_count)
    for parts in _aligned(streams):
        head = parts[0]
        found: dict[str, pa.Array] = {}
        for n, part in zip(used, parts, strict=True):
            found.update((f.name, a) for f, a in zip(wanted[n], part.columns, strict=True))
        for f, o in zip(fields, owners, strict=True):
            if o < 0:
                found[f.name] = pa.nulls(head.row_count, arrow_type(f.type))
        for name in special:
            of = group[0] if is_tracking(request, name) else anchor
            found[name] = file_column(request, split, of, name, head)
        arrays, count = [found[n] for n in request.columns], head.row_count
        kept = None if deleted is None else kept_rows(deleted, head.first, count)
        if kept is not None:
            mask, count = arrow_numpy.boolean_array(kept), int(np.count_nonzero(kept))
            arrays = [a.filter(mask) for a in arrays]
        if count:
            yield arrays, count


def _aligned(streams: list[Iterator[FileRows]]) -> Iterator[list[FileRows]]:
    """Runs of the streams cut so that each tuple covers the same positions. All streams hold equally many rows."""
    heads: list[FileRows | None] = [next(s, None) for s in streams]
    while all(h is not None for h in heads):
        present = [h for h in heads if h is not None]
        count = min(h.row_count for h in present)
        yield [_slice(h, 0, count) for h in present]
        heads = [
            _slice(h, count, h.row_count - count) if h.row_count > count else next(s, None)
            for h, s in zip(present, streams, strict=True)
        ]


def _slice(rows: FileRows, start: int, count: int) -> FileRows:
    if start == 0 and count == rows.row_count:
        return rows
    return FileRows(
        rows.first + start,
        None,
        count,
        [a.slice(start, count) for a in rows.extra],
        [a.slice(start, count) for a in rows.columns],
    )
