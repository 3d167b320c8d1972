"""CALL as it was read."""

from __future__ import annotations

from dataclasses import dataclass

from paimon_spark.sql.statement import Statement


@dataclass(frozen=True, slots=True)
class Call(Statement):
    """`CALL [paimon.]sys.<name>(<arguments>)`.

    Attributes:
        name: of the procedure, as written.
        positional: texts of the arguments without names, which come first.
        named: name and text of each other.
    """

    name: str
    positional: tuple[str, ...]
    named: tuple[tuple[str, str], ...]
