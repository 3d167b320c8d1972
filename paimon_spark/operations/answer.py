"""Output of a command: data for `--json`, and lines of text."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, Any

from paimon_spark.text import finite, grid, shown

if TYPE_CHECKING:
    from paimon_spark.errors import PaimonError
    from paimon_spark.maintenance.removal import Removed
    from paimon_spark.operations.operation import Request


@dataclass(frozen=True, slots=True)
class Answer:
    """Output of a command.

    Attributes:
        data: what `--json` prints.
        text: lines for a terminal of so many columns; None: lines may have any length.
        exit_code: 0 success, 1 differences or findings.
        error: a failure of a part of the work, whose exit code replaces `exit_code`.
    """

    data: Any
    text: Callable[[int | None], Iterable[str]]
    exit_code: int = 0
    error: PaimonError | None = None


def lines(found: str | Iterable[str], data: Any, exit_code: int = 0) -> Answer:
    """An answer of these lines."""
    return Answer(plain(data), lambda width: [found] if isinstance(found, str) else found, exit_code)


def rows(
    columns: Sequence[str],
    found: Sequence[Sequence[Any]],
    *,
    data: Any = None,
    empty: str = "",
    note: str = "",
    error: PaimonError | None = None,
    cell: Callable[[Any], str] = shown,
) -> Answer:
    """An answer of a table. Without `data`, JSON is a list of its rows.

    `empty` is printed when there are no rows, `note` as the last line; `cell` makes values text.
    """
    as_data = [dict(zip(columns, row, strict=True)) for row in found] if data is None else data

    def text(width: int | None) -> Iterable[str]:
        if not found and empty:
            yield empty
            return
        yield from grid(columns, found, width, cell)
        if note:
            yield note

    return Answer(plain(as_data), text, error=error)


def facts(pairs: Mapping[str, Any], data: Any = None) -> Answer:
    """An answer of names and values, one a line."""
    width = max(map(len, pairs), default=0)
    out = [f"{name.ljust(width)}  {shown(value)}".rstrip() for name, value in pairs.items()]
    return lines(out, pairs if data is None else data)


def change(request: Request, found: str | Iterable[str], result: Any) -> Answer:
    """An answer of lines on what was changed, or would be in a dry run; JSON has `dry_run`."""
    return lines(found, {"dry_run": request.dry_run, **plain(result)})


def removal(request: Request, text: str, removed: Removed) -> Answer:
    """An answer of a text, such as `deleted branch fix`, and what was removed."""
    return change(request, [f"{text}: {removed.summary}", *removed.remarks], removed)


def expired(request: Request, removed: Removed) -> Answer:
    """An answer of what an expiry removed."""
    return removal(request, request.did("expired", "expire"), removed)


def result(request: Request, done: Any) -> Answer:
    """An answer of a result of the API that has text lines, and of the plain values that it has for JSON."""
    return change(request, list(done.text_lines()), done.to_dict() if hasattr(done, "to_dict") else done)


def results(found: Sequence[Any], empty: str, data: Any = None) -> Answer:
    """An answer of several results that have text lines; `empty` is printed without any."""
    out = [line for each in found for line in each.text_lines()]
    return lines(out or [empty], found if data is None else data)


def plain(value: Any) -> Any:
    """Convert a value to JSON: dataclasses become objects, times ISO text, bytes base64."""
    match value:
        case Enum():  # before text: an enum may be text, too
            return plain(value.value)
        case None | bool() | str():
            return value
        case float():
            return finite(value)
        case int():
            return value
        case Decimal():
            return str(value)
        case datetime() | date() | time():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case bytes() | bytearray() | memoryview():
            return base64.b64encode(bytes(value)).decode()
        case Mapping():
            return {k if isinstance(k, str) else shown(k): plain(v) for k, v in value.items()}
        case _ if is_dataclass(value) and not isinstance(value, type):
            return {f.name: plain(getattr(value, f.name)) for f in fields(value) if not f.name.startswith("_")}
        case list() | tuple() | set() | frozenset():
            return [plain(v) for v in value]
        case _:
            return str(value)
