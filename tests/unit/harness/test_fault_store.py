"""The fault store fails the calls that it is told to, before or after they are done."""

from __future__ import annotations

import pickle
import uuid

import fsspec
import pytest

from paimon_spark.errors import FileMissingError, StorageError
from paimon_spark.storage.store import Store
from paimon_spark.storage.urls import open_store
from tests.harness.fault_store import MUTATING, Call, Fault, FaultStore
from tests.harness.store_contract import StoreContract, race_threads
from tests.unit.storage.test_stores import FilledBy


def memory() -> tuple[Store, str]:
    return open_store(f"memory://{uuid.uuid4().hex}")


class TestWithoutFaults(StoreContract):
    """A fault store that is not armed is the store it wraps."""

    racers = staticmethod(race_threads)

    @pytest.fixture
    def place(self) -> FilledBy:
        inner, root = memory()
        return FilledBy(FaultStore(inner), root, fsspec.filesystem("memory"))


def test_the_nth_call_fails_before_it_is_done() -> None:
    inner, root = memory()
    store = FaultStore(inner)
    store.arm(Fault(2))
    store.write(f"{root}/a", b"")
    with pytest.raises(StorageError, match=r"write .*/b failed as told") as caught:
        store.write(f"{root}/b", b"")
    assert caught.value.retryable
    store.write(f"{root}/c", b"")
    assert [i.name for i in inner.list(root)] == ["a", "c"]
    assert store.failed == [Call("write", f"{root}/b")]


def test_the_nth_call_fails_after_it_was_done() -> None:
    inner, root = memory()
    store = FaultStore(inner)
    store.arm(Fault(1, after=True, retryable=False))
    with pytest.raises(StorageError) as caught:
        store.create_exclusive(f"{root}/a", b"1")
    assert not caught.value.retryable
    assert inner.read(f"{root}/a") == b"1"


def test_only_calls_asked_for_are_counted() -> None:
    inner, root = memory()
    store = FaultStore(inner)
    store.arm(Fault(1, verbs=MUTATING, path_part="snapshot"))
    assert store.list(f"{root}/snapshot") == []
    store.write(f"{root}/manifest", b"")
    with pytest.raises(StorageError):
        store.write(f"{root}/snapshot/1", b"")
    assert store.count() == 3
    assert store.count(MUTATING) == 2
    assert store.count(MUTATING, "snapshot") == 1


def test_a_dead_store_stays_dead() -> None:
    inner, root = memory()
    store = FaultStore(inner)
    store.arm(Fault(1, after=True, forever=True, verbs=MUTATING))
    assert not store.exists(root)
    with pytest.raises(StorageError):
        store.write(f"{root}/a", b"")
    for _ in range(2):
        with pytest.raises(StorageError):
            store.exists(f"{root}/a")
    assert inner.exists(f"{root}/a")


def test_bytes_of_an_output_file_are_calls() -> None:
    inner, root = memory()
    store = FaultStore(inner)
    with store.open_output(f"{root}/a") as f:
        f.write(b"1")
        f.write(b"2")
    assert [c.verb for c in store.calls] == ["open_output", "output.write", "output.write", "output.close"]
    store.arm(Fault(2, verbs=frozenset(("output.write",))))
    f = store.open_output(f"{root}/b")
    f.write(b"1")
    with pytest.raises(StorageError):
        f.write(b"2")
    f.close()
    store.arm(Fault(1, verbs=frozenset(("output.close",))))
    f = store.open_output(f"{root}/c")
    with pytest.raises(StorageError):
        f.close()


def test_reads_inside_a_file_are_calls() -> None:
    inner, root = memory()
    inner.write(f"{root}/a", b"123")
    store = FaultStore(inner)
    with store.open(f"{root}/a") as f:
        assert f.read() == b"123"
    assert [c.verb for c in store.calls] == ["open", "read_range"]
    with pytest.raises(FileMissingError):
        store.open(f"{root}/b")


def test_copies_share_what_they_count() -> None:
    inner, root = memory()
    store = FaultStore(inner)
    store.arm(Fault(2))
    copy = pickle.loads(pickle.dumps(store))
    copy.exists(root)
    with pytest.raises(StorageError):
        store.exists(root)
    assert copy.calls == store.calls
    assert len(copy.calls) == 2


def test_a_fault_that_is_never_injected_fails_the_test() -> None:
    inner, root = memory()
    store = FaultStore(inner)
    with pytest.raises(AssertionError, match="was never injected into 1 calls"), store.failing(Fault(2)):
        store.write(f"{root}/a", b"")
    with store.failing(Fault(1)) as failed, pytest.raises(StorageError):
        store.write(f"{root}/a", b"")
    assert failed == [Call("write", f"{root}/a")]
    store.write(f"{root}/a", b"")
