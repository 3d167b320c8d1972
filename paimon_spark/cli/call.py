"""Call: what a command's function is given: the values of its arguments, the table, the catalog, and the question."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

from paimon_spark.cli.answer import Answer
from paimon_spark.cli.failure import NotConfirmedError, UsageError
from paimon_spark.cli.text import lines_of, safe
from paimon_spark.errors import NotFoundError, TableNotFoundError
from paimon_spark.options.known import is_storage_option
from paimon_spark.options.location import configured, is_name, split_suffix

if TYPE_CHECKING:
    from paimon_spark.api.catalog import Catalog
    from paimon_spark.api.table import Table

T = TypeVar("T")
_OF_THE_TABLE: Final = "branch"


@dataclass(frozen=True, slots=True)
class Call:
    """One run of a command.

    Attributes:
        values: of its arguments.
        what: the command's words, for messages.
    """

    values: Mapping[str, Any]
    what: str
    _told: list[str] = field(default_factory=list, repr=False)

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def get(self, name: str) -> Any:
        """The value of an argument, None where the command has no such argument."""
        return self.values.get(name)

    @property
    def warehouse(self) -> str | None:
        """The warehouse given or configured."""
        return self.get("warehouse") or configured().get("warehouse")

    def catalog(self, *, may_make: bool = False) -> Catalog:
        """The catalog of the warehouse.

        Args:
            may_make: whether the command may be the one that makes the warehouse, which need not be there then.

        Raises:
            UsageError: no warehouse is known.
            NoWarehouseError: there is no such directory.
        """
        from paimon_spark.api.catalog import load_catalog
        from paimon_spark.cli.warehouse import doubt

        if self.warehouse is None:
            raise UsageError(f"{self.what}: {_NO_WAREHOUSE}", option="warehouse")
        catalog = load_catalog(self.warehouse, **self._options(storage=True))
        if not may_make:
            doubted = doubt(catalog)
            if doubted is not None and not self.get("quiet"):
                warn(f"warning: {doubted}")
        return catalog

    @property
    def table_text(self) -> str:
        """How the table was named."""
        given = self.get("table")
        if self.get("path"):
            if given or self.get("database"):
                raise UsageError(f"{self.what}: the table is given twice, by --path and by name; give one of them")
            return str(self["path"])
        if self.get("database"):
            return f"`{self['database']}`.{_quoted(str(given))}"
        return str(given)

    def table(self, text: str | None = None, *, branch: str | None = None) -> Table:
        """The table that the command is about, on the branch given.

        Args:
            text: another table.
            branch: instead of option `--branch`.

        Raises:
            UsageError: no warehouse is known.
            TableNotFoundError: there is no such table; the nearest names are offered.
        """
        from paimon_spark.api.table import load

        named = self.table_text if text is None else text
        options = {**self._options(storage=True), **self._options(storage=False)}
        chosen = branch or self.get(_OF_THE_TABLE)
        if chosen:
            options["branch"] = str(chosen)
        bare = split_suffix(named)[0]
        warehouse = self.warehouse
        if warehouse is not None:
            options["warehouse"] = warehouse
        elif is_name(bare) and not os.path.exists(bare):
            raise UsageError(f"table {bare}: {_NO_WAREHOUSE}, or name the table by its path", option="warehouse")
        try:
            return load(named, options)
        except TableNotFoundError as e:
            if warehouse is not None and is_name(bare):
                self._nearest(bare, e)
            if not is_name(bare) and not os.path.exists(bare) and not set(bare) & set("/\\:"):
                raise self._no_database(bare) from e
            raise

    def _no_database(self, word: str) -> TableNotFoundError:
        """The error for one word, which is no path of this machine: a table without its database, or a database."""
        near = ""
        if self.warehouse is not None:
            catalog = self.catalog()
            databases = catalog.list_databases()
            tables = [f"{d}.{t}" for d in databases for t in catalog.list_tables(d) if word in (d, t)]
            near = f"; did you mean {', '.join(tables[:10])}?" if tables else ""
            near = near or f"; the databases of warehouse {self.warehouse} are {', '.join(databases) or 'none'}"
        return TableNotFoundError(
            f"there is no table {word!r}: a table is named database.table, or by a path, and there is no such path here"
            f"{near}",
            table=word,
        )

    def _nearest(self, name: str, error: TableNotFoundError) -> None:
        """Raise the error that offers the nearest names."""
        try:
            self.catalog().table(name)
        except NotFoundError as better:
            raise better from error

    def _options(self, *, storage: bool) -> dict[str, str]:
        return {k: v for k, v in self.get("option") or () if is_storage_option(k) == storage}

    def deleting(
        self,
        what: str,
        *,
        plan: Callable[[], T],
        act: Callable[[], T],
        answer: Callable[[T, bool], Answer],
    ) -> Answer:
        """Say what would go, ask, and do it.

        Args:
            what: the command, for the question.
            plan: finds out what would go, changing nothing.
            act: does it.
            answer: the answer of a result; with True, of what would be.

        Raises:
            NotConfirmedError: nobody said yes.
        """
        if self["dry_run"]:
            return answer(plan(), True)
        if self["yes"]:
            return answer(act(), False)
        would = answer(plan(), True)
        if not self["json"] or sys.stdin.isatty():
            for line in would.text(None):
                print(line, file=sys.stderr)
        if not sys.stdin.isatty():
            raise NotConfirmedError(
                f"{what}: nothing was changed, as nobody can be asked; give --yes to do it, or --dry-run to see what "
                "would go",
                would=would.data,
            )
        print(f"{safe(what)}? [y/N] ", end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            raise NotConfirmedError(f"{what}: nothing was changed")
        return answer(act(), False)


_NO_WAREHOUSE: Final = (
    "no warehouse is given; give --warehouse, set PAIMON_WAREHOUSE, or write warehouse = '…' into "
    "~/.config/paimon-spark/config.toml"
)


def _quoted(table: str) -> str:
    """The table of `--table` in a name: backquotes around what stands before `$`."""
    bare, dollar, rest = table.partition("$")
    return f"`{bare}`{dollar}{rest}"


def warn(text: str) -> None:
    """A line on stderr."""
    for line in lines_of(text):
        print(safe(line), file=sys.stderr)
