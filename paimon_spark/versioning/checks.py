"""Results of checks of rows before they are published, as values and as a property.

Tests: tests/unit/pipelines/test_preparation.py, test_second_correction.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

from paimon_spark.display import ShownAsFacts
from paimon_spark.errors import CheckFailedError, InvalidInputError
from paimon_spark.format.metadata_files import snapshot as snapshot_file
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.text import counted, safe
from paimon_spark.versioning.branch_state import Ref

Checks: TypeAlias = Mapping[str, str | Callable[[Any], Any]]
"""Name → SQL that must return no row, or a function from a DataFrame to a DataFrame of offending rows."""
PROPERTY: Final = "paimon-spark.checks"
"""Property of a published snapshot: the checks that passed, as a JSON list of objects with `name` and `rows`."""


@dataclass(frozen=True, slots=True, repr=False)
class CheckResult(ShownAsFacts):
    """How one check ended.

    Attributes:
        rows: number of offending rows.
        sample: the first of them, as text.
        tables: name of each table that was looked at → the version, as it was asked for.
        seconds: how long it took.
    """

    name: str
    rows: int
    sample: tuple[str, ...] = ()
    tables: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def passed(self) -> bool:
        """Whether the check found no row."""
        return self.rows == 0

    def text_lines(self) -> list[str]:
        if self.passed:
            return [f"check {safe(self.name)} passed"]
        return [f"check {safe(self.name)} failed: {counted(self.rows, 'row')}", *(f"  {safe(s)}" for s in self.sample)]


def check_given(checks: object) -> Checks:
    """Check that checks are a mapping of names to SQL or functions. Raises InvalidInputError."""
    if not isinstance(checks, Mapping):
        raise InvalidInputError(f"checks={checks!r}: expected a mapping of a name to SQL or a function")
    for name, check in checks.items():
        if not isinstance(name, str) or not name.strip() or not (isinstance(check, str) or callable(check)):
            raise InvalidInputError(f"check {name!r}: expected a name, and SQL or a function of a DataFrame")
    return checks


def refuse_failed(results: Sequence[CheckResult], what: str) -> None:
    """Raise CheckFailedError for the first check that failed; `what` was not done."""
    for result in results:
        if not result.passed:
            others = sum(not other.passed for other in results) - 1
            more = f"; {counted(others, 'other check')} failed too" if others else ""
            tables = ", ".join(result.tables)
            shown = "; ".join(result.sample)
            found = f"{counted(result.rows, 'row')} ({shown}){more}"
            raise CheckFailedError(
                f"{what}: check {result.name!r} on {tables} found {found}; correct the rows on the branch",
                check=result.name,
                tables=list(result.tables),
                rows=result.rows,
            )


def passed_property(results: Sequence[CheckResult]) -> dict[str, str]:
    """The property of a snapshot that passed these checks; none for no checks."""
    passed = [{"name": result.name, "rows": result.rows} for result in results]
    return {PROPERTY: json.dumps(passed)} if passed else {}


def with_properties(ref: Ref, properties: Mapping[str, str]) -> Ref:
    """The file of a snapshot with more properties; it stays the same commit."""
    if not properties:
        return ref
    snapshot: Snapshot = replace(ref.snapshot, properties={**(ref.snapshot.properties or {}), **properties})
    return Ref(snapshot_file.encode(snapshot).decode(), snapshot)
