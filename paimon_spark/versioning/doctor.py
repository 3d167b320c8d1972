"""Diagnose snapshots, tags and branches of a table, and repair what is safe to repair.

Checks read refs, what metadata they name, and one listing of each directory. Repairs are one change of the
table, found again under its lock.

Source: the dangers of PIP-14 and Paimon's branches: Java `utils/FileSystemBranchManager`, pypaimon
`branch/filesystem_branch_manager.py`, Java `table/ExpireSnapshotsImpl`, which looks at tags of main only.

Tests: tests/unit/versioning/test_doctor.py.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from paimon_spark import progress
from paimon_spark.advice import REPAIR
from paimon_spark.display import ShownList, grid, section
from paimon_spark.errors import CorruptFileError, StorageError
from paimon_spark.maintenance.change import change_table, check_there, recover, unfinished
from paimon_spark.maintenance.roots import all_roots
from paimon_spark.metadata.handle import TableHandle, branch_names, read_main_branch
from paimon_spark.metadata.journal.change import DeleteTree, Root, TableChange, relative_path
from paimon_spark.metadata.layout import MAIN, Layout
from paimon_spark.metadata.schemas import list_schema_ids, visible_schema_ids
from paimon_spark.options.location import DATABASE_SUFFIX, is_name
from paimon_spark.text import safe
from paimon_spark.versioning.branch_state import STAGING_PREFIX
from paimon_spark.versioning.damage import (
    Case,
    Finding,
    Severity,
    ambiguous_names,
    foreign_tags,
    lost_files,
    missing_files,
    missing_schemas,
    other_schemas,
    splices,
    stale_guards,
    stale_hints,
    unprotected_bases,
)
from paimon_spark.versioning.inspected import Inspected

_SHOWN: Final = 5
_Look = Callable[[Inspected, TableHandle], Iterator[Case]]
_LOOKS: Final[tuple[_Look, ...]] = (
    unprotected_bases,
    stale_guards,
    splices,
    missing_schemas,
    other_schemas,
    stale_hints,
    foreign_tags,
    ambiguous_names,
)


def run_doctor(handle: TableHandle, *, repair: bool = False, quick: bool = False) -> list[Finding]:
    """All findings on the table's snapshots, tags and branches, worst first; with `repair`, after repairing them.

    With `quick`, of the files that they need only manifest lists and the manifests of heads and tags are looked at.
    """
    check_there(handle)
    if not repair:
        cases = (*_unfinished(handle), *_cases(handle, quick))
        return _sorted([replace(case.finding, command=_command(handle, case)) for case in cases])
    before = [replace(case.finding, repaired=True) for case in _unfinished(handle)]
    recover(handle)
    found: list[Case] = []

    def plan() -> TableChange | None:
        found[:] = _cases(handle, quick)
        steps = tuple(step for case in found for step in case.steps)
        released = tuple(root for case in found for root in case.released)
        return TableChange("repair", "repair", steps, released) if steps else None

    change_table(handle, "repair", plan)
    left = [case if case.steps else _with_command(handle, case) for case in found]
    return _sorted([*before, *(replace(case.finding, repaired=bool(case.steps)) for case in left)])


class Findings(ShownList[Finding]):
    """Findings, of which those of a kind are shown together."""

    def __str__(self) -> str:
        return "\n".join(finding_lines(self)) or "nothing is wrong"

    def _repr_html_(self) -> str:
        if not self:
            return section(self.title, "none")
        heads = ("finding", "kind", "branch", "what", "what to do")
        rows = [
            (some[0].state, some[0].kind, _branches(some), message_of(some), "\n".join(_advice(some)))
            for some in of_one_kind(self)
        ]
        return section(self.title, f"{len(self):,}", grid(heads, rows))


def finding_lines(findings: Iterable[Finding]) -> list[str]:
    """Findings as text: those of one kind are one, with their number and the advice of the first."""
    out: list[str] = []
    for some in of_one_kind(findings):
        out.append(f"{some[0].state}: {some[0].kind} on {safe(_branches(some))}: {safe(message_of(some))}")
        out += _advice(some)
    return out


def of_one_kind(findings: Iterable[Finding]) -> list[list[Finding]]:
    """Findings by kind, severity and whether they were repaired, in the order of the first of each."""
    groups: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        groups.setdefault((finding.kind, finding.state), []).append(finding)
    return list(groups.values())


def message_of(some: Sequence[Finding]) -> str:
    """Message for findings of one kind."""
    more = f" ({len(some)} findings of this kind, this is the first; --json lists all)" if len(some) > 1 else ""
    return f"{some[0].message}{more}"


def _branches(some: Sequence[Finding]) -> str:
    names = list(dict.fromkeys(f.branch for f in some))
    return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")


def _advice(some: Sequence[Finding]) -> list[str]:
    return [] if some[0].repaired else some[0].advice


def _with_command(handle: TableHandle, case: Case) -> Case:
    return replace(case, finding=replace(case.finding, command=_command(handle, case)))


def _command(handle: TableHandle, case: Case) -> str | None:
    """The shell command that repairs a case, as it can be pasted."""
    verb, names = case.verb, case.names
    if case.steps or case.finding.kind == "unfinished-operation":
        verb, names = ("doctor",), ("--repair",)
    if not verb:
        return None
    url = handle.store.url(handle.layout.root)
    folder, _, table = url.rpartition("/")
    warehouse, _, database = folder.rpartition("/")
    if not database.endswith(DATABASE_SUFFIX) or not is_name(f"{database.removesuffix(DATABASE_SUFFIX)}.{table}"):
        return shlex.join(["paimon-spark", *verb, *names, "--path", url])
    name = f"{database.removesuffix(DATABASE_SUFFIX)}.{table}"
    return shlex.join(["paimon-spark", *verb, name, *names, "--warehouse", warehouse])


def _sorted(findings: Sequence[Finding]) -> list[Finding]:
    order = {severity: n for n, severity in enumerate(Severity)}
    return sorted(findings, key=lambda f: (order[f.severity], f.branch != MAIN, f.branch, f.kind, f.message))


def _unfinished(handle: TableHandle) -> Iterator[Case]:
    try:
        what = unfinished(handle)
    except CorruptFileError as e:
        yield Case.of("unreadable", Severity.ERROR, MAIN, e.message, "as the message says")
        return
    if what is not None:
        yield Case.of(
            "unfinished-operation",
            Severity.WARNING,
            MAIN,
            f"an operation on tags or branches is running, or was left unfinished: {what}",
            f"if its process is gone, the next operation finishes it, and so does {REPAIR}",
        )


def _cases(handle: TableHandle, quick: bool) -> list[Case]:
    found: list[Case] = []
    store, root = handle.store, handle.layout.root
    main_branch = read_main_branch(store, root)
    layout = Layout(root, MAIN, main_branch, handle.layout.data_directory)
    if not list_schema_ids(store, layout):
        found.append(_no_main(handle, layout))
        layout = replace(layout, main_branch=None)
    main = replace(handle, layout=layout)
    names = branch_names(store, layout)
    branches = [main] if list_schema_ids(store, layout) else []
    for name in names:
        branch = main.on_branch_directory(name)
        if name.startswith("."):
            if name != main_branch and name.startswith(STAGING_PREFIX):
                found.append(_staging(branch))
        elif not list_schema_ids(store, branch.layout):
            found.append(_no_schema(branch))
        elif name != main_branch and visible_schema_ids(store, branch.layout):  # else an operation is running there
            branches.append(branch)
    try:
        roots: dict[str, list[Root]] = {}
        for one in all_roots(main):
            roots.setdefault(one.branch_directory, []).append(one)
    except CorruptFileError as e:
        message = f"a ref cannot be read, so nothing can be deleted: {e.message}"
        found.append(Case.of("unreadable", Severity.ERROR, MAIN, message, "restore the file, or remove it"))
        return found
    own_names = frozenset(b.branch for b in branches if b.branch != MAIN)
    table = Inspected(main, tuple(branches), roots, frozenset(names), own_names)
    try:
        found += missing_files(table) if quick else lost_files(table)
    except (CorruptFileError, StorageError) as e:
        found.append(Case.of("unreadable", Severity.ERROR, MAIN, e.message, "restore the file"))
    for branch in progress.counted(branches, "look for damage", "branches", len(branches)):
        for look in _LOOKS:
            try:
                found += list(look(table, branch))
            except CorruptFileError as e:
                found.append(Case.of("unreadable", Severity.ERROR, branch.branch, e.message, "restore the file"))
    return found


def _no_main(handle: TableHandle, layout: Layout) -> Case:
    own = list_schema_ids(handle.store, Layout(layout.root))
    return Case.of(
        "main-missing",
        Severity.ERROR,
        MAIN,
        f"{handle.store.url(layout.main_branch_file)} says that main is branch {layout.main_branch!r}, which has no "
        "schema"
        if layout.main_branch
        else f"{handle.store.url(layout.root)} has no schema",
        "remove the file, and main is the table's own directory again" if own else "restore the schema files",
    )


def _staging(branch: TableHandle) -> Case:
    return Case.of(
        "left-over",
        Severity.NOTE,
        MAIN,
        f"{branch.store.url(branch.layout.branch_root)} is left of a merge, and nothing reads it",
        f"{REPAIR} removes it",
        [DeleteTree(relative_path(branch, branch.layout.branch_root))],
        [root for root in all_roots(branch) if root.branch_directory == branch.branch],
    )


def _no_schema(branch: TableHandle) -> Case:
    case = Case.of(
        "left-over",
        Severity.WARNING,
        branch.branch,
        f"{branch.store.url(branch.layout.branch_root)} has no schema, so it is not a branch; its snapshots and tags "
        "still keep their files",
        f"delete_branch({branch.branch!r}) removes it",
    )
    return replace(case, verb=("branch", "delete"), names=(branch.branch,))
