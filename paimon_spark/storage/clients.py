"""Clients of object stores in fsspec: their arguments, and what their errors mean.

Source: Java `S3FileIO` (keys `s3.`, `s3a.` and `fs.s3a.` mean the same), Hadoop's S3A settings.
"""

from __future__ import annotations

import inspect
import os
import socket
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit
from urllib.request import getproxies

from paimon_spark.errors import InvalidOptionError
from paimon_spark.options.descriptor import Option, boolean, did_you_mean, is_one_edit_away

GCS: Final = ("gs", "gcs")
AZURE: Final = ("az", "abfs", "abfss")
_PREFIXES: Final = ("fs.s3a.", "s3a.", "s3.")
_S3_ARGUMENTS: Final = {
    "access-key": "key", "access.key": "key",
    "secret-key": "secret", "secret.key": "secret",
    "session-token": "token", "session.token": "token", "security-token": "token",
    "endpoint": "endpoint_url",
    "region": "region", "endpoint.region": "region",
    "path.style.access": "path_style", "path-style-access": "path_style",
    "connection.ssl.enabled": "use_ssl",
}  # fmt: skip
_S3_BOOLEANS: Final = ("path_style", "use_ssl")
_CONNECT_TIMEOUT_S: Final = 2
_CONNECT_ATTEMPTS: Final = 3
"""With the waits between them, an address where nothing answers is told within ten seconds."""
_PROBE_S: Final = 5
_OF_FSSPEC: Final = ("skip_instance_cache", "use_listings_cache", "listings_expiry_time", "max_paths", "profile")
_UNREACHABLE: Final = ("EndpointConnectionError", "ConnectTimeoutError", "ConnectionRefusedError", "gaierror")
_NO_BUCKET: Final = (
    "NoSuchBucket", "bucket does not exist", "container does not exist", "ListObjectsV2 operation: Not Found",
)  # fmt: skip
NO_LOGIN: Final = "NoCredentialsError"
_REFUSED: Final = (NO_LOGIN, "PartialCredentialsError", "ClientAuthenticationError", "RefreshError")
_REFUSED_STATUSES: Final = (401, 403)
_NO_TLS: Final = ("WRONG_VERSION_NUMBER", "wrong version number")
CONDITIONS: Final = "s3.conditional-writes"


def s3_settings(options: Mapping[str, str]) -> dict[str, Any]:
    """Arguments of s3fs for the S3 settings among `options`; S3A's tuning keys are left out.

    Raises InvalidOptionError: a name is misspelt, or a value is neither true nor false.
    """
    given = {}
    for key, value in options.items():
        prefix = next((p for p in _PREFIXES if key.lower().startswith(p)), None)
        if prefix is None:
            continue
        name = key.lower()[len(prefix) :]
        argument = _S3_ARGUMENTS.get(name)
        if argument is None:
            _check_spelling(key, prefix, name)
            continue
        if argument in _S3_BOOLEANS:
            Option(key, boolean, None, "").get({key: value})
        given[argument] = value
    if CONDITIONS in options:
        Option(CONDITIONS, boolean, None, "").get(options)
    out: dict[str, Any] = {k: given[k] for k in ("key", "secret", "token") if k in given}
    out["config_kwargs"] = {
        "connect_timeout": _CONNECT_TIMEOUT_S,
        "retries": {"mode": "standard", "total_max_attempts": _CONNECT_ATTEMPTS},
    }
    secure = given.get("use_ssl", "true").strip().lower() != "false"
    if endpoint := given.get("endpoint_url"):
        out["endpoint_url"] = endpoint if "://" in endpoint else f"http{'s' if secure else ''}://{endpoint}"
    if "region" in given:
        out["client_kwargs"] = {"region_name": given["region"]}
    if given.get("path_style", "").strip().lower() == "true":
        out["config_kwargs"]["s3"] = {"addressing_style": "path"}
    return out


def _check_spelling(key: str, prefix: str, name: str) -> None:
    """Refuse a name that is nearly one of those that are understood. Raises InvalidOptionError."""
    plain = name.replace(".", "-")
    for known in (*_S3_ARGUMENTS, CONDITIONS.removeprefix("s3.")):
        if name != known and is_one_edit_away(plain, known.replace(".", "-")):
            raise InvalidOptionError(f"unknown option {key!r}; did you mean {prefix + known!r}?", option=key)


def check_reachable(protocol: str, arguments: Mapping[str, Any]) -> None:
    """Check that something listens where Google Cloud Storage or Azure is said to be; their clients try for minutes.

    The addresses are those that a user gives, and the account of Azure, which is part of a host name. Where a proxy is
    set, only it knows whether they can be reached. Raises OSError.
    """
    address = given_address(protocol, arguments) if protocol in (*GCS, *AZURE) else None
    if address is None or getproxies().keys() & {"http", "https", "all"}:
        return
    found = urlsplit(address if "://" in address else f"https://{address}")
    port = found.port or (80 if found.scheme == "http" else 443)
    try:
        socket.create_connection((found.hostname or "", port), timeout=_PROBE_S).close()
    except TimeoutError as e:
        raise ConnectionRefusedError(f"no connection to {found.hostname} within {_PROBE_S} s") from e


def given_address(protocol: str, arguments: Mapping[str, Any]) -> str | None:
    """The address of the store's server, where a user gives one or names the account of Azure that has one."""
    if protocol not in AZURE:
        return arguments.get("endpoint_url")
    parts = dict(part.partition("=")[::2] for part in str(arguments.get("connection_string") or "").split(";"))
    account = arguments.get("account_name") or parts.get("AccountName")
    own = arguments.get("account_host") or parts.get("BlobEndpoint")
    return own or (f"{account}.blob.{parts.get('EndpointSuffix', 'core.windows.net')}" if account else None)


def is_missing_bucket(cause: BaseException) -> bool:
    """Whether an error says that the bucket or container of an object store does not exist.

    S3 lists a prefix without objects as empty: a listing that is not found is of no bucket, or of no S3 server.
    """
    text = f"{type(cause).__name__} {cause} {cause.__cause__}"
    return any(mark in text for mark in _NO_BUCKET)


def is_unreachable(cause: BaseException) -> bool:
    """Whether an error says that nothing answers at the address of a store."""
    return any(c.__name__ in _UNREACHABLE for c in type(cause).__mro__)


def speaks_no_tls(cause: BaseException) -> bool:
    """Whether an error says that a server that was asked by https:// knows http:// only."""
    return any(mark in f"{cause} {cause.__cause__}" for mark in _NO_TLS)


def is_refused(cause: BaseException) -> bool:
    """Whether an error says that a store refuses its user access, or that it has no login."""
    is_named = any(c.__name__ in _REFUSED for c in type(cause).__mro__)
    return is_named or isinstance(cause, PermissionError) or http_status(cause) in _REFUSED_STATUSES


def login_options(protocol: str) -> str:
    """The options that say who a user of an object store is; empty for other file systems."""
    if protocol in AZURE:
        return "fs.account_name and fs.account_key, or fs.connection_string"
    if protocol in GCS:
        return "fs.token"
    return "s3.access-key and s3.secret-key" if protocol == "s3" else ""


def check_arguments(protocol: str, cls: Any, arguments: Mapping[str, Any]) -> None:
    """Check the options `fs.…` of a user, which are arguments of the class of a file system.

    Raises InvalidOptionError: a name is nearly that of an argument, or a value names a file that does not exist.
    """
    known = _arguments(cls)
    for name, value in arguments.items():
        near = [k for k in known if is_one_edit_away(name, k)] if name not in known else []
        if near:
            raise InvalidOptionError(f"unknown option 'fs.{name}'; did you mean 'fs.{near[0]}'?", option=f"fs.{name}")
        if name == "endpoint_url" and "://" not in str(value):
            raise InvalidOptionError(
                f"option fs.endpoint_url = {value!r} lacks http:// or https:// in front", option="fs.endpoint_url"
            )
    token = arguments.get("token")
    is_path = isinstance(token, str) and (token.startswith(("/", "./", "../", "~")) or token.endswith(".json"))
    if protocol in GCS and is_path and not os.path.exists(os.path.expanduser(str(token))):
        raise InvalidOptionError(
            f"there is no file {token}, which option fs.token names; give the path of a key file in JSON, or 'anon'",
            option="fs.token",
        )


def check_known(cls: Any, arguments: Mapping[str, Any], error: Exception) -> None:
    """Raise InvalidOptionError if a file system was not made because it has no argument of a name that was given."""
    if not isinstance(error, TypeError):
        return
    for name in arguments:
        if f"unexpected keyword argument {name!r}" in str(error):
            raise InvalidOptionError(
                f"unknown option 'fs.{name}'{did_you_mean(f'fs.{name}', [f'fs.{k}' for k in _arguments(cls)])}",
                option=f"fs.{name}",
            ) from error


def _arguments(cls: Any) -> list[str]:
    """The names of a file system's arguments, and of those that every file system takes."""
    names = [n for c in cls.__mro__ for n in inspect.signature(c.__init__).parameters]
    return [*dict.fromkeys((*names, *_OF_FSSPEC))]


def check_key_pair(arguments: Mapping[str, Any]) -> None:
    """Check that S3 is given both parts of a key or none. Raises InvalidOptionError."""
    pair = {"s3.access-key": arguments.get("key"), "s3.secret-key": arguments.get("secret")}
    missing = [name for name, value in pair.items() if not value]
    if len(missing) == 1 and not arguments.get("anon"):
        given = next(name for name in pair if name not in missing)
        raise InvalidOptionError(f"option {given} is given without {missing[0]}; give both", option=missing[0])


def http_status(cause: BaseException | None) -> int | None:
    """The status of the answer that an error of a cloud client reports, or an error it was made from."""
    for _ in range(5):
        if cause is None:
            return None
        response = getattr(cause, "response", None)
        if isinstance(response, Mapping):
            stated = [response.get("ResponseMetadata", {}).get("HTTPStatusCode")]
        else:
            stated = [getattr(cause, name, None) for name in ("status_code", "status", "code")]
        for status in stated:
            if isinstance(status, int):
                return status
        cause = cause.__cause__
    return None
