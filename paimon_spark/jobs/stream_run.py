"""QueryRun: what the end of a micro-batch knows of its query."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class QueryRun:
    """What is known beside the driver of the query whose batch ends.

    Attributes:
        name: None for a query without a name.
        checkpoint: option `checkpointLocation` of the query.
        checkpoint_conf: `spark.sql.streaming.checkpointLocation` of its session, where the query has no such option.
    """

    query_id: str
    name: str | None = None
    checkpoint: str | None = None
    checkpoint_conf: str | None = None
