"""Operations that inspect a table: status, refs, log, diff, doctor."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

from paimon_spark.display import amount
from paimon_spark.operations.answer import Answer, lines, plain, rows
from paimon_spark.operations.operation import Argument, Operation, Request, Type, UsageError, command_flag, positional
from paimon_spark.operations.snapshots import check_limit
from paimon_spark.operations.tags import kind_of
from paimon_spark.operations.text import counted, grid, moment, safe, shown
from paimon_spark.options.known import shown_changes

if TYPE_CHECKING:
    from paimon_spark.api.table import Table
    from paimon_spark.versioning.damage import Finding
    from paimon_spark.versioning.diff import Diff, Side
    from paimon_spark.versioning.log import Commit, History, HistoryRef
    from paimon_spark.versioning.status import BranchStatus, HeadStatus, TableStatus

_Ref: TypeAlias = tuple[str, str, str, "int | None", str]


def _show_status(a: Request, found: TableStatus) -> Answer:
    return lines(_status_lines(found), found.to_dict())


def _status_lines(found: TableStatus) -> Iterator[str]:
    yield f"{safe(found.table)} on branch {safe(found.branch)}"
    yield safe(found.location)
    keys = f", key {safe(', '.join(found.primary_keys))}" if found.primary_keys else ""
    parts = f", partitioned by {safe(', '.join(found.partition_keys))}" if found.partition_keys else ""
    engine = f", {found.merge_engine}" if found.merge_engine else ""
    yield f"{found.kind} table{keys}{parts}, bucket {found.bucket}{engine}, schema {found.schema_id}"
    if found.main_branch is not None:
        yield f"main means branch {safe(found.main_branch)}"
    yield f"head: {_head(found.head)}"
    yield f"at the head: {counted(found.rows, 'row')}, {counted(found.files, 'file')}, {amount(found.bytes)}"
    yield (
        f"{counted(found.snapshots, 'snapshot')}, {counted(found.tags, 'tag')}, "
        f"{counted(found.savepoints, 'savepoint')}, {counted(len(found.branches), 'branch')}"
    )
    yield from (f"branch {_branch(b)}" for b in found.branches)
    for consumer in found.consumers:
        yield f"consumer {safe(consumer.name)}: needs snapshot {consumer.next_snapshot_id}, {consumer.behind:,} behind"
    if found.operation is not None:
        yield f"under way or unfinished: {safe(found.operation)}"
    yield from (f"due: {safe(text)}" for text in found.due)
    for finding in found.findings or ():
        yield f"{finding.severity.value}: {safe(finding.message)}"


def _head(head: HeadStatus | None) -> str:
    if head is None:
        return "no snapshot yet"
    operation = f" ({safe(head.operation)})" if head.operation else ""
    return f"snapshot {head.snapshot_id}, {head.kind}{operation}, {moment(head.time_ms)}, by {safe(head.user)}"


def _branch(branch: BranchStatus) -> str:
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


def _refs(a: Request) -> list[_Ref]:
    """List name, kind, branch, snapshot and commit time of each."""
    table = a.table()
    found = [*_refs_on(table.branch("main"), "main")]
    for branch in table.branches():
        opened = table.branch(branch.name)
        newest = opened.snapshots()[-1:]
        head, committed = (newest[0].id, moment(newest[0].time_ms)) if newest else (None, "-")
        found.append((branch.name, "branch", "main" if branch.is_main else "", head, committed))
        found += _refs_on(opened, branch.name)
    return found if a["all"] else [row for row in found if row[1] != "guard"]


def _refs_on(table: Table, branch: str) -> Iterator[_Ref]:
    for tag in table.tags():
        yield tag.name, kind_of(tag), branch, tag.snapshot.id, moment(tag.snapshot.time_ms)
    for consumer in table.consumers():
        yield consumer.name, "consumer", branch, consumer.next_snapshot, "-"


def _log(a: Request) -> History:
    table, limit = a.table(), check_limit(a)
    return table.history(limit, branch=None if a["graph"] or a["all"] else table.branch_name)


def _show_log(a: Request, history: History) -> Answer:
    if a["graph"]:
        return lines(_graph(history), history.to_dict())
    return lines(_listed(history.commits), history.to_dict()["commits"])


def _listed(commits: Sequence[Commit]) -> Iterator[str]:
    if not commits:
        yield "no snapshots"
    yield from (_line(c) for c in commits)


def _graph(history: History) -> Iterator[str]:
    if not history.commits:
        yield "no snapshots"
    yield from draw(history.commits, _line)
    if not history.is_whole:
        yield "older commits are left out; use --limit N"


def _line(commit: Commit) -> str:
    refs = [_ref(r) for r in commit.refs if r.kind != "guard"]
    named = f"[{', '.join(refs)}]" if refs else ""
    delta = (
        "" if commit.row_delta is None else f"{commit.row_delta:+,} {'row' if abs(commit.row_delta) == 1 else 'rows'}"
    )
    job = f"job {safe(commit.job)}" if commit.job else ""
    gone = "" if commit.is_alive else "(expired)"
    parts = [str(commit.id), named, moment(commit.time_ms), commit.kind, delta, job, gone]
    return "  ".join(p for p in parts if p)


def _ref(ref: HistoryRef) -> str:
    where = "" if ref.branch == "main" or ref.kind == "branch" else f"{safe(ref.branch)}."
    return f"{where}{safe(ref.name)}" if ref.kind == "branch" else f"{ref.kind} {where}{safe(ref.name)}"


def _diff(a: Request) -> Diff:
    old, new = a["old"], a["new"]
    if new is None and ".." in old:
        old, _, new = old.partition("..")
        if not old:
            raise UsageError(f"{a['old']!r}: expected OLD..NEW")
    return a.table().diff(old, new or None)


def _show_diff(a: Request, found: Diff) -> Answer:
    return Answer(plain(found.to_dict()), lambda width: _diff_lines(found, a, width), 0 if found.is_same else 1)


def _diff_lines(found: Diff, a: Request, width: int | None) -> Iterator[str]:
    yield f"{safe(found.table)}: {_side(found.old)} -> {_side(found.new)}"
    if found.ahead is not None and found.behind is not None:
        yield f"{counted(found.ahead, 'commit')} ahead, {counted(found.behind, 'commit')} behind"
    if found.is_same:
        yield "the same"
        return
    yield f"+ {_amount(found.files_added, found.rows_added, found.bytes_added)}"
    yield f"- {_amount(found.files_removed, found.rows_removed, found.bytes_removed)}"
    if found.files_changed:
        yield (
            f"~ {counted(found.files_changed, 'file')}: {counted(found.rows_deleted, 'row')} deleted, "
            f"{found.rows_restored:,} restored"
        )
    for column in found.columns:
        yield f"column {safe(column.name)} {column.kind}: {shown(column.old)} -> {shown(column.new)}"
    for key, (before, after) in sorted(shown_changes(found.options).items()):
        yield f"option {safe(key)}: {shown(before)} -> {shown(after)}"
    if a["stat"] or a["partitions"]:
        yield from _by_partition(found, a["partitions"], width)


def _by_partition(found: Diff, all_columns: bool, width: int | None) -> Iterator[str]:
    yield ""
    if all_columns:
        heads = ("partition", "+files", "-files", "+rows", "-rows", "+size", "-size", "changed")
        yield from grid(
            heads,
            [
                (
                    p.name or "(all)",
                    p.files_added,
                    p.files_removed,
                    p.rows_added,
                    p.rows_removed,
                    amount(p.bytes_added),
                    amount(p.bytes_removed),
                    p.files_changed,
                )
                for p in found.partitions
            ],
            width,
        )
        return
    most = max((p.rows_added + p.rows_removed for p in found.partitions), default=0)
    table = [
        (p.name or "(all)", p.rows_added + p.rows_removed, _bar(p.rows_added, p.rows_removed, most))
        for p in found.partitions
    ]
    yield from list(grid(("", "", ""), table, width))[1:]


_BAR = 40


def _bar(added: int, removed: int, most: int) -> str:
    """`+++--`, as `git diff --stat` draws it."""
    scale = min(1.0, _BAR / most) if most else 1.0
    drawn = [max(round(n * scale), 1) if n else 0 for n in (added, removed)]
    return "+" * drawn[0] + "-" * drawn[1]


def _side(side: Side) -> str:
    snapshot = "no snapshot" if side.snapshot_id is None else f"snapshot {side.snapshot_id}"
    return f"{safe(side.label)} ({snapshot})"


def _amount(files: int, count: int, size_bytes: int) -> str:
    return f"{counted(files, 'file')}, {counted(count, 'row')}, {amount(size_bytes)}"


def _show_doctor(a: Request, found: list[Finding]) -> Answer:
    out = [line for finding in found for line in _finding(finding)] or [f"nothing is wrong with {safe(a.table().name)}"]
    return lines(out, found, 1 if any(not f.repaired for f in found) else 0)


def _finding(finding: Finding) -> list[str]:
    state = "repaired" if finding.repaired else finding.severity.value
    out = [f"{state}: {finding.kind} on {safe(finding.branch)}: {safe(finding.message)}"]
    return out if finding.repaired else [*out, f"  {safe(finding.remedy)}"]


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


OPERATIONS = (
    Operation(
        "show the state of a branch",
        lambda a: a.table().status(doctor=a["doctor"]),
        (command_flag("doctor", "look for what is wrong, too"),),
        command="status",
        show=_show_status,
    ),
    Operation(
        "list the commits of a branch, newest first; with --graph those of all branches",
        _log,
        (
            command_flag("graph", "draw the branches of the table and where they part", "-g"),
            command_flag("all", "list the commits of all branches", "-a"),
            Argument("limit", "list only the newest", Type.INT, spellings=("-n",)),
        ),
        command="log",
        show=_show_log,
    ),
    Operation(
        "compare two versions by their files; exit code 1 when they differ",
        _diff,
        (
            positional("old", "a version, such as main, fix.v1 or 12; or OLD..NEW"),
            positional("new", "another version", required=False, otherwise="the head of the branch"),
            command_flag("stat", "show rows by partition"),
            command_flag("partitions", "show files, rows and bytes by partition"),
        ),
        details="Files are compared, not the rows in them: files that a compaction rewrote differ, too.",
        command="diff",
        show=_show_diff,
    ),
    Operation(
        "list tags, branches, savepoints and consumers of all branches",
        _refs,
        (command_flag("all", "list the guard tags of branches, too", "-a"),),
        command="refs",
        show=lambda a, found: rows(
            ("name", "kind", "branch", "snapshot", "committed"),
            found,
            empty="no tags, branches, savepoints or consumers",
        ),
    ),
    Operation(
        "find what is wrong with the tags, branches and history of a table; exit code 1 when anything is",
        lambda a: a.table().doctor(repair=a["repair"]),
        (Argument("repair", "repair what can be repaired", Type.BOOLEAN, default=False, is_flag=True),),
        procedure="doctor",
        result="kind STRING, severity STRING, branch STRING, message STRING, remedy STRING, repaired BOOLEAN",
        rows=lambda a, found: [
            (f.kind, f.severity.value, f.branch, a.reworded(f.message), a.reworded(f.remedy), f.repaired) for f in found
        ],
        is_own=True,
        command="doctor",
        show=_show_doctor,
    ),
)
