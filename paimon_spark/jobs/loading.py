"""From what a user writes to an opened table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from paimon_spark.api.scan import Scan
from paimon_spark.api.table import Table
from paimon_spark.errors import InvalidOptionError
from paimon_spark.metadata.handle import open_table
from paimon_spark.options.known import is_storage_option
from paimon_spark.options.location import TableLocation, branch_in_force, configured, locate
from paimon_spark.options.scan import canonical, parse_scan_options, with_stored_start
from paimon_spark.storage.store import Store
from paimon_spark.storage.urls import open_store

OptionValue: TypeAlias = str | float | bool


def load_table(path: str, **options: OptionValue) -> Table:
    """The table at `path`, or called `path` in the option `warehouse`.

    Args:
        path: a path or URL, or `db.t`; `$branch_<name>` may follow, and `$<system table>`, such as `$files`.
        options: options of reads, of the table and of the file system; those with dots as `**{"scan.tag-name": "v1"}`.

    Raises:
        TableNotFoundError, BranchNotFoundError: it does not exist.
        InvalidOptionError: an option is unknown or wrong, or there is no such system table.
    """
    return load(path, as_text(options))


def load(path: str, options: Mapping[str, str]) -> Table:
    """As `load_table`, from option text."""
    given = canonical(options)
    parsed = parse_scan_options(given)
    place, location = _find(path, given, parsed.branch, parsed.storage_options)
    system = _system_table(location)
    handle = open_table(place.store, place.root, place.branch, place.name, parsed.table_options)
    text = {k: v for k, v in given.items() if k not in ("path", "warehouse")}
    if system is None:
        return Table(handle, parsed, text)
    from paimon_spark.api.system_table import SystemTable

    return SystemTable(handle, parsed, text, system)


class Place(NamedTuple):
    """Where a table is or will be: its store and directory, the branch meant, and how messages call it.

    `name` is None where the directory's name will do.
    """

    store: Store
    root: str
    branch: str
    name: str | None


def find_place(
    path: str,
    options: Mapping[str, str],
    branch: str | None,
    storage_options: Mapping[str, str],
    *,
    advice: str = "which is only read; to write, name",
) -> Place:
    """The place of the table that `path` names, which is not a system table.

    `warehouse` of `options`, the environment and the configuration file help. `advice` is what a message about a system
    table says of it, before the table's name.

    Raises:
        InvalidOptionError: `path` is blank, names two branches, or a system table.
    """
    place, location = _find(path, options, branch, storage_options)
    system = _system_table(location)
    if system is not None:
        raise InvalidOptionError(
            f"{location.name}${system} is a system table, {advice} {location.name}",
            path=location.name,
        )
    return place


def _find(
    path: str, options: Mapping[str, str], branch: str | None, storage_options: Mapping[str, str]
) -> tuple[Place, TableLocation]:
    """The place, and what of the table is named."""
    defaults = configured()
    location = locate(path, {"warehouse": defaults.get("warehouse", ""), **options})
    store, root = open_store(
        location.url, {**{k: v for k, v in defaults.items() if is_storage_option(k)}, **storage_options}
    )
    return Place(store, root, branch_in_force(location, branch), _shown(location)), location


def open_scan(path: str, options: Mapping[str, str]) -> Scan:
    """The read of everything that `options` ask for, from the table as it is now. Raises as `load_table`."""
    table = load(path, options)
    if type(table) is not Table:
        return table.scan()
    asked = with_stored_start(table.read_options, table.option_text, table.handle.schema.options)
    return Scan(table.handle, asked, table.option_text)  # opened just now


def as_text(options: Mapping[str, OptionValue]) -> dict[str, str]:
    """Option values as the text that Spark would hand over."""
    return {k: str(v).lower() if isinstance(v, bool) else str(v) for k, v in options.items()}


def _shown(location: TableLocation) -> str | None:
    """How messages call the table; None leaves it to its directory's name."""
    return None if location.name == location.url else location.name


def _system_table(location: TableLocation) -> str | None:
    """The system table that is meant, by its own name. Raises InvalidOptionError: there is none of that name."""
    if location.system_table is None:
        return None
    from paimon_spark.system_tables.registry import find  # only reads of system tables pay for them
    from paimon_spark.system_tables.views import View

    found = find(location.system_table, location.name)
    return found.value if isinstance(found, View) else found.name
