"""Lock on the snapshots, tags and branches of a table, and takeover from dead owners.

The lock is the file `intent/intent`, created exclusively; `intent/plan-<operation>` beside it is the journal of the
operation that holds it. Commits, reads and other engines do not take the lock.

A dead owner is taken over by `intent/claim-<operation>-<n>`, created exclusively, so that one process wins; the owner
is who made the highest claim. On this machine an owner is dead when its process is gone, or no longer works on the
operation. On another machine it is dead after `LEASE_MS` without a heartbeat: the time, by the store's clock, of the
lock, the claim or `intent/beat-<operation>`. An owner that could not write a heartbeat for half of that time checks
that it was not taken over before each further step.
"""

from __future__ import annotations

import json
import os
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final, Self, TypeVar
from uuid import uuid4

from paimon_spark.errors import (
    CorruptFileError,
    FileAlreadyThereError,
    FormatError,
    OperationInProgressError,
    StorageError,
)
from paimon_spark.format.json_files import decode_object
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.retry import now_ms
from paimon_spark.metadata.small_files import checked_number, checked_text, find_decoded
from paimon_spark.redaction import get_logger
from paimon_spark.storage.store import FileInfo

T = TypeVar("T")

_LOG = get_logger(__name__)

LEASE_MS: Final = 60_000
"""Time without a heartbeat after which an owner on another machine counts as dead."""

LOCK_DIRECTORY: Final = "intent"
LOCK_FILE: Final = "intent"
"""The lock's file in that directory."""

_OPERATION: Final = r"[0-9a-z]{1,64}"
_CLAIM: Final = re.compile(rf"claim-({_OPERATION})-(\d{{1,9}})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Waiting:
    """Clock, sleep and lease used while waiting for the lock; tests pass their own.

    Attributes:
        clock_ms: epoch milliseconds.
        sleep: waits for seconds.
        lease_ms: as `LEASE_MS`.
    """

    clock_ms: Callable[[], int] = now_ms
    sleep: Callable[[float], None] = time.sleep
    lease_ms: int = LEASE_MS


@dataclass(frozen=True, slots=True)
class LockFile:
    """The contents of the lock's file.

    Attributes:
        kind: of the operation, such as `create-branch`.
    """

    owner: Owner
    kind: str
    since_ms: int

    def encode(self) -> bytes:
        """The bytes of the file."""
        raw = {"version": 1, "owner": self.owner.encode(), "kind": self.kind, "sinceMillis": self.since_ms}
        return json.dumps(raw).encode()


@dataclass(slots=True)
class HeldLock:
    """The lock, held by this operation; writes heartbeats inside `with`.

    Attributes:
        owner: this operation.
        lock_owner: the operation that made the lock file: this one, or the dead one it was taken over from.
        last_beat: when the last heartbeat was written, by both clocks.
        claim: name of the file by which the lock was taken over.
    """

    handle: TableHandle
    owner: Owner
    lock_owner: Owner
    waiting: Waiting
    last_beat: tuple[float, float]
    claim: str | None = None
    _beats: int = 0
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._beat, name="paimon-lock", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def check(self) -> None:
        """Check that no other process took the lock over. Raises OperationInProgressError."""
        if _elapsed_ms(self.last_beat) < self.waiting.lease_ms / 2:
            return
        files = _files(self.handle)
        if self._was_taken(files):
            raise OperationInProgressError(
                f"this process made no progress on table {self.handle.name} for {_elapsed_ms(self.last_beat):.0f} ms, "
                "and another process has taken over the operation and finishes it",
                table=self.handle.name,
            )
        self._write_heartbeat()

    def write_journal(self, data: bytes) -> None:
        """Write the journal. From then on the change happens, if need be by the next process."""
        # In a file of its own: a process that slept through its lease then writes a file that nobody reads, and never
        # over the lock of a later operation.
        self.handle.store.write(journal_path(self.handle, self.lock_owner), data)
        self.check()

    def abandon(self) -> None:
        """Release the lock before a journal was written. If that fails, the next operation removes it."""
        with suppress(StorageError, OperationInProgressError):
            self.check()
            self.release()

    def release(self) -> None:
        """End the operation: delete the lock, then the files that belong to it."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        self.check()
        directory = lock_directory(self.handle)
        found = find_lock(self.handle)
        # It may be another operation's, after somebody removed ours.
        if found is not None and found.owner == self.lock_owner:
            self.handle.store.delete(f"{directory}/{LOCK_FILE}")
        names = [f"plan-{self.lock_owner.operation}", f"beat-{self.owner.operation}"]
        if self.claim is not None:
            names += [name for name in _files(self.handle) if name.startswith(f"claim-{self.lock_owner.operation}-")]
        with suppress(StorageError):
            self.handle.store.delete_many([f"{directory}/{name}" for name in names])
        # Only where the store checks and removes in one step: the next operation makes the directory again.
        remove = getattr(self.handle.store, "remove_if_empty", None)
        if remove is not None:
            remove(directory)

    def _was_taken(self, files: dict[str, FileInfo]) -> bool:
        highest = _highest_claim(files, self.lock_owner)
        if LOCK_FILE not in files or highest != self.claim:
            return True
        lock = find_lock(self.handle)
        return lock is None or lock.owner != self.lock_owner

    def _write_heartbeat(self) -> None:
        before = clocks()
        self._beats += 1
        # The size changes with each, as some stores report no times.
        self.handle.store.write(
            f"{lock_directory(self.handle)}/beat-{self.owner.operation}", b"." * (self._beats % 100)
        )
        self.last_beat = before

    def _beat(self) -> None:
        while not self._stop.wait(self.waiting.lease_ms / 6000):
            # A process that was stopped for too long must not look alive again.
            if _elapsed_ms(self.last_beat) >= self.waiting.lease_ms / 2:
                return
            try:
                self._write_heartbeat()
            except StorageError as e:
                _LOG.warning("could not write the heartbeat of an operation on table %s: %s", self.handle.name, e)


def clocks() -> tuple[float, float]:
    """Monotonic and wall clock: the first may stop while the machine sleeps, the second may be set."""
    return time.monotonic(), time.time()


def _elapsed_ms(since: tuple[float, float]) -> float:
    return max(now - then for now, then in zip(clocks(), since, strict=True)) * 1000


@dataclass(slots=True)
class OwnerWatch:
    """Detects a dead owner while waiting for its lock."""

    handle: TableHandle
    waiting: Waiting
    _seen: tuple[str, FileInfo | None] | None = None
    _since_ms: int = 0

    def take_over(self, lock: LockFile, owner: Owner) -> HeldLock | None:
        """The lock for `owner`, when its holder is dead and no other process was faster."""
        files = _files(self.handle)
        highest = _highest_claim(files, lock.owner)
        current = lock.owner if highest is None else _claimant(self.handle, highest)
        if current is None or not self._is_dead(current, highest or LOCK_FILE, files):
            return None
        number = 0 if highest is None else int(highest.rpartition("-")[2]) + 1
        name = f"claim-{lock.owner.operation}-{number}"
        path = f"{lock_directory(self.handle)}/{name}"
        data = json.dumps({"owner": owner.encode()}).encode()
        beat = clocks()
        try:
            self.handle.store.create_exclusive(path, data)
        except FileAlreadyThereError:
            return None
        held = HeldLock(self.handle, owner, lock.owner, self.waiting, beat, name)
        # The lock is deleted before its claims: while it is there, the operation was not finished before our claim.
        if find_lock(self.handle) != lock:
            self.handle.store.delete(path)
            return None
        return held

    def _is_dead(self, owner: Owner, file: str, files: dict[str, FileInfo]) -> bool:
        # The operating system decides where it can see the process; elsewhere the clock of the store does. Clocks of
        # two machines are never compared.
        alive = owner.is_alive()
        if alive is not None:
            return not alive
        beat = files.get(f"beat-{owner.operation}") or files.get(file)
        now = self.waiting.clock_ms()
        if self._seen != (owner.operation, beat):
            self._seen, self._since_ms = (owner.operation, beat), now
        if now - self._since_ms >= self.waiting.lease_ms:
            return True
        return beat is not None and beat.modified_ms is not None and self._age_ms(beat.modified_ms) >= self._patience

    @property
    def _patience(self) -> int:
        # Stores report times in whole seconds, some in steps of two.
        return self.waiting.lease_ms + 5_000

    def _age_ms(self, modified_ms: int) -> int:
        """Age by the store's clock, which is read only when the local clock says that it may be old."""
        if self.waiting.clock_ms() - modified_ms < self._patience:
            return 0
        name = f"probe-{Owner.new().operation}"
        path = f"{lock_directory(self.handle)}/{name}"
        self.handle.store.write(path, b"")
        try:
            probe = _files(self.handle).get(name)
        finally:
            self.handle.store.delete(path)
        return 0 if probe is None or probe.modified_ms is None else probe.modified_ms - modified_ms


def lock_directory(handle: TableHandle) -> str:
    """The directory of the lock and its journal."""
    return f"{handle.layout.root}/{LOCK_DIRECTORY}"


def journal_path(handle: TableHandle, owner: Owner) -> str:
    """The journal of the operation that made the lock."""
    return f"{lock_directory(handle)}/plan-{owner.operation}"


def _files(handle: TableHandle) -> dict[str, FileInfo]:
    return {info.name: info for info in handle.store.list(lock_directory(handle)) if not info.is_directory}


def _highest_claim(files: dict[str, FileInfo], owner: Owner) -> str | None:
    found = [(int(m[2]), name) for name in files if (m := _CLAIM.fullmatch(name)) and m[1] == owner.operation]
    return max(found)[1] if found else None


def find_lock(handle: TableHandle) -> LockFile | None:
    """The lock; None while no operation holds it. Raises CorruptFileError."""
    path = f"{lock_directory(handle)}/{LOCK_FILE}"
    return find_decoded(handle.store, path, _decode_lock)


def _decode_lock(data: bytes, path: str) -> LockFile:
    def build(raw: dict[str, Any]) -> LockFile:
        if raw["version"] != 1:
            raise FormatError(f"version {raw['version']} was written by a newer paimon-spark")
        return LockFile(Owner.decode(raw["owner"]), checked_text(raw["kind"]), checked_number(raw["sinceMillis"]))

    return _decoded(data, path, build)


def _claimant(handle: TableHandle, name: str) -> Owner | None:
    """The owner that made a claim; None when the claim is gone."""
    return find_decoded(
        handle.store,
        f"{lock_directory(handle)}/{name}",
        lambda data, path: _decoded(data, path, lambda raw: Owner.decode(raw["owner"])),
    )


def _decoded(data: bytes, path: str, build: Callable[[dict[str, Any]], T]) -> T:
    """The value that `build` makes of a JSON object. Raises CorruptFileError that says what to do."""
    return decode_object(
        data,
        build,
        lambda why: CorruptFileError(
            f"the lock file {path} cannot be read ({why}). When no process changes tags or branches of the table, "
            f"remove the directory {path.rpartition('/')[0]} and look at the table with doctor()",
            path=path,
        ),
    )


def lock_timeout(handle: TableHandle, lock: LockFile, waited_ms: int) -> OperationInProgressError:
    """The error when the lock was not released in time."""
    who = lock.owner.describe()
    return OperationInProgressError(
        f"{who} has been changing table {handle.name} ({lock.kind}) since {local_time(lock.since_ms)} and was not "
        f"done after {waited_ms} ms; try again later. If that process is gone, an attempt after {LEASE_MS // 1000} s "
        "finishes its operation",
        table=handle.name,
        operation=lock.kind,
        owner=who,
        since_ms=lock.since_ms,
    )


def local_time(epoch_ms: int) -> str:
    """A time as text, in the machine's zone."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(max(0, min(epoch_ms, 1 << 42)) / 1000))


_DEAD: Final = frozenset("ZXx")
"""States of dead processes in Linux's `/proc/<pid>/stat`."""

_RUNNING: dict[str, int] = {}
"""Operations running in this process, each with its thread."""

_LOCK: Final = threading.Lock()


@dataclass(frozen=True, slots=True)
class Owner:
    """One operation of one process. A process may go on after one of its operations was broken off.

    Attributes:
        operation: unique id of the operation.
        host: for messages.
        machine: the same for processes that can see each other; None when unknown.
        started: when the process started, in the machine's own count; None when unknown.
    """

    operation: str
    host: str
    machine: str | None
    pid: int
    started: str | None

    @staticmethod
    def new() -> Owner:
        """A new operation of this process."""
        return Owner(uuid4().hex, socket.gethostname(), _machine(), os.getpid(), _started(os.getpid()))

    @staticmethod
    def decode(raw: Mapping[str, Any]) -> Owner:
        """The owner of JSON values. Raises KeyError, TypeError, ValueError: it is not one."""
        owner = Owner(raw["operation"], raw["host"], raw["machine"], raw["pid"], raw["started"])
        texts = (owner.operation, owner.host, owner.machine or "", owner.started or "")
        if not all(isinstance(t, str) for t in texts) or type(owner.pid) is not int:
            raise ValueError("owner is not readable")
        if re.fullmatch(_OPERATION, owner.operation) is None:  # a part of names of files
            raise ValueError(f"{owner.operation[:100]!r} is not the id of an operation")
        return owner

    def encode(self) -> dict[str, object]:
        """As JSON values."""
        return asdict(self)

    def is_alive(self) -> bool | None:
        """Whether the operation still runs; None when this machine cannot tell."""
        if self.machine is None or self.machine != _machine():
            return None
        started = _started(self.pid)
        if self.pid == os.getpid() and started == self.started:
            return self.operation in _RUNNING
        return started is not None and started == self.started

    def is_of_this_thread(self) -> bool:
        """Whether it runs further up in this very thread."""
        return _RUNNING.get(self.operation) == threading.get_ident()

    def describe(self) -> str:
        """Where it runs, for messages."""
        return f"process {self.pid} on {self.host}"


@contextmanager
def running(owner: Owner) -> Iterator[None]:
    """Let the operation count as running while the body runs."""
    with _LOCK:
        _RUNNING[owner.operation] = threading.get_ident()
    try:
        yield
    finally:
        with _LOCK:
            del _RUNNING[owner.operation]


@cache
def _machine() -> str | None:
    """Host, boot id and process namespace; None without `/proc`."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        return f"{socket.gethostname()}/{boot}/{os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return None


def _started(pid: int) -> str | None:
    """When a process started; None when it is dead or unknown."""
    with suppress(OSError, ValueError, IndexError):
        # The program's name may contain anything; it ends at the last parenthesis.
        fields = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
        return None if fields[0] in _DEAD else fields[19]
    return None
