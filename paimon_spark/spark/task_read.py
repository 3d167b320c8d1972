"""What executors run: splits of a plan → Arrow batches. Nothing here knows of planning.

Spark starts a new Python worker whenever a query stopped before its end (`LIMIT`), and each new worker imports what
the pickled reader names: this module keeps that short.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from paimon_spark.spark.stream_worker import settle

if TYPE_CHECKING:
    import pyarrow as pa

    from paimon_spark.engine.tasks.split import DataSplit, ReadRequest


class SplitsPartition(InputPartition):
    """What one task reads."""

    def __init__(self, splits: tuple[DataSplit, ...], note: bytes | None = None) -> None:
        """Args: note: what the task writes down before it reads (`noting.note`): the first one of a plan may."""
        super().__init__(None)
        self.splits = splits
        self.note = note

    def __repr__(self) -> str:
        files = sum(len(s.files) for s in self.splits)
        return f"SplitsPartition({len(self.splits)} splits, {files} files)"


@dataclass(frozen=True)
class TaskReader:
    """Reads partitions on executors. Picklable; touches no metadata file.

    Attributes:
        requests: by branch.
        names: columns in the order of `target`, as the table calls them.
        target: the Arrow schema that Spark demands.
        table_name: how messages call the table.
    """

    requests: Mapping[str, ReadRequest]
    names: tuple[str, ...]
    target: pa.Schema
    table_name: str

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a group of splits, as Spark's Arrow schema wants them."""
        # Spark makes a partition of its own when there are none.
        splits = partition.splits if isinstance(partition, SplitsPartition) else ()
        if isinstance(partition, SplitsPartition) and partition.note is not None:
            from paimon_spark.spark.noting import note

            note(partition.note)
        return self._read(splits) if splits else iter(())

    def _read(self, splits: Sequence[DataSplit]) -> Iterator[pa.RecordBatch]:
        from paimon_spark.engine.read.split_reader import read_split
        from paimon_spark.format.casts.conformance import fit

        for split in splits:
            batches = read_split(self.requests[split.branch], split)
            yield from fit(batches, self.names, self.target, self.table_name)


class StreamPartition(SplitsPartition):
    """What one task reads of a micro-batch, with how: another batch may be read otherwise."""

    def __init__(self, splits: tuple[DataSplit, ...], shared: bytes, note: bytes | None = None) -> None:
        """Args: shared: pickled requests, names and table name of a `TaskReader`, the same for a whole batch."""
        super().__init__(splits, note)
        self.shared = shared


@dataclass(frozen=True)
class StreamTaskReader:
    """Reads the partitions of every micro-batch of a query on executors. Picklable.

    Attributes:
        target: the Arrow schema that Spark demands.
    """

    target: pa.Schema

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a group of splits, as Spark's Arrow schema wants them."""
        assert isinstance(partition, StreamPartition)
        requests, names, table_name = pickle.loads(partition.shared)  # noqa: S301 - bytes that Spark carried for us
        yield from TaskReader(requests, names, self.target, table_name).read(partition)
        settle()
