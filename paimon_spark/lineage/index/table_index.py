"""TableIndex: reads and writes the lineage tables of a warehouse as Paimon tables.

A flush is one small commit to each table that has rows; it looks up nothing that is known from the one before, and
neither compacts nor expires. The writer of every snapshot whose id is a multiple of `COMPACT_EVERY` compacts the table
and expires snapshots, so that many short jobs keep it in order as well as one long one.

Source: PIP-5; `tables.py` for the content of the tables.
Tests: tests/unit/lineage/index/test_table_index.py, tests/unit/lineage/index/test_table_index_s3.py
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeVar

import pyarrow as pa

from paimon_spark.catalogs.file_system import TablePlace
from paimon_spark.engine.commit.committer import Committer, new_commit_user
from paimon_spark.engine.write.request import new_job
from paimon_spark.errors import (
    BranchNotFoundError,
    CommitConflictError,
    CommitError,
    CommitOutcomeUnknownError,
    CommitRetriesExhaustedError,
    CorruptFileError,
    FileMissingError,
    InvalidOptionError,
    OperationInProgressError,
    PaimonError,
    SchemaMismatchError,
    SnapshotExpiredError,
    TableAlreadyExistsError,
    TableNotFoundError,
    UnsupportedFeatureError,
)
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.jobs.read.scan import Scan
from paimon_spark.jobs.upkeep.after_commit import after_commit
from paimon_spark.jobs.write.batch import WriteJob, plan_write
from paimon_spark.lineage.index.provenance import TableRef
from paimon_spark.lineage.index.tables import CATALOG_OPTIONS, TABLES, Definition, Rows
from paimon_spark.lineage.index.warehouse import DATABASE, Warehouse
from paimon_spark.metadata.definition import from_arrow
from paimon_spark.metadata.definition.create import create_table
from paimon_spark.metadata.handle import TableHandle, is_table, open_table, read_main_branch, visible_branch_names
from paimon_spark.metadata.layout import MAIN, Layout
from paimon_spark.metadata.retry import retry
from paimon_spark.metadata.schemas import list_schema_ids
from paimon_spark.metadata.snapshots import find_snapshot, latest_snapshot, list_snapshot_ids, read_snapshots
from paimon_spark.metadata.tags import list_tags
from paimon_spark.options.location import DATABASE_SUFFIX
from paimon_spark.options.scan import ScanOptions
from paimon_spark.options.write import MAX_RETRIES, MAX_RETRY_WAIT, WRITE_ONLY
from paimon_spark.options.write_request import BatchWriteOptions, WriteMode
from paimon_spark.redaction import get_logger
from paimon_spark.storage.local import within
from paimon_spark.storage.store import FileInfo, Store
from paimon_spark.types import VALUE_KIND, RowKind

if TYPE_CHECKING:
    from paimon_spark.engine.compaction.task import BucketTask
    from paimon_spark.engine.tasks import CommitMessage

T = TypeVar("T")

_LOG = get_logger(__name__)

COMPACT_EVERY: Final = 10
"""Snapshots of a lineage table between two compactions."""

OPTIONS: Final[Mapping[str, str]] = {
    # One bucket: the rows of a look-up lie side by side in key order, and a flush is one file.
    "bucket": "1",
    # A million rows or so: a look-up by job and barrier reads one such file, and compaction rewrites few.
    "target-file-size": "4 mb",
    "snapshot.time-retained": "10 min",
    "snapshot.num-retained.min": "5",
    "snapshot.num-retained.max": "100",
    "snapshot.expire.limit": "200",
}
"""Stored options of lineage tables. Whatever else Paimon has by default is what any engine reads."""

_ATTEMPTS: Final = 5
_FLUSH: Final[Mapping[str, str]] = {
    WRITE_ONLY.key: "true",
    # Many processes may flush at the same moment; each of their commits takes a few round trips.
    MAX_RETRIES.key: "60",
    MAX_RETRY_WAIT.key: "500 ms",
}
"""Options in force for flushes."""
_HEAD_MOST: Final = 64
"""Snapshots read together on the way down from the head."""
_STALE: Final = (CommitConflictError, CommitOutcomeUnknownError, SchemaMismatchError, SnapshotExpiredError)
"""Errors after which the table is opened again: rows written twice are the same rows."""
_REMEMBERED: Final = 600
_HANDLES: Final[dict[tuple[tuple[str, str], str], TableHandle]] = {}
"""Lineage tables that this process has opened."""


def open_index(warehouse: Warehouse) -> TableIndex:
    """The lineage tables of a warehouse, whether there are any or not. Reads nothing."""
    return TableIndex(warehouse)


@dataclass(frozen=True, slots=True)
class TableIndex:
    """An `Index` over the tables of `<warehouse>/paimon.db/`. Safe for threads; picklable."""

    warehouse: Warehouse

    def exists(self) -> bool:
        """Whether there are lineage tables."""
        return self._is_there(CATALOG_OPTIONS)

    def create(self) -> None:
        """Make the database and those of the tables that are missing. Safe to race."""
        # The last one is there once all are.
        for definition in (*(d for d in TABLES.values() if d is not CATALOG_OPTIONS), CATALOG_OPTIONS):
            if not self._is_there(definition):
                self._make(definition)

    def options(self) -> dict[str, str]:
        """Rows of `catalog_options`; empty when there are no lineage tables."""
        rows = self.read(CATALOG_OPTIONS)
        return dict(zip(rows.column("key").to_pylist(), rows.column("value").to_pylist(), strict=True))

    def read(self, table: Definition, where: str | None = None) -> pa.Table:
        """Rows of a lineage table, in the order of its columns. Empty when there are no lineage tables."""
        try:
            options = ScanOptions(columns=tuple(table.columns), where=where)
            found = self._with_handle(table, lambda handle: Scan(handle, options).to_arrow())
        except TableNotFoundError:
            return table.schema.empty_table()
        # A table that others made may hold nulls; such rows are no lineage.
        return found.drop_null().cast(table.schema)

    def upsert(self, rows: Rows) -> None:
        """Write rows, one commit for each table that has some. Safe to repeat and to race."""
        for name, values in rows.items():
            if values:
                self._write(TABLES[name], TABLES[name].to_arrow(values))

    def delete(self, table: Definition, where: str) -> int:
        """Remove the rows for which `where` is true; how many there were."""
        rows = self.read(table, where)
        if len(rows):
            kinds = pa.repeat(pa.scalar(int(RowKind.DELETE), pa.int8()), len(rows))
            self._write(table, rows.append_column(pa.field(VALUE_KIND, pa.int8(), nullable=False), kinds))
        return len(rows)

    def refs(self) -> Iterator[TableRef]:
        """Every branch of every table of the warehouse, but those of the database of lineage.

        A branch that main means (`MAIN-BRANCH`) is main. What cannot be listed raises once all else was.
        """
        errors: list[PaimonError] = []
        for database, table in self._table_names(errors):
            try:
                found = list(self.branches(database, table))
            except PaimonError as e:
                errors.append(e)
                continue
            yield from found
        if errors:
            raise errors[0]

    def table_names(self) -> Iterator[tuple[str, str]]:
        """Database and name of every table of the warehouse, but those of the database of lineage.

        A database that cannot be listed raises once all others were.
        """
        errors: list[PaimonError] = []
        yield from self._table_names(errors)
        if errors:
            raise errors[0]

    def _table_names(self, errors: list[PaimonError]) -> Iterator[tuple[str, str]]:
        store, root = self.warehouse.store, self.warehouse.root
        for folder in _listed(store, root, errors):
            database = folder.name.removesuffix(DATABASE_SUFFIX)
            if not _is_directory(folder) or not database or database in (folder.name, DATABASE):
                continue
            directory = f"{root}/{folder.name}"
            tables = _listed(within(store, directory), directory, errors)
            yield from ((database, table.name) for table in tables if _is_directory(table))

    def snapshots(self, ref: TableRef, after: int = 0) -> Iterator[Snapshot]:
        """Snapshots alive of a branch with an id greater than `after`, newest first. None when the branch is gone."""
        handle = self._opened(ref)
        if handle is None or (head := latest_snapshot(handle)) is None or head.id <= after:
            return
        yield head
        newest, together = head.id - 1, 1
        while newest > after:
            ids = list(range(newest, max(newest - together, after), -1))
            found = _alive(handle, ids)
            if found is None:
                break
            yield from found
            newest, together = ids[-1] - 1, min(together * 2, _HEAD_MOST)
        if newest <= after:
            return
        # Some have expired, or there is a hole: what there is, is listed.
        rest = [i for i in reversed(list_snapshot_ids(handle)) if after < i <= newest]
        for start in range(0, len(rest), _HEAD_MOST):
            ids = rest[start : start + _HEAD_MOST]
            found = _alive(handle, ids)
            yield from [s for i in ids if (s := find_snapshot(handle, i))] if found is None else found

    def tagged(self, ref: TableRef) -> Mapping[str, Snapshot]:
        """Tags of a branch, savepoints among them, by name. None when the branch is gone."""
        handle = self._opened(ref)
        return {} if handle is None else {t.name: t.snapshot for t in list_tags(handle)}

    def _is_there(self, definition: Definition) -> bool:
        return bool(list_schema_ids(self.warehouse.store, Layout(self._root(definition))))

    def _root(self, definition: Definition) -> str:
        return self.warehouse.table_root(DATABASE, definition.name)

    def place(self, definition: Definition) -> TablePlace:
        """Where a lineage table is or would be."""
        return TablePlace(self.warehouse.store, self._root(definition), f"{DATABASE}.{definition.name}", MAIN)

    def _make(self, definition: Definition) -> None:
        columns = from_arrow.row_type(definition.schema)
        place = self.place(definition)
        try:
            create_table(place.store, place.root, columns, definition.keys, (), OPTIONS, name=place.name)
        except TableAlreadyExistsError:
            _LOG.debug("lineage table %s was made by another process", place.name)

    def _with_handle(self, definition: Definition, act: Callable[[TableHandle], T]) -> T:
        """Act on the table as this process knows it; when that is outdated, open it again."""

        def has_forgotten(_: Exception) -> bool:
            _HANDLES.pop((self.warehouse.identity, definition.name), None)
            return True

        return retry(lambda: act(self._handle(definition)), _ATTEMPTS, on=_STALE, again=has_forgotten)

    def _handle(self, definition: Definition) -> TableHandle:
        """The table as this process knows it. Raises as `open_table`."""
        key = self.warehouse.identity, definition.name
        handle = _HANDLES.get(key)
        if handle is None:
            place = self.place(definition)
            if not self._is_there(definition):  # one look; `open_table` would look around for what was meant
                raise TableNotFoundError(f"there is no lineage table {place.name}", path=place.root)
            handle = open_table(place.store, place.root, MAIN, place.name, _FLUSH)
            if len(_HANDLES) >= _REMEMBERED:
                _HANDLES.clear()
            _HANDLES[key] = handle
        # Another store may reach the same files, with other credentials.
        store = self.warehouse.store
        return handle if handle.store is store else replace(handle, store=store)

    def _write(self, definition: Definition, rows: pa.Table) -> None:
        def written(handle: TableHandle) -> int | None:
            if handle.schema.row_type.names == tuple(definition.columns):
                job = WriteJob(
                    handle=handle,
                    source=rows.schema,
                    mode=WriteMode.APPEND,
                    options=BatchWriteOptions(),
                    commit_user=new_commit_user(handle.options),
                    job=new_job(),
                    base=latest_snapshot(handle),
                )
            else:  # somebody altered it
                asked = BatchWriteOptions(table_options=_FLUSH)
                job = plan_write(self.place(definition), asked, WriteMode.APPEND, rows.schema)
            try:
                messages = job.write(rows.to_batches())
            except BaseException:
                job.abort(())
                raise
            return job.commit(messages).snapshot_id

        try:
            made = self._with_handle(definition, written)
        except TableNotFoundError as e:
            if not self.exists():
                raise CommitError(
                    f"warehouse {self.warehouse.url} has no lineage tables, so that no lineage can be written; "
                    "catalog.lineage.enable() makes them",
                    table=f"{DATABASE}.{definition.name}",
                ) from e
            self._make(definition)  # of an older release, or dropped
            made = self._with_handle(definition, written)
        if made is not None and made % COMPACT_EVERY == 0:
            self._compact(definition)

    def _compact(self, definition: Definition) -> None:
        """Compact a lineage table, and expire its old snapshots. Never raises."""
        from paimon_spark.engine.compaction.run import compact_branch

        place = self.place(definition)
        try:
            handle = open_table(place.store, place.root, MAIN, place.name, {WRITE_ONLY.key: "false"})
            head = latest_snapshot(handle)
            if head is None:
                return
            made = compact_branch(handle, full=False, runner=_run_here).snapshot_ids
            after_commit(handle, made or (head.id,))
        except TableNotFoundError:
            return
        except (CommitConflictError, CommitRetriesExhaustedError, OperationInProgressError) as e:
            _LOG.debug("another process compacts lineage table %s: %s", place.name, e)
        except Exception as e:  # noqa: BLE001 - it is tried again some commits later
            _LOG.warning("lineage table %s could not be compacted: %s", place.name, e)

    def branches(self, database: str, table: str) -> Iterator[TableRef]:
        """Every branch of a table. Each history once; none when it is gone."""
        layout = Layout(self.warehouse.table_root(database, table))
        store = within(self.warehouse.store, layout.root)
        if not is_table(store, layout.root):
            return
        yield TableRef(database, table)
        names = visible_branch_names(store, layout)
        main: str | None = None
        with suppress(CorruptFileError):  # opening main reports it
            main = read_main_branch(store, layout.root) if names else None
        for name in names:
            if name != main:
                yield TableRef.of(database, table, name)

    def _opened(self, ref: TableRef) -> TableHandle | None:
        """A branch of a table of the warehouse; None when it is gone."""
        root = self.warehouse.table_root(ref.database, ref.bare)
        try:
            return open_table(within(self.warehouse.store, root), root, ref.branch)
        except (TableNotFoundError, BranchNotFoundError):
            return None
        except (InvalidOptionError, UnsupportedFeatureError) as e:
            _LOG.warning("skipping the lineage of %s.%s: %s", ref.database, ref.table, e)
            return None


def _run_here(
    handle: TableHandle, snapshot: Snapshot, tasks: Sequence[BucketTask], commit_user: str
) -> list[CommitMessage | None]:
    """Run the task of the one bucket in this thread: flushes at the end of a process can start no other."""
    from paimon_spark.engine.compaction.run import run_task

    done: list[CommitMessage | None] = []
    try:
        for task in tasks:
            done.append(run_task(handle, snapshot, task, commit_user))  # noqa: PERF401 - those that ended are aborted
    except BaseException:
        Committer(handle, commit_user).abort([m for m in done if m is not None])
        raise
    return done


def _is_directory(info: FileInfo) -> bool:
    """Whether it may be a database or table, whose own directory may be a link."""
    return info.is_directory or info.links_directory


def _listed(store: Store, directory: str, errors: list[PaimonError]) -> list[FileInfo]:
    """The entries of a directory; none when it cannot be listed, which is added to `errors`."""
    try:
        return store.list(directory)
    except PaimonError as e:
        errors.append(e)
        return []


def _alive(handle: TableHandle, ids: Sequence[int]) -> list[Snapshot] | None:
    """The snapshots; None when one of them is not alive."""
    try:
        return read_snapshots(handle, ids)
    except (FileMissingError, CorruptFileError):
        return None
