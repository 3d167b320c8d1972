"""Requests to remote stores that go out together: what they may answer, and what they may not."""

from __future__ import annotations

import builtins
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest

from paimon_spark.errors import FileMissingError, StorageError
from paimon_spark.storage.ahead import ahead, remote_of, side_by_side
from paimon_spark.storage.fsspec_store import MemoryStore
from paimon_spark.storage.store import FileInfo
from paimon_spark.storage.urls import RetryingStore


class Gated(MemoryStore):
    """A store whose requests are noted, and wait until so many of them have begun."""

    def __init__(self, together: int = 1) -> None:
        super().__init__("memory", {"name": f"ahead-{id(self)}"})
        self.files: dict[str, bytes] = {}
        self.asked: list[tuple[str, str]] = []
        self.barrier = threading.Barrier(together)
        self.failing: set[str] = set()

    def _request(self, verb: str, path: str) -> None:
        self.asked.append((verb, path))
        self.barrier.wait(60)
        if path in self.failing:
            raise StorageError(f"cannot {verb} {path}", path=path)

    def read(self, path: str) -> bytes:
        self._request("read", path)
        if path not in self.files:
            raise FileMissingError(f"no {path}", path=path)
        return self.files[path]

    def write(self, path: str, data: bytes) -> None:
        self._request("write", path)
        self.files[path] = data

    def list(self, directory: str) -> list[FileInfo]:
        self._request("list", directory)
        return self._inside(directory)

    def list_tree(self, directory: str) -> Mapping[str, Any]:
        self._request("tree", directory)
        places = {p.rpartition("/")[0] for p in self.files if p.startswith(f"{directory}/")}
        return {place: self._inside(place) for place in places}

    def _inside(self, directory: str) -> builtins.list[FileInfo]:
        names = (p.removeprefix(f"{directory}/") for p in sorted(self.files) if p.startswith(f"{directory}/"))
        return [FileInfo(n, 1, False, None) for n in names if "/" not in n]


@dataclass
class Place:
    inner: Gated
    store: RetryingStore = field(init=False)

    def __post_init__(self) -> None:
        self.store = RetryingStore(self.inner, sleep=lambda _: None)


def place(together: int = 1) -> Place:
    return Place(Gated(together))


def test_reads_and_lists_of_a_block_run_side_by_side_and_are_given_once() -> None:
    p = place(together=3)
    p.inner.files = {"d/a": b"1", "d/b": b"2"}
    with ahead(p.store, ["d/a", "d/none"], ["d"]):  # the barrier opens only when all three run
        assert p.store.read("d/a") == b"1"
        with pytest.raises(FileMissingError, match="no d/none"):
            p.store.read("d/none")
        assert [i.name for i in p.store.list("d")] == ["a", "b"]
        p.inner.barrier = threading.Barrier(1)
        p.inner.files["d/a"] = b"3"
        assert p.store.read("d/a") == b"3", "the second read asks the store"
    assert sorted(p.inner.asked) == [("list", "d"), ("read", "d/a"), ("read", "d/a"), ("read", "d/none")]


def test_nothing_that_was_asked_ahead_outlives_its_block() -> None:
    p = place()
    p.inner.files = {"a": b"1", "b": b"1"}
    with ahead(p.store, ["a", "b"]):
        pass
    p.inner.files = {"a": b"2", "b": b"2"}
    assert (p.store.read("a"), p.store.read("b")) == (b"2", b"2")


def test_other_threads_do_not_get_what_was_asked_ahead() -> None:
    p = place()
    p.inner.files = {"a": b"1", "b": b"1"}
    found: list[bytes] = []
    with ahead(p.store, ["a", "b"]):
        assert p.store.read("b") == b"1"
        p.inner.files["a"] = b"2"
        other = threading.Thread(target=lambda: found.append(p.store.read("a")))
        other.start()
        other.join(60)
    assert found == [b"2"]


@pytest.mark.parametrize(
    "change",
    [
        lambda s: s.write("d/a", b"2"),
        lambda s: s.delete("d/a"),
        lambda s: s.delete_many(["d/a"]),
        lambda s: s.create_exclusive("d/a", b"2"),
        lambda s: s.delete_tree("d"),
        lambda s: s.rename_tree("d", "e"),
    ],
)
def test_a_change_forgets_what_was_asked_ahead_of_it(change: Callable[[Any], None]) -> None:
    p = place()
    p.inner.files = {"d/a": b"1", "d/b": b"1"}
    with ahead(p.store, ["d/a"], ["d"], trees=["d"]):
        while len(p.inner.asked) < 3:
            threading.Event().wait(0.001)
        with suppress(StorageError):  # fsspec's memory has none of these files
            change(p.store)
        p.inner.files = {"d/a": b"2", "d/c": b"2"}
        assert p.store.read("d/a") == b"2"
        assert [i.name for i in p.store.list("d")] == ["a", "c"]


def test_a_tree_gives_each_directory_once() -> None:
    p = place()
    p.inner.files = {"t/x/1": b"", "t/y/2": b"", "u/3": b""}
    with ahead(p.store, trees=["t"]):
        assert [i.name for i in p.store.list("t/x")] == ["1"]
        assert p.store.list("t/none") == []
        assert p.inner.asked == [("tree", "t")]
        p.inner.files["t/x/4"] = b""
        assert [i.name for i in p.store.list("t/x")] == ["1", "4"]
        assert [i.name for i in p.store.list("u")] == ["3"]
    assert p.inner.asked == [("tree", "t"), ("list", "t/x"), ("list", "u")]


def test_writes_of_a_block_run_side_by_side_and_are_there_when_it_ends() -> None:
    p = place(together=3)
    with side_by_side(p.store):
        for name in "abc":
            p.store.write(name, name.encode())
    assert p.inner.files == {"a": b"a", "b": b"b", "c": b"c"}


def test_what_is_read_in_a_block_is_written_by_then() -> None:
    p = place()
    with side_by_side(p.store):
        p.store.write("a", b"1")
        assert p.store.read("a") == b"1"
        p.store.write("a", b"2")
        p.store.write("a", b"3")
    assert p.inner.files == {"a": b"3"}


def test_a_write_that_fails_is_raised_at_the_end_of_its_block() -> None:
    p = place()
    p.inner.failing = {"b"}
    ended = []

    def write() -> None:
        with side_by_side(p.store):
            for name in "abc":
                p.store.write(name, b"")
            ended.append(True)

    with pytest.raises(StorageError, match="cannot write b"):
        write()
    assert ended and p.inner.files.keys() == {"a", "c"}
    p.inner.failing = set()
    p.store.write("b", b"1")
    assert p.inner.files["b"] == b"1", "a later write is no part of the block"


def test_an_error_in_a_block_of_writes_waits_for_them() -> None:
    p = place(together=2)

    def fail() -> None:
        with side_by_side(p.store):
            p.store.write("a", b"")
            p.store.write("b", b"")
            raise KeyError("x")

    with pytest.raises(KeyError):
        fail()
    assert p.inner.files.keys() == {"a", "b"}


def test_many_bytes_wait_for_those_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paimon_spark.storage.ahead._MOST_BYTES", 10)
    p = place()
    with side_by_side(p.store):
        for n in range(20):
            p.store.write(str(n), b"12345")
            assert len(p.inner.asked) >= n - 1
    assert len(p.inner.files) == 20


def test_stores_that_are_not_remote_are_read_as_ever() -> None:
    store = MemoryStore("memory")
    assert remote_of(store) is None
    with ahead(store, ["a", "b"]), side_by_side(store):
        store.write("/ahead/a", b"1")
        assert store.read("/ahead/a") == b"1"
