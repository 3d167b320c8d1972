"""Parameters of a statement that is taken apart: scalar values take the place of `:name` and `?` in its text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import date, datetime, timezone
from decimal import Decimal
from itertools import pairwise
from math import isfinite
from typing import Any, Final

from paimon_spark.errors import SqlSyntaxError
from paimon_spark.predicate.ast import literal_text
from paimon_spark.sql.session import Session
from paimon_spark.sql.text import Edit, edited, words

_SIGN: Final = ":"
_MARK: Final = "?"
_LEFT: Final = "paimon_parameter_"
_INT: Final = 2**31


def bound(session: Session, sql: str) -> tuple[Session, str]:
    """The statement with the values of its parameters in it, and a session with those that no literal can show.

    Raises:
        SqlSyntaxError: there are more marks than values.
    """
    if not session.args:
        return session, sql
    found = words(sql)
    edits: list[Edit] = []
    if isinstance(session.args, Mapping):
        before = 0
        for sign, name in pairwise(found):
            # In `column:path` the sign goes on with what stands before it.
            goes_on = sign.start == before and sql[before - 1 : before] not in ("", "(", ",", "=", "<", ">", "+", "-")
            before = sign.end
            if sign.keyword == _SIGN and not goes_on and sign.end == name.start and name.text in session.args:
                text = _literal(session.args[name.text])
                if text is not None:
                    edits.append(Edit(sign.start, name.end, text))
        return session, edited(sql, edits)
    marks = [w for w in found if w.keyword == _MARK]
    if len(marks) > len(session.args):
        raise SqlSyntaxError(
            f"the statement has {len(marks)} parameters ?, and args has {len(session.args)} values", sql=sql
        )
    left: dict[str, Any] = {}
    for i, (mark, value) in enumerate(zip(marks, session.args, strict=False)):
        text = _literal(value)
        if text is None:
            left[f"{_LEFT}{i}"] = value
            text = f":{_LEFT}{i}"
        edits.append(Edit(mark.start, mark.end, text))
    return replace(session, args=left or None), edited(sql, edits)


def _literal(value: object) -> str | None:
    """A value as an expression of the type that Spark gives it; None for those that are no scalars."""
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
            at = value.astimezone(timezone.utc).replace(tzinfo=None)
            return f"TIMESTAMP_LTZ '{at.isoformat(sep=' ')}+00:00'"
        case date():
            return f"DATE '{value.isoformat()}'"
    return None
