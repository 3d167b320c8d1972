"""Avro containers as fastavro writes them, with any codec and size of blocks."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import fastavro


def avro_file(schema: Any, rows: Sequence[Any], *, codec: str = "zstandard", sync_interval: int = 64_000) -> bytes:
    """A container of `rows`."""
    out = io.BytesIO()
    fastavro.writer(out, fastavro.parse_schema(schema), rows, codec=codec, sync_interval=sync_interval)
    return out.getvalue()
