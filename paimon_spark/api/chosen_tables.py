"""Tables of a warehouse that regular expressions choose. In: a catalog. Out: databases and names of tables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from paimon_spark.errors import InvalidInputError

if TYPE_CHECKING:
    from paimon_spark.api.catalog import Catalog


def chosen_tables(
    catalog: Catalog, databases: str | None = None, including: str | None = None, excluding: str | None = None
) -> Iterator[tuple[str, str]]:
    """Database and name of each table that is chosen, in order; the expressions are for whole names.

    Args:
        catalog: whose tables are meant.
        databases: regular expression of databases; None is all.
        including: of tables, as `db.t`; None is all.
        excluding: of tables that are left out; None is none.

    Raises:
        InvalidInputError: one is no regular expression; at once.
    """
    return _chosen(catalog, _compiled(databases or ".*"), _compiled(including or ".*"), _compiled(excluding or ""))


def _chosen(
    catalog: Catalog, databases: re.Pattern[str], including: re.Pattern[str], excluding: re.Pattern[str]
) -> Iterator[tuple[str, str]]:
    for database in filter(databases.fullmatch, catalog.list_databases()):
        for table in catalog.list_tables(database):
            name = f"{database}.{table}"
            if including.fullmatch(name) and not excluding.fullmatch(name):
                yield database, table


def _compiled(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as e:
        raise InvalidInputError(f"{text!r} is no regular expression: {e}", pattern=text) from e
