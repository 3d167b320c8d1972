"""URLs and options of stores are resolved to a client, or refused."""

from __future__ import annotations

import importlib
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socket import socket
from threading import Thread
from typing import Any

import fsspec
import pytest

from paimon_spark.errors import InvalidInputError, InvalidOptionError, StorageError
from paimon_spark.storage.fsspec_store import FsspecStore, fsspec_store
from paimon_spark.storage.hdfs import HdfsStore
from paimon_spark.storage.local import LocalStore
from paimon_spark.storage.object_store import ObjectStore
from paimon_spark.storage.obstore_client import CLIENT
from paimon_spark.storage.s3 import S3Store
from paimon_spark.storage.store import AtomicCreate
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


def settings(options: dict[str, str], url: str = "s3://b/t") -> dict[str, Any]:
    """What obstore is given, by its own names, but for how long it waits."""
    store, _ = open_store(url, options)
    assert isinstance(store, RetryingStore)
    assert isinstance(store.inner, ObjectStore)
    found = store.inner.settings
    client = {k: v for k, v in found.client.items() if k not in CLIENT}
    return {**found.config, **client, **({"login": dict(found.login)} if found.login else {})}


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
        (
            "s3://b/t",
            {"fs.default_block_size": "9"},
            r"'fs\.default_block_size' tunes a client of fsspec.*leave it out",
        ),
        ("s3://b/t", {"fs.config_kwargs": '{"read_timeout": 3}'}, r"'fs\.config_kwargs\.read_timeout' tunes a client"),
        ("s3://b/t", {"fs.nonsense": "9"}, r"unknown option 'fs\.nonsense'"),
        ("s3://b/t", {"s3.nonsense": "9"}, r"unknown option 's3\.nonsense'"),
        ("s3://b/t", {"fs.s3a.bucket.b.endpoint": "h"}, r"is of one bucket.* give fs\.s3a\.endpoint"),
        ("s3://b/t", {"fs.s3a.aws.credentials.provider": "com.acme.Vault"}, r"names Vault, which runs in Java alone"),
        ("s3://b/t", {"fs.s3a.encryption.algorithm": "rot13"}, r"= 'rot13': expected one of SSE-S3"),
        ("s3://b/t", {"fs.client_kwargs.verify": "/no/ca.pem"}, r"fs\.client_kwargs\.verify names /no/ca\.pem, which"),
        ("gs://b/t", {"gs.auth.typ": "x"}, r"unknown option 'gs\.auth\.typ'; did you mean 'gs\.auth\.type'"),
        ("gs://b/t", {"fs.gs.auth.type": "PASSWORD"}, r"= 'PASSWORD': expected one of SERVICE_ACCOUNT_JSON_KEYFILE"),
        ("gs://b/t", {"fs.token": "browser"}, r"option fs\.token = 'browser' is not supported"),
        (
            "gs://b/t",
            {"gs.auth.service.account.json.keyfile": "/no"},
            r"there is no file /no, which option fs\.gs\.auth",
        ),
        ("gs://b/t", {"fs.consistency": "md5"}, r"'fs\.consistency' tunes a client of fsspec"),
        ("abfs://b/t", {"fs.max_concurrency": "2"}, r"'fs\.max_concurrency' tunes a client of fsspec"),
        ("abfs://b/t", {"azure.acount.key": "x"}, r"unknown option 'azure\.acount\.key'"),
        ("abfs://b/t", {"fs.azure.account.auth.type": "Magic"}, r"= 'Magic': expected one of SharedKey"),
        ("abfs://b/t", {"fs.account_key": "?"}, r"option fs\.account_key is no key of Azure"),
        ("abfs://b/t", {"fs.connection_string": "x;y"}, r"fs\.connection_string has a part without ="),
        ("s3://b/t", {"fs.endpoint_url": "h:1"}, r"option fs\.endpoint_url = 'h:1' lacks http:// or https://"),
        ("s3://b/t", {"s3.access-key": "k"}, r"option s3\.access-key is given without s3\.secret-key; give both"),
        ("s3://b/t", {"fs.s3a.secret.key": "k"}, r"option s3\.secret-key is given without s3\.access-key"),
        ("gs://b/t", {"fs.token": "/nowhere/key.json"}, r"there is no file /nowhere/key\.json, which option fs\.token"),
    ],
)
def test_options_of_other_clients_are_refused_by_name(url: str, options: dict[str, str], told: str) -> None:
    with pytest.raises(InvalidOptionError, match=told):
        open_store(url, options)


def test_a_token_of_google_is_no_path() -> None:
    assert settings({"fs.token": "ya29.a/0"}, "gs://b/t") == {"bearer_token": "ya29.a/0"}


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
    tuning = ("connection.maximum", "endpoint.fips", "session.token.duration", "fast.upload.buffer", "readahead.range")
    assert settings({f"fs.s3a.{name}": "1" for name in tuning}) == {}


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
        "endpoint": "http://minio:9000", "region": "r", "virtual_hosted_style_request": False,
        "login": {"key": "k", "secret": "s"},
    }  # fmt: skip
    assert settings(paimon) == expected
    assert settings(hadoop) == expected


def test_names_of_s3fs_mean_what_they_meant() -> None:
    assert settings(
        {
            "fs.key": "12345", "fs.secret": "s", "fs.endpoint_url": "https://h", "fs.client_kwargs.verify": "false",
            "fs.config_kwargs": '{"s3": {"addressing_style": "virtual"}}', "fs.client_kwargs.region_name": "r",
            "fs.requester_pays": "True", "bucket": "4", "fs.s3_additional_kwargs.ServerSideEncryption": "aws:kms",
            "fs.s3_additional_kwargs.SSEKMSKeyId": "id", "fs.config_kwargs.proxies.https": "http://proxy:3128",
        }
    ) == {
        "login": {"key": "12345", "secret": "s"}, "endpoint": "https://h", "allow_invalid_certificates": True,
        "virtual_hosted_style_request": True, "region": "r", "request_payer": True,
        "server_side_encryption": "aws:kms", "sse_kms_key_id": "id", "proxy_url": "http://proxy:3128",
    }  # fmt: skip
    assert settings({"fs.anon": "true", "fs.key": "k"}) == {"skip_signature": True, "login": {"key": "k"}}


def test_names_of_hadoop_reach_google_and_azure(tmp_path: Path) -> None:
    key = tmp_path / "key.json"
    key.write_text("{}")
    expected = {"service_account": str(key)}
    assert settings({"fs.token": str(key)}, "gs://b/t") == expected
    assert (
        settings({"gs.auth.service.account.json.keyfile": str(key), "gs.http.max.retry": "1"}, "gs://b/t") == expected
    )
    assert settings({"fs.requester_pays": "me", "fs.token": "google_default"}, "gs://b/t") == {
        "default_headers": {"x-goog-user-project": "me"}
    }
    assert settings(
        {"fs.azure.account.key.shop.dfs.core.windows.net": "a2V5"}, "abfs://b@shop.dfs.core.windows.net/t"
    ) == {
        "account_name": "shop",
        "account_key": "a2V5",
    }
    other = {"fs.azure.account.key.other.dfs.core.windows.net": "a2V5"}
    assert settings(other, "abfs://b@shop.dfs.core.windows.net/t") == {"account_name": "shop"}
    oauth = {
        "azure.account.auth.type": "OAuth",
        "azure.account.oauth2.client.id": "i",
        "azure.account.oauth2.client.secret": "s",
        "azure.account.oauth2.client.endpoint": "https://login.microsoftonline.com/tenant/oauth2/token",
    }
    assert settings(oauth, "abfs://b@shop.dfs.core.chinacloudapi.cn/t") == {
        "account_name": "shop", "client_id": "i", "client_secret": "s", "tenant_id": "tenant",
        "endpoint": "https://shop.blob.core.chinacloudapi.cn", "allow_http": False,
    }  # fmt: skip
    text = "DefaultEndpointsProtocol=http;AccountName=a;AccountKey=a2V5;BlobEndpoint=http://h:1/a;"
    assert settings({"fs.connection_string": text}, "abfs://b/t") == {
        "account_name": "a", "account_key": "a2V5", "endpoint": "http://h:1/a", "allow_http": True,
    }  # fmt: skip


@pytest.fixture
def aws_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the files that Amazon's tools share, empty; nothing in the environment names keys."""
    for name in [n for n in os.environ if n.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    return tmp_path


def s3_store(options: dict[str, str]) -> S3Store:
    store, _ = open_store("s3://b/t", options)
    assert isinstance(store, RetryingStore) and isinstance(store.inner, S3Store)
    return store.inner


def test_keys_of_a_profile_are_read_again_when_they_run_out(aws_files: Path) -> None:
    store = s3_store({"fs.profile": "team", "s3.endpoint": "http://h"})
    with pytest.raises(StorageError, match=r"no profile 'team' among the settings of AWS"):
        store._credentials()
    (aws_files / "config").write_text("[profile team]\nregion = eu-west-3\n")
    (aws_files / "credentials").write_text("[team]\naws_access_key_id = a\naws_secret_access_key = b\n")
    provider = store._credentials()
    assert provider is not None
    found = provider()
    assert (found["access_key_id"], found["secret_access_key"], found["token"]) == ("a", "b", None)
    assert found["expires_at"] > datetime.now(UTC)
    assert store._region("b") == "eu-west-3"
    (aws_files / "credentials").write_text(
        "[team]\naws_access_key_id = c\naws_secret_access_key = d\naws_session_token = t\n"
    )
    assert (provider()["access_key_id"], provider()["token"]) == ("c", "t")


def test_a_profile_of_single_sign_on_and_a_role_need_boto3(aws_files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (aws_files / "config").write_text("[profile sso]\nsso_start_url = https://x\n")
    monkeypatch.setitem(sys.modules, "boto3", None)
    with pytest.raises(StorageError, match=r"the profile 'sso' of AWS needs the package boto3.*pip install boto3"):
        s3_store({"fs.profile": "sso"})._credentials()
    with pytest.raises(StorageError, match=r"a role that is assumed .* needs the package boto3"):
        s3_store({"fs.s3a.assumed.role.arn": "arn:aws:iam::1:role/x"})._credentials()


def test_keys_that_are_given_win_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "other")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "of-another-login")
    provider = s3_store({"s3.access-key": "k", "s3.secret-key": "s"})._credentials()
    assert provider is not None
    assert provider() == {"access_key_id": "k", "secret_access_key": "s", "token": None, "expires_at": None}
    assert s3_store({})._credentials() is None, "obstore reads the environment"


def test_settings_of_the_environment_are_those_of_the_moment(aws_files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = s3_store({"s3.access-key": "k", "s3.secret-key": "s", "s3.region": "r"})
    first = store.client("b")
    assert store.client("b") is first
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    assert store.address() == "http://127.0.0.1:9"
    second = store.client("b")
    assert second is not first and second.config["endpoint"] == "http://127.0.0.1:9"
    monkeypatch.setenv("AWS_CA_BUNDLE", str(aws_files / "none.pem"))
    with pytest.raises(
        InvalidOptionError, match=r"AWS_CA_BUNDLE names .*none\.pem, which cannot be read: No such file"
    ):
        store.client("b")
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    monkeypatch.delenv("AWS_CA_BUNDLE")
    assert store.client("b") is first


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, True),
        ({"s3.path.style.access": "true"}, False),
        ({"s3.endpoint": "http://minio:9000"}, False),
        ({"s3.endpoint": "https://oss.example.com", "s3.path.style.access": "false"}, True),
    ],
)
def test_the_bucket_is_part_of_the_host_as_botocore_has_it(options: dict[str, str], expected: bool) -> None:
    assert s3_store(options)._is_virtual("b") is expected
    assert not s3_store({})._is_virtual("b.with.dots")


@pytest.mark.parametrize("scheme", ["sftp", "ftp", "smb", "local", "unheard-of"])
def test_other_file_systems_promise_no_exclusive_creation(scheme: str) -> None:
    assert fsspec_store(scheme).atomic_create is AtomicCreate.NONE
    assert fsspec_store("webhdfs").atomic_create is fsspec_store("memory").atomic_create is AtomicCreate.NATIVE


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
    ("scheme", "advice"),
    [
        ("s3", r"paimon-spark\[s3\]"), ("gs", r"paimon-spark\[gcs\]"), ("abfss", r"paimon-spark\[azure\]"),
        ("sftp", "install"),
    ],
)  # fmt: skip
def test_a_missing_package_names_the_extra(scheme: str, advice: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(protocol: str) -> None:
        raise ImportError(f"please install the package of {protocol}")

    monkeypatch.setattr(fsspec, "get_filesystem_class", missing)
    monkeypatch.setattr(importlib, "import_module", missing)

    def read() -> bytes:
        store, path = open_store(f"{scheme}://a/b")
        return store.read(path)

    with pytest.raises(StorageError, match=advice):
        read()


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
    assert one == pickle.loads(pickle.dumps(one))
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
    assert isinstance(elsewhere.inner, S3Store)
    assert elsewhere.inner.settings.login["key"] == "k"


def test_urls_of_azure_name_the_container_once() -> None:
    url = "abfs://container@account.dfs.core.windows.net/wh/db.db/t"
    store, path = open_store(url)
    assert path == "container/wh/db.db/t"
    assert store.url(path) == url
    assert store.url("container") == "abfs://container@account.dfs.core.windows.net/"
