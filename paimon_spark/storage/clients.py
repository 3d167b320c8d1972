"""Clients of fsspec: their arguments, and the status that their errors report."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, Final

from paimon_spark.errors import InvalidOptionError
from paimon_spark.options.descriptor import did_you_mean, is_one_edit_away

_OF_FSSPEC: Final = ("skip_instance_cache", "use_listings_cache", "listings_expiry_time", "max_paths")


def check_arguments(cls: Any, arguments: Mapping[str, Any]) -> None:
    """Check that no option `fs.…` of a user is nearly an argument of a file system. Raises InvalidOptionError."""
    known = _arguments(cls)
    for name in arguments:
        near = [k for k in known if is_one_edit_away(name, k)] if name not in known else []
        if near:
            raise InvalidOptionError(f"unknown option 'fs.{name}'; did you mean 'fs.{near[0]}'?", option=f"fs.{name}")


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
