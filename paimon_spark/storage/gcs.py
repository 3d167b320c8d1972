"""The store of Google Cloud Storage.

Options `gs.` and `fs.gs.` mean the same, as Hadoop's connector names them; `fs.` are the names that gcsfs gives to its
arguments.

Sources: Java `GSFileIO`; Hadoop's connector of Google Cloud Storage, `CONFIGURATION.md`; gcsfs; object_store `gcp`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from paimon_spark.errors import InvalidOptionError
from paimon_spark.storage.object_store import ObjectStore, Settings
from paimon_spark.storage.obstore_client import CLIENT, RETRIES
from paimon_spark.storage.remote_options import check_address, flat_arguments, refuse_unknown

_PREFIXES: Final = ("fs.gs.", "gs.")
_NAMES: Final = {
    "auth.service.account.json.keyfile": "key_file", "google.cloud.auth.service.account.json.keyfile": "key_file",
    "auth.type": "type",
    "project.id": "project",
    "requester.pays.project.id": "payer",
    "storage.root.url": "endpoint_url",
    "proxy.address": "proxy",
}  # fmt: skip
_ARGUMENTS: Final = {
    "token": "token",
    "project": "project",
    "endpoint_url": "endpoint_url",
    "requester_pays": "requester_pays",
}
_TYPES: Final = ("SERVICE_ACCOUNT_JSON_KEYFILE", "APPLICATION_DEFAULT", "COMPUTE_ENGINE", "UNAUTHENTICATED")
_TUNING: Final = (
    "batch.", "block.size", "client.", "copy.", "create.", "fadvise.", "glob.", "grpc.", "hierarchical.", "http.",
    "impl", "inputstream.", "io.", "lazy.", "list.", "marker.", "max.", "metadata.", "operation.", "outputstream.",
    "performance.", "reported.", "rewrite.", "status.", "threads.", "tracelog.", "working.",
)  # fmt: skip
_NO_LOGIN: Final = ("anon", "anonymous")
_WITHOUT_LOGIN: Final = json.dumps({"disable_oauth": True, "client_email": "", "private_key": "", "private_key_id": ""})
_DEFAULT: Final = ("google_default", "cloud")
_UNUSABLE: Final = ("browser", "cache")


def gcs_settings(options: Mapping[str, str]) -> Settings:
    """The settings that options give.

    Raises InvalidOptionError: a name is unknown or misspelt, or a value cannot be used.
    """
    given = _given(options)
    config: dict[str, Any] = {}
    client: dict[str, Any] = dict(CLIENT)
    token = given.get("token")
    endpoint = given.get("endpoint_url")
    if given.get("type") == "UNAUTHENTICATED" or (isinstance(token, str) and token in _NO_LOGIN):
        # Without a signature obstore only reads; a server of one's own is written to, too.
        config |= {"service_account_key": _WITHOUT_LOGIN} if endpoint else {"skip_signature": True}
    elif "key_file" in given:
        config["service_account"] = _key_file("fs.gs.auth.service.account.json.keyfile", given["key_file"])
    elif token is not None:
        config |= _token(token)
    if endpoint:
        config["base_url"] = endpoint.rstrip("/")
        client["allow_http"] = True
    payer = given.get("payer") or (given.get("project") if given.get("requester_pays") is True else None)
    if isinstance(given.get("requester_pays"), str):
        payer = given["requester_pays"]
    if payer:
        client["default_headers"] = {"x-goog-user-project": str(payer)}
    if proxy := given.get("proxy"):
        client["proxy_url"] = proxy if "://" in proxy else f"http://{proxy}"
    return Settings(config, client)


def _given(options: Mapping[str, str]) -> dict[str, Any]:
    given: dict[str, Any] = {}
    for key, value in options.items():
        prefix = next((p for p in _PREFIXES if key.lower().startswith(p)), None)
        if prefix is None:
            continue
        name = key.lower()[len(prefix) :]
        if name in _NAMES:
            given[_NAMES[name]] = value
        elif not name.startswith(_TUNING):
            refuse_unknown(key, [prefix + n for n in _NAMES])
    for name, value in flat_arguments(options).items():
        # A token may be the whole of a key, as JSON.
        setting = _ARGUMENTS.get(name) or ("token" if name.startswith("token.") else None)
        if setting is None:
            refuse_unknown(f"fs.{name}", [f"fs.{n}" for n in _ARGUMENTS])
        elif name.startswith("token."):
            parts = given.get("token")
            given["token"] = {**(parts if isinstance(parts, dict) else {}), name.removeprefix("token."): value}
        else:
            given[setting] = value
        if setting == "endpoint_url":
            check_address(f"fs.{name}", value)
    if (found := given.get("type")) is not None and found not in _TYPES:
        raise InvalidOptionError(
            f"option fs.gs.auth.type = {found!r}: expected one of {', '.join(_TYPES)}", option="fs.gs.auth.type"
        )
    return given


def _token(token: Any) -> dict[str, Any]:
    """The settings of an option `fs.token`: a key, the file of one, or an access token."""
    if isinstance(token, dict):
        return {"service_account_key": json.dumps(token)}
    text = str(token)
    if text in _DEFAULT:
        return {}
    if text in _UNUSABLE:
        raise InvalidOptionError(
            f"option fs.token = {text!r} is not supported; give the path of a key file in JSON, google_default or anon",
            option="fs.token",
        )
    if text.startswith(("/", "./", "../", "~")) or text.endswith(".json"):
        return {"service_account": _key_file("fs.token", text)}
    return {"bearer_token": text}


def _key_file(option: str, text: str) -> str:
    path = Path(text).expanduser()
    if not path.exists():
        raise InvalidOptionError(
            f"there is no file {text}, which option {option} names; give the path of a key file in JSON, or 'anon'",
            option=option,
        )
    return str(path)


class GcsStore(ObjectStore):
    """Store over buckets of Google Cloud Storage."""

    extra = "gcs"
    login_options = "fs.token"
    environment = "GOOGLE_"

    def connect(self, store_module: Any, bucket: str) -> Any:
        config = dict(self.settings.config)
        if not config.keys() & {"service_account", "service_account_key", "skip_signature", "bearer_token"}:
            config |= _application_default()
        return store_module.GCSStore(
            bucket, config=config, client_options=dict(self.settings.client), retry_config=RETRIES
        )

    def address(self) -> str | None:
        return self.settings.config.get("base_url")


def _application_default() -> dict[str, str]:
    """The credentials of Google's tools that are named by the environment; else obstore looks itself."""
    named = os.environ.get("GOOGLE_APPLICATION_CREDENTIALS")
    return {"application_credentials": named} if named else {}
