"""TableStatus: head, branches, consumers and due maintenance of a table; sizes of all refs.

The size of a branch, tag or savepoint is what it alone keeps, so what deleting it would free.

Tests: tests/unit/versioning/test_status.py, test_sizes.py.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from paimon_spark.display import ShownAsFacts, ShownAsText, amount, facts, grid, moment, section
from paimon_spark.errors import CorruptFileError, FileMissingError, FormatError, UnsafeDeletionError
from paimon_spark.format.arrays.arrow_numpy import values
from paimon_spark.format.metadata_files.manifest import ENTRY_SCHEMA
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.maintenance.change import check_there, unfinished
from paimon_spark.maintenance.consumers import list_consumers
from paimon_spark.maintenance.expiry import may_expire_snapshots
from paimon_spark.maintenance.removal import Removed, plan_removal
from paimon_spark.maintenance.roots import all_roots, without
from paimon_spark.metadata.branches import is_internal_branch, list_branch_names, list_branches
from paimon_spark.metadata.features import crosses_partitions
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.journal.change import Root, RootKind
from paimon_spark.metadata.layout import MAIN, POSTPONE_BUCKET
from paimon_spark.metadata.live_files import live_entries
from paimon_spark.metadata.manifests import column_values, data_manifests
from paimon_spark.metadata.retry import now_ms, retry
from paimon_spark.metadata.snapshots import latest_snapshot, list_snapshot_ids
from paimon_spark.metadata.tags import guarded_branch, savepoint_id_of, tag_names
from paimon_spark.text import counted, safe
from paimon_spark.text import moment as utc_moment
from paimon_spark.versioning.branches import roots_of_branch
from paimon_spark.versioning.compare import relation
from paimon_spark.versioning.damage import Finding
from paimon_spark.versioning.doctor import message_of, of_one_kind, run_doctor
from paimon_spark.versioning.tags import expired_tags


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
    """A branch besides main.

    Attributes:
        is_main: whether `main` means this branch.
        base: the branch that it was created from; None when unknown.
        base_snapshot_id: the newest snapshot that it shares with that one.
        base_tag: the tag that it was created from.
        head: None when nothing was committed yet.
        ahead: commits that main lacks; None when unknown.
        behind: commits of main that it lacks; None when unknown.
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
    """A named stream that reads the branch.

    Attributes:
        next_snapshot_id: the oldest snapshot that it needs.
        behind: snapshots of the branch that it has yet to read.
    """

    name: str
    next_snapshot_id: int
    behind: int


@dataclass(frozen=True, slots=True, repr=False)
class TableStatus(ShownAsText):
    """The status of a branch of a table.

    Attributes:
        kind: `append` or `primary key`.
        bucket: how rows find their bucket: `fixed (4)`, `dynamic`, `dynamic across partitions`, `unaware`, `postponed`.
        merge_engine: of tables with a primary key.
        main_branch: the branch that `main` means (file `MAIN-BRANCH`); None for the table's own directory.
        head: None when nothing was committed yet.
        files, bytes, rows: alive at the head; rows are physical ones, before merging.
        snapshots: alive.
        tags, savepoints, guards: how many the branch has; `tags` counts the others only.
        branches: of the table, without main, by name.
        operation: a change of tags or branches that is running or was left unfinished; None for none.
        findings: of `Table.doctor`; None when not requested.
        due: maintenance that is due, as text.
        sizes: of `Table.sizes`, the largest first; None when not requested.
        rebase_limits: what a rebase of the branches cannot do.
        warnings: what stands in the way of later corrections.
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
    sizes: tuple[RefSize, ...] | None = None
    rebase_limits: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    def text_lines(self) -> Iterator[str]:
        yield f"{safe(self.table)} on branch {safe(self.branch)}"
        yield safe(self.location)
        keys = f", key {safe(', '.join(self.primary_keys))}" if self.primary_keys else ""
        parts = f", partitioned by {safe(', '.join(self.partition_keys))}" if self.partition_keys else ""
        engine = f", {self.merge_engine}" if self.merge_engine else ""
        yield f"{self.kind} table{keys}{parts}, bucket {self.bucket}{engine}, schema {self.schema_id}"
        if self.main_branch is not None:
            yield f"main means branch {safe(self.main_branch)}"
        yield f"head: {_head_text(self.head)}"
        yield f"at the head: {counted(self.rows, 'row')}, {counted(self.files, 'file')}, {amount(self.bytes)}"
        yield (
            f"{counted(self.snapshots, 'snapshot')}, {counted(self.tags, 'tag')}, "
            f"{counted(self.savepoints, 'savepoint')}, {counted(len(self._shown_branches), 'branch')}{self._backups}"
        )
        yield from (f"branch {_branch_text(b)}" for b in self._shown_branches)
        for consumer in self.consumers:
            needs = f"needs snapshot {consumer.next_snapshot_id}, {consumer.behind:,} behind"
            yield f"consumer {safe(consumer.name)}: {needs}"
        if self.operation is not None:
            yield f"under way or unfinished: {safe(self.operation)}"
        yield from (f"due: {safe(text)}" for text in self.due)
        yield from (f"rebase: {safe(text)}" for text in self.rebase_limits)
        yield from (f"warning: {safe(text)}" for text in self.warnings)
        for size in self.sizes or ():
            yield from size.text_lines()
        for some in of_one_kind(self.findings or ()):
            yield f"{some[0].severity.value}: {safe(message_of(some))}"

    def to_dict(self) -> dict[str, Any]:
        """The same as plain values that JSON can hold."""
        return dict(_plain(self))

    @property
    def _shown_branches(self) -> list[BranchStatus]:
        return [b for b in self.branches if b.is_main or not is_internal_branch(b.name)]

    @property
    def _backups(self) -> str:
        """The number of backup branches, as the end of a sentence."""
        count = len(self.branches) - len(self._shown_branches)
        return f", {counted(count, 'backup branch')}" if count else ""

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
                    "rebase": "\n".join(self.rebase_limits) or None,
                    "warning": "\n".join(self.warnings) or None,
                    "doctor": None if self.findings is None else f"{len(self.findings)} findings",
                }
            )
        ]
        if self._shown_branches:
            rows = [
                (b.name, b.base, b.base_snapshot_id, b.ahead, b.behind, None if b.head is None else _brief(b.head))
                for b in self._shown_branches
            ]
            parts.append(grid(("branch", "of", "at snapshot", "ahead", "behind", "head"), rows))
        if self.consumers:
            rows_read = [(c.name, c.next_snapshot_id, c.behind) for c in self.consumers]
            parts.append(grid(("consumer", "next snapshot", "behind"), rows_read))
        if self.sizes:
            parts.append(grid(("alone kept by", "name", "frees"), [(s.kind, s.name, s.size_text) for s in self.sizes]))
        if self.findings:
            groups = of_one_kind(self.findings)
            findings = [(some[0].severity, some[0].branch, message_of(some), some[0].remedy) for some in groups]
            parts.append(grid(("finding", "branch", "what", "what to do"), findings))
        return section(self.table, f"branch {self.branch}", *parts)


def _head_text(head: HeadStatus | None) -> str:
    if head is None:
        return "no snapshot yet"
    operation = f" ({safe(head.operation)})" if head.operation else ""
    return f"snapshot {head.snapshot_id}, {head.kind}{operation}, {utc_moment(head.time_ms)}, by {safe(head.user)}"


def _branch_text(branch: BranchStatus) -> str:
    head = "empty" if branch.head is None else f"snapshot {branch.head.snapshot_id}"
    base = ""
    if branch.base is not None:
        place = f" at {branch.base_snapshot_id}" if branch.base_snapshot_id is not None else ""
        tag = f" (tag {safe(branch.base_tag)})" if branch.base_tag else ""
        base = f", from {safe(branch.base)}{place}{tag}"
    apart = (
        "" if branch.ahead is None or branch.behind is None else f", {branch.ahead:,} ahead, {branch.behind:,} behind"
    )
    return f"{safe(branch.name)}: {head}{base}{apart}{', main means it' if branch.is_main else ''}"


def _brief(head: HeadStatus) -> str:
    return f"snapshot {head.snapshot_id}, {head.kind}, {moment(head.time_ms)}, by {head.user}"


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return {f.name: _plain(getattr(value, f.name)) for f in fields(value)}
    return [_plain(v) for v in value] if isinstance(value, tuple) else getattr(value, "value", value)


_ATTEMPTS: Final = 6


def read_status(
    handle: TableHandle,
    *,
    with_findings: bool = False,
    with_sizes: bool = False,
    clock_ms: Callable[[], int] = now_ms,
) -> TableStatus:
    """Read the status of the handle's branch; with `with_findings`, also run the doctor."""
    check_there(handle)
    head, entries = _head(handle)
    tags = tag_names(handle)
    savepoints = sum(savepoint_id_of(t) is not None for t in tags)
    guards = sum(guarded_branch(t) is not None for t in tags)
    schema, newest = handle.schema, 0 if head is None else head.id
    return TableStatus(
        table=handle.name,
        location=handle.location,
        branch=handle.branch,
        kind="primary key" if schema.primary_keys else "append",
        primary_keys=schema.primary_keys,
        partition_keys=schema.partition_keys,
        bucket=_bucket(handle),
        merge_engine=handle.options.merge_engine.value if schema.primary_keys else None,
        main_branch=handle.layout.main_branch,
        schema_id=schema.id,
        columns=len(schema.fields),
        head=_head_status(head),
        files=len(entries),
        bytes=int(column_values(entries, "file_size").sum()),
        rows=int(column_values(entries, "row_count").sum()),
        snapshots=len(list_snapshot_ids(handle)),
        tags=len(tags) - savepoints - guards,
        savepoints=savepoints,
        guards=guards,
        branches=tuple(_branches(handle)),
        consumers=tuple(
            ConsumerStatus(c.name, c.next_snapshot, max(0, newest + 1 - c.reads_next)) for c in list_consumers(handle)
        ),
        operation=_operation(handle),
        findings=tuple(run_doctor(handle)) if with_findings else None,
        due=() if head is None else tuple(_due(handle, head, entries, clock_ms)),
        sizes=tuple(_sizes(handle)) if with_sizes else None,
    )


def _sizes(handle: TableHandle) -> list[RefSize]:
    return sorted(ref_sizes(handle, (BRANCH, TAG, SAVEPOINT)), key=lambda size: -(size.bytes or 0))


def _head(handle: TableHandle) -> tuple[Snapshot | None, pa.Table]:
    """The head and its live files; when it expires meanwhile, of the next head."""
    head = latest_snapshot(handle)

    def entries() -> pa.Table:
        if head is None:
            return pa.Table.from_batches([], ENTRY_SCHEMA)
        return live_entries(handle, data_manifests(handle, head))

    def has_moved(_: FileMissingError) -> bool:
        nonlocal head
        before, head = head, latest_snapshot(handle)
        return head != before

    found = retry(entries, _ATTEMPTS, on=FileMissingError, again=has_moved)
    return head, found


def _head_status(head: Snapshot | None) -> HeadStatus | None:
    if head is None:
        return None
    return HeadStatus(head.id, head.commit_kind.value, head.time_ms, head.commit_user, head.operation)


def _bucket(handle: TableHandle) -> str:
    bucket = handle.options.bucket
    if bucket > 0:
        return f"fixed ({bucket})"
    if bucket == POSTPONE_BUCKET:
        return "postponed"
    if not handle.schema.primary_keys:
        return "unaware"
    return "dynamic across partitions" if crosses_partitions(handle.schema, handle.options) else "dynamic"


def _branches(handle: TableHandle) -> Iterator[BranchStatus]:
    listed = list_branches(handle)
    if not listed:
        return
    main = handle.on_branch_directory(MAIN)
    main_head = latest_snapshot(main)
    for branch in listed:
        on_branch = handle.on_branch_directory(branch.name)
        head = latest_snapshot(on_branch)
        related = relation(main, main_head, on_branch, head)
        fork = branch.fork
        yield BranchStatus(
            branch.name,
            branch.is_main,
            None if fork is None else fork.parent,
            None if fork is None else fork.snapshot_id,
            None if fork is None else fork.tag,
            _head_status(head),
            related.ahead,
            related.behind,
        )


def _operation(handle: TableHandle) -> str | None:
    try:
        return unfinished(handle)
    except CorruptFileError as e:
        return e.message


def _due(handle: TableHandle, head: Snapshot, entries: pa.Table, clock_ms: Callable[[], int]) -> Iterator[str]:
    if may_expire_snapshots(handle, head.id, clock_ms):
        yield "snapshots are old enough to expire: expire_snapshots()"
    over = expired_tags(handle)
    if over:
        yield f"{len(over)} tags have expired: expire_tags()"
    buckets = _full_buckets(handle, entries) if handle.schema.primary_keys else _scattered(handle, entries)
    if buckets:
        of = "buckets" if handle.schema.primary_keys or handle.options.bucket > 0 else "partitions"
        yield f"{buckets:,} {of} have many small files: compact()"


def _full_buckets(handle: TableHandle, entries: pa.Table) -> int:
    """Count buckets with enough sorted runs for a compaction. Each file of level 0 is a run."""
    if handle.options.bucket == POSTPONE_BUCKET:
        return 0
    places, count = _places(entries)
    levels = column_values(entries, "level")
    runs = np.bincount(places[levels == 0], minlength=count)
    deeper = np.unique(np.stack([places[levels > 0], levels[levels > 0]]), axis=1)[0]
    runs += np.bincount(deeper, minlength=count)
    return int((runs >= handle.options.compaction.trigger).sum())


def _scattered(handle: TableHandle, entries: pa.Table) -> int:
    """Count buckets, or partitions of unbucketed tables, with enough small files for a compaction."""
    options = handle.options.append_compaction
    places, count = _places(entries)
    small = np.bincount(places[column_values(entries, "file_size") < options.small_bytes], minlength=count)
    return int((small >= max(2, options.min_files)).sum())


def _places(entries: pa.Table) -> tuple[np.ndarray, int]:
    """Number the partition and bucket of each entry; also how many there are."""
    if len(entries) == 0:
        return np.empty(0, np.int64), 0
    partitions = entries.column("partition").combine_chunks().dictionary_encode()
    codes = values(partitions.indices).astype(np.int64)
    found, places = np.unique(np.stack([codes, column_values(entries, "bucket")]), axis=1, return_inverse=True)
    return places.reshape(-1), found.shape[1]


BRANCH: Final = "branch"
TAG: Final = "tag"
SAVEPOINT: Final = "savepoint"


@dataclass(frozen=True, slots=True, repr=False)
class RefSize(ShownAsFacts):
    """Bytes that a branch, tag or savepoint alone keeps.

    Attributes:
        kind: `branch`, `tag` or `savepoint`.
        name: of it; the id of a savepoint.
        branch: the branch that the tag or savepoint is on; of a branch its own name.
        bytes: of the files that nothing else needs, whose size the metadata states; None where that cannot be told.
        files: number of these files, metadata included; None as `bytes`.
        unknown: why it cannot be told.
    """

    kind: str
    name: str
    branch: str
    bytes: int | None
    files: int | None
    unknown: str | None = None

    @property
    def size_text(self) -> str:
        """Size with a unit; `unknown` where it cannot be found."""
        return "unknown" if self.bytes is None else amount(self.bytes)

    def text_lines(self) -> list[str]:
        on = "" if self.kind == BRANCH else f" on branch {safe(self.branch)}"
        if self.files is None:
            return [f"{self.kind} {safe(self.name)}{on}: unknown, {safe(self.unknown or '')}"]
        return [f"{self.kind} {safe(self.name)}{on}: alone keeps {counted(self.files, 'file')}, {self.size_text}"]


def ref_sizes(main: TableHandle, kinds: Collection[str]) -> list[RefSize]:
    """The sizes of all branches but main, tags and savepoints, in this order. Reads metadata only.

    Args:
        main: any branch of the table; those of all branches are listed.
        kinds: `BRANCH`, `TAG`, `SAVEPOINT`: only of these.
    """
    roots = all_roots(main)
    branches = list_branch_names(main) if BRANCH in kinds else []
    names = [name for name in branches if name != main.layout.main_branch]
    out = [_size(main, BRANCH, name, name, roots_of_branch(roots, name), roots) for name in names]
    tagged = [(*_kind_and_name(root), root) for root in roots if root.kind is RootKind.TAG]
    for wanted in (TAG, SAVEPOINT):
        out += [
            _size(main, kind, name, root.branch_directory, (root,), roots)
            for kind, name, root in tagged
            if kind == wanted and kind in kinds
        ]
    return out


def _kind_and_name(tag: Root) -> tuple[str, str]:
    """The kind of a tag, and its name or the savepoint's id; the guard tag of a branch belongs to the branch."""
    savepoint = savepoint_id_of(tag.name)
    if savepoint is not None:
        return SAVEPOINT, str(savepoint)
    return (TAG if guarded_branch(tag.name) is None else BRANCH), tag.name


def _size(
    main: TableHandle, kind: str, name: str, branch: str, released: tuple[Root, ...], roots: list[Root]
) -> RefSize:
    try:
        found: Removed = plan_removal(main, released, without(roots, released))
    except (UnsafeDeletionError, FormatError) as e:
        return RefSize(kind, name, branch, None, None, e.message)
    return RefSize(kind, name, branch, found.bytes, len(found.paths))
