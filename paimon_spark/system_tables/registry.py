"""System tables by name, in any case as in Java, and the read of those made from metadata."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from paimon_spark.errors import InvalidOptionError
from paimon_spark.foreign.statements import METADATA_TABLES, instead_of_table
from paimon_spark.options.descriptor import did_you_mean
from paimon_spark.predicate.ast import Predicate
from paimon_spark.system_tables import files, history
from paimon_spark.system_tables.listing import Asked, Listing
from paimon_spark.system_tables.views import SystemView

if TYPE_CHECKING:
    import pyarrow as pa

LISTINGS: Final[dict[str, Listing]] = {
    listing.name: listing for module in (history, files) for listing in module.LISTINGS
}
"""System tables that are made from metadata."""

VIEWS: Final[dict[str, SystemView]] = {view.value: view for view in SystemView}
"""System tables that show the table's rows in another form."""

NAMES: Final = (*LISTINGS, *VIEWS)


def find(name: str, table: str) -> Listing | SystemView:
    """The system table called `name`, in any case; `table` is for messages. Raises InvalidOptionError."""
    lower = name.lower()
    found: Listing | SystemView | None = LISTINGS.get(lower) or VIEWS.get(lower)
    if found is not None:
        return found
    foreign = instead_of_table(name, table)
    if foreign is None:
        near = did_you_mean(lower, NAMES)
        others = " A" if near else "; there are snapshots, tags, branches, files, partitions and others, and a"
        advice = f"{near}{others} branch is written $branch_<name>"
    elif lower in METADATA_TABLES:
        advice = f"; in place of Iceberg's {lower}, read {foreign}"
    else:
        advice = f"; a query reads that version by {foreign}"
    raise InvalidOptionError(f"{table}${name}: there is no system table {name!r}{advice}", path=table)


@dataclass(frozen=True, slots=True)
class ListingReading:
    """The read of a listing by one task: the rows that satisfy the predicate, with columns `names`. Picklable."""

    system: str
    asked: Asked
    names: tuple[str, ...]
    predicate: Predicate | None

    def read(self) -> Iterator[pa.RecordBatch]:
        """The rows in batches."""
        from paimon_spark.predicate.arrow import matches

        listing = find(self.system, self.asked.handle.name)
        assert isinstance(listing, Listing)
        for batch in listing.read(self.asked):
            kept = batch if self.predicate is None else batch.filter(matches(self.predicate, batch))
            yield kept.select(list(self.names))
