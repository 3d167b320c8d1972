"""The lock on a table's refs: who has it, whether they live, and who takes it over.

Taking over from an owner that is dead (same machine: the process is gone, or this process is not at it any more;
another machine: no sign of life for `LEASE_MS`) goes by `intent/claim-<operation>-<n>`, created exclusively, so that
one process wins. The owner of an intent is who has its highest claim. Signs of life are the time of the intent or claim
itself and of `intent/beat-<owner>`, by the store's clock; an owner that could not give one for half of that time
looks whether it was taken over before it does anything more.

Who is at work on a table's refs, and whether they still are.

Source: own. A process is told by its machine, number and start; the operation by a name of its own, as a process may
go on when an operation of it was broken off.
"""

from __future__ import annotations

import json
import logging
import os
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeVar
from uuid import uuid4

from paimon_spark.errors import (
    CorruptFileError,
    FileAlreadyThereError,
    FormatError,
    OperationInProgressError,
    StorageError,
)
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.retry import now_ms
from paimon_spark.metadata.small_files import find_decoded
from paimon_spark.storage.store import FileInfo

T = TypeVar("T")

_LOG = logging.getLogger(__name__)

LEASE_MS: Final = 60_000
"""How long an owner on another machine may give no sign of life before it is taken for dead."""

DIRECTORY: Final = "intent"
INTENT: Final = "intent"
"""The directory of intents, and the file in it that is the lock."""

_CLAIM: Final = re.compile(r"claim-([0-9a-z]+)-(\d{1,9})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Waiting:
    """How to wait for others; tests give their own.

    Attributes:
        clock_ms: epoch milliseconds.
        sleep: waits for seconds.
        lease_ms: as `LEASE_MS`.
    """

    clock_ms: Callable[[], int] = now_ms
    sleep: Callable[[float], None] = time.sleep
    lease_ms: int = LEASE_MS


@dataclass(frozen=True, slots=True)
class Intent:
    """What `intent/intent` says."""

    owner: Owner
    kind: str
    since_ms: int


@dataclass(slots=True)
class Held:
    """The lock, held by this operation.

    Attributes:
        intent_owner: whose intent it is: our own, or that of who left it.
        owner: we.
        sign: when we last gave a sign of life, by both clocks.
        claim: the file by which we took over.
    """

    handle: TableHandle
    owner: Owner
    intent_owner: Owner
    waiting: Waiting
    sign: tuple[float, float]
    claim: str | None = None
    _beats: int = 0
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Held:  # noqa: PYI034 - Self needs Python 3.11
        self._thread = threading.Thread(target=self._beat, name="paimon-intent", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def check(self) -> None:
        """Check that nobody took the operation for dead. Raises OperationInProgressError."""
        if _elapsed_ms(self.sign) < self.waiting.lease_ms / 2:
            return
        files = _files(self.handle)
        if self._was_taken(files):
            raise OperationInProgressError(
                f"this process did not get on with table {self.handle.name} for {_elapsed_ms(self.sign):.0f} ms, and "
                "another has taken over what it did, and finishes it",
                table=self.handle.name,
            )
        self._give_sign()

    def write_plan(self, data: bytes) -> None:
        """Write down what will happen. When this returns, it will."""
        self.handle.store.write(plan_path(self.handle, self.intent_owner), data)
        self.check()

    def give_up(self) -> None:
        """Leave everything as it is. An intent without plan that cannot be removed is removed by the next process."""
        with suppress(StorageError, OperationInProgressError):
            self.check()
            self.finish()

    def finish(self) -> None:
        """End the operation: the intent goes, then what belongs to it."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        self.check()
        directory = directory_of(self.handle)
        found = find_intent(self.handle)
        # When somebody removed it by hand, the next one may be there.
        if found is not None and found.owner == self.intent_owner:
            self.handle.store.delete(f"{directory}/{INTENT}")
        names = [f"plan-{self.intent_owner.operation}", f"beat-{self.owner.operation}"]
        if self.claim is not None:
            names += [name for name in _files(self.handle) if name.startswith(f"claim-{self.intent_owner.operation}-")]
        with suppress(StorageError):
            self.handle.store.delete_many([f"{directory}/{name}" for name in names])
        # Only where that is one step with the look: whoever comes next makes the directory again.
        remove = getattr(self.handle.store, "remove_if_empty", None)
        if remove is not None:
            remove(directory)

    def _was_taken(self, files: dict[str, FileInfo]) -> bool:
        highest = _highest_claim(files, self.intent_owner)
        if INTENT not in files or highest != self.claim:
            return True
        intent = find_intent(self.handle)
        return intent is None or intent.owner != self.intent_owner

    def _give_sign(self) -> None:
        before = clocks()
        self._beats += 1
        # Its size changes, as some stores do not tell when a file did.
        self.handle.store.write(f"{directory_of(self.handle)}/beat-{self.owner.operation}", b"." * (self._beats % 100))
        self.sign = before

    def _beat(self) -> None:
        while not self._stop.wait(self.waiting.lease_ms / 6000):
            # What stopped this process longer than it may take must not look alive again.
            if _elapsed_ms(self.sign) >= self.waiting.lease_ms / 2:
                return
            try:
                self._give_sign()
            except StorageError as e:
                _LOG.warning("a sign of life for table %s could not be written: %s", self.handle.name, e)


def clocks() -> tuple[float, float]:
    """Two clocks: one stands still while the machine sleeps, the other may be set."""
    return time.monotonic(), time.time()


def _elapsed_ms(since: tuple[float, float]) -> float:
    return max(now - then for now, then in zip(clocks(), since, strict=True)) * 1000


@dataclass(slots=True)
class Watch:
    """What was seen of an intent's owner while waiting for it."""

    handle: TableHandle
    waiting: Waiting
    _seen: tuple[str, FileInfo | None] | None = None
    _since_ms: int = 0

    def taken_over(self, intent: Intent, owner: Owner) -> Held | None:
        """The lock, when who held it is dead and we were the first to see it."""
        files = _files(self.handle)
        highest = _highest_claim(files, intent.owner)
        current = intent.owner if highest is None else _claimant(self.handle, highest)
        if current is None or not self._is_dead(current, highest or INTENT, files):
            return None
        number = 0 if highest is None else int(highest.rpartition("-")[2]) + 1
        name = f"claim-{intent.owner.operation}-{number}"
        path = f"{directory_of(self.handle)}/{name}"
        data = json.dumps({"owner": owner.encode()}).encode()
        sign = clocks()
        try:
            self.handle.store.create_exclusive(path, data)
        except FileAlreadyThereError:
            return None
        held = Held(self.handle, owner, intent.owner, self.waiting, sign, name)
        # The intent goes before its claims: when it is still there, nobody had finished it before we claimed it.
        if find_intent(self.handle) != intent:
            self.handle.store.delete(path)
            return None
        return held

    def _is_dead(self, owner: Owner, file: str, files: dict[str, FileInfo]) -> bool:
        alive = owner.is_alive()
        if alive is not None:
            return not alive
        sign = files.get(f"beat-{owner.operation}") or files.get(file)
        now = self.waiting.clock_ms()
        if self._seen != (owner.operation, sign):
            self._seen, self._since_ms = (owner.operation, sign), now
        if now - self._since_ms >= self.waiting.lease_ms:
            return True
        return sign is not None and sign.modified_ms is not None and self._age_ms(sign.modified_ms) >= self._patience

    @property
    def _patience(self) -> int:
        # Stores tell times in whole seconds, some of them in two.
        return self.waiting.lease_ms + 5_000

    def _age_ms(self, modified_ms: int) -> int:
        """How old something is by the store's clock, which is asked only when ours says that it may be old."""
        if self.waiting.clock_ms() - modified_ms < self._patience:
            return 0
        name = f"probe-{Owner.new().operation}"
        path = f"{directory_of(self.handle)}/{name}"
        self.handle.store.write(path, b"")
        try:
            probe = _files(self.handle).get(name)
        finally:
            self.handle.store.delete(path)
        return 0 if probe is None or probe.modified_ms is None else probe.modified_ms - modified_ms


def directory_of(handle: TableHandle) -> str:
    """Where the files of locks and plans lie."""
    return f"{handle.layout.root}/{DIRECTORY}"


def plan_path(handle: TableHandle, owner: Owner) -> str:
    """The file in which the owner of an intent writes down what it will do."""
    return f"{directory_of(handle)}/plan-{owner.operation}"


def _files(handle: TableHandle) -> dict[str, FileInfo]:
    return {info.name: info for info in handle.store.list(directory_of(handle)) if not info.is_directory}


def _highest_claim(files: dict[str, FileInfo], owner: Owner) -> str | None:
    found = [(int(m[2]), name) for name in files if (m := _CLAIM.fullmatch(name)) and m[1] == owner.operation]
    return max(found)[1] if found else None


def find_intent(handle: TableHandle) -> Intent | None:
    """The operation that has the lock; None when nobody has. Raises CorruptFileError."""
    path = f"{directory_of(handle)}/{INTENT}"
    return find_decoded(handle.store, path, _decode_intent)


def _decode_intent(data: bytes, path: str) -> Intent:
    def build(raw: dict[str, Any]) -> Intent:
        if raw["version"] != 1:
            raise FormatError(f"it is of version {raw['version']}, which a newer paimon-spark may know")
        kind, since = raw["kind"], raw["sinceMillis"]
        if not isinstance(kind, str) or type(since) is not int:
            raise FormatError("it does not say what is done since when")
        return Intent(Owner.decode(raw["owner"]), kind, since)

    return decoded(data, path, build)


def _claimant(handle: TableHandle, name: str) -> Owner | None:
    """Who made a claim; None when it is gone."""
    return find_decoded(
        handle.store,
        f"{directory_of(handle)}/{name}",
        lambda data, path: decoded(data, path, lambda raw: Owner.decode(raw["owner"])),
    )


def decoded(data: bytes, path: str, build: Callable[[dict[str, Any]], T]) -> T:
    """What `build` makes of a JSON object. Raises CorruptFileError that says what to do."""
    try:
        raw = json.loads(data)
        if not isinstance(raw, dict):
            raise FormatError("the top level is not an object")
        return build(raw)
    except (ValueError, KeyError, TypeError, RecursionError, FormatError) as e:
        raise CorruptFileError(
            f"{path}, which says who changes tags and branches of the table, cannot be read ({e}). When no process is "
            f"at it, remove the directory {path.rpartition('/')[0]} and look at the table with doctor()",
            path=path,
        ) from e


def busy(handle: TableHandle, intent: Intent, waited_ms: int) -> OperationInProgressError:
    """The error for who waited in vain."""
    who = intent.owner.describe()
    return OperationInProgressError(
        f"{who} has been changing table {handle.name} ({intent.kind}) since {local_time(intent.since_ms)} and was not "
        f"done after {waited_ms} ms; try again later. If that process is gone, a try after {LEASE_MS // 1000} s "
        "finishes what it began",
        table=handle.name,
        operation=intent.kind,
        owner=who,
        since_ms=intent.since_ms,
    )


def local_time(epoch_ms: int) -> str:
    """A time in words, in the machine's zone."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(max(0, min(epoch_ms, 1 << 42)) / 1000))


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
