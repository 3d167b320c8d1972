"""The registry of procedures → docs/reference/procedures.md."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from paimon_spark.sql.procedures.procedure import Parameter, Procedure
from paimon_spark.sql.procedures.registry import PROCEDURES
from tools.reference.text import code, page, table


def procedures_page() -> str:
    """The page."""
    done = [p for _, p in sorted(PROCEDURES.items()) if p.is_supported]
    refused = [p for _, p in sorted(PROCEDURES.items()) if not p.is_supported]
    return page(
        "Procedures",
        _INTRODUCTION,
        *(_procedure(p) for p in done),
        "## Refused\n\nProcedures of Paimon that cannot be done here. The error says what to do instead.",
        table(("procedure", "instead"), ((code(f"sys.{p.name}"), p.instead) for p in refused)),
    )


_INTRODUCTION: Final = """
`CALL sys.<procedure>(…)` in `catalog.sql`, with the names, arguments and results of Paimon's Spark connector. Arguments
are given by position or by name (`table => 'shop.orders'`), in any case. A table is `database.table`, and `table` alone
What is marked as *own* is not in Paimon.
"""


def _procedure(procedure: Procedure) -> str:
    own = " *Own.*" if procedure.is_own else ""
    spark = " Needs Spark." if procedure.needs_spark else ""
    parts = [f"## {procedure.name}", f"{procedure.doc}{own}{spark}"]
    for form in procedure.forms:
        if form is not procedure:
            parts.append(f"Or, with other arguments: {form.doc}")
        parts += [_parameters(form.parameters), f"Returns {code(form.result)}."]
    return "\n\n".join(part for part in parts if part)


def _parameters(parameters: Iterable[Parameter]) -> str:
    rows = [
        (code(p.name), code(p.type), "required" if p.required else p.default, p.doc + (" *Own.*" if p.is_own else ""))
        for p in parameters
    ]
    return table(("argument", "type", "default", "what it says"), rows) if rows else ""
