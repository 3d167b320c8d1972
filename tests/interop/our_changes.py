"""Schema changes of a `TableScript` as this package's."""

from __future__ import annotations

from typing import Any

from paimon_spark.metadata.definition.schema_changes import (
    AddColumn,
    After,
    Before,
    DropColumn,
    First,
    MoveColumn,
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
)
from paimon_spark.types import parse_type


def changes_of(changes: list[dict[str, Any]]) -> list[SchemaChange]:
    """The changes of an `alter` step."""
    return [_change(change) for change in changes]


def _change(change: dict[str, Any]) -> SchemaChange:
    name = change.get("name", "")
    path = tuple(name) if isinstance(name, list) else (name,)
    match change["do"]:
        case "add":
            return AddColumn(path, parse_type(change["type"]), change.get("comment"), position=_position(change))
        case "drop":
            return DropColumn(path)
        case "rename":
            return RenameColumn(path, change["to"])
        case "retype":
            return UpdateType(path, parse_type(change["type"]), keep_nullability=change.get("keepNullability", False))
        case "nullable":
            return UpdateNullability(path, change["value"])
        case "comment":
            return UpdateComment(path, change["value"])
        case "default":
            return UpdateDefault(path, change["value"])
        case "move":
            position = _position(change)
            assert position is not None
            return MoveColumn(path, position)
        case "set":
            return SetOption(name, change["value"])
        case "unset":
            return RemoveOption(name)
        case "tableComment":
            return UpdateTableComment(change["value"])
    raise ValueError(change)


def _position(change: dict[str, Any]) -> Position | None:
    if "after" in change:
        return After(change["after"])
    if "before" in change:
        return Before(change["before"])
    return First() if change.get("first") else None
