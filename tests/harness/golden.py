"""The golden tables of `tests/fixtures` and what reading each version of them must give."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from tests.harness.rows import Row, difference, without_kind

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"
PRODUCERS = ("java-0.9", "pypaimon-2.1")

# ORC timestamps are read as 64-bit nanoseconds, which end in 1677 and 2262; these columns hold years 1 to 9999.
BEYOND_NANOSECONDS = {"append_orc_java_quirks": ("t3", "t6", "t9", "z6")}


@dataclass(frozen=True, slots=True)
class GoldenRead:
    """One read of a golden table, and its outcome."""

    table: str
    label: str
    path: Path
    options: dict[str, str]
    """Options of the table that select the version; `branch` among them."""
    columns: tuple[str, ...] | None
    rows: tuple[Row, ...]
    """The rows as the producer's own reader gave them, else as they were written."""
    written: tuple[Row, ...] | None
    """What was handed to the writer, where the file holds something else: right as well."""
    schema: tuple[tuple[int, str, str], ...] | None
    """Id, name and type of every column of the version; None where the producer does not say."""
    unordered: tuple[str, ...] = field(default=())

    def __str__(self) -> str:
        return f"{self.table}-{self.label}"

    @property
    def types(self) -> dict[str, str]:
        """Column name to the text of its Paimon type, where known."""
        return {name: kind for _, name, kind in self.schema or ()}

    def project(self, columns: tuple[str, ...]) -> GoldenRead:
        """The same read of some columns."""

        def cut(rows: tuple[Row, ...]) -> tuple[Row, ...]:
            return tuple({c: row[c] for c in columns} for row in rows)

        written = None if self.written is None else cut(self.written)
        return GoldenRead(
            self.table,
            self.label,
            self.path,
            self.options,
            columns,
            cut(self.rows),
            written,
            self.schema,
            self.unordered,
        )

    def check(self, got: list[Row]) -> None:
        """Fail unless `got` holds exactly the rows that this read must give."""
        want: list[Row] = list(self.rows)
        if self.written is not None:
            want = _settle(want, list(self.written), got)
        found = difference(want, got, self.unordered)
        assert found is None, f"{self} ({self.options})\n{found}"


def golden_reads() -> list[GoldenRead]:
    """Every read listed in the `expected.json` of every golden table."""
    return [read for producer in PRODUCERS for table in _tables(producer) for read in _reads(table)]


def readable_as_arrow(read: GoldenRead) -> GoldenRead:
    """The read without columns whose values Arrow cannot hold."""
    beyond = BEYOND_NANOSECONDS.get(read.table)
    return read.project(tuple(c for c in read.rows[0] if c not in beyond)) if beyond and read.rows else read


def golden_path(table: str) -> Path:
    """The directory of a golden table. Never write to it: copy it."""
    for producer in PRODUCERS:
        path = FIXTURES / producer / table / "table"
        if path.is_dir():
            return path
    raise LookupError(f"no golden table {table!r}")


def _tables(producer: str) -> list[Path]:
    return sorted(p.parent for p in (FIXTURES / producer).glob("*/expected.json"))


@cache
def _expected(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "expected.json").read_text(encoding="utf-8"))
    return content


def _reads(folder: Path) -> Iterator[GoldenRead]:
    expected = _expected(folder)
    for label, outcome in expected["versions"].items():
        yield _read(folder, label, _options(label), None, outcome)
    for label, outcome in expected.get("extraReads", {}).items():
        request = outcome["request"]
        columns = tuple(request["columns"]) if "columns" in request else None
        yield _read(folder, label, dict(request.get("options", {})), columns, outcome)
    for snapshot, rows in expected.get("changes", {}).items():
        options = {
            "incremental-between": f"{int(snapshot) - 1},{snapshot}",
            "incremental-between-scan-mode": "changelog",
        }
        yield _read(folder, f"changes of {snapshot}", options, None, {"rows": rows})


def _read(
    folder: Path,
    label: str,
    options: dict[str, str],
    columns: tuple[str, ...] | None,
    outcome: dict[str, Any],
) -> GoldenRead:
    expected = _expected(folder)
    written = expected.get("written")
    if written is not None and any("error" in version for version in expected["versions"].values()):
        # The producer's own reader garbles these files: what was written is the one right answer.
        rows, written = written, None
    else:
        rows = outcome["rows"]
    if rows and "_KIND" in rows[0]:
        rows = without_kind(rows)
    schema = outcome.get("schema")
    read = GoldenRead(
        expected["name"],
        label,
        folder / "table",
        options,
        columns,
        tuple(rows),
        None if written is None else tuple(written),
        None if schema is None else tuple((i, n, t) for i, n, t in schema),
        tuple(expected.get("unordered", ())),
    )
    if columns is None:
        return read
    # Some rows of a projection come whole (from what was written), some already cut.
    return read.project(columns)


def _options(label: str) -> dict[str, str]:
    """`branch=b,tag=t` as options. Tag names hold dots and dashes, but no comma."""
    options = {}
    for part in [] if label == "latest" else label.split(","):
        word, value = part.split("=", 1)
        options[{"branch": "branch", "tag": "scan.tag-name", "snapshot": "scan.snapshot-id"}[word]] = value
    return options


def _settle(read_back: list[Row], written: list[Row], got: list[Row]) -> list[Row]:
    """`read_back`, with those values replaced by what was written that `got` has so: both count as right.

    Rows are paired by their first column, which is unique in the tables concerned.
    """
    key = next(iter(written[0]))
    originals = {row[key]: row for row in written}
    found = {row.get(key): row for row in got}
    settled = []
    for row in read_back:
        ours, original = found.get(row[key], row), originals[row[key]]
        settled.append({c: original[c] if ours.get(c) == original[c] else v for c, v in row.items()})
    return settled
