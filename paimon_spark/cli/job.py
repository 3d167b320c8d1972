"""The command line as a Spark job.

Run it by `spark-submit "$(paimon-spark job-script)" branch create db.t fix --tag v1`.

A session is active before the command runs, so that heavy work is distributed: compaction, savepoints, SQL. The exit
code is that of the command.

spark-submit writes Python's stderr to its own stdout. Messages go to the stderr of the JVM instead, so that stdout
holds the answer alone.
"""

from __future__ import annotations

import io
import os
import sys
from typing import Any, TextIO, cast


class _JavaErrors(io.TextIOBase):
    """The stderr of the JVM that started this process."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        self._stream.print(text)
        return len(text)

    def flush(self) -> None:
        self._stream.flush()


def run() -> int:
    """Start the session, run the command of this process's arguments, stop the session."""
    from paimon_spark.cli.main import main
    from paimon_spark.cli.session import spark_session

    session = spark_session()
    python_errors = sys.stderr
    sys.stderr = _java_errors() or python_errors
    try:
        return main(sys.argv[1:])
    finally:
        sys.stderr = python_errors
        session.stop()


def _java_errors() -> TextIO | None:
    """Standard error of the JVM that started this process; None without one, as through Spark Connect."""
    from pyspark import SparkContext

    gateway = getattr(SparkContext, "_gateway", None)
    if gateway is None or "PYSPARK_GATEWAY_PORT" not in os.environ:
        return None
    return cast("TextIO", _JavaErrors(gateway.jvm.java.lang.System.err))


if __name__ == "__main__":
    sys.exit(run())
