"""CREATE and REPLACE TABLE AS SELECT: a table that is made when its rows are written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame

from paimon_spark.jobs.write.target import undo_creation
from paimon_spark.options.location import TableName
from paimon_spark.options.write_request import (
    OPERATION,
)
from paimon_spark.spark.schema import spark_schema
from paimon_spark.spark.session import our_errors
from paimon_spark.spark_catalog.jvm.gateway import CATALOG, SQL, Gateway
from paimon_spark.spark_catalog.jvm.proxies import Proxy
from paimon_spark.spark_catalog.writes.write import (
    WriteBuilderProxy,
    lineage_options,
    new_table_properties,
    with_settings,
)
from paimon_spark.sql.commands.create import (
    OF_FRAME,
    TableDefinition,
    create_defined,
    replace_defined,
    table_definition,
    undone_without_rows,
)
from paimon_spark.sql.commands.insert import insert_rows, overwrite_of_save, without_options_of_saves
from paimon_spark.sql.lineage_job import with_lineage_job
from paimon_spark.sql.requests import CreateMode
from paimon_spark.sql.session import Session, reads_of_run

if TYPE_CHECKING:
    from paimon_spark.api.table import Table


class StagedTableProxy(Proxy, implements=(CATALOG + "StagedTable", CATALOG + "SupportsWrite")):
    """A table that is created or replaced together with its rows, or not at all."""

    def __init__(
        self,
        gateway: Gateway,
        session: Session,
        name: TableName,
        definition: TableDefinition,
        mode: CreateMode,
        *,
        replaces: bool,
        overwrites: bool = False,
    ) -> None:
        """Prepare the table that the statement `mode` makes.

        With `replaces` the table exists; with `overwrites` its rows are replaced, and it keeps its definition.
        """
        self.gateway = gateway
        self._session = session
        self._name = name
        self._definition = definition
        self._mode = mode
        self._replaces = replaces
        self._overwrites = overwrites
        self._is_done = False

    def name(self) -> str:
        """The name in messages and plans."""
        return f"{self._session.catalog_name}.{self._name}"

    def id(self) -> None:
        """No id."""

    def version(self) -> None:
        """No version yet."""

    def schema(self) -> Any:
        """The columns."""
        return self.gateway.struct(spark_schema(self._definition.columns).json())

    def columns(self) -> Any:
        """The columns, as Spark's V2 has them."""
        return self.gateway.columns(self._definition.columns)

    def partitioning(self) -> Any:
        """No partitioning that Spark needs to know."""
        return self.gateway.array(SQL + "connector.expressions.Transform")

    def properties(self) -> Any:
        """The options of the table."""
        return self.gateway.java_map(self._definition.options)

    def constraints(self) -> Any:
        """Always None."""
        return self.gateway.array(CATALOG + "constraints.Constraint")

    def capabilities(self) -> Any:
        """It is written once."""
        kind = CATALOG + "TableCapability"
        names = ("BATCH_WRITE", "V1_BATCH_WRITE", "TRUNCATE")
        return self.gateway.java_set([self.gateway.constant(kind, n) for n in names])

    def newWriteBuilder(self, info: Any) -> Any:
        """The write of the query's rows."""
        columns = self._definition.columns
        write = self._overwrite_with if self._overwrites else self._make_with
        return WriteBuilderProxy(self.gateway, self._session, self._name, columns, info, {}, write)

    def commitStagedChanges(self) -> None:
        """Create or replace the table, if the rows have not done so already."""
        if not self._is_done:
            self._make()

    def abortStagedChanges(self) -> None:
        """Do nothing: the write has undone what it did."""

    def reportDriverMetrics(self) -> Any:
        """No metrics."""
        return self.gateway.array(SQL + "connector.metric.CustomTaskMetric")

    def _make(self) -> tuple[Table, Callable[[], None]]:
        """Create or replace the table; it, and what undoes that."""
        self._is_done = True
        if self._replaces:
            return replace_defined(self._session, self._name, self._definition)
        table_made = create_defined(self._session, self._name, self._definition, False)
        assert table_made is not None
        return table_made, lambda: undo_creation(table_made.handle)

    def _overwrite_with(self, rows: DataFrame, options: Mapping[str, str]) -> None:
        """Replace the rows of the table; with option `overwriteSchema` the table as well."""
        parts = (self._session.catalog_name, self._name.database, self._name.last_part)
        request = overwrite_of_save(self._session, parts, options, self._definition.partition)
        if request is None:
            self._session.refuse_whole(self._name, "replaced")
            self._make_with(rows, without_options_of_saves(options))
            return
        self._is_done = True
        with our_errors():
            more = lineage_options(self.gateway, self._session, self._name, request.options, rows)
            insert_rows(self._session, parts, request, rows, more)

    def _make_with(self, rows: DataFrame, options: Mapping[str, str]) -> None:
        """Create or replace the table with rows; when they are certainly not committed, undo it."""
        before, properties = self._definition, new_table_properties(options)
        made = table_definition(before.columns, before.partition, {**before.options, **properties}, before.comment)
        self._definition = made._replace(primary_key=made.primary_key or before.primary_key)
        options = {k: v for k, v in options.items() if k not in properties}
        sources = lineage_options(self.gateway, self._session, self._name, options, rows)
        session = with_lineage_job(self._session, self._name, OF_FRAME, options=options)
        options = {**with_settings(self._session, self._name, options), **sources, OPERATION.key: self._mode.operation}
        with reads_of_run(session), our_errors():
            if self._replaces:
                rows = rows.localCheckpoint(eager=True)  # they are read before the table is emptied
            table, undo = self._make()
            table = replace(table, handle=session.table(self._name).handle)
            with undone_without_rows(undo):
                table.write(rows, mode="append", **options)

    def toString(self) -> str:
        return self.name()
