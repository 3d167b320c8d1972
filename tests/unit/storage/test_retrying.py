from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable

import pytest

from paimon_spark.errors import FileMissingError, StorageError
from paimon_spark.storage.fsspec_store import FsspecStore, is_retryable
from paimon_spark.storage.retrying import RetryingStore


class Flaky(FsspecStore):
    """Fails as told before it answers."""

    def __init__(self, *failures: Exception) -> None:
        super().__init__("memory")
        self.failures = list(failures)
        self.calls = 0

    def read(self, path: str) -> bytes:
        self.calls += 1
        if self.failures:
            raise self.failures.pop(0)
        return b"ok"

    def size(self, path: str) -> int:
        return 10

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        return self.read(path).ljust(10)[offset : offset + length]


def busy() -> StorageError:
    return StorageError("busy", retryable=True)


def test_retryable_failures_are_repeated_with_growing_waits() -> None:
    waits: list[float] = []
    inner = Flaky(busy(), busy(), busy())
    assert RetryingStore(inner, first_delay_s=1, sleep=waits.append).read("x") == b"ok"
    assert inner.calls == 4
    assert 1 <= waits[0] <= 2 <= waits[1] <= 4 <= waits[2] <= 8


def test_repeats_are_bounded() -> None:
    inner = Flaky(*[busy() for _ in range(9)])
    with pytest.raises(StorageError, match="busy"):
        RetryingStore(inner, attempts=3, sleep=lambda s: None).read("x")
    assert inner.calls == 3


@pytest.mark.parametrize("failure", [FileMissingError("gone"), StorageError("denied", retryable=False)])
def test_final_failures_are_raised_at_once(failure: StorageError) -> None:
    inner = Flaky(failure)
    with pytest.raises(type(failure)):
        RetryingStore(inner, sleep=lambda s: pytest.fail("waited")).read("x")
    assert inner.calls == 1


def test_reads_inside_an_open_file_are_repeated() -> None:
    inner = Flaky(busy(), busy())
    with RetryingStore(inner, sleep=lambda s: None).open("x") as f:
        assert f.read(2) == b"ok"
    assert inner.calls == 3


def test_our_error_comes_through_arrow() -> None:
    inner = Flaky(FileMissingError("it went away", path="x"))
    with RetryingStore(inner).open("x") as f, pytest.raises(FileMissingError, match="it went away"):
        f.read(2)


class EndpointConnectionError(Exception):
    """As botocore's, which is no OSError."""


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: ConnectionResetError(), True),
        (lambda: TimeoutError(), True),
        (lambda: asyncio.TimeoutError(), True),
        (lambda: OSError(errno.EBUSY, "slow down"), True),
        (lambda: EndpointConnectionError(), True),
        (lambda: FileNotFoundError(), False),
        (lambda: PermissionError(errno.EACCES, "no"), False),
        (lambda: OSError(errno.ENOSPC, "full"), False),
        (lambda: ValueError("odd"), False),
    ],
)
def test_which_failures_are_worth_a_repeat(make: Callable[[], Exception], expected: bool) -> None:
    assert is_retryable(make()) is expected
