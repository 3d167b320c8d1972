"""The store of S3 and of servers with its interface.

Options `s3.`, `s3a.` and `fs.s3a.` mean the same; `fs.` are the names that s3fs gives to its arguments.

Sources: Java `S3FileIO`; Hadoop's S3A settings; s3fs and botocore for the names of `fs.` and for where credentials are
looked for; object_store `aws/builder.rs`.
"""

from __future__ import annotations

import configparser
import os
import re
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlsplit
from uuid import uuid4

from paimon_spark.errors import InvalidOptionError, StorageError
from paimon_spark.options.descriptor import Option, boolean, did_you_mean, is_one_edit_away
from paimon_spark.storage import obstore_client
from paimon_spark.storage.object_store import ObjectStore, Settings
from paimon_spark.storage.obstore_client import CLIENT, RETRIES, fault_of
from paimon_spark.storage.remote_options import check_address, flat_arguments, refuse_unknown, true_or_false
from paimon_spark.storage.store import AtomicCreate, already_there

CONDITIONS: Final = "s3.conditional-writes"
_PREFIXES: Final = ("fs.s3a.", "s3a.", "s3.")
_NAMES: Final = {
    "access-key": "key", "access.key": "key",
    "secret-key": "secret", "secret.key": "secret",
    "session-token": "token", "session.token": "token", "security-token": "token",
    "endpoint": "endpoint_url",
    "region": "region", "endpoint.region": "region",
    "path.style.access": "path_style", "path-style-access": "path_style",
    "connection.ssl.enabled": "use_ssl",
    "requester.pays.enabled": "requester_pays",
    "encryption.algorithm": "encryption", "server-side-encryption-algorithm": "encryption",
    "encryption.key": "encryption_key", "server-side-encryption.key": "encryption_key",
    "aws.credentials.provider": "provider",
    "assumed.role.arn": "role", "assumed.role.session.name": "role_session", "assumed.role.sts.endpoint": "sts",
    "proxy.host": "proxy_host", "proxy.port": "proxy_port", "proxy.username": "proxy_user",
    "proxy.password": "proxy_password",
}  # fmt: skip
"""Names of Paimon and Hadoop, and the setting that each gives."""
_ARGUMENTS: Final = {
    "key": "key", "username": "key",
    "secret": "secret", "password": "secret",
    "token": "token",
    "endpoint_url": "endpoint_url", "client_kwargs.endpoint_url": "endpoint_url",
    "client_kwargs.region_name": "region",
    "client_kwargs.verify": "verify",
    "client_kwargs.aws_access_key_id": "key", "client_kwargs.aws_secret_access_key": "secret",
    "client_kwargs.aws_session_token": "token",
    "config_kwargs.s3.addressing_style": "addressing_style",
    "config_kwargs.proxies.https": "proxy", "config_kwargs.proxies.http": "proxy",
    "use_ssl": "use_ssl",
    "anon": "anonymous",
    "profile": "profile",
    "requester_pays": "requester_pays",
    "s3_additional_kwargs.ServerSideEncryption": "encryption",
    "s3_additional_kwargs.SSEKMSKeyId": "encryption_key",
}  # fmt: skip
"""Names of s3fs, and the setting that each gives."""
_BOOLEANS: Final = ("path_style", "use_ssl", "requester_pays", "anonymous")
_TUNING: Final = (
    "analytics.", "attempts.maximum", "audit.", "block.size", "bucket.probe", "buffer.dir", "bulk.delete.page.size",
    "change.detection.", "checksum.", "classloader.", "committer.", "connection.", "create.", "cross.region.", "crt.",
    "directory.marker.", "downgrade.", "endpoint.fips", "etag.", "executor.", "experimental.", "fast.upload", "impl",
    "input.", "list.version", "max.total.tasks", "metadatastore.", "multiobjectdelete.", "multipart.", "optimized.",
    "paging.maximum", "performance.", "prefetch.", "readahead.", "retry.", "s3guard.", "session.token.duration",
    "socket.", "ssl.channel.mode", "threads.", "user.agent.prefix", "vectored.",
)  # fmt: skip
"""Beginnings of settings of Hadoop's client, by which Spark's own reader reads files; they have no effect here."""
_PROVIDERS: Final = {
    "AnonymousAWSCredentialsProvider": "anonymous", "SimpleAWSCredentialsProvider": "",
    "TemporaryAWSCredentialsProvider": "", "EnvironmentVariableCredentialsProvider": "",
    "ProfileCredentialsProvider": "", "DefaultCredentialsProvider": "", "DefaultAWSCredentialsProviderChain": "",
    "InstanceProfileCredentialsProvider": "", "IAMInstanceCredentialsProvider": "",
    "ContainerCredentialsProvider": "", "EC2ContainerCredentialsProviderWrapper": "",
    "WebIdentityTokenFileCredentialsProvider": "", "WebIdentityTokenCredentialsProvider": "",
    "AssumedRoleCredentialProvider": "",
}  # fmt: skip
"""Classes that Hadoop can be told to get credentials from: all but the first are looked for in any case."""
_ENCRYPTIONS: Final = {"SSE-S3": "AES256", "AES256": "AES256", "SSE-KMS": "aws:kms", "aws:kms": "aws:kms"}
_REFRESH: Final = timedelta(minutes=10)
_DIGEST: Final = re.compile("[0-9a-f]{32}")
_checked: set[tuple[int, str]] = set()


def s3_settings(options: Mapping[str, str]) -> Settings:
    """The settings that options give.

    Raises:
        InvalidOptionError: a name is unknown or misspelt, a value cannot be read, or a key lacks its secret.
    """
    given = _given(options)
    _check_key_pair(given)
    if CONDITIONS in options:
        Option(CONDITIONS, boolean, None, "").get(options)
    config: dict[str, Any] = {}
    client: dict[str, Any] = dict(CLIENT)
    login: dict[str, Any] = {
        k: given[k] for k in ("key", "secret", "token", "profile", "role", "role_session", "sts") if k in given
    }
    if given.get("anonymous"):
        config["skip_signature"] = True
    if given.get("requester_pays"):
        config["request_payer"] = True
    if "region" in given:
        config["region"] = given["region"]
    if endpoint := given.get("endpoint_url"):
        secure = given.get("use_ssl", True)
        config["endpoint"] = (endpoint if "://" in endpoint else f"http{'s' if secure else ''}://{endpoint}").rstrip(
            "/"
        )
    style = given.get("addressing_style")
    if style == "virtual" or given.get("path_style") is False:
        config["virtual_hosted_style_request"] = True
    elif style == "path" or given.get("path_style"):
        config["virtual_hosted_style_request"] = False
    if encryption := given.get("encryption"):
        config["server_side_encryption"] = _ENCRYPTIONS[encryption]
    if "encryption_key" in given:
        config["sse_kms_key_id"] = given["encryption_key"]
    client |= _connection(given)
    return Settings(config, client, login)


def _given(options: Mapping[str, str]) -> dict[str, Any]:
    """The settings by one name each; those of s3fs win over Paimon's and Hadoop's."""
    given: dict[str, Any] = {}
    for key, value in options.items():
        prefix = next((p for p in _PREFIXES if key.lower().startswith(p)), None)
        if prefix is None or key == CONDITIONS:
            continue
        name = key.lower()[len(prefix) :]
        setting = _NAMES.get(name)
        if setting is not None:
            given[setting] = true_or_false(key, value) if setting in _BOOLEANS else value
            _check_value(key, setting, value, given)
        else:
            _check_unknown(key, prefix, name)
    for name, value in flat_arguments(options).items():
        key = f"fs.{name}"
        setting = _ARGUMENTS.get(name)
        if setting is None:
            refuse_unknown(key, [f"fs.{n}" for n in _ARGUMENTS])
            continue
        given[setting] = true_or_false(key, value) if setting in _BOOLEANS else value
        if setting == "endpoint_url":
            check_address(key, value)
        _check_value(key, setting, value, given)
    return given


def _check_unknown(key: str, prefix: str, name: str) -> None:
    """Refuse a name that is neither understood nor tunes Hadoop's client. Raises InvalidOptionError."""
    known = [*_NAMES, CONDITIONS.removeprefix("s3.")]
    near = [k for k in known if is_one_edit_away(name.replace(".", "-"), k.replace(".", "-"))]
    if near:
        raise InvalidOptionError(f"unknown option {key!r}; did you mean {prefix + near[0]!r}?", option=key)
    if name.startswith(_TUNING):
        return
    if name.startswith("bucket."):
        raise InvalidOptionError(
            f"option {key!r} is of one bucket, which is not supported; give {prefix}{name.split('.', 2)[-1]} to the "
            "catalog of that bucket",
            option=key,
        )
    raise InvalidOptionError(f"unknown option {key!r}{did_you_mean(key, [prefix + k for k in known])}", option=key)


def _check_value(key: str, setting: str, value: Any, given: dict[str, Any]) -> None:
    """Check words among the settings. Raises InvalidOptionError."""
    if setting == "encryption" and value not in _ENCRYPTIONS:
        raise InvalidOptionError(f"option {key} = {value!r}: expected one of {', '.join(_ENCRYPTIONS)}", option=key)
    if setting == "addressing_style" and value not in ("path", "virtual", "auto"):
        raise InvalidOptionError(f"option {key} = {value!r}: expected path, virtual or auto", option=key)
    if setting == "provider":
        for name in (part.strip().rpartition(".")[2] for part in value.split(",")):
            known = _PROVIDERS.get(name)
            if known is None:
                raise InvalidOptionError(
                    f"option {key} names {name}, which runs in Java alone; give s3.access-key and s3.secret-key, or a "
                    "profile by fs.profile",
                    option=key,
                )
            if known:
                given[known] = True


def _check_key_pair(given: Mapping[str, Any]) -> None:
    pair = {"s3.access-key": given.get("key"), "s3.secret-key": given.get("secret")}
    missing = [name for name, value in pair.items() if not value]
    if len(missing) == 1 and not given.get("anonymous"):
        named = next(name for name in pair if name not in missing)
        raise InvalidOptionError(f"option {named} is given without {missing[0]}; give both", option=missing[0])


def _connection(given: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of the HTTP client: certificates and a proxy."""
    out: dict[str, Any] = {}
    verify = given.get("verify")
    if isinstance(verify, str) and verify.strip().lower() not in ("true", "false"):
        out["root_certificate"] = _certificates("option fs.client_kwargs.verify", verify)
    elif verify is not None and not true_or_false("fs.client_kwargs.verify", verify):
        out["allow_invalid_certificates"] = True
    if "proxy" in given:
        out["proxy_url"] = given["proxy"]
    elif host := given.get("proxy_host"):
        user = given.get("proxy_user")
        login = f"{quote(user, safe='')}:{quote(given.get('proxy_password', ''), safe='')}@" if user else ""
        out["proxy_url"] = f"http://{login}{host}:{given.get('proxy_port', '80')}"
    return out


def _certificates(named_by: str, path: str) -> bytes:
    """The certificates in a file of PEM. Raises InvalidOptionError: it cannot be read."""
    try:
        return Path(path).expanduser().read_bytes()
    except OSError as e:
        raise InvalidOptionError(f"{named_by} names {path}, which cannot be read: {e.strerror}", path=path) from e


class S3Store(ObjectStore):
    """Store over buckets of S3."""

    extra = "s3"
    login_options = "s3.access-key and s3.secret-key"
    environment = "AWS_"

    def connect(self, store_module: Any, bucket: str) -> Any:
        config = dict(self.settings.config)
        endpoint = self.address()
        if endpoint:
            config["endpoint"] = endpoint
        if "region" not in config:
            config["region"] = self._region(bucket)
        config["virtual_hosted_style_request"] = virtual = self._is_virtual(bucket)
        if virtual:
            config["endpoint"] = _virtual_endpoint(endpoint or _amazon(config["region"]), bucket)
        return store_module.S3Store(
            bucket,
            config=config,
            client_options=self._client_options(),
            retry_config=RETRIES,
            credential_provider=self._credentials(),
        )

    def address(self) -> str | None:
        found = self.settings.config.get("endpoint") or next(filter(None, map(os.environ.get, _ENDPOINTS)), None)
        return str(found).rstrip("/") if found else None

    def _client_options(self) -> dict[str, Any]:
        found = {**self.settings.client, "allow_http": (self.address() or "").startswith("http://")}
        bundle = os.environ.get(_CERTIFICATES)
        if bundle and not found.keys() & {"root_certificate", "allow_invalid_certificates"}:
            found["root_certificate"] = _certificates(_CERTIFICATES, bundle)
        return found

    def digest_of(self, listed: Mapping[str, Any]) -> str | None:
        # An object that was uploaded in parts, or is encrypted with a key of its own, has a tag that is no digest;
        # the former is told by its form, the latter by comparing the digest before it is trusted.
        tag = str(listed["e_tag"] or "").strip('"').lower()
        return tag if _DIGEST.fullmatch(tag) else None

    @property
    def atomic_create(self) -> AtomicCreate:
        return AtomicCreate.NATIVE if conditional_writes(self.options) else AtomicCreate.NONE

    def create_exclusive(self, path: str, data: bytes) -> None:
        if self.atomic_create is AtomicCreate.NONE:
            self._create_unsafely(path, data)
            return
        self._check_conditional_writes(path)
        super().create_exclusive(path, data)

    def remove(self, bucket: str, keys: Sequence[str]) -> None:
        if keys:
            self.client(bucket).delete(list(keys))  # a thousand per request; those that are not there are no error

    def remove_directories(self, bucket: str, keys: Sequence[str]) -> None:
        # An object's name that ends with a slash cannot be given to obstore, but an address can.
        module = obstore_client.package(self.extra).store
        config = {k: v for k, v in self.settings.config.items() if k != "virtual_hosted_style_request"}
        region = config.setdefault("region", self._region(bucket))
        server = self.address() or _amazon(region)
        base = _virtual_endpoint(server, bucket) if self._is_virtual(bucket) else f"{server}/{bucket}"
        for key in keys:
            config |= {"endpoint": f"{base}/{quote(key)}", "virtual_hosted_style_request": True}
            module.S3Store(
                bucket,
                config={**config, "disable_bulk_delete": True},
                client_options=self._client_options(),
                retry_config=RETRIES,
                credential_provider=self._credentials(),
            ).delete("")

    def _is_virtual(self, bucket: str) -> bool:
        """Whether the bucket is part of the host's name; as botocore, by default only at Amazon."""
        asked = self.settings.config.get("virtual_hosted_style_request")
        return asked if asked is not None else not self.address() and "." not in bucket

    def _region(self, bucket: str) -> str:
        """The region of a bucket, where no option says it."""
        of_environment = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
        named = of_environment or _profile(self._profile).get("region")
        if named:
            return named
        return "us-east-1" if self.address() else _region_of(bucket)

    @property
    def _profile(self) -> str:
        return str(self.settings.login.get("profile") or os.environ.get("AWS_PROFILE") or "default")

    def _credentials(self) -> Callable[[], Any] | None:
        """A function that gives credentials; None for those of the environment, web identity, container or host.

        Raises StorageError: there are none, or they need boto3, which is not installed.
        """
        login = self.settings.login
        if self.settings.config.get("skip_signature"):
            return None
        if login.get("role"):
            return self._assumed_role()
        if login.get("key"):
            return lambda: _keys(login["key"], login["secret"], login.get("token"), None)
        if "profile" not in login and os.environ.get("AWS_ACCESS_KEY_ID"):
            return None
        found = _profile(self._profile)
        if found.get("aws_access_key_id"):
            return lambda: _profile_keys(self._profile)
        if found.keys() & {"sso_session", "sso_start_url", "role_arn", "credential_process", "web_identity_token_file"}:
            return self._by_boto(f"the profile {self._profile!r} of AWS")
        if "profile" in login:
            raise StorageError(f"no login is given: there is no profile {login['profile']!r} among the settings of AWS")
        if os.environ.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true" and not any(
            os.environ.get(name) for name in _ELSEWHERE
        ):
            raise RuntimeError("no login is configured")
        return None

    def _by_boto(self, what: str) -> Callable[[], Any]:
        boto3 = _boto3(what)
        provider: Callable[[], Any] = _obstore_auth().Boto3CredentialProvider(boto3.Session(profile_name=self._profile))
        return provider

    def _assumed_role(self) -> Callable[[], Any]:
        login = self.settings.login
        boto3 = _boto3("a role that is assumed (s3.assumed.role.arn)")
        named = {"profile_name": self._profile} if "profile" in login else {}
        session = boto3.Session(
            aws_access_key_id=login.get("key"), aws_secret_access_key=login.get("secret"),
            aws_session_token=login.get("token"), region_name=self.settings.config.get("region"), **named,
        )  # fmt: skip
        if sts := login.get("sts"):
            address = sts if "://" in sts else f"https://{sts}"
            made = session.client
            session.client = lambda name, **more: made(name, endpoint_url=address, **more)
        provider: Callable[[], Any] = _obstore_auth().StsCredentialProvider(
            session, RoleArn=login["role"], RoleSessionName=login.get("role_session") or "paimon-spark"
        )
        return provider

    def _create_unsafely(self, path: str, data: bytes) -> None:
        if self.exists(path):
            raise already_there(self, path)
        self.write(path, data)

    def _check_conditional_writes(self, path: str) -> None:
        """Make sure, once per process, that a server other than AWS's knows conditional writes. Raises StorageError.

        Servers that do not know `If-None-Match` ignore it, and two commits would overwrite each other.
        """
        endpoint = self.address()
        known = os.getpid(), str(endpoint)
        if endpoint is None or ".amazonaws." in endpoint or known in _checked:
            return
        directory, _, name = path.rpartition("/")
        probe = f"{directory}/.{name}.{uuid4()}.tmp"
        with self._failures("create", path) as (client, _):
            key = probe.strip("/").partition("/")[2]
            client.put(key, b"1", mode="create")
            try:
                client.put(key, b"2", mode="create")
            except Exception as e:
                if not fault_of(e).is_conflict:
                    raise
            else:
                raise StorageError(
                    f"cannot create s3://{path} safely: the server at {endpoint} ignores If-None-Match, so commits "
                    "could overwrite each other. Use a server with conditional writes; or, if nobody else ever writes "
                    f"to the table at the same time, set {CONDITIONS}=false and commit.allow-unsafe-create=true",
                    path=path,
                    retryable=False,
                )
            finally:
                client.delete(key)
        _checked.add(known)


def conditional_writes(options: Mapping[str, str]) -> bool:
    """Whether `If-None-Match` may be used; `s3.conditional-writes=false` says that the server lacks it."""
    return options.get(CONDITIONS, "true").strip().lower() != "false"


_CERTIFICATES: Final = "AWS_CA_BUNDLE"
_ENDPOINTS: Final = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
_ELSEWHERE: Final = (
    "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)  # fmt: skip


def _keys(key: str, secret: str, token: str | None, expires: datetime | None) -> dict[str, Any]:
    return {"access_key_id": key, "secret_access_key": secret, "token": token, "expires_at": expires}


def _profile_keys(name: str) -> dict[str, Any]:
    """The keys of a profile as its file has them now: other programs renew them there."""
    found = _profile(name)
    return _keys(
        found["aws_access_key_id"], found["aws_secret_access_key"], found.get("aws_session_token"),
        datetime.now(UTC) + _REFRESH,
    )  # fmt: skip


def _profile(name: str) -> dict[str, str]:
    """Settings of a profile in the files that Amazon's tools share; credentials win over the configuration."""
    out: dict[str, str] = {}
    for variable, file, section in (
        ("AWS_CONFIG_FILE", "~/.aws/config", name if name == "default" else f"profile {name}"),
        ("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials", name),
    ):
        found = configparser.RawConfigParser()
        try:
            found.read(Path(os.environ.get(variable) or file).expanduser())
        except (configparser.Error, UnicodeDecodeError):
            continue
        if found.has_section(section):
            out |= dict(found.items(section))
    return out


def _boto3(what: str) -> Any:
    try:
        import boto3
    except ImportError as e:
        raise StorageError(f"{what} needs the package boto3, which is not installed: pip install boto3") from e
    return boto3


def _obstore_auth() -> Any:
    from obstore.auth import boto3

    return boto3


def _amazon(region: str) -> str:
    return f"https://s3.{region}.amazonaws.com" + (".cn" if region.startswith("cn-") else "")


def _virtual_endpoint(server: str, bucket: str) -> str:
    parts = urlsplit(server)
    return f"{parts.scheme}://{bucket}.{parts.netloc}{parts.path}"


def _region_of(bucket: str) -> str:
    """The region of a bucket of Amazon, which answers to anybody."""
    if not re.fullmatch(r"[a-z0-9][a-z0-9.-]*", bucket):
        return "us-east-1"
    request = urllib.request.Request(f"https://s3.amazonaws.com/{bucket}", method="HEAD")
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:  # noqa: S310 - https
            headers = answer.headers
    except urllib.error.HTTPError as e:
        headers = e.headers
    except OSError:
        return "us-east-1"
    return headers.get("x-amz-bucket-region") or "us-east-1"
