"""Rewrite expressions of statements: qualifiers, DEFAULT, parameters, SET of nested fields."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import pairwise
from math import isfinite
from typing import TYPE_CHECKING, Any, Final

from paimon_spark.errors import ColumnNotFoundError, InvalidInputError, SqlSyntaxError, UnsupportedFeatureError
from paimon_spark.options.descriptor import did_you_mean
from paimon_spark.predicate.ast import literal_text
from paimon_spark.predicate.tokens import Token
from paimon_spark.sql.commands.column_text import default_expression
from paimon_spark.sql.cursor import Cursor
from paimon_spark.sql.grammar.clauses import Assignment, expression
from paimon_spark.sql.session import Session
from paimon_spark.sql.statement import Name
from paimon_spark.sql.tokens import Edit, edited, tokenize
from paimon_spark.types import DataField, DataType, RowType, quoted

if TYPE_CHECKING:
    from paimon_spark.sql.commands.target import Target

_DEFAULT: Final = "DEFAULT"
_KEPT_PARAMETER: Final = "paimon_parameter_"
_INT: Final = 2**31


def replace_qualifier(text: str, names: Iterable[Sequence[str]], alias: str | None) -> str:
    """`text` with another qualifier before columns in place of `names`: `db.t.c` becomes `alias.c`.

    Names match in any case; without an alias, columns have no qualifier.
    """
    wanted = {tuple(p.lower() for p in n) for n in names}
    if not wanted:
        return text
    tokens, edits, index = tokenize(text), [], 0
    while index < len(tokens):
        parts, end = _dotted_name(tokens, index)
        length = next((n for n in range(len(parts) - 1, 0, -1) if tuple(p.lower() for p in parts[:n]) in wanted), 0)
        if length and alias is not None:
            edits.append(Edit(tokens[index].start, tokens[index + 2 * (length - 1)].end, quoted(alias)))
        elif length:
            edits.append(Edit(tokens[index].start, tokens[index + 2 * length].start, ""))
        index = end
    return edited(text, edits)


def _dotted_name(tokens: Sequence[Token], index: int) -> tuple[list[str], int]:
    """The parts of the name that begins at a token, if one does, and the index after it."""
    parts: list[str] = []
    while index < len(tokens) and tokens[index].is_name and not tokens[index].is_number:
        parts.append(tokens[index].text)
        if index + 2 < len(tokens) and tokens[index + 1].keyword == "." and tokens[index + 2].is_name:
            index += 2
            continue
        break
    return parts, index + 1


def with_defaults(query: str, columns: Sequence[DataField]) -> str:
    """Replace DEFAULT in a query of constants: VALUES, or SELECT without a star before it.

    `columns` are in the order of the query's.
    """
    cursor = Cursor(query)
    if not any(w.keyword == _DEFAULT for w in cursor.tokens):
        return query
    edits: list[Edit] = []
    if cursor.take("VALUES"):
        while True:
            if cursor.take("("):
                _replace_defaults(cursor, columns, edits)
                cursor.expect(")")
            else:
                _replace_defaults(cursor, columns[:1], edits)
            if not cursor.take(","):
                break
    elif cursor.take("SELECT"):
        _replace_defaults(cursor, columns, edits, "FROM", "WHERE", "UNION", "LIMIT", "ORDER")
    return edited(query, edits)


def _replace_defaults(cursor: Cursor, columns: Sequence[DataField], edits: list[Edit], *stops: str) -> None:
    position = 0
    while True:
        start = cursor.start
        text = expression(cursor, ",", *stops)
        if text.upper() == _DEFAULT and position < len(columns):
            edits.append(Edit(start, start + len(text), default_expression(columns[position])))
        position += 1
        if (len(columns) == 1 and not stops) or not cursor.take(","):
            return


def values_by_column(target: Target, assignments: Sequence[Assignment], aliases: Sequence[str]) -> dict[str, str]:
    """The expression for each assigned column; assigned fields of a column are combined into one expression.

    `aliases` are names of the table; the first one qualifies fields that keep their value.

    Raises:
        ColumnNotFoundError: there is no such column or field.
        InvalidInputError: a column or field is set twice.
    """
    whole: dict[str, str] = {}
    parts: dict[str, dict[Name, str]] = {}
    for assignment in assignments:
        column, path = _column_and_fields(target, assignment.target, aliases)
        if column.name in whole or (not path and column.name in parts) or path in parts.get(column.name, {}):
            raise _set_twice(target, ".".join((column.name, *path)))
        is_default = assignment.value.upper() == _DEFAULT
        if path:
            value = "NULL" if is_default else assignment.value
            parts.setdefault(column.name, {})[path] = value
        else:
            whole[column.name] = default_expression(column) if is_default else assignment.value
    for name, fields in parts.items():
        field = target.column(name)
        whole[name] = _with_fields(target, field.type, f"{quoted(aliases[0])}.{quoted(name)}", fields, name)
    return whole


def _column_and_fields(target: Target, parts: Name, aliases: Sequence[str]) -> tuple[DataField, Name]:
    """The column that a name means, and the path of the nested field that follows."""
    names = {f.name.lower() for f in target.columns}
    qualifiers: list[Sequence[str]] = [*target.full_names, *((a,) for a in aliases)]
    for qualifier in qualifiers:
        length = len(qualifier)
        matches = [p.lower() for p in parts[:length]] == [q.lower() for q in qualifier]
        if matches and len(parts) > length and parts[length].lower() in names:
            return target.column(parts[length]), parts[length + 1 :]
    return target.column(parts[0]), parts[1:]


def _with_fields(target: Target, data_type: DataType, old: str, fields: Mapping[Name, str], where: str) -> str:
    """A struct with some fields replaced, as Paimon's Spark connector builds it; null becomes a struct of nulls."""
    if not isinstance(data_type, RowType):
        raise InvalidInputError(
            f"column {where} of {target.table.handle.describe()} is {data_type}, not a STRUCT, so its fields "
            "cannot be set; set the whole column",
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
            raise _set_twice(target, f"{where}.{'.'.join(path)}")
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
            value = _with_fields(target, field.type, place, new, f"{where}.{field.name}")
        made.append(f"{literal_text(field.name)}, {value}")
    return f"named_struct({', '.join(made)})"


def _set_twice(target: Target, what: str) -> InvalidInputError:
    return InvalidInputError(
        f"{what} of {target.table.handle.describe()} is set twice, or as a whole and in part; set it once", column=what
    )


def refuse_subqueries(texts: Iterable[str | None]) -> None:
    """Refuse expressions that contain a query. Raises UnsupportedFeatureError."""
    for text in texts:
        if text is not None and any(w.keyword == "SELECT" for w in tokenize(text)):
            raise UnsupportedFeatureError(
                f"a query in a condition or a value of MERGE is not supported, here or in Paimon: {text}; put it into "
                "the source: USING (SELECT …) AS s",
                feature="subquery in MERGE",
            )


def partition_condition(text: str) -> list[tuple[str, str]]:
    """Parse `a = 1 AND b = 'x'` into columns and constants. Raises SqlSyntaxError: anything else."""
    cursor = Cursor(text)
    out = []
    while True:
        column = cursor.identifier("a partition column")
        if cursor.take_one("=", "==") is None:
            cursor.fail("=")
        out.append((column, expression(cursor, "AND", "OR")))
        if not cursor.take("AND"):
            cursor.end()
            return out


def bind_parameters(session: Session, sql: str) -> tuple[Session, str]:
    """Replace `:name` and `?` by literals, and keep parameters without a literal in the session.

    Raises SqlSyntaxError: there are more marks than values.
    """
    if not session.args:
        return session, sql
    found = tokenize(sql)
    edits: list[Edit] = []
    if isinstance(session.args, Mapping):
        before = 0
        for sign, name in pairwise(found):
            # In `column:path` the sign belongs to what precedes it.
            is_path = sign.start == before and sql[before - 1 : before] not in ("", "(", ",", "=", "<", ">", "+", "-")
            before = sign.end
            if sign.keyword == ":" and not is_path and sign.end == name.start and name.text in session.args:
                text = _literal(session.args[name.text])
                if text is not None:
                    edits.append(Edit(sign.start, name.end, text))
        return session, edited(sql, edits)
    marks = [w for w in found if w.keyword == "?"]
    if len(marks) > len(session.args):
        raise SqlSyntaxError(
            f"the statement has {len(marks)} parameters ?, and args has {len(session.args)} values", sql=sql
        )
    kept: dict[str, Any] = {}
    for i, (mark, value) in enumerate(zip(marks, session.args, strict=False)):
        text = _literal(value)
        if text is None:
            kept[f"{_KEPT_PARAMETER}{i}"] = value
            text = f":{_KEPT_PARAMETER}{i}"
        edits.append(Edit(mark.start, mark.end, text))
    return replace(session, args=kept or None), edited(sql, edits)


def _literal(value: object) -> str | None:
    """A scalar as an expression of the type that Spark gives it; None for other values."""
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).upper()
        case int():
            return f"({value})" if -_INT <= value < _INT else f"({value}L)"
        case float():
            return f"({value!r}D)" if isfinite(value) else f"CAST('{value}' AS DOUBLE)"
        case Decimal():
            return f"({value:f}BD)" if value.is_finite() else None
        case str():
            return literal_text(value)
        case bytes() | bytearray():
            return f"X'{value.hex()}'"
        case datetime():
            at = value.astimezone(UTC).replace(tzinfo=None)
            return f"TIMESTAMP_LTZ '{at.isoformat(sep=' ')}+00:00'"
        case date():
            return f"DATE '{value.isoformat()}'"
    return None
