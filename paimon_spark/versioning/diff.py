"""Diff: the differences between two versions of a table, on any branches, as values.

Files are compared, not rows, so compaction shows as files added and removed.

Tests: tests/unit/versioning/test_diff.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any

from paimon_spark.display import ShownAsText, amount, facts, grid, section
from paimon_spark.redaction import shown_changes
from paimon_spark.text import counted, safe, shown

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two versions.

    Attributes:
        version: as requested; the branch's name when none was.
        label: the same in words, such as `tag 'v1'` or `head of main`.
        branch: the branch that it is on.
        snapshot_id: None for a branch without snapshots.
        time_ms: when it was committed, epoch milliseconds.
        total_rows: physical rows alive, before merging; None when unknown.
    """

    version: str
    label: str
    branch: str
    snapshot_id: int | None
    time_ms: int | None
    schema_id: int
    total_rows: int | None


@dataclass(frozen=True, slots=True)
class PartitionDiff:
    """The differences in one partition. `added` is only in the new version, `removed` only in the old.

    Attributes:
        partition: values as text by column, None for null; empty in a table without partitions.
        files_changed: in both versions, with other deletion vectors.
        rows_deleted, rows_restored: that these vectors delete more, and less.
    """

    partition: Mapping[str, str | None]
    files_added: int = 0
    files_removed: int = 0
    bytes_added: int = 0
    bytes_removed: int = 0
    rows_added: int = 0
    rows_removed: int = 0
    files_changed: int = 0
    rows_deleted: int = 0
    rows_restored: int = 0

    @property
    def name(self) -> str:
        """`dt=2024-01-01/region=eu`; empty in a table without partitions."""
        return "/".join(f"{k}={'null' if v is None else v}" for k, v in self.partition.items())


@dataclass(frozen=True, slots=True)
class ColumnChange:
    """A column that differs, by its field id.

    Attributes:
        kind: `added`, `dropped`, `renamed`, `retyped`, `commented`, `defaulted` or `moved`.
        name: in the new version; in the old for a column that was dropped. `a.b` inside a ROW.
        old, new: name, type, comment, default or place, as the kind says; None where there is none.
    """

    kind: str
    name: str
    field_id: int
    old: str | None
    new: str | None


@dataclass(frozen=True, slots=True, repr=False)
class Diff(ShownAsText):
    """The differences between two versions of a table. `added` is only in the new one, `removed` only in the old.

    Attributes:
        rows_added, rows_removed: physical rows of those files, before merging.
        files_changed, rows_deleted, rows_restored: as in `PartitionDiff`.
        partitions: those that differ, sorted by name.
        options: old and new text of the table options that differ, by key; None where one is not set.
        common_snapshot_id: the newest snapshot that both histories share; None when they share none, or none known.
        ahead: commits of the new version that the old lacks; None when unknown.
        behind: commits of the old version that the new lacks; None when unknown.
        files: one row for each file that differs: `change` (added, removed, changed), `partition`, `bucket`,
            `file_name`, `level`, `row_count`, `file_size`, `deleted_rows` (more deleted by its vector).
    """

    table: str
    old: Side
    new: Side
    files_added: int
    files_removed: int
    bytes_added: int
    bytes_removed: int
    rows_added: int
    rows_removed: int
    files_changed: int
    rows_deleted: int
    rows_restored: int
    partitions: tuple[PartitionDiff, ...]
    columns: tuple[ColumnChange, ...]
    options: Mapping[str, tuple[str | None, str | None]]
    common_snapshot_id: int | None
    ahead: int | None
    behind: int | None
    files: pa.Table = field(repr=False, compare=False)

    @property
    def is_same(self) -> bool:
        """Whether files, deletion vectors, columns and options are the same."""
        return not (self.files_added or self.files_removed or self.files_changed or self.columns or self.options)

    def text_lines(self) -> Iterator[str]:
        yield f"{safe(self.table)}: {_side_text(self.old)} -> {_side_text(self.new)}"
        if self.ahead is not None and self.behind is not None:
            yield f"{counted(self.ahead, 'commit')} ahead, {counted(self.behind, 'commit')} behind"
        if self.is_same:
            yield "the same"
            return
        yield f"+ {_amount_text(self.files_added, self.rows_added, self.bytes_added)}"
        yield f"- {_amount_text(self.files_removed, self.rows_removed, self.bytes_removed)}"
        if self.files_changed:
            yield (
                f"~ {counted(self.files_changed, 'file')}: {counted(self.rows_deleted, 'row')} deleted, "
                f"{self.rows_restored:,} restored"
            )
        for column in self.columns:
            yield f"column {safe(column.name)} {column.kind}: {shown(column.old)} -> {shown(column.new)}"
        for key, (before, after) in sorted(shown_changes(self.options).items()):
            yield f"option {safe(key)}: {shown(before)} -> {shown(after)}"

    def to_dict(self) -> dict[str, Any]:
        """The same as plain values that JSON can hold, without the list of files and without secrets."""
        out: dict[str, Any] = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "files"}
        out["old"], out["new"] = asdict(self.old), asdict(self.new)
        out["partitions"] = [{**asdict(p), "name": p.name} for p in self.partitions]
        out["columns"] = [asdict(c) for c in self.columns]
        out["options"] = {key: list(pair) for key, pair in shown_changes(self.options).items()}
        return {**out, "is_same": self.is_same}

    def _repr_html_(self) -> str:
        related = (
            "shares no snapshot with"
            if self.common_snapshot_id is None
            else f"is {self.ahead} ahead of and {self.behind} behind"
        )
        parts = [
            facts(
                {
                    "old": _side(self.old),
                    "new": _side(self.new),
                    "related": f"{self.new.label} {related} {self.old.label}",
                    "added": _sum(self.files_added, self.rows_added, self.bytes_added),
                    "removed": _sum(self.files_removed, self.rows_removed, self.bytes_removed),
                    "changed": f"{self.files_changed:,} files, {self.rows_deleted:,} rows deleted, "
                    f"{self.rows_restored:,} restored",
                }
            )
        ]
        if self.partitions and self.partitions[0].partition:
            rows = [
                (
                    p.name,
                    _sum(p.files_added, p.rows_added, p.bytes_added),
                    _sum(p.files_removed, p.rows_removed, p.bytes_removed),
                    f"{p.files_changed:,}",
                )
                for p in self.partitions
            ]
            parts.append(grid(("partition", "added", "removed", "changed files"), rows))
        if self.columns:
            columns = [(c.name, c.kind, c.old, c.new) for c in self.columns]
            parts.append(grid(("column", "change", "old", "new"), columns))
        if self.options:
            options = [(k, *pair) for k, pair in sorted(shown_changes(self.options).items())]
            parts.append(grid(("option", "old", "new"), options))
        title = f"{self.table}: {self.old.version} → {self.new.version}"
        return section(title, "the same" if self.is_same else "", *parts)


def _side(side: Side) -> str:
    which = [f"on {side.branch}", f"schema {side.schema_id}"]
    return f"{side.label}: {', '.join(which if _is_named(side) else [_snapshot(side), *which])}"


def _snapshot(side: Side) -> str:
    return "no snapshot" if side.snapshot_id is None else f"snapshot {side.snapshot_id}"


def _is_named(side: Side) -> bool:
    """Whether the label says which snapshot it is."""
    return f"{side.label},".startswith(f"{_snapshot(side)},")


def _sum(files: int, rows: int, size: int) -> str:
    return f"{files:,} files, {rows:,} rows, {amount(size)}"


def _side_text(side: Side) -> str:
    return safe(side.label) if _is_named(side) else f"{safe(side.label)} ({_snapshot(side)})"


def _amount_text(files: int, count: int, size_bytes: int) -> str:
    return f"{counted(files, 'file')}, {counted(count, 'row')}, {amount(size_bytes)}"
