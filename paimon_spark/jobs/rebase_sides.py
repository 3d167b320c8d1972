"""The versions that a rebase compares: the branch, main, and where they parted."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

from paimon_spark.advice import REPLACE_MAIN
from paimon_spark.engine.row_diff.compare import Wins
from paimon_spark.engine.row_diff.versions import UNIT_SPLITS, type_with_ids_of
from paimon_spark.errors import (
    BranchDivergedError,
    InvalidInputError,
    NotFoundError,
    PaimonError,
    UnsupportedFeatureError,
)
from paimon_spark.format.arrays.arrow_types import arrow_schema
from paimon_spark.format.json_files import find_object
from paimon_spark.format.metadata_files.snapshot import CommitKind, Snapshot, Tag
from paimon_spark.format.metadata_files.table_schema import TableSchema
from paimon_spark.jobs.batch_write import WriteJob, place_of, plan_write
from paimon_spark.jobs.lineage_port import CommitLineage, rebase_commit
from paimon_spark.jobs.opened_table import OpenedTable
from paimon_spark.jobs.rebase_record import check_not_forgotten, recorded
from paimon_spark.jobs.row_diff import RowComparison, compare_versions
from paimon_spark.jobs.write_target import Target, with_changes
from paimon_spark.maintenance.removal import Removed
from paimon_spark.metadata.branches import ancestry, newest_shared, same_snapshot, snapshot_identity
from paimon_spark.metadata.definition.alter import apply
from paimon_spark.metadata.definition.schema_changes import in_words
from paimon_spark.metadata.definition.three_way import MergedDefinition, merged_definition
from paimon_spark.metadata.handle import TableHandle, open_branch, open_table
from paimon_spark.metadata.layout import MAIN
from paimon_spark.metadata.resolve import Resolved, resolve
from paimon_spark.metadata.schemas import read_schema
from paimon_spark.metadata.snapshots import find_snapshot, latest_snapshot, list_snapshot_ids, list_snapshots
from paimon_spark.metadata.tags import find_tag, list_tags, rebase_guard_name
from paimon_spark.metadata.version import VersionKind, VersionSpec
from paimon_spark.options.core import BUCKET
from paimon_spark.options.table import parse_table_options
from paimon_spark.options.write_request import WriteMode, parse_batch_write_options
from paimon_spark.types import DataField, RowType
from paimon_spark.versioning.branches import check_branch_exists
from paimon_spark.versioning.compare import shared_schema
from paimon_spark.versioning.merge import NEWEST, REBASE_PROPERTY, THEIRS, MergeResult
from paimon_spark.versioning.tag_steps import keep_rebase

PATIENCE_S: Final = 60.0
"""How long commits to main that change nothing of a rebase may come first."""


@dataclass(frozen=True)
class Sides:
    """The versions that a rebase compares.

    Attributes:
        base, main_base: what the branch changed since, and what main changed since: the fork, or the snapshots of the
            last rebase.
        theirs: the version of the branch.
        fork: the newest snapshot that both histories share, the branch through those that it was created from.
        shared_id: the highest field id that was given out before both parted.
        target: the branch that gets the changes, which is main unless another one is named; `main` and what is said
            about main is that branch.
    """

    main: TableHandle
    branch: str
    base: Resolved
    main_base: Resolved
    theirs: Resolved
    fork: Snapshot
    shared_id: int
    target: str = MAIN

    @property
    def onto(self) -> str:
        """The branch that gets the changes, for messages."""
        return MAIN if self.target == MAIN else f"branch {self.target!r}"

    def keep(self, made: Iterable[int]) -> None:
        """Keep the commits of a rebase to main from expiry, so that the next one begins there."""
        assert self.theirs.snapshot is not None
        first = min(made, default=None)
        if first is not None:
            keep_rebase(self.main, first, self.theirs.handle, self.theirs.snapshot)

    def recorded(self, head: Snapshot, *not_made: type[Exception]) -> AbstractContextManager[None]:
        """Context in which a commit to main after `head` is made, and recorded for later rebases.

        `not_made`: errors after which it certainly is not made, besides those of commits.
        """
        return recorded(self.theirs.handle, self.main, head.id, not_made)

    def committed(self, head: Snapshot) -> AbstractContextManager[None]:
        """As `recorded`, where the commit goes to main itself, and not to a branch that becomes main later."""
        return self.recorded(head) if self.is_onto_target else nullcontext()

    @property
    def is_onto_target(self) -> bool:
        """Whether the commit goes to the target itself, and not to a branch that the target becomes later."""
        return self.main.branch == self.target

    @cached_property
    def merged(self) -> MergedDefinition:
        """Changes of the branch in columns, options and comments, as changes of main's schema."""
        base, theirs, main_base = (v.handle.schema for v in (self.base, self.theirs, self.main_base))
        return merged_definition(base, theirs, main_base, self.main.schema, self.shared_id)

    @cached_property
    def schema(self) -> TableSchema:
        """Main's schema with the changes of the branch. Raises UnsupportedFeatureError."""
        try:
            return apply(self.main.schema, self.merged.changes, has_snapshots=lambda: True, table=self.main.describe())
        except PaimonError as e:
            raise unsupported(
                self, f"what it changed in the table's definition is not possible on main: {e.message}"
            ) from e

    @property
    def shared_columns(self) -> tuple[str, ...]:
        """Columns of `schema` that both sides know, without the primary key."""
        of_main = set(self.merged.names.values())
        known = [n for n in self.schema.row_type.names if n in self.merged.ids and n in of_main]
        return tuple(n for n in known if n not in self.schema.primary_keys)

    @property
    def columns_of_main(self) -> tuple[str, ...]:
        """Columns of `schema` that the branch does not know."""
        return tuple(n for n in self.schema.row_type.names if n not in self.merged.ids)

    @property
    def columns_of_branch(self) -> tuple[str, ...]:
        """Columns of `schema` that main does not have yet."""
        of_main = set(self.merged.names.values())
        return tuple(n for n in self.schema.row_type.names if n not in of_main)

    def columns(self, version: Resolved, *, of_main: bool) -> tuple[DataField, ...]:
        """The columns of `schema` with the field ids of a version of main, or of the branch."""
        own = version.handle.schema.row_type
        if not of_main:
            return _with_ids(own, self.schema.row_type, self.merged.ids, self.shared_id)
        now = {after: self.main.schema.row_type.field(name).id for name, after in self.merged.names.items()}
        return _with_ids(own, self.schema.row_type, now, None)

    def compared(self, old: Resolved, new: Resolved, *, is_main: tuple[bool, bool]) -> RowComparison:
        """The comparison of two versions in the columns of `schema`; `is_main` says which are versions of main."""
        planned = compare_versions(old, new)
        versions = [
            replace(part, columns=self.columns(version, of_main=of_main))
            for part, version, of_main in zip(
                (planned.comparison.old, planned.comparison.new), (old, new), is_main, strict=True
            )
        ]
        known = (*self.schema.primary_keys, *self.shared_columns)
        if not any(is_main):
            known = (*known, *self.columns_of_branch)
        elif all(is_main):
            known = (*known, *self.columns_of_main)
        keys = tuple(self.schema.primary_keys) if planned.comparison.keys else ()
        comparison = replace(planned.comparison, old=versions[0], new=versions[1], keys=keys, compared=known)
        return replace(planned, comparison=comparison)

    @property
    def what(self) -> str:
        """The branch, for messages."""
        return f"branch {self.branch!r} of table {self.main.name}"

    @property
    def properties(self) -> dict[str, str]:
        """Of the commit."""
        assert self.theirs.snapshot is not None
        held = list(snapshot_identity(self.theirs.snapshot))
        schema = self.theirs.handle.schema.id
        return {REBASE_PROPERTY: json.dumps({"branch": self.branch, "snapshot": held, "schema": schema})}

    def lineage(self, handle: TableHandle) -> CommitLineage:
        """Of the commit to `handle`."""
        base, theirs = self.base.snapshot, self.theirs.snapshot
        assert theirs is not None
        return rebase_commit(handle, self.branch, 0 if base is None else base.id, theirs.id)


def find_sides(handle: TableHandle, name: str, head_id: int) -> Sides:
    """The versions for a rebase of a branch, up to its snapshot `head_id`.

    Raises InvalidInputError: it shares no snapshot with main, or the one it shares has expired.
    """
    main = open_table(handle.store, handle.layout.root, handle.branch, handle.name, UNIT_SPLITS)
    check_branch_exists(main, name)
    on_branch = open_branch(main, name)
    fork = _common_ancestor(main, on_branch, head_id)
    if fork is None:
        raise InvalidInputError(
            f"branch {name!r} of table {main.name} shares no snapshot with {handle.branch}, so it is unknown what it "
            f"changed; insert its rows into {handle.branch}",
            table=main.name,
            branch=name,
        )
    theirs = resolve(on_branch, None)  # with the newest schema
    if theirs.snapshot is None or theirs.snapshot.id != head_id:
        theirs = resolve(on_branch, VersionSpec(VersionKind.SNAPSHOT, head_id))
    schema = shared_schema(main, on_branch)
    shared_id = -1 if schema is None else schema.highest_field_id
    held, lost = _last_rebase(main, on_branch, fork)
    if held is not None:
        return Sides(main, name, *held, theirs, fork, shared_id, handle.branch)
    check_not_forgotten(on_branch, main, fork.id, list_snapshot_ids(main), lost)
    base = _base(main, on_branch, fork)
    if schema is not None and schema.id > base.handle.schema.id:  # main had been altered after the fork's snapshot
        base = replace(base, handle=base.handle.with_schema(schema))
    return Sides(main, name, base, base, theirs, fork, shared_id, handle.branch)


def _common_ancestor(main: TableHandle, on_branch: TableHandle, head_id: int) -> Snapshot | None:
    """The newest snapshot that a branch shares with main, itself or through the branches that it was created from."""
    shared = newest_shared(on_branch, main)
    if shared is not None:
        return shared
    for name, left_at in ancestry(on_branch, head_id)[1:]:
        if name == MAIN:
            return None
        shared = newest_shared(main.on_branch_directory(name), main)
        if shared is not None:
            # A parent that shares more by now, after a merge, tells nothing about the time of the fork.
            return shared if shared.id <= left_at else None
    return None


def _base(main: TableHandle, on_branch: TableHandle, fork: Snapshot) -> Resolved:
    for handle in (on_branch, main):
        try:
            found = resolve(handle, VersionSpec(VersionKind.SNAPSHOT, fork.id))
        except NotFoundError:
            continue
        if same_snapshot(found.snapshot, fork):
            return found
    for handle in (on_branch, main):  # it has expired, but tags keep it, such as those that guard the bases of branches
        for tag in list_tags(handle):
            if same_snapshot(tag.snapshot, fork):
                return resolve(handle, VersionSpec(VersionKind.TAG, tag.name))
    replace_it = f"pass {REPLACE_MAIN}, so that main becomes the branch, or " if main.branch == MAIN else ""
    raise InvalidInputError(
        f"snapshot {fork.id}, where branch {on_branch.branch!r} left main of table {main.name}, has expired, so it is "
        f"unknown what the branch changed; {replace_it}insert its rows into {main.branch}",
        table=main.name,
        branch=on_branch.branch,
    )


def _last_rebase(
    main: TableHandle, on_branch: TableHandle, fork: Snapshot
) -> tuple[tuple[Resolved, Resolved] | None, list[int]]:
    """The snapshots of branch and main at the newest rebase of this branch that both still have.

    And the ids of newer rebases, of which the branch has no snapshot.
    """
    lost: list[int] = []
    guard = rebase_guard_name(on_branch.branch)
    kept, own = (find_tag(handle, guard) for handle in (main, on_branch))
    snapshots = {s.id: s for s in (*([] if kept is None else [kept.snapshot]), *list_snapshots(main))}
    for snapshot in (snapshots[i] for i in sorted(snapshots, reverse=True) if i > fork.id):
        text = (snapshot.properties or {}).get(REBASE_PROPERTY)
        held = None if text is None else find_object(text, _rebased)
        if held is None:
            continue
        name, identity, schema_id = held
        at_branch = _at(on_branch, identity, own)
        if at_branch is None:
            lost += [snapshot.id] if name == on_branch.branch else []
            continue
        if schema_id is not None:  # the branch may have been altered after its newest snapshot
            schema = read_schema(on_branch.store, on_branch.layout, schema_id)
            at_branch = replace(at_branch, handle=at_branch.handle.with_schema(schema))
        at_main = _at(main, snapshot_identity(_compacted(main, snapshot)), kept)
        if at_main is not None:
            return (at_branch, at_main), lost
    return None, lost


def _at(handle: TableHandle, identity: tuple[int, str, str], guard: Tag | None) -> Resolved | None:
    """A snapshot of a branch, alive or kept by a guard; None where it is neither."""
    found = find_snapshot(handle, identity[0])
    if found is not None and snapshot_identity(found) == identity:
        return resolve(handle, VersionSpec(VersionKind.SNAPSHOT, identity[0]))
    if guard is not None and snapshot_identity(guard.snapshot) == identity:
        return resolve(handle, VersionSpec(VersionKind.TAG, guard.name))
    return None


def _rebased(raw: dict[str, Any]) -> tuple[str, tuple[int, str, str], int | None]:
    """The branch of a rebase, the identity of its snapshot, and the id of its newest schema."""
    snapshot_id, base, delta = raw["snapshot"]
    schema = raw.get("schema")
    return str(raw["branch"]), (int(snapshot_id), str(base), str(delta)), None if schema is None else int(schema)


def holds_rebase(snapshots: Iterable[Snapshot], sides: Sides) -> bool:
    """Whether one of some snapshots of main was made by a rebase of the same branch."""
    found = ((s.properties or {}).get(REBASE_PROPERTY) for s in snapshots)
    held = (None if text is None else find_object(text, _rebased) for text in found)
    return any(each is not None and each[0] == sides.branch for each in held)


def _compacted(main: TableHandle, snapshot: Snapshot) -> Snapshot:
    """The last of the compactions that follow a snapshot directly: they make the rows of some tables visible."""
    following = find_snapshot(main, snapshot.id + 1)
    while following is not None and following.commit_kind is CommitKind.COMPACT:
        snapshot, following = following, find_snapshot(main, following.id + 1)
    return snapshot


def check_alike(sides: Sides) -> None:
    """Check that what both sides changed in the definition goes together.

    Raises:
        BranchDivergedError: both changed a column, an option or a comment to something else.
        UnsupportedFeatureError: what the branch changed cannot be changed on main.
    """
    main, theirs = sides.main, sides.theirs.handle
    if main.options.fallback_branch:
        raise unsupported(sides, "its rows come from two branches (scan.fallback-branch)")
    found = sides.merged.contradictions
    if found:
        replace_it = (
            f"or pass {REPLACE_MAIN}, so that main becomes the branch" if sides.target == MAIN else "and rebase again"
        )
        raise BranchDivergedError(
            f"{sides.what} cannot be rebased: {sides.onto} and the branch changed {'; '.join(found)} in different "
            f"ways; make them the same on one side, by ALTER TABLE, {replace_it}",
            table=main.name,
            branch=sides.branch,
        )
    ids = sides.merged.ids
    keys = [
        ([ids.get(name) for name in of_main], [theirs.schema.row_type.field(name).id for name in of_branch])
        for of_main, of_branch in (
            (sides.schema.primary_keys, theirs.schema.primary_keys),
            (sides.schema.partition_keys, theirs.schema.partition_keys),
        )
    ]
    if any(of_main != of_branch for of_main, of_branch in keys):
        raise unsupported(sides, "it has another primary key, or other partition columns, than main")
    if main.options.bucket != theirs.options.bucket or main.options.merge_engine != theirs.options.merge_engine:
        raise unsupported(sides, f"it has another merge-engine or {BUCKET.key} than main")


def unchanged(sides: Sides, *, dry_run: bool) -> MergeResult:
    """The result where the branch has no row that it did not have when the two parted, or main has all of it.

    What the branch changed in the definition is changed on main.
    """
    head = latest_snapshot(sides.main)
    assert head is not None
    changes = sides.merged.changes
    if changes and not dry_run:
        with_changes(Target(sides.main.with_schema(sides.schema), changes=changes))
    return MergeResult(
        sides.branch,
        sides.fork.id,
        head.id,
        already_merged=not changes,
        rebased_rows=0 if changes else None,
        schema_changes=changes_text(sides),
        removed=Removed(dry_run=dry_run),
        target=sides.target,
    )


def changes_text(sides: Sides) -> tuple[str, ...]:
    """Changes of a rebase to main's definition, as text."""
    return tuple(map(in_words, sides.merged.changes))


def wins_of(on_conflict: str) -> Wins:
    """Whose row a key gets that both changed."""
    return {THEIRS: Wins.BRANCH, NEWEST: Wins.NEWEST}.get(on_conflict, Wins.MAIN)


def plan_rows(table: OpenedTable, sides: Sides) -> WriteJob:
    """The write to main of rows in the columns of `sides.schema`."""
    options = parse_batch_write_options({}, WriteMode.APPEND)
    job = plan_write(place_of(table, options), options, WriteMode.APPEND, arrow_schema(sides.main.schema.fields))
    handle = job.handle
    if sides.merged.changes:
        changed = parse_table_options({**sides.schema.options, **handle.overrides})
        handle = replace(handle, schema=sides.schema, options=changed)
    fields = [replace(f, type=f.type.with_nullable(True)) for f in sides.schema.fields]
    return replace(job, handle=handle, source=arrow_schema(fields), changes=sides.merged.changes)


def _with_ids(own: RowType, wanted: RowType, ids: Mapping[str, int], shared_id: int | None) -> tuple[DataField, ...]:
    """The columns `wanted` as a version reads them: with its ids, and ids that it lacks for columns that it lacks."""

    def same(old: DataField, new: DataField) -> bool:
        if shared_id is None or min(old.id, new.id) <= shared_id:
            return old.id == new.id
        return old.name == new.name

    out = []
    for number, f in enumerate(wanted):
        match = own.find_by_id(ids[f.name]) if f.name in ids else None
        kind = f.type.with_nullable(True)
        if match is None:
            out.append(replace(f, id=-1 - number, type=kind))
        else:
            out.append(replace(f, id=match.id, type=type_with_ids_of(match.type, kind, same)))
    return tuple(out)


def instead(sides: Sides) -> str:
    """Alternatives to a refused rebase, for messages."""
    by_hand = f"make the same change on {sides.onto}"
    if sides.target != MAIN:  # only main becomes a branch
        return by_hand
    return f"pass {REPLACE_MAIN}, so that main becomes the branch, or {by_hand}"


def unsupported(sides: Sides, why: str) -> UnsupportedFeatureError:
    """The error for tables that cannot be rebased."""
    return UnsupportedFeatureError(
        f"{sides.what} cannot be rebased: {why}; {instead(sides)}",
        feature="rebase of such tables",
        table=sides.main.name,
    )
