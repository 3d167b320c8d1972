"""Which system tables there are. Names are the same in any case, as in Java."""

from __future__ import annotations

from typing import Final

from paimon_spark.errors import InvalidOptionError
from paimon_spark.options.descriptor import did_you_mean
from paimon_spark.system_tables import files, history, manifests, references, totals
from paimon_spark.system_tables.listing import Listing
from paimon_spark.system_tables.views import View

LISTINGS: Final[dict[str, Listing]] = {
    listing.name: listing for module in (history, references, files, totals, manifests) for listing in module.LISTINGS
}
"""System tables that are made from metadata."""

VIEWS: Final[dict[str, View]] = {view.value: view for view in View}
"""System tables that are other looks at the table's rows."""

NAMES: Final = (*LISTINGS, *VIEWS)


def find(name: str, table: str) -> Listing | View:
    """The system table called `name`, in any case.

    Args:
        name: what follows the last `$`.
        table: for messages.

    Raises:
        InvalidOptionError: there is none; the nearest names are offered.
    """
    lower = name.lower()
    found: Listing | View | None = LISTINGS.get(lower) or VIEWS.get(lower)
    if found is None:
        raise InvalidOptionError(
            f"{table}${name}: there is no system table {name!r}{did_you_mean(lower, NAMES)}; the system tables are "
            f"{', '.join(sorted(NAMES))}; a branch is written $branch_<name>",
            path=table,
        )
    return found
