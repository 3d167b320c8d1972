"""What a command prints: data for `--json`, and lines of text."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, Any

from paimon_spark.display import amount
from paimon_spark.operations.text import counted, finite, grid, safe, shown

if TYPE_CHECKING:
    from paimon_spark.errors import PaimonError
    from paimon_spark.maintenance.removal import Removed
    from paimon_spark.operations.operation import Request
    from paimon_spark.versioning.rollback import RolledBack

_NAMED = 10


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command prints.

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
) -> Answer:
    """An answer of a table. Without `data`, JSON is a list of its rows.

    `empty` is printed when there are no rows, `note` as the last line.
    """
    as_data = [dict(zip(columns, row, strict=True)) for row in found] if data is None else data

    def text(width: int | None) -> Iterable[str]:
        if not found and empty:
            yield empty
            return
        yield from grid(columns, found, width)
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
    out = [f"{text}: {', '.join([*removed_names(removed), files_of(removed)])}"]
    if removed.finished is not None:
        out.append(f"finished an earlier operation: {safe(removed.finished)}")
    if removed.left is not None:
        out.append(f"left to `orphan remove`: {safe(removed.left)}")
    return change(request, out, removed)


def removed_names(removed: Removed | RolledBack) -> list[str]:
    """The removed snapshots, tags and changelogs."""
    kinds = ((removed.snapshots, "snapshot"), (removed.tags, "tag"), (removed.changelogs, "changelog"))
    return [names(found, noun) for found, noun in kinds if found]


def names(found: Sequence[object], noun: str) -> str:
    """`2 tags (v1, v2)`; at most ten are named."""
    named = [safe(str(n)) for n in found[:_NAMED]]
    more = [f"and {len(found) - _NAMED} more"] if len(found) > _NAMED else []
    return f"{counted(len(found), noun)} ({', '.join([*named, *more])})"


def files_of(removed: Removed) -> str:
    """`14 files, 1.2 MiB`: files of all kinds."""
    of_metadata = removed.manifest_files + removed.index_files + removed.statistics_files
    return f"{counted(removed.data_files + removed.changelog_files + of_metadata, 'file')}, {amount(removed.bytes)}"


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
