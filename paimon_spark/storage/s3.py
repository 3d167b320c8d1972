"""S3 settings: Paimon's and Hadoop's keys in the words of s3fs.

Source: Java `S3FileIO` (keys `s3.`, `s3a.` and `fs.s3a.` mean the same), Hadoop's S3A settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_PREFIXES: Final = ("fs.s3a.", "s3a.", "s3.")
_MEANINGS: Final = {
    "access-key": "key", "access.key": "key",
    "secret-key": "secret", "secret.key": "secret",
    "session-token": "token", "session.token": "token", "security-token": "token",
    "endpoint": "endpoint_url",
    "region": "region", "endpoint.region": "region",
    "path.style.access": "path_style", "path-style-access": "path_style",
    "connection.ssl.enabled": "use_ssl",
}  # fmt: skip


def s3_settings(options: Mapping[str, str]) -> dict[str, Any]:
    """Arguments of s3fs for the S3 settings among `options`; S3A's tuning keys are left out."""
    given = {}
    for key, value in options.items():
        for prefix in _PREFIXES:
            if key.lower().startswith(prefix) and key.lower()[len(prefix) :] in _MEANINGS:
                given[_MEANINGS[key.lower()[len(prefix) :]]] = value
                break
    out: dict[str, Any] = {k: given[k] for k in ("key", "secret", "token") if k in given}
    secure = given.get("use_ssl", "true").strip().lower() != "false"
    if endpoint := given.get("endpoint_url"):
        out["endpoint_url"] = endpoint if "://" in endpoint else f"http{'s' if secure else ''}://{endpoint}"
    if "region" in given:
        out["client_kwargs"] = {"region_name": given["region"]}
    if given.get("path_style", "").strip().lower() == "true":
        out["config_kwargs"] = {"s3": {"addressing_style": "path"}}
    return out
