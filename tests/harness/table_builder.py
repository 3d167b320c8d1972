"""Tables in memory with real manifests, for tests of planning: files that have statistics but no bytes."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import fastavro

from paimon_spark.format import binary_row
from paimon_spark.format.metadata_files.data_file import FileSource
from paimon_spark.format.metadata_files.snapshot import CommitKind, Snapshot
from paimon_spark.format.metadata_files.table_schema import TableSchema
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.types import DataType, RowType
from tests.harness.manifests import LIST_SCHEMA, entry_schema, index_schema
from tests.harness.tables import MetadataTable

Row = Mapping[str, Any]


@dataclass(frozen=True)
class File:
    """A data file as a test states it.

    Attributes:
        low, high: smallest and largest value by column; columns left out have unknown bounds.
        nulls: null counts by column; columns left out are not counted.
        low_key, high_key: first and last key; default is `low` and `high` of the key columns.
        stats_cols: columns with statistics; None states all columns of the schema.
        source: what wrote the file; None for a compaction above level 0, an append at level 0.
    """

    name: str
    partition: Row = field(default_factory=dict)
    bucket: int = 0
    total_buckets: int = -1
    level: int = 0
    size: int = 1000
    rows: int = 10
    low: Row = field(default_factory=dict)
    high: Row = field(default_factory=dict)
    nulls: Row = field(default_factory=dict)
    low_key: Row | None = None
    high_key: Row | None = None
    sequence: tuple[int, int] = (0, 9)
    schema_id: int = 0
    deletes: int | None = 0
    stats_cols: tuple[str, ...] | None = None
    external_path: str | None = None
    first_row_id: int | None = None
    write_cols: tuple[str, ...] | None = None
    created_ms: int = 0
    source: FileSource | None = None


@dataclass
class TableBuilder:
    """A table that is committed to file by file."""

    schema: TableSchema
    table: MetadataTable = field(default_factory=MetadataTable)
    branch: str = "main"
    schemas: dict[int, TableSchema] = field(default_factory=dict)
    manifests: list[dict[str, Any]] = field(default_factory=list)
    last: Snapshot | None = None
    commits: int = 0

    def __post_init__(self) -> None:
        self.evolve(self.schema)

    def evolve(self, schema: TableSchema) -> TableBuilder:
        self.schema = schema
        self.schemas[schema.id] = schema
        self.table.schema(schema, self.branch)
        return self

    def commit(
        self,
        *adds: File,
        deletes: Sequence[File] = (),
        kind: CommitKind = CommitKind.APPEND,
        vectors: Mapping[str, tuple[int, int | None]] | None = None,
        changelog: Sequence[File] = (),
        old_writer: bool = False,
        next_row_id: int | None = None,
    ) -> Snapshot:
        """One more snapshot, with one manifest.

        Args:
            vectors: the snapshot's deletion vectors: (offset, deleted rows) by data file name.
            old_writer: leave out what writers before 1.1 do not know of manifests.
        """
        self.commits += 1
        tag = f"{self.branch}-{self.commits}"
        base = self._list(f"manifest-list-{tag}-0", self.manifests)
        added = self._manifest(f"manifest-{tag}-0", [(1, f) for f in deletes] + [(0, f) for f in adds], old_writer)
        delta = self._list(f"manifest-list-{tag}-1", [added])
        self.manifests = [*self.manifests, added]
        log = None
        if changelog:
            entries = self._manifest(f"manifest-{tag}-1", [(0, f) for f in changelog], old_writer)
            log = self._list(f"manifest-list-{tag}-2", [entries])
        index = self.last.index_manifest if self.last else None
        if vectors is not None:
            index = self._index(f"index-manifest-{tag}", vectors, [*adds, *self._files])
        self._files = [f for f in [*self._files, *adds] if f not in deletes]
        snapshot_id = self.last.id + 1 if self.last else 1
        self.last = Snapshot(
            snapshot_id, self.schema.id, base, delta, "tests", snapshot_id, kind, snapshot_id * 1000,
            changelog_manifest_list=log, index_manifest=index, next_row_id=next_row_id,
        )  # fmt: skip
        self.table.snapshots([self.last], self.branch)
        self.table.hint("LATEST", str(snapshot_id), self.branch)
        return self.last

    _files: list[File] = field(default_factory=list)

    def open(self, **options: str) -> TableHandle:
        return self.table.open(self.branch, **options)

    def _write(self, name: str, schema: dict[str, Any], records: list[dict[str, Any]]) -> int:
        out = io.BytesIO()
        fastavro.writer(out, schema, records, codec="zstandard")
        self.table.put(f"{self.table.root}/manifest/{name}", out.getvalue())
        return len(out.getvalue())

    def _list(self, name: str, metas: list[dict[str, Any]]) -> str:
        self._write(name, LIST_SCHEMA, metas)
        return name

    def _manifest(self, name: str, entries: list[tuple[int, File]], old_writer: bool) -> dict[str, Any]:
        size = self._write(name, entry_schema(), [self._entry(kind, f) for kind, f in entries])
        files = [f for _, f in entries]
        types = [f.type for f in self.schema.partition_type]
        columns = [[f.partition.get(n) for f in files] for n in self.schema.partition_keys]
        present = [[v for v in column if v is not None] for column in columns]
        stats = {
            "_MIN_VALUES": binary_row.encode([min(p, default=None) for p in present], types),
            "_MAX_VALUES": binary_row.encode([max(p, default=None) for p in present], types),
            "_NULL_COUNTS": [column.count(None) for column in columns],
        }
        meta = {
            "_VERSION": 2, "_FILE_NAME": name, "_FILE_SIZE": size,
            "_NUM_ADDED_FILES": sum(k == 0 for k, _ in entries),
            "_NUM_DELETED_FILES": sum(k == 1 for k, _ in entries),
            "_PARTITION_STATS": stats, "_SCHEMA_ID": self.schema.id,
        }  # fmt: skip
        if files and not old_writer:
            meta |= {
                "_MIN_BUCKET": min(f.bucket for f in files), "_MAX_BUCKET": max(f.bucket for f in files),
                "_MIN_LEVEL": min(f.level for f in files), "_MAX_LEVEL": max(f.level for f in files),
            }  # fmt: skip
        return meta

    def _entry(self, kind: int, f: File) -> dict[str, Any]:
        schema = self.schemas[f.schema_id]
        key = schema.key_type if schema.primary_keys else RowType(False, ())
        low_key, high_key = f.low_key or f.low, f.high_key or f.high
        names = f.stats_cols if f.stats_cols is not None else f.write_cols or schema.row_type.names
        known = RowType(False, tuple(schema.row_type.field(n) for n in names if n in schema.row_type.names))
        return {
            "_VERSION": 2,
            "_KIND": kind,
            "_PARTITION": self.partition(f.partition),
            "_BUCKET": f.bucket,
            "_TOTAL_BUCKETS": f.total_buckets,
            "_FILE": {
                "_FILE_NAME": f.name,
                "_FILE_SIZE": f.size,
                "_ROW_COUNT": f.rows,
                "_MIN_KEY": _row(low_key, key),
                "_MAX_KEY": _row(high_key, key),
                "_KEY_STATS": _stats(f, key),
                "_VALUE_STATS": _stats(f, known),
                "_MIN_SEQUENCE_NUMBER": f.sequence[0],
                "_MAX_SEQUENCE_NUMBER": f.sequence[1],
                "_SCHEMA_ID": f.schema_id,
                "_LEVEL": f.level,
                "_EXTRA_FILES": [],
                "_CREATION_TIME": f.created_ms,
                "_DELETE_ROW_COUNT": f.deletes,
                "_FILE_SOURCE": (FileSource.COMPACT if f.level else FileSource.APPEND)
                if f.source is None
                else f.source,
                "_VALUE_STATS_COLS": None if f.stats_cols is None else list(f.stats_cols),
                "_EXTERNAL_PATH": f.external_path,
                "_FIRST_ROW_ID": f.first_row_id,
                "_WRITE_COLS": None if f.write_cols is None else list(f.write_cols),
            },
        }

    def partition(self, values: Row) -> bytes:
        return _row(values, self.schema.partition_type)

    def _index(self, name: str, vectors: Mapping[str, tuple[int, int | None]], files: Sequence[File]) -> str:
        records = []
        for i, (file_name, (offset, cardinality)) in enumerate(vectors.items()):
            f = next(f for f in files if f.name == file_name)
            records.append(
                {
                    "_VERSION": 1, "_KIND": 0, "_PARTITION": self.partition(f.partition), "_BUCKET": f.bucket,
                    "_INDEX_TYPE": "DELETION_VECTORS", "_FILE_NAME": f"index-{i}", "_FILE_SIZE": 100, "_ROW_COUNT": 1,
                    "_DELETIONS_VECTORS_RANGES": [
                        {"f0": file_name, "f1": offset, "f2": 20, "_CARDINALITY": cardinality}
                    ],
                }
            )  # fmt: skip
        self._write(name, index_schema(), records)
        return name


def _row(values: Row, row_type: RowType) -> bytes:
    types: list[DataType] = [f.type for f in row_type]
    return binary_row.encode([values.get(f.name) for f in row_type], types)


def _stats(f: File, row_type: RowType) -> dict[str, Any]:
    return {
        "_MIN_VALUES": _row(f.low, row_type),
        "_MAX_VALUES": _row(f.high, row_type),
        "_NULL_COUNTS": [f.nulls.get(c.name) for c in row_type],
    }


def named(f: File, name: str, **changes: Any) -> File:
    """The same file under another name."""
    return replace(f, name=name, **changes)
