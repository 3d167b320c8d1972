"""Names and paths of tables, with their `$` suffixes, and configured defaults.

Defaults come from `PAIMON_WAREHOUSE` and a TOML file, `~/.config/paimon-spark/config.toml` or the one that
`PAIMON_CONFIG` names: `warehouse = "s3://lake/wh"`, file system options: `"fs.key" = "…"`, or `[s3]` with
`endpoint = "…"`, and what catalogs record: `table-lineage = true`. `PAIMON_TABLE_LINEAGE` and `PAIMON_DATA_LINEAGE`
go before the file.

Source: Java `catalog/Identifier` for names with `$`; `CatalogUtils` for the layout of a warehouse.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

from paimon_spark.errors import InvalidInputError, InvalidOptionError
from paimon_spark.options.descriptor import unknown_option
from paimon_spark.options.known import is_storage_option
from paimon_spark.options.lineage import DATA_LINEAGE, OF_CATALOG, TABLE_LINEAGE

DATABASE_SUFFIX: Final = ".db"
MAIN: Final = "main"
BRANCH_PREFIX: Final = "branch_"
_BRANCH_DIRECTORY: Final = re.compile(r"(?P<table>.+)/branch/branch-(?P<branch>[^/]+)")
_SAVEPOINTS: Final = "#savepoints"
"""PIP-4's spelling of `$savepoints`."""
_NAME: Final = re.compile(r"(?:`[^`/\\]+`|[^`./\\]+)(?:\.(?:`[^`/\\]+`|[^`./\\]+)){1,2}")
_PART: Final = re.compile(r"`[^`]+`|[^.]+")
_QUALIFIED: Final = 3
CATALOG: Final = "paimon"
"""The name of a catalog that was given no other one."""


@dataclass(frozen=True, slots=True)
class TableName:
    """The name of a table, which need not exist, in a catalog, or its path.

    Attributes:
        database: in the catalog; empty for a path.
        table: in the database, or the path.
        branch: from `$branch_…`; None when none is named.
        system: name of a system table, such as `tags`; None for the table itself.
        is_of_session: the branch is that of the setting `spark.paimon.branch`, and was not named.
    """

    database: str
    table: str
    branch: str | None = None
    system: str | None = None
    is_of_session: bool = False

    @property
    def suffix(self) -> str:
        """Suffix of the table's name: `$branch_<branch>`, `$<system table>`, both or empty."""
        branch = "" if self.branch is None else f"$branch_{self.branch}"
        return branch + ("" if self.system is None else f"${self.system}")

    @property
    def last_part(self) -> str:
        """The name without the database, as written."""
        return self.table + self.suffix

    @property
    def text(self) -> str:
        """The name as `Catalog.table` takes it."""
        return self.bare + self.suffix

    @property
    def bare(self) -> str:
        """The name without branch and system table, as methods of `Catalog` take it."""
        return f"`{self.database}`.`{self.table}`" if self.database else self.table

    @property
    def shown(self) -> str:
        """The name as messages show it, without branch and system table."""
        return self.bare.replace("`", "") if self.database else self.table

    def __str__(self) -> str:
        """The name as messages show it."""
        return self.text.replace("`", "")

    @property
    def as_named(self) -> TableName:
        """The name without the branch of the session, where a version or another branch is chosen."""
        return replace(self, branch=None, is_of_session=False) if self.is_of_session else self

    def refuse_branch_of_session(self, verb: str) -> None:
        """Refuse to drop, rename or replace a whole table where the session works on a branch of it.

        Raises InvalidInputError.
        """
        if self.is_of_session:
            raise InvalidInputError(
                f"{self.as_named} would be {verb} with all its branches, and this session works on its branch "
                f"{self.branch!r} (spark.paimon.branch); unset that, or change the rows of the branch",
                table=str(self.as_named),
                branch=self.branch,
            )

    def refuse_suffix(self, verb: str) -> None:
        """Check that no branch and no system table is named. Raises InvalidOptionError."""
        if self.branch is not None or self.system is not None:
            what = "a branch" if self.system is None else "a system table"
            raise InvalidOptionError(f"{self} is {what}; only a whole table can be {verb}", name=str(self))


def parse_table(text: str, *, has_warehouse: bool) -> TableName:
    """The table that `text` names: a path, or `db.t` where there is a warehouse.

    Raises InvalidOptionError: as `split_suffix`, or the path is the directory of a branch.
    """
    bare, branch, system_table = split_suffix(text.strip())
    if has_warehouse and is_name(bare):
        return TableName(*split_name(bare), branch, system_table)
    directory = _BRANCH_DIRECTORY.fullmatch(bare)
    if directory is not None:
        raise InvalidOptionError(
            f"{bare!r} is the directory of branch {directory['branch']!r}; give the path of the table, "
            f'{directory["table"]!r}, with option("branch", "{directory["branch"]}")',
            path=bare,
            branch=directory["branch"],
        )
    return TableName("", bare, branch, system_table)


def is_name(text: str) -> bool:
    """Whether `text` can be the name `db.t` in a warehouse; paths hold a slash, or start with a dot."""
    return _NAME.fullmatch(text) is not None


def no_warehouse(text: str) -> InvalidOptionError:
    """The error for a table named `db.t` where no warehouse is known."""
    return InvalidOptionError(
        f"{text!r} is a name in a warehouse, and no warehouse is given; give the option warehouse or set "
        f"{WAREHOUSE_VARIABLE}, or write './{text}' for a path",
        option="warehouse",
        name=text,
    )


def split_name(text: str, catalog: str = CATALOG) -> tuple[str, str]:
    """Database and table of `db.t`, or of `paimon.db.t` in the catalog of that name, without backquotes.

    Raises InvalidOptionError: not the name of a table, or of one in another catalog.
    """
    if not is_name(text):
        raise InvalidOptionError(f"{text!r} is not the name of a table; expected database.table", name=text)
    database, table = (p.strip("`") for p in _PART.findall(in_catalog(text, catalog)))
    return database, table


def in_catalog(text: str, catalog: str) -> str:
    """The name of a table, branch or system table without the name of its catalog in front.

    Raises InvalidOptionError: it begins with the name of another catalog.
    """
    bare, dollar, rest = text.partition("$")
    if not is_name(bare) or len(parts := _PART.findall(bare)) < _QUALIFIED:
        return text
    first = parts[0].strip("`")
    if first.lower() != catalog.lower():
        raise InvalidOptionError(
            f"{text!r} names a table of catalog {first!r}, and this catalog is {catalog!r}; write database.table for "
            f"a table of this one, or use catalog {first!r}",
            name=text,
            catalog=first,
        )
    return ".".join(parts[1:]) + dollar + rest


def database_url(warehouse: str, database: str) -> str:
    """The directory of a database."""
    return f"{_trimmed(warehouse)}/{check_part(database, 'database')}{DATABASE_SUFFIX}"


def table_url(warehouse: str, database: str, table: str) -> str:
    """The directory of a table."""
    return f"{database_url(warehouse, database)}/{check_part(table, 'table')}"


def split_suffix(text: str) -> tuple[str, str | None, str | None]:
    """Table, branch and system table of `t`, `t$snapshots`, `t$branch_fix` or `t$branch_fix$snapshots`.

    `t#savepoints` is `t$savepoints`. Only the last segment of a path is looked at.

    Raises:
        InvalidOptionError: blank, or `$` parts of another form.
    """
    trimmed = _trimmed(text)
    head, slash, last = trimmed.rpartition("/")
    if last.endswith(_SAVEPOINTS):
        last = f"{last.removesuffix(_SAVEPOINTS)}${_SAVEPOINTS[1:]}"
    table, *suffixes = last.split("$")
    if not table:
        raise InvalidOptionError(f"{text!r} names no table; give a path, a URL or database.table", path=text)
    branch = None
    if suffixes and suffixes[0].startswith(BRANCH_PREFIX):
        branch = suffixes.pop(0).removeprefix(BRANCH_PREFIX)
    if len(suffixes) > 1 or "" in suffixes or branch == "":
        raise InvalidOptionError(
            f"{text!r}: expected table, table$branch_<name>, table$<system table> or "
            "table$branch_<name>$<system table>",
            path=text,
        )
    return head + slash + table, branch, suffixes[0] if suffixes else None


def branch_in_force(name: TableName, option: str | None) -> str:
    """The branch of the name, else of the option, else main. Raises InvalidOptionError: the two differ."""
    if name.branch is not None and option is not None and name.branch != option:
        raise InvalidOptionError(
            f"two branches are given for table {name.shown}: $branch_{name.branch} in its name and "
            f"branch = {option!r}; give one of them",
            branch=option,
            table=name.shown,
        )
    return name.branch or option or MAIN


def check_part(name: str, what: str) -> str:
    """A name that can be that of a directory. Raises InvalidOptionError."""
    if not name or name in (".", "..") or any(c in name for c in "/\\\0"):
        raise InvalidOptionError(f"{name!r} cannot be the name of a {what}", name=name)
    return name


def _trimmed(text: str) -> str:
    """Without trailing slashes, except those of a root."""
    trimmed = text.rstrip("/")
    return trimmed if trimmed and not trimmed.endswith(":") else text


TABLE_DEFAULT: Final = "table-default."
"""How options begin that are for tables to be made."""


def table_defaults(options: Mapping[str, str]) -> dict[str, str]:
    """Options for tables that a catalog with these options creates."""
    return {k.removeprefix(TABLE_DEFAULT): v for k, v in options.items() if k.startswith(TABLE_DEFAULT)}


SESSION_BRANCH: Final = "branch"
"""Option of a catalog or session: the branch to which reads and writes go of the tables that have it."""
CREATE_BRANCH: Final = "branch.create"
"""Option beside it: whether a write to a table that lacks the branch creates it from the head."""


def without_table_defaults(options: Mapping[str, str]) -> dict[str, str]:
    """Options for tables that exist already, of those of a catalog."""
    own = (*OF_CATALOG, SESSION_BRANCH, CREATE_BRANCH)
    return {k: v for k, v in options.items() if not k.startswith(TABLE_DEFAULT) and k not in own}


WAREHOUSE_VARIABLE: Final = "PAIMON_WAREHOUSE"
CONFIG_VARIABLE: Final = "PAIMON_CONFIG"
_VARIABLES: Final = {
    "warehouse": WAREHOUSE_VARIABLE,
    TABLE_LINEAGE.key: "PAIMON_TABLE_LINEAGE",
    DATA_LINEAGE.key: "PAIMON_DATA_LINEAGE",
}
"""Environment variables that go before the configuration file, by key."""


def configured(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """`warehouse`, file system and lineage options of environment and configuration file.

    Raises:
        InvalidOptionError: the file cannot be read, or has an unknown option.
    """
    variables = os.environ if environ is None else environ
    named = variables.get(CONFIG_VARIABLE)
    path = named or os.path.join(
        variables.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config"),
        "paimon-spark",
        "config.toml",
    )
    out = dict(_from_file(path, _changed_ns(path, bool(named))))
    out.update({key: variables[name] for key, name in _VARIABLES.items() if variables.get(name)})
    return out


def _changed_ns(path: str, must_exist: bool) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError as e:
        if must_exist:
            raise InvalidOptionError(
                f"the configuration file {path} that {CONFIG_VARIABLE} names cannot be read: {e.strerror}", path=path
            ) from e
        return 0


@lru_cache(maxsize=4)
def _from_file(path: str, changed_ns: int) -> Mapping[str, str]:
    if not changed_ns:
        return {}
    try:
        with open(path, "rb") as f:
            tree = _parse_toml(f.read())
    except (OSError, ValueError) as e:
        raise InvalidOptionError(f"the configuration file {path} cannot be read: {e}", path=path) from e
    options = _flat(tree, path)
    for key in options:
        if key != "warehouse" and key not in OF_CATALOG and not is_storage_option(key):
            error = unknown_option(key, ["warehouse", *OF_CATALOG, "fs", "s3"], "configuration")
            known = f"known are warehouse, {', '.join(OF_CATALOG)}, fs.* and s3.*"
            raise InvalidOptionError(f"{error} in {path}; {known}", option=key, path=path)
    return options


def _parse_toml(data: bytes) -> dict[str, Any]:
    import tomllib  # imported here: most sessions have no configuration file

    return tomllib.loads(data.decode())


def _flat(tree: Mapping[str, Any], path: str, prefix: str = "") -> dict[str, str]:
    """Nested tables joined by dots, values as option text."""
    out: dict[str, str] = {}
    for key, value in tree.items():
        name = prefix + key
        if isinstance(value, Mapping):
            out.update(_flat(value, path, name + "."))
        elif isinstance(value, bool):
            out[name] = str(value).lower()
        elif isinstance(value, (str, int, float)):
            out[name] = str(value)
        else:
            raise InvalidOptionError(f"{name} in {path}: expected text, a number or true/false", option=name, path=path)
    return out
