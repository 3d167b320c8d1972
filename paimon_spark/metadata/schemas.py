"""Schema files of a branch.

Source: Java `schema/SchemaManager`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from paimon_spark.errors import (
    CorruptFileError,
    FileAlreadyThereError,
    FileMissingError,
    StorageError,
    UnsupportedFeatureError,
)
from paimon_spark.format.metadata_files.table_schema import TableSchema, decode, encode
from paimon_spark.metadata.handover import seen_schema_ids
from paimon_spark.metadata.layout import MAIN, SCHEMA_PREFIX, Layout
from paimon_spark.metadata.small_files import find_decoded, numbered
from paimon_spark.options.table import ALLOW_UNSAFE_CREATE
from paimon_spark.storage.store import AtomicCreate, Store

if TYPE_CHECKING:
    from paimon_spark.metadata.handle import TableHandle


def list_schema_ids(store: Store, layout: Layout) -> list[int]:
    """Ids of the schema files in the branch's directory, ascending; `seen_schema_ids` says whether it is a branch."""
    return numbered(store, layout.schema_dir, SCHEMA_PREFIX)


def read_schema(store: Store, layout: Layout, schema_id: int) -> TableSchema:
    """A schema of the branch; one the branch lacks is looked for in main's directory.

    Branches made by Paimon 0.9 and older hold only the schema they were made with, while their files
    may have been written with an older one.

    Raises:
        CorruptFileError: there is no such schema file, or it cannot be decoded.
    """
    for place in _places(layout):
        schema = find_decoded(store, place.schema_path(schema_id), decode)
        if schema is not None:
            return _checked(schema, schema_id, store.url(place.schema_path(schema_id)))
    raise _missing(store, layout, schema_id)


def latest_schema(store: Store, layout: Layout) -> TableSchema | None:
    """The schema of the highest id; None when this is no branch of a table."""
    ids = seen_schema_ids(store, layout)
    if not ids:
        return None
    try:
        return read_schema(store, layout, ids[-1])
    except CorruptFileError:
        if seen_schema_ids(store, layout):
            raise
        return None  # the branch was deleted, or renamed, since its schemas were listed


def schemas_by_id(handle: TableHandle, ids: Iterable[int]) -> dict[int, TableSchema]:
    """Schemas of the handle's branch by id, fetched together. Raises as `read_schema`."""
    wanted = sorted(set(ids))
    found = {handle.schema.id: handle.schema} if handle.schema.id in wanted else {}
    rest = [i for i in wanted if i not in found]
    if not rest:
        return found
    paths = [handle.layout.schema_path(i) for i in rest]
    try:
        for i, path, data in zip(rest, paths, handle.store.read_many(paths), strict=True):
            found[i] = _checked(decode(data, path), i, path)
    except (FileMissingError, CorruptFileError):  # the slow way knows main's directory, and reads again
        for i in rest:
            found[i] = read_schema(handle.store, handle.layout, i)
    return found


def create_schema(store: Store, layout: Layout, schema: TableSchema) -> None:
    """Make the schema file of `schema` in the branch's directory; exactly one of several racing callers succeeds.

    An answer of the store that leaves it open whether the file was made is looked up. Not repeated after a failure.

    Raises:
        FileAlreadyThereError: the branch has a schema of this id, made by someone else.
        UnsupportedFeatureError: the store cannot promise one winner, unless `commit.allow-unsafe-create` is set.
        StorageError: the file was not made, as far as can be seen.
    Source: Java `SchemaManager.commit`.
    """
    path = layout.schema_path(schema.id)
    if store.atomic_create is AtomicCreate.NONE and not ALLOW_UNSAFE_CREATE.get(schema.options):
        raise UnsupportedFeatureError(
            f"schema file {store.url(path)} cannot be made: this store does not let exactly one of two writers make "
            f"a file, so one of two racing changes would be lost. If nobody else changes the table, set option "
            f"{ALLOW_UNSAFE_CREATE.key} = true",
            feature="exclusive create",
            path=path,
        )
    data = encode(schema)
    try:
        store.create_exclusive(path, data)
    except FileAlreadyThereError:
        raise
    except StorageError:
        if _found(store, path) != data:
            raise


def _found(store: Store, path: str) -> bytes | None:
    try:
        return store.read(path)
    except FileMissingError:
        return None


def _places(layout: Layout) -> list[Layout]:
    own_root = Layout(layout.root)
    return list(dict.fromkeys((layout, layout.with_branch(MAIN), own_root)))


def _checked(schema: TableSchema, schema_id: int, path: str) -> TableSchema:
    if schema.id != schema_id:
        raise CorruptFileError(f"schema file {path} holds the schema with id {schema.id}", path=path)
    return schema


def _missing(store: Store, layout: Layout, schema_id: int) -> CorruptFileError:
    path = layout.schema_path(schema_id)
    return CorruptFileError(
        f"schema file {store.url(path)} is missing: snapshots or data files refer to schema {schema_id}, "
        f"the branch {layout.branch!r} has the schemas {list_schema_ids(store, layout)}",
        path=path,
        schema_id=schema_id,
    )
