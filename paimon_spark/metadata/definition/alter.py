"""Schema changes applied to the newest schema of a branch and committed as the next one.

Data files stay as they are: they are read by field id, and cast.

Source: Paimon spec, chapter Schema; Java `SchemaManager.generateTableSchema`, `SchemaManager.commitChanges`,
`SchemaManager.checkAlterTableOption`, `checkResetTableOption`, `CoreOptions.IMMUTABLE_OPTIONS`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from paimon_spark.errors import (
    CommitRetriesExhaustedError,
    FileAlreadyThereError,
    InvalidInputError,
    InvalidOptionError,
    PaimonError,
    TableNotFoundError,
    UnsupportedFeatureError,
)
from paimon_spark.format.metadata_files.table_schema import CURRENT_VERSION, TableSchema
from paimon_spark.metadata.definition import column_changes as edit
from paimon_spark.metadata.definition.create import with_keys_of_options
from paimon_spark.metadata.definition.option_rules import check_storable, warn_of_unknown, warn_without_effect
from paimon_spark.metadata.definition.schema_changes import (
    DropPrimaryKey,
    RemoveOption,
    SchemaChange,
    SetOption,
    UpdateTableComment,
)
from paimon_spark.metadata.definition.validate import validate
from paimon_spark.metadata.features import IMMUTABLE_OPTIONS, check_readable
from paimon_spark.metadata.handle import TableHandle, server_of
from paimon_spark.metadata.retry import now_ms, retry
from paimon_spark.metadata.schemas import create_schema, latest_schema, visible_schema_ids
from paimon_spark.metadata.snapshots import latest_snapshot_id
from paimon_spark.options.core import BUCKET, DELETION_VECTORS, IGNORE_DELETE
from paimon_spark.options.descriptor import Option, boolean, names
from paimon_spark.options.write import MANIFEST_FORMAT
from paimon_spark.redaction import get_logger

Changes: TypeAlias = Sequence[SchemaChange] | Callable[[TableSchema], Sequence[SchemaChange]]
_ATTEMPTS: Final = 100
_OTHER_BRANCHES: Final = ("scan.fallback-branch", "scan.primary-branch")
_LOG = get_logger(__name__)


def alter_table(handle: TableHandle, changes: Changes, *, clock_ms: Callable[[], int] = now_ms) -> TableSchema:
    """Commit `changes` to the newest schema of the handle's branch, all or none; returns the schema then in force.

    When others change the schema meanwhile, the changes are applied to what they made. Changes that change
    nothing make no schema.

    Args:
        handle: of any age; only its branch matters.
        changes: what to change, or what tells it for the newest schema.
        clock_ms: epoch milliseconds now.

    Raises:
        InvalidInputError, InvalidOptionError, ColumnNotFoundError, AlreadyExistsError: a change is not possible;
            nothing was changed.
        UnsupportedFeatureError: it needs a feature that this package lacks.
        CommitRetriesExhaustedError: others were faster every time.
        StorageError: the schema could not be written.
    """
    name = handle.describe()

    def altered() -> TableSchema:
        schema = latest_schema(handle.store, handle.layout)
        if schema is None:
            raise TableNotFoundError(f"{name} has no schema any more; was it dropped?", table=handle.name)
        wanted = changes(schema) if callable(changes) else changes
        changed = apply(
            schema, wanted, has_snapshots=lambda: latest_snapshot_id(handle) is not None, time_ms=clock_ms(), table=name
        )
        if changed is schema:
            return schema
        _check_other_branches(handle, changed)
        changed = _made(handle, changed, wanted)
        warn_of_unknown(changed.options.keys() - schema.options.keys(), name)
        warn_without_effect(dict(changed.options.items() - schema.options.items()), name)
        return changed

    def exhausted(_: Exception) -> CommitRetriesExhaustedError:
        return CommitRetriesExhaustedError(
            f"the schema of {name} could not be changed: others changed it first, {_ATTEMPTS} times; try again later",
            **handle.context,
        )

    return retry(altered, _ATTEMPTS, on=FileAlreadyThereError, exhausted=exhausted)


def _made(handle: TableHandle, changed: TableSchema, changes: Sequence[SchemaChange]) -> TableSchema:
    """The new schema, made: by the server that has the table, or as a file. Raises FileAlreadyThereError."""
    server = server_of(handle.store)
    if server is None:
        create_schema(handle.store, handle.layout, changed)
        return changed
    server.change_schema(handle.branch, changes)
    return latest_schema(handle.store, handle.layout) or changed


def apply(
    schema: TableSchema,
    changes: Sequence[SchemaChange],
    *,
    has_snapshots: Callable[[], bool] = lambda: False,
    time_ms: int = 0,
    table: str = "the table",
) -> TableSchema:
    """The schema after `changes`, one after the other; `schema` itself when they change nothing. Pure.

    Args:
        schema: the newest one.
        changes: each sees what those before it did.
        has_snapshots: whether rows may have been written with the present options; asked only when it matters.
        time_ms: of the new schema.
        table: how messages call the table.

    Raises as `alter_table`, but for writing.
    """
    after = schema
    try:
        for change in changes:
            after = _applied(after, change, has_snapshots)
        after = with_keys_of_options(after)
    except PaimonError as e:
        raise type(e)(f"{table}: {e.message}", **{**e.context, "table": table}) from e
    if after == schema:
        return schema
    after = replace(after, id=schema.id + 1, version=CURRENT_VERSION, time_ms=time_ms)
    validate(after, table)
    _check_still_readable(schema, after, table)
    return after


def _applied(schema: TableSchema, change: SchemaChange, has_snapshots: Callable[[], bool]) -> TableSchema:
    match change:
        case SetOption():
            check_set(schema, change.key, change.value, has_snapshots)
            if change.key in ("primary-key", "partition") and has_snapshots():
                return schema  # unchanged, or check_set would have refused it
            return replace(schema, options={**schema.options, change.key: change.value})
        case RemoveOption():
            check_removed(schema, change.key, has_snapshots)
            return replace(schema, options={k: v for k, v in schema.options.items() if k != change.key})
        case UpdateTableComment():
            return replace(schema, comment=change.comment or None)
        case DropPrimaryKey():
            if schema.primary_keys and has_snapshots():
                raise InvalidInputError("the primary key cannot be dropped: rows were written with it")
            return replace(schema, primary_keys=())
    return edit.applied(schema, change)


def _check_still_readable(before: TableSchema, after: TableSchema, table: str) -> None:
    """Refuse changes that would make a table unreadable here; one that is already may be changed."""
    try:
        check_readable(before, before.options, table.removeprefix("table "))
    except (UnsupportedFeatureError, InvalidOptionError):
        return
    check_readable(after, after.options, table.removeprefix("table "))


def _check_other_branches(handle: TableHandle, schema: TableSchema) -> None:
    for key in _OTHER_BRANCHES:
        branch = schema.options.get(key, "").strip()
        if branch and not visible_schema_ids(handle.store, handle.layout.with_branch(branch)):
            raise InvalidOptionError(
                f"{handle.describe()}: option {key} = {branch!r}: the table has no such branch", option=key
            )


_ONE_WAY: Final = (IGNORE_DELETE, Option("ignore-update-before", boolean, False, "Rows of kind -U are skipped."))
_DV_MODIFIABLE: Final = Option("deletion-vectors.modifiable", boolean, False, "Deletion vectors may be switched.")
_CONDITIONAL: Final = frozenset((BUCKET.key, IGNORE_DELETE.key, DELETION_VECTORS.key))
FIXED_OPTIONS: Final = (IMMUTABLE_OPTIONS - _CONDITIONAL) | {"dynamic-bucket.initial-buckets"}
"""Options that never change once there is a snapshot."""


def check_set(schema: TableSchema, key: str, value: str, has_snapshots: Callable[[], bool]) -> None:
    """Check that an option may get a value. Raises InvalidOptionError, which says why not."""
    check_storable(key, value)
    if _unchanged(schema, key, value):
        return
    if key == "type":
        raise InvalidOptionError("option type of a table never changes; make another table", option=key)
    if has_snapshots():
        _check_written(schema, key, value)


def check_removed(schema: TableSchema, key: str, has_snapshots: Callable[[], bool]) -> None:
    """Check that an option may go back to its default. Raises InvalidOptionError."""
    if key == "type":
        raise InvalidOptionError("option type of a table never changes; make another table", option=key)
    if key not in schema.options or not has_snapshots():
        return
    if key in FIXED_OPTIONS or key == BUCKET.key:
        raise _fixed(schema, key)
    defaults = {k: str(o.default).lower() for o in (*_ONE_WAY, DELETION_VECTORS) for k in (o.key, *o.fallbacks)}
    if key in defaults:
        _check_written(schema, key, defaults[key])


def _check_written(schema: TableSchema, key: str, value: str) -> None:
    """The rules of a table whose files were written with the options it has."""
    if key in FIXED_OPTIONS:
        raise _fixed(schema, key)
    after = {**schema.options, key: value}
    if key == BUCKET.key:
        old, new = BUCKET.get(schema.options), BUCKET.get(after)
        if old != new and -1 in (old, new):
            raise InvalidOptionError(
                f"option bucket cannot change from {old} to {new}: rows are spread over buckets in another way; "
                "make a new table and copy the rows",
                option=key,
            )
    switched = key == DELETION_VECTORS.key and DELETION_VECTORS.get(schema.options) != DELETION_VECTORS.get(after)
    if switched and not _DV_MODIFIABLE.get(schema.options):
        raise InvalidOptionError(
            f"option {key} cannot change once there are rows: they could be read twice; compact the table fully, "
            f"then set {_DV_MODIFIABLE.key} = true first",
            option=key,
        )
    for option in _ONE_WAY:
        if key in (option.key, *option.fallbacks) and option.get(schema.options) and not option.get(after):
            raise InvalidOptionError(
                f"option {key} cannot go from true to false: rows were skipped already", option=key
            )
    if key == "clustering.columns" and "pk-clustering-override" in schema.options:
        raise InvalidOptionError(f"option {key} cannot change with pk-clustering-override", option=key)


def _unchanged(schema: TableSchema, key: str, value: str) -> bool:
    if key == "type":
        return value.strip().lower() == schema.options.get(key, "table").strip().lower()
    if key == "primary-key" and key not in schema.options:
        return names(value) == schema.primary_keys
    if key == "partition" and key not in schema.options:
        return names(value) == schema.partition_keys
    if key == MANIFEST_FORMAT.key:
        return MANIFEST_FORMAT.get(schema.options) is MANIFEST_FORMAT.get({key: value})
    return schema.options.get(key) == value


def _fixed(schema: TableSchema, key: str) -> InvalidOptionError:
    found = schema.options.get(key)
    return InvalidOptionError(
        f"option {key} says how files are written ({'its default' if found is None else repr(found)}) and cannot "
        "change once there are rows; make a new table and copy the rows",
        option=key,
    )
