"""Start servers of tests: ports that no other process takes, and waits that show the log of a server."""

from __future__ import annotations

import select
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

from tests.harness.until import until

_START_S: Final = 120.0


class ServerError(AssertionError):
    """A server did not start, or died; the message ends with what it printed."""


@contextmanager
def reserved_port() -> Iterator[int]:
    """A port of 127.0.0.1 for a server that cannot choose one itself.

    Linux gives the port to nobody else while a socket that does not listen is bound to it, and lets a server bind it
    by its number.
    """
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        yield int(holder.getsockname()[1])


def first_line(process: subprocess.Popen[str], log: Path) -> str:
    """The first line that a server prints, as soon as it is ready. Raises AssertionError with the end of its log."""
    output: IO[str] | None = process.stdout
    assert output is not None
    until(lambda: select.select([output], [], [], 0)[0], lambda: log_end(log), seconds=_START_S)
    line = output.readline()
    if not line:
        raise ServerError(f"{process.args!r} ended without starting:\n{log_end(log)}")
    return line


def wait_for_answer(process: subprocess.Popen[str], log: Path, answers: Callable[[], bool]) -> None:
    """Wait until a server answers. Raises AssertionError with the end of its log: it ended, or takes too long."""

    def is_ready() -> bool:
        if process.poll() is not None:
            raise ServerError(f"{process.args!r} ended without starting:\n{log_end(log)}")
        return answers()

    until(is_ready, lambda: log_end(log), seconds=_START_S, poll_s=0.1)


def log_end(log: Path) -> str:
    """The last lines of a log."""
    return "\n".join(log.read_text(errors="replace").splitlines()[-30:])
