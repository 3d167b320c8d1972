"""Calls of stores that fail are retried, where that is safe and may help."""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable, Sequence

import pytest

from paimon_spark.errors import FileMissingError, StorageError
from paimon_spark.storage import clients, fsspec_store, urls
from paimon_spark.storage.fsspec_store import FsspecStore, is_retryable
from paimon_spark.storage.urls import RetryingStore


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

    def create_exclusive(self, path: str, data: bytes) -> None:
        self.read(path)

    def write(self, path: str, data: bytes) -> None:
        self.read(path)

    def delete(self, path: str) -> None:
        self.read(path)

    def rename_tree(self, old: str, new: str, last: Sequence[str] = ()) -> None:
        self.read(old)

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        return self.read(path).ljust(10)[offset : offset + length]


def closed_port() -> int:
    """A port of this machine where nothing listens."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


@pytest.mark.parametrize(
    ("protocol", "named"),
    [
        ("gs", {"endpoint_url": "http://{}", "token": "anon"}),
        ("abfs", {"account_name": "shop", "account_host": "{}"}),
        ("abfss", {"connection_string": "AccountName=shop;AccountKey=a2V5PT0=;BlobEndpoint=http://{}/shop;"}),
        ("az", {"account_name": "no account has such a name"}),
    ],
)
def test_the_clients_of_google_and_azure_do_not_try_an_address_where_nothing_listens(
    monkeypatch: pytest.MonkeyPatch, protocol: str, named: dict[str, str]
) -> None:
    made: list[str] = []
    monkeypatch.setattr(fsspec_store, "make_filesystem", lambda protocol, arguments: made.append(protocol))
    monkeypatch.setattr(clients, "getproxies", dict)
    arguments = {key: value.format(f"127.0.0.1:{closed_port()}") for key, value in named.items()}
    with pytest.raises(StorageError, match=r"^nothing answers at .*: correct the endpoint, or try later") as e:
        FsspecStore(protocol, arguments).exists("bucket/wh")
    assert e.value.retryable and e.value.context["unreachable"]
    assert (clients.given_address(protocol, arguments) or "?") in str(e.value)
    assert not made
    monkeypatch.setattr(clients, "getproxies", lambda: {"https": "http://proxy:3128"})
    clients.check_reachable(protocol, arguments)  # only the proxy knows


def test_an_address_where_something_listens_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"http://127.0.0.1:{server.getsockname()[1]}"
        clients.check_reachable("gs", {"endpoint_url": address})
        clients.check_reachable("abfs", {"connection_string": f"BlobEndpoint={address}/shop"})
    for protocol, arguments in (("gs", {}), ("abfs", {"connection_string": "UseDevelopmentStorage=true"})):
        assert clients.given_address(protocol, arguments) is None
        clients.check_reachable(protocol, arguments)


def busy() -> StorageError:
    return StorageError("busy", retryable=True)


def test_retryable_failures_are_repeated_with_growing_waits() -> None:
    waits: list[float] = []
    inner = Flaky(busy(), busy(), busy())
    assert RetryingStore(inner, first_delay_s=1, sleep=waits.append).read("x") == b"ok"
    assert inner.calls == 4
    assert 1 <= waits[0] <= 2 <= waits[1] <= 4 <= waits[2] <= 8


def test_a_store_that_cannot_be_reached_is_asked_again_only_if_it_has_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(urls, "_ANSWERED", set())
    gone = StorageError("nothing answers", retryable=True, unreachable=True)
    inner = Flaky(gone)
    store = RetryingStore(inner, sleep=lambda _: None)
    with pytest.raises(StorageError, match="nothing answers"):
        store.read("x")
    assert (store.read("x"), inner.calls) == (b"ok", 2)
    inner.failures = [gone]
    assert (store.read("x"), inner.calls) == (b"ok", 4)


def caused(error: Exception, cause: str) -> Exception:
    error.__cause__ = RuntimeError(cause)
    return error


@pytest.mark.parametrize(
    "cause",
    [
        FileNotFoundError("The specified bucket does not exist"),
        OSError("NoSuchBucket: lake"),
        caused(
            FileNotFoundError("Not Found"),
            "An error occurred (404) when calling the ListObjectsV2 operation: Not Found",  # no S3 server
        ),
    ],
)
def test_a_bucket_that_does_not_exist_is_no_empty_one(cause: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    class Missing:
        def __getattr__(self, name: str) -> Callable[..., None]:
            def fail(*_: object, **__: object) -> None:
                if name != "invalidate_cache":
                    raise cause

            return fail

    store = FsspecStore("s3", {"endpoint_url": "http://h:1"})
    monkeypatch.setattr(store, "_fs", Missing)
    for ask in (store.exists, store.list, store.read):
        with pytest.raises(StorageError, match=r"^there is no bucket 'lake' at http://h:1: correct") as raised:
            ask("lake/wh")
        assert not isinstance(raised.value, FileMissingError) and not raised.value.retryable


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


@pytest.mark.parametrize("verb", ["create_exclusive", "rename_tree"])
def test_what_is_harmful_twice_is_done_once(verb: str) -> None:
    inner = Flaky(busy())
    with pytest.raises(StorageError, match="busy"):
        getattr(RetryingStore(inner, sleep=lambda s: pytest.fail("waited")), verb)("x", b"y")
    assert inner.calls == 1


def test_writes_that_replace_and_removals_are_repeated() -> None:
    inner = Flaky(busy(), busy())
    store = RetryingStore(inner, sleep=lambda s: None)
    store.write("x", b"")
    store.delete("x")
    assert inner.calls == 4


class EndpointConnectionError(Exception):
    """As botocore's, which is no OSError."""


class HTTPClientError(Exception):
    """As botocore's for whatever its HTTP client raised, answer or not."""


class AnsweredError(Exception):
    """As the errors of clients that keep the status of the answer."""

    def __init__(self, status: int) -> None:
        super().__init__("refused")
        self.status_code = status


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: ConnectionResetError(), True),
        (lambda: TimeoutError(), True),
        (lambda: OSError(errno.EBUSY, "slow down"), True),
        (lambda: EndpointConnectionError(), True),
        (lambda: HTTPClientError(), True),
        (lambda: AnsweredError(503), True),
        (lambda: AnsweredError(409), True),
        (lambda: RuntimeError("dictionary changed size during iteration"), True),
        (lambda: RuntimeError("odd"), False),
        (lambda: AnsweredError(403), False),
        (lambda: FileNotFoundError(), False),
        (lambda: PermissionError(errno.EACCES, "no"), False),
        (lambda: OSError(errno.ENOSPC, "full"), False),
        (lambda: ValueError("odd"), False),
    ],
)
def test_which_failures_are_worth_a_repeat(make: Callable[[], Exception], expected: bool) -> None:
    assert is_retryable(make()) is expected
