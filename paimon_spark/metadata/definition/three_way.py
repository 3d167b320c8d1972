"""Three-way merge of definitions: what a branch changed, as changes of main's schema.

Columns are the same by field id up to the highest id that was given out before the branches parted. Above it each side
gives out ids of its own, and columns are the same by name. A property that both sides changed to different values is a
contradiction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from paimon_spark.format.metadata_files.table_schema import TableSchema
from paimon_spark.metadata.definition.column_changes import renamed_options
from paimon_spark.metadata.definition.schema_changes import (
    AddColumn,
    After,
    DropColumn,
    First,
    MoveColumn,
    Path,
    RemoveOption,
    RenameColumn,
    SchemaChange,
    SetOption,
    UpdateComment,
    UpdateDefault,
    UpdateNullability,
    UpdateTableComment,
    UpdateType,
    shown,
)
from paimon_spark.types import ArrayType, DataField, DataType, MapType, MultisetType, RowType

Pair: TypeAlias = tuple[DataField, DataField]


@dataclass(frozen=True, slots=True)
class MergedDefinition:
    """Changes of a branch in a definition since a base.

    Attributes:
        changes: of main's newest schema, which give it what the branch changed.
        contradictions: what both sides changed in different ways, in words; then `changes` are of no use.
        ids: name of a column of main after `changes` → field id of the same column on the branch, where it has one.
        names: name of a column of main now → its name after `changes`; dropped ones are left out.
    """

    changes: tuple[SchemaChange, ...] = ()
    contradictions: tuple[str, ...] = ()
    ids: Mapping[str, int] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)


def merged_definition(
    base: TableSchema, theirs: TableSchema, main_base: TableSchema, main: TableSchema, shared_id: int
) -> MergedDefinition:
    """Merge what changed from `base` to `theirs` into `main`. Pure.

    Args:
        base: of the branch, when it was last like main.
        theirs: of the branch now.
        main_base: of main at the time of `base`; the same schema where the branch was just created.
        main: the newest one of main.
        shared_id: the highest field id that was given out before the branches parted.
    """
    merge = _Merge(shared_id)
    merge.fields((), base.fields, theirs.fields, main_base.fields, main.fields)
    ids = {m.name if t.name == b.name else t.name: t.id for b, t, m in merge.kept}
    names = {m.name: (m.name if t.name == b.name else t.name) for b, t, m in merge.kept}
    taken = {m.id for _, _, m in merge.kept}
    dropped = {change.path for change in merge.changes if isinstance(change, DropColumn)}
    names |= {f.name: f.name for f in main.fields if f.id not in taken and (f.name,) not in dropped}
    added = {f.name: f.id for f in merge.added}
    _options(merge, base, theirs, main, names)
    if theirs.comment != base.comment:
        if main.comment == base.comment:
            merge.changes.append(UpdateTableComment(theirs.comment))
        elif main.comment != theirs.comment:
            merge.contradictions.append("the comment of the table")
    return MergedDefinition(tuple(merge.changes), tuple(merge.contradictions), {**ids, **added}, names)


class _Merge:
    """Collects changes and contradictions.

    Attributes:
        kept: columns that base, branch and main have, each as it is there.
        added: columns of the branch that the base lacks, and main lacks or has by the same name.
    """

    def __init__(self, shared_id: int) -> None:
        self.changes: list[SchemaChange] = []
        self.contradictions: list[str] = []
        self.kept: list[tuple[DataField, DataField, DataField]] = []
        self.added: list[DataField] = []
        self._shared_id = shared_id

    def fields(
        self,
        path: Path,
        base: Sequence[DataField],
        theirs: Sequence[DataField],
        main_base: Sequence[DataField],
        main: Sequence[DataField],
    ) -> None:
        """Merge the columns of one row."""
        now, of_main = {f.id: f for f in theirs}, self._of_main(base, main_base, main)
        kept, drops = [], []
        for b in base:
            t, m = now.get(b.id), of_main.get(b.id)
            if t is not None and m is not None:
                kept.append((b, t, m))
            elif t is None and m is not None:
                if _alike(m, b):
                    drops.append(DropColumn((*path, m.name)))
                else:
                    self.contradictions.append(f"column {shown((*path, b.name))}, dropped on the branch")
            elif t is not None and not _alike(t, b):
                self.contradictions.append(f"column {shown((*path, b.name))}, dropped on main")
        known = {m.id for m in of_main.values()}
        news = {f.name: f for f in main if f.id not in known}
        added = [f for f in theirs if f.id not in {b.id for b in base}]
        self.changes += drops
        self._rename(path, kept)
        for b, t, m in kept:
            name = m.name if t.name == b.name else t.name
            self._field((*path, name), (b, t), m)
        for f in added:
            there = news.get(f.name)
            if there is not None and not _alike(there, f):
                self.contradictions.append(f"column {shown((*path, f.name))}, added by both")
        new = [f for f in added if f.name not in news]
        self._place(path, kept, theirs, [f.name for f in main], {f.id for f in new}, {d.path[-1] for d in drops})
        if not path:
            self.kept, self.added = kept, added

    def _of_main(
        self, base: Sequence[DataField], main_base: Sequence[DataField], main: Sequence[DataField]
    ) -> dict[int, DataField]:
        """Id of a column in the base → the same column of main now."""
        now = {f.id: f for f in main}
        then = {f.name: f.id for f in main_base}
        ids = {b.id: b.id if b.id <= self._shared_id else then.get(b.name) for b in base}
        return {b: now[m] for b, m in ids.items() if m is not None and m in now}

    def _rename(self, path: Path, kept: Sequence[tuple[DataField, DataField, DataField]]) -> None:
        wanted = []
        for b, t, m in kept:
            if t.name == b.name or t.name == m.name:
                continue
            if m.name != b.name:
                self.contradictions.append(f"the name of column {shown((*path, b.name))}")
            else:
                wanted.append((m.name, t.name))
        taken = {old for old, _ in wanted}
        if any(new in taken for _, new in wanted):  # names change places: by way of names that nobody has
            free = [(old, f"__renamed_{i}", new) for i, (old, new) in enumerate(wanted)]
            self.changes += [RenameColumn((*path, old), between) for old, between, _ in free]
            self.changes += [RenameColumn((*path, between), new) for _, between, new in free]
        else:
            self.changes += [RenameColumn((*path, old), new) for old, new in wanted]

    def _field(self, path: Path, branch: Pair, m: DataField) -> None:
        """Changes of the branch in a column, whose name on main is now that of `path`."""
        b, t = branch
        self._type(path, b.type, t.type, m.type)
        for what, was, now, of_main, change in (
            ("comment", b.description, t.description, m.description, UpdateComment(path, t.description)),
            ("default", b.default_value, t.default_value, m.default_value, UpdateDefault(path, t.default_value)),
        ):
            if now in (was, of_main):
                continue
            if of_main == was:
                self.changes.append(change)
            else:
                self.contradictions.append(f"the {what} of column {shown(path)}")

    def _type(self, path: Path, b: DataType, t: DataType, m: DataType) -> None:
        if t.nullable != b.nullable and m.nullable == b.nullable:
            self.changes.append(UpdateNullability(path, t.nullable))
        if _bare(t) == _bare(b):
            return
        if isinstance(b, RowType) and isinstance(t, RowType) and isinstance(m, RowType):
            self.fields(path, b.fields, t.fields, b.fields, m.fields)
            return
        match b, t, m:
            case ArrayType(), ArrayType(), ArrayType():
                self._type((*path, "element"), b.element, t.element, m.element)
                return
            case MultisetType(), MultisetType(), MultisetType():
                self._type((*path, "element"), b.element, t.element, m.element)
                return
            case (MapType(), MapType(), MapType()) if _alike_type(b.key, t.key) and _alike_type(b.key, m.key):
                self._type((*path, "value"), b.value, t.value, m.value)
                return
        if _alike_type(_bare(m), _bare(b)):
            self.changes.append(UpdateType(path, t, keep_nullability=True))
        elif not _alike_type(_bare(m), _bare(t)):
            self.contradictions.append(f"the type of column {shown(path)} ({_bare(t)} and {_bare(m)})")

    def _place(
        self,
        path: Path,
        kept: Sequence[tuple[DataField, DataField, DataField]],
        theirs: Sequence[DataField],
        main: Sequence[str],
        new: set[int],
        dropped: set[str],
    ) -> None:
        """Add the new columns where the branch has them, and move columns as the branch did."""
        names = {t.id: (m.name if t.name == b.name else t.name) for b, t, m in kept}
        after = {m.name: names[t.id] for _, t, m in kept}
        order = [after.get(name, name) for name in main if name not in dropped]
        of_base = [names[t.id] for _, t, _ in kept]  # in the order of the base
        of_branch = [names[f.id] for f in theirs if f.id in names]
        of_main = [name for name in order if name in set(of_base)]
        if of_branch != of_base and of_main != of_branch:
            if of_main != of_base:
                self.contradictions.append(f"the order of columns{' in ' + shown(path) if path else ''}")
                return
            before: str | None = None
            for name in of_branch:
                self.changes.append(MoveColumn((*path, name), First() if before is None else After(before)))
                before = name
        before = None
        left = [f.id in new for f in theirs]
        for place, f in enumerate(theirs):
            name = names.get(f.id, f.name)
            if f.id in new:
                at = None if all(left[place:]) else First() if before is None else After(before)
                kind = f.type.with_nullable(True)
                self.changes.append(AddColumn((*path, name), kind, f.description, f.default_value, at))
            if f.id in new or name in order:
                before = name


def _options(
    merge: _Merge, base: TableSchema, theirs: TableSchema, main: TableSchema, names: Mapping[str, str]
) -> None:
    """Merge the options, which name columns as they are called after the merge."""
    was = _renamed(base.options, [(b.name, names[m.name]) for b, _, m in merge.kept])
    now = _renamed(theirs.options, [(t.name, names[m.name]) for _, t, m in merge.kept])
    there = _renamed(main.options, [(m.name, names[m.name]) for _, _, m in merge.kept])
    for key in sorted(was.keys() | now.keys()):
        before, after, of_main = was.get(key), now.get(key), there.get(key)
        if after in (before, of_main):
            continue
        if of_main != before:
            merge.contradictions.append(f"option {key}")
        else:
            merge.changes.append(RemoveOption(key) if after is None else SetOption(key, after))


def _renamed(options: Mapping[str, str], names: Sequence[tuple[str, str]]) -> Mapping[str, str]:
    wanted = [(old, new) for old, new in names if old != new]
    for i, (old, _) in enumerate(wanted):  # by way of names that nobody has, as names may change places
        options = renamed_options(options, old, f"__renamed_{i}")
    for i, (_, new) in enumerate(wanted):
        options = renamed_options(options, f"__renamed_{i}", new)
    return options


def _alike(one: DataField, other: DataField) -> bool:
    """Whether two columns have the same definition; their ids may differ."""
    definitions = ((f.name, f.description, f.default_value) for f in (one, other))
    return next(definitions) == next(definitions) and _alike_type(one.type, other.type)


def _alike_type(one: DataType, other: DataType) -> bool:
    return _without_ids(one) == _without_ids(other)


def _without_ids(t: DataType) -> DataType:
    match t:
        case RowType():
            return replace(t, fields=tuple(replace(f, id=0, type=_without_ids(f.type)) for f in t.fields))
        case ArrayType() | MultisetType():
            return replace(t, element=_without_ids(t.element))
        case MapType():
            return replace(t, key=_without_ids(t.key), value=_without_ids(t.value))
    return t


def _bare(t: DataType) -> DataType:
    return t.with_nullable(True)
