"""What Spark hands a data source as options, and the reverse."""

from __future__ import annotations

from collections.abc import Mapping

from paimon_spark.errors import InvalidOptionError
from paimon_spark.table.loading import open_scan
from paimon_spark.table.scan import Scan


def scan_of(options: Mapping[str, str]) -> Scan:
    """The read that `spark.read.options(…).load(path)` asks for.

    Args:
        options: as Spark gives them, keys in lower case; `path` is what `load` was given.

    Raises:
        InvalidOptionError: no path, or several; an unknown or wrong option.
        NotFoundError: the table or branch does not exist.
    """
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
    return open_scan(path, rest)
