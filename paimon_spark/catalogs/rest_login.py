"""Login: the headers of requests to a REST catalog, with a token or a signature of DLF.

Source: Java `rest/auth/BearTokenAuthProvider`, `DLFAuthProvider`, `DLFDefaultSigner`, `DLFOpenApiSigner` and
`DLFECSTokenLoader`.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from email.utils import format_datetime
from http.client import HTTPException
from typing import Final
from urllib.parse import quote_plus, unquote_plus, urlsplit
from urllib.request import urlopen

from paimon_spark.errors import CatalogError, FormatError, InvalidOptionError
from paimon_spark.format.json_files import json_value
from paimon_spark.options.catalog import DLF, ECS, CatalogOptions
from paimon_spark.redaction import shown_option
from paimon_spark.text import reason

_JSON: Final = "application/json"
_OF_KEY: Final = ("AccessKeyId", "AccessKeySecret", "SecurityToken", "Expiration")
_REGION: Final = re.compile(r"(?:pre-)?([a-z]+-[a-z]+(?:-\d+)?)")
_SERVICE: Final = "DlfNext"
_REQUEST: Final = "aliyun_v4_request"
_ALGORITHM: Final = "DLF4-HMAC-SHA256"
_UNSIGNED: Final = "UNSIGNED-PAYLOAD"
_RENEWED_BEFORE_MS: Final = 3_600_000
"""Milliseconds before its end at which an access key is asked for again, as Java does."""
_ECS_TIMEOUT_S: Final = 20
_MOST_BYTES: Final = 1 << 20
"""Of an answer with an access key."""


@dataclass(frozen=True, slots=True)
class SignedRequest:
    """Parts of a request that a signature covers.

    Attributes:
        method: such as GET.
        path: on the server, percent-encoded.
        parameters: of the query, not encoded.
        body: JSON text; empty when there is none.
    """

    method: str
    path: str
    parameters: Mapping[str, str]
    body: str = ""


@dataclass(frozen=True, slots=True)
class AccessKey:
    """An access key of DLF; `ends_ms` is the epoch milliseconds of its end, if it has one."""

    id: str
    secret: str = field(repr=False)
    security_token: str | None = field(default=None, repr=False)
    ends_ms: int | None = None


class Login:
    """Logs requests in, with an access key that is read anew before it ends."""

    def __init__(self, options: CatalogOptions) -> None:
        self._options = options
        self._key: AccessKey | None = None

    def headers(self, request: SignedRequest) -> dict[str, str]:
        """Headers of a request. Raises CatalogError without an access key, InvalidOptionError."""
        options = self._options
        if options.token_provider != DLF:
            return {"Authorization": f"Bearer {options.token}"} if options.token else {}
        key, now = self._access_key(), datetime.now(UTC)
        is_open_api = options.dlf_signing == "openapi" or (not options.dlf_signing and "dlfnext" in options.uri.lower())
        if is_open_api:
            nonce = f"{uuid.uuid4()}{int(now.timestamp() * 1000)}"
            return signed_by_open_api(request, key, urlsplit(options.uri).netloc, now, nonce)
        return signed(request, key, self._region, now)

    @property
    def _region(self) -> str:
        found = _REGION.search(self._options.uri)
        if not self._options.dlf_region and found is None:
            raise InvalidOptionError(
                f"uri = {shown_option('uri', self._options.uri)!r} names no region; set dlf.region", option="dlf.region"
            )
        return self._options.dlf_region or (found[1] if found else "")

    def _access_key(self) -> AccessKey:
        key = self._key
        if key is None or (key.ends_ms is not None and key.ends_ms - time.time() * 1000 < _RENEWED_BEFORE_MS):
            key = self._key = self._read_key()
        return key

    def _read_key(self) -> AccessKey:
        options = self._options
        if not options.dlf_token_path and not options.dlf_token_loader:
            return AccessKey(
                options.dlf_access_key_id, options.dlf_access_key_secret, options.dlf_security_token or None
            )
        where = options.dlf_token_path
        try:
            if options.dlf_token_loader == ECS:
                where = options.dlf_ecs_url + (options.dlf_ecs_role or _fetched(options.dlf_ecs_url).strip())
                return _decoded(_fetched(where))
            with open(where, encoding="utf-8") as file:
                return _decoded(file.read())
        except (OSError, ValueError, KeyError, TypeError, OverflowError, HTTPException, FormatError) as e:
            raise CatalogError(f"no access key of DLF can be read from {where}: {reason(e)}") from e


def _fetched(url: str) -> str:
    with urlopen(url, timeout=_ECS_TIMEOUT_S) as answer:  # noqa: S310 - the address is the user's option
        return bytes(answer.read(_MOST_BYTES)).decode()


def _decoded(text: str) -> AccessKey:
    raw = json_value(text)
    if not isinstance(raw, dict) or not all(isinstance(raw.get(name, ""), str) for name in _OF_KEY):
        raise TypeError(f"expected a JSON object with the texts {', '.join(_OF_KEY)}")
    ends = raw.get("Expiration")
    ends_ms = None
    if ends:
        moment = datetime.strptime(ends, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
        ends_ms = int(moment.timestamp() * 1000)
    return AccessKey(raw["AccessKeyId"], raw["AccessKeySecret"], raw.get("SecurityToken"), ends_ms)


def signed(request: SignedRequest, key: AccessKey, region: str, now: datetime) -> dict[str, str]:
    """Headers with a signature as DLF's own endpoints take it."""
    moment = now.strftime("%Y%m%dT%H%M%SZ")
    headers = {"x-dlf-date": moment, "x-dlf-content-sha256": _UNSIGNED, "x-dlf-version": "v1"}
    if request.body:
        headers |= {"Content-Type": _JSON, "Content-MD5": _md5(request.body)}
    if key.security_token is not None:
        headers["x-dlf-security-token"] = key.security_token
    query = "&".join(
        f"{name.strip()}={quote_plus(value).strip()}" if value else name.strip()
        for name, value in sorted(request.parameters.items())
    )
    covered = sorted((name.lower(), value.strip()) for name, value in headers.items())
    lines = [request.method, request.path, query, *(f"{name}:{value}" for name, value in covered), _UNSIGNED]
    scope = f"{moment[:8]}/{region}/{_SERVICE}/{_REQUEST}"
    digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()
    secret = f"aliyun_v4{key.secret}".encode()
    for part in scope.split("/"):
        secret = hmac.digest(secret, part.encode(), "sha256")
    signature = hmac.digest(secret, "\n".join((_ALGORITHM, moment, scope, digest)).encode(), "sha256").hex()
    return {**headers, "Authorization": f"{_ALGORITHM} Credential={key.id}/{scope},Signature={signature}"}


def signed_by_open_api(request: SignedRequest, key: AccessKey, host: str, now: datetime, nonce: str) -> dict[str, str]:
    """Headers with a signature as Alibaba Cloud's OpenAPI takes it. `nonce` is new for every request."""
    request = replace(request, parameters=dict(sorted(request.parameters.items())))
    headers = {
        "Date": format_datetime(now, usegmt=True),
        "Accept": _JSON,
        "Host": host,
        "x-acs-signature-method": "HMAC-SHA1",
        "x-acs-signature-nonce": nonce,
        "x-acs-signature-version": "1.0",
        "x-acs-version": "2026-01-18",
    }
    if request.body:
        headers |= {"Content-MD5": _md5(request.body), "Content-Type": _JSON}
    if key.security_token is not None:
        headers["x-acs-security-token"] = key.security_token
    query = "&".join(f"{name}={value}" if value else name for name, value in request.parameters.items())
    resource = unquote_plus(request.path) + (f"?{query}" if query else "")
    plain = [headers.get(name, "") for name in ("Accept", "Content-MD5", "Content-Type", "Date")]
    own = sorted(f"{name.lower()}:{value.strip()}" for name, value in headers.items() if name.startswith("x-acs-"))
    text = "\n".join([request.method, *plain, *own, resource])
    signature = base64.b64encode(hmac.digest(key.secret.encode(), text.encode(), "sha1")).decode()
    return {**headers, "Authorization": f"acs {key.id}:{signature}"}


def _md5(text: str) -> str:
    return base64.b64encode(hashlib.md5(text.encode(), usedforsecurity=False).digest()).decode()
