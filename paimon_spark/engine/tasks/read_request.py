"""ReadRequest: everything besides the split that a reading task needs, so that it touches no metadata file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from paimon_spark.format.metadata_files.table_schema import TableSchema
from paimon_spark.options.table import TableOptions
from paimon_spark.predicate.ast import Predicate
from paimon_spark.storage.store import Store

FILE_PATH: Final = "__paimon_file_path"
ROW_INDEX: Final = "__paimon_row_index"
PARTITION: Final = "__paimon_partition"
BUCKET: Final = "__paimon_bucket"
METADATA_COLUMNS: Final = (FILE_PATH, ROW_INDEX, PARTITION, BUCKET)


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """What to read from the splits of one branch.

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
