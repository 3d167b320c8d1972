"""SQL statements of the jobs of a pipeline, to be run again on its branch.

Each snapshot that a statement wrote keeps it. A statement that was run again keeps which snapshot of main it stands
for, so that it is not run twice, also when a process dies in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from paimon_spark.display import ShownAsFacts
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.lineage.index.statements import StatementRecord, decode_statement
from paimon_spark.lineage.recording.snapshot_provenance import read_snapshot_provenance
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.snapshots import list_snapshot_ids, read_alive
from paimon_spark.text import moment, safe


@dataclass(frozen=True, slots=True, repr=False)
class RecordedStatement(ShownAsFacts):
    """A statement that wrote a snapshot of main of a table.

    Attributes:
        job: its name in lineage.
        table: that it wrote, `db.t`.
        snapshot_id: that it made.
        time_ms: when, in epoch milliseconds.
        statement: and what its names mean.
        is_done: whether it was run again on the branch.
        is_known: whether the warehouse's registry of jobs knows the job. Else another writer has put it there.
    """

    job: str
    table: str
    snapshot_id: int
    time_ms: int
    statement: StatementRecord
    is_done: bool = False
    is_known: bool = True

    @property
    def sql(self) -> str:
        """The statement, with the values of its parameters if its snapshot keeps them."""
        return self.statement.sql

    @property
    def to_run(self) -> StatementRecord:
        """The statement, as it is run again: recorded under the job that wrote it."""
        return replace(self.statement, again=(self.table, self.snapshot_id), job=self.job)

    def text_lines(self) -> list[str]:
        done = ", run again" if self.is_done else ""
        known = "" if self.is_known else ", a job that this warehouse has not registered"
        return [
            f"{safe(self.table)}, snapshot {self.snapshot_id}, {moment(self.time_ms)}{done}: {safe(self.job)}{known}",
            f"  {safe(' '.join(self.sql.split()))}",
        ]

    def to_dict(self) -> dict[str, object]:
        """The same as plain values that JSON can hold."""
        return {
            "job": self.job,
            "table": self.table,
            "snapshot_id": self.snapshot_id,
            "time_ms": self.time_ms,
            "sql": self.sql,
            "is_done": self.is_done,
            "is_known": self.is_known,
        }


def recorded_statements(
    mains: Mapping[str, TableHandle],
    branches: Mapping[str, TableHandle],
    starts: Mapping[str, int | None],
    is_registered: Callable[[str], bool],
) -> list[RecordedStatement]:
    """The statements that made snapshots of main after those that the branches start from, in the order of commits.

    Those of expired snapshots are unknown.

    Args:
        mains: main of each table.
        branches: the branch of each table; none of a pipeline branch that is only planned.
        starts: table → the snapshot of main that its branch starts from; None: it starts empty.
        is_registered: whether the registry of jobs has a name.
    """
    found = []
    for table, main in mains.items():
        branch = branches.get(table)
        done = set() if branch is None else {s.again for s in _statements(branch, starts[table] or 0)}
        for snapshot in _after(main, starts[table] or 0):
            provenance, statement = read_snapshot_provenance(snapshot), decode_statement(snapshot.properties)
            if statement is None or provenance is None or provenance.is_copy:
                continue
            found.append(
                RecordedStatement(
                    provenance.provenance.job,
                    table,
                    snapshot.id,
                    snapshot.time_ms,
                    replace(statement, again=None),
                    (table, snapshot.id) in done,
                    is_registered(provenance.provenance.job),
                )
            )
    return sorted(found, key=lambda s: (s.time_ms, s.table, s.snapshot_id))


def _statements(branch: TableHandle, after: int) -> Iterator[StatementRecord]:
    for snapshot in _after(branch, after):
        statement = decode_statement(snapshot.properties)
        if statement is not None:
            yield statement


def _after(handle: TableHandle, snapshot_id: int) -> list[Snapshot]:
    return read_alive(handle, [i for i in list_snapshot_ids(handle) if i > snapshot_id])
