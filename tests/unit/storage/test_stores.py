from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fsspec
import pytest

from paimon_spark.errors import StorageError
from paimon_spark.storage.fsspec_store import FsspecStore
from paimon_spark.storage.local import LocalStore
from paimon_spark.storage.store import Store
from paimon_spark.storage.urls import open_store
from tests.harness.s3_server import s3_server
from tests.harness.store_contract import StoreContract


@dataclass
class FilledBy:
    """A place whose files are put there by another client."""

    store: Store
    root: str
    client: Any

    def put(self, path: str, data: bytes) -> None:
        self.client.makedirs(path.rsplit("/", 1)[0], exist_ok=True)
        with self.client.open(path, "wb") as f:
            f.write(data)


class TestLocal(StoreContract):
    @pytest.fixture
    def place(self, tmp_path: Path) -> FilledBy:
        store, root = open_store(str(tmp_path))
        return FilledBy(store, root, fsspec.filesystem("file"))

    def test_a_nul_in_a_path_is_our_error(self) -> None:
        with pytest.raises(StorageError, match="cannot read"):
            LocalStore().read("/tmp/a\0b")

    def test_a_file_that_may_not_be_read_is_no_missing_file(self, tmp_path: Path) -> None:
        with pytest.raises(StorageError) as caught:
            LocalStore().read(str(tmp_path))
        assert type(caught.value) is StorageError
        assert not caught.value.retryable

    def test_a_dangling_link_is_passed_over(self, tmp_path: Path) -> None:
        (tmp_path / "link").symlink_to(tmp_path / "nowhere")
        assert LocalStore().list(str(tmp_path)) == []


class TestMemory(StoreContract):
    @pytest.fixture
    def place(self) -> FilledBy:
        store, root = open_store(f"memory://{uuid.uuid4().hex}/wh")
        return FilledBy(store, root, fsspec.filesystem("memory"))


class TestFsspec(StoreContract):
    """The general store, over fsspec's own local file system."""

    @pytest.fixture
    def place(self, tmp_path: Path) -> FilledBy:
        return FilledBy(FsspecStore("local"), str(tmp_path), fsspec.filesystem("file"))


@pytest.fixture(scope="module")
def s3_options() -> Iterator[dict[str, str]]:
    with s3_server() as options:
        yield options


@pytest.mark.s3
class TestS3(StoreContract):
    @pytest.fixture
    def place(self, s3_options: dict[str, str]) -> FilledBy:
        bucket = f"b-{uuid.uuid4().hex}"
        store, root = open_store(f"s3://{bucket}/wh/", s3_options)
        client = fsspec.filesystem(
            "s3",
            key="test",
            secret="test",
            endpoint_url=s3_options["s3.endpoint"],
            client_kwargs={"region_name": s3_options["s3.region"]},
            use_listings_cache=False,
        )
        client.mkdir(bucket)
        return FilledBy(store, root, client)

    def test_a_marker_object_of_a_directory_is_no_entry(self, place: FilledBy) -> None:
        place.client.pipe_file(f"{place.root}/d/", b"")
        place.put(f"{place.root}/d/x", b"1")
        assert [i.name for i in place.store.list(f"{place.root}/d")] == ["x"]

    def test_a_wrong_key_is_an_error_that_keeps_the_secret(self, s3_options: dict[str, str]) -> None:
        store, root = open_store("s3://no-such-bucket/x", {**s3_options, "s3.secret-key": "hush-hush"})
        with pytest.raises(StorageError) as caught:
            store.read(root)
        assert "hush-hush" not in str(caught.value) + repr(store)

    def test_a_server_that_is_gone_is_worth_a_retry(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
        store, root = open_store(
            "s3://bucket/x", {"s3.endpoint": "http://127.0.0.1:9", "s3.access-key": "a", "s3.secret-key": "b"}
        )
        with pytest.raises(StorageError, match=r"127\.0\.0\.1:9") as caught:
            store.inner.read(root)  # type: ignore[attr-defined]
        assert caught.value.retryable
