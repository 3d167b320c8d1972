"""Operations on tables, each declared once: name, arguments, help, and what it does.

    Request (arguments) → Operation.run → result of the API → Operation.rows (CALL) or Operation.show (command line)

`CALL sys.<procedure>(…)`, the command line, its help and shell completion, and the reference pages come from here.
Declarations import nothing heavy, so that help is printed at once; what an operation needs is imported when it runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from paimon_spark.operations import (
    branches,
    cleanup,
    compaction,
    history,
    lineage,
    pipelines,
    refused,
    snapshots,
    tables,
    tags,
)
from paimon_spark.operations.operation import Operation

_MODULES: Final = (history, tables, branches, tags, snapshots, cleanup, compaction, lineage, pipelines, refused)
OPERATIONS: Final[tuple[Operation, ...]] = tuple(o for module in _MODULES for o in module.OPERATIONS)
"""In the order in which help lists them."""


def _procedures() -> dict[str, tuple[Operation, ...]]:
    found = {o.procedure: (o,) for o in OPERATIONS if o.procedure}
    # Paimon 2.1's merge_branch appends, which PIP-14's does not; arguments tell which one is called.
    return {**found, "merge_branch": (*found["merge_branch"], *found["append_branch"])}


PROCEDURES: Final[Mapping[str, tuple[Operation, ...]]] = _procedures()
"""Procedures by name: those of Paimon's Spark connector, some of which are refused, and our own.

A procedure with several forms is the first one that has all arguments of the call.
"""

REFUSED_ACTIONS: Final[Mapping[str, str]] = {
    **refused.ACTIONS,
    **{o.procedure.replace("_", "-"): o.instead for o in refused.OPERATIONS},
}
"""What to do instead of actions that cannot be done here, by name."""
