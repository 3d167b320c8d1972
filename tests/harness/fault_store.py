"""FaultStore: a store that counts its calls and fails at the one it is told to."""

from __future__ import annotations

import io
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, Final, NamedTuple, TypeVar
from uuid import uuid4

import pyarrow as pa

import paimon_spark
from paimon_spark.api.table import Table
from paimon_spark.errors import PaimonError, StorageError
from paimon_spark.storage.local import LocalStore
from paimon_spark.storage.store import AtomicCreate, FileInfo, KnownRanges, Store, open_ranges

T = TypeVar("T")

READING: Final = frozenset(("read", "read_range", "read_many", "open", "exists", "list"))
MUTATING: Final = frozenset(
    ("create_exclusive", "write", "open_output", "output.write", "output.close", "delete", "delete_many",
     "delete_tree", "make_directory", "rename_tree")
)  # fmt: skip
ALL: Final = READING | MUTATING


class Call(NamedTuple):
    verb: str
    path: str


@dataclass(frozen=True, slots=True)
class Fault:
    """Which call fails, and how.

    Attributes:
        at: the number of the call among those of `verbs`, from 1.
        after: the call is done before it fails, as when its answer is lost on the way.
        forever: every later call of any verb fails too, undone, as when the network is gone or the process dead.
        retryable: what the error says of itself.
        verbs: which calls are counted.
        path_part: text in the paths of the calls counted.
        interrupts: the call is interrupted by Ctrl-C instead.
    """

    at: int
    after: bool = False
    forever: bool = False
    retryable: bool = True
    verbs: frozenset[str] = ALL
    path_part: str = ""
    interrupts: bool = False

    def counts(self, call: Call) -> bool:
        return call.verb in self.verbs and self.path_part in call.path


@dataclass(slots=True)
class _Record:
    """What copies of one store in this process share."""

    fault: Fault | None = None
    calls: list[Call] = field(default_factory=list)
    seen: int = 0
    failed: list[Call] = field(default_factory=list)
    lock: Any = field(default_factory=Lock)


_RECORDS: dict[str, _Record] = {}


@dataclass(frozen=True)
class FaultStore:
    """Store over `inner`. Copies, pickled ones too, share their record within a process.

    Bytes handed to an output file and its closing are calls of their own (`output.write`, `output.close`), and
    so are reads inside an open file (`read_range`).
    """

    inner: Store
    key: str = field(default_factory=lambda: uuid4().hex)

    def arm(self, fault: Fault | None) -> None:
        """Forget the calls up to now and fail as told from here on; None: never."""
        record = self._record
        with record.lock:
            record.fault, record.seen = fault, 0
            record.calls, record.failed = [], []

    @contextmanager
    def failing(self, fault: Fault) -> Iterator[list[Call]]:
        """Fail as told inside `with`; the calls that did, filled as they fail.

        Raises AssertionError at the end when none did: the test would have tested nothing.
        """
        self.arm(fault)
        failed = self._record.failed
        try:
            yield failed
        finally:
            made = self.calls
            self.arm(None)
        assert failed, f"{fault} was never injected into {len(made)} calls"

    @property
    def calls(self) -> list[Call]:
        """The calls since `arm`, failed ones included."""
        return list(self._record.calls)

    @property
    def failed(self) -> list[Call]:
        """The calls that failed by our doing since `arm`."""
        return list(self._record.failed)

    def count(self, verbs: frozenset[str] = ALL, path_part: str = "") -> int:
        fault = Fault(0, verbs=verbs, path_part=path_part)
        return sum(map(fault.counts, self.calls))

    @property
    def _record(self) -> _Record:
        return _RECORDS.setdefault(self.key, _Record())

    @property
    def identity(self) -> str:
        return self.inner.identity

    @property
    def options(self) -> Mapping[str, str]:
        found: Mapping[str, str] = getattr(self.inner, "options", {})
        return found

    @property
    def atomic_create(self) -> AtomicCreate:
        return self.inner.atomic_create

    @property
    def renames_directories(self) -> bool:
        return self.inner.renames_directories

    def url(self, path: str) -> str:
        return self.inner.url(path)

    def read(self, path: str) -> bytes:
        return self._call("read", path, lambda: self.inner.read(path))

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        return self._call("read_range", path, lambda: self.inner.read_range(path, offset, length))

    def read_many(self, paths: list[str]) -> list[bytes]:
        return self._call("read_many", " ".join(paths), lambda: self.inner.read_many(paths))

    def open(self, path: str, size: int | None = None) -> pa.NativeFile:
        def find_size() -> int:
            with self.inner.open(path) as file:
                return int(file.size())

        found = self._call("open", path, find_size)
        return open_ranges(KnownRanges(found, partial(self.read_range, path)), path, found)

    def exists(self, path: str) -> bool:
        return self._call("exists", path, lambda: self.inner.exists(path))

    def list(self, directory: str) -> list[FileInfo]:
        return self._call("list", directory, lambda: self.inner.list(directory))

    def create_exclusive(self, path: str, data: bytes) -> None:
        self._call("create_exclusive", path, lambda: self.inner.create_exclusive(path, data))

    def write(self, path: str, data: bytes) -> None:
        self._call("write", path, lambda: self.inner.write(path, data))

    def open_output(self, path: str) -> pa.NativeFile:
        file = self._call("open_output", path, lambda: self.inner.open_output(path))
        return pa.PythonFile(_Output(self, path, file), mode="w")

    def delete(self, path: str) -> None:
        self._call("delete", path, lambda: self.inner.delete(path))

    def delete_many(self, paths: Sequence[str]) -> None:
        self._call("delete_many", " ".join(paths), lambda: self.inner.delete_many(paths))

    def delete_tree(self, directory: str) -> None:
        self._call("delete_tree", directory, lambda: self.inner.delete_tree(directory))

    def make_directory(self, directory: str) -> None:
        self._call("make_directory", directory, lambda: self.inner.make_directory(directory))

    def rename_tree(self, old: str, new: str, last: Sequence[str] = ()) -> None:
        self._call("rename_tree", old, lambda: self.inner.rename_tree(old, new, last))

    def _call(self, verb: str, path: str, act: Callable[[], T]) -> T:
        with self._faults(Call(verb, path)):
            return act()

    @contextmanager
    def _faults(self, call: Call) -> Iterator[None]:
        """Fail before or after the body when it is this call's turn."""
        before, after, retryable = self._turn(call)
        interrupts = (before or after) and (fault := self._record.fault) is not None and fault.interrupts
        if before and interrupts:
            raise KeyboardInterrupt
        if before:
            raise StorageError(f"{call.verb} {call.path} failed as told", path=call.path, retryable=retryable)
        yield
        if after and interrupts:
            raise KeyboardInterrupt
        if after:
            raise StorageError(
                f"{call.verb} {call.path} was done, and failed as told", path=call.path, retryable=retryable
            )

    def _turn(self, call: Call) -> tuple[bool, bool, bool]:
        record = self._record
        with record.lock:
            record.calls.append(call)
            fault = record.fault
            if fault is None:
                return False, False, False
            over = record.seen >= fault.at
            counted = fault.counts(call)
            record.seen += counted
            now = counted and record.seen == fault.at
            late = over and fault.forever
            if now or late:
                record.failed.append(call)
            return late or (now and not fault.after), now and fault.after, fault.retryable


def killed_at_each_change(
    table: Table,
    folder: Path,
    act: Callable[[Table, FaultStore], object],
    *,
    step: int,
    between: tuple[int, int],
) -> Iterator[Table]:
    """Copies of a table on which `act` was killed right after one change of its store after the other.

    These are all the states that a kill can leave: one before a change, or at a read, leaves what the change before
    did.

    Args:
        table: on local disk; it stays as it is.
        folder: where the copies are made, each in a warehouse of its own, and removed again.
        act: does something with a copy through the store, which fails.
        step: every how many changes; the last copy is one on which `act` came to its end.
        between: it makes more changes than the first number and fewer than the second.
    """
    for n in range(1, between[1], step):
        place = folder / str(n) / "wh" / "d.db" / "t"
        shutil.copytree(table.handle.layout.root, place)
        copied = paimon_spark.load_table(str(place))
        store = FaultStore(LocalStore())
        store.arm(Fault(n, after=True, forever=True, retryable=False, verbs=MUTATING))
        with suppress(PaimonError):
            act(copied, store)
        is_over = not store.failed
        store.arm(None)
        yield copied
        shutil.rmtree(folder / str(n))
        if is_over:
            assert n > between[0], "it changes the store more often"
            return
    raise AssertionError("it never came to its end")


class _Output(io.RawIOBase):
    def __init__(self, store: FaultStore, path: str, file: pa.NativeFile) -> None:
        self._store, self._path, self._file = store, path, file

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._store._call("output.write", self._path, lambda: self._file.write(data))
        return memoryview(data).nbytes

    def flush(self) -> None:
        """Nothing: the inner file buffers as it likes."""

    def close(self) -> None:
        if self.closed:
            return
        super().close()
        try:
            self._store._call("output.close", self._path, self._file.close)
        finally:
            if not self._file.closed:
                self._file.close()  # our process goes on, and must not leak what a dead one would lose
