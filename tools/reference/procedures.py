"""The declared operations → docs/reference/procedures.md."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from paimon_spark.operations import PROCEDURES
from paimon_spark.operations.operation import TABLE, Argument, Operation, Type
from tools.reference.text import code, escaped, page, table


def procedures_page() -> str:
    """The page."""
    done = [(name, forms) for name, forms in sorted(PROCEDURES.items()) if not forms[0].instead]
    refused = [(name, forms) for name, forms in sorted(PROCEDURES.items()) if forms[0].instead]
    return page(
        "Procedures",
        _INTRODUCTION,
        *(_procedure(name, forms) for name, forms in done),
        "## Refused\n\nProcedures of Paimon that are not supported. The error names an alternative.",
        table(("procedure", "alternative"), ((code(f"sys.{name}"), forms[0].instead) for name, forms in refused)),
    )


_INTRODUCTION: Final = """
`CALL sys.<procedure>(…)` in `catalog.sql`, with the names, arguments and results of Paimon's Spark connector. Arguments
are given by position or by name (`table => 'shop.orders'`); names are not case-sensitive. Name a table as
`database.table`, or `table` in the session's current database; append `$branch_<name>` for a branch. Procedures and
arguments marked as *own* do not exist in Paimon.
"""


def _procedure(name: str, forms: Iterable[Operation]) -> str:
    parts = [f"## {name}"]
    for number, form in enumerate(forms):
        own = " *Own.*" if form.is_own and not number else ""
        said = f"With other arguments: {form.sentence}" if number else f"{form.sentence}{own}"
        parts += [
            f"{said} {form.details}".strip(),
            _parameters(form.for_paimon().parameters),
            f"Returns {code(form.result)}.",
        ]
    return "\n\n".join(part for part in parts if part)


def _parameters(parameters: Iterable[Argument]) -> str:
    rows = [(code(p.name), code(p.type.value), _default(p), _help(p)) for p in parameters]
    return table(("argument", "type", "default", "description"), rows) if rows else ""


def _help(parameter: Argument) -> str:
    if parameter is TABLE:
        return "name of the table, `db.t` or `db.t$branch_<name>`"
    return f"{escaped(parameter.help)}{'. *Own.*' if parameter.is_own else ''}"


def _default(parameter: Argument) -> str:
    if parameter.required:
        return "required"
    if parameter.type is Type.BOOLEAN:
        return str(bool(parameter.default)).lower()
    return parameter.otherwise or ("" if parameter.default is None else str(parameter.default))
