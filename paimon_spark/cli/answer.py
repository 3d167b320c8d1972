"""Answer: what a command has to say, as data for `--json` and as text for people."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any

from paimon_spark.cli.text import finite, grid, shown


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command has to say.

    Attributes:
        data: what `--json` prints.
        text: lines for people, for a terminal of so many columns; None: lines may be of any length.
        exit_code: 0 done, 1 differences or findings.
    """

    data: Any
    text: Callable[[int | None], Iterable[str]]
    exit_code: int = 0


def sentence(text: str, data: Any, *more: str) -> Answer:
    """What was done, as a sentence and perhaps more lines."""
    return Answer(plain(data), lambda room: [text, *more])


def lines(found: Iterable[str], data: Any, exit_code: int = 0) -> Answer:
    """Lines as they are."""
    return Answer(plain(data), lambda room: found, exit_code)


def rows(
    columns: Sequence[str], found: Sequence[Sequence[Any]], *, data: Any = None, empty: str = "", note: str = ""
) -> Answer:
    """A table. Without `data`, JSON is a list of its rows.

    Args:
        columns: heads, which are the keys in JSON.
        found: rows.
        data: another JSON.
        empty: what people are told when there are no rows.
        note: a last line.
    """
    told = [dict(zip(columns, row, strict=True)) for row in found] if data is None else data

    def text(room: int | None) -> Iterable[str]:
        if not found and empty:
            yield empty
            return
        yield from grid(columns, found, room)
        if note:
            yield note

    return Answer(plain(told), text)


def facts(pairs: Mapping[str, Any], data: Any = None) -> Answer:
    """Names and values, one a line."""
    room_of_names = max(map(len, pairs), default=0)
    told = [f"{name.ljust(room_of_names)}  {shown(value)}".rstrip() for name, value in pairs.items()]
    return Answer(plain(pairs if data is None else data), lambda room: told)


def plain(value: Any) -> Any:
    """A value as JSON has it: our frozen values become objects, times ISO text, bytes base64."""
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
