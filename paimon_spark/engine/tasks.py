"""DataSplit and ReadRequest of reads, CommitMessage of writes: values between processes.

They are frozen and picklable, without clients or open files. A DataSplit names the files that one task reads, a
ReadRequest how and into which columns (scan → read), and a CommitMessage the files that a writer of one bucket wrote
(write → commit).

Source: Java `table/source/DataSplit`, `table/source/DeletionFile`, `table/sink/CommitMessageImpl`, `io/DataIncrement`,
`io/CompactIncrement`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

from paimon_spark.errors import ColumnNotFoundError, InvalidOptionError
from paimon_spark.format.metadata_files.data_file import DataFileMeta
from paimon_spark.format.metadata_files.index_manifest import IndexManifestEntry
from paimon_spark.format.metadata_files.table_schema import TableSchema
from paimon_spark.options.descriptor import did_you_mean
from paimon_spark.options.table import TableOptions
from paimon_spark.predicate.ast import Predicate
from paimon_spark.storage.store import Store
from paimon_spark.types import (
    BIGINT,
    INT,
    ROW_ID,
    ROW_ID_FIELD_ID,
    ROW_KIND_COLUMN,
    SEQUENCE_NUMBER,
    SEQUENCE_NUMBER_ID,
    STRING,
    DataField,
    RowType,
    is_finer_than_spark,
)


class DeletionFile(NamedTuple):
    """Where the deletion vector of one data file lies.

    Attributes:
        path: path of the index file in the table's store.
        offset, length: as recorded in the index manifest (the length's meaning depends on the vector's magic).
        cardinality: deleted rows; None when the writer did not record it.
    """

    path: str
    offset: int
    length: int
    cardinality: int | None


class SplitMode(StrEnum):
    """How the files of a split are read.

    RAW: rows of the files as they lie, deletion vectors applied; no merge. Every row counts as +I, except that rows of
        tables with keys are left out when they are retracts.
    MERGE: rows merged by key with the table's merge engine, retracts dropped.
    CHANGES: rows of the files with their kinds, not merged (delta and changelog files).
    DIFF: `before_files` and `files` are each merged; rows that differ come out, with kinds.
    EVOLVED: files of one row id range, each with some columns of the rows (data evolution).
    REPLACED: `before_files` and `files` are each merged; all rows of the former come as -D, then all of the latter.
    POSTPONED: `files` are those of a partition's postponed bucket; their rows that belong to `bucket` are merged with
        the rows of `before_files`, after which they were written.
    """

    RAW = "raw"
    MERGE = "merge"
    CHANGES = "changes"
    DIFF = "diff"
    EVOLVED = "evolved"
    REPLACED = "replaced"
    POSTPONED = "postponed"


@dataclass(frozen=True, slots=True)
class DataSplit:
    """Files of one bucket that one task reads.

    Attributes:
        branch: the branch whose schemas and options apply; picks the ReadRequest.
        snapshot_id: the snapshot planned from.
        partition: BinaryRow bytes of the partition columns, with arity prefix.
        bucket: bucket number; negative when postponed.
        bucket_path: directory of the files in the table's store, but for those of `elsewhere`.
        files: in the order they must be read (RAW, CHANGES: oldest first).
        deletions: deletion vector per file of `files`, None where it has none; empty when no file has any.
        before_files, before_deletions: the older state, for DIFF, REPLACED and POSTPONED only.
        total_buckets: buckets that the partition had when the files were written; 0 when it does not matter.
        elsewhere: name and directory of the files that another directory of the partition holds.
        rows: of a split of one Parquet file and mode RAW, the rows from one position up to another; None for all. A
            reader takes the row groups that begin there.
    """

    branch: str
    snapshot_id: int
    partition: bytes
    bucket: int
    bucket_path: str
    mode: SplitMode
    files: tuple[DataFileMeta, ...]
    deletions: tuple[DeletionFile | None, ...] = ()
    before_files: tuple[DataFileMeta, ...] = ()
    before_deletions: tuple[DeletionFile | None, ...] = ()
    total_buckets: int = 0
    elsewhere: tuple[tuple[str, str], ...] = ()
    rows: tuple[int, int] | None = None

    @property
    def size_bytes(self) -> int:
        return sum(f.file_size for f in self.files) + sum(f.file_size for f in self.before_files)

    @property
    def row_count(self) -> int:
        """Physical rows in the files; an upper bound of the rows returned."""
        return sum(f.row_count for f in self.files) + sum(f.row_count for f in self.before_files)

    def path_of(self, file: DataFileMeta) -> str:
        """The path of a file without an external path, in the table's store."""
        return f"{dict(self.elsewhere).get(file.file_name, self.bucket_path)}/{file.file_name}"

    def deletion_of(self, index: int) -> DeletionFile | None:
        return self.deletions[index] if self.deletions else None


FILE_PATH: Final = "__paimon_file_path"
ROW_INDEX: Final = "__paimon_row_index"
PARTITION: Final = "__paimon_partition"
BUCKET: Final = "__paimon_bucket"
METADATA_COLUMNS: Final = (FILE_PATH, ROW_INDEX, PARTITION, BUCKET)
NANOSECONDS: Final = "__paimon_nanoseconds_"
"""Begins the name of a column with the whole value of a TIMESTAMP(7) to (9) column, as nanoseconds since 1970.

Row-level changes carry values through Spark in it, whose timestamps have microseconds.
"""


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """Columns, predicate and schemas for reading the splits of a branch.

    Attributes:
        store: where the table's files are.
        table_name: how the user named the table, for messages.
        branch: the branch the splits come from.
        schema: the schema to read with; files of other schemas are evolved to it.
        file_schemas: schema by id, for every `schema_id` among the splits' files.
        options: table options in force.
        columns: output column names in order: columns of `schema`, metadata columns, and on tables that
            track rows `_ROW_ID` and `_SEQUENCE_NUMBER`.
        predicate: rows for which it is not true may be dropped (the reader drops all of them); None keeps all.
        with_row_kind: add a first column `rowkind` (text `+I -U +U -D`) and keep retracts.
        as_inserts: with `with_row_kind`: no retracts are kept of rows that are no changes, and each is `+I`: the state
            with which a stream begins.
        batch_rows: most rows in an output batch.
        threads: whether decoding may use Arrow's thread pool (in process yes, in a Spark task no).
        timestamp_precision: most fractional digits of a second wanted, 6 or 9; with 6 finer timestamps come out
            cut downwards to microseconds, in the types of TIMESTAMP(6).
    """

    store: Store
    table_name: str
    branch: str
    schema: TableSchema
    file_schemas: Mapping[int, TableSchema]
    options: TableOptions
    columns: tuple[str, ...]
    predicate: Predicate | None = None
    with_row_kind: bool = False
    as_inserts: bool = False
    batch_rows: int = 65536
    threads: bool = False
    timestamp_precision: int = 9


_FIRST_METADATA_ID: Final = 2147483547
"""Ids of metadata columns go down from here, as in Paimon's `PaimonMetadataColumn`; they are never stored."""
_NANOSECONDS: Final = 1000


def output_type(
    schema: TableSchema,
    columns: Sequence[str] | None,
    *,
    table: str,
    tracks_rows: bool = False,
    row_kind: bool = False,
    metadata: bool = True,
) -> RowType:
    """Columns that a read returns, in order: `columns`, or else those of the table.

    Names match exactly, else in any case when that is unambiguous.

    Args:
        schema: the schema to read with.
        columns: columns of the table and metadata columns.
        table: how messages call the table.
        tracks_rows: `_ROW_ID` and `_SEQUENCE_NUMBER` may be asked for.
        row_kind: `rowkind` comes first.
        metadata: metadata columns may be named.

    Raises:
        ColumnNotFoundError: there is no such column; the nearest names are offered.
        InvalidOptionError: a column is named twice, or the table has a column called `rowkind` itself.
    """
    known = {f.name: f for f in schema.fields}
    extra = {f.name: f for f in _extra_fields(schema, tracks_rows)} if metadata else {}
    names = known if columns is None else columns
    fields = [known.get(name) or extra.get(name) or _in_any_case(known, extra, name, table) for name in names]
    if row_kind:
        fields.insert(0, DataField(_FIRST_METADATA_ID - len(METADATA_COLUMNS), ROW_KIND_COLUMN, STRING))
    twice = [name for name, count in Counter(f.name for f in fields).items() if count > 1]
    if twice:
        raise InvalidOptionError(
            f"column {twice[0]!r} is named twice in a read of {table}; name it once", column=twice[0]
        )
    return RowType(False, tuple(fields))


def _in_any_case(known: dict[str, DataField], extra: dict[str, DataField], name: str, table: str) -> DataField:
    alike = [f for n, f in known.items() if n.lower() == name.lower()]
    if len(alike) == 1:
        return alike[0]
    raise ColumnNotFoundError(
        f"{table} has no column {name!r}{did_you_mean(name, [*known, *extra])}; its columns are {', '.join(known)}",
        column=name,
        table=table,
    )


def _extra_fields(schema: TableSchema, tracks_rows: bool) -> list[DataField]:
    """Columns that are read only if they are named."""
    types = {FILE_PATH: STRING, ROW_INDEX: BIGINT, PARTITION: schema.partition_type, BUCKET: INT}
    fields = [DataField(_FIRST_METADATA_ID - i, name, types[name]) for i, name in enumerate(METADATA_COLUMNS)]
    fine = [f for f in schema.fields if is_finer_than_spark(f.type)]
    fields += [DataField(_FIRST_METADATA_ID - _NANOSECONDS - f.id, NANOSECONDS + f.name, BIGINT) for f in fine]
    if tracks_rows:
        fields.append(DataField(ROW_ID_FIELD_ID, ROW_ID, BIGINT))
        fields.append(DataField(SEQUENCE_NUMBER_ID, SEQUENCE_NUMBER, BIGINT))
    return fields


@dataclass(frozen=True, slots=True)
class Increment:
    """Files of a bucket that are added and deleted together. All exist in the store before the commit.

    Attributes:
        new_files: data files added.
        deleted_files: data files of the snapshot read that are replaced, exactly as its manifests describe them.
        changelog_files: changelog files added.
        new_index_files: index files added (`kind` is not looked at). A HASH file replaces the one of its bucket,
            which need not be named in `deleted_index_files`; the one that a deletion vector file replaces must be.
        deleted_index_files: index files of the snapshot read that are replaced.
    """

    new_files: tuple[DataFileMeta, ...] = ()
    deleted_files: tuple[DataFileMeta, ...] = ()
    changelog_files: tuple[DataFileMeta, ...] = ()
    new_index_files: tuple[IndexManifestEntry, ...] = ()
    deleted_index_files: tuple[IndexManifestEntry, ...] = ()

    def __bool__(self) -> bool:
        return bool(
            self.new_files
            or self.deleted_files
            or self.changelog_files
            or self.new_index_files
            or self.deleted_index_files
        )


NOTHING = Increment()


class RowCounts(NamedTuple):
    """Numbers of rows; None where a number is unknown."""

    inserted: int | None = 0
    updated: int | None = 0
    deleted: int | None = 0

    @classmethod
    def total(cls, counts: Iterable[RowCounts]) -> RowCounts:
        """The sums; None where one of the numbers is unknown."""
        return cls(*(sum_if_known(column) for column in zip(cls(), *counts, strict=True)))


def sum_if_known(numbers: Iterable[int | None]) -> int | None:
    """The sum; None if one of the numbers is."""
    known = list(numbers)
    return None if None in known else sum(n for n in known if n is not None)


NO_ROWS = RowCounts()
UNKNOWN_ROWS = RowCounts(None, None, None)


@dataclass(frozen=True, slots=True)
class CommitMessage:
    """Changes of one bucket. Picklable; holds no client and no open file.

    Attributes:
        partition: BinaryRow bytes of the partition columns, with arity prefix.
        bucket: bucket number.
        total_buckets: what `_TOTAL_BUCKETS` of its entries becomes: the bucket count of the partition, -1 or -2.
        data: what rows written did; becomes a snapshot of kind APPEND, or OVERWRITE when it deletes anything.
        compact: what a compaction did; becomes a snapshot of kind COMPACT after the other.
        rows: the rows that its writer was given, by kind: +I, +U, -D. The first message of a writer has them all.
    """

    partition: bytes
    bucket: int
    total_buckets: int
    data: Increment = field(default=NOTHING)
    compact: Increment = field(default=NOTHING)
    rows: RowCounts = field(default=NO_ROWS, compare=False)
