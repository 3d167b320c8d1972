"""Permanent views of an attached catalog, which Spark 4.3 and later looks up.

Views are created and dropped by `sql/commands/views.py`; Spark asks here for those that a query names.

Source: Spark `connector/catalog/ViewCatalog.java`; `analysis/RelationResolution.scala`, which looks for a view where
there is no table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from paimon_spark.errors import UnsupportedFeatureError
from paimon_spark.spark.schema import spark_schema
from paimon_spark.spark_catalog.catalog import IDENTIFIER, INTERFACES, CatalogProxy, table_name
from paimon_spark.spark_catalog.jvm.gateway import CATALOG
from paimon_spark.spark_catalog.jvm.proxies import no_such_view
from paimon_spark.types import quoted

if TYPE_CHECKING:
    from paimon_spark.api.views import View
    from paimon_spark.options.location import TableName


class ViewCatalogProxy(CatalogProxy, implements=(*INTERFACES, CATALOG + "ViewCatalog")):
    """An attached catalog that holds permanent views."""

    def listViews(self, *namespace: Any) -> Any:
        """The views of a database."""
        [database] = namespace
        of = self.gateway.static(IDENTIFIER, "of")
        found = self.names_in(database, self.catalog.list_views)
        return self.gateway.array(IDENTIFIER, [of(database, name) for name in found])

    def loadView(self, ident: Any) -> Any:
        """A view, whose query is as for the database of the view."""
        name = table_name(ident)
        view = self._session.permanent_view(name)
        if view is None:
            raise no_such_view(self.gateway, ident)
        columns = spark_schema(view.row_type)
        builder = self.gateway.cls(CATALOG + "View$Builder")()
        builder.withSchema(self.gateway.struct(columns.json()))
        builder.withProperties(self.gateway.java_map(view.options))
        if view.comment is not None:
            builder.withComment(view.comment)
        builder.withQueryText(_query(name, view))
        builder.withCurrentCatalog(self.catalog_name)
        builder.withCurrentNamespace(self.gateway.strings([name.database]))
        builder.withQueryColumnNames(self.gateway.strings(view.row_type.names))
        return builder.build()

    def viewExists(self, ident: Any) -> bool:
        """Whether there is such a view."""
        return self._session.permanent_view(table_name(ident)) is not None

    def invalidateView(self, ident: Any) -> None:
        """Do nothing: nothing is cached."""

    def createView(self, ident: Any, *definition: Any) -> Any:
        """Refuse what does not come through the statement."""
        self._refuse("created", ident)

    def replaceView(self, ident: Any, *definition: Any) -> Any:
        """Refuse what does not come through the statement."""
        self._refuse("replaced", ident)

    def createOrReplaceView(self, ident: Any, *definition: Any) -> Any:
        """Refuse what does not come through the statement."""
        self._refuse("created", ident)

    def alterView(self, ident: Any, *changes: Any) -> Any:
        """Refuse to change a view."""
        self._refuse("altered", ident)

    def dropView(self, ident: Any) -> bool:
        """Drop a view; whether there was one."""
        if not self.viewExists(ident):
            return False
        self.catalog.drop_view(table_name(ident).bare)
        return True

    def renameView(self, old: Any, new: Any) -> None:
        """Refuse to rename a view."""
        self._refuse("renamed", old)

    def _refuse(self, verb: str, ident: Any) -> NoReturn:
        name = table_name(ident)
        raise UnsupportedFeatureError(
            f"view {name} cannot be {verb} this way; run CREATE OR REPLACE VIEW {name} AS … as a statement of its own",
            feature="views",
        )


def _query(name: TableName, view: View) -> str:
    """The query of a view, with the names of its columns by position."""
    columns = ", ".join(quoted(column) for column in view.row_type.names)
    query = view.spark_query.rstrip().rstrip(";")
    return f"SELECT * FROM (\n{query}\n) AS {quoted(name.table)} ({columns})"  # noqa: S608 - the query is the view's
