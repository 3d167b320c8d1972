"""One run of a command: its catalog, its table, and its confirmation."""

from __future__ import annotations

import json
import os
import shutil
import sys
from typing import TYPE_CHECKING, Any, Final

from paimon_spark.cli.exit_codes import NotConfirmedError
from paimon_spark.cli.session import spark_session
from paimon_spark.errors import NotFoundError, TableNotFoundError
from paimon_spark.operations.answer import Answer, rows
from paimon_spark.operations.operation import Operation, Request, UsageError
from paimon_spark.options.known import is_storage_option
from paimon_spark.options.location import configured, is_name, split_suffix
from paimon_spark.text import safe

if TYPE_CHECKING:
    from paimon_spark.api.catalog import Catalog
    from paimon_spark.api.table import Table

_NO_WAREHOUSE: Final = (
    "no warehouse is given; give --warehouse, set PAIMON_WAREHOUSE, or write warehouse = '…' into "
    "~/.config/paimon-spark/config.toml"
)
NOTHING: Final = Answer(None, lambda width: ())
"""The answer of a command that has printed everything itself."""


class CommandRequest(Request):
    """The arguments of one command line."""

    _opened: Table | None = None

    @property
    def warehouse(self) -> str | None:
        """The warehouse given or configured."""
        return self["warehouse"] or configured().get("warehouse")

    def catalog(self, *, may_create: bool = False) -> Catalog:
        """The catalog of the warehouse. Raises UsageError: none is known; WarehouseNotFoundError."""
        from paimon_spark.api.catalog import load_catalog
        from paimon_spark.catalogs.open import open_catalog

        if self.warehouse is None:
            raise UsageError(f"{self.caller}: {_NO_WAREHOUSE}", option="warehouse")
        catalog = load_catalog(self.warehouse, **{k: v for k, v in self["option"] or () if is_storage_option(k)})
        if not may_create:
            open_catalog(catalog.warehouse, catalog.options).exists()
        return catalog

    @property
    def table_text(self) -> str:
        given = self["table"]
        if self["path"]:
            if given or self["database"]:
                raise UsageError(f"{self.caller}: the table is given twice, by --path and by name; give one of them")
            return str(self["path"])
        if not self["database"]:
            return str(given)
        bare, dollar, rest = str(given).partition("$")
        return f"`{self['database']}`.`{bare}`{dollar}{rest}"

    def table_name(self, text: str) -> str:
        return text

    def start_spark(self) -> None:
        spark_session(verbose=self["verbose"])

    @property
    def time_zone(self) -> str | None:
        return dict(self["option"] or ()).get("time-zone")

    def table(self, text: str | None = None) -> Table:
        """The table that the command is about, on the branch given, or another one.

        Raises UsageError: no warehouse is known; TableNotFoundError: none such; the nearest names are offered.
        """
        if text is not None:
            return self._load(text)
        if self._opened is None:
            self._opened = self._load(self.table_text)
        return self._opened

    def _load(self, text: str) -> Table:
        from paimon_spark.api.table import load

        options = dict(self["option"] or ())
        if self["on_branch"]:
            options["branch"] = str(self["on_branch"])
        bare, warehouse = split_suffix(text)[0], self.warehouse
        if warehouse is not None:
            options["warehouse"] = warehouse
        elif is_name(bare) and not os.path.exists(bare):
            raise UsageError(f"table {bare}: {_NO_WAREHOUSE}, or name the table by its path", option="warehouse")
        try:
            return load(text, options)
        except TableNotFoundError as e:
            better = self._with_nearest(bare, e)
            if better is e:
                raise
            raise better from e

    def _with_nearest(self, name: str, error: TableNotFoundError) -> NotFoundError:
        """The error with the nearest names."""
        if is_name(name):
            if self.warehouse is not None:
                try:
                    self.catalog().table(name)
                except NotFoundError as better:
                    return better
            return error
        if os.path.exists(name) or set(name) & set("/\\:"):
            return error
        near = ""
        if self.warehouse is not None:
            catalog = self.catalog()
            databases = catalog.list_databases()
            tables = [f"{d}.{t}" for d in databases for t in catalog.list_tables(d) if name in (d, t)]
            near = f"; the databases of warehouse {self.warehouse} are {', '.join(databases) or 'none'}"
            near = f"; did you mean {', '.join(tables[:10])}?" if tables else near
        return TableNotFoundError(
            f"there is no table {name!r}: a table is named database.table, or by a path, and there is no such path here"
            f"{near}",
            table=name,
        )


def answer(operation: Operation, call: CommandRequest, *, asks_without_terminal: bool = True) -> Answer:
    """Run an operation, after confirmation where it deletes something.

    Where a dry run finds nothing to do, nothing is asked, and its answer is the answer.

    Without a terminal, NotConfirmedError is raised, or with `asks_without_terminal=False`, as for actions of other
    engines, which run as jobs, nothing is asked.
    """
    request: Request = call.planned() if call["dry_run"] else call
    is_silent = call["dry_run"] or call["yes"] or not (asks_without_terminal or has_terminal())
    question = None if operation.question is None or is_silent else operation.question(call)
    if question is not None:
        planned = call.planned()
        found = operation.run(planned)
        would = _shown(operation, planned, found)
        if _finds_nothing(operation, found):
            return would
        if not call["json"] or has_terminal():
            for line in would.text(None):
                print(line, file=sys.stderr)
        _confirm(question, would.data)
    return _shown(operation, request, operation.run(request))


def _finds_nothing(operation: Operation, planned: Any) -> bool:
    """Whether the dry run of an operation found nothing to do, so that there is nothing to confirm."""
    if getattr(planned, "already_merged", False):
        return True
    if not operation.searches:
        return False
    found = planned.values() if isinstance(planned, dict) else [planned]
    return all(each == type(each)() for each in found)  # what is neither deleted nor dropped has its default


def _shown(operation: Operation, request: Request, result: Any) -> Answer:
    shown = None if operation.show is None else operation.show(request, result)
    if shown is None:
        return rows_answer(operation.result, list(operation.rows(request, result)))
    return shown


def print_answer(found: Answer, *, as_json: bool) -> None:
    """Print an answer on stdout."""
    if found is NOTHING:
        return
    if as_json:
        encoding = (getattr(sys.stdout, "encoding", None) or "ascii").lower()
        print(json.dumps(found.data, indent=2, ensure_ascii=not encoding.startswith("utf")))
        return
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    for line in found.text(width):
        print(line)


def rows_answer(columns: str, found: list[Any], empty: str = "no rows") -> Answer:
    """Rows of a procedure; `columns` is DDL."""
    from paimon_spark.metadata.definition.ddl import row_type

    return rows(row_type(columns).names, found, empty=empty)


def has_terminal() -> bool:
    """Whether a user can type an answer."""
    return sys.stdin is not None and sys.stdin.isatty()


def _confirm(question: str, would: Any) -> None:
    if not has_terminal():
        raise NotConfirmedError(
            f"{question}: nothing was changed: no terminal to confirm on; pass --yes, or --dry-run to see what would "
            "be done",
            would=would,
        )
    print(f"{safe(question)}? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise NotConfirmedError(f"{question}: nothing was changed")
