"""Opened tables: from a path and options to a branch, at its head or at a version."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple, TypeAlias, TypeVar

from paimon_spark.catalogs.file_system import TablePlace
from paimon_spark.catalogs.open import default_warehouse, open_catalog
from paimon_spark.errors import InvalidInputError, InvalidOptionError, TableNotFoundError, UnsupportedFeatureError
from paimon_spark.metadata.handle import TableHandle, is_table, open_branch, open_table
from paimon_spark.options.known import is_storage_option
from paimon_spark.options.location import (
    TableName,
    branch_in_force,
    configured,
    is_name,
    no_warehouse,
    parse_table,
    split_suffix,
)
from paimon_spark.options.scan import (
    BRANCH,
    LOCATION_KEYS,
    START_KEYS,
    VERSION_AS_OF,
    ScanOptions,
    canonical,
    parse_scan_options,
)
from paimon_spark.storage.urls import open_store

OptionValue: TypeAlias = str | float | bool


class LackedBranch(NamedTuple):
    """The branch that a session or catalog works on, for a table that lacks it: reads go to main, changes do not.

    Attributes:
        set_by: the setting or option that names it, for messages.
        creates: whether the first change creates it from the head of main, by `branch.create`.
    """

    name: str
    set_by: str
    creates: bool


@dataclass(frozen=True, slots=True)
class OpenedTable:
    """A branch of a table as it was opened, at a version when one was named. Picklable.

    Attributes:
        handle: the opened branch.
        read_options: what every scan starts from.
        option_text: the same as the user gave it.
        system: name of a system table, such as `files`; empty for the table itself.
        lacked: the branch that is meant, where the table lacks it and was opened on main instead; else None.
    """

    handle: TableHandle
    read_options: ScanOptions = field(default_factory=ScanOptions)
    option_text: Mapping[str, str] = field(default_factory=dict, repr=False)
    system: str = field(default="", repr=False)
    lacked: LackedBranch | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        """How messages call the table: `db.t`, or its location; `db.t$files` is a system table."""
        return f"{self.handle.name}${self.system}" if self.system else self.handle.name

    @property
    def is_system(self) -> bool:
        """Whether it is a system table, such as `t$files`."""
        return bool(self.system)


T = TypeVar("T", bound=OpenedTable)


def open_path(path: str, options: Mapping[str, str]) -> OpenedTable:
    """The table at `path`, or called `path` in the option `warehouse`. Raises as `load_table`."""
    given = canonical(options)
    parsed = parse_scan_options(given)
    place, name = _find(path, given, parsed.branch, parsed.storage_options)
    system = _system_table(name)
    handle = open_place(place, parsed.table_options)
    text = {k: v for k, v in given.items() if k not in ("path", "warehouse")}
    return OpenedTable(handle, parsed, text, system or "")


def on_branch(table: T, name: str) -> T:
    """The same table on another branch, at its head. Raises BranchNotFoundError."""
    text = without_keys(table.option_text, (BRANCH.key, *BRANCH.fallbacks, *START_KEYS))
    options = replace(table.read_options.at(None), branch=name)
    return replace(
        table,
        handle=open_branch(table.handle, name),
        read_options=options,
        option_text={**text, BRANCH.key: name},
        lacked=None,
    )


def at_version(table: T, version: str | int) -> T:
    """The same table at a version, which is looked up when it is read. Raises InvalidInputError for invalid ones."""
    if isinstance(version, bool) or not isinstance(version, (str, int)):
        raise InvalidInputError(
            f"{version!r} is not a version of {table.handle.describe()}; give a snapshot id, or text such as a tag",
            table=table.handle.name,
        )
    text = {**without_keys(table.option_text, START_KEYS), VERSION_AS_OF: str(version)}
    return replace(table, read_options=table.read_options.at((VERSION_AS_OF, str(version))), option_text=text)


def open_place(place: TablePlace, options: Mapping[str, str]) -> TableHandle:
    """The table at a place, with options for this use. Raises as `open_table`, with the nearest names."""
    try:
        return open_table(place.store, place.root, place.branch, place.name, options)
    except TableNotFoundError as e:
        if place.catalog is None or is_table(place.store, place.root):
            raise
        raise place.catalog.no_table(place.database, place.table) from e


def find_place(
    path: str,
    options: Mapping[str, str],
    branch: str | None,
    storage_options: Mapping[str, str],
    *,
    advice: str = "which is only read; to write, name",
    is_read: bool = False,
) -> TablePlace:
    """The place of the table that `path` names, with the warehouse of `options`, the environment or the configuration.

    `advice` stands in the message about a system table, before the table's name. Only for a read may `db.t` without a
    warehouse be the path of a table.

    Raises:
        InvalidOptionError: `path` is blank, names two branches, a system table, or a table without its warehouse.
    """
    place, name = _find(path, options, branch, storage_options, is_read=is_read)
    system = _system_table(name)
    if system is not None:
        raise InvalidOptionError(
            f"{name.shown}${system} is a system table, {advice} {name.shown}",
            path=name.shown,
        )
    return place


def split_path(options: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """The path of `load(path)`, and the other options.

    Raises:
        InvalidOptionError: no path, or several.
        UnsupportedFeatureError: as `refuse_session_catalog`.
    """
    rest = dict(options)
    refuse_session_catalog(rest)
    if "paths" in rest:
        raise InvalidOptionError(
            f"load() was given several paths ({rest['paths']}); a table has one: load them one by one and union them",
            option="paths",
        )
    path = rest.pop("path", None)
    if path is None:
        raise _no_path("load")
    return path, rest


def required_path(options: Mapping[str, str], method: str) -> str:
    """The path of `save()` or `start()` among its options. Raises InvalidOptionError: no path, or several."""
    path = options.get("path", "")
    if "paths" in options or not path.strip():
        raise _no_path(method)
    return path


_ATTACH: Final = (
    'attach the warehouse as a catalog, paimon_spark.attach(spark, "/warehouse"), and name the table paimon.db.t'
)
_SESSION_CATALOG: Final = {
    "load": "tables of Spark's session catalog cannot be Paimon tables: "
    + _ATTACH
    + ", or CREATE TEMPORARY VIEW … USING "
    "paimon OPTIONS (path '…')",
    "save": "tables of Spark's session catalog cannot be Paimon tables: " + _ATTACH + " in saveAsTable, writeTo, "
    'insertInto and CREATE TABLE … AS SELECT, or use df.write.format("paimon").save("db.t")',
    "start": "tables of Spark's session catalog cannot be Paimon tables: " + _ATTACH + " in toTable, or use "
    'df.writeStream.format("paimon").start("db.t")',
}
"""What calls Spark makes without a path, and what to do instead."""


def _no_path(method: str) -> InvalidOptionError:
    return InvalidOptionError(
        f"no table is named: {method}() takes its location, or its name db.t with the option warehouse; "
        + _SESSION_CATALOG[method],
        option="path",
    )


def refuse_session_catalog(options: Mapping[str, str]) -> None:
    """Refuse CREATE TABLE by Spark's session catalog, which hands over what it would store.

    Raises UnsupportedFeatureError.
    """
    if {"owner", "provider"} <= options.keys():
        raise not_in_session_catalog()


def not_in_session_catalog() -> UnsupportedFeatureError:
    """The error of CREATE TABLE by Spark's session catalog."""
    return UnsupportedFeatureError(
        "CREATE TABLE … USING paimon in Spark's session catalog is not supported: " + _ATTACH + ", or CREATE "
        "TEMPORARY VIEW … USING paimon OPTIONS (path '…') for a table that exists",
        feature="tables of Spark's session catalog",
    )


def refuse_location_options(options: Iterable[str]) -> None:
    """Raise InvalidOptionError for an option that sets the location of a table, which is open already."""
    for key in options:
        if key.lower() in LOCATION_KEYS:
            raise InvalidOptionError(
                f"option {key} sets the location of a table; give it to load_table or load_catalog", option=key
            )


def as_text(options: Mapping[str, OptionValue]) -> dict[str, str]:
    """Option values as text, as Spark passes them."""
    return {k: str(v).lower() if isinstance(v, bool) else str(v) for k, v in options.items()}


def _find(
    path: str,
    options: Mapping[str, str],
    branch: str | None,
    storage_options: Mapping[str, str],
    *,
    is_read: bool = True,
) -> tuple[TablePlace, TableName]:
    """The place of a table, and the parts of its name."""
    defaults = configured()
    storage = {**{k: v for k, v in defaults.items() if is_storage_option(k)}, **storage_options}
    warehouse = options.get("warehouse") or defaults.get("warehouse", "")
    if not warehouse and is_name(split_suffix(path.strip())[0]):
        warehouse = default_warehouse(storage)
    name = parse_table(path, has_warehouse=bool(warehouse))
    in_force = branch_in_force(name, branch)
    if name.database:
        catalog = open_catalog(warehouse, storage)
        place = catalog.place(name.database, name.table)
        catalog.check_listed(place)
        return place._replace(branch=in_force), name
    store, root = open_store(name.table, storage)
    if is_name(name.table) and not (is_read and is_table(store, root)):
        raise no_warehouse(name.table)
    if not is_read and options.get("warehouse") and "/" not in name.table and not name.table.startswith("."):
        raise InvalidOptionError(
            f"{name.table!r} is not the name of a table in a warehouse; write database.table, or "
            f"'./{name.table}' for a path",
            name=name.table,
        )
    return TablePlace(store, root, branch=in_force), name


def _system_table(name: TableName) -> str | None:
    """The canonical name of the system table in a name. Raises InvalidOptionError: it does not exist."""
    if name.system is None:
        return None
    from paimon_spark.system_tables.registry import find  # only reads of system tables pay for them
    from paimon_spark.system_tables.views import SystemView

    found = find(name.system, name.shown)
    return found.value if isinstance(found, SystemView) else found.name


def without_keys(options: Mapping[str, str], keys: Sequence[str]) -> dict[str, str]:
    """The options without `keys`."""
    return {k: v for k, v in options.items() if k not in keys}
