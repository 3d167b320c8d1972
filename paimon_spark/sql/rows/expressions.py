"""Expressions of a statement, as text in which names mean what they mean in the query that evaluates them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from paimon_spark.errors import ColumnNotFoundError, InvalidInputError, UnsupportedFeatureError
from paimon_spark.options.descriptor import did_you_mean
from paimon_spark.predicate.ast import literal_text
from paimon_spark.spark.schema import spark_type
from paimon_spark.sql.cursor import Cursor
from paimon_spark.sql.rows.pieces import piece
from paimon_spark.sql.rows.statements import Assignment, Name
from paimon_spark.sql.rows.target import Target
from paimon_spark.sql.text import Edit, Word, edited, quoted, words
from paimon_spark.types import DataField, DataType, RowType

_DEFAULT: Final = "DEFAULT"


def requalified(text: str, names: Iterable[Sequence[str]], alias: str) -> str:
    """`text` with `alias` in the place of `names` of several parts before a column: `db.t.c` becomes `t.c`."""
    wanted = {tuple(p.lower() for p in n) for n in names if len(n) > 1}
    if not wanted:
        return text
    found, edits, index = words(text), [], 0
    while index < len(found):
        parts, end = _dotted_at(found, index)
        length = next((n for n in range(len(parts) - 1, 1, -1) if tuple(p.lower() for p in parts[:n]) in wanted), 0)
        if length:
            edits.append(Edit(found[index].start, found[index + 2 * (length - 1)].end, quoted(alias)))
        index = end
    return edited(text, edits)


def _dotted_at(found: Sequence[Word], index: int) -> tuple[list[str], int]:
    """The parts of the name that begins at a word, if one does, and the index after it."""
    parts: list[str] = []
    while index < len(found) and found[index].is_name and not found[index].is_number:
        parts.append(found[index].text)
        if index + 2 < len(found) and found[index + 1].keyword == "." and found[index + 2].is_name:
            index += 2
            continue
        break
    return parts, index + 1


def without_qualifier(text: str, names: Iterable[Sequence[str]]) -> str:
    """`text` with no name of the table before its columns."""
    wanted = {tuple(p.lower() for p in n) for n in names}
    found, edits, index = words(text), [], 0
    while index < len(found):
        parts, end = _dotted_at(found, index)
        length = next((n for n in range(len(parts) - 1, 0, -1) if tuple(p.lower() for p in parts[:n]) in wanted), 0)
        if length:
            edits.append(Edit(found[index].start, found[index + 2 * length].start, ""))
        index = end
    return edited(text, edits)


def default_of(field: DataField) -> str:
    """What DEFAULT means for a column, as an expression."""
    text = field.default_value
    if text is None:
        return f"CAST(NULL AS {_spark_name(field)})"
    bare = text[1:-1] if len(text) > 1 and text[0] == text[-1] == "'" else text
    return f"CAST({literal_text(bare)} AS {_spark_name(field)})"


def _spark_name(field: DataField) -> str:
    return spark_type(field.type, field.name).simpleString()


def with_defaults(query: str, columns: Sequence[DataField]) -> str:
    """A query of constants with what DEFAULT means in the place of DEFAULT: VALUES, or SELECT without a star before it.

    Args:
        query: text.
        columns: what the columns of the query are for.
    """
    cursor = Cursor(query)
    if not any(w.keyword == _DEFAULT for w in cursor.words):
        return query
    edits: list[Edit] = []
    if cursor.take("VALUES"):
        while True:
            if cursor.take("("):
                _replace(cursor, columns, edits)
                cursor.expect(")")
            else:
                _replace(cursor, columns[:1], edits)
            if not cursor.take(","):
                break
    elif cursor.take("SELECT"):
        _replace(cursor, columns, edits, "FROM", "WHERE", "UNION", "LIMIT", "ORDER")
    return edited(query, edits)


def _replace(cursor: Cursor, columns: Sequence[DataField], edits: list[Edit], *stops: str) -> None:
    position = 0
    while True:
        start = cursor.start
        text = piece(cursor, ",", *stops)
        if text.upper() == _DEFAULT and position < len(columns):
            edits.append(Edit(start, start + len(text), default_of(columns[position])))
        position += 1
        if (len(columns) == 1 and not stops) or not cursor.take(","):
            return


def values_by_column(target: Target, assignments: Sequence[Assignment], aliases: Sequence[str]) -> dict[str, str]:
    """Expressions by column of the table, of assignments to columns and to fields of them.

    Args:
        target: the table.
        assignments: of SET or of INSERT.
        aliases: what the table is called; the first one is put before fields that keep their value.

    Raises:
        ColumnNotFoundError: there is no such column or field.
        InvalidInputError: something is set twice.
    """
    whole: dict[str, str] = {}
    parts: dict[str, dict[Name, str]] = {}
    for assignment in assignments:
        column, path = _place_of(target, assignment.target, aliases)
        if column.name in whole or (not path and column.name in parts) or path in parts.get(column.name, {}):
            raise _twice(target, ".".join((column.name, *path)))
        is_default = assignment.value.upper() == _DEFAULT
        if path:
            value = "NULL" if is_default else assignment.value
            parts.setdefault(column.name, {})[path] = value
        else:
            whole[column.name] = default_of(column) if is_default else assignment.value
    for name, fields in parts.items():
        field = target.column(name)
        whole[name] = _rebuilt(target, field.type, f"{quoted(aliases[0])}.{quoted(name)}", fields, name)
    return whole


def _place_of(target: Target, parts: Name, aliases: Sequence[str]) -> tuple[DataField, Name]:
    """The column that a name means, and the fields in it that follow."""
    names = {f.name.lower() for f in target.columns}
    qualifiers: list[Sequence[str]] = [*target.full_names, *((a,) for a in aliases)]
    for qualifier in qualifiers:
        length = len(qualifier)
        is_there = [p.lower() for p in parts[:length]] == [q.lower() for q in qualifier]
        if is_there and len(parts) > length and parts[length].lower() in names:
            return target.column(parts[length]), parts[length + 1 :]
    return target.column(parts[0]), parts[1:]


def _rebuilt(target: Target, data_type: DataType, old: str, fields: Mapping[Name, str], where: str) -> str:
    """A struct with some of its fields replaced, as Paimon's Spark connector builds it: of null, one of nulls."""
    if not isinstance(data_type, RowType):
        raise InvalidInputError(
            f"column {where} of {target.table.handle.describe()} is {data_type}, and only fields of a STRUCT can be "
            "set one by one; set the whole column",
            column=where,
        )
    known = {f.name.lower(): f for f in data_type}
    inner: dict[str, dict[Name, str]] = {}
    for path, value in fields.items():
        if path[0].lower() not in known:
            names = [f.name for f in data_type]
            raise ColumnNotFoundError(
                f"column {where} of {target.table.handle.describe()} has no field {path[0]!r}"
                f"{did_you_mean(path[0], names)}; its fields are {', '.join(names)}",
                column=where,
            )
        given = inner.setdefault(known[path[0].lower()].name, {})
        if path[1:] in given or () in given or (given and not path[1:]):
            raise _twice(target, f"{where}.{'.'.join(path)}")
        given[path[1:]] = value
    made = []
    for field in data_type:
        place = f"{old}.{quoted(field.name)}"
        new = inner.get(field.name)
        if new is None:
            value = place
        elif () in new:
            value = f"({new[()]})"
        else:
            value = _rebuilt(target, field.type, place, new, f"{where}.{field.name}")
        made.append(f"{literal_text(field.name)}, {value}")
    return f"named_struct({', '.join(made)})"


def _twice(target: Target, what: str) -> InvalidInputError:
    return InvalidInputError(
        f"{what} of {target.table.handle.describe()} is set twice, or as a whole and in part; set it once", column=what
    )


def refuse_subqueries(texts: Iterable[str | None]) -> None:
    """Refuse expressions that hold a query. Raises UnsupportedFeatureError."""
    for text in texts:
        if text is not None and any(w.keyword == "SELECT" for w in words(text)):
            raise UnsupportedFeatureError(
                f"a query in a condition or a value of MERGE is not supported, here or in Paimon: {text}; put it into "
                "the source: USING (SELECT …) AS s",
                feature="subquery in MERGE",
            )


def conjuncts_of(text: str) -> list[tuple[str, str]]:
    """Column and constant of each part of `a = 1 AND b = 'x'`. Raises SqlSyntaxError: it is something else."""
    cursor = Cursor(text)
    out = []
    while True:
        column = cursor.identifier("a partition column")
        if cursor.take_one("=", "==") is None:
            cursor.fail("=")
        out.append((column, piece(cursor, "AND", "OR")))
        if not cursor.take("AND"):
            cursor.end()
            return out
