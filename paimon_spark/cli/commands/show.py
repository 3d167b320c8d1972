"""Rows of a table, without Spark."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from paimon_spark.cli.answer import Answer, rows
from paimon_spark.cli.call import Call
from paimon_spark.cli.command import Argument, Command
from paimon_spark.cli.commands.table import columns_text

if TYPE_CHECKING:
    import pyarrow as pa


def limit_of(text: str) -> int | None:
    """A number of rows; None for `all`. Raises ValueError."""
    if text.lower() == "all":
        return None
    if not text.isdecimal():
        raise ValueError("expected 0 or more, or all")
    return int(text)


def _show(call: Call) -> Answer:
    table = call.table()
    version = call["version"]
    scan = (table if version is None else table.at(version)).scan(columns=call["columns"], where=call["where"])
    names = scan.arrow_schema.names
    found, has_more = some_rows(scan.to_batches(), call["limit"])
    note = f"and more; --limit shows other than {call['limit']} rows" if has_more else ""
    return rows(names, found, empty="no rows", note=note)


def some_rows(batches: Iterator[pa.RecordBatch], limit: int | None) -> tuple[list[tuple[Any, ...]], bool]:
    """The first rows, and whether there are more; no more batches are read than they need."""

    def each() -> Iterator[tuple[Any, ...]]:
        for batch in batches:
            columns = [values_of(column) for column in batch.columns]
            yield from zip(*columns, strict=True) if columns else itertools.repeat((), batch.num_rows)

    every = each()
    found = list(itertools.islice(every, limit))
    return found, limit is not None and next(every, None) is not None


def values_of(column: pa.Array) -> list[Any]:
    """Python values; text where Python has no such value, as of timestamps of nanoseconds."""
    import pyarrow as pa

    try:
        values: list[Any] = column.to_pylist()
    except (pa.ArrowException, ValueError, OverflowError):
        values = column.cast(pa.string()).to_pylist()
    return values


COMMANDS = (
    Command(
        "show",
        None,
        "print rows of a table, a version or a system table such as 'db.t$files'; no Spark is needed",
        _show,
        (
            Argument("columns", "columns, with commas between", parse=columns_text, spellings=("-c",)),
            Argument("where", "SQL condition"),
            Argument("version", "tag, snapshot id, branch or any version"),
            Argument("limit", "at most so many rows, or all", default=20, parse=limit_of, spellings=("-n",)),
        ),
        aliases=("scan", "head"),
    ),
)
