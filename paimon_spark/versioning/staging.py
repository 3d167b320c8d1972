"""A whole line laid down in a directory, as steps: into a new one, or over another line, with readers beside.

Readers find the head by the hint LATEST, which they believe when no snapshot follows the one it names, else by listing.
Whoever reads while `written_over` runs finds the old head or the new one after every step, and the schema of what he
finds; files in between may be of either. Pure.

Source of the readers' rule: Java `utils/HintFileUtils`, `schema/SchemaManager`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TypeVar

from paimon_spark.maintenance.changes import Delete, Put, PutNew, Step
from paimon_spark.metadata.layout import EARLIEST, LATEST, MAIN, SCHEMA_PREFIX, Layout
from paimon_spark.metadata.schemas import HANDOVER, Handover, encode_handover
from paimon_spark.versioning.line import Line, Ref

K = TypeVar("K", int, str)
V = TypeVar("V", str, Ref)

_ROOT = "/table"
STAGING_PREFIX = ".merge-"
"""Names of directories below `branch/` in which a new main is laid down, while it moves into main's own."""


def layout_of(directory: str) -> Layout:
    """The layout of a branch's directory in a table at `_ROOT`."""
    return Layout(_ROOT, MAIN, None if directory == MAIN else directory)


def relative(path: str) -> str:
    """A path of `layout_of`, relative to the table's directory."""
    return path.removeprefix(_ROOT + "/")


def directory_path(directory: str) -> str:
    """The directory of a branch, relative to the table's."""
    return relative(layout_of(directory).branch_root)


def snapshot_path(directory: str, snapshot_id: int) -> str:
    """A snapshot file, relative to the table's directory."""
    return relative(layout_of(directory).snapshot_path(snapshot_id))


def tag_path(directory: str, name: str) -> str:
    """A tag file, relative to the table's directory."""
    return relative(layout_of(directory).tag_path(name))


def schema_path(directory: str, schema_id: int) -> str:
    """A schema file, relative to the table's directory."""
    return relative(layout_of(directory).schema_path(schema_id))


def changelog_path(directory: str, snapshot_id: int) -> str:
    """A long-lived changelog file, relative to the table's directory."""
    return relative(layout_of(directory).changelog_path(snapshot_id))


def latest_path(directory: str) -> str:
    """The hint that names a branch's head, relative to the table's directory."""
    return f"{relative(layout_of(directory).snapshot_dir)}/{LATEST}"


def main_branch_path() -> str:
    """The file that says which branch main is, relative to the table's directory."""
    return relative(layout_of(MAIN).main_branch_file)


def laid_down(line: Line) -> tuple[Put | Delete, ...]:
    """The line in a directory where nothing is. A branch is there when it has its schemas, so these come last."""
    directory = line.directory
    consumers = relative(layout_of(directory).consumer_dir)
    return (
        *(Put(changelog_path(directory, i), ref.text) for i, ref in sorted(line.changelogs.items())),
        *(Put(snapshot_path(directory, i), ref.text) for i, ref in sorted(line.snapshots.items())),
        *(Put(tag_path(directory, name), ref.text) for name, ref in sorted(line.tags.items())),
        *_hints(relative(layout_of(directory).changelog_dir), line.changelogs),
        *_hints(relative(layout_of(directory).snapshot_dir), line.snapshots),
        *(Put(f"{consumers}/consumer-{name}", text) for name, text in sorted(line.consumers.items())),
        *schemas_put(directory, relative(layout_of(directory).schema_dir), line.schemas),
    )


def schemas_put(branch: str, schema_dir: str, schemas: Mapping[int, str]) -> tuple[Put | Delete, ...]:
    """Make a branch seen: with the last of its schemas, and not before.

    Args:
        branch: whose directory it is.
        schema_dir: of the branch, relative to the table's directory.
        schemas: text by id.
    """
    puts = [Put(f"{schema_dir}/{SCHEMA_PREFIX}{i}", text) for i, text in sorted(schemas.items())]
    if len(puts) < 2:
        return tuple(puts)
    path = f"{schema_dir}/{HANDOVER}"
    return (Put(path, encode_handover(Handover(branch, frozenset(schemas))).decode()), *puts, Delete(path))


def schemas_gone(schema_dir: str, ids: Collection[int]) -> tuple[Step, ...]:
    """Make a branch unseen, with the first step; its directory goes afterwards."""
    hidden = [Put(f"{schema_dir}/{HANDOVER}", encode_handover(Handover(None)).decode())] if len(ids) > 1 else []
    return (*hidden, *(Delete(f"{schema_dir}/{SCHEMA_PREFIX}{i}") for i in sorted(ids)))


def written_over(old: Line, new: Line, late: str | None = None) -> tuple[Step, ...]:
    """The steps from `old` to `new` in the directory of `old`. Its consumers stay as they are.

    Args:
        old: as it was read.
        new: what it becomes.
        late: the branch to whose directory snapshots are moved that others commit to `old` meanwhile, where ones of
            `new` take their ids; None when they may go.
    """
    directory = old.directory
    return (
        *(Put(schema_path(directory, i), text) for i, text in _changed(old.schemas, new.schemas)),
        *(Put(tag_path(directory, name), ref.text) for name, ref in _changed(old.tags, new.tags)),
        *_changelogs_put(old, new),
        *_snapshots_over(old, new, late),
        *(Delete(tag_path(directory, name)) for name in sorted(old.tags.keys() - new.tags.keys())),
        *_changelogs_gone(old, new),
        *(Delete(schema_path(directory, i)) for i in sorted(old.schemas.keys() - new.schemas.keys(), reverse=True)),
    )


def snapshot_gone(line: Line, snapshot_id: int) -> Delete:
    """Delete a snapshot of the line, and no other that got its id since."""
    return Delete(snapshot_path(line.directory, snapshot_id), line.snapshots[snapshot_id].sha256)


def _snapshots_over(old: Line, new: Line, late: str | None) -> Iterator[Step]:
    directory = old.directory
    hints = relative(layout_of(directory).snapshot_dir)
    changed = {i: ref.text for i, ref in _changed(old.snapshots, new.snapshots)}
    gone = sorted(old.snapshots.keys() - new.snapshots.keys())
    head, before = new.head, old.head
    # Top down: what follows the old head comes last of the new ids, and only then the hint is believed no more.
    order = sorted(changed, reverse=True) if head > before else sorted(changed)
    for i in order:
        path = snapshot_path(directory, i)
        is_free = late is not None and i > before
        yield PutNew(path, changed[i], snapshot_path(str(late), i)) if is_free else Put(path, changed[i])
    # Between the heads from below, the old head after the hint: neither is ever missing for who believes in it.
    yield from (snapshot_gone(old, i) for i in gone if head < i < before)
    yield Put(f"{hints}/{LATEST}", str(head))
    yield from (snapshot_gone(old, i) for i in gone if i == before)
    yield from (snapshot_gone(old, i) for i in gone if i < head)
    yield Put(f"{hints}/{EARLIEST}", str(min(new.snapshots)))


def _changelogs_put(old: Line, new: Line) -> Iterator[Step]:
    yield from (Put(changelog_path(old.directory, i), ref.text) for i, ref in _changed(old.changelogs, new.changelogs))


def _changelogs_gone(old: Line, new: Line) -> Iterator[Step]:
    gone = sorted(old.changelogs.keys() - new.changelogs.keys())
    hints = relative(layout_of(old.directory).changelog_dir)
    if new.changelogs:
        yield from _hints(hints, new.changelogs)
    elif gone:
        yield from (Delete(f"{hints}/{name}") for name in (LATEST, EARLIEST))
    yield from (Delete(changelog_path(old.directory, i)) for i in gone)


def _hints(directory: str, refs: Mapping[int, Ref]) -> Iterator[Put]:
    if refs:
        yield Put(f"{directory}/{EARLIEST}", str(min(refs)))
        yield Put(f"{directory}/{LATEST}", str(max(refs)))


def _changed(old: Mapping[K, V], new: Mapping[K, V]) -> list[tuple[K, V]]:
    """What `new` has, and `old` has not or otherwise, by key ascending."""
    return [(key, value) for key, value in sorted(new.items()) if old.get(key) != value]
