"""Open the stream that a user's options ask for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from paimon_spark.engine.tasks import output_type
from paimon_spark.jobs.opened_table import find_place, open_place
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.options.scan import ScanOptions, canonical
from paimon_spark.options.stream_read import (
    STREAM_OPTIONS,
    StreamReadOptions,
    parse_rows_options,
    parse_stream_options,
)
from paimon_spark.streaming.source import check_stream
from paimon_spark.types import ROW_KIND_COLUMN, RowType

if TYPE_CHECKING:
    from paimon_spark.streaming.source import StreamSource


class OpenStream(NamedTuple):
    """A stream, with what it was made of.

    Attributes:
        handle: the branch as it was when the stream was opened.
        options: with those that the table stores.
    """

    source: StreamSource
    handle: TableHandle
    options: StreamReadOptions


def open_stream(path: str, options: Mapping[str, str]) -> StreamSource:
    """The stream that `options` ask for, of the table as it is now. Nothing is planned.

    Options that are not given are those that the table stores; their keys are in any case.

    Raises:
        InvalidOptionError: an option is unknown or wrong, or `path` names a system table.
        UnsupportedFeatureError: a kind of stream that this package does not have.
        TableNotFoundError, BranchNotFoundError: it does not exist.
        ColumnNotFoundError: there is no such column.
    """
    return open_columns(path, options, None).source


def open_columns(path: str, options: Mapping[str, str], columns: Sequence[str] | None) -> OpenStream:
    """The same stream with `columns` in place of those that `options` name. Raises as `open_stream`."""
    from paimon_spark.streaming.source import StreamSource  # callers that only need the columns plan nothing

    handle, asked = _opened(path, options)
    if columns is not None:
        names = [n for n in columns if not (asked.rows.row_kind and n.lower() == ROW_KIND_COLUMN)]
        asked = replace(asked, rows=replace(asked.rows, columns=tuple(names)))
    return OpenStream(StreamSource(handle, asked), handle, asked)


def stream_row_type(path: str, options: Mapping[str, str], *, checked: bool = True) -> RowType:
    """The columns of such a stream, by the newest schema of the branch.

    Raises as `open_stream`; unless `checked`, nothing that concerns its start, or the kind of stream.
    """
    handle, rows = _opened_table(path, options)
    if checked:
        check_stream(handle, parse_stream_options(options, handle.schema.options))
    return output_type(
        handle.schema,
        rows.columns,
        table=handle.describe(),
        tracks_rows=handle.options.row_tracking,
        row_kind=rows.row_kind,
    )


def asks_for_stream(options: Mapping[str, str]) -> bool:
    """Whether an option is given that only streams have."""
    given = canonical(options)
    return any(known.is_set(given) for known in STREAM_OPTIONS)


def _opened(path: str, options: Mapping[str, str]) -> tuple[TableHandle, StreamReadOptions]:
    handle, _ = _opened_table(path, options)
    asked = parse_stream_options(options, handle.schema.options)
    check_stream(handle, asked)
    return handle, asked


def _opened_table(path: str, options: Mapping[str, str]) -> tuple[TableHandle, ScanOptions]:
    given = canonical(options)
    rows = parse_rows_options(given)
    place = find_place(
        path,
        given,
        rows.branch,
        rows.storage_options,
        advice="which is no stream; spark.read reads it, and spark.readStream reads",
        is_read=True,
    )
    return open_place(place, rows.table_options), rows
