"""Names of tags and branches that we would not have given."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from paimon_spark.errors import InvalidInputError
from paimon_spark.maintenance.roots import RootKind
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.layout import MAIN
from paimon_spark.metadata.tags import guarded_branch, savepoint_tag
from paimon_spark.versioning.doctor.findings import Case, Finding, Looked, Severity
from paimon_spark.versioning.names import check_branch_name, check_tag_name

_SAVEPOINT: Final = "savepoint-"


def ambiguous_names(table: Looked, branch: TableHandle) -> list[Case]:
    """Names that we would not have given."""
    cases = []
    others = [b.branch for b in table.branches if b.branch != MAIN]
    if branch.branch != MAIN:
        own = [r.name for b in table.branches for r in table.of(b, RootKind.TAG)]
        cases += _refused(branch, partial(check_branch_name, branch.branch, table=branch.name, tag_names=own))
    for root in table.of(branch, RootKind.TAG):
        if guarded_branch(root.name) is not None or root.name == savepoint_tag(root.snapshot.id):
            continue
        if root.name.startswith(_SAVEPOINT) and root.name.removeprefix(_SAVEPOINT).isdecimal():
            finding = Finding(
                "ambiguous-name",
                Severity.NOTE,
                branch.branch,
                f"tag {root.name!r} looks like a savepoint, but is snapshot {root.snapshot.id}",
                "rename the tag",
            )
            cases.append(Case(finding))
            continue
        check = partial(check_tag_name, root.name, table=branch.describe(), branch_names=others)
        cases += _refused(branch, check)
    return cases


def _refused(branch: TableHandle, check: Callable[[], None]) -> list[Case]:
    try:
        check()
    except InvalidInputError as e:
        remedy = "rename it; until then versions are resolved in the order of docs/versions.md"
        return [Case(Finding("ambiguous-name", Severity.NOTE, branch.branch, e.message, remedy))]
    return []
