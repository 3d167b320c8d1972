"""Atomic creation of files on fsspec file systems: where it is promised, and how conflicts are recognized."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from paimon_spark.storage import fsspec_write as s3
from paimon_spark.storage.fsspec_write import atomic_create, create, is_conflict
from paimon_spark.storage.store import AtomicCreate


class Modern:
    """Takes what gcsfs, s3fs and adlfs take today, and remembers it."""

    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []

    async def _pipe_file(self, path: str, data: bytes, mode: str = "overwrite", overwrite: bool = True) -> None: ...

    def pipe_file(self, path: str, data: bytes, **kwargs: Any) -> None:
        self.calls.append(kwargs)


class Old:
    async def _pipe_file(self, path: str, data: bytes, **kwargs: Any) -> None: ...


@pytest.mark.parametrize("protocol", ["gs", "gcs", "az", "abfs", "abfss", "s3"])
def test_creation_is_atomic_only_where_the_installed_package_can(protocol: str) -> None:
    assert atomic_create(protocol, Modern, {}) is AtomicCreate.NATIVE
    assert atomic_create(protocol, Old, {}) is AtomicCreate.NONE


@pytest.mark.parametrize("protocol", ["sftp", "ftp", "smb", "local", "adl", "unheard-of"])
def test_other_file_systems_promise_nothing(protocol: str) -> None:
    assert atomic_create(protocol, Modern, {}) is AtomicCreate.NONE


def test_an_s3_client_that_drops_the_condition_promises_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3, "version", lambda package: "1.35.20")
    assert atomic_create("s3", Modern, {}) is AtomicCreate.NONE
    monkeypatch.setattr(s3, "version", lambda package: "1.36.0")
    assert atomic_create("s3", Modern, {}) is AtomicCreate.NATIVE


def test_each_cloud_is_told_in_its_own_words() -> None:
    fs = Modern()
    create(fs, "gs", "b/x", b"")
    create(fs, "abfss", "b/x", b"")
    assert fs.calls == [{"mode": "create"}, {"overwrite": False}]


class ClientError(Exception):
    """As botocore's."""

    def __init__(self, status: int) -> None:
        super().__init__("refused")
        self.response = {"Error": {}, "ResponseMetadata": {"HTTPStatusCode": status}}


class HttpError(Exception):
    """As gcsfs'."""

    def __init__(self, code: int) -> None:
        super().__init__("refused")
        self.code = code


def made_from(cause: Exception) -> Exception:
    error = OSError(errno.EINVAL, "at least one of the preconditions did not hold")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (FileExistsError("x"), True),
        (made_from(ClientError(412)), True),
        (HttpError(412), True),
        (made_from(ClientError(409)), False),
        (HttpError(503), False),
        (TimeoutError(), False),
    ],
)
def test_which_failures_mean_that_a_file_was_there(error: Exception, expected: bool) -> None:
    assert is_conflict(error) is expected
