"""From what a user writes to an opened table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from paimon_spark.errors import InvalidOptionError, UnsupportedFeatureError
from paimon_spark.metadata.handle import open_table
from paimon_spark.options.config import configured
from paimon_spark.options.descriptor import did_you_mean
from paimon_spark.options.known import is_storage_option
from paimon_spark.options.location import TableLocation, branch_in_force, locate
from paimon_spark.options.scan import canonical, parse_scan_options
from paimon_spark.storage.store import Store
from paimon_spark.storage.urls import open_store
from paimon_spark.table.scan import Scan
from paimon_spark.table.table import Table

OptionValue: TypeAlias = str | float | bool
SYSTEM_TABLES = (
    "snapshots", "schemas", "options", "tags", "branches", "savepoints", "consumers", "files", "manifests",
    "partitions", "buckets", "audit_log", "binlog", "ro", "statistics", "aggregation_fields", "table_indexes",
)  # fmt: skip


def load_table(path: str, **options: OptionValue) -> Table:
    """The table at `path`, or called `path` in the option `warehouse`.

    Args:
        path: a path or URL, or `db.t`; `$branch_<name>` may follow.
        options: options of reads, of the table and of the file system; those with dots as `**{"scan.tag-name": "v1"}`.

    Raises:
        TableNotFoundError, BranchNotFoundError: it does not exist.
        InvalidOptionError: an option is unknown or wrong.
        UnsupportedFeatureError: a system table.
    """
    return load(path, as_text(options))


def load(path: str, options: Mapping[str, str]) -> Table:
    """As `load_table`, from option text."""
    given = canonical(options)
    parsed = parse_scan_options(given)
    place = find_place(path, given, parsed.branch, parsed.storage_options)
    handle = open_table(place.store, place.root, place.branch, place.name, parsed.table_options)
    return Table(handle, parsed, {k: v for k, v in given.items() if k not in ("path", "warehouse")})


class Place(NamedTuple):
    """Where a table is or will be: its store and directory, the branch meant, and how messages call it.

    `name` is None where the directory's name will do.
    """

    store: Store
    root: str
    branch: str
    name: str | None


def find_place(path: str, options: Mapping[str, str], branch: str | None, storage_options: Mapping[str, str]) -> Place:
    """The place that `path` names; `warehouse` of `options`, the environment and the configuration file help.

    Raises:
        InvalidOptionError: `path` is blank or names two branches.
        UnsupportedFeatureError: a system table.
    """
    defaults = configured()
    location = locate(path, {"warehouse": defaults.get("warehouse", ""), **options})
    _refuse_system_table(location)
    store, root = open_store(
        location.url, {**{k: v for k, v in defaults.items() if is_storage_option(k)}, **storage_options}
    )
    return Place(store, root, branch_in_force(location, branch), _shown(location))


def open_scan(path: str, options: Mapping[str, str]) -> Scan:
    """The read of everything that `options` ask for, from the table as it is now. Raises as `load_table`."""
    table = load(path, options)
    return Scan(table.handle, table.read_options, table.option_text)


def as_text(options: Mapping[str, OptionValue]) -> dict[str, str]:
    """Option values as the text that Spark would hand over."""
    return {k: str(v).lower() if isinstance(v, bool) else str(v) for k, v in options.items()}


def _shown(location: TableLocation) -> str | None:
    """How messages call the table; None leaves it to its directory's name."""
    return None if location.name == location.url else location.name


def _refuse_system_table(location: TableLocation) -> None:
    name = location.system_table
    if name is None:
        return
    if name in SYSTEM_TABLES:
        raise UnsupportedFeatureError(
            f"system table ${name} of {location.name} is not available yet; Table.snapshots(), .tags(), .branches() "
            "and .savepoints() list the history",
            feature=f"${name}",
        )
    raise InvalidOptionError(
        f"{location.name}${name}: there is no system table {name!r}{did_you_mean(name, SYSTEM_TABLES)}; "
        "a branch is written $branch_<name>",
        path=location.name,
    )
