"""History: the commits of all branches of a table as one graph. Values; `walking.py` reads them.

Branches share what was before they parted: such a snapshot stands in the graph once, whichever of them hold its file.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from paimon_spark.display import MOST_ROWS, grid, moment, section
from paimon_spark.format.metadata_files.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class HistoryRef:
    """A name for a commit.

    Attributes:
        kind: `branch` (its head), `tag`, `savepoint`, `guard` (keeps the base of a branch) or `consumer` (reads it
            next).
        name: of the branch, tag, savepoint (its id), guarded branch or consumer.
        branch: where the name lies.
    """

    kind: str
    name: str
    branch: str


@dataclass(frozen=True, slots=True)
class Commit:
    """A snapshot, once for all branches that share it.

    Attributes:
        key: `<branch>.<id>`, unique in the history; the branch is the first, from main on, in whose history it is.
        parent: key of the newest older commit that is known; None for the first.
        is_after_gap: the snapshots between the parent and this one have expired, or lie beyond the limit.
        branches: in whose history it is, main first.
        is_alive: whether some branch has its file; else only tags keep it.
        refs: names for it.
        row_delta: physical rows that it added, less those that it removed; None where it does not say.
        job: the lineage job that made it; None when none was named.
    """

    key: str
    snapshot: Snapshot
    parent: str | None
    is_after_gap: bool
    branches: tuple[str, ...]
    is_alive: bool
    refs: tuple[HistoryRef, ...]
    job: str | None

    @property
    def id(self) -> int:
        """Of the snapshot."""
        return self.snapshot.id

    @property
    def kind(self) -> str:
        """APPEND, OVERWRITE, COMPACT or ANALYZE."""
        return self.snapshot.commit_kind.value

    @property
    def time_ms(self) -> int:
        """When it was committed, epoch milliseconds."""
        return self.snapshot.time_ms

    @property
    def user(self) -> str:
        """The commit user."""
        return self.snapshot.commit_user

    @property
    def row_delta(self) -> int | None:
        """Physical rows that it added, less those that it removed."""
        return self.snapshot.delta_record_count

    def to_dict(self) -> dict[str, Any]:
        """The same as plain values that JSON can hold."""
        s = self.snapshot
        return {
            "key": self.key,
            "snapshot_id": s.id,
            "parent": self.parent,
            "is_after_gap": self.is_after_gap,
            "branches": list(self.branches),
            "is_alive": self.is_alive,
            "refs": [{f.name: getattr(r, f.name) for f in fields(r)} for r in self.refs],
            "kind": self.kind,
            "time_ms": s.time_ms,
            "user": s.commit_user,
            "operation": s.operation,
            "schema_id": s.schema_id,
            "row_delta": s.delta_record_count,
            "total_rows": s.total_record_count,
            "job": self.job,
        }


@dataclass(frozen=True, slots=True)
class History:
    """The commits of all branches, or of one, newest first; a commit always stands before its parent.

    Attributes:
        branches: names of all of them, main first, those without commits included.
        is_whole: whether every known commit of those asked for is there; False when a limit left some out.
    """

    table: str
    branches: tuple[str, ...]
    commits: tuple[Commit, ...]
    is_whole: bool = True

    def to_dict(self) -> dict[str, Any]:
        """The same as plain values that JSON can hold."""
        return {
            "table": self.table,
            "branches": list(self.branches),
            "commits": [c.to_dict() for c in self.commits],
            "is_whole": self.is_whole,
        }

    def _repr_html_(self) -> str:
        shown = self.commits[:MOST_ROWS]
        rows = [(c.key, _parent(c), c.kind, _labels(c), moment(c.time_ms), c.row_delta, c.user, c.job) for c in shown]
        note = f"{len(self.commits):,} commits" + ("" if self.is_whole else ", older ones left out")
        if len(shown) < len(self.commits):
            note += f", {len(shown):,} shown"
        heads = ("snapshot", "parent", "kind", "names", "committed", "rows", "user", "job")
        return section(f"{self.table}: history", note, grid(heads, rows) if rows else "")


def _parent(commit: Commit) -> str:
    """The parent's key; an ellipsis stands for snapshots between."""
    return f"{commit.parent or ''}{' …' if commit.is_after_gap else ''}"


def _labels(commit: Commit) -> str:
    """The names for a commit; what keeps the base of a branch is no name that users gave."""
    seen = dict.fromkeys((r.kind, r.name) for r in commit.refs if r.kind != "guard")
    return ", ".join(name if kind == "branch" else f"{kind} {name}" for kind, name in seen)
