"""The arguments of `Table.alter` → changes of the schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from paimon_spark.api.columns import column_of
from paimon_spark.errors import InvalidInputError
from paimon_spark.jobs.branch_access import undisturbed
from paimon_spark.metadata.definition.alter import alter_table
from paimon_spark.metadata.definition.schema_changes import (
    AddColumn,
    After,
    Before,
    DropColumn,
    First,
    Last,
    MoveColumn,
    Path,
    Position,
    RemoveOption,
    RenameColumn,
    SchemaChange,
    SetOption,
    UpdateComment,
    UpdateDefault,
    UpdateNullability,
    UpdateTableComment,
    UpdateType,
    parse_path,
)
from paimon_spark.metadata.handle import TableHandle, open_table
from paimon_spark.types import RowType

_PLACES: Final[Mapping[str, Callable[[], Position]]] = {"first": First, "last": Last}
_BESIDE: Final[Mapping[str, Callable[[str], Position]]] = {"after": After, "before": Before}


def altered(handle: TableHandle, changes: Callable[[RowType], Sequence[SchemaChange]]) -> TableHandle:
    """The table after `changes`, made for the columns it has now. Raises as `alter_table`."""

    def alter() -> None:
        fresh = open_table(handle.store, handle.layout.root, handle.branch, handle.name, handle.overrides)
        alter_table(fresh, lambda newest: changes(newest.row_type))

    undisturbed(handle, alter)
    return open_table(handle.store, handle.layout.root, handle.branch, handle.name, handle.overrides)


def schema_changes(
    columns: RowType,
    *,
    add: Mapping[str, Any],
    drop: Sequence[str],
    rename: Mapping[str, str],
    retype: Mapping[str, Any],
    set_options: Mapping[str, Any],
    unset_options: Sequence[str],
    nullable: Mapping[str, bool],
    comments: Mapping[str, str | None],
    defaults: Mapping[str, str | None],
    move: Mapping[str, str],
    comment: str | None,
) -> list[SchemaChange]:
    """The changes in the order they are made: options, then columns dropped, renamed, changed and added.

    Raises:
        InvalidInputError: a path, type or place cannot be read.
        UnsupportedFeatureError: a type that no table has.
    """
    renamed = dict(rename)
    names = [renamed.get(n, n) for n in columns.names]

    def path(text: str) -> Path:
        return parse_path(text, names)

    changes: list[SchemaChange] = [RemoveOption(key) for key in _several(unset_options, "unset_options")]
    changes += [SetOption(key, _text(value)) for key, value in set_options.items()]
    changes += [DropColumn(parse_path(c, columns.names)) for c in _several(drop, "drop")]
    changes += [RenameColumn(parse_path(old, columns.names), new) for old, new in rename.items()]
    changes += [_retype(path(c), c, stated) for c, stated in retype.items()]
    changes += [UpdateNullability(path(c), wanted) for c, wanted in nullable.items()]
    changes += [_add(path(c), stated) for c, stated in add.items()]
    changes += [UpdateComment(path(c), text) for c, text in comments.items()]
    changes += [UpdateDefault(path(c), text) for c, text in defaults.items()]
    changes += [MoveColumn(path(c), _position(c, where)) for c, where in move.items()]
    if comment is not None:
        changes.append(UpdateTableComment(comment))
    return changes


def _add(path: Path, stated: Any) -> SchemaChange:
    field = column_of(path[-1], stated)
    return AddColumn(path, field.type, field.description, field.default_value)


def _retype(path: Path, column: str, stated: Any) -> SchemaChange:
    field = column_of(path[-1], stated)
    if field.description is not None or field.default_value is not None:
        raise InvalidInputError(f"retype {column}: {stated!r} is more than a type; use comments and defaults")
    return UpdateType(path, field.type, keep_nullability=field.type.nullable)


def _position(column: str, where: str) -> Position:
    word, _, other = where.strip().partition(" ")
    if not other and word.lower() in _PLACES:
        return _PLACES[word.lower()]()
    if other.strip() and word.lower() in _BESIDE:
        return _BESIDE[word.lower()](other.strip().strip("`"))
    raise InvalidInputError(
        f"column {column} cannot be moved to {where!r}; say first, last, after <column> or before <column>",
        column=column,
    )


def _several(names: Sequence[str], argument: str) -> Sequence[str]:
    if isinstance(names, str):
        raise InvalidInputError(f"{argument} = {names!r}: expected a list of names")
    return names


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
