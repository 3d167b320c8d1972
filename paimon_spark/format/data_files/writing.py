"""What a writer of data files is asked and gives back, whatever the format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import pyarrow as pa

from paimon_spark.storage.store import Store
from paimon_spark.types import DataField


@dataclass(frozen=True, slots=True)
class FileWrite:
    """One data file to write.

    Attributes:
        store, path: where; nothing is there yet.
        format: `parquet`, `orc` or `avro`.
        fields: columns of the file in order, with field ids; key and system columns included.
        compression: codec as the option names it, such as `zstd`; None is the format's default of Paimon.
        zstd_level: for zstd.
        row_is_nullable: Avro only: the top level is a union with null, as append files of Java are.
        settings: options of the format itself (`parquet.…`, `orc.…`, `avro.…`) as text, prefix included.
        row_group_bytes: bytes of rows in memory that become a row group or stripe; None is the format's default.
        row_group_rows: most rows of a row group, about.
    """

    store: Store
    path: str
    format: str
    fields: tuple[DataField, ...]
    compression: str | None = None
    zstd_level: int = 1
    row_is_nullable: bool = True
    settings: Mapping[str, str] = field(default_factory=dict)
    row_group_bytes: int | None = None
    row_group_rows: int = 1 << 20


class WrittenFile(NamedTuple):
    """What became of a file: bytes and physical rows."""

    file_size: int
    row_count: int


class FileWriter(Protocol):
    """An open data file. Batches have the canonical Arrow types of the fields (`spec.arrow`), in their order."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows; they may stay in memory until a row group is full."""
        ...

    @property
    def estimated_bytes(self) -> int:
        """About how large the file would be if closed now; decides when to roll."""
        ...

    @property
    def buffered_bytes(self) -> int:
        """Memory of rows that wait for their row group to fill."""
        ...

    def flush(self) -> None:
        """Write what is buffered, though it may make a small row group."""
        ...

    def close(self) -> WrittenFile:
        """Finish the file. Raises StorageError; then `abort` is still to be called."""
        ...

    def abort(self) -> None:
        """Close without finishing and delete what is there. Raises nothing."""
        ...
