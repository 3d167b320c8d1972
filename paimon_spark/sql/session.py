"""The session of a statement: catalog, Spark session, settings and current database.

A statement is one of `spark.sql` in a session with attached catalogs, or one of `catalog.sql`, whose catalog is current
whatever is current in Spark. Names mean the same in both. Classic sessions plan queries themselves (`spark_catalog`);
in Spark Connect, which does not know the catalog, queries get DataFrames in place of its tables (`queries`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import SparkSession

from paimon_spark.api.catalog import find_directory, has_branch
from paimon_spark.errors import InvalidOptionError, WarehouseNotFoundError
from paimon_spark.jobs.branch_access import lacks_branch, on_session_branch
from paimon_spark.jobs.opened_table import LackedBranch
from paimon_spark.metadata.handle import is_table
from paimon_spark.options.descriptor import boolean, unknown_option
from paimon_spark.options.known import TABLE_OPTIONS, is_storage_option, is_table_option
from paimon_spark.options.lineage import BARRIER, JOB, OF_ONE_USE
from paimon_spark.options.location import CATALOG, CREATE_BRANCH, MAIN, SESSION_BRANCH, TableName
from paimon_spark.options.scan import (
    BRANCH,
    COLUMNS,
    START_KEYS,
    TIME_ZONE,
    WHERE,
    canonical,
    chooses_state,
)
from paimon_spark.options.scan import OPTIONS as READ_OPTIONS
from paimon_spark.options.write_request import OPTIONS as WRITE_OPTIONS
from paimon_spark.options.write_request import canonical_write
from paimon_spark.spark.session import (
    is_classic,
    local_dataframe,
    session_or_new,
    settings,
    without_attached,
    without_view_names,
)
from paimon_spark.sql.names import DEFAULT_DATABASE, SPARK_CATALOG
from paimon_spark.sql.tokens import tokenize

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from paimon_spark.api.catalog import Catalog
    from paimon_spark.api.table import Table
    from paimon_spark.api.views import View

SETTING: Final = "spark.paimon."
"""Prefix of the session's settings that are options of tables."""
CATALOG_SETTING: Final = "spark.sql.catalog."
"""Prefix of Spark's settings that name the classes of its catalogs."""
CURRENT_DATABASE: Final = "spark.paimon-spark.current-database"
"""The session's setting for the database of USE."""
SESSION_TIME_ZONE: Final = "spark.sql.session.timeZone"
_READS_ONLY: Final = frozenset((*START_KEYS, *(o.key for o in READ_OPTIONS if o not in (BRANCH, TIME_ZONE))))
_READ_KEYS: Final = _READS_ONLY - {WHERE.key, COLUMNS.key} | {BRANCH.key, *BRANCH.fallbacks, TIME_ZONE.key}
"""Options of what a query reads; columns and rows come from the query itself."""
_BRANCH_KEYS: Final = frozenset((BRANCH.key, *BRANCH.fallbacks))
_WRITE_KEYS: Final = frozenset(o.key for o in WRITE_OPTIONS if o not in (BRANCH, TIME_ZONE))
_IGNORED: Final = (
    "requiredsparkconfscheck.enabled", "write.", "read.stream.", "read.allow.fullscan", "vector-search.",
    "source.split.target-size-with-column-pruning",
)  # fmt: skip
"""Prefixes, in lower case, of options that queries ignore: of streams, of Paimon's JAR, of writes."""
WAP_BRANCH: Final = "spark.wap.branch"
"""Iceberg's setting for the branch of a session."""
_WAP_ID: Final = "spark.wap.id"
"""Iceberg's setting for the id of commits that are staged."""
_SCOPED: Final = 4
"""Parts of a setting for certain tables: catalog, database, table, key."""


class CurrentNames:
    """The current catalog and database of a Spark session that does not know its attached catalogs.

    `names` is None while Spark's own catalog is the current one.
    """

    def __init__(self, names: tuple[str, str] | None = None) -> None:
        self.names = names


@dataclass(frozen=True, slots=True)
class Session:
    """The session of a statement: classic Spark or Connect, with its settings at the time of the call.

    Attributes:
        args: values of parameters, as `spark.sql` takes them.
        catalog_name: what names of three parts begin with.
        current: current catalog and database.
        is_of_catalog: the statement is one of `catalog.sql`, and not of `spark.sql`.
        seen: caches what names mean.
        used: where USE keeps the current catalog, when Spark Connect does not know the attached one; else None.
        others: other catalogs attached to the same session, whose tables the statement may name too.
        given: DataFrames that the statement names, by these names.
        is_of_view: the statement is the query of a permanent view, in which temporary views have no meaning.
    """

    catalog: Catalog
    spark: SparkSession
    args: Mapping[str, Any] | Sequence[Any] | None = field(default=None, repr=False)
    conf: Mapping[str, str] = field(default_factory=dict, repr=False)
    catalog_name: str = CATALOG
    current: tuple[str, str] = (CATALOG, DEFAULT_DATABASE)
    is_of_catalog: bool = False
    seen: dict[tuple[str, ...], Any] | None = field(default=None, repr=False, compare=False)
    used: CurrentNames | None = field(default=None, repr=False, compare=False)
    others: tuple[Session, ...] = field(default=(), repr=False, compare=False)
    given: Mapping[str, DataFrame] = field(default_factory=dict, repr=False, compare=False)
    is_of_view: bool = False

    @classmethod
    def of(
        cls, catalog: Catalog, spark: SparkSession | None = None, args: Mapping[str, Any] | Sequence[Any] | None = None
    ) -> Session:
        """Of a statement of `catalog.sql`, in the Spark session given, else the active one, else a new one."""
        found = session_or_new(spark)
        conf = settings(found)
        current = (catalog.name, conf.get(CURRENT_DATABASE, DEFAULT_DATABASE))
        return cls(catalog, found, args, conf, catalog.name, current, is_of_catalog=True)

    @classmethod
    def attached(
        cls, catalog: Catalog, spark: SparkSession, name: str, current: tuple[str, str], conf: Mapping[str, str]
    ) -> Session:
        """In a Spark session to which the catalog is attached; `current` are Spark's current catalog and database."""
        return cls(catalog, spark, None, conf, name, current)

    @classmethod
    def beside(
        cls, catalogs: Mapping[str, Catalog], spark: SparkSession, used: CurrentNames, conf: Mapping[str, str]
    ) -> Session:
        """In a session of Spark Connect to which catalogs are attached by name: of the current one, with the others."""
        current = used.names or ("", "")
        first, *rest = (
            cls(catalog, spark, None, conf, name, current, used=used)
            for name, catalog in sorted(catalogs.items(), key=lambda item: item[0] != current[0])
        )
        return replace(first, others=tuple(rest))

    @property
    def called(self) -> str | None:
        """The name of the catalog for messages of `spark.sql`; None for those of `catalog.sql`, which need none."""
        return None if self.is_of_catalog else self.catalog_name

    def each(self) -> Iterator[Session]:
        """This session, then those of the other attached catalogs; each knows all others."""
        yield self
        for other in self.others:
            rest = tuple(replace(s, others=()) for s in (self, *self.others) if s is not other)
            yield replace(other, args=self.args, given=self.given, others=rest)

    def is_other_catalog(self, name: str) -> bool:
        """Whether a first part of names is another catalog of the Spark session."""
        if any(o.catalog_name.lower() == name.lower() for o in self.others) or name.lower() == SPARK_CATALOG:
            return True
        return "." not in name and name != self.catalog_name and f"{CATALOG_SETTING}{name}" in self.conf

    @property
    def is_current(self) -> bool:
        """Whether names without a catalog are of this one."""
        return self.current[0] == self.catalog_name

    @property
    def catalog_names(self) -> frozenset[str]:
        """The names of Spark's catalogs."""
        found = (k.removeprefix(CATALOG_SETTING) for k in self.conf if k.startswith(CATALOG_SETTING))
        return frozenset((SPARK_CATALOG, *(name for name in found if "." not in name)))

    @property
    def used_database(self) -> str | None:
        """The current database of the catalog, unless Spark itself knows it; None where another catalog is current."""
        is_known = self.used is None and not self.is_of_catalog
        return self.current[1] if not is_known and self.is_current else None

    @property
    def database(self) -> str:
        """The current database."""
        return self.current[1] if self.is_current else DEFAULT_DATABASE

    def in_database(self, database: str) -> Session:
        """The same session with another current database of the catalog."""
        conf = {**self.conf, CURRENT_DATABASE: database}
        return replace(self, conf=conf, current=(self.catalog_name, database))

    def use(self, database: str) -> None:
        """Make a database of the warehouse the current one of the Spark session. Raises DatabaseNotFoundError."""
        if database != DEFAULT_DATABASE:
            self.catalog.list_tables(database)
        if self.used is not None:
            self.used.names = (self.catalog_name, database)
        elif database == DEFAULT_DATABASE:
            self.forget_database()
        else:
            self.spark.conf.set(CURRENT_DATABASE, database)

    def forget_database(self) -> None:
        """Reset the current database to `default`; in Spark Connect, the current catalog to Spark's."""
        if self.used is not None:
            self.used.names = None
        else:
            self.spark.conf.unset(CURRENT_DATABASE)

    def caching(self) -> Session:
        """The same session, which looks up each database, table and view only once, for the names of one statement."""
        return replace(self, seen={})

    def _once(self, key: tuple[str, ...], look: Callable[[], Any]) -> Any:
        if self.seen is None:
            return look()
        if key not in self.seen:
            self.seen[key] = look()
        return self.seen[key]

    def has_database(self, name: str) -> bool:
        """Whether the warehouse has this database; one that does not exist yet has none."""
        return name in self._once(("databases",), self.databases)

    def databases(self) -> list[str]:
        """The databases of the warehouse; of one that does not exist yet, none."""
        try:
            return self.catalog.list_databases()
        except WarehouseNotFoundError:
            return []

    def has_table(self, database: str, table: str) -> bool:
        """Whether the warehouse has this table; does not list other tables."""
        return bool(self._once(("table", database, table), lambda: self._has_table(database, table)))

    def _has_table(self, database: str, table: str) -> bool:
        place = find_directory(self.catalog, database, table)  # none of a path, which may be Spark's
        return place is not None and is_table(*place)

    def has_view(self, name: str) -> bool:
        """Whether the statement may read a temporary view of this name, which the Spark session has."""
        return not self.is_of_view and bool(self._once(("view", name.lower()), lambda: self.temporary_views(name)))

    def permanent_view(self, name: TableName) -> View | None:
        """Permanent view of this name; None without one."""
        if name.as_named.suffix:
            return None
        bare = name.bare
        found: View | None = self._once(("permanent view", bare), lambda: self.catalog.find_view(bare))
        return found

    def for_view(self, database: str) -> Session:
        """The session for the query of a permanent view of a database, to which names without one belong."""
        return replace(self.in_database(database), args=None, seen=None, given={}, is_of_view=True)

    def temporary_views(self, pattern: str | None = None) -> list[str]:
        """The names of the temporary views of the Spark session."""
        # Spark lists them with the tables of its own catalog only.
        place = {"dbName": f"{SPARK_CATALOG}.{DEFAULT_DATABASE}"} if is_classic(self.spark) else {}
        with without_attached():
            return [t.name for t in self.spark.catalog.listTables(**place, pattern=pattern) if t.isTemporary]

    def on_branch(self, name: TableName) -> TableName:
        """The name of the branch that the session works on, where a name has no branch and its table has that one.

        It is `spark.paimon.branch`, else `spark.wap.branch` as of Iceberg, else option `branch` of the catalog.

        Raises InvalidOptionError: the two settings name different branches, or one is blank.
        """
        branch = None if name.branch is not None else self.branch_of_settings(name)
        if branch is None or self._lacks(name, branch):
            return name
        return replace(name, branch=branch.name, is_of_session=True)

    def to_write(self, name: TableName) -> TableName:
        """As `on_branch`, for a write: with `spark.paimon.branch.create` the branch is created from the head first.

        Raises as `Table.create_branch`; BranchNotFoundError: the table lacks the branch.
        """
        if self.conf.get(_WAP_ID):
            raise InvalidOptionError(
                f"{_WAP_ID} = {self.conf[_WAP_ID]!r}: commits staged by an id are not supported, so nothing is "
                f"written; unset it, and name a branch by {SETTING}{SESSION_BRANCH}",
                option=_WAP_ID,
            )
        found = self.on_branch(name)
        lacked = None if found.branch is not None else self.lacked(name)
        if lacked is None or not self.has_table(name.database, name.table):
            return found
        on_session_branch(self.table(name))
        if self.seen is not None:
            self.seen.clear()
        return replace(name, branch=lacked.name, is_of_session=True)

    def refuse_whole(self, name: TableName, verb: str) -> None:
        """Refuse to drop, rename or replace a whole table while the session works on a branch.

        Raises InvalidInputError: of the table; BranchNotFoundError: which the table lacks.
        """
        self.on_branch(name).refuse_branch_of_session(verb)
        lacked = self.lacked(name)
        if lacked is not None and self.has_table(name.database, name.table):
            raise lacks_branch(self.table(name).handle, lacked)

    def lacked(self, name: TableName) -> LackedBranch | None:
        """The branch that the session works on where a table lacks it, and the name names none; else None."""
        branch = None if name.branch is not None else self.branch_of_settings(name)
        return branch if branch is not None and self._lacks(name, branch) else None

    def _lacks(self, name: TableName, branch: LackedBranch) -> bool:
        place = (name.database, name.table, branch.name)
        if branch.set_by in self._scoped_keys(name):
            return False  # of certain tables, which must have it
        return not self._once(("branch", *place), lambda: has_branch(self.catalog, *place))

    def branch_of_settings(self, name: TableName) -> LackedBranch | None:
        """The branch of a table that the session works on, and what names it; None for main."""
        special = [key for key, option in self._scoped_keys(name).items() if option.lower() in _BRANCH_KEYS]
        names = {SETTING + key for key in _BRANCH_KEYS} | {WAP_BRANCH}
        general = [key for key in self.conf if key.lower() in names]
        found = {key: self.conf[key] for key in special[-1:] or general}
        if not found and SESSION_BRANCH in self.catalog.options:
            found = {f"option {SESSION_BRANCH} of the catalog": self.catalog.options[SESSION_BRANCH]}
        for set_by, branch in found.items():
            if not branch.strip() or len(set(found.values())) > 1:
                raise InvalidOptionError(
                    " and ".join(f"{k} = {v!r}" for k, v in found.items())
                    + (": the name of a branch is blank" if not branch.strip() else ": set one of them"),
                    option=set_by,
                )
            return None if branch == MAIN else LackedBranch(branch, set_by, self._creates_branch)
        return None

    @property
    def _creates_branch(self) -> bool:
        text = self.conf.get(SETTING + CREATE_BRANCH, self.catalog.options.get(CREATE_BRANCH, "false"))
        try:
            return boolean(text)
        except ValueError as e:
            raise InvalidOptionError(f"{SETTING}{CREATE_BRANCH} = {text!r}: {e}", option=CREATE_BRANCH) from e

    def table(self, name: TableName, options: Mapping[str, str] | None = None) -> Table:
        """A table, branch or system table of the catalog. Raises as `Catalog.table`."""
        if options is not None and chooses_state(options):
            name = name.as_named
        lacked = None if name.branch is not None else self.lacked(name)
        # A table without the branch of the session is read on main, whatever branch is the catalog's.
        of_session = {} if lacked is None else {BRANCH.key: MAIN}
        found = self.catalog.table(name.text, **{**of_session, **(options or {})})
        is_chosen = options is not None and chooses_state(options)
        return found if lacked is None or is_chosen else replace(found, lacked=lacked)

    def table_to_change(self, name: TableName) -> Table:
        """A table or branch at its head, with the table options of `SET spark.paimon.…`.

        So they apply to DELETE, UPDATE, MERGE, TRUNCATE and statements on tags and branches as to INSERT. Raises as
        `Catalog.table`, and InvalidOptionError as `write_options`.

        Source: Java Spark connector, `SparkCatalog.loadSparkTable`: every statement's table is opened with them.
        """
        return self.table(name, {k: v for k, v in self.write_options(name).items() if k not in _WRITE_KEYS})

    @property
    def time_zone(self) -> str:
        """The session's time zone, for timestamps without one."""
        # `conf` may lack defaults.
        return self.conf.get(SESSION_TIME_ZONE) or str(self.spark.conf.get(SESSION_TIME_ZONE))

    def options(self, name: TableName) -> dict[str, str]:
        """Options of `SET spark.paimon.…` for reads of a table; those of writes are left out.

        Raises InvalidOptionError: an option is unknown; the nearest name is offered.
        """
        found = canonical(self.settings_of(name))
        for key in found:
            is_known = key in _READ_KEYS or key in _WRITE_KEYS or _is_table_key(key)
            if not is_known and not key.lower().startswith(_IGNORED):
                raise unknown_option(key, (*TABLE_OPTIONS, *_READ_KEYS, *_WRITE_KEYS), "SET spark.paimon.")
        wanted = {k: v for k, v in found.items() if k in _READ_KEYS or (_is_table_key(k) and k not in _WRITE_KEYS)}
        # A read has the lineage job of its write, which `run_query` takes.
        return {k: v for k, v in wanted.items() if k not in OF_ONE_USE}

    def write_options(self, name: TableName) -> dict[str, str]:
        """Options of `SET spark.paimon.…` for writes of a table; those of reads are left out. Raises as `options`."""
        self.options(name)
        found = canonical_write(self.settings_of(name))
        return {k: v for k, v in found.items() if k in _WRITE_KEYS or (_is_table_key(k) and k not in _READS_ONLY)}

    def settings_of(self, name: TableName) -> dict[str, str]:
        """The options of `SET spark.paimon.…` for a table, as set; those for the table override those for all tables.

        `spark.paimon.<key>` is for all tables, `spark.paimon.<catalog>.<database>.<table>.<key>` for certain ones, with
        `*` for any. Those that name a branch are left out: names have it, by `on_branch`.
        """
        general: dict[str, str] = {}
        for key, value in self.conf.items():
            bare = key.removeprefix(SETTING)
            parts = bare.split(".", 3)
            is_scoped = len(parts) == _SCOPED and (
                parts[0] in ("*", self.catalog_name) or self.is_other_catalog(parts[0])
            )
            if key.startswith(SETTING) and not is_scoped:
                general[bare] = value
        special = {option: self.conf[key] for key, option in self._scoped_keys(name).items()}
        found = {**general, **special}
        return {k: v for k, v in found.items() if k.lower() not in (*_BRANCH_KEYS, CREATE_BRANCH)}

    def without_versions(self) -> Session:
        """The same session without its settings for the versions that queries read."""
        versions = {key.lower() for key in START_KEYS}

        def names_version(key: str) -> bool:
            bare = key.removeprefix(SETTING).lower()
            return key.startswith(SETTING) and not versions.isdisjoint((bare, bare.split(".", 3)[-1]))

        return replace(self, conf={k: v for k, v in self.conf.items() if not names_version(k)})

    def _scoped_keys(self, name: TableName) -> dict[str, str]:
        """The settings for certain tables that apply to a table, with the options that they set."""
        out = {}
        for key in self.conf:
            parts = key.removeprefix(SETTING).split(".", 3)
            if not key.startswith(SETTING) or len(parts) != _SCOPED:
                continue
            wanted = (self.catalog_name, name.database, name.table)
            if all(part in ("*", own) for part, own in zip(parts, wanted, strict=False)):
                out[key] = parts[3]
        return out

    def run(self, sql: str, frames: Mapping[str, tuple[str, DataFrame]] | None = None) -> DataFrame:
        """Run a statement by Spark; with `frames`, `{key}` in it stands for a DataFrame, and `{{` for a `{`.

        Plans and messages show the name of each DataFrame.
        """
        if not is_classic(self.spark):
            return self._run_through_connect(sql, frames or {})
        assert not frames, "classic sessions plan queries themselves"
        return self.spark.sql(sql, args=self.args)  # type: ignore[arg-type]

    def _run_through_connect(self, sql: str, frames: Mapping[str, tuple[str, DataFrame]]) -> DataFrame:
        """As `run`: a client only names DataFrames itself, in a way that must not show."""
        named = {k: f for k, (_, f) in frames.items()}
        if self.given:
            sql = sql if frames else sql.replace("{", "{{").replace("}", "}}")
            for name in self.given:
                sql = sql.replace(name, f"{{{name}}}")
            named.update(self.given)
        with without_attached():
            found = self.spark.sql(sql, args=self.args, **named)  # type: ignore[arg-type]
        if not frames or tokenize(sql)[0].keyword != "EXPLAIN":
            return found
        return self.rows("plan STRING", [(without_view_names(row[0]),) for row in found.collect()])

    def rows(self, schema: str, rows: Iterable[Sequence[Any]] = ()) -> DataFrame:
        """Rows as a DataFrame; `schema` is DDL text."""
        return local_dataframe(self.spark, schema, [tuple(r) for r in rows])

    def nothing(self) -> DataFrame:
        """The result of statements without one: no rows and no columns."""
        return self.rows("nothing INT").select()


_RUN: Final[ContextVar[Mapping[str, str]]] = ContextVar(
    "lineage job and barrier of the statement that runs", default=MappingProxyType({})
)


@contextmanager
def reads_of_run(session: Session) -> Iterator[None]:
    """Let reads of attached catalogs, which Spark plans inside, have the lineage job and barrier of a statement.

    They must all be planned inside: Spark opens the tables of a DataFrame again for each query of it.
    """
    options = session.catalog.options
    token = _RUN.set({k: options[k] for k in (JOB.key, BARRIER.key) if k in options})
    try:
        yield
    finally:
        _RUN.reset(token)


def options_of_run() -> Mapping[str, str]:
    """The lineage job and barrier of reads that are planned now, as options."""
    return _RUN.get()


def _is_table_key(key: str) -> bool:
    return is_table_option(key) or is_storage_option(key)
