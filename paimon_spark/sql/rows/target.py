"""The table that a statement changes: opened on its branch, with the options of the session, and its lineage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from pyspark.sql import DataFrame

from paimon_spark.api.table import Table
from paimon_spark.errors import InvalidInputError
from paimon_spark.options.batch_write import MERGE_SCHEMA
from paimon_spark.options.lineage import JOB
from paimon_spark.sql.columns import column_name
from paimon_spark.sql.names import CATALOG, TableName
from paimon_spark.sql.queries.run import query_dataframe
from paimon_spark.sql.session import Session
from paimon_spark.sql.statement_job import recorded
from paimon_spark.sql.subject import subject
from paimon_spark.types import DataField


@dataclass(frozen=True)
class Target:
    """A table that a statement changes.

    Attributes:
        session: in which the statement's queries run; their reads name the lineage job of the write.
        name: as the statement says it.
        table: at the head of the branch.
    """

    session: Session
    name: TableName
    table: Table

    @cached_property
    def columns(self) -> Sequence[DataField]:
        """The table's columns."""
        return self.table.row_type.fields

    @cached_property
    def partition_keys(self) -> Sequence[str]:
        return self.table.schema.partition_keys

    @cached_property
    def options(self) -> dict[str, str]:
        """Options of the session for writes to the table."""
        return self.session.write_options(self.name)

    @property
    def is_recorded(self) -> bool:
        """Whether the lineage of the statement is recorded."""
        return JOB.key in self.session.catalog.options

    @property
    def merges_schema(self) -> bool:
        """Whether columns that the table lacks are to be added to it."""
        return MERGE_SCHEMA.get({**self.table.options.raw, **self.options})

    def column(self, name: str) -> DataField:
        """The column of a name in any case. Raises ColumnNotFoundError."""
        return self.table.row_type.field(column_name(self.table, name, self.table.row_type.names))

    def query(self, text: str) -> DataFrame:
        """The rows of a query of the statement."""
        return query_dataframe(self.session, text, self.session.catalog.options.get(JOB.key))

    @property
    def full_names(self) -> tuple[tuple[str, ...], ...]:
        """What the table can be called before a column, but for its last part alone."""
        return (CATALOG, self.name.database, self.name.table), (self.name.database, self.name.table)


def open_target(
    session: Session, parts: Sequence[str], sql: str, options: Mapping[str, str] | None = None
) -> Target | None:
    """The table of a name, to be changed; None when it is Spark's.

    Args:
        session: of the call.
        parts: the name.
        sql: the statement as it was given, which names its lineage job.
        options: of the statement.

    Raises:
        TableNotFoundError, DatabaseNotFoundError, BranchNotFoundError: there is no such table.
        InvalidInputError: it is a system table.
    """
    name = subject(session, parts)
    if name is None:
        return None
    if name.system is not None:
        raise InvalidInputError(
            f"{name} is a system table, which is only read; name the table or the branch itself", table=str(name)
        )
    table = session.table_to_change(name)
    session_of_run = recorded(session, name, sql, table.branch_name, options)
    if session_of_run is not session:
        table = session_of_run.table_to_change(name)
    return Target(session_of_run, name, table)
