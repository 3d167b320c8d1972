"""The sessions of a Spark application and the catalogs that are attached to them.

Spark's `CatalogManager` holds the catalogs of a session in a private map, and its session state the parser in a private
field: there a classic session gets our objects. Sessions that Spark makes later (`newSession`, one for each streaming
query) get them by hooks of `SparkSessionExtensions`: the parser when Spark makes the state of the session, the catalogs
when it makes the analyzer, through which alone it finds catalogs. Those are the catalogs that the copied settings of
the session name, else those of the application.

Source: Spark `connector/catalog/CatalogManager.scala`, `internal/BaseSessionStateBuilder.scala`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakValueDictionary

from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql.catalog import Catalog as SparkCatalog
from pyspark.sql.conf import RuntimeConfig

from paimon_spark.api.catalog import Catalog
from paimon_spark.spark.session import SEPARATOR, entries_of, settings
from paimon_spark.spark_catalog.catalog import CatalogProxy
from paimon_spark.spark_catalog.functions import TableFunctionProxy, table_function_names
from paimon_spark.spark_catalog.jvm.gateway import Gateway, gateway_of
from paimon_spark.spark_catalog.jvm.proxies import Proxy
from paimon_spark.spark_catalog.reads.scan import install_read_rule
from paimon_spark.spark_catalog.session.cached_tables import forget_cached, refresh_cached
from paimon_spark.spark_catalog.session.parser import ParserProxy
from paimon_spark.spark_catalog.views import ViewCatalogProxy
from paimon_spark.spark_catalog.writes.write import install_write_rule, write_rule
from paimon_spark.sql.names import DEFAULT_DATABASE, SPARK_CATALOG
from paimon_spark.sql.queries.errors import without_log
from paimon_spark.sql.routing import run_routed
from paimon_spark.sql.session import CATALOG_SETTING, SESSION_TIME_ZONE, Session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

IMPLEMENTATION: Final = "paimon_spark"
"""The value of the setting that names the class of a catalog."""
_WAREHOUSE: Final = "warehouse"
_SEPARATOR: Final = "\x1f"
_NO_CHECK: Final = "scala.collection.immutable.Set$EmptySet"
"""A function of any plan that does nothing: to look for it in an empty set."""


class WeakSession(SparkSession):
    """A classic session as attached catalogs know it.

    The JVM's session refers to its catalogs, which are Python objects. If these referred to the session in turn,
    neither the JVM nor Python could ever see that nobody else does, and each streaming query, which has a session of
    its own, would leave one behind.
    """

    def __init__(self, gateway: Gateway, context: SparkContext, jsession: Any) -> None:
        self._weakly = gateway.cls("java.lang.ref.WeakReference")
        super().__init__(context, jsession)

    @property
    def _jsparkSession(self) -> Any:
        found = self._reference.get()
        if found is None:
            raise ReferenceError("the Spark session no longer exists")
        return found

    @_jsparkSession.setter
    def _jsparkSession(self, jsession: Any) -> None:
        self._reference: Any = self._weakly(jsession)

    @property
    def conf(self) -> RuntimeConfig:
        """The settings."""
        return RuntimeConfig(self._jsparkSession.conf())

    @property
    def catalog(self) -> SparkCatalog:
        """Spark's functions on its catalogs."""
        return SparkCatalog(self)

    def createDataFrame(self, *args: Any, **kwargs: Any) -> Any:
        """A DataFrame of rows."""
        # PySpark makes the session the active one of the whole process, which outlives this one.
        before = SparkSession._activeSession
        try:
            return SparkSession(self._sc, self._jsparkSession).createDataFrame(*args, **kwargs)
        finally:
            SparkSession._activeSession = before


class AttachedSession:
    """A session of Spark with its attached catalogs. Only the session's own objects keep it alive."""

    def __init__(self, application: Application, jsession: Any) -> None:
        self._application = application
        self._gateway = application.gateway
        self._reference: Any = self._gateway.cls("java.lang.ref.WeakReference")(jsession)
        self._proxies: dict[str, CatalogProxy] = {}
        self._is_new = True
        self.parser: ParserProxy | None = None

    @cached_property
    def spark(self) -> SparkSession:
        """The session."""
        # Not made before it is needed: while Spark makes a session, this would wait for it.
        return WeakSession(self._gateway, self._application.context, self._reference.get())

    def has_catalogs(self) -> bool:
        """Whether a catalog is attached."""
        if self._is_new:
            manager = self._manager  # for which Spark makes the analyzer, whose hook calls `inherit`
            self.inherit(manager)
        return bool(self._proxies)

    def inherit(self, manager: Any) -> None:
        """Give a session that Spark makes the catalogs of the one that it comes from, once."""
        if self._is_new:
            for name, catalog in self._application.catalogs_of(self.spark).items():
                self._put(manager, name, catalog)
            self._is_new = False

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the attached catalogs."""
        return tuple(self._proxies)

    def attach(self, name: str, catalog: Catalog) -> None:
        """Give the session a catalog."""
        manager, before = self._manager, self._proxies.get(name)
        self._is_new = False
        install_write_rule(self._gateway, self.spark)
        self._put(manager, name, catalog)
        if before is not None and before.catalog.warehouse != catalog.warehouse:
            forget_cached(self._gateway, self.spark, before)

    def _put(self, manager: Any, name: str, catalog: Catalog) -> None:
        install_read_rule(self._gateway, self.spark)
        holds_views = catalog.holds_views and self._gateway.resolves_views
        proxy = (ViewCatalogProxy if holds_views else CatalogProxy)(self._gateway, self, name, catalog)
        self._gateway.java_code("SessionState").put(manager, name, proxy.as_java(), True)
        self._proxies[name] = proxy
        self._register_functions()

    def detach(self, name: str) -> None:
        """Take a catalog away from the session."""
        manager = self._manager
        if manager.currentCatalog().name() == name:
            manager.setCurrentCatalog(SPARK_CATALOG)
        self._gateway.java_code("SessionState").remove(manager, name)
        forget_cached(self._gateway, self.spark, self._proxies.pop(name))

    def known(self, name: str, catalog: Catalog) -> Session:
        """State that a catalog keeps of the session; DataFrames may still use one that was detached or replaced."""
        current, conf = self._state()
        return Session.attached(catalog, self.spark, name, current, conf)

    def sessions(self) -> list[Session]:
        """State of the session in each attached catalog; the current catalog comes first."""
        current, conf = self._state()
        names = sorted(self._proxies, key=lambda name: name != current[0])
        found = [Session.attached(self._proxies[n].catalog, self.spark, n, current, conf) for n in names]
        return [replace(s, others=tuple(o for o in found if o is not s)) for s in found]

    def _state(self) -> tuple[tuple[str, str], dict[str, str]]:
        """Current catalog and database, and the settings with the time zone. One call, as each query needs it twice."""
        describe = self._gateway.java_code("SessionState").describe
        text = describe(self.spark._jsparkSession, _SEPARATOR, SEPARATOR)
        catalog, namespace, time_zone, conf = text.split(_SEPARATOR, 3)
        return (catalog, namespace or DEFAULT_DATABASE), {SESSION_TIME_ZONE: time_zone, **entries_of(conf)}

    def run(self, sql: str, *, is_unknown: bool = False) -> DataFrame | None:
        """Run a statement on tables of attached catalogs; None for one that Spark runs. Raises as `Catalog.sql`.

        `is_unknown` says that Spark's parser has refused it.
        """
        with without_log(), self.refreshing():
            return run_routed(self.sessions(), sql, is_unknown=is_unknown)

    @contextmanager
    def refreshing(self) -> Iterator[None]:
        """Let Spark read cached tables again that were changed meanwhile, as after its own writes."""
        try:
            yield
        finally:
            refresh_cached(self._gateway, self.spark)

    @property
    def _manager(self) -> Any:
        return self.spark._jsparkSession.sessionState().catalogManager()

    def install_parser(self) -> None:
        """Replace the parser of a session whose state exists."""
        state = self.spark._jsparkSession.sessionState()
        field = self._gateway.private_field(state, "sqlParser")
        self.parser = ParserProxy(self._gateway, self, field.get(state))
        field.set(state, self.parser)

    def _register_functions(self) -> None:
        registry = self.spark._jsparkSession.sessionState().tableFunctionRegistry()
        for name in table_function_names():
            registry.createOrReplaceTempFunction(name, TableFunctionProxy(self._gateway, self, name), "scala_udf")


class _ParserBuilder(Proxy, implements=("scala.Function2",)):
    """Spark's hook for the parsers of sessions to come: `(SparkSession, ParserInterface) => ParserInterface`."""

    def __init__(self, application: Application) -> None:
        self.gateway = application.gateway
        self._application = application

    def apply(self, jsession: Any, inner: Any) -> Any:
        """The parser of a session."""
        return self._application.new_session(jsession, inner)

    def curried(self) -> Any:
        """Spark does not call it."""
        raise NotImplementedError("curried")

    def tupled(self) -> Any:
        """Spark does not call it."""
        raise NotImplementedError("tupled")


class _CheckBuilder(Proxy, implements=("scala.Function1",)):
    """Spark's hook for checks of plans: `SparkSession => (LogicalPlan => Unit)`.

    It is called when Spark makes the analyzer of a session, and so before Spark looks for a catalog there.
    """

    def __init__(self, application: Application) -> None:
        self.gateway = application.gateway
        self._application = application

    def apply(self, jsession: Any) -> Any:
        """No check; the session gets its catalogs."""
        self._application.begin_session(jsession)
        return self.gateway.scala_object(_NO_CHECK)

    def compose(self, before: Any) -> Any:
        """Spark does not call it."""
        raise NotImplementedError("compose")

    def andThen(self, after: Any) -> Any:
        """Spark does not call it."""
        raise NotImplementedError("andThen")


class _RuleBuilder(Proxy, implements=("scala.Function1",)):
    """Spark's hook for rules of its analyzer: `SparkSession => Rule`."""

    def __init__(self, application: Application) -> None:
        self.gateway = application.gateway

    def apply(self, jsession: Any) -> Any:
        """The rule of writes."""
        return write_rule(self.gateway)

    def compose(self, before: Any) -> Any:
        """Spark does not call it."""
        raise NotImplementedError("compose")

    def andThen(self, after: Any) -> Any:
        """Spark does not call it."""
        raise NotImplementedError("andThen")


class Application:
    """Catalogs attached in a Spark application."""

    def __init__(self, spark: SparkSession) -> None:
        self.gateway = gateway_of(spark.sparkContext)
        self.context = spark.sparkContext
        self.catalogs: dict[str, Catalog] = {}
        self.sessions: WeakValueDictionary[str, AttachedSession] = WeakValueDictionary()
        extensions = spark._jsparkSession.extensions()
        extensions.injectParser(_ParserBuilder(self))
        extensions.injectCheckRule(_CheckBuilder(self))
        extensions.injectPostHocResolutionRule(_RuleBuilder(self))

    def session(self, spark: SparkSession) -> AttachedSession:
        """The session, with our parser."""
        jsession = spark._jsparkSession
        key = jsession.sessionUUID()
        # Spark makes the state of a session when it is first needed, and asks the hook for its parser then.
        jsession.sessionState()
        found = self.sessions.get(key) or self.sessions.setdefault(key, AttachedSession(self, jsession))
        if found.parser is None:
            found.install_parser()
        return found

    def new_session(self, jsession: Any, inner: Any) -> Any:
        """The parser of a session that Spark makes."""
        found = AttachedSession(self, jsession)
        found.parser = ParserProxy(self.gateway, found, inner)
        self.sessions[jsession.sessionUUID()] = found
        return found.parser

    def begin_session(self, jsession: Any) -> None:
        """Give a session its catalogs, whose analyzer Spark is making."""
        found = self.sessions.get(jsession.sessionUUID())
        if found is not None:
            state = jsession.sessionState()
            builder = self.gateway.private_field(state, "analyzerBuilder").get(state)
            found.inherit(self.gateway.captured(builder).catalogManager())

    def catalogs_of(self, spark: SparkSession) -> Mapping[str, Catalog]:
        """The catalogs of a session that Spark made: those that its settings name, else those of the application."""
        conf = settings(spark)
        named = {
            key.removeprefix(CATALOG_SETTING): key for key, value in conf.items()
            if key.startswith(CATALOG_SETTING) and value == IMPLEMENTATION
            and "." not in key.removeprefix(CATALOG_SETTING)
        }  # fmt: skip
        found = {}
        for name in named:
            warehouse, options = configured_catalog(conf, name)
            same = self.catalogs.get(name)
            found[name] = (
                same if same is not None and same.warehouse == warehouse else Catalog(warehouse or "", options)
            )
        return {**self.catalogs, **found}


_LOCK: Final = threading.Lock()
_APPLICATIONS: Final[list[Application]] = []


def application_of(spark: SparkSession) -> Application:
    """The application of a classic session."""
    with _LOCK:
        for found in _APPLICATIONS:
            if found.gateway.is_of(spark) and found.context is spark.sparkContext:
                return found
        _APPLICATIONS[:] = [made := Application(spark)]
        return made


def active_sessions() -> list[Session]:
    """State of this thread's session in each of its attached catalogs, the current one first; none elsewhere."""
    spark = SparkSession.getActiveSession()
    found = None
    if isinstance(spark, SparkSession) and _APPLICATIONS and _APPLICATIONS[0].gateway.is_of(spark):
        found = _APPLICATIONS[0].sessions.get(spark._jsparkSession.sessionUUID())
    return found.sessions() if found is not None and found.has_catalogs() else []


def configured_catalog(conf: Mapping[str, str], name: str) -> tuple[str | None, dict[str, str]]:
    """Warehouse and options of a catalog that settings of Spark name."""
    prefix = f"{CATALOG_SETTING}{name}."
    options = {k.removeprefix(prefix): v for k, v in conf.items() if k.startswith(prefix)}
    return options.pop(_WAREHOUSE, None), options
