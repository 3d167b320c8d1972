"""Schemas that a branch lacks, or that are not the same on two branches that share a history."""

from __future__ import annotations

from typing import Final

from paimon_spark.errors import FileMissingError
from paimon_spark.format.metadata_files.table_schema import decode as decode_schema
from paimon_spark.maintenance.changes import Put, Step
from paimon_spark.maintenance.roots import RootKind
from paimon_spark.metadata.branches import fork_of, is_main, newest_shared, same_snapshot
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.schemas import list_schema_ids
from paimon_spark.versioning.doctor.findings import Case, Finding, Looked, Severity
from paimon_spark.versioning.guarding import known, relative

_LOOKED_AT: Final = 200
"""Schemas before the newest shared one that are compared."""


def missing_schemas(table: Looked, branch: TableHandle) -> list[Case]:
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
            base = known(branch, left.snapshot_id or 0) or known(parent, left.snapshot_id or 0)
            if base is not None and schema_id <= base.schema_id:
                text = _found(parent, schema_id)
                copies = [] if text is None else [Put(relative(branch, layout.schema_path(schema_id)), text)]
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


def other_schemas(table: Looked, branch: TableHandle) -> list[Case]:
    """Schemas that a branch and main have under one id, though not the same, and that snapshots of both name."""
    if is_main(branch):
        return []
    shared = newest_shared(branch, table.main)
    if shared is None:
        return []
    lacking = []
    for schema_id in range(max(0, shared.schema_id - _LOOKED_AT), shared.schema_id + 1):
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


def _from_the_same_history(table: Looked, main: TableHandle, schema_id: int) -> list[Step]:
    """The schema as a branch has it that shares a snapshot with it, as after a fast-forward of snapshots only."""
    refs = [r for r in table.of(main, RootKind.SNAPSHOT) if r.snapshot.schema_id >= schema_id]
    for branch in table.branches:
        for root in refs:
            if is_main(branch) or not same_snapshot(known(branch, root.snapshot.id), root.snapshot):
                continue
            text = _found(branch, schema_id)
            if text is not None:
                return [Put(relative(main, main.layout.schema_path(schema_id)), text)]
    return []


def _found(branch: TableHandle, schema_id: int) -> str | None:
    try:
        return branch.store.read(branch.layout.schema_path(schema_id)).decode()
    except FileMissingError:
        return None
