"""Which options of a table may still change once rows have been written with them.

Source: Java `SchemaManager.checkAlterTableOption`, `checkResetTableOption`, `CoreOptions.IMMUTABLE_OPTIONS`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from paimon_spark.errors import InvalidOptionError
from paimon_spark.format.metadata_files.table_schema import TableSchema
from paimon_spark.metadata.definition.option_rules import not_stored
from paimon_spark.metadata.features import IMMUTABLE_OPTIONS
from paimon_spark.options.descriptor import Option, boolean, names
from paimon_spark.options.known import is_storage_option
from paimon_spark.options.lineage import OF_ONE_USE
from paimon_spark.options.manifests import FORMAT as MANIFEST_FORMAT
from paimon_spark.options.table import BUCKET, DELETION_VECTORS, IGNORE_DELETE

_ONE_WAY: Final = (IGNORE_DELETE, Option("ignore-update-before", boolean, False, "Rows of kind -U are skipped."))
_DV_MODIFIABLE: Final = Option("deletion-vectors.modifiable", boolean, False, "Deletion vectors may be switched.")
_CONDITIONAL: Final = frozenset((BUCKET.key, IGNORE_DELETE.key, DELETION_VECTORS.key))
FIXED_OPTIONS: Final = (IMMUTABLE_OPTIONS - _CONDITIONAL) | {"dynamic-bucket.initial-buckets"}
"""Options that never change once there is a snapshot."""
_PLACES: Final = ("path", "branch", "warehouse")


def check_set(schema: TableSchema, key: str, value: str, has_snapshots: Callable[[], bool]) -> None:
    """Check that an option may get a value.

    Raises:
        InvalidOptionError: it may not; the message says why.
    """
    if key in _PLACES or is_storage_option(key):
        raise InvalidOptionError(
            f"option {key} says where a table lies or how it is reached, and is not stored in it", option=key
        )
    if key in OF_ONE_USE:
        raise not_stored(key)
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
