"""Bases of branches that nothing protects, and guards of branches that are gone."""

from __future__ import annotations

from paimon_spark.maintenance.changes import Delete, Put, Step
from paimon_spark.maintenance.roots import RootKind
from paimon_spark.metadata.branches import (
    Fork,
    ancestry,
    encode_fork,
    fork_of,
    fork_path,
    is_main,
    logical_name,
    same_snapshot,
)
from paimon_spark.metadata.handle import TableHandle, branch_names
from paimon_spark.metadata.tags import find_tag, guard_name, guarded_branch
from paimon_spark.versioning.doctor.findings import Case, Finding, Looked, Severity
from paimon_spark.versioning.guarding import guard_put, known, plan_guards, relative


def unprotected_bases(table: Looked, branch: TableHandle) -> list[Case]:
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
        base = known(parent, snapshot_id) or known(child, snapshot_id)
        child = parent
        tag = find_tag(parent, guard)
        if tag is None and base is not None:
            lacking.append(name)
        elif tag is not None and base is not None and not same_snapshot(tag.snapshot, base):
            stale.append(name)
    if not lacking and not stale:
        return []
    parent = branch.on_branch_directory(fork.parent)
    base = known(branch, fork.snapshot_id) or known(parent, fork.snapshot_id)
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
        Put(relative(branch, fork_path(branch)), encode_fork(record).decode()),
    )
    return [Case(finding, steps, guards.released)]


def stale_guards(table: Looked, branch: TableHandle) -> list[Case]:
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
        found.append(Case(finding, (Delete(relative(branch, branch.layout.tag_path(root.name))),), (root,)))
    return found
