"""TableStatus: how a table stands, at one look. Values; `standing.py` finds them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from paimon_spark.display import amount, facts, grid, moment, section
from paimon_spark.versioning.doctor.findings import Finding


@dataclass(frozen=True, slots=True)
class HeadStatus:
    """The newest snapshot of a branch.

    Attributes:
        time_ms: when it was committed, epoch milliseconds.
        operation: what the writer called the commit; None when it did not say.
    """

    snapshot_id: int
    kind: str
    time_ms: int
    user: str
    operation: str | None


@dataclass(frozen=True, slots=True)
class BranchStatus:
    """A branch beside main.

    Attributes:
        is_main: whether `main` means this branch.
        base: the branch it was made of; None when nothing tells.
        base_snapshot_id: the newest snapshot that it shares with that one.
        base_tag: the tag it was made from.
        head: None when nothing was committed yet.
        ahead: commits that main lacks; None when it cannot be told.
        behind: commits of main that it lacks; None when it cannot be told.
    """

    name: str
    is_main: bool
    base: str | None
    base_snapshot_id: int | None
    base_tag: str | None
    head: HeadStatus | None
    ahead: int | None
    behind: int | None


@dataclass(frozen=True, slots=True)
class ConsumerStatus:
    """Somebody who reads the branch as a stream.

    Attributes:
        next_snapshot_id: the oldest snapshot that it needs.
        behind: snapshots of the branch that it has yet to read.
    """

    name: str
    next_snapshot_id: int
    behind: int


@dataclass(frozen=True, slots=True)
class TableStatus:
    """How a branch of a table stands.

    Attributes:
        kind: `append` or `primary key`.
        bucket: how rows find their bucket: `fixed (4)`, `dynamic`, `dynamic across partitions`, `unaware`, `postponed`.
        merge_engine: of tables with a primary key.
        main_branch: the branch that `main` means (file `MAIN-BRANCH`); None for the table's own directory.
        head: None when nothing was committed yet.
        files, bytes, rows: alive at the head; rows are physical ones, before merging.
        snapshots: alive.
        tags, savepoints, guards: how many the branch has; tags are those that are neither of the others.
        branches: of the table, without main, by name.
        operation: a change of tags or branches that another process is at, or left unfinished; None for none.
        findings: of `Table.doctor`; None where it was not asked for.
        due: what wants doing, in words.
    """

    table: str
    location: str
    branch: str
    kind: str
    primary_keys: tuple[str, ...]
    partition_keys: tuple[str, ...]
    bucket: str
    merge_engine: str | None
    main_branch: str | None
    schema_id: int
    columns: int
    head: HeadStatus | None
    files: int
    bytes: int
    rows: int
    snapshots: int
    tags: int
    savepoints: int
    guards: int
    branches: tuple[BranchStatus, ...]
    consumers: tuple[ConsumerStatus, ...]
    operation: str | None
    findings: tuple[Finding, ...] | None
    due: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """The same as plain values that JSON can hold."""
        return {f.name: _plain(getattr(self, f.name)) for f in fields(self)}

    def _repr_html_(self) -> str:
        kind = self.kind if self.merge_engine is None else f"{self.kind}, {self.merge_engine}"
        parts = [
            facts(
                {
                    "location": self.location,
                    "kind": f"{kind}, buckets {self.bucket}",
                    "primary key": ", ".join(self.primary_keys) or None,
                    "partitioned by": ", ".join(self.partition_keys) or None,
                    "schema": f"{self.schema_id}, {self.columns} columns",
                    "head": "no snapshot" if self.head is None else _brief(self.head),
                    "alive": f"{self.files:,} files, {self.rows:,} rows, {amount(self.bytes)}",
                    "snapshots": self.snapshots,
                    "tags": self.tags,
                    "savepoints": self.savepoints,
                    "main is": self.main_branch,
                    "in progress": self.operation,
                    "due": "\n".join(self.due) or None,
                    "doctor": None if self.findings is None else f"{len(self.findings)} findings",
                }
            )
        ]
        if self.branches:
            rows = [
                (b.name, b.base, b.base_snapshot_id, b.ahead, b.behind, None if b.head is None else _brief(b.head))
                for b in self.branches
            ]
            parts.append(grid(("branch", "of", "at snapshot", "ahead", "behind", "head"), rows))
        if self.consumers:
            rows_read = [(c.name, c.next_snapshot_id, c.behind) for c in self.consumers]
            parts.append(grid(("consumer", "next snapshot", "behind"), rows_read))
        if self.findings:
            told = [(f.severity, f.branch, f.message, f.remedy) for f in self.findings]
            parts.append(grid(("finding", "branch", "what", "what to do"), told))
        return section(self.table, f"branch {self.branch}", *parts)


def _brief(head: HeadStatus) -> str:
    return f"snapshot {head.snapshot_id}, {head.kind}, {moment(head.time_ms)}, by {head.user}"


def _plain(value: Any) -> Any:
    if isinstance(value, (HeadStatus, BranchStatus, ConsumerStatus, Finding)):
        return {f.name: _plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, tuple):
        return [_plain(v) for v in value]
    if isinstance(value, Mapping):
        return {k: _plain(v) for k, v in value.items()}
    return getattr(value, "value", value)
