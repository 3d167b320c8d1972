"""The table that a write goes to: opened, created or extended.

Nothing is created before everything that can be checked without rows has been checked. Columns that a batch write adds
are made when it commits, so that a write that fails adds none; if the commit itself fails, they are taken back.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final, TypeAlias

import pyarrow as pa

from paimon_spark.catalogs.file_system import TablePlace
from paimon_spark.engine.commit.publish import check_store
from paimon_spark.engine.tasks import NANOSECONDS
from paimon_spark.engine.write.input import check_input
from paimon_spark.errors import (
    CommitConflictError,
    FileAlreadyThereError,
    InvalidInputError,
    PaimonError,
    TableAlreadyExistsError,
    TableNotFoundError,
    UnsupportedFeatureError,
)
from paimon_spark.format.metadata_files.table_schema import TableSchema
from paimon_spark.jobs.branch_access import alter_exclusively, open_to_change
from paimon_spark.jobs.partition_specs import partition_values
from paimon_spark.jobs.write.tasks import with_columns
from paimon_spark.maintenance.change import reopened
from paimon_spark.metadata.definition.alter import alter_table, apply
from paimon_spark.metadata.definition.create import create_table, new_schema
from paimon_spark.metadata.definition.from_arrow import merged_schema
from paimon_spark.metadata.definition.schema_changes import SchemaChange
from paimon_spark.metadata.definition.validate import validate
from paimon_spark.metadata.features import check_writable
from paimon_spark.metadata.handle import TableHandle, is_table, open_table, read_main_branch
from paimon_spark.metadata.layout import MAIN, Layout
from paimon_spark.metadata.retry import now_ms
from paimon_spark.metadata.schemas import create_schema, latest_schema, list_schema_ids, read_schema
from paimon_spark.metadata.snapshots import latest_snapshot
from paimon_spark.options.descriptor import is_one_edit_away
from paimon_spark.options.lineage import OF_ONE_USE, check_job_options, refuse_follow
from paimon_spark.options.location import DATABASE_SUFFIX
from paimon_spark.options.table import parse_table_options
from paimon_spark.options.write import MERGE_SCHEMA
from paimon_spark.options.write_request import BatchWriteOptions, refuse_unknown, restore_case
from paimon_spark.redaction import get_logger
from paimon_spark.storage.local import is_link
from paimon_spark.storage.store import Store
from paimon_spark.types import VALUE_KIND, RowType

_LOG = get_logger(__name__)
_SHORT: Final = 3
"""Names of so few letters are often one letter apart."""


SchemaChanges: TypeAlias = tuple[SchemaChange, ...]
"""Changes that turn the newest schema of a branch into that of the handle of a write; `with_changes` makes them."""


def open_target(
    place: TablePlace, options: BatchWriteOptions, source: pa.Schema, columns: Callable[[], RowType] | None
) -> tuple[TableHandle, bool, SchemaChanges]:
    """Open the table at `place` for rows of `source`; a missing one is created with `columns()`.

    Returns the table, whether this call created it, and the changes that its schema needs.

    Raises:
        BranchNotFoundError: there is no such branch; a write creates tables, not branches.
        DatabaseNotFoundError: the table is named `db.t`, and there is no such database.
        TableNotFoundError: there is no such table, and no `columns` to create it with.
        SchemaMismatchError: rows of `source` do not fit the table.
        InvalidInputError, InvalidOptionError: an option is unknown or contradicts the table, or the definition of the
            new table is invalid.
        UnsupportedFeatureError: the table has a feature that would be written wrongly.
    """
    refuse_follow(options.table_options, "a write")
    try:
        handle, changes = open_for_rows(place, options, source)
        return handle, False, changes
    except TableNotFoundError:
        if columns is None or place.branch != MAIN or read_main_branch(place.store, place.root) is not None:
            raise
        _check_new_place(place)
    try:
        return _created(place, options, source, columns()), True, ()
    except TableAlreadyExistsError:  # another writer was faster
        handle, changes = open_for_rows(place, options, source)
        return handle, False, changes


def open_for_rows(
    place: TablePlace, options: BatchWriteOptions, source: pa.Schema
) -> tuple[TableHandle, SchemaChanges]:
    """The existing table at `place` for rows of `source`, and the changes of its schema. Raises as `open_target`."""
    handle = open_existing(place, options)
    source = with_columns(handle, source, partition_values(handle, options))
    changes = _changes(handle, source) if handle.options.schema_merge.enabled else ()
    if changes:
        handle = handle.with_schema(apply(handle.schema, changes, table=handle.describe()))
    check_input(handle.schema, source, handle.options.write, handle.describe())
    return handle, changes


def open_existing(place: TablePlace, options: BatchWriteOptions) -> TableHandle:
    """The existing table at `place`, whatever rows are written to it. Raises as `open_target`."""
    handle = _open(place, options.table_options)
    refuse_unknown(options, creating=False)
    _check(handle)
    return handle


def _changes(handle: TableHandle, source: pa.Schema) -> SchemaChanges:
    """The changes that `write.merge-schema` makes for rows of `source`."""
    columns = pa.schema([f for f in source if f.name != VALUE_KIND and not f.name.startswith(NANOSECONDS)])
    changes = tuple(merged_schema(handle.schema, columns, handle.options.schema_merge))
    _check_keys(handle, changes)
    return changes


def _check_keys(handle: TableHandle, changes: Sequence[SchemaChange]) -> None:
    if changes:
        from paimon_spark.jobs.write.existing_keys import check_widened_keys  # only such writes import the reader

        check_widened_keys(handle, changes)


def with_changes(handle: TableHandle, changes: SchemaChanges) -> tuple[TableHandle, bool]:
    """The table after changes of its schema, and whether they are made now. Driver; right before the commit.

    `handle` has the schema with the changes, as `open_target` returns it.

    Where another write has made the same changes and has not committed rows yet, it may take them back: then the schema
    is made once more, so that it does not.

    Raises:
        CommitConflictError: the schema was changed meanwhile, so that files written for this one cannot be read with
            what it is now; nothing was changed.
        Others as `alter_table`.
    """
    if not changes:
        return handle, False

    wanted, is_made = handle.schema, False

    def planned(newest: TableSchema) -> Sequence[SchemaChange]:
        nonlocal is_made
        is_made = newest.id == wanted.id - 1  # else another write may have made the same change
        if is_made:
            _check_keys(handle.with_schema(newest), changes)
        return changes if is_made else ()

    def alter() -> None:
        alter_table(reopened(handle), planned)
        newest, head = latest_schema(handle.store, handle.layout), latest_snapshot(handle)
        is_used = head is not None and newest is not None and head.schema_id >= newest.id
        if newest is not None and not is_made and not is_used and newest.row_type == wanted.row_type:
            create_schema(handle.store, handle.layout, replace(newest, id=newest.id + 1, time_ms=now_ms()))

    try:
        alter_exclusively(handle, alter)
        made = latest_schema(handle.store, handle.layout)
    except FileAlreadyThereError:
        made = None
    if made is None or made.row_type != wanted.row_type:
        raise CommitConflictError(
            f"the schema of {handle.describe()} was changed while rows with new columns were written to it; nothing "
            "was committed: write them again",
            **handle.context,
        )
    return handle.with_schema(made), is_made


def _open(place: TablePlace, overrides: Mapping[str, str]) -> TableHandle:
    # Keys of options that name columns have lost their case in Spark: the schema knows it.
    stored = open_to_change(place.store, place.root, place.branch, place.name)
    named = restore_case(overrides, {name.lower(): name for name in stored.schema.row_type.names})
    return open_table(place.store, place.root, place.branch, place.name, named) if named else stored


def _created(place: TablePlace, options: BatchWriteOptions, source: pa.Schema, columns: RowType) -> TableHandle:
    refuse_unknown(options, creating=True)
    names = {name.lower(): name for name in columns.names}
    wanted = restore_case({**options.table_options, **options.unknown_options}, names)
    of_job = {k: v for k, v in wanted.items() if k in OF_ONE_USE}
    stored = {k: v for k, v in wanted.items() if not k.startswith(MERGE_SCHEMA.key) and k not in of_job}
    check_job_options(of_job)
    schema = new_schema(columns, options=stored)
    validate(schema)
    shown = place.shown
    check_writable(schema, schema.options, shown)
    check_input(schema, source, parse_table_options(schema.options).write, f"table {shown}")
    _warn_of_near_names(place)
    if place.catalog is None:
        create_table(place.store, place.root, columns, options=stored, name=place.name)
    else:
        place.catalog.create_table(place, columns, options=stored)
    handle = open_table(place.store, place.root, MAIN, place.name, of_job)
    _check(handle)
    return handle


def _check(handle: TableHandle) -> None:
    handle.check_writable()
    check_store(handle)


def _check_new_place(place: TablePlace) -> None:
    """Refuse to create a database, or a table in a directory of tables or in a warehouse: the target is mistyped."""
    if place.catalog is not None:
        place.catalog.new_place(f"`{place.database}`.`{place.table}`")
    inside = [i.name for i in place.store.list(place.root) if i.is_directory]
    found = [n for n in inside[:200] if list_schema_ids(place.store, Layout(f"{place.root}/{n}"))]
    found += [n for n in inside if n.endswith(DATABASE_SUFFIX) and n != DATABASE_SUFFIX]
    if found:
        raise InvalidInputError(
            f"{place.store.url(place.root)} is a folder of {', '.join(found[:5])}; no table is made there: "
            "name one of them, or a new folder inside",
            path=place.root,
        )


def _warn_of_near_names(place: TablePlace) -> None:
    """Warn where the new table, or the database in its path, has nearly the name of another beside it."""
    folder, _, table = place.root.rpartition("/")
    outer, _, database = folder.rpartition("/")
    near = [f"table {n!r}" for n in _near(place.store, folder, table) if is_table(place.store, f"{folder}/{n}")]
    if not near and database.endswith(DATABASE_SUFFIX) and not place.store.exists(folder):
        bare = database.removesuffix(DATABASE_SUFFIX)
        names = _near(place.store, outer, bare, DATABASE_SUFFIX)
        near = [f"database {n!r}" for n in names]
    if near:
        text = (
            f"the write creates table {place.shown} beside {' and '.join(near)} of "
            "nearly the same name; if it is misspelt, drop it and write to the other one"
        )
        _LOG.warning("%s", text)
        warnings.warn(text, UserWarning, stacklevel=2)


def _near(store: Store, directory: str, name: str, suffix: str = "") -> list[str]:
    """Names of directories in `directory`, without their suffix, that are one edit away from `name`."""
    if len(name) <= _SHORT or not directory:
        return []
    found = [i.name.removesuffix(suffix) for i in store.list(directory) if i.is_directory and i.name.endswith(suffix)]
    return [n for n in found if len(n) > _SHORT and is_one_edit_away(name, n)]


def check_appends(handle: TableHandle) -> None:
    """Refuse to append to a table into which Java's Spark merges appended rows.

    Raises:
        UnsupportedFeatureError: the table has `upsert-key`.

    Source: Java Spark `RewriteUpsertTable`; streams and Flink append to such tables.
    """
    key = handle.options.write.upsert_key
    if key and not handle.schema.primary_keys:
        raise UnsupportedFeatureError(
            f"rows cannot be appended to {handle.describe()}: with upsert-key = {key!r} they take the place of rows "
            "with the same key, which is not supported; use MERGE INTO, overwrite, or remove the option",
            feature="upsert-key",
            table=handle.name,
        )


def undo_changes(handle: TableHandle) -> None:
    """Give a branch the definition again that it had before `with_changes` made that of `handle`. Driver.

    Only when the commit certainly failed. Nothing happens if the branch was changed since, or has rows of this
    definition. Never raises: the error of the commit is to be seen.
    """

    def alter() -> None:
        newest, head = latest_schema(handle.store, handle.layout), latest_snapshot(handle)
        if newest is None or newest.id != handle.schema.id or (head is not None and head.schema_id >= newest.id):
            return
        was = read_schema(handle.store, handle.layout, newest.id - 1)
        again = replace(was, id=newest.id + 1, highest_field_id=newest.highest_field_id, time_ms=now_ms())
        create_schema(handle.store, handle.layout, again)

    try:
        alter_exclusively(handle, alter)
    except PaimonError as e:
        _LOG.warning("columns of a write that failed stay in %s: %s", handle.describe(), e)


def undo_creation(handle: TableHandle) -> None:
    """Remove the table that a failed write created, unless others have written to it. Safe to repeat."""
    store, layout = handle.store, replace(handle.layout, branch=MAIN)

    def is_untouched(schema_ids: list[int]) -> bool:
        return list_schema_ids(store, layout) == schema_ids and not _has_files(store, layout.root, layout.schema_dir)

    if not is_untouched([handle.schema.id]):
        return
    store.delete(layout.schema_path(handle.schema.id))
    # New commits are impossible now; a writer that found the schema just before has files here.
    if is_untouched([]):
        if is_link(store, layout.root):  # made by the user, for tables to come
            store.delete_tree(layout.schema_dir)
        else:
            store.delete_tree(layout.root)
    else:
        with suppress(FileAlreadyThereError):
            create_schema(store, layout, handle.schema)


def _has_files(store: Store, directory: str, besides: str) -> bool:
    """Whether any file is below `directory`, except in the directory `besides`."""
    children = [(i.is_directory, f"{directory}/{i.name}") for i in store.list(directory)]
    return any(path != besides and (not is_dir or _has_files(store, path, besides)) for is_dir, path in children)
