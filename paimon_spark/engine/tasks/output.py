"""Find the columns that a read returns, and their types."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from paimon_spark.engine.tasks.split import BUCKET, FILE_PATH, METADATA_COLUMNS, NANOSECONDS, PARTITION, ROW_INDEX
from paimon_spark.errors import ColumnNotFoundError, InvalidOptionError
from paimon_spark.format.metadata_files.table_schema import TableSchema
from paimon_spark.options.descriptor import did_you_mean
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
