"""Report when streaming queries of a session begin and end. User's process.

Spark ends the processes beside the driver without a word when a query ends, so that neither sources nor sinks can tell:
only the listeners of a session are called.
"""

from __future__ import annotations

from collections.abc import Callable
from weakref import WeakKeyDictionary

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from paimon_spark.spark.session import session_or_new

_WATCHED: WeakKeyDictionary[SparkSession, set[str]] = WeakKeyDictionary()
"""Of each session what it is watched for."""


class QueryWatch(StreamingQueryListener):
    """Calls `began` and `ended` with the ids of queries; neither may raise."""

    def __init__(self, began: Callable[[str], None], ended: Callable[[str], None]) -> None:
        self._began, self._ended = began, ended

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        """Report a query that begins, or goes on after a restart."""
        self._began(str(event.id))

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - Spark's name
        """Nothing to report."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 - Spark's name
        """Report a query that was stopped, failed, or has read all that there was."""
        self._ended(str(event.id))


def watch_queries(
    session: SparkSession | None, what_for: str, began: Callable[[str], None], ended: Callable[[str], None]
) -> None:
    """Report the queries of a session, classic or Connect; once for each `what_for`."""
    spark = session_or_new(session)
    watched = _WATCHED.setdefault(spark, set())
    if what_for not in watched:
        spark.streams.addListener(QueryWatch(began, ended))
        watched.add(what_for)
