"""Check branches for damage that other engines leave: one function for each kind, and the findings they return.

Unprotected bases and stale guards; missing files; ambiguous names; spliced histories, stale hints and tags of another
history; missing schemas, and schemas that differ between branches.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Final

from paimon_spark.display import ShownAsFacts
from paimon_spark.errors import CorruptFileError, FileMissingError, InvalidInputError
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.format.metadata_files.table_schema import decode as decode_schema
from paimon_spark.metadata.branches import (
    Fork,
    ancestry,
    encode_fork,
    fork_of,
    fork_path,
    is_main,
    logical_name,
    newest_shared,
    same_snapshot,
)
from paimon_spark.metadata.handle import TableHandle, branch_names
from paimon_spark.metadata.journal.change import Delete, Put, Root, RootKind, Step, relative_path
from paimon_spark.metadata.layout import LATEST, MAIN
from paimon_spark.metadata.manifests import read_manifest_list
from paimon_spark.metadata.schemas import list_schema_ids
from paimon_spark.metadata.snapshots import read_hint
from paimon_spark.metadata.tags import find_tag, guard_name, guarded_branch, savepoint_tag
from paimon_spark.versioning.names import check_branch_name, check_tag_name
from paimon_spark.versioning.relation import contradicts, follows
from paimon_spark.versioning.tag_steps import find_known_snapshot, guard_put, plan_guards


class Severity(str, Enum):
    """How bad a finding is: ERROR, something cannot be read; WARNING, it may come to that; NOTE, it is untidy."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Finding(ShownAsFacts):
    """One thing that is wrong.

    Attributes:
        kind: stable code: `unfinished-operation`, `main-missing`, `unprotected-base`, `stale-guard`, `missing-files`,
            `spliced-history`, `missing-schema`, `other-schema`, `stale-hint`, `foreign-lineage-tag`,
            `ambiguous-name`, `left-over`, `unreadable`.
        branch: where; `main` also for what concerns the whole table.
        message: what was found.
        remedy: what to do.
        repaired: whether it has been mended by this call.
    """

    kind: str
    severity: Severity
    branch: str
    message: str
    remedy: str
    repaired: bool = False


@dataclass(frozen=True, slots=True)
class Case:
    """A finding, and what mends it."""

    finding: Finding
    steps: tuple[Step, ...] = ()
    released: tuple[Root, ...] = ()


@dataclass(frozen=True, slots=True)
class Inspected:
    """What is looked at, read once.

    Attributes:
        main: main as it is; with a `MAIN-BRANCH` that leads nowhere, the table's own directory.
        branches: a handle on each branch with a schema, main's first.
        roots: by the directory of their branch.
    """

    main: TableHandle
    branches: tuple[TableHandle, ...]
    roots: dict[str, list[Root]]

    def of(self, branch: TableHandle, kind: RootKind) -> list[Root]:
        roots = self.roots.get(branch.layout.directory_branch, [])
        return sorted((r for r in roots if r.kind is kind), key=lambda r: (r.snapshot.id, r.name))


def some(names: Sequence[str], count: int = 5) -> str:
    """The first names, and how many more there are."""
    return ", ".join(names[:count]) + (f" and {len(names) - count} more" if len(names) > count else "")


def unprotected_bases(table: Inspected, branch: TableHandle) -> list[Case]:
    """A branch whose base other engines would let expire."""
    if is_main(branch):
        return []
    fork = fork_of(branch)
    if fork is None or fork.snapshot_id is None:
        return []
    guard = guard_name(branch.branch)
    lacking, stale = [], []
    child = branch
    for name, snapshot_id in ancestry(branch, fork.snapshot_id)[1:]:
        parent = branch.on_branch_directory(name)
        base = find_known_snapshot(parent, snapshot_id) or find_known_snapshot(child, snapshot_id)
        child = parent
        tag = find_tag(parent, guard)
        if tag is None and base is not None:
            lacking.append(name)
        elif tag is not None and base is not None and not same_snapshot(tag.snapshot, base):
            stale.append(name)
    if not lacking and not stale:
        return []
    parent = branch.on_branch_directory(fork.parent)
    base = find_known_snapshot(branch, fork.snapshot_id) or find_known_snapshot(parent, fork.snapshot_id)
    where = ", ".join([*lacking, *stale])
    finding = Finding(
        "unprotected-base",
        Severity.WARNING,
        branch.branch,
        f"no guard tag {guard!r} on {where} keeps snapshot {fork.snapshot_id}, which the branch was made from: engines "
        f"that look at tags of {where} only may delete its files",
        "doctor(repair=True) puts the tag there"
        if base is not None
        else f"nobody knows snapshot {fork.snapshot_id} any more; read the branch, and copy it while it can be read",
    )
    if base is None:
        return [Case(finding)]
    guards = plan_guards(parent, branch.branch, base)
    record = Fork(logical_name(parent), base.id, fork.tag, base.time_ms, fork.created_ms, guards.names)
    steps: tuple[Step, ...] = (
        *guards.steps,
        guard_put(branch, branch.branch, base),
        Put(relative_path(branch, fork_path(branch)), encode_fork(record).decode()),
    )
    return [Case(finding, steps, guards.released)]


def stale_guards(table: Inspected, branch: TableHandle) -> list[Case]:
    """Guards of branches that are gone."""
    there = set(branch_names(branch.store, branch.layout))
    found = []
    for root in table.of(branch, RootKind.TAG):
        guarded = guarded_branch(root.name)
        if guarded is None or guarded in there:
            continue
        finding = Finding(
            "stale-guard",
            Severity.NOTE,
            branch.branch,
            f"tag {root.name!r} guards the base of branch {guarded!r}, which is gone",
            "doctor(repair=True) removes it, with the files that nothing else needs",
        )
        found.append(Case(finding, (Delete(relative_path(branch, branch.layout.tag_path(root.name))),), (root,)))
    return found


def missing_files(table: Inspected) -> list[Case]:
    """Refs whose manifest lists, index manifests or statistics are gone, and heads and tags whose manifests are."""
    main = table.main
    manifests, _, statistics = (
        frozenset(i.name for i in main.store.list(directory)) for directory in main.layout.shared_dirs
    )
    found: dict[str, list[tuple[str, str]]] = {}
    for branch in table.branches:
        snapshots = table.of(branch, RootKind.SNAPSHOT)
        for root in [*snapshots, *table.of(branch, RootKind.TAG)]:
            snapshot = root.snapshot
            lists = [snapshot.base_manifest_list, snapshot.delta_manifest_list]
            names = [*lists, *([snapshot.index_manifest] if snapshot.index_manifest else [])]
            if root.kind is RootKind.SNAPSHOT and snapshot.changelog_manifest_list:
                names.append(snapshot.changelog_manifest_list)
            lost = [n for n in names if n not in manifests]
            if snapshot.statistics and snapshot.statistics not in statistics:
                lost.append(snapshot.statistics)
            if not lost and (root.kind is RootKind.TAG or root is snapshots[-1]):
                lost = _lost_manifests(main, lists, manifests)
            if lost:
                found.setdefault(branch.branch, []).append((root.describe(), lost[0]))
    return [
        Case(
            Finding(
                "missing-files",
                Severity.ERROR,
                name,
                f"{some([ref for ref, _ in refs])} cannot be read: manifest files are gone, {refs[0][1]} first; "
                "another engine deleted what it saw no use for",
                "restore the files from a backup, or delete these refs",
            )
        )
        for name, refs in found.items()
    ]


def _lost_manifests(main: TableHandle, lists: Sequence[str], there: frozenset[str]) -> list[str]:
    try:
        return [m.file_name for name in lists for m in read_manifest_list(main, name) if m.file_name not in there]
    except FileMissingError:
        return list(lists)
    except CorruptFileError as e:
        return [e.message]


_SAVEPOINT: Final = "savepoint-"


def ambiguous_names(table: Inspected, branch: TableHandle) -> list[Case]:
    """Names that we would not have given."""
    cases = []
    others = [b.branch for b in table.branches if b.branch != MAIN]
    if branch.branch != MAIN:
        own = [r.name for b in table.branches for r in table.of(b, RootKind.TAG)]
        cases += _refused(branch, partial(check_branch_name, branch.branch, table=branch.name, tag_names=own))
    for root in table.of(branch, RootKind.TAG):
        if guarded_branch(root.name) is not None or root.name == savepoint_tag(root.snapshot.id):
            continue
        if root.name.startswith(_SAVEPOINT) and root.name.removeprefix(_SAVEPOINT).isdecimal():
            finding = Finding(
                "ambiguous-name",
                Severity.NOTE,
                branch.branch,
                f"tag {root.name!r} looks like a savepoint, but is snapshot {root.snapshot.id}",
                "rename the tag",
            )
            cases.append(Case(finding))
            continue
        check = partial(check_tag_name, root.name, table=branch.describe(), branch_names=others)
        cases += _refused(branch, check)
    return cases


def _refused(branch: TableHandle, check: Callable[[], None]) -> list[Case]:
    try:
        check()
    except InvalidInputError as e:
        remedy = "rename it; until then versions are resolved in the order of docs/versions.md"
        return [Case(Finding("ambiguous-name", Severity.NOTE, branch.branch, e.message, remedy))]
    return []


_NEIGHBOURS_COMPARED: Final = 200
"""Neighbours in a history, newest first, whose manifest lists are compared."""


def splices(table: Inspected, branch: TableHandle) -> list[Case]:
    """Neighbours in the history that do not follow on one another."""
    snapshots = [r.snapshot for r in table.of(branch, RootKind.SNAPSHOT)]
    pairs = list(itertools.pairwise(snapshots))
    found, looked = [], 0
    for before, after in reversed(pairs):
        if after.id != before.id + 1:
            words = f"there is a hole: snapshot {before.id} is followed by {after.id}"
        elif contradicts(before, after):
            words = (
                f"snapshot {after.id} was not made on snapshot {before.id}: {after.total_record_count} rows in all, "
                f"{after.delta_record_count} of them new, do not go with {before.total_record_count} before"
            )
        elif not _continues(before, after) and looked < _NEIGHBOURS_COMPARED:
            looked += 1
            if follows(branch, before, after) is not False:
                continue
            words = f"snapshot {after.id} was not made on snapshot {before.id}: it does not know its manifests"
        else:
            continue
        found.append(Case(_spliced(branch, words, after)))
    return found


def _spliced(branch: TableHandle, words: str, after: Snapshot) -> Finding:
    return Finding(
        "spliced-history",
        Severity.WARNING,
        branch.branch,
        f"{words}; another engine put two histories together (a fast-forward, or a commit while main was replaced). "
        f"The head is snapshot {after.id} or what follows on it",
        f"if the head is not the right one, roll back to snapshot.{after.id - 1}, after making a branch of the head, "
        "or merge the branch again",
    )


def _continues(before: Snapshot, after: Snapshot) -> bool:
    """Whether both are of one writer that numbers its commits."""
    return (
        before.commit_user == after.commit_user
        and before.commit_identifier <= after.commit_identifier <= before.commit_identifier + 1
        and after.commit_identifier < 2**62
    )


def stale_hints(table: Inspected, branch: TableHandle) -> list[Case]:
    """A hint that engines believe though it is wrong: no snapshot follows the one it names."""
    places = (
        (RootKind.SNAPSHOT, branch.layout.snapshot_dir),
        (RootKind.CHANGELOG, branch.layout.changelog_dir),
    )
    found = []
    for kind, directory in places:
        ids = {r.snapshot.id for r in table.of(branch, kind)}
        hint = read_hint(branch.store, f"{directory}/{LATEST}")
        if hint is None or not ids or hint + 1 in ids or hint == max(ids):
            continue
        finding = Finding(
            "stale-hint",
            Severity.WARNING,
            branch.branch,
            f"{branch.store.url(f'{directory}/{LATEST}')} says {hint}, but the newest {kind.value} is {max(ids)}; Java "
            "Paimon believes it",
            "doctor(repair=True) corrects it",
        )
        found.append(Case(finding, (Put(relative_path(branch, f"{directory}/{LATEST}"), str(max(ids))),)))
    return found


def foreign_tags(table: Inspected, branch: TableHandle) -> list[Case]:
    """Tags on main of snapshots that are not of main's own history, as far as main's snapshots show it."""
    alive = {r.snapshot.id: r.snapshot for r in table.of(branch, RootKind.SNAPSHOT)}
    if not is_main(branch) or not alive:
        return []
    found = []
    for root in table.of(branch, RootKind.TAG):
        snapshot, own = root.snapshot, alive.get(root.snapshot.id)
        if guarded_branch(root.name) is not None or same_snapshot(own, snapshot):
            continue
        homes = [b for b in table.branches if not is_main(b) and _is_of(table, b, snapshot)]
        if own is not None:
            why = f"main's own snapshot {snapshot.id} is another"
        elif homes and snapshot.id > max(alive):
            why = f"main's head is snapshot {max(alive)}"
        else:  # expired: nothing is left to compare it with
            continue
        found.append(Case(_foreign_tag(table, root, why, homes)))
    return found


def _is_of(table: Inspected, branch: TableHandle, snapshot: Snapshot) -> bool:
    roots = [*table.of(branch, RootKind.SNAPSHOT), *table.of(branch, RootKind.TAG)]
    return any(same_snapshot(r.snapshot, snapshot) for r in roots)


def _foreign_tag(table: Inspected, root: Root, why: str, homes: Sequence[TableHandle]) -> Finding:
    name, home = root.name, homes[0].branch if homes else None
    if home is None:
        remedy = (
            "if another engine gave main the snapshots of a branch, merge_branch of that branch puts main right and "
            f"keeps the tag in a backup branch; else read what is needed of it, and delete_tag({name!r})"
        )
    elif any(same_snapshot(r.snapshot, root.snapshot) for r in table.of(homes[0], RootKind.TAG)):
        remedy = f"delete_tag({name!r}) on main; branch {home!r} has a tag of the snapshot"
    else:
        remedy = (
            f"tag the snapshot where it belongs, branch({home!r}).create_tag({name!r}, "
            f"snapshot_id={root.snapshot.id}), then delete_tag({name!r}) on main"
        )
    whose = "another history" if home is None else f"branch {home!r}"
    return Finding(
        "foreign-lineage-tag",
        Severity.WARNING,
        MAIN,
        f"tag {name!r} on main is snapshot {root.snapshot.id} of {whose}, and {why}; Java Paimon compares what it "
        "expires with the tag before it only, and deletes too much beside such a one",
        remedy,
    )


_SCHEMAS_COMPARED: Final = 200
"""Schemas before the newest shared one that are compared."""


def missing_schemas(table: Inspected, branch: TableHandle) -> list[Case]:
    """Schemas that refs name, or that lie between the first and the newest, but that the branch lacks."""
    store, layout = branch.store, branch.layout
    there = set(list_schema_ids(store, layout))
    refs = [*table.of(branch, RootKind.SNAPSHOT), *table.of(branch, RootKind.TAG)]
    named = {r.snapshot.schema_id for r in refs}
    lacking = sorted((named | set(range(max(named | there)))) - there)
    fork = fork_of(branch)
    parents = [] if fork is None else [(branch.on_branch_directory(fork.parent), fork)]
    found = []
    for schema_id in lacking:
        copies: list[Step] = []
        for parent, left in parents:
            base = find_known_snapshot(branch, left.snapshot_id or 0) or find_known_snapshot(
                parent, left.snapshot_id or 0
            )
            if base is not None and schema_id <= base.schema_id:
                text = _found(parent, schema_id)
                copies = [] if text is None else [Put(relative_path(branch, layout.schema_path(schema_id)), text)]
        if is_main(branch):
            copies = _from_the_same_history(table, branch, schema_id)
        finding = Finding(
            "missing-schema",
            Severity.ERROR if schema_id in named and not copies else Severity.WARNING,
            branch.branch,
            f"schema {schema_id} is missing"
            + (", which snapshots or tags name" if schema_id in named else ", which data files may be written with"),
            "doctor(repair=True) copies it from where the branch shares its history"
            if copies
            else f"restore {store.url(layout.schema_path(schema_id))}",
        )
        found.append(Case(finding, tuple(copies)))
    return found


def other_schemas(table: Inspected, branch: TableHandle) -> list[Case]:
    """Schemas that a branch and main have under one id, though not the same, and that snapshots of both name."""
    if is_main(branch):
        return []
    shared = newest_shared(branch, table.main)
    if shared is None:
        return []
    lacking = []
    for schema_id in range(max(0, shared.schema_id - _SCHEMAS_COMPARED), shared.schema_id + 1):
        own, others = _found(branch, schema_id), _found(table.main, schema_id)
        if own is None or others is None or own == others:
            continue
        path = branch.layout.schema_path(schema_id)
        if decode_schema(own.encode(), path).fields != decode_schema(others.encode(), path).fields:
            lacking.append(schema_id)
    if not lacking:
        return []
    name, numbers = branch.branch, ", ".join(map(str, lacking))
    finding = Finding(
        "other-schema",
        Severity.ERROR,
        name,
        f"main and branch {name!r} both have snapshot {shared.id}, written with schema {shared.schema_id}, but schema "
        f"{numbers} of the one has not the columns of the other: one of them misreads it; another engine gave main the "
        "branch's snapshots without its schemas, or this branch keeps what main was then",
        f"see which of them shows the right rows: if the branch, merge_branch({name!r}) gives main its schemas, and "
        f"keeps main's in a backup branch; if main, delete_branch({name!r}) once nobody needs its schemas",
    )
    return [Case(finding)]


def _from_the_same_history(table: Inspected, main: TableHandle, schema_id: int) -> list[Step]:
    """The schema as a branch has it that shares a snapshot with it, as after a fast-forward of snapshots only."""
    refs = [r for r in table.of(main, RootKind.SNAPSHOT) if r.snapshot.schema_id >= schema_id]
    for branch in table.branches:
        for root in refs:
            if is_main(branch) or not same_snapshot(find_known_snapshot(branch, root.snapshot.id), root.snapshot):
                continue
            text = _found(branch, schema_id)
            if text is not None:
                return [Put(relative_path(main, main.layout.schema_path(schema_id)), text)]
    return []


def _found(branch: TableHandle, schema_id: int) -> str | None:
    try:
        return branch.store.read(branch.layout.schema_path(schema_id)).decode()
    except FileMissingError:
        return None
