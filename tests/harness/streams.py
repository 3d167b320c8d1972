"""Streams of tables without Spark: names of the files that a batch reads, and offsets as checkpoints give them back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import paimon_spark
from paimon_spark.api.table import Table
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.options.stream_read import ReadLimits, parse_stream_options
from paimon_spark.streaming.offset import StreamOffset, decode, encode
from paimon_spark.streaming.source import StreamSource
from tests.harness.history import History


def stream(handle: TableHandle, /, *, around: dict[str, Any] | None = None, **options: str) -> StreamSource:
    """Options are written with `_` for `-`, and `__` for `.`. Waits take no time."""
    given = {k.replace("__", ".").replace("_", "-"): v for k, v in options.items()}
    asked = parse_stream_options(given, handle.schema.options)
    return StreamSource(handle, asked, **{"sleep": lambda _: None, **(around or {})})


def again(offset: StreamOffset) -> StreamOffset:
    """The offset as a checkpoint gives it back."""
    return decode(json.loads(json.dumps(encode(offset))))


def names(source: StreamSource, start: StreamOffset, end: StreamOffset) -> list[str]:
    """Names of the files between two offsets, in the order of the plan; -name for rows that went."""
    out = []
    for split in source.plan(start, end).splits:
        out += [f"-{f.file_name}" for f in split.before_files]
        out += [f.file_name for f in split.files]
    return out


def batches(
    source: StreamSource, start: StreamOffset, limits: ReadLimits | None = None
) -> Iterator[tuple[StreamOffset, list[str]]]:
    """Yield the batches up to the head: where each ends, and its files."""
    while (end := source.next(start, limits)) != start:
        yield end, names(source, start, end)
        start = again(end)


def table_of(history: History, branch: str = "main") -> Table:
    """The table as users have it."""
    return paimon_spark.load_table(f"memory://{history.root}", branch=branch)
