"""Scans of opened tables and of paths, with more options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from paimon_spark.errors import InvalidInputError, InvalidOptionError
from paimon_spark.jobs.opened_table import (
    OpenedTable,
    OptionValue,
    as_text,
    open_path,
    refuse_location_options,
    without_keys,
)
from paimon_spark.jobs.scan import Scan
from paimon_spark.metadata.handle import TableHandle, open_table
from paimon_spark.metadata.resolve import resolve
from paimon_spark.metadata.version import from_option
from paimon_spark.options.lineage import refuse_follow
from paimon_spark.options.scan import (
    BRANCH,
    COLUMNS,
    ScanOptions,
    canonical,
    parse_scan_options,
    with_stored_start,
    without_start,
)

if TYPE_CHECKING:
    import pyarrow.compute as pc


def open_scan(path: str, options: Mapping[str, str]) -> Scan:
    """The read that `options` ask for, of the table at `path`. Raises as `load_table`."""
    table = open_path(path, options)
    if table.is_system:
        return scan_of(table)
    refuse_follow(table.handle.overrides, "a batch read")
    asked = with_stored_start(table.read_options, table.option_text, table.handle.schema.options)
    return Scan(table.handle, asked, table.option_text)  # opened just now


def scan_of(
    table: OpenedTable,
    columns: Sequence[str] | None = None,
    where: str | pc.Expression | None = None,
    options: Mapping[str, OptionValue] | None = None,
) -> Scan:
    """One read of the table, with its current definition. Raises as `Table.scan`."""
    if where is not None and not isinstance(where, str):
        scan = scan_of(table, columns, options=options)
        return replace(scan, options=replace(scan.options, where=_sql_of(where, scan)))
    given, text = table.read_options, dict(table.option_text)
    if options:
        given, text = _with_options(table, as_text(options))
    if isinstance(columns, str):
        raise InvalidOptionError(f"columns = {columns!r}: expected a list of names", option=COLUMNS.key)
    if columns is not None:
        given = replace(given, columns=tuple(columns))
    if where is not None:
        given = replace(given, where=where)
    handle = _reopened(table.handle, given)
    refuse_follow(handle.overrides, "a batch read")
    if table.is_system:
        from paimon_spark.jobs.system_scan import SystemScan

        return SystemScan(handle, given, text, system=table.system)
    return Scan(handle, with_stored_start(given, text, handle.schema.options), text)


def _sql_of(where: object, scan: Scan) -> str:
    """A condition on the columns of a read as SQL. Raises InvalidInputError."""
    import pyarrow.compute as pc

    if not isinstance(where, pc.Expression):
        raise InvalidInputError(
            f"where={where!r}: expected a condition as SQL text, or an expression of pyarrow.compute", argument="where"
        )
    from paimon_spark.predicate.other_engines import sql_of

    return sql_of(where, scan.schema.row_type)


def schema_scan(table: OpenedTable) -> Scan:
    """The read whose schema is the table's: a start in the table's own options applies to scans only."""
    if table.is_system:
        return scan_of(table)
    return Scan(_reopened(table.handle, table.read_options), table.read_options, table.option_text)


def check_version(table: OpenedTable) -> None:
    """Check that the version that a table was opened at exists. Raises as `resolve`."""
    given = table.read_options
    if given.version is not None:
        resolve(_reopened(table.handle, given), from_option(*given.version, given.time_zone))


def _reopened(handle: TableHandle, given: ScanOptions) -> TableHandle:
    """The table with its current definition: columns and options may have changed since it was opened."""
    branch = handle.branch if given.branch is None else given.branch
    return open_table(handle.store, handle.layout.root, branch, handle.name, given.table_options)


def _with_options(table: OpenedTable, options: Mapping[str, str]) -> tuple[ScanOptions, dict[str, str]]:
    """The options that the table was opened with, overridden by `options`; parsed and as text."""
    given = canonical(options)
    refuse_location_options(given)
    text = without_start(table.option_text, given)
    if any(key in given for key in (BRANCH.key, *BRANCH.fallbacks)):
        text = without_keys(text, (BRANCH.key, *BRANCH.fallbacks))
    text.update(given)
    return parse_scan_options(text), text
