"""The contract of stores on a real HDFS: through name nodes and data nodes, and through WebHDFS."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from paimon_spark.errors import StorageError
from paimon_spark.storage.store import Store
from paimon_spark.storage.urls import open_store
from tests.harness.store_contract import StoreContract, race_processes
from tests.stores.servers import Hdfs, hdfs, write_configuration

pytestmark = [pytest.mark.stores]


@dataclass
class Put:
    """A place whose files are put there by the client of hdfs-native itself."""

    store: Store
    root: str
    client: Any

    def put(self, path: str, data: bytes) -> None:
        with self.client.create(path) as f:
            f.write(data)


@pytest.fixture(scope="session")
def client(cluster: Hdfs) -> Any:
    """One for all tests: the end of a client that a forked process found would wait for ever."""
    from hdfs_native import Client

    return Client(f"hdfs://{cluster.name_nodes[0].rpc}")


class TestHdfs(StoreContract):
    renames_directories = True
    racers = staticmethod(race_processes)

    @pytest.fixture
    def place(self, cluster: Hdfs, client: Any) -> Put:
        store, root = open_store(f"hdfs://{cluster.name_nodes[0].rpc}/wh-{uuid.uuid4().hex}/")
        client.mkdirs(root)
        return Put(store, root, client)

    def test_the_default_file_system_of_the_configuration(
        self, cluster: Hdfs, client: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        address = f"hdfs://{cluster.name_nodes[0].rpc}"
        write_configuration(tmp_path / "core-site.xml", {"fs.defaultFS": address})
        given, root = open_store("hdfs:///default", {"hadoop-conf-dir": str(tmp_path)})
        given.write(f"{root}/x", b"1")
        monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
        found, root = open_store("hdfs:///default")
        assert found.read(f"{root}/x") == b"1"
        set_, _ = open_store("hdfs:///default", {"hadoop.fs.defaultFS": address})
        assert set_.read(f"{root}/x") == b"1"
        assert found.url(f"{root}/x") == "hdfs:///default/x"

    def test_a_name_node_in_safe_mode_refuses_writes(self, cluster: Hdfs, place: Put) -> None:
        place.store.write(f"{place.root}/x", b"1")
        cluster.do("safemode on")
        try:
            with pytest.raises(StorageError, match=r"SafeModeException.*Name node is in safe mode") as caught:
                place.store.create_exclusive(f"{place.root}/y", b"1")
            assert "\n" not in str(caught.value)
            assert place.store.read(f"{place.root}/x") == b"1"
        finally:
            cluster.do("safemode off")
        assert [i.name for i in place.store.list(place.root)] == ["x"]

    def test_what_may_not_be_written_is_an_error(self, place: Put, monkeypatch: pytest.MonkeyPatch) -> None:
        place.store.write(f"{place.root}/x", b"1")
        monkeypatch.setenv("HADOOP_USER_NAME", "stranger")
        store, root = open_store(place.store.url(place.root))
        assert store.read(f"{root}/x") == b"1"
        with pytest.raises(StorageError, match="Permission denied: user=stranger, access=WRITE") as caught:
            store.create_exclusive(f"{root}/y", b"1")
        assert not caught.value.retryable

    @pytest.mark.parametrize(
        ("url", "said"),
        [
            ("hdfs://no-such-host.invalid:8020/wh", "there is no host 'no-such-host.invalid'"),
            ("hdfs://127.0.0.1:9/wh", "Connection refused"),
            ("hdfs://no-such-service/wh", "No NameNode hosts found"),
            ("hdfs:///wh", "cannot be opened"),
        ],
    )
    def test_a_wrong_address_is_an_error_at_once(self, url: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
        monkeypatch.delenv("HADOOP_HOME", raising=False)
        began = time.monotonic()
        store, root = open_store(url)
        with pytest.raises(StorageError, match=said) as caught:
            store.read(f"{root}/x")
        assert time.monotonic() - began < 60
        assert "\n" not in str(caught.value)


@pytest.fixture(scope="module")
def pair() -> Iterator[Hdfs]:
    with hdfs(name_nodes=2) as running:
        yield running


class TestHighAvailability:
    """A pair of name nodes, named by the service of the configuration files."""

    @pytest.fixture
    def configured(self, pair: Hdfs, tmp_path: Path) -> dict[str, str]:
        settings = {"dfs.nameservices": "pair", "dfs.ha.namenodes.pair": "a,b"}
        for name, node in zip("ab", pair.name_nodes, strict=True):
            settings[f"dfs.namenode.rpc-address.pair.{name}"] = node.rpc
        write_configuration(tmp_path / "hdfs-site.xml", settings)
        return {"hadoop-conf-dir": str(tmp_path)}

    def test_goes_on_with_the_other_name_node(self, pair: Hdfs, configured: dict[str, str]) -> None:
        store, root = open_store("hdfs://pair/wh", configured)
        store.create_exclusive(f"{root}/1", b"1")
        pair.do("standby 0")
        pair.do("activate 1")
        assert store.read(f"{root}/1") == b"1"
        store.create_exclusive(f"{root}/2", b"2")
        pair.do("standby 1")
        pair.do("activate 0")
        assert [i.name for i in store.list(root)] == ["1", "2"]

    def test_a_name_node_in_standby_is_an_error_soon(self, pair: Hdfs) -> None:
        began = time.monotonic()
        store, root = open_store(f"hdfs://{pair.name_nodes[1].rpc}/wh")
        with pytest.raises(StorageError, match="not supported in state standby") as caught:
            store.create_exclusive(f"{root}/3", b"3")
        assert time.monotonic() - began < 60
        assert "\n" not in str(caught.value)


@pytest.mark.slow
@pytest.mark.webhdfs
class TestWebHdfs(StoreContract):
    renames_directories = True
    racers = staticmethod(race_processes)

    @pytest.fixture
    def place(self, cluster: Hdfs, client: Any) -> Put:
        web = cluster.name_nodes[0].web
        store, root = open_store(f"webhdfs://{web}/wh-{uuid.uuid4().hex}/", {"fs.user": "root"})
        client.mkdirs(root, permission=0o777)
        return Put(store, root, client)
