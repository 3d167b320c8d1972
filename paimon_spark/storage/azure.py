"""The store of Azure: Blob Storage, and Data Lake Storage by its interface of blobs.

Options `azure.` and `fs.azure.` mean the same, as Hadoop names them; `fs.` are the names that adlfs gives to its
arguments.

Sources: Java `AzureFileIO`; Hadoop `ABFS`; adlfs; Microsoft's connection strings; object_store `azure/builder.rs`.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from paimon_spark.errors import InvalidOptionError
from paimon_spark.storage import obstore_client
from paimon_spark.storage.object_store import ObjectStore, Settings
from paimon_spark.storage.obstore_client import CLIENT, RETRIES
from paimon_spark.storage.remote_options import check_address, flat_arguments, refuse_unknown, true_or_false

_PREFIXES: Final = ("fs.azure.", "azure.")
_NAMES: Final = {
    "account.key": "account_key",
    "account.auth.type": "type",
    "account.oauth2.client.id": "client_id",
    "account.oauth2.client.secret": "client_secret",
    "account.oauth2.client.endpoint": "token_endpoint",
    "account.oauth2.msi.tenant": "tenant_id",
    "account.oauth.provider.type": "provider",
    "sas.fixed.token": "sas_token",
}
"""Names of Hadoop, each of which may go on with the host of an account, and the setting that it gives."""
_ARGUMENTS: Final = {
    "account_name": "account_name", "account_key": "account_key", "account_host": "account_host",
    "connection_string": "connection_string", "sas_token": "sas_token",
    "tenant_id": "tenant_id", "client_id": "client_id", "client_secret": "client_secret",
    "anon": "anonymous", "use_azure_cli": "use_azure_cli", "endpoint_url": "endpoint_url",
}  # fmt: skip
_BOOLEANS: Final = ("anonymous", "use_azure_cli")
_TYPES: Final = ("SharedKey", "OAuth", "SAS")
_TUNING: Final = (
    "abfs.", "account.hns.", "account.keyprovider", "account.operation.", "account.throttling.", "acl.", "always.",
    "analysis.", "apache.", "appendblob.", "atomic.", "block.", "buffered.", "client.", "cluster.",
    "concurrentRequestCount", "createRemoteFileSystem", "custom.", "delete.", "disable.", "enable.", "http.",
    "identity.", "infinite-lease.", "io.", "lease.", "list.", "local.", "max.", "metric.", "oauth.token.fetch.",
    "read.", "readahead", "rename.", "saskey.", "secure.", "shellkeyprovider.", "skip.", "ssl.", "threads.", "token.",
    "user.agent.", "write.",
)  # fmt: skip
_HOST: Final = ".core."


def azure_settings(options: Mapping[str, str], authority: str = "") -> Settings:
    """The settings that options and the authority of a URL give, which may be `container@account.host`.

    Raises InvalidOptionError: a name is unknown or misspelt, or a value cannot be used.
    """
    host = authority.partition("@")[2]
    given = _given(options, host)
    if text := given.get("connection_string"):
        given = {**_of_connection_string(text), **given}
    if host and "account_name" not in given:
        given["account_name"] = host.partition(".")[0]
    config: dict[str, Any] = {
        k: given[k]
        for k in ("account_name", "account_key", "tenant_id", "client_id", "client_secret", "use_azure_cli")
        if k in given
    }
    client: dict[str, Any] = dict(CLIENT)
    if "account_key" in config:
        _check_key(config["account_key"])
    if token := given.get("sas_token"):
        config["sas_key"] = str(token).lstrip("?")
    if given.get("anonymous"):
        config["skip_signature"] = True
    if given.get("use_emulator"):
        config["use_emulator"] = True
        client["allow_http"] = True
    if endpoint := _endpoint(given, host):
        config["endpoint"] = endpoint.rstrip("/")
        client["allow_http"] = endpoint.startswith("http://")
    return Settings(config, client)


def _given(options: Mapping[str, str], host: str) -> dict[str, Any]:
    given: dict[str, Any] = {}
    for key, value in options.items():
        prefix = next((p for p in _PREFIXES if key.lower().startswith(p)), None)
        if prefix is None:
            continue
        name = key[len(prefix) :]
        known = next((n for n in _NAMES if name == n or name.startswith(f"{n}.")), None)
        if known is None:
            if not name.startswith(_TUNING):
                refuse_unknown(key, [prefix + n for n in _NAMES])
            continue
        of_host = name[len(known) + 1 :]
        if of_host and host and of_host.partition(".")[0] != host.partition(".")[0]:
            continue  # of another account
        given[_NAMES[known]] = value
        if of_host:
            given.setdefault("account_name", of_host.partition(".")[0])
    for name, value in flat_arguments(options).items():
        setting = _ARGUMENTS.get(name)
        if setting is None:
            refuse_unknown(f"fs.{name}", [f"fs.{n}" for n in _ARGUMENTS])
            continue
        given[setting] = true_or_false(f"fs.{name}", value) if setting in _BOOLEANS else str(value)
        if setting == "endpoint_url":
            check_address(f"fs.{name}", value)
    if (found := given.get("type")) is not None and found not in _TYPES:
        raise InvalidOptionError(
            f"option fs.azure.account.auth.type = {found!r}: expected one of {', '.join(_TYPES)}",
            option="fs.azure.account.auth.type",
        )
    if endpoint := given.get("token_endpoint"):  # https://login.microsoftonline.com/<tenant>/oauth2/token
        parts = str(endpoint).partition("://")[2].split("/")
        if len(parts) > 1:
            given.setdefault("tenant_id", parts[1])
    return given


def _of_connection_string(text: str) -> dict[str, Any]:
    """The settings in a connection string. Raises InvalidOptionError."""
    parts = {}
    for part in filter(None, (p.strip() for p in text.split(";"))):
        name, sign, value = part.partition("=")
        if not sign:
            raise InvalidOptionError(
                "option fs.connection_string has a part without =; expected AccountName=…;AccountKey=…;…",
                option="fs.connection_string",
            )
        parts[name.lower()] = value
    names = {"accountname": "account_name", "accountkey": "account_key", "sharedaccesssignature": "sas_token"}
    out: dict[str, Any] = {names[k]: v for k, v in parts.items() if k in names}
    if parts.get("usedevelopmentstorage", "").lower() == "true":
        out["use_emulator"] = True
    if "blobendpoint" in parts:
        out["endpoint_url"] = parts["blobendpoint"]
    elif "endpointsuffix" in parts and "account_name" in out:
        protocol = parts.get("defaultendpointsprotocol", "https")
        out["endpoint_url"] = f"{protocol}://{out['account_name']}.blob.{parts['endpointsuffix']}"
    return out


def _endpoint(given: Mapping[str, Any], host: str) -> str | None:
    """The address of the account, where it is not that of the public cloud."""
    if "endpoint_url" in given:
        return str(given["endpoint_url"])
    if "account_host" in given:
        found = str(given["account_host"])
        return found if "://" in found else f"https://{found}"
    cloud = host.partition(_HOST)[2]
    if cloud and cloud != "windows.net":  # of a national cloud
        return f"https://{host.partition('.')[0]}.blob.core.{cloud}"
    return None


def _check_key(key: str) -> None:
    try:
        base64.b64decode(key, validate=True)
    except (binascii.Error, ValueError) as e:
        raise InvalidOptionError(
            "option fs.account_key is no key of Azure, which is Base64; copy it again", option="fs.account_key"
        ) from e


class AzureStore(ObjectStore):
    """Store over containers of Azure."""

    extra = "azure"
    login_options = "fs.account_name and fs.account_key, or fs.connection_string"
    environment = "AZURE_"

    def connect(self, store_module: Any, bucket: str) -> Any:
        return store_module.AzureStore(
            bucket, config=dict(self.settings.config), client_options=dict(self.settings.client), retry_config=RETRIES
        )

    def address(self) -> str | None:
        config = self.settings.config
        if endpoint := config.get("endpoint"):
            return str(endpoint)
        account = config.get("account_name")
        return f"https://{account}.blob.core.windows.net" if account else None

    def read_end(self, path: str, length: int, expected: int | None = None) -> tuple[bytes, int]:
        # Azure knows no range that counts from the end.
        with self._failures("open", path) as (client, key):
            size = expected or int(client.head(key)["size"])
            if not size:
                return b"", 0
            found = client.get(key, options={"range": (max(size - length, 0), size)})
            if (actual := int(found.meta["size"])) == size:
                return found.bytes().to_bytes(), size
        return self.read_end(path, length, actual)

    def delete_tree(self, directory: str) -> None:
        super().delete_tree(directory)
        with self._failures("delete", directory) as (client, key):
            self._remove_directory(client, key)

    def _remove_listed(self, bucket: str, prefix: str, listed: Sequence[Mapping[str, Any]]) -> None:
        """Delete what was listed; with a hierarchical namespace directories are listed too, and go when empty."""
        self.remove(bucket, [o["path"] for o in listed if o["size"]])
        client = self.client(bucket)
        for key in sorted((o["path"] for o in listed if not o["size"]), reverse=True):
            self._remove_directory(client, key)

    def _remove_directory(self, client: Any, key: str) -> None:
        try:
            with suppress(FileNotFoundError):
                client.delete(key)
        except Exception as e:
            if obstore_client.fault_of(e).status != 409:  # another writer put something into it
                raise

    def remove_directories(self, bucket: str, keys: Sequence[str]) -> None:
        """Nothing: they were deleted by their names."""
