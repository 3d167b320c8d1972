"""Reports of a session on its streaming queries: each begins and ends, in the order of their runs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from paimon_spark.spark.query_watch import QueryWatch


def event(query: str, run: int) -> Any:
    return SimpleNamespace(id=query, runId=run)


def test_the_end_of_an_earlier_run_is_not_the_end_of_the_query() -> None:
    seen: list[str] = []
    watch = QueryWatch(lambda query: seen.append(f"{query} began"), lambda query: seen.append(f"{query} ended"))

    watch.onQueryTerminated(event("old", 0))  # it began before the session was watched
    watch.onQueryStarted(event("q", 1))
    watch.onQueryStarted(event("q", 2))  # restarted, before Spark's thread reports the end
    watch.onQueryTerminated(event("q", 1))
    assert seen == ["old ended", "q began", "q began"]

    watch.onQueryTerminated(event("q", 2))
    assert seen[3:] == ["q ended"]
