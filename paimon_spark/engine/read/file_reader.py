"""Read one data file as rows of the read schema, without deleted rows.

Source: Java `operation/RawFileSplitRead`, `io/DataFileRecordReader`, `deletionvectors/ApplyDeletionVectorReader`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_spark.engine.read.evolution import evolve
from paimon_spark.engine.tasks import DataSplit, DeletionFile, ReadRequest
from paimon_spark.errors import ColumnNotFoundError, CorruptFileError, DataError, FileMissingError, FormatError
from paimon_spark.format import binary_row
from paimon_spark.format.arrays import arrow_numpy
from paimon_spark.format.arrays.arrow_types import arrow_schema, record_batch
from paimon_spark.format.data_files.registry import read_rows, slice_of
from paimon_spark.format.data_files.requests import FileRead
from paimon_spark.format.metadata_files.data_file import DataFileMeta
from paimon_spark.format.metadata_files.table_schema import TableSchema
from paimon_spark.metadata.external_files import external_data_files
from paimon_spark.predicate.ast import Predicate
from paimon_spark.redaction import get_logger
from paimon_spark.storage.store import Store
from paimon_spark.storage.urls import external_path
from paimon_spark.types import (
    BIGINT,
    SEQUENCE_NUMBER,
    SEQUENCE_NUMBER_ID,
    TINYINT,
    VALUE_KIND,
    VALUE_KIND_ID,
    DataField,
    RowKind,
)

_LOG = get_logger(__name__)
KIND_FIELD: Final = DataField(VALUE_KIND_ID, VALUE_KIND, TINYINT.with_nullable(False))
SYSTEM_FIELDS: Final = (
    DataField(SEQUENCE_NUMBER_ID, SEQUENCE_NUMBER, BIGINT.with_nullable(False)),
    KIND_FIELD,
)
"""The columns of every file of a primary-key table that tell when and how a row changed."""


class FileRows(NamedTuple):
    """Rows of a data file that no deletion vector deletes.

    Attributes:
        first: position of the first row of the run they come from.
        kept: which rows of the run these are; None for all.
        row_count: rows left; every array is this long.
        extra: columns as they are in the file.
        columns: columns of the schema being read.
    """

    first: int
    kept: npt.NDArray[np.bool_] | None
    row_count: int
    extra: list[pa.Array]
    columns: list[pa.Array]

    @property
    def positions(self) -> npt.NDArray[np.int64]:
        """Physical position of each row."""
        if self.kept is None:
            return np.arange(self.first, self.first + self.row_count, dtype=np.int64)
        return np.flatnonzero(self.kept).astype(np.int64) + self.first

    def only(self, mask: npt.NDArray[np.bool_]) -> FileRows:
        """The rows where `mask` is True."""
        kept = mask
        if self.kept is not None:
            kept = self.kept.copy()
            kept[self.kept] = mask
        chosen = arrow_numpy.boolean_array(mask)
        return FileRows(
            self.first,
            kept,
            int(np.count_nonzero(mask)),
            [a.filter(chosen) for a in self.extra],
            [a.filter(chosen) for a in self.columns],
        )


def iter_file(
    request: ReadRequest,
    split: DataSplit,
    file: DataFileMeta,
    deletion: DeletionFile | None,
    columns: Sequence[str],
    *,
    predicate: Predicate | None = None,
    batch_rows: int,
    system: Sequence[DataField] = (),
    open_files: int = 1,
) -> Iterator[pa.RecordBatch]:
    """The rows of a data file, in file order, deleted ones left out.

    Args:
        request: the read.
        split: the split the file is of.
        file: the file.
        deletion: its deletion vector.
        columns: names of columns of `request.schema`; the batches have these, in canonical types.
        predicate: rows for which it is not true may be left out, whole row groups at a time; most are not.
        batch_rows: most rows in a batch.
        system: columns of `SYSTEM_FIELDS` to put in front.
        open_files: how many files the caller reads side by side, for their memory.

    Raises:
        CorruptFileError: names the file that is missing, damaged, or not what its manifest and schema say.
        UnsupportedFeatureError: the file's format, or a type or its change, cannot be read.
        DataError: a value cannot become the column's new type.
    """
    fields = fields_of(request.schema, columns)
    schema = arrow_schema((*system, *fields))
    for r in iter_rows(
        request,
        split,
        file,
        deletion,
        fields,
        predicate=predicate,
        batch_rows=batch_rows,
        extra=system,
        open_files=open_files,
    ):
        checked = system_columns(request.store, split, file, system, r.extra) if system else []
        yield record_batch([*checked, *r.columns], schema, r.row_count)


def iter_rows(
    request: ReadRequest,
    split: DataSplit,
    file: DataFileMeta,
    deletion: DeletionFile | None,
    fields: Sequence[DataField],
    *,
    predicate: Predicate | None = None,
    batch_rows: int,
    extra: Sequence[DataField] = (),
    open_files: int = 1,
) -> Iterator[FileRows]:
    """Like `iter_file`, with row positions. Columns `extra` are read by name as they are, or null."""
    file_schema = schema_of(request, split, file)
    in_file = fields_in(file, file_schema)
    evolution = evolve(fields, in_file, partition_scalars(request.schema, split.partition))
    store, path = locate(request, split, file)
    deleted = None if deletion is None else deleted_positions(request.store, deletion, file.row_count)
    chosen = wanted = None
    if predicate is not None and evolution.testable:
        from paimon_spark.predicate.stats import RowGroupFilter  # plain reads do without

        chosen = RowGroupFilter(predicate, evolution.testable)
        wanted = _rows_by_indexes(request, split, file, predicate, fields, in_file)
        if wanted is not None and not wanted.any():
            return
    read = FileRead(
        store,
        path,
        (*extra, *evolution.file_fields),
        file.row_count,
        batch_rows,
        request.threads,
        chosen,
        open_files,
        wanted,
        split.rows,
        size=file.file_size,
    )
    for first, count, arrays in read_rows(read):
        kept = None if deleted is None else kept_rows(deleted, first, count)
        if wanted is not None:
            of_run = wanted[first : first + count]
            kept = of_run if kept is None else kept & of_run
        if kept is not None:
            count = int(np.count_nonzero(kept))
            if count == 0:
                continue
            mask = arrow_numpy.boolean_array(kept)
            arrays = [a.filter(mask) for a in arrays]
        try:
            columns = evolution.columns(arrays[len(extra) :], count)
        except DataError as e:
            url = file_url(request.store, split, file)
            raise DataError(f"data file {url}: {e.message}", **{"path": url, **e.context}) from e
        yield FileRows(first, kept, count, arrays[: len(extra)], columns)


def _rows_by_indexes(
    request: ReadRequest,
    split: DataSplit,
    file: DataFileMeta,
    predicate: Predicate,
    fields: Sequence[DataField],
    in_file: Sequence[DataField],
) -> npt.NDArray[np.bool_] | None:
    """The rows of a file that may match by its indexes; None for all. Indexes that cannot be read are left alone."""
    if not request.options.reads_file_indexes or (file.embedded_index is None and file.index_file is None):
        return None
    from paimon_spark.format.file_index.indexes import FileIndexes
    from paimon_spark.predicate.stats import indexed_columns, rows_that_may_match

    try:
        if file.embedded_index is not None:
            indexes = FileIndexes.of_bytes(file.embedded_index, file.row_count)
        else:
            store, path = locate(request, split, file)
            indexes = FileIndexes.of_file(store, f"{path.rpartition('/')[0]}/{file.index_file}", file.row_count)
        return rows_that_may_match(predicate, indexes, indexed_columns(fields, in_file))
    except (FileMissingError, FormatError) as e:
        # The rows are all in the data file: an index only tells which of them need not be read.
        _LOG.warning("the index of data file %s is not used: %s", file_url(request.store, split, file), e.message)
        return None


def fields_of(schema: TableSchema, columns: Sequence[str]) -> tuple[DataField, ...]:
    """The fields named `columns`. Raises ColumnNotFoundError."""
    by_name = {f.name: f for f in schema.fields}
    for name in columns:
        if name not in by_name:
            raise ColumnNotFoundError(f"there is no column {name!r}; the columns are {', '.join(by_name)}", column=name)
    return tuple(by_name[name] for name in columns)


def schema_of(request: ReadRequest, split: DataSplit, file: DataFileMeta) -> TableSchema:
    """The schema the file was written with. Raises CorruptFileError when it is not known."""
    if file.schema_id == request.schema.id:
        return request.schema
    schema = request.file_schemas.get(file.schema_id)
    if schema is None:
        url = file_url(request.store, split, file)
        raise CorruptFileError(
            f"data file {url} of table {request.table_name} was written with schema {file.schema_id}, which the "
            "table does not have",
            path=url,
        )
    return schema


def fields_in(file: DataFileMeta, schema: TableSchema) -> tuple[DataField, ...]:
    """The columns of its schema that the file holds."""
    if file.write_cols is None:
        return schema.fields
    return tuple(f for f in schema.fields if f.name in file.write_cols)


def locate(request: ReadRequest, split: DataSplit, file: DataFileMeta) -> tuple[Store, str]:
    """The store and path of a data file.

    Raises UnsupportedFeatureError: it lies outside the table, where it may not be read.
    """
    if file.external_path is not None:
        allowed = external_data_files(request.store, split.bucket_path, request.options)
        # The bytes of a part of a compacted changelog are in a file of another directory.
        part = slice_of(request.store, file.external_path)
        if part is not None:
            allowed.open(request.store, part.path, request.table_name)
        return allowed.open(request.store, file.external_path, request.table_name)
    return request.store, split.path_of(file)


def file_url(store: Store, split: DataSplit, file: DataFileMeta) -> str:
    """The URL of a data file."""
    if file.external_path is not None:
        return file.external_path
    return store.url(split.path_of(file))


def system_columns(
    store: Store, split: DataSplit, file: DataFileMeta, fields: Sequence[DataField], arrays: Sequence[pa.Array]
) -> list[pa.Array]:
    """The `arrays` of some `SYSTEM_FIELDS` of a file, checked.

    Files without the column `_VALUE_KIND`, which early versions of Paimon's Rust library wrote, hold inserts.

    Raises:
        CorruptFileError: a row has no sequence number, or no kind that exists.
    """
    out = []
    for f, array in zip(fields, arrays, strict=True):
        if f.name == VALUE_KIND and array.null_count == len(array):
            array = arrow_numpy.fixed_array(np.zeros(len(array), np.int8), pa.int8())
        if array.null_count:
            url = file_url(store, split, file)
            raise CorruptFileError(f"data file {url} lacks values of the column {f.name}", path=url)
        if f.name == VALUE_KIND and len(array):
            kinds = arrow_numpy.values(array)
            if int(kinds.min()) < RowKind.INSERT or int(kinds.max()) > RowKind.DELETE:
                url = file_url(store, split, file)
                raise CorruptFileError(f"data file {url} has a row kind that is not 0 to 3", path=url)
        out.append(array)
    return out


def partition_scalars(schema: TableSchema, partition: bytes) -> Mapping[str, pa.Scalar]:
    """The value of each partition column, by name. Raises FormatError: the bytes are not a row of these columns."""
    fields = schema.partition_type.fields
    offsets = pa.py_buffer(b"\0\0\0\0" + len(partition).to_bytes(4, "little"))
    row = pa.Array.from_buffers(pa.binary(), 1, [None, offsets, pa.py_buffer(partition)], null_count=0)
    return {f.name: binary_row.decode_column(row, i, f.type)[0] for i, f in enumerate(fields)}


Positions = npt.NDArray[np.int64]


def deleted_positions(store: Store, deletion: DeletionFile, row_count: int) -> Positions:
    """Positions of the deleted rows in a data file of `row_count` rows, ascending.

    Raises CorruptFileError: the vector is missing, damaged, or not of as many rows as recorded.
    """
    from paimon_spark.format.metadata_files import deletion_vector  # most files have none

    # A URL is of a file in another store, which was checked when the split was planned.
    url = deletion.path if "://" in deletion.path else store.url(deletion.path)
    where, path = external_path(store, url) if "://" in deletion.path else (store, deletion.path)
    try:
        data = where.read_range(path, deletion.offset, deletion.length + deletion_vector.FRAME_BYTES)
    except FileMissingError as e:
        raise CorruptFileError(
            f"deletion vector file {url} is missing, though the snapshot being read refers to it", path=url
        ) from e
    positions = deletion_vector.decode(data, url, length=deletion.length, row_count=row_count)
    if deletion.cardinality is not None and len(positions) != deletion.cardinality:
        raise CorruptFileError(
            f"the deletion vector at byte {deletion.offset} of {url} deletes {len(positions)} rows, "
            f"the index manifest says {deletion.cardinality}",
            path=url,
        )
    return positions


def kept_rows(deleted: Positions, first: int, count: int) -> npt.NDArray[np.bool_] | None:
    """A mask of the kept rows among `count` rows from position `first`; None if all are kept."""
    low, high = np.searchsorted(deleted, (first, first + count))
    if low == high:
        return None
    mask = np.ones(count, np.bool_)
    mask[deleted[low:high] - first] = False
    return mask
