"""Releases: what was published or undone together, as values of a catalog."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
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
from paimon_spark.text import counted, named, safe

if TYPE_CHECKING:
    from paimon_spark.api.catalog import Catalog
    from paimon_spark.api.table import Table
    from paimon_spark.maintenance.removal import Removed
    from paimon_spark.versioning.main_change import MainChange

_NEXT = "correct the branch and publish it again, or undo this release, which brings back what was undone"
_MOST_LINES = 36
"""Lines about tables that are shown; the rest is counted."""


@dataclass(frozen=True, slots=True, repr=False)
class Release(ShownAsText):
    """One publication of a pipeline branch as main of its tables, or the undo of one.

    Attributes:
        record: as it is kept in the warehouse.
        removed: what the publication deleted; nothing where the release was looked up.
        next_step: how to go on after the undo of a publication; empty for others, and where it was looked up.
    """

    catalog: Catalog
    record: ReleaseRecord
    removed: Removed | None = field(default=None, repr=False)
    next_step: str = field(default="", compare=False)

    @property
    def id(self) -> int:
        """Its number in the warehouse, ascending; numbers may be skipped. 0 of a dry run."""
        return self.record.id

    @property
    def already_published(self) -> bool:
        """Whether no release was made, as main of all tables had every commit of the branches."""
        return not self.record.id and not self.record.changes and self.record.undoes is None

    @property
    def dry_run(self) -> bool:
        """Whether it was only planned."""
        return self.removed is not None and self.removed.dry_run

    @property
    def changes(self) -> dict[str, MainChange]:
        """Table → the snapshots and rows that its main lost and gained; only of tables that changed."""
        return dict(self.record.changes)

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
            InvalidInputError: the release has no such table, or was not made.
            VersionNotFoundError: the version of one of its tables is gone: its tag was deleted, or the backup expired.
        """
        if not self.id:
            raise InvalidInputError(f"no release was made, so there is none to read; read {name!r} on main", table=name)
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
        if not self.record.id:
            raise InvalidInputError(
                f"there is no release to undo: {'it was a dry run' if self.dry_run else 'nothing was published'}; "
                "catalog.releases() lists all"
            )
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
        return Release(self.catalog, done, removed, _NEXT if record.undoes is None and not dry_run else "")

    def text_lines(self) -> Iterator[str]:
        record = self.record
        if self.already_published:
            would = "would be" if self.dry_run else "was"
            yield safe(f"nothing to publish: main of all tables has all changes of branch {record.branch}")
            yield f"no release {would} made"
            for table, snapshot in list(record.tables.items())[:_MOST_LINES]:
                yield safe(f"  {table}  snapshot {snapshot}")
            return
        what = f"undo of release {record.undoes}" if record.undoes else f"branch {record.branch}"
        undone = f"; undone by release {record.undone_by}" if record.undone_by else ""
        number = f"release {record.id}" if record.id else "a release would be"
        yield safe(f"{number}: {what}, {moment(record.time_ms)}{undone}")
        tables = list(record.tables.items())
        lines_each = _MOST_LINES // max(len(tables), 1)
        for table, snapshot in tables[:_MOST_LINES]:
            yield safe(f"  {table}  snapshot {snapshot}{self._changed_text(table)}")
            if table in record.changes and lines_each > 1:
                rows = record.changes[table].rows_lines(would=not record.id, most=min(lines_each - 3, 3))
                yield from (f"    {line}" for line in (rows if lines_each > 3 else rows[:1]))
        if len(tables) > _MOST_LINES:
            yield f"  and {counted(len(tables) - _MOST_LINES, 'more table')}"
        if self.next_step:
            yield f"next: {self.next_step}"

    def _changed_text(self, table: str) -> str:
        """Snapshots that main of a table lost and gained, and the branch that keeps the former main, as text."""
        record, would = self.record, "would " if not self.record.id else ""
        out = ""
        if table in record.lost:
            out += f", main {would}{'lose' if would else 'lost'} {record.lost[table]}"
        if table in record.changes and record.changes[table].snapshots_gained:
            gained = counted(record.changes[table].snapshots_gained, "snapshot")
            out += f", {would}{'gain' if would else 'gained'} {gained}"
        if table in record.backups:
            out += f", former main kept as branch {record.backups[table]}"
        return out

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
            "changes": {table: asdict(change) for table, change in record.changes.items()},
            "already_published": self.already_published,
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
