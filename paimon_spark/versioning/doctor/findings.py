"""Finding: a problem that the doctor reports; Case: a finding with the steps that repair it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from paimon_spark.display import ShownAsFacts
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.journal.change import Root, RootKind, Step


class Severity(str, Enum):
    """How bad a finding is: ERROR, something cannot be read; WARNING, it may come to that; NOTE, it is untidy."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Finding(ShownAsFacts):
    """One thing that is wrong.

    Attributes:
        kind: stable code: `unfinished-operation`, `main-missing`, `unprotected-base`, `stale-guard`, `missing-files`,
            `spliced-history`, `missing-schema`, `other-schema`, `stale-hint`, `foreign-lineage-tag`,
            `ambiguous-name`, `left-over`, `unreadable`.
        branch: where; `main` also for what concerns the whole table.
        message: what was found.
        remedy: what to do.
        repaired: whether it has been mended by this call.
    """

    kind: str
    severity: Severity
    branch: str
    message: str
    remedy: str
    repaired: bool = False


@dataclass(frozen=True, slots=True)
class Case:
    """A finding, and what mends it."""

    finding: Finding
    steps: tuple[Step, ...] = ()
    released: tuple[Root, ...] = ()


@dataclass(frozen=True, slots=True)
class Inspected:
    """What is looked at, read once.

    Attributes:
        main: main as it is; with a `MAIN-BRANCH` that leads nowhere, the table's own directory.
        branches: a handle on each branch with a schema, main's first.
        roots: by the directory of their branch.
    """

    main: TableHandle
    branches: tuple[TableHandle, ...]
    roots: dict[str, list[Root]]

    def of(self, branch: TableHandle, kind: RootKind) -> list[Root]:
        roots = self.roots.get(branch.layout.directory_branch, [])
        return sorted((r for r in roots if r.kind is kind), key=lambda r: (r.snapshot.id, r.name))


def some(names: Sequence[str], count: int = 5) -> str:
    """The first names, and how many more there are."""
    return ", ".join(names[:count]) + (f" and {len(names) - count} more" if len(names) > count else "")
