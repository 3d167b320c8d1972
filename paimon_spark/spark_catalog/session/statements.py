"""Queries of `catalog.sql` in classic sessions, planned by Spark with names of one catalog.

The session stays as it is: Spark's parser makes the plan, names without a catalog become full ones, and Spark knows the
catalog under such a name only while it analyzes the plan. The current catalog is not changed, as other threads may run
statements in the same session.

Source: Spark `catalyst/analysis/RelationResolution.scala`, `connector/catalog/CatalogManager.scala`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from pyspark.errors import PySparkException
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.sql import DataFrame

from paimon_spark.errors import UnsupportedFeatureError
from paimon_spark.jobs.read.scan import Scan
from paimon_spark.spark.dataframe import dataframe
from paimon_spark.spark.session import unwrapped
from paimon_spark.spark_catalog.catalog import CatalogProxy
from paimon_spark.spark_catalog.jvm.gateway import Gateway, gateway_of
from paimon_spark.spark_catalog.jvm.java_objects import python_object
from paimon_spark.spark_catalog.jvm.proxies import one_line
from paimon_spark.spark_catalog.reads.scan import install_read_rule
from paimon_spark.spark_catalog.session.cached_tables import refresh_cached
from paimon_spark.spark_catalog.session.parser import ParserProxy
from paimon_spark.spark_catalog.session.sessions import IMPLEMENTATION
from paimon_spark.sql.commands.expressions import bind_parameters
from paimon_spark.sql.functions import TABLE_FUNCTIONS, read_of_call, refuse_columns, refuse_foreign
from paimon_spark.sql.names import name_of
from paimon_spark.sql.queries.errors import (
    missing_condition,
    parts_of,
    unknown_catalog_error,
    unknown_table,
    version_of_view,
    without_log,
)
from paimon_spark.sql.routing import with_spark_syntax
from paimon_spark.sql.run import view_rows
from paimon_spark.sql.session import CATALOG_SETTING
from paimon_spark.sql.tokens import abbreviated, tokenize
from paimon_spark.types import quoted

if TYPE_CHECKING:
    from paimon_spark.api.catalog import Catalog
    from paimon_spark.api.views import View
    from paimon_spark.sql.session import Session

_OF_TEXT: Final = ("CompoundBody", "CacheTable", "UncacheTable")
"""Plans in which names are looked up again later: scripts, and cached tables."""
_KEEP_TEXT: Final = ("BEGIN", "CREATE", "CACHE", "UNCACHE")
"""Keywords at the beginning of statements that may have such plans, also behind a label, or keep their text."""
_LACKS: Final = "MISSING_CATALOG_ABILITY"
_NO_TABLE: Final = "TABLE_OR_VIEW_NOT_FOUND"


def query(session: Session, sql: str) -> DataFrame:
    """Run a query or another statement that Spark runs, with names of the catalog of the session.

    Raises as `Catalog.sql`.
    """
    gateway = gateway_of(session.spark.sparkContext)
    with without_log(), _known(gateway, session) as name:
        try:
            return _Statement(gateway, session, name).run(sql)
        except PySparkException as e:
            raise _explained(session, e, sql, name) from None


class _OneCatalog:
    """The session of a statement, for the catalog that Spark asks for its tables."""

    def __init__(self, gateway: Gateway, session: Session) -> None:
        self._gateway = gateway
        self._session = session

    def known(self, name: str, catalog: Catalog) -> Session:
        """The session, whatever Spark calls the catalog."""
        return self._session

    @contextmanager
    def refreshing(self) -> Iterator[None]:
        """Let Spark read cached tables again that were changed meanwhile."""
        try:
            yield
        finally:
            refresh_cached(self._gateway, self._session.spark)


@contextmanager
def _known(gateway: Gateway, session: Session) -> Iterator[str]:
    """Let Spark know the catalog of a statement, under the name that is returned: its own one, where that is free."""
    install_read_rule(gateway, session.spark)
    code = gateway.java_code("SessionState")
    jsession: Any = session.spark._jsparkSession
    for number in count(1):
        name = session.catalog_name if number == 1 else f"{session.catalog_name} ({number})"
        if CATALOG_SETTING + name in session.conf:
            continue
        proxy = CatalogProxy(gateway, _OneCatalog(gateway, session), name, session.catalog)
        if code.put(jsession, name, proxy.as_java(), False):
            break
    try:
        yield name
    finally:
        code.remove(jsession, name)


class _Statement:
    """A statement that Spark runs with a catalog that it knows as `name`."""

    def __init__(self, gateway: Gateway, session: Session, name: str) -> None:
        self._gateway = gateway
        self._session = session
        self._code = gateway.java_code("Plans")
        self._name = name
        self._jsession: Any = session.spark._jsparkSession
        others = session.catalog_names - {session.catalog_name, name}
        self._names = "\n".join((name, session.database, session.catalog_name, *sorted(others)))

    def run(self, sql: str) -> DataFrame:
        """The rows of the statement."""
        refuse_columns(sql)
        refuse_foreign(lambda: (self._session,), sql)
        tokens = tokenize(sql)
        wrong = missing_condition(sql, tokens)
        if wrong is not None:
            raise wrong
        text = with_spark_syntax(bind_parameters(self._session, sql)[1])
        plan = self._code.parsed(self._jsession, self._parser(), text)
        keeps_text = any(token.keyword in _KEEP_TEXT for token in tokens[:3])
        kind = plan.getClass().getSimpleName() if keeps_text else ""
        nodes, frames = (self._gateway.cls("java.util.ArrayList")() for _ in range(2))
        if keeps_text or self._session.catalog.holds_views or any(f in text.lower() for f in TABLE_FUNCTIONS):
            for node, frame in self._replacements(plan, kind, sql):
                nodes.add(node)
                frames.add(frame._jdf.queryExecution().analyzed())
        sees_views = not self._session.is_of_view
        found = self._code.qualified(self._jsession, plan, self._names, sees_views, nodes, frames)
        match kind:
            case "CreateViewCommand":  # of a temporary view, whose text would be resolved without the catalog
                analyzed = self._frame(found.plan())._jdf.queryExecution().analyzed()
                return self._frame(self._code.keepingPlan(found, analyzed))
            case "CacheTableAsSelect":
                return self._cached(found)
        return self._frame(found)

    def _parser(self) -> Any:
        """The session's parser within that of attached catalogs; None where no catalog is attached."""
        if IMPLEMENTATION not in self._session.conf.values():
            return None
        ours = python_object(self._gateway, self._jsession.sessionState().sqlParser())
        return ours.inner if isinstance(ours, ParserProxy) else None

    def _frame(self, plan: Any) -> DataFrame:
        return DataFrame(self._code.rows(self._jsession, plan, self._name), self._session.spark)

    def _replacements(self, plan: Any, kind: str, sql: str) -> list[tuple[Any, DataFrame]]:
        """Nodes of a plan that Spark does not look up here, and their rows: table functions, permanent views."""
        sees_views = not self._session.is_of_view
        found = self._code.found(self._jsession, plan, self._names, " ".join(TABLE_FUNCTIONS), sees_views)
        out, versioned = [], list[list[str]]()
        for node in found:
            match node.getClass().getSimpleName():
                case "RelationTimeTravel":
                    versioned += [_parts(node.relation())] if _is_relation(node.relation()) else []
                    continue
                case "UnresolvedTableValuedFunction":
                    out.append((node, self._call(node)))
                    continue
            parts = _parts(node)
            if kind in _OF_TEXT:
                raise UnsupportedFeatureError(
                    f"catalog.sql cannot run this statement on the Paimon table {'.'.join(parts)}: attach the catalog, "
                    f"paimon_spark.attach(spark, …), and run it by spark.sql: {abbreviated(sql)}",
                    feature="statement of catalog.sql",
                )
            view = self._view(parts)
            if view is not None and (parts in versioned or not node.options().isEmpty()):
                raise version_of_view(view.name)
            if view is not None:
                out.append((node, view_rows(self._session, view)))
        return out

    def _call(self, node: Any) -> DataFrame:
        """The rows of a call of a table function."""
        arguments = node.functionArgs()
        text = ", ".join(arguments.apply(i).sql() for i in range(arguments.size()))
        read = read_of_call(self._session, node.name().last(), text)
        return dataframe(read, self._session.spark) if isinstance(read, Scan) else read.to_spark(self._session.spark)

    def _view(self, parts: Sequence[str]) -> View | None:
        """The permanent view of a name; None for a table. Spark itself would not see that views read each other."""
        if not self._session.catalog.holds_views:
            return None
        name = name_of(parts[1:] if parts[0] == self._session.catalog_name else parts, self._session.database)
        if self._session.has_table(name.database, name.table):
            return None
        return self._session.permanent_view(name)

    def _cached(self, plan: Any) -> DataFrame:
        """Run `CACHE [LAZY] TABLE v AS …`, whose text Spark would keep."""
        name = plan.tempViewName()
        view = quoted(name if isinstance(name, str) else name.value().toString())
        self._frame(plan.plan()).createTempView(view)
        options = self._gateway.text_map(
            self._gateway.static("scala.jdk.javaapi.CollectionConverters", "asJava")(plan.options())
        )
        given = ", ".join(f"'{key}' = '{value}'" for key, value in options.items())
        self._session.spark.sql(
            f"CACHE {'LAZY ' if plan.isLazy() else ''}TABLE {view}" + (f" OPTIONS ({given})" if given else "")
        )
        return self._session.nothing()


def _is_relation(node: Any) -> bool:
    return bool(node.getClass().getSimpleName() == "UnresolvedRelation")


def _parts(relation: Any) -> list[str]:
    """The parts of the name of a relation that is not resolved."""
    found = relation.multipartIdentifier()
    return [found.apply(i) for i in range(found.size())]


def _explained(session: Session, error: PySparkException, sql: str, name: str) -> Exception:
    """Error for a statement: ours, else Spark's without the name that Spark had for the catalog."""
    ours = unwrapped(error)
    if ours is not None:
        return ours
    condition = error.getCondition() or ""
    if condition.startswith(_LACKS):
        return UnsupportedFeatureError(f"{one_line(str(error))}; in: {abbreviated(sql)}", feature=condition)
    parts = parts_of((error.getMessageParameters() or {}).get("relationName", ""))
    if condition == _NO_TABLE and parts[:1] == [name]:
        named = re.search(rf"\b{re.escape(parts[1])}`?\s*\.\s*`?{re.escape(parts[-1])}\b", sql) is not None
        missing = unknown_table(session, parts[1:] if named else parts[-1:])
        if missing is not None:
            return missing
    if name != session.catalog_name and isinstance(error, CapturedException):
        error._desc = str(error).replace(quoted(name), quoted(session.catalog_name))  # which `str` shows
    return unknown_catalog_error(session, error) or error
