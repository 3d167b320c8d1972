"""Client of pypaimon_driver: one process of pypaimon's interpreter, started at the first call, for many calls."""

from __future__ import annotations

import contextlib
import json
import subprocess
import tempfile
from typing import IO, Any

from tests.interop import peers


class PyPaimonError(RuntimeError):
    """The process died, or a call failed that had to succeed."""


class PyPaimon:
    """pypaimon in a process of its own. `close()` ends it."""

    def __init__(self) -> None:
        """Start nothing yet."""
        self._process: subprocess.Popen[str] | None = None
        self._log: IO[str] | None = None

    def attempt(self, op: str, **arguments: Any) -> Any:
        """One call; {"error": …} if it fails.

        Raises:
            PyPaimonError: the process died; the message ends with what it printed.
        """
        process = self._started()
        assert process.stdin is not None and process.stdout is not None and self._log is not None
        with contextlib.suppress(BrokenPipeError):  # it died: there is no reply either
            process.stdin.write(json.dumps({"op": op, **arguments}) + "\n")
            process.stdin.flush()
        line = process.stdout.readline()
        if not line:
            self._log.seek(0)
            raise PyPaimonError(f"pypaimon's process ended at {op}:\n{self._log.read()[-4000:]}")
        return json.loads(line)

    def call(self, op: str, **arguments: Any) -> Any:
        """One call that has to succeed.

        Raises:
            PyPaimonError: it did not.
        """
        reply = self.attempt(op, **arguments)
        if "error" in reply:
            raise PyPaimonError(f"{op} {arguments}: {reply['error']}")
        return reply

    def close(self) -> None:
        """End the process. A later call starts another."""
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

    def _started(self) -> subprocess.Popen[str]:
        if self._process is None:
            self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115  # close() does
            self._process = subprocess.Popen(
                [str(peers.pypaimon_python()), "-m", "tests.interop.pypaimon_driver"],
                cwd=peers.ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                text=True,
            )
        return self._process
