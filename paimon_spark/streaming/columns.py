"""QueryColumns: the columns of a running stream, and which schema changes it can follow.

Added columns are not read until the query starts again, and a renamed column keeps its old name, as columns are matched
by field id. Dropped columns and changed types end the query.

Source: own; Java streams end with the same changes (`SchemaManager` by field id, Flink restarts the job).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from paimon_spark.errors import SchemaChangedError
from paimon_spark.format.metadata_files.table_schema import TableSchema
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.schemas import read_schema
from paimon_spark.types import ArrayType, DataField, DataType, MapType, MultisetType, RowType


@dataclass(slots=True)
class QueryColumns:
    """The columns that a query reads, and the schemas that were found to have them.

    Attributes:
        fields: columns of the table, those of the query's condition among them.
    """

    fields: tuple[DataField, ...]
    _good: set[int] = field(default_factory=set)

    @staticmethod
    def of(schema: TableSchema, names: Iterable[str]) -> QueryColumns:
        """Those of `names` that are columns of the table; keys and partition columns are read always."""
        wanted = {*names, *schema.primary_keys, *schema.partition_keys}
        return QueryColumns(tuple(f for f in schema.fields if f.name in wanted))

    def check_other(self, handle: TableHandle) -> None:
        """See that the query can go on with the schema of `handle`, whose branch was given another history.

        Raises:
            SchemaChangedError: a column is not there, is called otherwise, or has another type.
        """
        self.check_schema(handle, handle.schema)
        for column in self.fields:
            now = handle.schema.row_type.find_by_id(column.id)
            if now is not None and now.name != column.name:
                raise _changed(handle, handle.schema, column, f"is called {now.name!r} now")

    def check(self, handle: TableHandle, schema_ids: Iterable[int]) -> None:
        """See that rows of these schemas can be read as the query wants them. Each schema is read once.

        Earlier schemas than the handle's evolve to it, as in every read.

        Raises:
            SchemaChangedError: a column was dropped, or has another type.
        """
        for schema_id in sorted(set(schema_ids) - self._good):
            if schema_id > handle.schema.id:
                self.check_schema(handle, read_schema(handle.store, handle.layout, schema_id))
            self._good.add(schema_id)

    def check_schema(self, handle: TableHandle, schema: TableSchema) -> None:
        """As `check`, for a schema that was read."""
        for column in self.fields:
            now = schema.row_type.find_by_id(column.id)
            if now is None:
                raise _changed(handle, schema, column, "is not there any more")
            if not _reads_as(column.type, now.type):
                raise _changed(handle, schema, column, f"is {now.type} now")

    def forget(self) -> None:
        """Schemas have other ids: the branch was given another history."""
        self._good.clear()


def _reads_as(wanted: DataType, now: DataType) -> bool:
    """Whether values of a type can be read as another without a cast: more fields in rows, fewer nulls."""
    if now.nullable and not wanted.nullable:
        return False
    if isinstance(wanted, RowType) and isinstance(now, RowType):
        pairs = [(f, now.find_by_id(f.id)) for f in wanted]
        return all(found is not None and _reads_as(f.type, found.type) for f, found in pairs)
    if isinstance(wanted, ArrayType) and isinstance(now, ArrayType):
        return _reads_as(wanted.element, now.element)
    if isinstance(wanted, MultisetType) and isinstance(now, MultisetType):
        return _reads_as(wanted.element, now.element)
    if isinstance(wanted, MapType) and isinstance(now, MapType):
        return _reads_as(wanted.key, now.key) and _reads_as(wanted.value, now.value)
    return wanted == now.with_nullable(wanted.nullable)


def _changed(handle: TableHandle, schema: TableSchema, column: DataField, found: str) -> SchemaChangedError:
    return SchemaChangedError(
        f"column {column.name!r} of {handle.describe()}, {column.type} when the query began, {found}: schema "
        f"{schema.id} changed it. Start the query again: with the same checkpointLocation it goes on where it was, "
        "with the columns as they are now",
        table=handle.name,
        branch=handle.branch,
        column=column.name,
        schema_id=schema.id,
    )
