"""Table.remove_orphan_files and Table.purge: what callers may give, as what `maintenance` takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paimon_spark.api.moments import Moment, moment_ms
from paimon_spark.jobs.branch_access import at_head, opened_anew
from paimon_spark.maintenance import orphan_files as orphans
from paimon_spark.maintenance import purge as purging
from paimon_spark.maintenance.orphan_files import RemovedOrphans
from paimon_spark.maintenance.removal import Removed

if TYPE_CHECKING:
    from paimon_spark.api.table import Table


def remove_orphan_files(table: Table, older_than: Moment | None, dry_run: bool) -> RemovedOrphans:
    """As `Table.remove_orphan_files`."""
    before = None if older_than is None else moment_ms(older_than, "older_than", table.read_options.time_zone)
    return orphans.remove_orphan_files(at_head(table), before, dry_run=dry_run)


def purge(table: Table, dry_run: bool) -> Removed:
    """As `Table.purge`."""
    return purging.purge(opened_anew(table), dry_run=dry_run)
