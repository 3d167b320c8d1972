"""Table functions that read what changed between two versions, and the others of Paimon's that catalog.sql knows.

In: name and arguments of a call. Out: a Scan, which the query reads as it reads a table.
Source: Java Spark connector, `PaimonTableValuedFunctions`.

`sys.max_pt('t')`: the greatest value of a table's first partition column, and the scalar functions that are refused.

Source: Java Spark connector, `ReplacePaimonFunctions` and `PaimonFunctions`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from paimon_spark.errors import InvalidInputError, UnsupportedFeatureError
from paimon_spark.format import binary_row
from paimon_spark.metadata.partition_path import value_text
from paimon_spark.options.scan import TIME_ZONE
from paimon_spark.sql.call_context import CallContext
from paimon_spark.sql.literals import evaluate, parse_literal, split_arguments

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
    return scan_of(session, name, evaluate(session, split_arguments(text)))


def scan_of(where: Session | Catalog | CallContext, name: str, arguments: Sequence[object], **options: str) -> Scan:
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
    place = CallContext.of(where)
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


MAX_PT: Final = "max_pt"
_BLOBS: Final = (
    "path_to_descriptor", "descriptor_to_string", "blob_view", "descriptor_to_presigned_url",
    "try_descriptor_to_presigned_url",
)  # fmt: skip
_BUCKETS: Final = ("bucket", "mod_bucket", "hive_bucket")


def scalar_of_call(session: Session, name: str, text: str) -> str:
    """The value of a call `sys.<name>(<text>)` in a query, which takes its place as a text literal.

    Raises:
        UnsupportedFeatureError: a function of Paimon's that is not available here.
        InvalidInputError: there is no such function, or not one text is given.
        Others as `max_pt`.
    """
    lowered = name.lower()
    if lowered in _BLOBS:
        raise UnsupportedFeatureError(
            f"sys.{lowered} works on descriptors of blobs, which are not available here; read the file's path with "
            "__paimon_file_path, or use Java Paimon",
            feature=lowered,
        )
    if lowered in _BUCKETS:
        raise UnsupportedFeatureError(
            f"sys.{lowered} is not available here; the metadata column __paimon_bucket says in which bucket a row is",
            feature=lowered,
        )
    if lowered != MAX_PT:
        raise InvalidInputError(f"there is no function sys.{name}; Paimon's is sys.{MAX_PT}", function=name)
    found = [parse_literal(a) for a in split_arguments(text)]
    if len(found) != 1 or not isinstance(found[0], str):
        raise InvalidInputError(f"sys.{MAX_PT} takes the name of a table as one text: sys.{MAX_PT}('db.t')")
    return max_pt(session, found[0])


def max_pt(where: Session | Catalog | CallContext, table: str) -> str:
    """The greatest value, as text, of the first partition column among partitions that have files; null is none.

    Args:
        where: whose tables are meant.
        table: its name, as text.

    Raises:
        InvalidInputError: the table has no partition columns, or no partition with files.
        NotFoundError: there is no such table.
    """
    place = CallContext.of(where)
    opened = place.table(table, f"sys.{MAX_PT}")
    columns = opened.handle.schema.partition_type.fields
    if not columns:
        raise InvalidInputError(f"sys.{MAX_PT}: {opened.handle.describe()} has no partition columns", table=opened.name)
    plan = opened.scan(columns=[columns[0].name]).plan()
    types = [c.type for c in columns]
    values = {binary_row.decode(p, types, raw_timestamps=True)[0] for p in {s.partition for s in plan.splits}}
    values.discard(None)
    if not values:
        raise InvalidInputError(
            f"sys.{MAX_PT}: {opened.handle.describe()} has no partitions that hold data", table=opened.name
        )
    largest = max(values, key=lambda v: (v != v, v))  # NaN is larger than any other
    return value_text(columns[0].type, largest, legacy=False)
