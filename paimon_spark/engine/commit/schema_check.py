"""Whether the table is still the one that the files were written for."""

from __future__ import annotations

from paimon_spark.errors import CommitConflictError, CorruptFileError
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.schemas import list_schema_ids, read_schema


def check_schema(handle: TableHandle) -> int:
    """The id of the branch's newest schema, once the handle's own is found unchanged.

    Newer schemas are no matter: files are read by the ids of their fields.

    Raises:
        CommitConflictError: the schema is gone or another: the table was dropped, or made anew.
    """
    ids = list_schema_ids(handle.store, handle.layout)
    wanted = handle.schema
    if not ids or ids[-1] < wanted.id:
        raise _gone(handle, "its schema is gone, so it was dropped" if not ids else f"it has the schemas {ids} only")
    try:
        found = read_schema(handle.store, handle.layout, wanted.id)
    except CorruptFileError:
        if list_schema_ids(handle.store, handle.layout):
            raise
        raise _gone(handle, "its schema is gone, so it was dropped") from None
    if found != wanted:
        raise _gone(handle, f"its schema {wanted.id} is another now, so it was dropped and created again")
    return ids[-1]


def _gone(handle: TableHandle, what: str) -> CommitConflictError:
    return CommitConflictError(
        f"{handle.describe()} changed while it was written to with schema {handle.schema.id}: {what}. Nothing was "
        "committed; open the table again and write again",
        table=handle.name,
        branch=handle.branch,
        schema_id=handle.schema.id,
    )
