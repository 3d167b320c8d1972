"""Small tables in memory with a query between them, copied for every run of a test."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import fsspec
import pyarrow as pa

import paimon_spark
from paimon_spark.api.table import Table
from paimon_spark.jobs.read.stream import open_stream
from paimon_spark.jobs.write.stream import plan_stream_write
from paimon_spark.metadata.manifests import CACHE
from tests.harness.mini_engine import Checkpoint, MiniEngine, Tasks

FAST = {"commit.min-retry-wait": "1 ms", "commit.max-retry-wait": "1 ms", "commit.max-retries": "3"}
Row = tuple[int, str]


@dataclass(frozen=True)
class Pair:
    """Two tables `src` and `dst` of the columns k and v, and a query from a branch of one to a branch of the other.

    Attributes:
        keys: of both.
        options: of both.
        read: options of the query's source.
        from_branch, to_branch: what it reads and writes.
        warehouse: where they are.
    """

    keys: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    read: Mapping[str, str] = field(default_factory=dict)
    from_branch: str = "main"
    to_branch: str = "main"
    warehouse: str = field(default_factory=lambda: f"memory://{uuid.uuid4().hex}/wh")

    def url(self, table: str) -> str:
        return f"{self.warehouse}/db.db/{table}"

    def table(self, name: str, branch: str = "main") -> Table:
        return paimon_spark.load_table(self.url(name), branch=branch, **FAST)

    def make(self) -> Pair:
        """Make both tables, empty."""
        catalog = paimon_spark.load_catalog(self.warehouse)
        catalog.create_database("db", ignore_if_exists=True)
        schema = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.string())])
        for name in ("src", "dst"):
            catalog.create_table(f"db.{name}", schema, primary_keys=list(self.keys), options=dict(self.options))
        return self

    def copy(self, other: Pair) -> Pair:
        """Copy the tables of `other`, which are like these."""
        fs = fsspec.filesystem("memory")
        old, new = (pair.warehouse.removeprefix("memory:/") for pair in (other, self))
        for path in fs.find(old):
            fs.pipe_file(new + path[len(old) :], fs.cat_file(path))
        CACHE.clear()
        return self

    def engine(self, checkpoint: Path, tasks: Tasks | None = None) -> MiniEngine:
        """A run of the query that ends once it has what is there."""
        source, sink = self.url("src"), self.url("dst")
        return MiniEngine(
            Checkpoint(checkpoint),
            lambda: open_stream(source, {"path": source, "branch": self.from_branch, **self.read}),
            lambda columns: plan_stream_write({"path": sink, "branch": self.to_branch, **FAST}, False, columns, None),
            tasks or Tasks(),
        )

    def rows(self, table: str, branch: str) -> Counter[Row]:
        """All rows of a branch."""
        CACHE.clear()
        return Counter((r["k"], r["v"]) for r in self.table(table, branch).scan().to_arrow().to_pylist())

    def read_rows(self) -> Counter[Row]:
        return self.rows("src", self.from_branch)

    def written_rows(self) -> Counter[Row]:
        return self.rows("dst", self.to_branch)


def rows(*items: Row) -> pa.Table:
    """Rows to write."""
    return pa.table({"k": pa.array([k for k, _ in items], pa.int64()), "v": pa.array([v for _, v in items])})


Move = Callable[[Pair], object]
