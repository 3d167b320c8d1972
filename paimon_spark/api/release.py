"""Releases: what was published or undone together, as values of a catalog."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from paimon_spark.api.lineage_question import warehouse_of
from paimon_spark.display import ShownAsText, grid, moment, section
from paimon_spark.errors import InvalidInputError, VersionNotFoundError
from paimon_spark.metadata.branches import list_branch_names
from paimon_spark.metadata.layout import MAIN
from paimon_spark.metadata.tags import find_tag, release_tag
from paimon_spark.pipelines.publishing import undo_release
from paimon_spark.pipelines.records import (
    ReleaseRecord,
    get_release_record,
    in_force,
    list_release_records,
)
from paimon_spark.text import named, safe

if TYPE_CHECKING:
    from paimon_spark.api.catalog import Catalog
    from paimon_spark.api.table import Table
    from paimon_spark.maintenance.removal import Removed


@dataclass(frozen=True, slots=True, repr=False)
class Release(ShownAsText):
    """What one publication of a pipeline branch made main of its tables, or the undo of one.

    Attributes:
        record: as it is kept in the warehouse.
        removed: what the publication deleted; nothing where the release was looked up.
    """

    catalog: Catalog
    record: ReleaseRecord
    removed: Removed | None = field(default=None, repr=False)

    @property
    def id(self) -> int:
        """Its number in the warehouse, ascending; numbers may be skipped. 0 of a dry run."""
        return self.record.id

    @property
    def tables(self) -> dict[str, int]:
        """Table → the snapshot that became main's head."""
        return dict(self.record.tables)

    @property
    def time_ms(self) -> int:
        """When it was decided, in epoch milliseconds."""
        return self.record.time_ms

    @property
    def backups(self) -> dict[str, str]:
        """Table → the backup branch of its former main; only of tables that changed."""
        return dict(self.record.backups)

    def table(self, name: str) -> Table:
        """A table at the version of this release, on main or on the backup branch that has it since.

        The versions of all its tables belong together.

        Raises:
            InvalidInputError: the release has no such table.
            VersionNotFoundError: the version of one of its tables is gone: its tag was deleted, or the backup expired.
        """
        if name not in self.record.tables:
            raise InvalidInputError(
                f"release {self.id} has no table {name!r}; it has {', '.join(self.record.tables)}", table=name
            )
        found = {table: self._version(table, snapshot_id) for table, snapshot_id in self.record.tables.items()}
        gone = [table for table, its in found.items() if its is None]
        if gone:
            raise VersionNotFoundError(
                f"release {self.id} can no longer be read: no branch of {named(gone, 'table')} has its tag "
                f"{release_tag(self.id)!r}, which was deleted, or went with the backup branch when that expired",
                release=self.id,
                tables=gone,
            )
        version = found[name]
        assert version is not None
        return version

    def _version(self, table: str, snapshot_id: int) -> Table | None:
        """A table at the version of this release; None where no branch has it any more."""
        main = self.catalog.table(table, branch=MAIN)
        # The tag of a table that neither the release nor its undo changed is that of the undo.
        names = [release_tag(i) for i in (self.id, self.record.undone_by) if i is not None]
        for branch in (MAIN, *list_branch_names(main.handle)):
            opened = main if branch == MAIN else main.branch(branch)
            for name in names:
                tag = find_tag(opened.handle, name)
                if tag is not None and tag.snapshot.id == snapshot_id:
                    return opened.at(f"tag-name.{name}")
        return None

    def undo(self, *, if_main_moved: Literal["refuse", "replace"] = "refuse", dry_run: bool = False) -> Release:
        """Give main of each table its history from before this release back: of all of them, or of none.

        Only the newest release that was not undone can be. What main loses is kept as a backup branch of each table;
        undoing the new release restores it.

        Args:
            if_main_moved: when main of a table has commits after the release, compactions aside: `refuse`, or
                `replace`, which keeps them in the backup branch.
            dry_run: only return what main would be; the release has the id 0.

        Returns:
            The release that the undo is.

        Raises:
            BranchDivergedError: main of a table has moved, and `if_main_moved` is `refuse`; nothing was changed.
            InvalidInputError: it is not the newest release, was undone, or a backup is gone; nothing was changed.
            OperationInProgressError: another process is changing tags or branches of a table.
        """
        warehouse = warehouse_of(self.catalog)
        records = list_release_records(warehouse)
        record = get_release_record(warehouse, self.id)
        if record.undone_by is not None:
            raise InvalidInputError(f"release {self.id} was undone already, by release {record.undone_by}")
        later = [r.id for r in in_force(records) if r.id > record.id and r.backups.keys() & record.tables.keys()]
        if later:
            raise InvalidInputError(
                f"release {self.id} cannot be undone, as release {later[-1]} is newer and changed tables of it; undo "
                "that first"
            )
        if not record.backups:
            raise InvalidInputError(f"release {self.id} changed no table, so there is nothing to undo")
        handles = {table: self.catalog.table(table, branch=MAIN).handle for table in record.tables}
        done, removed = undo_release(warehouse, record, handles, if_main_moved=if_main_moved, dry_run=dry_run)
        return Release(self.catalog, done, removed)

    def text_lines(self) -> Iterator[str]:
        record = self.record
        what = f"undo of release {record.undoes}" if record.undoes else f"branch {record.branch}"
        undone = f"; undone by release {record.undone_by}" if record.undone_by else ""
        number = f"release {record.id}" if record.id else "a release would be"
        yield safe(f"{number}: {what}, {moment(record.time_ms)}{undone}")
        for table, snapshot in record.tables.items():
            kept = f", former main kept as branch {record.backups[table]}" if table in record.backups else ""
            lost = f", main lost {record.lost[table]}" if table in record.lost else ""
            yield safe(f"  {table}  snapshot {snapshot}{lost}{kept}")

    def to_dict(self) -> dict[str, Any]:
        """The same as plain values that JSON can hold."""
        record = self.record
        return {
            "id": record.id,
            "branch": record.branch,
            "time_ms": record.time_ms,
            "tables": dict(record.tables),
            "backups": dict(record.backups),
            "checks": list(record.checks),
            "lost": dict(record.lost),
            "undoes": record.undoes,
            "undone_by": record.undone_by,
        }

    def _repr_html_(self) -> str:
        rows = [(t, s, self.record.backups.get(t, "")) for t, s in self.record.tables.items()]
        return section(f"Release {self.id}", next(self.text_lines()), grid(("table", "snapshot", "backup"), rows))


def find_releases(catalog: Catalog) -> list[Release]:
    """The releases of a warehouse, oldest first."""
    return [Release(catalog, record) for record in list_release_records(warehouse_of(catalog))]


def get_release(catalog: Catalog, release_id: int) -> Release:
    """The release of a number. Raises NotFoundError."""
    return Release(catalog, get_release_record(warehouse_of(catalog), release_id))
