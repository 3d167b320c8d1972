"""Checks for damage that other engines leave on branches, and their findings.

Unprotected bases and stale guards; missing files; ambiguous names; spliced histories, stale hints and tags of another
history; missing schemas, and schemas that differ between branches.

Tests: tests/unit/versioning/test_doctor.py, test_foreign_branches.py.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import Final

from paimon_spark.advice import REPAIR, REPLACE_MAIN
from paimon_spark.display import ShownAsFacts
from paimon_spark.errors import CorruptFileError, FileMissingError, InvalidInputError
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.format.metadata_files.table_schema import decode as decode_schema
from paimon_spark.maintenance.missing import Damaged, damaged_roots
from paimon_spark.metadata.branches import (
    Fork,
    ancestry,
    fork_of,
    is_main,
    logical_name,
    newest_of_both,
    same_snapshot,
)
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.journal.change import DeleteFile, Put, Root, RootKind, Step, relative_path
from paimon_spark.metadata.layout import LATEST, MAIN
from paimon_spark.metadata.manifests import contradicts, follows, read_manifest_list
from paimon_spark.metadata.schemas import list_schema_ids
from paimon_spark.metadata.small_files import find_bytes, text_of
from paimon_spark.metadata.snapshots import read_hint
from paimon_spark.metadata.tags import find_tag, guard_name, guarded_branch, savepoint_tag
from paimon_spark.text import counted, safe
from paimon_spark.versioning.inspected import Inspected
from paimon_spark.versioning.names import check_branch_name, check_tag_name, looks_like_savepoint
from paimon_spark.versioning.tag_steps import guard_put, plan_guards, put_fork


class Severity(StrEnum):
    """How bad a finding is: ERROR, something cannot be read; WARNING, something may become unreadable; NOTE, untidy."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True, repr=False)
class Finding(ShownAsFacts):
    """One thing that is wrong.

    Attributes:
        kind: stable code: `unfinished-operation`, `main-missing`, `unprotected-base`, `stale-guard`, `missing-files`,
            `spliced-history`, `missing-schema`, `other-schema`, `stale-hint`, `foreign-lineage-tag`,
            `ambiguous-name`, `left-over`, `unreadable`.
        branch: where; `main` also for what concerns the whole table.
        message: what was found.
        remedy: what to do.
        repaired: whether this call repaired it.
        command: a shell command that does it, with the table and its warehouse; None where there is a choice.
    """

    kind: str
    severity: Severity
    branch: str
    message: str
    remedy: str
    repaired: bool = False
    command: str | None = None

    @property
    def state(self) -> str:
        """`repaired`, else the severity."""
        return "repaired" if self.repaired else self.severity.value

    def text_lines(self) -> list[str]:
        out = [f"{self.state}: {self.kind} on {safe(self.branch)}: {safe(self.message)}"]
        return out if self.repaired else [*out, *self.advice]

    @property
    def advice(self) -> list[str]:
        """Advice, with the command on a line of its own."""
        command = [] if self.command is None else [f"  {safe(self.command)}"]
        return [f"  {safe(self.remedy)}", *command]


@dataclass(frozen=True, slots=True)
class Case:
    """A finding, the steps that repair it, and the roots that these release.

    Attributes:
        verb: the command that its remedy means, such as `("tag", "delete")`, and what follows the table, `names`; empty
            where steps repair it, or where there is a choice.
    """

    finding: Finding
    steps: tuple[Step, ...] = ()
    released: tuple[Root, ...] = ()
    verb: tuple[str, ...] = ()
    names: tuple[str, ...] = ()

    @staticmethod
    def of(
        kind: str,
        severity: Severity,
        branch: str,
        message: str,
        remedy: str,
        steps: Iterable[Step] = (),
        released: Iterable[Root] = (),
    ) -> Case:
        """The case of a new finding."""
        return Case(Finding(kind, severity, branch, message, remedy), tuple(steps), tuple(released))


def _some(names: Sequence[str], count: int = 5) -> str:
    """The first names, and how many more there are."""
    return ", ".join(names[:count]) + (f" and {len(names) - count} more" if len(names) > count else "")


def unprotected_bases(table: Inspected, branch: TableHandle) -> Iterator[Case]:
    """A branch whose base other engines may expire."""
    fork = None if is_main(branch) else fork_of(branch)
    if fork is None or fork.snapshot_id is None:
        return
    guard = guard_name(branch.branch)
    lacking, stale = [], []
    child = branch
    for name, snapshot_id in ancestry(branch, fork.snapshot_id)[1:]:
        parent = branch.on_branch_directory(name)
        base = table.known(parent, snapshot_id) or table.known(child, snapshot_id)
        child = parent
        tag = find_tag(parent, guard)
        if tag is None and base is not None:
            lacking.append(name)
        elif tag is not None and base is not None and not same_snapshot(tag.snapshot, base):
            stale.append(name)
    if not lacking and not stale:
        return
    parent = branch.on_branch_directory(fork.parent)
    base = table.known(branch, fork.snapshot_id) or table.known(parent, fork.snapshot_id)
    where = ", ".join([*lacking, *stale])
    message = (
        f"no guard tag {guard!r} on {where} keeps snapshot {fork.snapshot_id}, which the branch was created from: "
        f"engines that look only at tags of {where} may delete its files"
    )
    if base is None:
        remedy = f"snapshot {fork.snapshot_id} no longer exists; copy the rows of the branch while they can be read"
        yield Case.of("unprotected-base", Severity.WARNING, branch.branch, message, remedy)
        return
    guards = plan_guards(parent, branch.branch, base)
    record = Fork(logical_name(parent), base.id, fork.tag, base.time_ms, fork.created_ms, guards.names)
    steps = (*guards.steps, guard_put(branch, branch.branch, base), put_fork(branch, record))
    remedy = f"{REPAIR} creates the tag"
    yield Case.of("unprotected-base", Severity.WARNING, branch.branch, message, remedy, steps, guards.released)


def stale_guards(table: Inspected, branch: TableHandle) -> Iterator[Case]:
    """Guards of branches that no longer exist."""
    for root in table.of(branch, RootKind.TAG):
        guarded = guarded_branch(root.name)
        if guarded is None or guarded in table.directories:
            continue
        yield Case.of(
            "stale-guard",
            Severity.NOTE,
            branch.branch,
            f"tag {root.name!r} guards the base of branch {guarded!r}, which is gone",
            f"{REPAIR} removes it, with the files that nothing else needs",
            [DeleteFile(relative_path(branch, branch.layout.tag_path(root.name)))],
            [root],
        )


def lost_files(table: Inspected) -> Iterator[Case]:
    """Refs that lack a file, by branch, as `damaged_roots` finds them."""
    roots = [root for found in table.roots.values() for root in found]
    by_branch: dict[str, list[Damaged]] = {}
    for damaged in damaged_roots(table.main, roots):
        by_branch.setdefault(damaged.root.branch_directory, []).append(damaged)
    for branch, found in by_branch.items():
        files = dict.fromkeys(lost for damaged in found for lost in damaged.files)
        name = next((b.branch for b in table.branches if b.layout.directory_branch == branch), branch)
        yield Case.of(
            "missing-files",
            Severity.ERROR,
            name,
            f"{_some([damaged.root.describe() for damaged in found])} cannot be read whole: "
            f"{counted(len(files), 'file')} {'is' if len(files) == 1 else 'are'} gone or damaged, "
            f"{_some(list(map(str, files)), 3)}",
            "restore the files from a backup, or delete these refs",
        )


def missing_files(table: Inspected) -> Iterator[Case]:
    """Refs whose manifest lists, index manifests or statistics are gone, and heads and tags whose manifests are."""
    main = table.main
    manifests, _, statistics = (
        frozenset(i.name for i in main.store.list(directory)) for directory in main.layout.shared_dirs
    )
    for branch in table.branches:
        damaged: list[tuple[str, str]] = []
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
                damaged.append((root.describe(), lost[0]))
        if damaged:
            yield Case.of(
                "missing-files",
                Severity.ERROR,
                branch.branch,
                f"{_some([ref for ref, _ in damaged])} cannot be read: manifest files are gone, {damaged[0][1]} first; "
                "another engine deleted files that it considered unneeded",
                "restore the files from a backup, or delete these refs",
            )


def _lost_manifests(main: TableHandle, lists: Sequence[str], there: frozenset[str]) -> list[str]:
    try:
        return [m.file_name for name in lists for m in read_manifest_list(main, name) if m.file_name not in there]
    except FileMissingError:
        return list(lists)
    except CorruptFileError as e:
        return [e.message]


def ambiguous_names(table: Inspected, branch: TableHandle) -> Iterator[Case]:
    """Names given by other engines that are not allowed here."""
    if branch.branch != MAIN:
        own = table.tags_with(branch.branch)
        yield from _refused(branch, partial(check_branch_name, branch.branch, table=branch.name, tag_names=own))
    for root in table.of(branch, RootKind.TAG):
        if guarded_branch(root.name) is not None or root.name == savepoint_tag(root.snapshot.id):
            continue
        if looks_like_savepoint(root.name):
            message = f"tag {root.name!r} looks like a savepoint, but is snapshot {root.snapshot.id}"
            yield Case.of("ambiguous-name", Severity.NOTE, branch.branch, message, "rename the tag")
        else:
            check = partial(check_tag_name, root.name, table=branch.describe(), branch_names=table.names)
            yield from _refused(branch, check)


def _refused(branch: TableHandle, check: Callable[[], None]) -> Iterator[Case]:
    try:
        check()
    except InvalidInputError as e:
        remedy = "rename it; until then versions are resolved in the order of docs/versions.md"
        yield Case.of("ambiguous-name", Severity.NOTE, branch.branch, e.message, remedy)


_NEIGHBOURS_COMPARED: Final = 200
"""Neighbours in a history, newest first, whose manifest lists are compared."""


def splices(table: Inspected, branch: TableHandle) -> Iterator[Case]:
    """Neighbours in the history where the later was not made on the earlier one."""
    snapshots = [r.snapshot for r in table.of(branch, RootKind.SNAPSHOT)]
    looked = 0
    for before, after in reversed(list(itertools.pairwise(snapshots))):
        if after.id != before.id + 1:
            words = f"there is a hole: snapshot {before.id} is followed by {after.id}"
        elif contradicts(before, after):
            words = (
                f"snapshot {after.id} was not made on snapshot {before.id}: {after.total_record_count} rows in all, "
                f"{after.delta_record_count} of them new, contradict {before.total_record_count} before"
            )
        elif not _continues(before, after) and looked < _NEIGHBOURS_COMPARED:
            looked += 1
            if follows(branch, before, after) is not False:
                continue
            words = f"snapshot {after.id} was not made on snapshot {before.id}: it lacks its manifests"
        else:
            continue
        yield Case.of(
            "spliced-history",
            Severity.WARNING,
            branch.branch,
            f"{words}; another engine put two histories together (a fast-forward, or a commit while main was "
            f"replaced). The head is snapshot {after.id} or a later one",
            f"if the head is not the right one, create a branch from it and roll back to snapshot.{after.id - 1}, "
            "or merge the branch again",
        )


def _continues(before: Snapshot, after: Snapshot) -> bool:
    """Whether both are of one writer that numbers its commits."""
    return (
        before.commit_user == after.commit_user
        and before.commit_identifier <= after.commit_identifier <= before.commit_identifier + 1
        and after.commit_identifier < 2**62
    )


def stale_hints(table: Inspected, branch: TableHandle) -> Iterator[Case]:
    """A wrong hint that engines trust, as no snapshot follows the one it names."""
    layout = branch.layout
    for kind, directory in ((RootKind.SNAPSHOT, layout.snapshot_dir), (RootKind.CHANGELOG, layout.changelog_dir)):
        ids = {r.snapshot.id for r in table.of(branch, kind)}
        hint = read_hint(branch.store, f"{directory}/{LATEST}")
        if hint is None or not ids or hint + 1 in ids or hint == max(ids):
            continue
        yield Case.of(
            "stale-hint",
            Severity.WARNING,
            branch.branch,
            f"{branch.store.url(f'{directory}/{LATEST}')} says {hint}, but the newest {kind.value} is {max(ids)}; Java "
            "Paimon trusts it",
            f"{REPAIR} corrects it",
            [Put(relative_path(branch, f"{directory}/{LATEST}"), str(max(ids)))],
        )


def foreign_tags(table: Inspected, branch: TableHandle) -> Iterator[Case]:
    """Tags on main of snapshots that are not of main's own history, as far as main's snapshots show it."""
    alive = {r.snapshot.id: r.snapshot for r in table.of(branch, RootKind.SNAPSHOT)}
    if not is_main(branch) or not alive:
        return
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
        yield _foreign_tag(table, root, why, homes)


def _is_of(table: Inspected, branch: TableHandle, snapshot: Snapshot) -> bool:
    roots = [*table.of(branch, RootKind.SNAPSHOT), *table.of(branch, RootKind.TAG)]
    return any(same_snapshot(r.snapshot, snapshot) for r in roots)


def _foreign_tag(table: Inspected, root: Root, why: str, homes: Sequence[TableHandle]) -> Case:
    name, home = root.name, homes[0].branch if homes else None
    verb: tuple[str, ...] = ()
    if home is None:
        remedy = (
            "if another engine gave main the snapshots of a branch, merge_branch of that branch repairs main and "
            f"keeps the tag in a backup branch; else read what is needed of it, and delete_tag({name!r})"
        )
    elif any(same_snapshot(r.snapshot, root.snapshot) for r in table.of(homes[0], RootKind.TAG)):
        remedy = f"delete_tag({name!r}) on main; branch {home!r} has a tag of the snapshot"
        verb = ("tag", "delete")
    else:
        remedy = (
            f"tag the snapshot where it belongs, branch({home!r}).create_tag({name!r}, "
            f"snapshot_id={root.snapshot.id}), then delete_tag({name!r}) on main"
        )
    whose = "another history" if home is None else f"branch {home!r}"
    case = Case.of(
        "foreign-lineage-tag",
        Severity.WARNING,
        MAIN,
        f"tag {name!r} on main is snapshot {root.snapshot.id} of {whose}, and {why}; Java Paimon compares what it "
        "expires only with the tag before it, and deletes too much next to such a tag",
        remedy,
    )
    return replace(case, verb=verb, names=(name,) if verb else ())


_SCHEMAS_COMPARED: Final = 200
"""Schemas before the newest shared one that are compared, and missing ones that are named."""


def missing_schemas(table: Inspected, branch: TableHandle) -> Iterator[Case]:
    """Schemas that the branch lacks though refs name them, or newer ones exist."""
    store, layout = branch.store, branch.layout
    there = set(list_schema_ids(store, layout))
    refs = [*table.of(branch, RootKind.SNAPSHOT), *table.of(branch, RootKind.TAG)]
    named = {r.snapshot.schema_id for r in refs}
    gaps = (i for i in range(max(named | there)) if i not in there)  # a forged id may be anything
    lacking = sorted((named - there) | set(itertools.islice(gaps, _SCHEMAS_COMPARED)))
    fork = fork_of(branch)
    for schema_id in lacking:
        text: str | None = None
        if is_main(branch):
            text = _from_the_same_history(table, branch, schema_id)
        elif fork is not None:
            parent, base_id = branch.on_branch_directory(fork.parent), fork.snapshot_id or 0
            base = table.known(branch, base_id) or table.known(parent, base_id)
            if base is not None and schema_id <= base.schema_id:
                text = _found(parent, schema_id)
        yield Case.of(
            "missing-schema",
            Severity.ERROR if schema_id in named and text is None else Severity.WARNING,
            branch.branch,
            f"schema {schema_id} is missing"
            + (", which snapshots or tags name" if schema_id in named else ", which data files may be written with"),
            f"{REPAIR} copies it from where the branch shares its history"
            if text is not None
            else f"restore {store.url(layout.schema_path(schema_id))}",
            [] if text is None else [Put(relative_path(branch, layout.schema_path(schema_id)), text)],
        )


def other_schemas(table: Inspected, branch: TableHandle) -> Iterator[Case]:
    """Schemas that differ between a branch and main under the same id, and that snapshots of both name."""
    shared = None if is_main(branch) else newest_of_both(table.refs(branch), table.refs(table.main))
    if shared is None:
        return
    lacking = []
    for schema_id in range(max(0, shared.schema_id - _SCHEMAS_COMPARED), shared.schema_id + 1):
        own, others = _found(branch, schema_id), _found(table.main, schema_id)
        if own is None or others is None or own == others:
            continue
        path = branch.layout.schema_path(schema_id)
        if decode_schema(own.encode(), path).fields != decode_schema(others.encode(), path).fields:
            lacking.append(schema_id)
    if not lacking:
        return
    name, numbers = branch.branch, ", ".join(map(str, lacking))
    yield Case.of(
        "other-schema",
        Severity.ERROR,
        name,
        f"main and branch {name!r} both have snapshot {shared.id}, written with schema {shared.schema_id}, but their "
        f"columns of schema {numbers} differ: one of them misreads it; another engine gave main the branch's snapshots "
        "without its schemas, or this branch keeps a former main",
        f"check which of them shows the right rows: if the branch, merge_branch({name!r}, "
        f"{REPLACE_MAIN}) gives main its schemas, and "
        f"keeps main's in a backup branch; if main, delete_branch({name!r}) when its schemas are no longer needed",
    )


def _from_the_same_history(table: Inspected, main: TableHandle, schema_id: int) -> str | None:
    """The schema of a branch that shares a snapshot with it, as after a fast-forward of snapshots only."""
    refs = [r for r in table.of(main, RootKind.SNAPSHOT) if r.snapshot.schema_id >= schema_id]
    for branch in table.branches:
        for root in refs:
            if is_main(branch) or not same_snapshot(table.known(branch, root.snapshot.id), root.snapshot):
                continue
            text = _found(branch, schema_id)
            if text is not None:
                return text
    return None


def _found(branch: TableHandle, schema_id: int) -> str | None:
    data = find_bytes(branch.store, branch.layout.schema_path(schema_id))
    return None if data is None else text_of(data, branch.layout.schema_path(schema_id))
