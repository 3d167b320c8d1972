"""Schema files of a branch, and the `HANDOVER` file that says which branch is visible.

A branch exists when its directory has a schema. No store changes two directories at once, so while a branch is renamed
by copying, `schema/HANDOVER` in both directories lists the schemas that the new one needs: once the last of them, one
small file, is there, the new directory is the branch and the old one is not. While a branch is created, the file in its
own directory says the same; while one is deleted, it says that there is none. Opening a branch lists `schema/` anyway,
so the check costs nothing without the file. Other engines look at `schema-<id>` alone.

Source: Java `schema/SchemaManager`; `HANDOVER` is this package's own.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from paimon_spark.errors import (
    CorruptFileError,
    FileAlreadyThereError,
    FileMissingError,
    StorageError,
    UnsupportedFeatureError,
)
from paimon_spark.format.json_files import decode_object
from paimon_spark.format.metadata_files.table_schema import TableSchema, decode, encode
from paimon_spark.metadata.layout import MAIN, SCHEMA_PREFIX, Layout
from paimon_spark.metadata.retry import RACES
from paimon_spark.metadata.small_files import find_bytes, find_decoded, numbered, numbers, read_listed
from paimon_spark.options.core import ALLOW_UNSAFE_CREATE
from paimon_spark.storage.store import AtomicCreate, Store

if TYPE_CHECKING:
    from paimon_spark.metadata.handle import TableHandle


def list_schema_ids(store: Store, layout: Layout) -> list[int]:
    """Ids of the schema files in the branch's directory, ascending, visible to readers or not."""
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
    """Newest schema; None when the branch does not exist."""
    look = _visible(store, layout)
    if not look.ids:
        return None
    newest = look.ids[-1]
    path, digest = layout.schema_path(newest), look.digests.get(newest)
    try:
        if digest is not None:
            return _checked(decode(read_listed(store, path, digest), path), newest, store.url(path))
        return read_schema(store, layout, newest)
    except (CorruptFileError, FileMissingError):
        if visible_schema_ids(store, layout):
            return read_schema(store, layout, newest)
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
        if find_bytes(store, path) != data:
            raise


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


HANDOVER: Final = "HANDOVER"
"""Name of the file, beside a branch's schemas."""
"""Times that a directory is listed again when the file went after it was listed."""


@dataclass(frozen=True, slots=True)
class Handover:
    """The condition under which readers see a branch directory.

    Attributes:
        branch: the branch that is seen as soon as its directory holds `schemas`, and instead of the one whose directory
            holds this; None when this directory is not seen any more.
        schemas: ids.
    """

    branch: str | None
    schemas: frozenset[int] = frozenset()

    def is_done(self, ids: Collection[int]) -> bool:
        """Whether the named branch is visible when its directory holds schemas of these ids."""
        return self.branch is None or self.schemas <= set(ids)


class BranchLook(NamedTuple):
    """The ids of a branch's schemas, ascending, the handover beside them, and digests of the files as listed."""

    ids: list[int]
    handover: Handover | None
    digests: Mapping[int, str | None] = MappingProxyType({})


def encode_handover(handover: Handover) -> bytes:
    """The bytes of a `HANDOVER` file."""
    return json.dumps({"version": 1, "branch": handover.branch, "schemas": sorted(handover.schemas)}).encode()


def decode_handover(data: bytes, path: str) -> Handover:
    """The handover in the bytes of such a file; `path` is for messages. Raises CorruptFileError."""

    def build(raw: dict[str, Any]) -> Handover:
        branch, schemas = raw["branch"], frozenset(int(i) for i in raw["schemas"])
        if not isinstance(branch, str | None) or raw["version"] != 1:
            raise ValueError("it names no branch, or is of another version")
        return Handover(branch, schemas)

    return decode_object(
        data,
        build,
        lambda why: CorruptFileError(
            f"{path} cannot be decoded ({why}); remove it to make the branch visible", path=path
        ),
    )


def look_at_branch(store: Store, layout: Layout) -> BranchLook:
    """One listing of the branch's schemas, and a small read where a handover lies beside them."""
    ids: list[int] = []
    digests: dict[int, str | None] = {}
    for _ in range(RACES):
        found = {info.name: info.digest for info in store.list(layout.schema_dir)}
        ids = numbers(found, SCHEMA_PREFIX)
        digests = {i: found.get(f"{SCHEMA_PREFIX}{i}") for i in ids}
        if not ids or HANDOVER not in found:
            break
        handover = find_decoded(store, f"{layout.schema_dir}/{HANDOVER}", decode_handover)
        if handover is not None:
            return BranchLook(ids, handover, digests)
    return BranchLook(ids, None, digests)


def is_visible(name: str, look: BranchLook, other: Collection[int]) -> bool:
    """Whether readers see a branch directory.

    Args:
        name: of the branch.
        look: what its directory says.
        other: ids of the schemas in the directory of the branch that its handover names, if that is another one.
    """
    if not look.ids or look.handover is None:
        return bool(look.ids)
    if look.handover.branch is None:
        return False
    if look.handover.branch == name:
        return look.handover.is_done(look.ids)
    return not look.handover.is_done(other)


def visible_schema_ids(store: Store, layout: Layout) -> list[int]:
    """Ids of the branch's schemas, ascending; empty when readers see no branch there.

    One listing; two small requests more while the branch is renamed, made or deleted. Raises CorruptFileError.
    """
    return _visible(store, layout).ids


def _visible(store: Store, layout: Layout) -> BranchLook:
    """A look at the branch; without ids when readers see no branch there."""
    look = look_at_branch(store, layout)
    other: list[int] = []
    if look.handover is not None and look.handover.branch not in (None, layout.directory_branch):
        other = numbered(store, layout.with_branch(str(look.handover.branch)).schema_dir, SCHEMA_PREFIX)
    return look if is_visible(layout.directory_branch, look, other) else BranchLook([], look.handover)
