"""Report when streaming queries of a session begin and end. User's process.

Spark ends the processes beside the driver without a word when a query ends, so that neither sources nor sinks can tell:
only the listeners of a session are called.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
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
    """Calls `began` and `ended` with the ids of queries; neither may raise.

    Spark reports a start in the thread that starts the query, and an end later, in a thread of its own: the end of a
    run may arrive after the start of the query's next run, and is not reported then.
    """

    def __init__(self, began: Callable[[str], None], ended: Callable[[str], None]) -> None:
        self._began, self._ended = began, ended
        self._lock = Lock()
        self._runs: dict[str, str] = {}
        """Of each query its newest run."""

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        """Report a query that begins, or goes on after a restart."""
        query, run = str(event.id), str(event.runId)
        with self._lock:
            self._runs[query] = run
            self._began(query)

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - Spark's name
        """Nothing to report."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 - Spark's name
        """Report a query that was stopped, failed, or has read all that there was."""
        query, run = str(event.id), str(event.runId)
        with self._lock:
            if self._runs.get(query, run) == run:
                self._runs.pop(query, None)
                self._ended(query)


def watch_queries(
    session: SparkSession | None, what_for: str, began: Callable[[str], None], ended: Callable[[str], None]
) -> None:
    """Report the queries of a session, classic or Connect; once for each `what_for`."""
    spark = session_or_new(session)
    watched = _WATCHED.setdefault(spark, set())
    if what_for not in watched:
        spark.streams.addListener(QueryWatch(began, ended))
        watched.add(what_for)
