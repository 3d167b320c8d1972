"""The jobs of a pipeline as queries of one Spark session, until its process is killed or all is read."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tests.chaos.stream_job import session_at
from tests.harness.pipelines import Pipeline
from tests.harness.spark_pipelines import run, start


def main(text: str) -> None:
    """Run the jobs.

    Args:
        text: JSON of `warehouse`, `logs`, `home`, and whether it ends (`once`): then one job after the other.
    """
    asked: dict[str, Any] = json.loads(text)
    pipeline = Pipeline(asked["warehouse"], Path(asked["logs"]))
    session = session_at(asked["home"])
    try:
        if asked["once"]:
            for job in pipeline.jobs:
                run(session, pipeline, job)
        else:
            for job in pipeline.jobs:
                start(session, pipeline, job, once=False)
            session.streams.awaitAnyTermination()
    finally:
        session.stop()


if __name__ == "__main__":
    main(sys.argv[1])
