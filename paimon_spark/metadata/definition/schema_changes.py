"""Changes of a schema as values; `alter` applies them.

A path names a column, or a field inside it: fields of rows by their names, what an ARRAY or MULTISET holds as
`element`, values of a MAP as `value`; its keys never change.

Source: Java `schema/SchemaChange`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from paimon_spark.errors import InvalidInputError
from paimon_spark.types import DataType

Path: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class First:
    """Before all other columns."""


@dataclass(frozen=True, slots=True)
class Last:
    """Behind all other columns."""


@dataclass(frozen=True, slots=True)
class After:
    """Right behind another column of the same row."""

    column: str


@dataclass(frozen=True, slots=True)
class Before:
    """Right before another column of the same row."""

    column: str


Position: TypeAlias = First | Last | After | Before


@dataclass(frozen=True, slots=True)
class AddColumn:
    """A new column, or field of a row; rows already there have null in it.

    Attributes:
        type: nullable.
        default: text of the value that later writes without the column put there.
        position: None is last, or before the partition keys with `add-column-before-partition`.
    """

    path: Path
    type: DataType
    comment: str | None = None
    default: str | None = None
    position: Position | None = None


@dataclass(frozen=True, slots=True)
class DropColumn:
    """The column goes; its field id is never given out again."""

    path: Path


@dataclass(frozen=True, slots=True)
class RenameColumn:
    """The column at `path` gets the name `new_name`; keys and options that name it follow."""

    path: Path
    new_name: str


@dataclass(frozen=True, slots=True)
class UpdateType:
    """Another type; files are cast as they are read.

    Attributes:
        keep_nullability: whether nullability stays, whatever that of `type` is.
        of_keys: whether keys of rows may change so. Their values must then have the same binary form in both types.
    """

    path: Path
    type: DataType
    keep_nullability: bool = False
    of_keys: bool = False


@dataclass(frozen=True, slots=True)
class UpdateNullability:
    """Whether the column may hold nulls."""

    path: Path
    nullable: bool


@dataclass(frozen=True, slots=True)
class UpdateComment:
    """The comment of a column; None for none."""

    path: Path
    comment: str | None


@dataclass(frozen=True, slots=True)
class UpdateDefault:
    """The value, as text, that later writes without the column put there; None for null."""

    path: Path
    default: str | None


@dataclass(frozen=True, slots=True)
class MoveColumn:
    """Another place among the columns of the same row."""

    path: Path
    position: Position


@dataclass(frozen=True, slots=True)
class SetOption:
    """An option of the table."""

    key: str
    value: str


@dataclass(frozen=True, slots=True)
class RemoveOption:
    """An option of the table goes back to its default."""

    key: str


@dataclass(frozen=True, slots=True)
class UpdateTableComment:
    """The comment of the table; None for none."""

    comment: str | None


@dataclass(frozen=True, slots=True)
class DropPrimaryKey:
    """Only while the table has no snapshot."""


SchemaChange: TypeAlias = (
    AddColumn
    | DropColumn
    | RenameColumn
    | UpdateType
    | UpdateNullability
    | UpdateComment
    | UpdateDefault
    | MoveColumn
    | SetOption
    | RemoveOption
    | UpdateTableComment
    | DropPrimaryKey
)


def parse_path(text: str, columns: Sequence[str]) -> Path:
    """Parse a column path: `a.b` is field b of column a, unless a column is called `a.b`.

    Names with dots inside stand in backquotes.

    Raises:
        InvalidInputError: blank, or quotes are not closed.
    """
    if text in columns:
        return (text,)
    parts: list[str] = []
    rest = text.strip()
    while True:
        if rest.startswith("`"):
            name, closed, rest = rest[1:].partition("`")
            if not closed or (rest and not rest.startswith(".")):
                raise InvalidInputError(f"{text!r} is no path of a column: a backquote is not closed", column=text)
        else:
            name, dot, rest = rest.partition(".")
            rest = dot + rest
        if not name.strip():
            raise InvalidInputError(f"{text!r} is no path of a column: a name in it is blank", column=text)
        parts.append(name)
        if not rest:
            return tuple(parts)
        rest = rest[1:]


def shown(path: Path) -> str:
    """A path as users write it."""
    return ".".join(f"`{p}`" if "." in p else p for p in path)


def in_words(change: SchemaChange) -> str:
    """A change in words, as `column a added`."""
    match change:
        case SetOption(key, value):
            return f"option {key} = {value}"
        case RemoveOption(key):
            return f"option {key} removed"
        case UpdateTableComment():
            return "comment of the table changed"
        case DropPrimaryKey():
            return "primary key dropped"
        case RenameColumn(path, new_name):
            return f"column {shown(path)} renamed to {new_name}"
        case UpdateType(path, wanted):
            return f"column {shown(path)} changed to {wanted}"
        case UpdateNullability(path, nullable):
            return f"column {shown(path)} changed to {'NULL' if nullable else 'NOT NULL'}"
        case UpdateComment(path) | UpdateDefault(path):
            return f"{'comment' if isinstance(change, UpdateComment) else 'default'} of column {shown(path)} changed"
    verbs = {AddColumn: "added", DropColumn: "dropped", MoveColumn: "moved"}
    return f"column {shown(change.path)} {verbs[type(change)]}"
