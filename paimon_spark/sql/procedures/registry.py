"""All procedures by name, and the call of one. Works without Spark, but for those that need it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from paimon_spark.errors import ProcedureNotFoundError
from paimon_spark.options.descriptor import did_you_mean
from paimon_spark.sql.call_context import CallContext
from paimon_spark.sql.procedures import branches, compacting, expiring, lineage, refused, rolling_back, tags
from paimon_spark.sql.procedures.binding import bind
from paimon_spark.sql.procedures.procedure import Procedure

if TYPE_CHECKING:
    from paimon_spark.api.catalog import Catalog
    from paimon_spark.sql.session import Session

_MODULES: Final = (branches, tags, rolling_back, compacting, expiring, lineage, refused)

PROCEDURES: Final[Mapping[str, Procedure]] = {p.name: p for module in _MODULES for p in module.PROCEDURES}
"""Every procedure by name: those of Paimon's Spark connector, of which some are refused, and our own."""


@dataclass(frozen=True, slots=True)
class Called:
    """What a procedure returned.

    Attributes:
        procedure: the form that was called.
        result: columns, as DDL text.
        rows: in the order of the columns.
    """

    procedure: Procedure
    result: str
    rows: tuple[tuple[Any, ...], ...]


def find_procedure(name: str) -> Procedure:
    """The procedure called `name`, in any case.

    Raises:
        ProcedureNotFoundError: there is none; the nearest names are offered.
    """
    found = PROCEDURES.get(name.lower())
    if found is None:
        supported = sorted(p.name for p in PROCEDURES.values() if p.is_supported)
        raise ProcedureNotFoundError(
            f"there is no procedure sys.{name}{did_you_mean(name.lower(), PROCEDURES)}; there are "
            f"{', '.join(supported)}",
            procedure=name,
        )
    return found


def call(
    where: Session | Catalog | CallContext,
    name: str,
    positional: Sequence[object] = (),
    named: Mapping[str, object] | Sequence[tuple[str, object]] = (),
) -> Called:
    """Call a procedure.

    Args:
        where: whose tables are meant. Of a session also its current database and time zone.
        name: of the procedure, in any case.
        positional: arguments in the order of its parameters.
        named: the others by name; names may be in any case, with and without underscores.

    Raises:
        ProcedureNotFoundError: there is no such procedure.
        InvalidInputError: the arguments are wrong; shows the signature.
        UnsupportedFeatureError: it cannot be done here; says what to do instead.
        Others as the verb of Table or Catalog that does it.
    """
    pairs = list(named.items()) if isinstance(named, Mapping) else list(named)
    procedure, arguments = bind(find_procedure(name), positional, pairs)
    rows = procedure.run(CallContext.of(where), arguments)
    return Called(procedure, procedure.result, tuple(tuple(row) for row in rows))
