"""Where a table lies and what of it is meant: a path or a name, a branch, a system table.

Source: Java `catalog/Identifier` for names with `$`; `CatalogUtils` for the layout of a warehouse.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from paimon_spark.errors import InvalidOptionError

DATABASE_SUFFIX: Final = ".db"
MAIN: Final = "main"
_BRANCH_PREFIX: Final = "branch_"
_NAME: Final = re.compile(r"(?:`[^`/\\]+`|[^`./\\]+)(?:\.(?:`[^`/\\]+`|[^`./\\]+)){1,2}")


@dataclass(frozen=True, slots=True)
class TableLocation:
    """A table as the user named it.

    Attributes:
        url: the table's own directory.
        name: for messages: `db.t`, or the path as given.
        branch: from `$branch_…`; None when the text names none.
        system_table: what follows the last `$`, such as `snapshots`; None for the table itself.
    """

    url: str
    name: str
    branch: str | None = None
    system_table: str | None = None


def locate(text: str, options: Mapping[str, str]) -> TableLocation:
    """The table that `text` names: a path or URL, or `db.t` in the `warehouse` of `options`.

    Raises:
        InvalidOptionError: `text` is blank or its `$` parts are not of a table.
    """
    bare, branch, system_table = split_suffix(text.strip())
    warehouse = options.get("warehouse")
    if warehouse and is_name(bare):
        database, table = split_name(bare)
        return TableLocation(table_url(warehouse, database, table), f"{database}.{table}", branch, system_table)
    return TableLocation(bare, bare, branch, system_table)


def is_name(text: str) -> bool:
    """Whether `text` can be the name `db.t` in a warehouse; paths hold a slash, or start with a dot."""
    return _NAME.fullmatch(text) is not None


def split_name(text: str) -> tuple[str, str]:
    """Database and table of `db.t`; backquotes go, and so does a catalog in front (`paimon.db.t`).

    Raises:
        InvalidOptionError: not such a name.
    """
    if not is_name(text):
        raise InvalidOptionError(f"{text!r} is not the name of a table; expected database.table", name=text)
    parts = [p.strip("`") for p in re.findall(r"`[^`]+`|[^.]+", text)]
    return parts[-2], parts[-1]


def quoted(name: str) -> str:
    """`name` as an identifier of Spark's SQL: in backquotes."""
    return "`" + name.replace("`", "``") + "`"


def database_url(warehouse: str, database: str) -> str:
    """The directory of a database."""
    return f"{_trimmed(warehouse)}/{_checked(database, 'database')}{DATABASE_SUFFIX}"


def table_url(warehouse: str, database: str, table: str) -> str:
    """The directory of a table."""
    return f"{database_url(warehouse, database)}/{_checked(table, 'table')}"


def split_suffix(text: str) -> tuple[str, str | None, str | None]:
    """Table, branch and system table of `t`, `t$snapshots`, `t$branch_fix` or `t$branch_fix$snapshots`.

    Only the last segment of a path is looked at.

    Raises:
        InvalidOptionError: blank, or `$` parts of another form.
    """
    trimmed = _trimmed(text)
    head, slash, last = trimmed.rpartition("/")
    table, *suffixes = last.split("$")
    if not table:
        raise InvalidOptionError(f"{text!r} names no table; give a path, a URL or database.table", path=text)
    branch = None
    if suffixes and suffixes[0].startswith(_BRANCH_PREFIX):
        branch = suffixes.pop(0).removeprefix(_BRANCH_PREFIX)
    if len(suffixes) > 1 or "" in suffixes or branch == "":
        raise InvalidOptionError(
            f"{text!r}: expected table, table$branch_<name>, table$<system table> or "
            "table$branch_<name>$<system table>",
            path=text,
        )
    return head + slash + table, branch, suffixes[0] if suffixes else None


def branch_in_force(location: TableLocation, option: str | None) -> str:
    """The branch to read: of the name, else of the option, else main.

    Raises:
        InvalidOptionError: both are given and differ.
    """
    if location.branch is not None and option is not None and location.branch != option:
        raise InvalidOptionError(
            f"two branches are given for table {location.name}: $branch_{location.branch} in its name and "
            f"branch = {option!r}; give one of them",
            branch=option,
            table=location.name,
        )
    return location.branch or option or MAIN


def _checked(name: str, what: str) -> str:
    if not name or name in (".", "..") or any(c in name for c in "/\\\0"):
        raise InvalidOptionError(f"{name!r} cannot be the name of a {what}", name=name)
    return name


def _trimmed(text: str) -> str:
    """Without trailing slashes, except those of a root."""
    trimmed = text.rstrip("/")
    return trimmed if trimmed and not trimmed.endswith(":") else text
