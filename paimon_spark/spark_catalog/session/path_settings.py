"""Settings of the session, `spark.paimon.…`, for `format("paimon")`.

Spark shows no settings to data sources in Python, so `attach` wraps the methods of PySpark that load and save, and that
record the options before. Only processes that attach a catalog have them wrapped.

Source: Java Spark connector, `SparkSource`, whose reads and writes follow these settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import wraps
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from paimon_spark.api.catalog import Catalog
from paimon_spark.api.table import load
from paimon_spark.errors import TableNotFoundError
from paimon_spark.jobs.branch_access import on_session_branch
from paimon_spark.metadata.branches import branch_exists
from paimon_spark.options.known import is_storage_option
from paimon_spark.options.location import TableName, is_name, split_name, split_suffix
from paimon_spark.options.scan import BRANCH, LOCATION_KEYS, TIME_ZONE, canonical, names_branch, without_start
from paimon_spark.options.write_request import (
    OF_OVERWRITES,
    OVERWRITE_MODE,
    PartitionOverwriteMode,
    canonical_write,
)
from paimon_spark.spark.session import is_spark_alone, settings
from paimon_spark.sql.commands.create import PROVIDERS
from paimon_spark.sql.commands.insert import OVERWRITE_SETTING
from paimon_spark.sql.commands.target import refuse_exact_case
from paimon_spark.sql.session import SESSION_TIME_ZONE, SETTING, WAP_BRANCH, Session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from paimon_spark.api.table import Table

_GIVEN: Final = "_paimon_spark_given"
"""The attribute of a reader or writer with its format, under None, and its options."""
_NO_OPTIONS: Final = ("schema", "mode", "partitionBy", "outputMode", "queryName")
"""Arguments of the methods that are no options."""
_LOCK: Final = Lock()
_WRAPPED: Final[set[type]] = set()


def follow_settings(*, through_connect: bool) -> None:
    """Let readers and writers of PySpark follow the settings of their sessions, once for each class."""
    if through_connect:
        from pyspark.sql.connect import readwriter as batch
        from pyspark.sql.connect.streaming import readwriter as streams
    else:
        from pyspark.sql import readwriter as batch  # type: ignore[no-redef]
        from pyspark.sql.streaming import readwriter as streams  # type: ignore[no-redef]
    with _LOCK:
        for kind, method in (
            (batch.DataFrameReader, "load"),
            (batch.DataFrameWriter, "save"),
            (streams.DataStreamReader, "load"),
            (streams.DataStreamWriter, "start"),
        ):
            if kind not in _WRAPPED:
                _WRAPPED.add(kind)
                _wrap(kind, method)


def _wrap(kind: Any, method: str) -> None:
    spark_format, spark_option, spark_options, spark_call = (
        getattr(kind, name) for name in ("format", "option", "options", method)
    )

    @wraps(spark_format)
    def format_(self: Any, source: str) -> Any:
        _given(self)[None] = source
        return spark_format(self, source)

    @wraps(spark_option)
    def option(self: Any, key: str, value: Any) -> Any:
        _given(self)[key] = value
        return spark_option(self, key, value)

    @wraps(spark_options)
    def options(self: Any, **named: Any) -> Any:
        _given(self).update(named)
        return spark_options(self, **named)

    @wraps(spark_call)
    def call(self: Any, path: Any = None, format: str | None = None, *args: Any, **named: Any) -> Any:
        given = _given(self)
        source = format or given.get(None)
        if isinstance(source, str) and source.lower() in PROVIDERS and not is_spark_alone():
            own: dict[str | None, Any] = {k: v for k, v in named.items() if k not in _NO_OPTIONS}
            asked = {k: _text(v) for k, v in {**given, **own}.items() if k is not None and v is not None}
            where = asked.get("path") if path is None else path
            if isinstance(where, str):
                more = options_of_settings(
                    _session(self), where, asked, is_read=method == "load", is_batch=method != "start"
                )
                for key, value in more.items():
                    spark_option(self, key, value)  # not as a given one: settings may change before the next call
        return spark_call(self, path, format, *args, **named)

    kind.format, kind.option, kind.options = format_, option, options
    setattr(kind, method, call)


def _given(frame: Any) -> dict[str | None, Any]:
    found: dict[str | None, Any] = frame.__dict__.setdefault(_GIVEN, {})
    return found


def _session(frame: Any) -> SparkSession:
    """The session of a reader or writer."""
    found: SparkSession = next(
        frame.__dict__[name] for name in ("_spark", "_session", "_client") if name in frame.__dict__
    )
    return found


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def options_of_settings(
    spark: SparkSession, path: str, given: Mapping[str, str], *, is_read: bool, is_batch: bool = True
) -> dict[str, str]:
    """The options that the settings of a session add to those of a read or write of a path.

    Args:
        spark: the session.
        path: of the table, or its name in the warehouse of `given`.
        given: the options of the reader or writer, which win.
        is_read: whether rows are read; a read of a table without the branch of the session is one of main.
        is_batch: whether a write is no stream.

    Raises:
        BranchNotFoundError: a write of a table that lacks the branch of the session.
        InvalidOptionError: as `Session.options`.
        UnsupportedFeatureError: as `refuse_exact_case`.
    """
    conf = settings(spark)
    session = Session(Catalog(path, {}), spark, None, conf)
    if not is_read:
        refuse_exact_case(session)
    spelt = canonical(given) if is_read else canonical_write(given)
    zone = {TIME_ZONE.key: conf[SESSION_TIME_ZONE]} if SESSION_TIME_ZONE in conf and TIME_ZONE.key not in spelt else {}
    own = zone if is_read or not is_batch else {**zone, **_overwrite_mode(conf, spelt)}
    if not any(key.startswith(SETTING) or key == WAP_BRANCH for key in conf):
        return own
    bare, branch, _ = split_suffix(path)
    name = _name(bare)
    found = session.options(name) if is_read else session.write_options(name)
    found = {**own, **{k: v for k, v in without_start(found, spelt).items() if k not in spelt}}
    reaching = {k: v for k, v in given.items() if is_storage_option(k) or (k in LOCATION_KEYS and k != "path")}
    try:
        table = load(bare, reaching)
    except TableNotFoundError:
        return {} if is_read else own  # a read says what is wrong; a new table stores no settings
    names_one = branch is not None or (names_branch(given) if is_read else BRANCH.key in spelt)
    return found if names_one else {**found, **_branch(session, name, table, is_read=is_read)}


def _overwrite_mode(conf: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """The option of an overwrite that follows Spark's setting, as `insertInto` does, unless options say otherwise."""
    mode = conf.get(OVERWRITE_SETTING, "").lower()
    is_asked = mode == PartitionOverwriteMode.DYNAMIC and not OF_OVERWRITES & given.keys()
    return {OVERWRITE_MODE.key: mode} if is_asked else {}


def _name(path: str) -> TableName:
    """Database and table of a path, for settings of certain tables."""
    if is_name(path):
        return TableName(*split_name(path))
    folder, _, table = path.rstrip("/").rpartition("/")
    return TableName(folder.rpartition("/")[2].removesuffix(".db"), table)


def _branch(session: Session, name: TableName, table: Table, *, is_read: bool) -> dict[str, str]:
    """The branch of the session, where the table has it, or gets it with the first write."""
    branch = session.branch_of_settings(name)
    if branch is None:
        return {}
    if not branch_exists(table.handle, branch.name):
        if is_read:
            return {}
        on_session_branch(replace(table, lacked=branch))
    return {BRANCH.key: branch.name}
