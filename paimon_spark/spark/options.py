"""Options that Spark gives a data source → scans and streams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from paimon_spark.errors import InvalidOptionError
from paimon_spark.types import RowType

if TYPE_CHECKING:
    from paimon_spark.jobs.scan import Scan
    from paimon_spark.jobs.stream_read import OpenStream


def scan_of(options: Mapping[str, str]) -> Scan:
    """The read that `spark.read.options(…).load(path)` asks for.

    Args:
        options: as Spark gives them, keys in lower case; `path` is what `load` was given.

    Raises:
        InvalidOptionError: no path, or several; an unknown or wrong option.
        NotFoundError: the table or branch does not exist.
    """
    from paimon_spark.jobs.table_scan import open_scan  # streams do without

    path, rest = _named(options)
    return open_scan(path, rest)


def stream_of(options: Mapping[str, str], columns: Sequence[str]) -> OpenStream:
    """The stream that `spark.readStream.options(…).load(path)` asks for, of these columns.

    Raises as `jobs.stream_read.open_columns`.
    """
    from paimon_spark.jobs.stream_read import open_columns

    path, rest = _named(options)
    return open_columns(path, rest, columns)


def stream_columns(options: Mapping[str, str]) -> RowType:
    """The columns of such a stream when none are declared. Raises as `stream_of`."""
    from paimon_spark.jobs.stream_read import stream_row_type

    path, rest = _named(options)
    return stream_row_type(path, rest)


def _named(options: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """The path, and the other options."""
    rest = dict(options)
    if "paths" in rest:
        raise InvalidOptionError(
            f"load() was given several paths ({rest['paths']}); a table has one: load them one by one and union them",
            option="paths",
        )
    path = rest.pop("path", None)
    if path is None:
        raise InvalidOptionError(
            "no table is named: load() takes its location, or its name db.t with the option warehouse", option="path"
        )
    return path, rest
