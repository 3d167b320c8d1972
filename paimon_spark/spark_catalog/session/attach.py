"""Attach catalogs to Spark sessions, and detach them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from paimon_spark.api.catalog import Catalog, load_catalog
from paimon_spark.errors import InvalidInputError, InvalidOptionError
from paimon_spark.format.json_files import find_object
from paimon_spark.jobs.opened_table import OptionValue, as_text
from paimon_spark.options.location import CATALOG
from paimon_spark.redaction import spark_pattern
from paimon_spark.spark.session import (
    configure_session,
    find_sources_here,
    is_classic,
    register,
    settings,
    shorten_errors,
)
from paimon_spark.spark_catalog.jvm.classic import allow_classic, classic_pyspark
from paimon_spark.spark_catalog.jvm.gateway import SQL, gateway_of
from paimon_spark.spark_catalog.session.parse_errors import explain_missing_tables
from paimon_spark.spark_catalog.session.path_settings import follow_settings
from paimon_spark.spark_catalog.session.sessions import (
    IMPLEMENTATION,
    active_sessions,
    application_of,
    configured_catalog,
)
from paimon_spark.sql.names import SPARK_CATALOG
from paimon_spark.sql.session import CATALOG_SETTING

_WAREHOUSE: Final = "warehouse"
_REDACTION: Final = "spark.sql.redaction.options.regex"
_REDACTION_OF_SPARK: Final = "(?i)url"
"""The default of the setting."""
_ATTACHED: Final = "spark.paimon-spark.attached."
"""Prefix of the settings that say which others `attach` has changed: by key, the values before and after."""
_CONNECT: Final = SQL + "connect.service."


def attach(
    spark: SparkSession, warehouse: str | None = None, *, name: str = CATALOG, **catalog_options: OptionValue
) -> Catalog:
    """Make a warehouse a catalog of Spark: its tables are `<name>.<database>.<table>` in SQL and DataFrames.

    Afterwards `spark.sql`, `spark.table`, `spark.read.table`, `spark.readStream.table`, `df.writeTo`,
    `df.write.saveAsTable`, `df.write.insertInto` and `writeStream.toTable` know these names, in this session and in
    those that Spark makes from it. Attach several warehouses under several names. Call it again to change the
    warehouse, which then has only the options given with it, or to add options. SET hides the secrets among its
    options, unless `spark.sql.redaction.options.regex` is set to an expression of your own.

    Args:
        spark: the session.
        warehouse: path or URL; default is the setting `spark.sql.catalog.<name>.warehouse`, then `PAIMON_WAREHOUSE`,
            then the configuration file.
        name: of the catalog.
        catalog_options: as `load_catalog`; those of the settings `spark.sql.catalog.<name>.<option>` are the default.

    Returns:
        The catalog.

    Raises:
        InvalidOptionError: as `load_catalog`, or `name` is not a name that Spark can take.
        InvalidInputError: Spark has another catalog of this name.
    """
    _check_name(name)
    classic = server_session(spark)
    conf = settings(classic or spark)
    known = conf if warehouse is None else {**conf, **_former(conf, name)}
    of_settings, options = configured_catalog({k: v for k, v in known.items() if v is not None}, name)
    given = {**options, **as_text(catalog_options)}
    catalog = replace(load_catalog(warehouse or of_settings, **given), name=name)
    implementation = conf.get(CATALOG_SETTING + name)
    if implementation not in (None, IMPLEMENTATION):
        raise InvalidInputError(
            f"Spark has a catalog {name} already, of class {implementation}; attach with another name: "
            f"paimon_spark.attach(spark, {catalog.warehouse!r}, name='…')",
            name=name,
        )
    if classic is not None:
        with classic_pyspark():
            _attach_classic(classic, name, catalog)
        if not is_classic(spark):  # of Connect in this process: its server's errors go through Connect, too
            shorten_errors(spark)
        follow_settings(through_connect=not is_classic(spark))
    else:
        from paimon_spark.spark_catalog.connect.hooks import attach_to  # needs grpc

        attach_to(spark, name, catalog)
        follow_settings(through_connect=True)
    wanted = {
        f"{CATALOG_SETTING}{name}.{key}": value for key, value in {**given, _WAREHOUSE: catalog.warehouse}.items()
    }
    _hide_secrets(classic or spark, conf)
    _change_settings(classic or spark, name, conf, wanted)
    return catalog


def _attach_classic(spark: SparkSession, name: str, catalog: Catalog) -> None:
    """Give a session with a JVM a catalog."""
    register(spark)
    find_sources_here(spark)
    configure_session(spark)
    application = application_of(spark)
    session = application.session(spark)
    spark.conf.set(f"{CATALOG_SETTING}{name}", IMPLEMENTATION)
    session.attach(name, catalog)
    application.catalogs[name] = catalog
    explain_missing_tables(active_sessions)


def detach(spark: SparkSession, name: str = CATALOG) -> None:
    """Take a catalog away from a session again; nothing happens to its tables.

    Raises InvalidInputError: no catalog of this name is attached.
    """
    classic = server_session(spark)
    if classic is not None:
        with classic_pyspark():
            _detach_classic(classic, name)
        classic.conf.unset(f"{CATALOG_SETTING}{name}")
    else:
        from paimon_spark.spark_catalog.connect.hooks import detach_from  # needs grpc

        detach_from(spark, name)
    _change_settings(classic or spark, name, settings(classic or spark), {})


def _detach_classic(spark: SparkSession, name: str) -> None:
    """Take a catalog away from a session with a JVM. Raises InvalidInputError: it is not attached."""
    application = application_of(spark)
    session = application.session(spark)
    if not session.has_catalogs() or name not in session.names:
        raise InvalidInputError(
            f"no catalog {name} is attached to this session; attached are {', '.join(session.names) or 'none'}",
            name=name,
        )
    session.detach(name)
    application.catalogs.pop(name, None)


def _hide_secrets(spark: SparkSession, conf: Mapping[str, str]) -> None:
    """Let SET hide the secrets among the settings of catalogs, unless the user has an expression of their own."""
    if conf.get(_REDACTION, _REDACTION_OF_SPARK) == _REDACTION_OF_SPARK:
        spark.conf.set(_REDACTION, spark_pattern())


def _change_settings(spark: SparkSession, name: str, conf: Mapping[str, str], wanted: Mapping[str, str]) -> None:
    """Change settings for an attached catalog; those that an earlier call set, unchanged since, are restored."""
    former = _former(conf, name)
    before = {**conf, **former}
    now: dict[str, str | None] = {**former, **wanted}
    changed = {k: (before.get(k), v) for k, v in wanted.items() if before.get(k) != v}
    now[_ATTACHED + name] = json.dumps(changed) if changed else None
    for key, value in now.items():
        if value is not None:
            spark.conf.set(key, value)
        elif key in conf:
            spark.conf.unset(key)


def _former(conf: Mapping[str, str], name: str) -> dict[str, str | None]:
    """The values before an earlier call of `attach` of the settings that are still as it made them; None: not set."""

    def build(raw: dict[str, Any]) -> dict[str, str | None]:
        return {key: before for key, (before, after) in raw.items() if conf.get(key) == after}

    return find_object(conf.get(_ATTACHED + name, "{}"), build) or {}  # anybody may write settings


def server_session(spark: SparkSession) -> SparkSession | None:
    """The classic session behind a session; None where Spark Connect's server is another process.

    With `spark.api.mode=connect` and a local master, as in Spark Declarative Pipelines, PySpark starts the server in a
    JVM of this process.
    """
    if is_classic(spark):
        return spark
    context: Any = SparkContext._active_spark_context
    if context is None:
        return None
    jvm, session_id = gateway_of(context), getattr(spark, "session_id", None)
    try:
        manager = jvm.scala_object(_CONNECT + "SparkConnectService").sessionManager()
        sessions = manager.listActiveSessions()
        found = [sessions.apply(i) for i in range(sessions.size())]
        key = next(h.key() for h in found if h.sessionId() == session_id)
        holder = manager.getIsolatedSessionIfPresent(key)
    except (Py4JError, StopIteration):
        return None
    allow_classic()
    return SparkSession(context, holder.get().session())


def _check_name(name: str) -> None:
    if not name or not all(c.isalnum() or c in "_-" for c in name) or name == SPARK_CATALOG:
        raise InvalidOptionError(
            f"{name!r} cannot be the name of a catalog; use letters, digits, _ and -, and not {SPARK_CATALOG}",
            name=name,
        )
