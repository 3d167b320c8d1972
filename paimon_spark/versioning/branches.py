"""Create, rename and delete branches.

A branch is visible while it has its schemas (`metadata/schemas.py`), so these are written last and deleted first: a
reader finds the whole branch or none, and a renamed branch under exactly one of its names.

Source: PIP-14; Java `utils/FileSystemBranchManager`.

Tests: tests/unit/versioning/test_branches.py, test_branch_crashes.py, test_guards.py, test_foreign_branches.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from paimon_spark.advice import CREATE_MISSING_BRANCH
from paimon_spark.errors import (
    BranchAlreadyExistsError,
    BranchNotFoundError,
    InvalidInputError,
    SnapshotExpiredError,
)
from paimon_spark.format.metadata_files import snapshot as snapshot_file
from paimon_spark.format.metadata_files.snapshot import Snapshot, Tag
from paimon_spark.maintenance.change import change_branch
from paimon_spark.maintenance.removal import Removed
from paimon_spark.maintenance.roots import all_roots
from paimon_spark.metadata.branches import (
    Branch,
    Fork,
    branch_exists,
    fork_of,
    is_like_backup,
    is_main,
    list_branch_names,
    list_branches,
    logical_name,
    read_fork,
    recorded_forks,
    same_snapshot,
)
from paimon_spark.metadata.handle import TableHandle, branch_names, current, open_branch
from paimon_spark.metadata.journal.change import (
    DeleteFile,
    DeleteTree,
    Put,
    RenameTree,
    Root,
    RootKind,
    Step,
    TableChange,
    relative_path,
)
from paimon_spark.metadata.layout import EARLIEST, LATEST, MAIN, Layout
from paimon_spark.metadata.resolve import resolve
from paimon_spark.metadata.retry import now_ms
from paimon_spark.metadata.schemas import latest_schema, list_schema_ids
from paimon_spark.metadata.snapshots import find_snapshot, latest_snapshot
from paimon_spark.metadata.tags import (
    find_tag,
    get_tag,
    guard_name,
    guarded_branch,
    list_tags,
    rebase_guard_name,
    tag_names,
)
from paimon_spark.metadata.version import text_version
from paimon_spark.options.descriptor import did_you_mean
from paimon_spark.storage.store import FileInfo
from paimon_spark.versioning.branch_state import publish_schemas, read_schemas, snapshot_of_tag, withdraw_schemas
from paimon_spark.versioning.names import check_branch_name
from paimon_spark.versioning.tag_steps import (
    create_on_server,
    guard_put,
    known_snapshot,
    plan_guards,
    put_fork,
    put_tag,
)

READ_BESIDE: Final = ("scan.fallback-branch", "scan.primary-branch")
"""Options that name a branch to read together with the branch that has the option."""


def create_branch(
    handle: TableHandle,
    name: str,
    *,
    tag: str | None = None,
    snapshot_id: int | None = None,
    version: str | int | None = None,
    empty: bool = False,
    ignore_if_exists: bool = False,
    clock_ms: Callable[[], int] = now_ms,
) -> Branch:
    """Create a branch from the head, a tag or a snapshot of the handle's branch, a version of any, or an empty one.

    An empty one, and one from the head, has all schemas of the handle's branch: the newest may have no rows yet.

    Writes a fixed number of small files besides schemas; reads no data and no manifest. When another engine expires
    the snapshot at the same time, the branch is deleted again.
    """
    _check_one_start(handle, name, tag=tag, snapshot_id=snapshot_id, version=version, empty=empty)
    made: list[_Creation] = []
    if version is not None and not (ignore_if_exists and _is_branch(handle, name)):
        handle, tag, snapshot_id = _start_of_version(handle, version)

    def plan(branch: TableHandle) -> TableChange | None:
        if ignore_if_exists and _is_branch(branch, name):
            return None
        made.append(plan_create(branch, name, tag=tag, snapshot_id=snapshot_id, empty=empty, created_ms=clock_ms()))
        return made[0].change

    change_branch(handle, "create-branch", plan)
    if not made:
        return next(b for b in list_branches(handle) if b.name == name)
    creation = made[0]
    if creation.source is not None and not _exists(handle, creation.source, name):
        change_branch(handle, "undo-create-branch", lambda branch: plan_delete(branch, name))
        raise SnapshotExpiredError(
            f"branch {name!r} was not created: snapshot {creation.source.snapshot.id} of {handle.describe()} expired "
            "at the same time; create it from a tag or a newer snapshot",
            **handle.context,
            snapshot_id=creation.source.snapshot.id,
        )
    return creation.branch


def rename_branch(handle: TableHandle, old: str, new: str) -> None:
    """Rename a branch.

    Readers always see the whole branch under exactly one of the two names. Where the store cannot move directories,
    files are copied, and other engines see both names for a while.
    """
    change_branch(handle, "rename-branch", lambda branch: plan_rename(branch, old, new))


def delete_branch(handle: TableHandle, name: str, *, dry_run: bool = False) -> Removed:
    """Delete a branch, its guard tags, and the files that only it needs. Branches created from it keep theirs."""
    return change_branch(handle, "delete-branch", lambda branch: plan_delete(branch, name), dry_run=dry_run)


@dataclass(frozen=True, slots=True)
class _Source:
    """The snapshot that a branch starts from; only a tag keeps it unless `alive`."""

    snapshot: Snapshot
    tag: Tag | None
    alive: bool


@dataclass(frozen=True, slots=True)
class _Creation:
    change: TableChange
    branch: Branch
    source: _Source | None


def plan_create(
    handle: TableHandle,
    name: str,
    *,
    tag: str | None = None,
    snapshot_id: int | None = None,
    empty: bool = False,
    created_ms: int,
) -> _Creation:
    """The change of `create_branch` on the current table. Raises as it."""
    _check_new_name(handle, name)
    _check_free(handle, name)
    source = None if empty else _source(handle, tag, snapshot_id)
    snapshot, of_tag = (None, None) if source is None else (source.snapshot, source.tag)
    on_branch = handle.on_branch_directory(name)
    schemas = read_schemas(handle, snapshot.schema_id if snapshot is not None and (tag or snapshot_id) else None)
    guards = plan_guards(handle, name, snapshot)
    fork = Fork(logical_name(handle), None, None if of_tag is None else of_tag.name, None, created_ms, guards.names)
    if snapshot is not None:
        fork = replace(fork, snapshot_id=snapshot.id, time_ms=snapshot.time_ms)
    steps = (
        *guards.steps,
        *create_on_server(handle, name, guards),
        put_fork(on_branch, fork),
        *_base(on_branch, source),
        *publish_schemas(name, relative_path(handle, on_branch.layout.schema_dir), schemas),
    )
    change = TableChange("create-branch", f"creation of branch {name!r}", steps, guards.released)
    branch = Branch(name, False, fork.tag, fork.snapshot_id, None, fork)
    return _Creation(change, branch, source)


def plan_rename(handle: TableHandle, old: str, new: str) -> TableChange:
    """The change of `rename_branch` on the current table. Raises as it."""
    check_branch_exists(handle, old)
    on_old = handle.on_branch_directory(old)
    if old == MAIN or is_main(on_old):
        raise InvalidInputError(
            f"branch {old!r} of table {handle.name} cannot be renamed: it is main; make another branch main first",
            table=handle.name,
            branch=old,
        )
    _check_not_read_beside(handle, old, "renamed")
    _check_new_name(handle, new)
    on_new = handle.on_branch_directory(new)
    if new in branch_names(handle.store, handle.layout):
        _check_free(handle, new)
        if _holds_files(on_new):
            raise _left_over(handle, new, "files")
        # Left by a late commit to a deleted branch of this name; it would block the move.
        handle.store.delete_tree(on_new.layout.branch_root)
    guards = _guards_on_others(handle, old)
    fork = read_fork(on_old)
    renamed_to = {guard_name(old): guard_name(new), rebase_guard_name(old): rebase_guard_name(new)}
    steps: list[Step] = [put_tag(place, replace(guard, name=renamed_to[guard.name])) for place, guard in guards]
    steps.append(RenameTree(*(relative_path(handle, h.layout.branch_root) for h in (on_old, on_new))))
    for before, after in renamed_to.items():
        own = find_tag(on_old, before)
        if own is not None:
            gone = DeleteFile(relative_path(handle, on_new.layout.tag_path(before)))
            steps += [put_tag(on_new, replace(own, name=after)), gone]
    if fork is not None:
        renamed = replace(fork, guards={place: guard_name(new) for place in fork.guards})
        steps.append(put_fork(on_new, renamed))
    for child, its in _descendants(handle, old):
        parent = new if its.parent == old else its.parent
        places = {new if place == old else place: guard for place, guard in its.guards.items()}
        steps.append(put_fork(child, replace(its, parent=parent, guards=places)))
    steps += [DeleteFile(relative_path(handle, place.layout.tag_path(guard.name))) for place, guard in guards]
    return TableChange("rename-branch", f"renaming of branch {old!r} to {new!r}", tuple(steps))


def plan_delete(handle: TableHandle, name: str) -> TableChange:
    """The change of `delete_branch` on the current table. Raises as it."""
    if name == MAIN:
        raise InvalidInputError(
            f"main of table {handle.name} cannot be deleted; drop the table instead", table=handle.name, branch=name
        )
    if str(name).startswith(".") or name not in branch_names(handle.store, handle.layout):
        check_branch_exists(handle, name)  # left-over files of a branch, without schema, may be deleted too
    on_branch = handle.on_branch_directory(name)
    if is_main(on_branch):
        raise InvalidInputError(
            f"branch {name!r} of table {handle.name} cannot be deleted: it is main (file MAIN-BRANCH); "
            "make another branch main first",
            table=handle.name,
            branch=name,
        )
    _check_not_read_beside(handle, name, "deleted")
    released = roots_of_branch(all_roots(handle), name)
    guards = [(root.branch_directory, root.name) for root in released if root.branch_directory != name]
    parent = fork_of(on_branch)
    steps: list[Step] = [put_fork(child, _adopted(fork, parent, name)) for child, fork in _descendants(handle, name)]
    ids = list_schema_ids(handle.store, on_branch.layout)
    steps += withdraw_schemas(relative_path(handle, on_branch.layout.schema_dir), ids)
    steps.append(DeleteTree(relative_path(handle, on_branch.layout.branch_root)))
    steps += [DeleteFile(relative_path(handle, Layout(handle.layout.root, at).tag_path(tag))) for at, tag in guards]
    return TableChange("delete-branch", f"deletion of branch {name!r}", tuple(steps), released)


def roots_of_branch(roots: Iterable[Root], name: str) -> tuple[Root, ...]:
    """Roots that are removed with a branch: its own, and its guard tags on other branches."""
    guards = guard_name(name), rebase_guard_name(name)
    return tuple(r for r in roots if r.branch_directory == name or (r.kind is RootKind.TAG and r.name in guards))


def check_branch_exists(handle: TableHandle, name: str) -> None:
    """Check that the table has the branch. Raises BranchNotFoundError, which suggests similar names."""
    if _is_branch(handle, name):
        return
    names = list_branch_names(handle)
    raise BranchNotFoundError(
        f"table {handle.name} has no branch {name!r}{did_you_mean(str(name), names)}; "
        f"its branches are {', '.join([MAIN, *names])}",
        table=handle.name,
        branch=name,
    )


def _is_branch(handle: TableHandle, name: object) -> bool:
    return isinstance(name, str) and not name.startswith(".") and branch_exists(handle, name)


def _check_one_start(handle: TableHandle, name: str, **starts: object) -> None:
    given = [key for key, value in starts.items() if value is not None and value is not False]
    if len(given) > 1 and given != ["tag", "snapshot_id"]:
        raise InvalidInputError(
            f"branch {name!r} of table {handle.name} is given {' and '.join(given)} to start from; give one of them",
            table=handle.name,
            branch=name,
        )


def _start_of_version(handle: TableHandle, version: str | int) -> tuple[TableHandle, str | None, int | None]:
    """The branch of a version, with its tag or the id of its snapshot; neither when the branch has no snapshot."""
    handle = current(handle)
    found = resolve(handle, text_version(str(version)))
    start = open_branch(handle, found.handle.branch)
    if found.tag is not None:
        return start, found.tag, None
    return start, None, None if found.snapshot is None else found.snapshot.id


def _source(handle: TableHandle, tag: str | None, snapshot_id: int | None) -> _Source | None:
    if tag is not None:
        return _tag_source(handle, tag, snapshot_id)
    if snapshot_id is None:
        head = latest_snapshot(handle)
        return None if head is None else _Source(head, None, alive=True)
    if isinstance(snapshot_id, bool) or not isinstance(snapshot_id, int):
        raise InvalidInputError(
            f"snapshot_id = {snapshot_id!r} of {handle.describe()} is not a number; give a tag as tag=",
            table=handle.name,
        )
    alive = find_snapshot(handle, snapshot_id) if snapshot_id > 0 else None
    return _Source(alive or known_snapshot(handle, snapshot_id), None, alive=alive is not None)


def _tag_source(handle: TableHandle, name: str, snapshot_id: int | None) -> _Source:
    if not isinstance(name, str):
        raise InvalidInputError(
            f"tag = {name!r} of {handle.describe()} is not text; give a snapshot as snapshot_id=",
            table=handle.name,
        )
    tag = get_tag(handle, name)
    if snapshot_id is not None and snapshot_id != tag.snapshot.id:
        raise InvalidInputError(
            f"tag {name!r} of {handle.describe()} is snapshot {tag.snapshot.id}, but snapshot_id is {snapshot_id}; "
            "give one of them",
            table=handle.name,
            tag=name,
            snapshot_id=snapshot_id,
        )
    own = None if guarded_branch(name) is not None else tag
    alive = find_snapshot(handle, tag.snapshot.id)
    if alive is not None and same_snapshot(alive, tag.snapshot):
        return _Source(alive, own, alive=True)
    return _Source(tag.snapshot, own, alive=False)


def _base(on_branch: TableHandle, source: _Source | None) -> Iterator[Step]:
    """Yield the files of a branch's first snapshot, without its schemas. An empty one has no old hints."""
    layout = on_branch.layout
    hints = [relative_path(on_branch, f"{layout.snapshot_dir}/{hint}") for hint in (EARLIEST, LATEST)]
    if source is None:
        yield from map(DeleteFile, hints)
        return
    snapshot = source.snapshot
    yield guard_put(on_branch, on_branch.branch, snapshot)
    if source.tag is not None:
        path = relative_path(on_branch, layout.tag_path(source.tag.name))
        yield Put(path, snapshot_file.encode_tag(source.tag).decode())
    text = snapshot_file.encode(snapshot).decode() if source.alive else snapshot_of_tag(snapshot).text
    yield Put(relative_path(on_branch, layout.snapshot_path(snapshot.id)), text)
    yield from (Put(hint, str(snapshot.id)) for hint in hints)


def _check_new_name(handle: TableHandle, name: str) -> None:
    """Check that users may give a branch this name: a branch with the name of a backup would be deleted as one."""
    check_branch_name(name, table=handle.describe(), tag_names=_all_tag_names(handle))
    if is_like_backup(name):
        raise InvalidInputError(
            f"{name!r} cannot be the name of a branch of {handle.describe()}: such names are those of backup branches, "
            "which expire and which undo uses; give it another name",
            table=handle.name,
            branch=name,
        )


def _check_free(handle: TableHandle, name: str) -> None:
    """Check that no branch has the name, and no other engine left files in its directory."""
    on_branch = handle.on_branch_directory(name)
    if list_schema_ids(handle.store, on_branch.layout):
        raise BranchAlreadyExistsError(
            f"table {handle.name} already has a branch {name!r}; use another name, {CREATE_MISSING_BRANCH}",
            table=handle.name,
            branch=name,
        )
    files = _own_files(on_branch)
    if files:
        raise _left_over(handle, name, f"{len(files)} files as {files[0]}")


def _left_over(handle: TableHandle, name: str, what: str) -> BranchAlreadyExistsError:
    return BranchAlreadyExistsError(
        f"{handle.store.url(handle.layout.with_branch(name).branch_root)} has {what} but no schema, left by another "
        f"engine from a branch {name!r}; doctor() shows details, delete_branch({name!r}) deletes them",
        table=handle.name,
        branch=name,
    )


def _own_files(on_branch: TableHandle) -> list[str]:
    """Files of a branch except its schemas, as paths in its directory."""
    store, layout = on_branch.store, on_branch.layout
    root = layout.branch_root
    places = (layout.snapshot_dir, layout.tag_dir, layout.changelog_dir, layout.consumer_dir, root)
    return [
        f"{place}/{info.name}".removeprefix(f"{root}/")
        for place in places
        for info in store.list(place)
        if _is_needed(info)
    ]


def _holds_files(on_branch: TableHandle) -> bool:
    """Whether the branch's directory contains any file that a branch may need."""
    directories = [on_branch.layout.branch_root]
    while directories:
        directory = directories.pop()
        found = on_branch.store.list(directory)
        if any(map(_is_needed, found)):
            return True
        directories += [f"{directory}/{info.name}" for info in found if info.is_directory]
    return False


def _is_needed(info: FileInfo) -> bool:
    """Whether a branch may need the file: neither a temporary one nor a hint, which a late commit leaves behind."""
    return not (info.is_directory or info.name.startswith(".") or info.name in (EARLIEST, LATEST))


def _check_not_read_beside(handle: TableHandle, name: str, done: str) -> None:
    """Check that no option of another branch names this one. Raises InvalidInputError."""
    for other in dict.fromkeys([MAIN, *list_branch_names(handle)]):
        if other == name:
            continue
        schema = latest_schema(handle.store, handle.layout.with_branch(other))
        for key in READ_BESIDE if schema is not None else ():
            assert schema is not None
            if schema.options.get(key, "").strip() == name:
                raise InvalidInputError(
                    f"branch {name!r} of table {handle.name} cannot be {done}: option {key} of branch {other!r} names "
                    f"it; unset that first",
                    table=handle.name,
                    branch=name,
                    option=key,
                )


def _all_tag_names(handle: TableHandle) -> list[str]:
    branches = dict.fromkeys([MAIN, *branch_names(handle.store, handle.layout)])
    return [tag for branch in branches for tag in tag_names(handle.on_branch_directory(branch))]


def _guards_on_others(handle: TableHandle, branch: str) -> list[tuple[TableHandle, Tag]]:
    """Guard tags of a branch on other branches, each with its branch."""
    found = []
    for name in dict.fromkeys([MAIN, *branch_names(handle.store, handle.layout)]):
        place = handle.on_branch_directory(name)
        names = () if name == branch else (guard_name(branch), rebase_guard_name(branch))
        found += [(place, tag) for tag in (find_tag(place, n) for n in names) if tag is not None]
    return found


def _descendants(handle: TableHandle, parent: str) -> list[tuple[TableHandle, Fork]]:
    """Branches whose `FORK` files name `parent`: created from it, or with guard tags on it."""
    others = recorded_forks(handle, other_than=parent)
    return [(child, fork) for child, fork in others if fork.parent == parent or parent in fork.guards]


def _adopted(fork: Fork, parent: Fork | None, name: str) -> Fork:
    """The fork of a branch after `name` is deleted: its children become children of its parent."""
    guards = {place: guard for place, guard in fork.guards.items() if place != name}
    if fork.parent != name:
        return replace(fork, guards=guards)
    if parent is None or parent.snapshot_id is None or fork.snapshot_id is None:
        return Fork(MAIN if parent is None else parent.parent, None, None, None, fork.created_ms, guards)
    if fork.snapshot_id <= parent.snapshot_id:
        return replace(fork, parent=parent.parent, tag=None, guards=guards)
    return Fork(parent.parent, parent.snapshot_id, None, parent.time_ms, fork.created_ms, guards)


def _exists(handle: TableHandle, source: _Source, name: str) -> bool:
    """Whether the source still exists, other than in the new branch's guard tag."""
    if source.alive:
        kept = find_snapshot(handle, source.snapshot.id)
    else:
        tag = None if source.tag is None else find_tag(handle, source.tag.name)
        kept = None if tag is None else tag.snapshot
    if same_snapshot(kept, source.snapshot):
        return True
    others = (t.snapshot for t in list_tags(handle) if t.name != guard_name(name))
    return any(same_snapshot(s, source.snapshot) for s in others)
