"""Who is at work on a table's refs, and whether they still are.

Source: own. A process is told by its machine, number and start; the operation by a name of its own, as a process may
go on when an operation of it was broken off.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

_DEAD: Final = frozenset("ZXx")
"""States of processes that are no more, in Linux's `stat`."""

_AT_WORK: dict[str, int] = {}
"""Operations of this process that go on, each with its thread."""

_LOCK: Final = threading.Lock()


@dataclass(frozen=True, slots=True)
class Owner:
    """One operation of one process.

    Attributes:
        operation: no two operations share it.
        host: for messages.
        machine: what processes share that can see each other; None where that is not known.
        started: when the process started, in the machine's own count; None where that is not known.
    """

    operation: str
    host: str
    machine: str | None
    pid: int
    started: str | None

    @staticmethod
    def new() -> Owner:
        """An operation of this process."""
        return Owner(uuid4().hex, socket.gethostname(), _machine(), os.getpid(), _started(os.getpid()))

    @staticmethod
    def decode(raw: Mapping[str, Any]) -> Owner:
        """Raises KeyError, TypeError, ValueError: it is none."""
        owner = Owner(raw["operation"], raw["host"], raw["machine"], raw["pid"], raw["started"])
        texts = (owner.operation, owner.host, owner.machine or "", owner.started or "")
        if not all(isinstance(t, str) for t in texts) or type(owner.pid) is not int or not owner.operation.isalnum():
            raise ValueError("its owner is not readable")
        return owner

    def encode(self) -> dict[str, object]:
        """As JSON values."""
        return {name: getattr(self, name) for name in ("operation", "host", "machine", "pid", "started")}

    def is_alive(self) -> bool | None:
        """Whether the operation goes on; None when that cannot be told from here."""
        if self.machine is None or self.machine != _machine():
            return None
        started = _started(self.pid)
        if self.pid == os.getpid() and started == self.started:
            return self.operation in _AT_WORK
        return started is not None and started == self.started

    def is_of_this_thread(self) -> bool:
        """Whether it goes on further up in this very thread."""
        return _AT_WORK.get(self.operation) == threading.get_ident()

    def describe(self) -> str:
        """Where it runs, for messages."""
        return f"process {self.pid} on {self.host}"


@contextmanager
def at_work(owner: Owner) -> Iterator[None]:
    """While the body runs, the operation counts as going on."""
    with _LOCK:
        _AT_WORK[owner.operation] = threading.get_ident()
    try:
        yield
    finally:
        with _LOCK:
            del _AT_WORK[owner.operation]


@cache
def _machine() -> str | None:
    """Machine, its boot and the space of process numbers; None where there is no `/proc`."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        return f"{socket.gethostname()}/{boot}/{os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return None


def _started(pid: int) -> str | None:
    """When a process started; None when there is none, or that is not known."""
    with suppress(OSError, ValueError, IndexError):
        # The name of the program may hold anything; it ends at the last parenthesis.
        fields = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
        return None if fields[0] in _DEAD else fields[19]
    return None
