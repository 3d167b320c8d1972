"""Client of connector_driver: one Spark application with Java Paimon's connector, started at the first request."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from tests.interop import peers


class ConnectorError(RuntimeError):
    """The application died; the message ends with what it printed."""


class Connector:
    """The connector in a process of its own, for many requests. `close()` ends it."""

    def __init__(self) -> None:
        """Start nothing yet."""
        self._process: subprocess.Popen[str] | None = None
        self._scratch: Path | None = None
        self._log: IO[str] | None = None

    def answers(self, catalogs: Mapping[str, Path], statements: Sequence[str]) -> list[Any]:
        """Run the statements in a session over these catalogs.

        Returns:
            One per statement: {"columns": [[name, type, nullable], …], "rows": [[value, …], …]} or {"error"}.

        Raises:
            ConnectorError: the application died.
        """
        process = self._started()
        assert process.stdin is not None and process.stdout is not None and self._log is not None
        request = {"catalogs": {k: str(v) for k, v in catalogs.items()}, "statements": list(statements)}
        with contextlib.suppress(BrokenPipeError):  # it died: there is no reply either
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
        line = process.stdout.readline()
        if not line:
            self._log.seek(0)
            raise ConnectorError(f"the Spark application of the connector ended:\n{self._log.read()[-4000:]}")
        found: list[Any] = json.loads(line)
        return found

    def rows(self, catalogs: Mapping[str, Path], statements: Sequence[str]) -> list[Any]:
        """As `answers`, with the rows alone: [[value, …], …] or {"error"}, one per statement."""
        return [a if "error" in a else a["rows"] for a in self.answers(catalogs, statements)]

    def close(self) -> None:
        """End the application. A later request starts another."""
        if self._process is not None:
            assert self._process.stdin is not None and self._process.stdout is not None
            with contextlib.suppress(BrokenPipeError):  # it died, and a test has failed for that
                self._process.stdin.close()
            self._process.wait(timeout=120)
            self._process.stdout.close()
            self._process = None
        if self._log is not None:
            self._log.close()
            self._log = None
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)
            self._scratch = None

    def _started(self) -> subprocess.Popen[str]:
        if self._process is None:
            python, jar = peers.connector()
            self._scratch = Path(tempfile.mkdtemp(prefix="connector-"))
            self._log = (self._scratch / "log").open("w+", encoding="utf-8")
            self._process = subprocess.Popen(
                [str(python), "-m", "tests.interop.connector_driver", str(jar), str(self._scratch)],
                cwd=peers.ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                text=True,
                encoding="utf-8",
            )
        return self._process
