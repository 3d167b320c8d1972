"""URLs and options of stores are resolved to a client, or refused."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socket import socket
from threading import Thread
from typing import Any

import fsspec
import pytest

from paimon_spark.errors import InvalidInputError, InvalidOptionError, StorageError
from paimon_spark.storage.fsspec_store import FsspecStore
from paimon_spark.storage.hdfs import HdfsStore
from paimon_spark.storage.local import LocalStore
from paimon_spark.storage.urls import RetryingStore, external_path, open_store


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("/wh/db.db/t", "/wh/db.db/t"),
        ("/wh/db.db/t/", "/wh/db.db/t"),
        ("/wh//db.db/../t", "/wh/t"),
        ("file:///wh/t", "/wh/t"),
        ("file:/wh/t/", "/wh/t"),
        ("wh/db.db/t", os.path.join(os.getcwd(), "wh/db.db/t")),
        ("/with space/ü%2F", "/with space/ü%2F"),
    ],
)
def test_local_paths_become_absolute(url: str, path: str) -> None:
    store, found = open_store(url)
    assert isinstance(store, LocalStore)
    assert found == path


def test_local_tables_do_not_wait_for_fsspec() -> None:
    code = (
        "import sys; from paimon_spark.storage.urls import open_store; open_store('/x');"
        "sys.exit('fsspec' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("scheme", ["s3", "s3a", "S3"])
def test_s3_paths_begin_with_the_bucket(scheme: str) -> None:
    store, path = open_store(f"{scheme}://bucket//a/b/")
    assert path == "bucket/a/b"
    assert isinstance(store, RetryingStore)
    assert store.url(path) == "s3://bucket/a/b"


def settings(options: dict[str, str]) -> dict[str, Any]:
    store, _ = open_store("s3://b/t", options)
    assert isinstance(store, RetryingStore)
    assert isinstance(store.inner, FsspecStore)
    found = dict(store.inner.storage_options)
    assert found.pop("use_listings_cache") is False, "a listing may not be stale"
    return found


PATIENCE = {"connect_timeout": 2, "retries": {"mode": "standard", "total_max_attempts": 3}}
"""An address where nothing answers is told within ten seconds."""


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"s3.acces-key": "k"}, r"unknown option 's3\.acces-key'; did you mean 's3\.access-key'"),
        ({"s3.access_key": "k"}, r"did you mean 's3\.access-key'"),
        ({"fs.s3a.secert.key": "k"}, r"did you mean 'fs\.s3a\.secret"),
        ({"s3.endpiont": "k"}, r"did you mean 's3\.endpoint'"),
        ({"s3.conditional-write": "false"}, r"did you mean 's3\.conditional-writes'"),
        ({"s3.path.style.access": "ture"}, r"option s3\.path\.style\.access = 'ture': expected true or false"),
        ({"s3.connection.ssl.enabled": "no"}, r"option s3\.connection\.ssl\.enabled = 'no': expected true or false"),
        ({"s3.conditional-writes": "flase"}, r"option s3\.conditional-writes = 'flase'.*did you mean 'false'"),
    ],
)
def test_misspelt_settings_of_s3_are_refused_by_name(options: dict[str, str], told: str) -> None:
    with pytest.raises(InvalidOptionError, match=told):
        open_store("s3://b/t", options)


@pytest.mark.parametrize(
    ("url", "options", "told"),
    [
        ("s3://b/t", {"fs.endpoint_ulr": "x"}, r"unknown option 'fs\.endpoint_ulr'; did you mean 'fs\.endpoint_url'"),
        ("gs://b/t", {"fs.projct": "x"}, r"unknown option 'fs\.projct'; did you mean 'fs\.project'"),
        ("abfs://b/t", {"fs.acount_name": "x"}, r"'fs\.acount_name'; did you mean 'fs\.account_name'"),
        ("s3://b/t", {"fs.endpoint_url": "h:1"}, r"option fs\.endpoint_url = 'h:1' lacks http:// or https://"),
        ("s3://b/t", {"s3.access-key": "k"}, r"option s3\.access-key is given without s3\.secret-key; give both"),
        ("s3://b/t", {"fs.s3a.secret.key": "k"}, r"option s3\.secret-key is given without s3\.access-key"),
        ("gs://b/t", {"fs.token": "/nowhere/key.json"}, r"there is no file /nowhere/key\.json, which option fs\.token"),
    ],
)
def test_options_of_other_clients_are_refused_by_name(url: str, options: dict[str, str], told: str) -> None:
    with pytest.raises(InvalidOptionError, match=told):
        open_store(url, options)


def test_arguments_of_every_file_system_are_no_misspelt_options() -> None:
    known = {"fs.skip_instance_cache": "true", "fs.listings_expiry_time": "1", "fs.max_concurrency": "2"}
    open_store("s3://b/t", known)
    open_store("gs://b/t", {"fs.token": "ya29.a/0"})  # no path


def test_an_argument_that_a_client_does_not_have_is_named() -> None:
    store, path = open_store("s3://b/t", {"fs.end_point": "http://h"})
    with pytest.raises(InvalidOptionError, match=r"^unknown option 'fs\.end_point'; did you mean 'fs\.endpoint_url'"):
        store.exists(path)


def test_a_server_that_does_not_know_https_is_told_at_once() -> None:
    with plain_http() as port:
        options = {"s3.endpoint": f"127.0.0.1:{port}", "s3.access-key": "k", "s3.secret-key": "s"}
        store, path = open_store("s3://b/t", options)
        assert isinstance(store, RetryingStore)
        waits: list[float] = []
        told = f"^the server at https://127.0.0.1:{port} does not answer to https://: begin .* http://127.0.0.1:{port}$"
        with pytest.raises(StorageError, match=told):
            replace(store, sleep=waits.append).read(f"{path}/MAIN-BRANCH")
    assert waits == []


@contextmanager
def plain_http() -> Iterator[int]:
    """A server that knows http:// alone, and refuses every request."""

    class Refusing(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None: ...

        def do_GET(self) -> None:
            self.send_error(403)

        def do_HEAD(self) -> None:
            self.do_GET()

    server = ThreadingHTTPServer(("127.0.0.1", 0), Refusing)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()


def test_a_refused_login_names_the_options_and_no_file_of_paimon() -> None:
    with plain_http() as port:
        endpoint = f"http://127.0.0.1:{port}"
        store, path = open_store("s3://b/t", {"s3.endpoint": endpoint, "s3.access-key": "k", "s3.secret-key": "s"})
        with pytest.raises(StorageError, match=f"^{endpoint} refuses access to s3://b/t ") as refused:
            store.read(f"{path}/MAIN-BRANCH")
    assert "correct s3.access-key and s3.secret-key" in str(refused.value)
    assert "MAIN-BRANCH" not in str(refused.value)


def test_a_client_without_keys_is_told_which_options_give_them(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with plain_http() as port:
        store, path = open_store("s3://b/t", {"s3.endpoint": f"http://127.0.0.1:{port}"})
        with pytest.raises(
            StorageError, match=r"^no login is given for s3://b; give s3\.access-key and s3\.secret-key"
        ):
            store.read(path)


def test_tuning_of_hadoop_is_left_out() -> None:
    tuning = ("connection.maximum", "endpoint.fips", "session.token.duration", "assumed.role.arn", "readahead.range")
    assert settings({f"fs.s3a.{name}": "1" for name in tuning}) == {"config_kwargs": PATIENCE}


def test_an_endpoint_where_nothing_listens_is_told_at_once() -> None:
    with socket() as taken:
        taken.bind(("127.0.0.1", 0))
        endpoint = f"http://127.0.0.1:{taken.getsockname()[1]}"  # bound, and nothing listens
        store, path = open_store("s3://b/t", {"s3.endpoint": endpoint, "s3.access-key": "k", "s3.secret-key": "s"})
        assert isinstance(store, RetryingStore)
        waits: list[float] = []
        with pytest.raises(StorageError, match=f"^nothing answers at {endpoint}: correct the endpoint"):
            replace(store, sleep=waits.append).list(path)
    assert waits == []


def test_paimon_and_hadoop_settings_of_s3_mean_the_same() -> None:
    paimon = {
        "s3.endpoint": "minio:9000", "s3.access-key": "k", "s3.secret-key": "s", "s3.region": "r",
        "s3.path.style.access": "true", "s3.connection.ssl.enabled": "false",
    }  # fmt: skip
    hadoop = {
        "fs.s3a.endpoint": "minio:9000", "fs.s3a.access.key": "k", "fs.s3a.secret.key": "s",
        "fs.s3a.endpoint.region": "r", "fs.s3a.path.style.access": "true",
        "fs.s3a.connection.ssl.enabled": "false", "fs.s3a.threads.max": "7",
    }  # fmt: skip
    expected = {
        "key": "k",
        "secret": "s",
        "endpoint_url": "http://minio:9000",
        "client_kwargs": {"region_name": "r"},
        "config_kwargs": {**PATIENCE, "s3": {"addressing_style": "path"}},
    }
    assert settings(paimon) == expected
    assert settings(hadoop) == expected


def test_fs_options_go_to_fsspec_unchanged() -> None:
    assert settings(
        {
            "fs.key": "12345", "fs.secret": "s", "fs.anon": "False", "fs.endpoint_url": "https://h",
            "fs.client_kwargs.verify": "false", "fs.config_kwargs": '{"max_pool_connections": 3}',
            "fs.default_block_size": "1024", "s3.region": "r", "bucket": "4",
        }
    ) == {
        "key": "12345", "secret": "s", "anon": False, "endpoint_url": "https://h",
        "client_kwargs": {"verify": False, "region_name": "r"}, "default_block_size": 1024,
        "config_kwargs": {**PATIENCE, "max_pool_connections": 3},
    }  # fmt: skip


@pytest.mark.parametrize("url", ["", "  "])
def test_an_empty_location_is_refused(url: str) -> None:
    with pytest.raises(InvalidInputError, match="empty"):
        open_store(url)


def test_options_that_cannot_be_read_are_named() -> None:
    with pytest.raises(InvalidInputError, match=r"fs\.config_kwargs"):
        open_store("s3://b/t", {"fs.config_kwargs": "{oops"})
    with pytest.raises(InvalidInputError, match="client_kwargs"):
        open_store("s3://b/t", {"fs.client_kwargs": "x", "fs.client_kwargs.y": "z"})


def test_an_unknown_scheme_is_refused_by_name() -> None:
    with pytest.raises(StorageError, match=r"zzz://.*s3"):
        open_store("zzz://a/b")


@pytest.mark.parametrize(
    ("scheme", "advice"), [("gs", r"paimon-spark\[gcs\]"), ("abfss", r"paimon-spark\[azure\]"), ("sftp", "install")]
)
def test_a_missing_package_names_the_extra(scheme: str, advice: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(protocol: str) -> None:
        raise ImportError(f"please install the package of {protocol}")

    monkeypatch.setattr(fsspec, "get_filesystem_class", missing)
    with pytest.raises(StorageError, match=advice):
        open_store(f"{scheme}://a/b")


def test_webhdfs_keeps_its_server() -> None:
    store, path = open_store("webhdfs://user@nn:9871/wh/db.db/t/")
    assert path == "/wh/db.db/t"
    assert isinstance(store, RetryingStore)
    assert isinstance(store.inner, FsspecStore)
    assert store.inner.storage_options == {"host": "nn", "port": 9871, "user": "user"}
    assert store.url(path) == "webhdfs://user@nn:9871/wh/db.db/t"
    assert open_store("webhdfs://nn/wh")[0].inner.storage_options == {"host": "nn", "port": 9870}  # type: ignore[attr-defined]


def test_hdfs_keeps_its_server_and_the_settings_of_hadoop() -> None:
    settings = {"hadoop.dfs.replication": "2", "hadoop-conf-dir": "/etc/hadoop", "security.kerberos.login.keytab": "k"}
    store, path = open_store("hdfs://nn:8020/wh//db.db/t/", {**settings, "bucket": "4"})
    assert path == "/wh/db.db/t"
    assert isinstance(store, HdfsStore)
    assert (store.authority, store.options) == ("nn:8020", settings)
    assert store.url(path) == "hdfs://nn:8020/wh/db.db/t"
    assert store.identity != open_store("hdfs://nn:8020/wh")[0].identity
    assert open_store("hdfs:///wh")[0].url("/wh/x") == "hdfs:///wh/x"
    assert open_store("hdfs://nn:8020")[1] == "/"


def test_hdfs_needs_its_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hdfs_native", None)
    store, path = open_store("hdfs://127.0.0.1:8020/wh")
    with pytest.raises(StorageError, match=r"install paimon-spark\[hdfs\]"):
        store.read(path)


def test_identity_tells_stores_apart_and_keeps_secrets() -> None:
    one, _ = open_store("s3://b/t", {"fs.key": "k", "fs.secret": "hush"})
    same, _ = open_store("s3://other/u", {"fs.secret": "hush", "fs.key": "k"})
    other, _ = open_store("s3://b/t", {"fs.key": "k", "fs.secret": "hush", "s3.endpoint": "http://h"})
    assert one.identity == same.identity
    assert one.identity != other.identity
    assert "hush" not in one.identity + repr(one)
    assert open_store("/a")[0].identity != open_store("memory://a")[0].identity


def test_external_files_of_the_same_store_stay_in_it(tmp_path: Path) -> None:
    store, _ = open_store(str(tmp_path), {"fs.key": "k", "fs.secret": "s"})
    assert external_path(store, f"file:{tmp_path}/x") == (store, f"{tmp_path}/x")
    elsewhere, path = external_path(store, "s3://bucket/x")
    assert path == "bucket/x"
    assert isinstance(elsewhere, RetryingStore)
    assert isinstance(elsewhere.inner, FsspecStore)
    assert elsewhere.inner.storage_options["key"] == "k"


def test_urls_of_azure_name_the_container_once() -> None:
    url = "abfs://container@account.dfs.core.windows.net/wh/db.db/t"
    store, path = open_store(url)
    assert path == "container/wh/db.db/t"
    assert store.url(path) == url
    assert store.url("container") == "abfs://container@account.dfs.core.windows.net/"
