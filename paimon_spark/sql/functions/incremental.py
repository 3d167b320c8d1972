"""Table functions that read what changed between two versions, and the others of Paimon's that catalog.sql knows.

In: name and arguments of a call. Out: a Scan, which the query reads as it reads a table.
Source: Java Spark connector, `PaimonTableValuedFunctions`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from paimon_spark.errors import InvalidInputError, UnsupportedFeatureError
from paimon_spark.options.scan import TIME_ZONE
from paimon_spark.sql.place import Place
from paimon_spark.sql.values import arguments_of, values_of

if TYPE_CHECKING:
    from paimon_spark.api.catalog import Catalog
    from paimon_spark.jobs.scan import Scan
    from paimon_spark.sql.session import Session


class IncrementalFunction(NamedTuple):
    """A table function.

    Attributes:
        option: the read option that it stands for.
        arguments: what follows the name of the table.
    """

    option: str
    arguments: tuple[str, ...]


INCREMENTAL_FUNCTIONS: Final[Mapping[str, IncrementalFunction]] = {
    "paimon_incremental_query": IncrementalFunction("incremental-between", ("start", "end")),
    "paimon_incremental_between_timestamp": IncrementalFunction(
        "incremental-between-timestamp", ("start_timestamp", "end_timestamp")
    ),
    "paimon_incremental_to_auto_tag": IncrementalFunction("incremental-to-auto-tag", ("tag",)),
}
"""By name, in lower case."""
_SEARCHES: Final = ("vector_search", "hybrid_search", "full_text_search")
"""Names that others use too, which Paimon's connector takes all the same."""
REFUSED_FUNCTIONS: Final = frozenset((*_SEARCHES, *(f"paimon_{name}" for name in _SEARCHES)))


def is_table_function(name: str) -> bool:
    """Whether `name`, in any case, is a table function of Paimon's: one to run, or to refuse."""
    return name.lower() in INCREMENTAL_FUNCTIONS or name.lower() in REFUSED_FUNCTIONS


def scan_of_call(session: Session, name: str, text: str) -> Scan:
    """The read that a call in a query asks for.

    Args:
        session: what the query runs in.
        name: of the function, in any case.
        text: what stands between the brackets. Expressions without columns, and the query's parameters, are taken too.

    Raises:
        As `scan_of`. SqlSyntaxError: the arguments cannot be read.
    """
    refuse(name)
    return scan_of(session, name, values_of(session, arguments_of(text)))


def scan_of(where: Session | Catalog | Place, name: str, arguments: Sequence[object], **options: str) -> Scan:
    """The read that a call asks for.

    Args:
        where: whose tables are meant. Of a session also its current database, time zone and `SET spark.paimon.…`.
        name: of the function, in any case.
        arguments: the name of a table, then the ends: snapshot ids, tags, or versions as `Table.at` takes them; of
            `paimon_incremental_between_timestamp` epoch milliseconds or text such as `2025-03-12 00:00:00`.
        options: more read options.

    Raises:
        UnsupportedFeatureError: a function of Paimon's that is not available here.
        InvalidInputError: too many or too few arguments, or one is null.
        NotFoundError: there is no such table. That an end does not exist is found when the rows are asked for.
    """
    refuse(name)
    function = INCREMENTAL_FUNCTIONS[name.lower()]
    expected = ("table", *function.arguments)
    if len(arguments) != len(expected) or None in arguments:
        found = ", ".join("NULL" if a is None else repr(a) for a in arguments)
        signature = f"{name.lower()}({', '.join(expected)})"
        raise InvalidInputError(
            f"{signature} takes {len(expected)} arguments, none of them null; found ({found})",
            function=name,
        )
    place = Place.of(where)
    target = place.name(str(arguments[0]), name.lower())
    asked: dict[str, Any] = {**place.options(target), **options}
    if place.time_zone is not None:
        asked.setdefault(TIME_ZONE.key, place.time_zone)
    asked[function.option] = ",".join(str(a) for a in arguments[1:])
    return place.catalog.table(target.text).scan(**asked)


def refuse(name: str) -> None:
    """Raise UnsupportedFeatureError: `name` is a function of Paimon's that is not available here."""
    if name.lower() in REFUSED_FUNCTIONS:
        raise UnsupportedFeatureError(
            f"{name.lower()} searches indexes of vectors or texts, which are neither read nor written here; "
            "filter with WHERE, or search with Java Paimon",
            feature=name.lower(),
        )
