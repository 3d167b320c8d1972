"""A program on a terminal of its own: what is typed into it, and what it shows."""

from __future__ import annotations

import os
import pty
import select
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.harness.until import until

ROOT = Path(__file__).resolve().parents[2]
INTERRUPT = "\x03"
END = "\x04"


class Terminal:
    """A running program, and what it has shown since the last wait."""

    def __init__(self, pid: int, descriptor: int) -> None:
        self._pid, self._descriptor = pid, descriptor
        self._code: int | None = None

    def type(self, text: str) -> None:
        os.write(self._descriptor, text.encode())

    def wait_for(self, text: str, timeout_s: float = 100) -> str:
        """What it shows up to the first `text`, which must come."""
        shown = self._read_until(text, timeout_s)
        assert text in shown, shown[-2000:]
        return shown

    def end(self, timeout_s: float = 100) -> tuple[int, str]:
        """Its exit code, and what it shows until it ends."""
        shown = self._read_until(None, timeout_s)
        if self._code is None:
            self._code = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
        return self._code, shown

    def kill(self) -> None:
        if self._code is None:
            os.kill(self._pid, 9)
            os.waitpid(self._pid, 0)
        os.close(self._descriptor)

    def _read_until(self, text: str | None, timeout_s: float) -> str:
        shown = bytearray()

        def is_there() -> bool:
            while select.select([self._descriptor], [], [], 0)[0]:
                try:
                    data = os.read(self._descriptor, 1 << 16)
                except OSError:  # Linux: the program has ended
                    data = b""
                shown.extend(data)
                if not data or (text is not None and text in _decoded(shown)):
                    return True
            return False

        with suppress(AssertionError):  # callers look at what is shown
            until(is_there, seconds=timeout_s)
        return _decoded(shown)


def _decoded(shown: bytearray) -> str:
    return shown.decode(errors="replace").replace("\r\n", "\n")


@contextmanager
def on_terminal(*words: str, settings: Mapping[str, str] | None = None) -> Iterator[Terminal]:
    """Run the command line on a terminal; `settings` are variables of its environment."""
    command = [sys.executable, "-m", "paimon_spark", *words]
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "PYSPARK_PYTHON": sys.executable,
        "TERM": "dumb",
        **(settings or {}),
    }
    pid, descriptor = pty.fork()
    if pid == 0:
        os.execve(command[0], command, environment)
    terminal = Terminal(pid, descriptor)
    try:
        yield terminal
    finally:
        terminal.kill()
