"""What is special about S3: Paimon's and Hadoop's settings in the words of s3fs, conditional writes, bulk deletes.

Source: Java `S3FileIO` (keys `s3.`, `s3a.` and `fs.s3a.` mean the same), Hadoop's S3A settings.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final
from uuid import uuid4

from paimon_spark.errors import StorageError

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
_CONDITIONS: Final = "s3.conditional-writes"
_LEAST_BOTOCORE: Final = (1, 35, 21)
_BULK: Final = 1000
_checked: set[tuple[int, str]] = set()


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


def conditional_writes(options: Mapping[str, str]) -> bool:
    """Whether the user lets us rely on `If-None-Match`; `s3.conditional-writes=false` says that the server lacks it."""
    return options.get(_CONDITIONS, "true").strip().lower() != "false"


def client_knows_conditions() -> bool:
    """Whether the client sends `If-None-Match`; older ones leave it out without a word."""
    try:
        parts = version("botocore").split(".")[:3]
    except PackageNotFoundError:
        return False
    return tuple(int(part) for part in parts if part.isdigit()) >= _LEAST_BOTOCORE


def check_conditional_writes(fs: Any, path: str) -> None:
    """Make sure, once per process and server, that a server other than AWS's refuses what we forbid it.

    Servers that do not know `If-None-Match` ignore it, and two commits would overwrite each other.

    Raises:
        StorageError: this one does.
    """
    endpoint = str(fs.s3.meta.endpoint_url)
    if ".amazonaws." in endpoint or (os.getpid(), endpoint) in _checked:
        return
    directory, _, name = path.rpartition("/")
    probe = f"{directory}/.{name}.{uuid4()}.tmp"
    try:
        fs.pipe_file(probe, b"1", mode="create")
        try:
            fs.pipe_file(probe, b"2", mode="create")
        except Exception as e:
            if not (isinstance(e, FileExistsError) or "PreconditionFailed" in repr(e.__cause__)):
                raise
        else:
            raise StorageError(
                f"cannot create s3://{path} safely: the server at {endpoint} ignores If-None-Match, so commits could "
                f"overwrite each other. Use a server with conditional writes; or, if nobody else ever writes to the "
                f"table at the same time, set {_CONDITIONS}=false and commit.allow-unsafe-create=true",
                path=path,
                retryable=False,
            )
    finally:
        fs.rm_file(probe)
    _checked.add((os.getpid(), endpoint))


def delete_objects(fs: Any, paths: list[str]) -> None:
    """Delete objects of one bucket, a thousand per request; those that are not there are no error.

    Raises:
        StorageError: the server refused to delete one.
    """
    for start in range(0, len(paths), _BULK):
        keys = [fs.split_path(path)[:2] for path in paths[start : start + _BULK]]
        answer = fs.call_s3(
            "delete_objects", Bucket=keys[0][0], Delete={"Objects": [{"Key": key} for _, key in keys], "Quiet": True}
        )
        for error in answer.get("Errors", ()):
            raise StorageError(
                f"cannot delete s3://{keys[0][0]}/{error.get('Key')}: {error.get('Code')}: {error.get('Message')}",
                path=f"{keys[0][0]}/{error.get('Key')}",
                retryable=error.get("Code") in ("InternalError", "SlowDown", "ServiceUnavailable"),
            )


def delete_prefix(fs: Any, directory: str) -> None:
    """Delete every object below `directory`, and the marker that other clients make for the directory itself."""
    bucket, key, _ = fs.split_path(directory)
    prefix, token = f"{key}/", dict[str, str]()
    while True:
        page = fs.call_s3("list_objects_v2", Bucket=bucket, Prefix=prefix, **token)
        if found := [f"{bucket}/{entry['Key']}" for entry in page.get("Contents", ())]:
            delete_objects(fs, found)
        if not page.get("IsTruncated"):
            return
        token = {"ContinuationToken": page["NextContinuationToken"]}
