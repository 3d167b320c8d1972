"""MemoryIndex: lineage tables that are dictionaries, over histories that a test makes up."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from paimon_spark.engine.commit.requests import BATCH_COMMIT_IDENTIFIER
from paimon_spark.format.metadata_files.snapshot import CommitKind, Snapshot
from paimon_spark.lineage.index.provenance import Provenance, TableRef, encode_provenance
from paimon_spark.lineage.index.tables import CATALOG_OPTIONS, TABLES, Definition, Rows
from paimon_spark.lineage.index.warehouse import Warehouse
from paimon_spark.predicate.arrow import matches
from paimon_spark.predicate.parse import parse_predicate
from paimon_spark.storage.urls import open_store
from paimon_spark.types import BIGINT, STRING, DataField, RowType


def memory_warehouse() -> Warehouse:
    """A new empty warehouse in the memory of this process."""
    return Warehouse(*open_store(f"memory:///{uuid.uuid4().hex}/wh"))


def ref_of(name: str) -> TableRef:
    """`db.t` or `db.t$branch_fix`."""
    return TableRef.parse(name)


@dataclass
class MemoryIndex:
    """An Index whose tables and histories are plain values. Safe for threads.

    Attributes:
        tables: name of a lineage table → primary key → row.
        histories: of each branch the snapshots alive, oldest first.
        tags: of each branch its tags.
        failures: raised by the next calls of `upsert`, one each; None lets one pass.
        upserts: what was written, call by call.
        reads: conditions that were asked, with their tables.
        snapshots_read: how many snapshots were taken out of `snapshots`.
    """

    warehouse: Warehouse = field(default_factory=memory_warehouse)
    is_there: bool = True
    tables: dict[str, dict[tuple[Any, ...], tuple[Any, ...]]] = field(default_factory=lambda: {n: {} for n in TABLES})
    histories: dict[TableRef, list[Snapshot]] = field(default_factory=dict)
    tags: dict[TableRef, dict[str, Snapshot]] = field(default_factory=dict)
    failures: list[Exception | None] = field(default_factory=list)
    upserts: list[Rows] = field(default_factory=list)
    reads: list[tuple[str, str | None]] = field(default_factory=list)
    snapshots_read: int = 0
    lock: Any = field(default_factory=threading.RLock, repr=False)
    _made: int = 0

    # --- the Index

    def exists(self) -> bool:
        return self.is_there

    def create(self) -> None:
        self.is_there = True

    def options(self) -> dict[str, str]:
        return dict(self.rows(CATALOG_OPTIONS)) if self.is_there else {}

    def read(self, table: Definition, where: str | None = None) -> pa.Table:
        with self.lock:
            self.reads.append((table.name, where))
            rows = list(self.tables[table.name].values()) if self.is_there else []
        columns = list(zip(*rows, strict=True)) or [()] * len(table.columns)
        arrays = [pa.array(c, t) for c, t in zip(columns, table.columns.values(), strict=True)]
        found = pa.Table.from_arrays(arrays, schema=table.schema)
        if where is None:
            return found
        return found.filter(matches(parse_predicate(where, row_type(table)), found))

    def upsert(self, rows: Rows) -> None:
        with self.lock:
            failure = self.failures.pop(0) if self.failures else None
            if failure is not None:
                raise failure
            self.upserts.append({name: list(some) for name, some in rows.items()})
            for name, some in rows.items():
                definition = TABLES[name]
                for row in some:
                    assert len(row) == len(definition.columns), (name, row)
                    self.tables[name][_key(definition, row)] = tuple(row)

    def delete(self, table: Definition, where: str) -> int:
        with self.lock:
            gone = self.read(table, where).to_pylist()
            for row in gone:
                del self.tables[table.name][tuple(row[k] for k in table.keys)]
            return len(gone)

    def refs(self) -> Iterator[TableRef]:
        yield from sorted(self.histories)

    def table_names(self) -> Iterator[tuple[str, str]]:
        yield from sorted({(ref.database, ref.bare) for ref in self.histories})

    def branches(self, database: str, table: str) -> Iterator[TableRef]:
        yield from sorted(ref for ref in self.histories if (ref.database, ref.bare) == (database, table))

    def snapshots(self, ref: TableRef, after: int = 0) -> Iterator[Snapshot]:
        for snapshot in reversed(list(self.histories.get(ref, ()))):
            if snapshot.id <= after:
                return
            self.snapshots_read += 1
            yield snapshot

    def tagged(self, ref: TableRef) -> Mapping[str, Snapshot]:
        return dict(self.tags.get(ref, {}))

    # --- what tests do

    def rows(self, table: Definition) -> list[tuple[Any, ...]]:
        """The rows of a lineage table, sorted."""
        with self.lock:
            return sorted(self.tables[table.name].values())

    def everything(self) -> dict[str, list[tuple[Any, ...]]]:
        """All rows of all lineage tables but the options, sorted."""
        return {d.name: self.rows(d) for d in TABLES.values() if d is not CATALOG_OPTIONS}

    def switch_on(self, *, data: bool = True) -> MemoryIndex:
        """Lineage is on in the warehouse."""
        options = [("table-lineage", "true"), *([("data-lineage", "true")] if data else [])]
        self.tables[CATALOG_OPTIONS.name] = {(k,): (k, v) for k, v in options}
        return self

    def drop_tables(self) -> None:
        """The database of lineage is deleted, with lineage's own files, and made anew."""
        self.tables = {n: {} for n in TABLES}
        self.warehouse.store.delete_tree(f"{self.warehouse.root}/paimon.db")

    def commit(
        self,
        ref: TableRef | str,
        provenance: Provenance | None = None,
        *,
        kind: CommitKind = CommitKind.APPEND,
        time_ms: int | None = None,
        properties: Mapping[str, str] | None = None,
        identifier: int | None = None,
    ) -> Snapshot:
        """A snapshot more; its time is its id times 1000, and its identifier its barrier, unless given."""
        history = self.histories.setdefault(ref_of(ref) if isinstance(ref, str) else ref, [])
        self._made = made = self._made + 1
        snapshot_id = history[-1].id + 1 if history else 1
        if identifier is None:
            identifier = BATCH_COMMIT_IDENTIFIER if provenance is None else provenance.barrier
        said = {**({} if provenance is None else encode_provenance(provenance)), **(properties or {})}
        snapshot = Snapshot(
            id=snapshot_id,
            schema_id=0,
            base_manifest_list=f"manifest-list-{made}-0",
            delta_manifest_list=f"manifest-list-{made}-1",
            commit_user="user",
            commit_identifier=identifier,
            commit_kind=kind,
            time_ms=snapshot_id * 1000 if time_ms is None else time_ms,
            properties=said or None,
        )
        history.append(snapshot)
        return snapshot

    def roll_back(self, ref: TableRef | str, snapshot_id: int) -> None:
        """Snapshots newer than one go, with the tags on them."""
        ref = ref_of(ref) if isinstance(ref, str) else ref
        self.histories[ref] = [s for s in self.histories.get(ref, []) if s.id <= snapshot_id]
        self.tags[ref] = {n: s for n, s in self.tags.get(ref, {}).items() if s.id <= snapshot_id}

    def expire(self, ref: TableRef | str, before: int) -> None:
        """Snapshots older than one go, but never the newest."""
        ref = ref_of(ref) if isinstance(ref, str) else ref
        history = self.histories.get(ref, [])
        self.histories[ref] = [s for s in history[:-1] if s.id >= before] + history[-1:]

    def tag(self, ref: TableRef | str, name: str, snapshot_id: int) -> None:
        ref = ref_of(ref) if isinstance(ref, str) else ref
        found = next(s for s in self.histories[ref] if s.id == snapshot_id)
        self.tags.setdefault(ref, {})[name] = found

    def drop(self, ref: TableRef | str) -> None:
        """The branch goes, with its tags."""
        ref = ref_of(ref) if isinstance(ref, str) else ref
        self.histories.pop(ref, None)
        self.tags.pop(ref, None)


def row_type(table: Definition) -> RowType:
    """The columns of a lineage table as Paimon types."""
    types = {pa.string(): STRING, pa.int64(): BIGINT}
    return RowType(fields=tuple(DataField(i, n, types[t]) for i, (n, t) in enumerate(table.columns.items())))


def _key(table: Definition, row: tuple[Any, ...]) -> tuple[Any, ...]:
    names = list(table.columns)
    return tuple(row[names.index(k)] for k in table.keys)
