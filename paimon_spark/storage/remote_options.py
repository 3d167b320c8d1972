"""Options of remote file systems: their values, and those that are refused."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from paimon_spark.errors import InvalidInputError, InvalidOptionError
from paimon_spark.options.descriptor import Option, boolean, did_you_mean, is_one_edit_away
from paimon_spark.text import integer_of

S3_SCHEMES: Final = ("s3", "s3a", "s3n")
GCS_SCHEMES: Final = ("gs", "gcs")
AZURE_SCHEMES: Final = ("az", "abfs", "abfss")
OBJECT_STORES: Final = (*S3_SCHEMES, *GCS_SCHEMES, *AZURE_SCHEMES)
"""Schemes of stores without directories."""
_NUMBERS: Final = ("_size", "_timeout", "_concurrency", "_blocksize", "port", "retries")
_OF_HADOOP: Final = ("fs.s3a.", "fs.gs.", "fs.azure.")
_OF_FSSPEC: Final = (
    "asynchronous", "batch_size", "blocksize", "cache_regions", "cache_storage", "cache_timeout", "cache_type",
    "check_connection", "client_kwargs", "config_kwargs", "consistency", "default_block_size", "default_cache_type",
    "default_fill_cache", "fixed_upload_size", "listings_expiry_time", "local_batch_size", "max_concurrency",
    "max_paths", "max_retries", "read_timeout", "requests_timeout", "retries", "s3_additional_kwargs",
    "secure_serialize", "session_kwargs", "skip_instance_cache", "timeout", "use_listings_cache", "version_aware",
)  # fmt: skip
"""Arguments of s3fs, gcsfs and adlfs that tune those clients."""


def arguments(options: Mapping[str, str]) -> dict[str, Any]:
    """The `fs.*` options as arguments of fsspec: prefix gone, dots nest, true/false, JSON and sizes become values.

    Raises InvalidInputError: one is no JSON, or is given both as a value and as a group.
    """
    out: dict[str, Any] = {}
    for key, text in options.items():
        if not key.startswith("fs.") or key.lower().startswith(_OF_HADOOP):
            continue
        *outer, last = key[3:].split(".")
        target = out
        for name in outer:
            target = target.setdefault(name, {})
            if not isinstance(target, dict):
                raise InvalidInputError(f"option {key}: {name} is given both as a value and as a group")
        target[last] = _value(key, text)
    return out


def flat_arguments(options: Mapping[str, str]) -> dict[str, Any]:
    """The `fs.*` options by dotted names without the prefix; groups that are given as JSON too."""
    out: dict[str, Any] = {}

    def add(prefix: str, values: Mapping[str, Any]) -> None:
        for name, value in values.items():
            if isinstance(value, Mapping) and value:
                add(f"{prefix}{name}.", value)
            else:
                out[f"{prefix}{name}"] = value

    add("", arguments(options))
    return out


def _value(key: str, text: str) -> Any:
    stripped = text.strip()
    if stripped.lower() in ("true", "false"):
        return stripped.lower() == "true"
    if stripped.startswith(("{", "[")):
        try:
            return json.loads(stripped)
        except (ValueError, RecursionError) as e:
            raise InvalidInputError(f"option {key} is not valid JSON: {e}", option=key) from e
    number = integer_of(stripped) if key.endswith(_NUMBERS) and not stripped.startswith("-") else None
    return text if number is None else number


def true_or_false(key: str, value: Any) -> bool:
    """The value of an option that is true or false. Raises InvalidOptionError."""
    return value if isinstance(value, bool) else bool(Option(key, boolean, False, "").get({key: str(value)}))


def check_address(key: str, value: Any) -> None:
    """Check that an address begins with http:// or https://. Raises InvalidOptionError."""
    if "://" not in str(value):
        raise InvalidOptionError(f"option {key} = {value!r} lacks http:// or https:// in front", option=key)


def refuse_unknown(key: str, known: Sequence[str]) -> None:
    """Refuse an option that a store does not have, naming the nearest of those it has.

    Raises InvalidOptionError.
    """
    near = [k for k in known if is_one_edit_away(key, k)]
    if near:
        raise InvalidOptionError(f"unknown option {key!r}; did you mean {near[0]!r}?", option=key)
    if key[3:].split(".")[0] in _OF_FSSPEC:
        raise InvalidOptionError(
            f"option {key!r} tunes a client of fsspec, by which this store is no longer reached; leave it out",
            option=key,
        )
    raise InvalidOptionError(f"unknown option {key!r}{did_you_mean(key, known)}", option=key)
