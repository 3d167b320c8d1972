"""Small files of a split are fetched together, and read as they would be without."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from paimon_spark.engine.read import files_ahead
from paimon_spark.engine.read.files_ahead import _FilesAhead, small_files_ahead
from paimon_spark.engine.tasks import SplitMode
from paimon_spark.storage.fsspec_store import FsspecStore
from paimon_spark.storage.local import LocalStore
from paimon_spark.storage.urls import RetryingStore


class Remote(FsspecStore):
    """Files of this machine behind requests that are noted, and wait until so many of them run."""

    def __init__(self, together: int = 1) -> None:
        super().__init__("local")
        self.asked: list[str] = []
        self.barrier = threading.Barrier(together)

    def read_end(self, path: str, length: int, expected: int | None = None) -> tuple[bytes, int]:
        self.asked.append(path)
        self.barrier.wait(60)
        return super().read_end(path, length, expected)


def files(tmp_path: Path, count: int, size: int = 100) -> dict[str, int]:
    out = {}
    for n in range(count):
        (tmp_path / str(n)).write_bytes(bytes([n % 256]) * size)
        out[str(tmp_path / str(n))] = size
    return out


def test_files_are_asked_for_together(tmp_path: Path) -> None:
    remote, found = Remote(together=5), files(tmp_path, 5)
    with _FilesAhead(RetryingStore(remote), found, keeps=False) as store:
        for n, path in enumerate(found):
            with store.open(path, 100) as file:
                assert file.read() == bytes([n]) * 100
    assert sorted(remote.asked) == sorted(found)


def test_kept_files_are_asked_for_once_and_others_again(tmp_path: Path) -> None:
    for keeps, times in ((True, 1), (False, 2)):
        remote, found = Remote(), files(tmp_path, 3)
        with _FilesAhead(RetryingStore(remote), found, keeps=keeps) as store:
            for path in [*found, *found]:
                store.open(path, 100).close()
        assert len(remote.asked) == 3 * times


def test_no_more_is_asked_for_than_fits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files_ahead, "_MOST_BYTES", 250)
    remote, found = Remote(), files(tmp_path, 6)
    with _FilesAhead(RetryingStore(remote), found, keeps=False) as store:
        assert len(store._asked) == 2
        for n, path in enumerate(found):
            with store.open(path, 100) as file:
                assert file.read() == bytes([n]) * 100
            assert len(store._asked) <= 2
    assert sorted(remote.asked) == sorted(found)


def test_a_file_of_another_size_than_its_manifest_says_is_read_as_any_other(tmp_path: Path) -> None:
    found = files(tmp_path, 2)
    path = next(iter(found))
    with _FilesAhead(RetryingStore(Remote()), {**found, path: 40}, keeps=True) as store:
        with store.open(path, 40) as file:
            assert file.read() == bytes(100)
        assert store.url(path).endswith(path), "it does all that the store does"


@pytest.mark.parametrize(("store", "count", "asks"), [(RetryingStore(Remote()), 2, True), (LocalStore(), 2, False)])
def test_only_small_files_of_remote_stores_are_asked_for(tmp_path: Path, store: Any, count: int, asks: bool) -> None:
    found = files(tmp_path, count)
    metas = [SimpleNamespace(path=path, file_size=size, external_path=None) for path, size in found.items()]
    large = SimpleNamespace(path="large", file_size=5 << 20, external_path=None)
    elsewhere = SimpleNamespace(path="elsewhere", file_size=5, external_path="s3://x")
    split: Any = SimpleNamespace(
        files=[*metas, large, elsewhere], before_files=(), path_of=lambda f: f.path, mode=SplitMode.RAW
    )
    request: Any = Request(store)
    with small_files_ahead(request, split) as asked:
        assert (asked is not request) is asks
        if asks:
            assert asked.store._asked.keys() == found.keys()  # type: ignore[attr-defined]
    split.files = [*metas[:1], large]
    with small_files_ahead(request, split) as asked:
        assert asked is request, "one file gains nothing"


@dataclass(frozen=True)
class Request:
    """The part of a request that is looked at."""

    store: Any
