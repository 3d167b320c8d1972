"""Schema files of a branch.

Source: Java `schema/SchemaManager`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from paimon_spark.errors import CorruptFileError, FileMissingError
from paimon_spark.metadata.layout import MAIN, SCHEMA_PREFIX, Layout
from paimon_spark.metadata.small_files import find_decoded, numbered
from paimon_spark.spec.table_schema import TableSchema, decode
from paimon_spark.storage.store import Store

if TYPE_CHECKING:
    from paimon_spark.metadata.handle import TableHandle


def list_schema_ids(store: Store, layout: Layout) -> list[int]:
    """Ids of the branch's schema files, ascending; empty when this is no branch of a table."""
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
    ids = list_schema_ids(store, layout)
    return read_schema(store, layout, ids[-1]) if ids else None


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
