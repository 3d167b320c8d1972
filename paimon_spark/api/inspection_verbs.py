"""What a table is and became, as methods of Table: diff, status, history. Only forwards; no data file is opened."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from paimon_spark.jobs.head import opened_anew
from paimon_spark.metadata.handle import TableHandle

if TYPE_CHECKING:
    from paimon_spark.api.table import Table
    from paimon_spark.versioning.diff import Diff
    from paimon_spark.versioning.history import History
    from paimon_spark.versioning.status import TableStatus


class InspectionVerbs:
    """What `Table` inherits."""

    __slots__ = ()

    handle: TableHandle

    def diff(self, old: str | int, new: str | int | None = None) -> Diff:
        """What the version `new` has that `old` has not, and the other way round: files, columns and options.

        Files are compared, not the rows in them, by metadata alone.

        Args:
            old: a version as `at` takes it: a tag, `snapshot.<id>`, `<branch>.<version>`, a snapshot id or a branch.
            new: another one; None is this branch as it stands.

        Raises:
            NotFoundError: a version does not exist, or has expired.
            InvalidInputError: the table was opened at a version, or is a system table.
            CorruptFileError: metadata cannot be read.
        """
        from paimon_spark.versioning.comparing import compare

        return compare(opened_anew(cast("Table", self)), str(old), None if new is None else str(new))

    def status(self, *, doctor: bool = False) -> TableStatus:
        """How the branch stands: its head, what is alive, its refs and branches, who reads it, and what is due.

        Args:
            doctor: look for what is wrong, too, as `doctor` does.

        Raises:
            InvalidInputError: the table was opened at a version, or is a system table.
            TableNotFoundError: it is not there any more.
            CorruptFileError: metadata cannot be read.
        """
        from paimon_spark.versioning.standing import status_of

        return status_of(opened_anew(cast("Table", self)), with_findings=doctor)

    def history(self, limit: int | None = None, *, branch: str | None = None) -> History:
        """The commits of all branches as a graph, newest first, with the names that point at them.

        They are sorted by the time of their commit, but a commit always stands before its parent.

        Args:
            limit: at most so many commits, the newest of those asked for; None is all that are known.
            branch: only the commits in the history of this branch; None: those of all branches.

        Raises:
            InvalidInputError: the table was opened at a version, or is a system table; the limit is not positive.
            BranchNotFoundError: there is no such branch.
            CorruptFileError: a snapshot or tag cannot be decoded.
        """
        from paimon_spark.lineage.provenance import JOB
        from paimon_spark.versioning.walking import history_of

        table = cast("Table", self)
        if branch is not None:
            table.branch(branch)
        return history_of(opened_anew(table), limit, branch=branch, job_property=JOB)
