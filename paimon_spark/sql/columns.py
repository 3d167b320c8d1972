"""Names of columns in statements → names as a table has them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from paimon_spark.errors import ColumnNotFoundError
from paimon_spark.options.descriptor import did_you_mean
from paimon_spark.types import in_any_case

if TYPE_CHECKING:
    from paimon_spark.api.table import Table


def column_name(table: Table, name: str, columns: Iterable[str], what: str = "column") -> str:
    """The name of a column as the table writes it, given in any case.

    Args:
        table: for messages.
        name: as the statement has it.
        columns: those of the table that can be meant.
        what: they are, for messages.

    Raises:
        ColumnNotFoundError: there is none, or several differ in case alone and none is written so.
    """
    names = list(columns)
    found = in_any_case(name, names)
    if found is None:
        raise ColumnNotFoundError(
            f"{table.handle.describe()} has no {what} {name!r}{did_you_mean(name, names)}; it has "
            f"{', '.join(names) or 'none'}",
            column=name,
            table=table.name,
        )
    return found
