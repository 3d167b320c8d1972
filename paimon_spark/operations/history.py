"""Operations that inspect a table: status, refs, log, diff, doctor."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from paimon_spark.advice import REPAIR
from paimon_spark.display import amount
from paimon_spark.operations.answer import Answer, lines, plain, rows
from paimon_spark.operations.operation import (
    Argument,
    Operation,
    Request,
    Type,
    UsageError,
    command_flag,
    flag,
    positional,
)
from paimon_spark.operations.shared_arguments import CHECK, required_checks, show_checks
from paimon_spark.operations.snapshots import check_limit
from paimon_spark.text import counted, grid, moment, safe

if TYPE_CHECKING:
    from paimon_spark.api.table import Table
    from paimon_spark.jobs.row_diff.row_diff import RowDiff
    from paimon_spark.versioning.damage import Finding
    from paimon_spark.versioning.diff import Diff
    from paimon_spark.versioning.log import Commit, History
    from paimon_spark.versioning.status import TableStatus

_Ref: TypeAlias = tuple[str, str, str, "int | None", str]


def _show_status(a: Request, found: TableStatus) -> Answer:
    return lines(found.text_lines(), found.to_dict())


def _refs(a: Request) -> list[_Ref]:
    """List name, kind, branch, snapshot and commit time of each."""
    table = a.table()
    found = [*_refs_on(table.branch("main"), "main", a["all"])]
    for branch in table.branches(include_internal=a["all"]):
        opened = table.branch(branch.name)
        newest = opened.snapshots()[-1:]
        head, committed = (newest[0].id, moment(newest[0].time_ms)) if newest else (None, "-")
        found.append((branch.name, "branch", "main" if branch.is_main else "", head, committed))
        found += _refs_on(opened, branch.name, a["all"])
    return found


def _refs_on(table: Table, branch: str, include_internal: bool) -> Iterator[_Ref]:
    for tag in table.tags(include_internal=include_internal):
        yield tag.name, tag.kind, branch, tag.snapshot.id, moment(tag.snapshot.time_ms)
    for consumer in table.consumers():
        yield consumer.name, "consumer", branch, consumer.next_snapshot, "-"


def _log(a: Request) -> History:
    table, limit = a.table(), check_limit(a)
    branch = None if a["graph"] or a["all"] else table.branch_name
    return table.history(limit, branch=branch, include_internal=a["all"])


def _show_log(a: Request, history: History) -> Answer:
    if a["graph"]:
        return lines(history.text_lines(), history.to_dict())
    return lines(_listed(history.commits), history.to_dict()["commits"])


def _listed(commits: Sequence[Commit]) -> Iterator[str]:
    if not commits:
        yield "no snapshots"
    yield from map(str, commits)


def _diff(a: Request) -> Diff | RowDiff:
    old, new = a["old"], a["new"]
    if new is None and ".." in old:
        old, _, new = old.partition("..")
        if not old:
            raise UsageError(f"{a['old']!r}: expected OLD..NEW")
    if a["rows"]:
        if a["partitions"]:
            raise UsageError("--partitions shows files; leave out --rows")
        return a.table().diff(old, new or None, rows=True)
    return a.table().diff(old, new or None)


def _checked_table(a: Request) -> Table:
    return a.table() if a["version"] is None else a.table().at(a["version"])


def _show_diff(a: Request, found: Any) -> Answer:
    exit_code = 0 if found.is_same else 1
    if not a["rows"]:
        return Answer(plain(found.to_dict()), lambda width: _diff_lines(found, a, width), exit_code)
    differences: RowDiff = found
    if a["stat"]:
        return lines(differences.count_lines(), differences.to_dict(), exit_code)
    listed = differences.to_arrow(check_limit(a))
    data = {**differences.to_dict(), "rows": listed.to_pylist(maps_as_pydicts="lossy")}
    left = differences.row_count - len(listed)
    more = [f"… and {counted(left, 'more row')}; use --limit N"] if left else []
    return lines([*differences.count_lines(), *differences.row_lines(listed), *more], data, exit_code)


def _diff_lines(found: Diff, a: Request, width: int | None) -> Iterator[str]:
    yield from found.text_lines()
    if not found.is_same and (a["stat"] or a["partitions"]):
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


def _show_doctor(a: Request, found: list[Finding]) -> Answer:
    from paimon_spark.versioning.doctor import finding_lines

    out = [line.replace(REPAIR.python, "this command") for line in finding_lines(found)] or [
        f"nothing is wrong with {safe(a.table().name)}" + ("; data files were not looked at" if a["quick"] else "")
    ]
    return lines(out, found, 1 if any(not f.repaired for f in found) else 0)


def _as_call(a: Request, remedy: str) -> str:
    """A remedy with the name of the table in the call that it proposes."""
    table = a.table_text.replace("'", "''")
    return a.reworded(remedy).replace("table => …", f"table => '{table}'")


OPERATIONS = (
    Operation(
        "show the state of a branch",
        lambda a: a.table().status(doctor=a["doctor"], sizes=a["size"]),
        (
            command_flag("doctor", "look for what is wrong, too"),
            command_flag("size", "show what deleting each branch, tag and savepoint would free, too"),
        ),
        command="status",
        show=_show_status,
    ),
    Operation(
        "list the commits of a branch, newest first; with --graph those of all branches",
        _log,
        (
            command_flag("graph", "draw the branches of the table and where they part", "-g"),
            command_flag("all", "list the commits of all branches, backups included", "-a"),
            Argument("limit", "list only the newest", Type.INT, spellings=("-n",)),
        ),
        command="log",
        show=_show_log,
    ),
    Operation(
        "compare two versions by their files or their rows; exit code 1 when they differ",
        _diff,
        (
            positional("old", "a version, such as main, fix.v1 or 12; or OLD..NEW"),
            positional("new", "another version", required=False, otherwise="the head of the branch"),
            command_flag("rows", "compare the rows, not the files"),
            Argument("limit", "list at most so many rows", Type.INT, default=20, spellings=("-n",)),
            command_flag("stat", "show rows by partition; with --rows only the numbers of rows and values"),
            command_flag("partitions", "show files, rows and bytes by partition"),
        ),
        details="Without --rows, files that a compaction rewrote differ, too.",
        command="diff",
        show=_show_diff,
    ),
    Operation(
        "run checks on the rows of a table, branch or version; exit code 1 when any fails",
        lambda a: _checked_table(a).check(required_checks(a)),
        (positional("version", "tag, snapshot or version", required=False, otherwise="the head of the branch"), CHECK),
        command="check",
        show=show_checks,
    ),
    Operation(
        "list tags, branches, savepoints and consumers of all branches",
        _refs,
        (command_flag("all", "list the guard tags of branches and backup branches, too", "-a"),),
        command="refs",
        show=lambda a, found: rows(
            ("name", "kind", "branch", "snapshot", "committed"),
            found,
            empty="no tags, branches, savepoints or consumers",
        ),
    ),
    Operation(
        "find what is wrong with the tags, branches and history of a table; exit code 1 when anything is",
        lambda a: a.table().doctor(repair=a["repair"], quick=a["quick"]),
        (
            flag("repair", "repair what can be repaired"),
            flag("quick", "do not look at data, changelog and index files, nor at the manifests of old snapshots"),
        ),
        procedure="doctor",
        result="kind STRING, severity STRING, branch STRING, message STRING, remedy STRING, repaired BOOLEAN",
        rows=lambda a, found: [
            (f.kind, f.severity.value, f.branch, a.reworded(f.message), _as_call(a, f.remedy), f.repaired)
            for f in found
        ],
        is_own=True,
        command="doctor",
        show=_show_doctor,
    ),
)
