"""The catalogs attached to each session of Spark Connect."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from pyspark.sql import SparkSession

from paimon_spark.errors import SqlSyntaxError
from paimon_spark.options.location import TableName
from paimon_spark.spark.session import settings
from paimon_spark.sql.cursor import Cursor
from paimon_spark.sql.names import resolve_name, resolve_source
from paimon_spark.sql.session import CurrentNames, Session
from paimon_spark.sql.substitutions import savepoint_names
from paimon_spark.sql.tokens import edited, tokenize

if TYPE_CHECKING:
    from paimon_spark.api.catalog import Catalog

_ALWAYS: Final = ("catalogs?", "identifier", "immediate", "spark[.]paimon[.]", "paimon_incremental_")
"""Words of statements that may be about the catalogs without naming one: they list catalogs, compute names, or use
settings and functions of ours."""


class AttachedCatalogs:
    """The catalogs attached to one session, and which of them is the current one. Threads may share it."""

    def __init__(self, catalogs: Mapping[str, Catalog], current: tuple[str, str] | None = None) -> None:
        self.catalogs: Final = dict(catalogs)
        self.used: Final = CurrentNames(current)
        names = "|".join(re.escape(name) for name in self.catalogs)
        self._mark: Final = re.compile(rf"\b(?:{names}|{'|'.join(_ALWAYS)})", re.IGNORECASE)

    def may_name(self, text: Any) -> bool:
        """Whether a name or a statement may be about the catalogs; it certainly is not when this is False."""
        if not isinstance(text, str):
            return False  # Spark says what is wrong
        return self.used.names is not None or self._mark.search(text) is not None

    def session(self, spark: SparkSession) -> Session:
        """The session of the current catalog, or of the first one, with the others."""
        return Session.beside(self.catalogs, spark, self.used, settings(spark))

    def find(self, spark: SparkSession, text: str, *, is_read: bool = False) -> tuple[Session, TableName] | None:
        """The session of the catalog of a table that a text names, and the table, which need not exist.

        None when it is Spark's. A temporary view hides a table that is read.
        """
        parts = self.parts(text)
        if parts is None:
            return None
        for session in self.session(spark).each():
            name = resolve_source(session, parts) if is_read else resolve_name(session, parts)
            if name is not None:
                return session, name
        return None

    def parts(self, text: str) -> tuple[str, ...] | None:
        """The parts of a name that may be about the catalogs; None of another, or of no name, which Spark reports."""
        if not self.may_name(text):
            return None
        try:
            cursor = Cursor(edited(text, savepoint_names(tokenize(text))))
            parts = cursor.name()
            cursor.end()
        except SqlSyntaxError:
            return None
        return parts


_SESSIONS: Final[WeakKeyDictionary[SparkSession, AttachedCatalogs]] = WeakKeyDictionary()
_LOCK: Final = Lock()


def attached_to(spark: SparkSession) -> AttachedCatalogs | None:
    """The catalogs attached to a session; None without any."""
    return _SESSIONS.get(spark)


def names_attached_to(spark: SparkSession) -> Sequence[str]:
    """The names of the catalogs attached to a session."""
    found = attached_to(spark)
    return () if found is None else tuple(found.catalogs)


def add(spark: SparkSession, name: str, catalog: Catalog) -> None:
    """Attach a catalog to a session, in place of one of this name."""
    with _LOCK:
        found = _SESSIONS.get(spark)
        before = {} if found is None else found.catalogs
        _SESSIONS[spark] = AttachedCatalogs({**before, name: catalog}, None if found is None else found.used.names)


def remove(spark: SparkSession, name: str) -> None:
    """Detach a catalog from a session; when it is the current one, Spark's is from then on."""
    with _LOCK:
        found = _SESSIONS.get(spark)
        if found is None:
            return
        rest = {n: c for n, c in found.catalogs.items() if n != name}
        current = found.used.names
        if rest:
            _SESSIONS[spark] = AttachedCatalogs(rest, None if current is None or current[0] == name else current)
        else:
            del _SESSIONS[spark]


def follow(spark: SparkSession, of: AttachedCatalogs, *, keeps_current: bool) -> None:
    """Attach the catalogs of one session to another that was made from it."""
    with _LOCK:
        _SESSIONS[spark] = AttachedCatalogs(of.catalogs, of.used.names if keeps_current else None)
