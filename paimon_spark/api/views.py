"""Permanent views: queries that a catalog keeps by name, as Paimon's engines keep them.

Source: Java `view/ViewSchema`, `spark/catalog/SupportView`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from paimon_spark.advice import REPLACE_VIEW
from paimon_spark.display import ShownAsFacts
from paimon_spark.errors import AlreadyExistsError, CatalogError, FormatError, InvalidInputError, NotFoundError
from paimon_spark.jobs.alter import SchemaLike, columns_of
from paimon_spark.options.descriptor import did_you_mean
from paimon_spark.options.location import split_name
from paimon_spark.spark_port import spark_jobs, spark_sql
from paimon_spark.types import RowType, field_to_json, parse_field

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from paimon_spark.api.catalog import Catalog
    from paimon_spark.catalogs.file_system import FileSystemCatalog

_DIALECT: Final = "spark"
"""What Paimon calls queries in the SQL of Spark."""


@dataclass(frozen=True, slots=True, repr=False)
class View(ShownAsFacts):
    """A permanent view.

    Attributes:
        name: `db.v`.
        query: its text, in the SQL of the engine that created it.
        row_type: its columns.
        dialects: the query in the SQL of engines, by their name: `spark`, `flink`.
        comment: of the view.
        options: kept with it.
    """

    name: str
    query: str
    row_type: RowType
    dialects: Mapping[str, str]
    comment: str | None
    options: Mapping[str, str]
    _catalog: Catalog = field(compare=False)

    def to_spark(self, session: SparkSession | None = None) -> DataFrame:
        """The rows of the view. Names without a database are of the view's own.

        `view.to_spark().createOrReplaceTempView("v")` gives the view a name for the statements of a session.

        Args:
            session: default is the active session, else one is made.

        Raises as `Catalog.sql`, and InvalidInputError: the query has more or fewer columns than the view, or the view
        reads itself.
        """
        return spark_sql().view_rows(self, self._catalog, session)

    def text_lines(self) -> list[str]:
        columns = ", ".join(f"{f.name} {f.type}" for f in self.row_type)
        return [f"view {self.name} ({columns})", f"  {self.spark_query}"]

    @property
    def spark_query(self) -> str:
        """The query in the SQL of Spark."""
        return self.dialects.get(_DIALECT, self.query)


class CatalogViews:
    """Methods of `Catalog` for permanent views."""

    __slots__ = ()

    if TYPE_CHECKING:
        name: str

    @property
    def _tables(self) -> FileSystemCatalog:
        raise NotImplementedError

    @property
    def holds_views(self) -> bool:
        """Whether the catalog can keep permanent views."""
        return self._tables.holds_views

    def check_holds_views(self, name: str) -> None:
        """Check that the catalog can keep the view `db.v`. Raises UnsupportedFeatureError."""
        if not self.holds_views:
            raise self._tables.no_views(name)

    def list_views(self, db: str) -> list[str]:
        """Names of the permanent views of a database, sorted; none where the catalog holds no views.

        Raises:
            CatalogError: the metastore or server failed.
        """
        return self._tables.list_views(db)

    def view(self, name: str) -> View:
        """The permanent view `db.v`.

        Raises:
            NotFoundError: there is none.
            CatalogError: the metastore or server failed, or what it keeps is no view.
        """
        found = self.find_view(name)
        if found is None:
            database, view = split_name(name, self.name)
            near = did_you_mean(view, self._tables.list_views(database))
            raise NotFoundError(f"there is no view {name}{near}; list_views({database!r}) has them all", view=name)
        return found

    def find_view(self, name: str) -> View | None:
        """Find the permanent view `db.v`; None when it does not exist. Raises CatalogError as `view`."""
        database, view = split_name(name, self.name)
        raw = self._tables.find_view(database, view)
        if raw is None:
            return None
        try:
            return View(
                f"{database}.{view}",
                str(raw["query"]),
                RowType(False, tuple(parse_field(f) for f in raw["fields"])),
                dict(raw.get("dialects") or {}),
                raw.get("comment"),
                dict(raw.get("options") or {}),
                self,  # type: ignore[arg-type]
            )
        except (FormatError, KeyError, TypeError, ValueError, AttributeError, RecursionError) as e:
            raise CatalogError(f"what the catalog keeps as view {name} cannot be read: {type(e).__name__}: {e}") from e

    def create_view(
        self,
        name: str,
        query: str,
        *,
        columns: SchemaLike | None = None,
        comment: str | None = None,
        options: Mapping[str, str] | None = None,
        replace: bool = False,
    ) -> View:
        """Create the permanent view `db.v`: in the catalogs of JDBC metastores and REST servers.

        Java Paimon's engines see it too: Spark runs `query`, and so does Flink unless a query for it is added there.

        Args:
            name: `db.v`, of a database that exists.
            query: in Spark SQL; names without a database are of the view's own. `SELECT id FROM db.t`.
            columns: pyarrow.Schema, pyspark StructType or DDL text; default is what the query has, which a Spark
                session finds out.
            comment: of the view.
            options: kept with the view.
            replace: a view of this name; a REST server drops it first.

        Raises:
            UnsupportedFeatureError: the catalog holds no views.
            AlreadyExistsError: there is a view of this name and not `replace`, or a table.
            DatabaseNotFoundError: there is no such database.
            InvalidInputError: the query is blank, or no query.
            Others as `Catalog.sql`, without `columns`.
        """
        database, view = split_name(name, self.name)
        name = f"{database}.{view}"
        if not query.strip():
            raise InvalidInputError(f"view {name} has no query: give the text of a SELECT", argument="query")
        self.check_holds_views(name)
        self._tables.check_database(database)
        if self._tables.has_table(self._tables.place(database, view)):
            raise AlreadyExistsError(f"there is a table {name}; choose another name for the view", view=name)
        if columns is None:
            rows = spark_sql().query_rows(self, query, database)  # type: ignore[arg-type]
            row_type = spark_jobs().row_type(rows.schema)
        else:
            row_type = columns_of(columns)
        raw: dict[str, Any] = {
            "fields": [field_to_json(f) for f in row_type],
            "query": query,
            "dialects": {_DIALECT: query},
            "options": dict(options or {}),
            **({} if comment is None else {"comment": comment}),
        }
        if not self._tables.add_view(database, view, raw, replace=replace):
            raise AlreadyExistsError(f"there is a view {name}; {REPLACE_VIEW}, or choose another name", view=name)
        return self.view(name)

    def drop_view(self, name: str, *, ignore_if_not_exists: bool = False) -> None:
        """Drop the permanent view `db.v`. Raises NotFoundError when it is missing, unless `ignore_if_not_exists`."""
        database, view = split_name(name, self.name)
        if not self._tables.remove_view(database, view) and not ignore_if_not_exists:
            raise NotFoundError(f"there is no view {database}.{view} to drop", view=name)
