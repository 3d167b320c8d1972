"""Requests to a remote store that are sent together instead of one after the other.

    with ahead(store, files=[a, b], directories=[c], trees=[d]):
        ...  # reads and lists them as ever

Within the block, in the thread that opened it, the first read of each file and the first listing of each directory
waits for the request that runs already; all others go to the store. A tree is a directory with all below it, which an
object store lists by one request for a thousand files. So the code stays the same, and several requests
take the time of one. They run in any order: a block is right only around reads whose order does not matter. A change
of a file by this thread within the block forgets what was asked for it.

Likewise `side_by_side` starts the writes of a block at once, and waits for them at its end.

Stores on disk and in memory are read as ever. Tests: tests/unit/storage/test_ahead.py.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

_MOST_AT_ONCE: Final = 32
_MOST_BYTES: Final = 64 << 20
"""Bytes of writes that run in the background; later ones wait."""
_READ: Final = "read"
_LIST: Final = "list"
_Key: TypeAlias = "tuple[str, str, str]"


class _Remote(Protocol):
    """The reads of a store that can be started ahead."""

    @property
    def identity(self) -> str: ...

    def read_now(self, path: str) -> bytes: ...

    def list_now(self, directory: str) -> list[Any]: ...

    def list_tree(self, directory: str) -> Mapping[str, list[Any]] | None: ...


@dataclass(frozen=True)
class _Block:
    pending: dict[_Key, Future[Any]]
    trees: dict[tuple[str, str], _Tree]
    outer: _Block | None


@dataclass
class _Tree:
    """A listing of a tree; each directory of it is given once."""

    listing: Future[Mapping[str, list[Any]] | None]
    given: set[str] = field(default_factory=set)

    def list(self, directory: str) -> list[Any] | None:
        """The entries of a directory; None if the store has to be asked."""
        if directory in self.given:
            return None
        self.given.add(directory)
        found = self.listing.result()
        return None if found is None else found.get(directory, [])


class _OfThread(threading.local):
    block: _Block | None = None
    writes: _Writes | None = None


class _Writes:
    """Writes that run in the background until the end of a block."""

    def __init__(self) -> None:
        self.pool = _threads(_MOST_AT_ONCE)
        self.running: dict[tuple[str, str], tuple[Future[None], int]] = {}
        self.failure: BaseException | None = None

    def settle(self, key: tuple[str, str]) -> None:
        """Wait for a write, if there is one. Its failure is raised at the end of the block, too."""
        write, _ = self.running.pop(key, (None, 0))
        if write is not None:
            self.failure = self.failure or write.exception()

    def settle_all(self) -> None:
        """Wait for all writes. Raises the first failure."""
        for key in list(self.running):
            self.settle(key)
        if self.failure is not None:
            raise self.failure


_local = _OfThread()


def _threads(count: int) -> ThreadPoolExecutor:
    from concurrent.futures import ThreadPoolExecutor  # Spark's workers on local tables need none

    return ThreadPoolExecutor(min(count, _MOST_AT_ONCE), thread_name_prefix="paimon-ahead")


@contextmanager
def ahead(
    store: object, files: Iterable[str] = (), directories: Iterable[str] = (), trees: Iterable[str] = ()
) -> Iterator[None]:
    """Start reading files and listing directories of `store` together, for the code in the block."""
    remote = remote_of(store)
    wanted = [] if remote is None else [*((_READ, p) for p in files), *((_LIST, d) for d in directories)]
    whole = [] if remote is None else list(trees)
    if remote is None or len(wanted) + 2 * len(whole) < 2 or not threading.main_thread().is_alive():
        yield
        return
    requests = {_READ: remote.read_now, _LIST: remote.list_now}
    with _threads(len(wanted) + len(whole)) as pool:
        listed = {(remote.identity, tree): _Tree(pool.submit(remote.list_tree, tree)) for tree in whole}
        pending = {
            (remote.identity, kind, path): pool.submit(requests[kind], path) for kind, path in dict.fromkeys(wanted)
        }
        outer = _local.block
        _local.block = _Block(pending, listed, outer)
        try:
            yield
        finally:
            _local.block = outer
            for future in pending.values():
                future.cancel()


@contextmanager
def side_by_side(store: object) -> Iterator[None]:
    """Write the files that the block writes to `store` side by side; all are there when it ends.

    A block is right only around files that may come to be in any order, and that no other thread reads or lists before
    it ends. Raises the first failure, when the block has ended; then any of the files may be there.
    """
    if remote_of(store) is None or _local.writes is not None or not threading.main_thread().is_alive():
        yield
        return
    writes = _local.writes = _Writes()
    try:
        with writes.pool:
            yield
    finally:
        _local.writes = None
    writes.settle_all()


def written(identity: str, path: str, write: Callable[[], None], size: int) -> None:
    """Carry out `write` of a file of `size` bytes, in the background within a block of `side_by_side`."""
    forget(identity, path)
    writes = _local.writes
    if writes is None:
        write()
        return
    settle(identity, path)
    while writes.running and sum(n for _, n in writes.running.values()) + size > _MOST_BYTES:
        writes.settle(next(iter(writes.running)))
    writes.running[identity, path] = writes.pool.submit(write), size


def settle(identity: str, path: str) -> None:
    """Wait for the write of a file that runs in the background in this thread's block, as it is to be read."""
    writes = _local.writes
    if writes is not None:
        writes.settle((identity, path))


def taken(identity: str, path: str, read: Callable[[str], Any], *, is_list: bool = False) -> Any:
    """The result of a request that was started ahead, or else of `read`. Raises what the request raised."""
    settle(identity, path)
    key = (identity, _LIST if is_list else _READ, path)
    block = _local.block
    while block is not None:
        future = block.pending.pop(key, None)
        if future is not None:
            return future.result()
        if is_list:
            for (store, root), tree in block.trees.items():
                if store == identity and (path == root or path.startswith(f"{root}/")):
                    found = tree.list(path)
                    if found is not None:
                        return found
        block = block.outer
    return read(path)


def forget(identity: str, path: str) -> None:
    """Forget what was asked ahead of a path that is changed, and of the directories that hold it or lie below it."""
    block = _local.block
    while block is not None:
        for key in list(block.pending):
            if key[0] == identity and (key[2].startswith(path) or path.startswith(f"{key[2]}/")):
                block.pending.pop(key, None)
        for store, root in list(block.trees):
            if store == identity and (root.startswith(path) or path.startswith(f"{root}/")):
                block.trees.pop((store, root))
        block = block.outer


def remote_of(store: object) -> _Remote | None:
    """The remote store that `store` is, or that it sends its reads to; None for others."""
    while store is not None:
        if hasattr(store, "read_now"):
            return store  # type: ignore[return-value]
        store = getattr(store, "inner", None)
    return None
