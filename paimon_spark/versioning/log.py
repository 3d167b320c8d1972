"""History: the commits of all branches of a table as one graph.

A snapshot that several branches share is in the graph once: snapshots of two branches are one commit when their
manifest lists have the same names. A branch's history before it was created is that of its parent.

Tests: tests/unit/versioning/test_history.py.
"""

from __future__ import annotations

import heapq
import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from paimon_spark.advice import NO_LIMIT
from paimon_spark.display import MOST_ROWS, ShownAsText, grid, moment, section
from paimon_spark.errors import InvalidInputError
from paimon_spark.format.metadata_files.snapshot import Snapshot, Tag
from paimon_spark.maintenance.consumers import Consumer, list_consumers
from paimon_spark.metadata.branches import (
    Fork,
    is_internal_branch,
    list_branch_names,
    logical_name,
    read_fork,
    same_snapshot,
    snapshot_identity,
)
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.layout import MAIN
from paimon_spark.metadata.snapshots import list_snapshot_ids, read_alive
from paimon_spark.metadata.tags import guarded_branch, list_tags, savepoint_id_of
from paimon_spark.text import moment as utc_moment
from paimon_spark.text import safe


@dataclass(frozen=True, slots=True, repr=False)
class HistoryRef(ShownAsText):
    """A name for a commit.

    Attributes:
        kind: `branch` (its head), `tag`, `savepoint`, `guard` (keeps the base of a branch) or `consumer` (reads it
            next).
        name: of the branch, tag, savepoint (its id), guarded branch or consumer.
        branch: the branch that has the name.
    """

    kind: str
    name: str
    branch: str

    def text_lines(self) -> list[str]:
        where = "" if self.branch == "main" or self.kind == "branch" else f"{safe(self.branch)}."
        return [f"{where}{safe(self.name)}" if self.kind == "branch" else f"{self.kind} {where}{safe(self.name)}"]


@dataclass(frozen=True, slots=True, repr=False)
class Commit(ShownAsText):
    """A snapshot, once for all branches that share it.

    Attributes:
        key: `<branch>.<id>`, unique in the history; the branch is the first, from main on, in whose history it is.
        parent: key of the newest older commit that is known; None for the first.
        is_after_gap: the snapshots between the parent and this one have expired, or are beyond the limit.
        branches: in whose history it is, main first.
        is_alive: whether some branch has its file; else only tags keep it.
        refs: names for it.
        row_delta: physical rows that it added, less those that it removed; None when unknown.
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

    def text_lines(self) -> list[str]:
        refs = [str(r) for r in self.refs if r.kind != "guard"]
        delta = self.snapshot.rows_changed
        parts = [
            str(self.id),
            f"[{', '.join(refs)}]" if refs else "",
            utc_moment(self.time_ms),
            self.kind,
            "" if delta is None else f"{delta:+,} {'row' if abs(delta) == 1 else 'rows'}",
            f"job {safe(self.job)}" if self.job else "",
            "" if self.is_alive else "(expired)",
        ]
        return ["  ".join(p for p in parts if p)]

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
            "refs": [asdict(ref) for ref in self.refs],
            "kind": self.kind,
            "time_ms": s.time_ms,
            "user": s.commit_user,
            "operation": s.operation,
            "schema_id": s.schema_id,
            "row_delta": s.delta_record_count,
            "total_rows": s.total_record_count,
            "job": self.job,
        }


@dataclass(frozen=True, slots=True, repr=False)
class History(ShownAsText):
    """The commits of all branches, or of one, newest first; a commit always stands before its parent.

    Attributes:
        branches: names of all of them, main first, those without commits included.
        is_whole: False when a limit left commits out.
    """

    table: str
    branches: tuple[str, ...]
    commits: tuple[Commit, ...]
    is_whole: bool = True

    def text_lines(self) -> Iterator[str]:
        """The graph of the commits, one a line."""
        if not self.commits:
            yield "no snapshots"
        yield from draw(self.commits, str)
        if not self.is_whole:
            yield "older commits are left out; use --limit N"

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
        rows = [
            (c.key, _parent_key(c), c.kind, _labels(c), moment(c.time_ms), c.snapshot.rows_changed, c.user, c.job)
            for c in shown
        ]
        note = f"{len(self.commits):,} commits" + ("" if self.is_whole else ", older ones left out")
        if len(shown) < len(self.commits):
            note += f", {len(shown):,} shown"
        heads = ("snapshot", "parent", "kind", "names", "committed", "rows", "user", "job")
        return section(f"{self.table}: history", note, grid(heads, rows) if rows else "")


def draw(commits: Sequence[Commit], text: Callable[[Commit], str]) -> Iterator[str]:
    """Yield the lines of the graph with text beside each commit; a parent comes after its children, or is missing."""
    lanes: list[str | None] = []
    known = {c.key for c in commits}
    for commit in commits:
        lane = _lane_of(commit.key, lanes)
        others = [i for i, key in enumerate(lanes) if key == commit.key and i != lane]
        if others:
            yield _joined(lanes, lane, others)
            for i in others:
                lanes[i] = None
            _trim(lanes)
        yield f"{_marked(lanes, lane, '*')}  {text(commit)}".rstrip()
        lanes[lane] = commit.parent if commit.parent in known else None
        if commit.is_after_gap and lanes[lane] is not None:
            yield _marked(lanes, lane, ":").rstrip()
        _trim(lanes)


def _marked(lanes: Sequence[str | None], lane: int, mark: str) -> str:
    return " ".join(mark if i == lane else " " if key is None else "|" for i, key in enumerate(lanes))


def _lane_of(key: str, lanes: list[str | None]) -> int:
    """The lane that waits for a commit; else a free one, or a new one."""
    for wanted in (key, None):
        if wanted in lanes:
            return lanes.index(wanted)
    lanes.append(key)
    return len(lanes) - 1


def _joined(lanes: Sequence[str | None], lane: int, others: Sequence[int]) -> str:
    """The line in which lanes bend to the left: `|/`, or `|_|/` over lanes between."""
    last = others[-1]
    out = []
    for i, key in enumerate(lanes):
        mark = " " if key is None or i in others else "|"
        out.append(mark)
        if i == len(lanes) - 1:
            break
        is_bend = i + 1 in others
        out.append("/" if is_bend else "_" if lane <= i < last else " ")
    return "".join(out).rstrip()


def _trim(lanes: list[str | None]) -> None:
    while lanes and lanes[-1] is None:
        lanes.pop()


def _parent_key(commit: Commit) -> str:
    """The parent's key; an ellipsis stands for snapshots between."""
    return f"{commit.parent or ''}{' …' if commit.is_after_gap else ''}"


def _labels(commit: Commit) -> str:
    """The names for a commit, without guard tags."""
    seen = dict.fromkeys((r.kind, r.name) for r in commit.refs if r.kind != "guard")
    return ", ".join(name if kind == "branch" else f"{kind} {name}" for kind, name in seen)


_Identity = tuple[int, str, str]


@dataclass(slots=True)
class _BranchLog:
    """The refs and history of a branch.

    Attributes:
        fork: the recorded one.
        commits: its history, by id; filled from its own files first, then from its parent's.
    """

    name: str
    ids: Sequence[int]
    alive: Mapping[int, Snapshot]
    tags: Sequence[Tag]
    consumers: Sequence[Consumer]
    fork: Fork | None
    commits: dict[int, Snapshot] = field(default_factory=dict)

    @property
    def head(self) -> int:
        return max(self.ids, default=0)


def read_log(
    handle: TableHandle,
    limit: int | None = None,
    *,
    branch: str | None = None,
    include_internal: bool = False,
    job_property: str = "",
) -> History:
    """Read the history of the table; with `limit` the newest commits, with `branch` those in its history.

    Backup branches are left out, unless they are included or asked for by `branch`. `job_property` is the property of a
    snapshot that names the lineage job.
    """
    if limit is not None and not (type(limit) is int and limit > 0):
        raise InvalidInputError(f"limit = {limit!r}: {NO_LIMIT}", argument="limit")
    logs = _branch_logs(handle, None if limit is None else limit + 1)  # one more tells whether there are more
    _inherit(logs)
    commits = _newest_first(_commits(logs, job_property))
    if not include_internal and not is_internal_branch(branch or MAIN):
        commits = [c for c in map(_without_internal, commits) if c.branches or c.refs]
        logs = {name: log for name, log in logs.items() if not is_internal_branch(name)}
    if branch is not None:
        name = logical_name(handle.on_branch_directory(branch))
        commits = [c for c in commits if name in c.branches]
    shown = commits if limit is None else commits[:limit]
    return History(handle.name, tuple(logs), tuple(shown), len(shown) == len(commits))


def _without_internal(commit: Commit) -> Commit:
    """A commit without the names of backup branches."""
    branches = tuple(b for b in commit.branches if not is_internal_branch(b))
    return replace(commit, branches=branches, refs=tuple(r for r in commit.refs if not is_internal_branch(r.branch)))


def _branch_logs(handle: TableHandle, limit: int | None) -> dict[str, _BranchLog]:
    """Main, then the branches by name, backups last; a branch that main means appears only as main."""
    meant = handle.layout.main_branch
    logs: dict[str, _BranchLog] = {}
    handles: dict[str, TableHandle] = {}
    names = sorted((n for n in list_branch_names(handle) if n != meant), key=is_internal_branch)
    for name in (MAIN, *names):
        on_branch = handle.on_branch_directory(name)
        log = _BranchLog(
            logical_name(on_branch),
            list_snapshot_ids(on_branch),
            {},
            list_tags(on_branch),
            list_consumers(on_branch),
            None if name == MAIN else read_fork(on_branch),
        )
        logs[log.name], handles[log.name] = log, on_branch
    for name, ids in _wanted(logs, limit).items():
        logs[name].alive = {s.id: s for s in read_alive(handles[name], ids)}
    return logs


def _wanted(logs: Mapping[str, _BranchLog], limit: int | None) -> dict[str, list[int]]:
    """By branch, ids of the snapshots to read: all, or the newest `limit` of its history, including its parents'."""
    if limit is None:
        return {name: list(log.ids) for name, log in logs.items()}
    wanted = {name: set(log.ids[-limit:]) for name, log in logs.items()}
    for log in logs.values():
        left, newest = log, log.head
        seen = {log.name}
        while left.fork is not None and left.fork.parent in logs and left.fork.parent not in seen:
            newest = min(newest, left.fork.snapshot_id or 0) if left.ids else left.fork.snapshot_id or 0
            left = logs[left.fork.parent]
            seen.add(left.name)
            wanted[left.name].update([i for i in left.ids if i <= newest][-limit:])
        if left.name == MAIN or left.fork is not None:
            continue
        for other in logs.values():  # without a record, the parent shows by files that both have
            both = set(left.ids).intersection(other.ids) if other is not left else set()
            if both:
                wanted[left.name].update(sorted(i for i in both if i <= newest)[-limit:])
                wanted[other.name].update([i for i in other.ids if i <= min(newest, max(both))][-limit:])
    return {name: sorted(ids) for name, ids in wanted.items()}


def _inherit(logs: Mapping[str, _BranchLog]) -> None:
    """Fill the history of each branch: its own snapshots, and its parent's up to the fork."""
    for log in logs.values():
        # A tag with a later id than the head is of a history that the branch no longer has.
        own = {t.snapshot.id: t.snapshot for t in log.tags if t.snapshot.id <= log.head or not log.ids}
        log.commits = {**own, **log.alive}
    done: set[str] = set()
    for name in logs:
        _inherit_one(name, logs, done)


def _inherit_one(name: str, logs: Mapping[str, _BranchLog], done: set[str]) -> None:
    if name in done:
        return
    done.add(name)
    log = logs[name]
    parent, newest = _fork_of(log, logs)
    if parent is None:
        return
    _inherit_one(parent.name, logs, done)
    for i, snapshot in parent.commits.items():
        if i <= newest:
            log.commits.setdefault(i, snapshot)


def _fork_of(log: _BranchLog, logs: Mapping[str, _BranchLog]) -> tuple[_BranchLog | None, int]:
    """The parent and the newest id shared with it: recorded, else derived from files that both have."""
    if log.name == MAIN:
        return None, 0
    if log.fork is not None:
        parent = logs.get(log.fork.parent)
        if parent is None or log.fork.snapshot_id is None:
            return None, 0
        # The record is trusted unless files contradict it: another engine may have changed histories.
        contradicted = [
            i for i, s in log.commits.items() if i in parent.commits and not same_snapshot(parent.commits[i], s)
        ]
        newest = min([log.fork.snapshot_id, *(i - 1 for i in contradicted)])
        return (parent, newest) if newest else (None, 0)
    best: tuple[_BranchLog | None, int] = None, 0
    for other in logs.values():
        if other is log or (other.name != MAIN and min(other.commits, default=0) > min(log.commits, default=0)):
            continue
        shared = [i for i, s in log.commits.items() if same_snapshot(other.commits.get(i), s)]
        if max(shared, default=0) > best[1]:
            best = other, max(shared)
    return best


def _commits(logs: Mapping[str, _BranchLog], job_property: str) -> list[Commit]:
    held: dict[_Identity, list[str]] = defaultdict(list)
    found: dict[_Identity, Snapshot] = {}
    alive: set[_Identity] = set()
    refs: dict[_Identity, list[HistoryRef]] = defaultdict(list)
    for log in logs.values():
        for snapshot in log.commits.values():
            found.setdefault(snapshot_identity(snapshot), snapshot)
            held[snapshot_identity(snapshot)].append(log.name)
        for snapshot in log.alive.values():
            found[snapshot_identity(snapshot)] = snapshot
            alive.add(snapshot_identity(snapshot))
        for tag in log.tags:
            # Also a tag of a history that no branch has now.
            found.setdefault(snapshot_identity(tag.snapshot), tag.snapshot)
            refs[snapshot_identity(tag.snapshot)].append(_ref(tag, log.name))
        if log.alive:
            refs[snapshot_identity(log.alive[max(log.alive)])].insert(0, HistoryRef("branch", log.name, log.name))
        for consumer in log.consumers:
            if consumer.next_snapshot in log.commits:
                key = snapshot_identity(log.commits[consumer.next_snapshot])
                refs[key].append(HistoryRef("consumer", consumer.name, log.name))
    order = list(logs)
    keys = _distinct({i: f"{(held[i] or [refs[i][0].branch])[0]}.{i[0]}" for i in found})
    out = []
    for key, snapshot in found.items():
        branches = tuple(sorted(held[key], key=order.index))
        parent = _parent(snapshot, logs[branches[0]].commits if branches else {})
        out.append(
            Commit(
                keys[key],
                snapshot,
                None if parent is None else keys[snapshot_identity(parent)],
                snapshot.id > 1 and (parent is None or parent.id != snapshot.id - 1),
                branches,
                key in alive,
                tuple(sorted(refs[key], key=lambda r: r.kind != "branch")),
                (snapshot.properties or {}).get(job_property),
            )
        )
    return sorted(out, key=lambda c: [order.index(b) for b in c.branches])


def _newest_first(commits: Sequence[Commit]) -> list[Commit]:
    """Commits by the time of their commit, newest first, but each after its children: clocks differ.

    Source: `git log --date-order`.
    """
    place = {c.key: n for n, c in enumerate(commits)}
    children = [0] * len(commits)
    for c in commits:
        if c.parent is not None:
            children[place[c.parent]] += 1
    heap = [(-c.time_ms, -c.id, n) for n, c in enumerate(commits) if not children[n]]
    heapq.heapify(heap)
    out = []
    while heap:
        commit = commits[heapq.heappop(heap)[2]]
        out.append(commit)
        if commit.parent is None:
            continue
        n = place[commit.parent]
        children[n] -= 1
        if not children[n]:
            heapq.heappush(heap, (-commits[n].time_ms, -commits[n].id, n))
    return out


def _parent(snapshot: Snapshot, commits: Mapping[int, Snapshot]) -> Snapshot | None:
    older = commits.get(snapshot.id - 1)
    if older is not None or snapshot.id == 1:
        return older
    return commits.get(max((i for i in commits if i < snapshot.id), default=0))


def _ref(tag: Tag, branch: str) -> HistoryRef:
    guarded = guarded_branch(tag.name)
    if guarded is not None:
        return HistoryRef("guard", guarded, branch)
    savepoint = savepoint_id_of(tag.name)
    return HistoryRef("tag", tag.name, branch) if savepoint is None else HistoryRef("savepoint", str(savepoint), branch)


def _distinct(keys: Mapping[_Identity, str]) -> dict[_Identity, str]:
    """Make keys unique: a tag may keep a snapshot whose id the branch has assigned again."""
    out: dict[str, _Identity] = {}
    for which, key in keys.items():
        names = (f"{key}'{number}" if number > 1 else key for number in itertools.count(1))
        out[next(name for name in names if name not in out)] = which
    return {which: name for name, which in out.items()}
