"""Calls of stores that fail are retried, where that is safe and may help."""

from __future__ import annotations

import errno
import re
import socket
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from paimon_spark.errors import FileMissingError, StorageError
from paimon_spark.storage import urls
from paimon_spark.storage.fsspec_store import FsspecStore, is_retryable
from paimon_spark.storage.object_store import ObjectStore, Settings
from paimon_spark.storage.s3 import S3Store
from paimon_spark.storage.urls import RetryingStore, open_store


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

    def read_end(self, path: str, length: int, expected: int | None = None) -> tuple[bytes, int]:
        return b"", 10

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
    ("url", "options"),
    [
        ("gs://b/wh", {"fs.endpoint_url": "http://{}", "fs.token": "anon"}),
        ("abfs://b/wh", {"fs.account_name": "shop", "fs.account_host": "http://{}", "fs.account_key": "a2V5PT0="}),
        ("abfss://b/wh", {"fs.connection_string": "AccountName=shop;AccountKey=a2V5PT0=;BlobEndpoint=http://{}/shop;"}),
        ("s3://b/wh", {"s3.endpoint": "http://{}", "s3.access-key": "k", "s3.secret-key": "s"}),
        ("az://b/wh", {"fs.account_name": "no-account-has-such-a-name", "fs.account_key": "a2V5PT0="}),
    ],
)
def test_an_address_where_nothing_listens_is_not_tried_for_long(url: str, options: dict[str, str]) -> None:
    address = f"127.0.0.1:{closed_port()}"
    store, path = open_store(url, {key: value.format(address) for key, value in options.items()})
    assert isinstance(store, RetryingStore) and isinstance(store.inner, ObjectStore)
    waits: list[float] = []
    with pytest.raises(StorageError, match=r"^nothing answers at .*: correct the endpoint, or try later") as e:
        replace(store, sleep=waits.append).exists(path)
    assert e.value.retryable and e.value.context["unreachable"]
    assert (store.inner.address() or "?") in str(e.value)
    assert waits == []


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


class NotFoundError(FileNotFoundError):
    """As obstore's."""


class GenericError(Exception):
    """As obstore's."""


def answered(status: str, body: str = "", kind: type[Exception] = GenericError) -> Exception:
    return kind(
        f"Generic S3 error: Error performing GET http://h:1/lake/x?list-type=2&sig=hush in 2ms - Server returned "
        f"non-2xx status code: {status}: {body}\n\nDebug source: Generic {{ status: {status[:3]} }}"
    )


def unanswered(kind: str, cause: str) -> Exception:
    return GenericError(
        "Generic S3 error: Error performing GET http://h:1/lake/x in 2s, after 2 retries, max_retries: 2 - HTTP "
        f"error: error sending request\n\nDebug source: Generic {{ HttpError {{ kind: {kind}, source: {cause} }} }}"
    )


REFUSED = 'Os { code: 111, kind: ConnectionRefused, message: "Connection refused" }'


@pytest.mark.parametrize(
    ("verb", "cause", "told", "retryable"),
    [
        (
            "read",
            answered("404 Not Found", "<Code>NoSuchBucket</Code>", NotFoundError),
            "there is no bucket 'lake' at",
            False,
        ),
        ("list", answered("404 Not Found"), "there is no bucket 'lake' at http://h:1: correct", False),
        ("read", answered("404 Not Found", "", NotFoundError), "there is no file s3://lake/x", False),
        (
            "write",
            answered("503 Slow Down", "<Code>SlowDown</Code>"),
            "cannot write s3://lake/x: 503 Slow Down: Slow",
            True,
        ),
        ("write", answered("400 Bad Request"), "cannot write s3://lake/x: 400 Bad Request$", False),
        (
            "read",
            answered("301 Moved", "<Code>PermanentRedirect</Code>"),
            "is in another region .* give s3.region",
            False,
        ),
        (
            "read",
            answered("403 Forbidden", "<Code>AccessDenied</Code>"),
            "refuses access to s3://lake .*AccessDenied",
            False,
        ),
        ("read", unanswered("Connect", REFUSED), r"nothing answers at http://h:1: .*\(Connection refused\)", True),
        ("read", unanswered("Timeout", "TimedOut"), "cannot read s3://lake/x: no answer in time", True),
        ("read", unanswered("Decode", "IncompleteBody"), "cannot read s3://lake/x: ", True),
        ("read", unanswered("Connect", "InvalidMessage(InvalidContentType)"), "does not answer to https://", False),
        ("read", unanswered("Connect", "InvalidCertificate(\n  Expired,\n)"), r"not trusted \(Expired\)", False),
        (
            "read",
            GenericError("GET http://169.254.169.254/latest/api/token"),
            "no login is given for s3://lake;",
            False,
        ),
        ("read", ValueError("Could not parse path"), "cannot read s3://lake/x: Could not parse path", False),
    ],
)
def test_errors_of_object_stores_say_what_to_do(verb: str, cause: Exception, told: str, retryable: bool) -> None:
    store = S3Store(Settings({"endpoint": "http://h:1"}), scheme="s3")
    error = store.failure(verb, "lake/x", cause)
    assert re.search(told, str(error)) and "hush" not in str(error) and "\n" not in str(error)
    assert error.retryable is retryable
    assert isinstance(error, FileMissingError) is ("no file" in told)


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
