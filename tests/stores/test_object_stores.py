"""The contract of stores on servers of S3, Google Cloud Storage and Azure, other than the one that unit tests use."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

import fsspec
import pytest

from paimon_spark.errors import StorageError
from paimon_spark.storage.store import Store
from paimon_spark.storage.urls import open_store
from tests.harness.store_contract import StoreContract, race_processes

# aiohttp would rather not be given large bodies as bytes, which the clients of GCS and Azure do.
pytestmark = [pytest.mark.stores, pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")]


@dataclass
class Put:
    """A place whose files are put there by another client."""

    store: Store
    root: str
    client: Any

    def put(self, path: str, data: bytes) -> None:
        self.client.pipe_file(path, data)


@pytest.mark.slow
@pytest.mark.versitygw
class TestVersityGateway(StoreContract):
    """versitygw, which keeps objects as files: a server of S3 that is no emulator."""

    racers = staticmethod(race_processes)

    @pytest.fixture
    def place(self, s3_options: dict[str, str]) -> Put:
        store, root = open_store(f"s3://bucket/wh-{uuid.uuid4().hex}/", s3_options)
        client = fsspec.filesystem(
            "s3",
            key=s3_options["s3.access-key"],
            secret=s3_options["s3.secret-key"],
            endpoint_url=s3_options["s3.endpoint"],
            skip_instance_cache=True,
            use_listings_cache=False,
        )
        return Put(store, root, client)

    def test_a_wrong_key_is_an_error(self, s3_options: dict[str, str]) -> None:
        store, root = open_store("s3://bucket/x", {**s3_options, "s3.secret-key": "wrong-secret"})
        with pytest.raises(StorageError) as caught:
            store.create_exclusive(root, b"1")
        assert not caught.value.retryable
        assert "wrong-secret" not in str(caught.value)


@pytest.mark.slow
@pytest.mark.gcs
class TestGcs(StoreContract):
    racers = staticmethod(race_processes)

    @pytest.fixture
    def place(self, gcs_options: dict[str, str]) -> Put:
        store, root = open_store(f"gs://bucket/wh-{uuid.uuid4().hex}/", gcs_options)
        return Put(store, root, fsspec.filesystem("gcs", **arguments(gcs_options), skip_instance_cache=True))


class TestAzure(StoreContract):
    racers = staticmethod(race_processes)

    @pytest.fixture
    def place(self, azure_options: dict[str, str]) -> Put:
        client = LiteralPaths(**arguments(azure_options))
        container = f"c{uuid.uuid4().hex}"
        client.mkdir(container)
        store, root = open_store(f"abfs://{container}/wh", azure_options)
        return Put(store, root, client)


class LiteralPaths(fsspec.get_filesystem_class("abfs")):  # type: ignore[misc]
    """The client adlfs, which takes a path for a URL otherwise, and loses a `?` at its end."""

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        return path.lstrip("/") if isinstance(path, str) and "://" not in path else super()._strip_protocol(path)


def arguments(options: dict[str, str]) -> dict[str, str]:
    """Options of a store as arguments of fsspec."""
    return {key.removeprefix("fs."): value for key, value in options.items()}
