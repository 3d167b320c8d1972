"""Paimon's functions in queries: table functions of the changes between versions, and `sys.max_pt`.

Source: Java Spark connector, `PaimonTableValuedFunctions`, `ReplacePaimonFunctions`, `PaimonFunctions`.
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
    """A table function of changes.

    Attributes:
        option: the read option of the same meaning.
        arguments: after the name of the table.
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
_SEARCH_FUNCTIONS: Final = ("vector_search", "hybrid_search", "full_text_search")
"""Also without the prefix `paimon_`, as in Paimon's connector."""
_REFUSED: Final = frozenset((*_SEARCH_FUNCTIONS, *(f"paimon_{name}" for name in _SEARCH_FUNCTIONS)))


MAX_PT: Final = "max_pt"
_BLOBS: Final = (
    "path_to_descriptor", "descriptor_to_string", "blob_view", "descriptor_to_presigned_url",
    "try_descriptor_to_presigned_url",
)  # fmt: skip
_BUCKETS: Final = ("bucket", "mod_bucket", "hive_bucket")


def incremental_scan_of_call(session: Session, name: str, text: str) -> Scan:
    """The scan of a table function that a query calls.

    Args:
        session: of the query.
        name: of the function, in any case.
        text: of the arguments: literals, expressions without columns, parameters of the query.

    Raises:
        As `incremental_scan`. SqlSyntaxError: the arguments cannot be parsed.
    """
    refuse_search(name)
    return incremental_scan(session, name, evaluate(session, split_arguments(text)))


def incremental_scan(where: Session | Catalog | CallContext, name: str, arguments: Sequence[object]) -> Scan:
    """The scan of a table function.

    Args:
        where: catalog of the table; of a session also its current database, time zone and `SET spark.paimon.…`.
        name: of the function, in any case.
        arguments: the name of a table, then the ends: snapshot ids, tags, or versions as `Table.at` takes them; of
            `paimon_incremental_between_timestamp` epoch milliseconds or text such as `2025-03-12 00:00:00`.

    Raises:
        UnsupportedFeatureError: a function that is not supported.
        InvalidInputError: too many or too few arguments, or one is null.
        NotFoundError: there is no such table. A missing version is reported when the scan is planned.
    """
    refuse_search(name)
    function = INCREMENTAL_FUNCTIONS[name.lower()]
    expected = ("table", *function.arguments)
    if len(arguments) != len(expected) or None in arguments:
        found = ", ".join("NULL" if a is None else repr(a) for a in arguments)
        signature = f"{name.lower()}({', '.join(expected)})"
        raise InvalidInputError(
            f"{signature} takes {len(expected)} arguments, none of them null; found ({found})",
            function=name,
        )
    context = CallContext.of(where)
    table = context.table_name(str(arguments[0]), name.lower())
    given: dict[str, Any] = {**context.options(table)}
    if context.time_zone is not None:
        given.setdefault(TIME_ZONE.key, context.time_zone)
    given[function.option] = ",".join(str(a) for a in arguments[1:])
    return context.catalog.table(table.text).scan(**given)


def refuse_search(name: str) -> None:
    """Raise UnsupportedFeatureError: `name` is a search function of Paimon, which is not supported."""
    if name.lower() in _REFUSED:
        raise UnsupportedFeatureError(
            f"{name.lower()} searches indexes of vectors or texts, which are not supported; "
            "filter with WHERE, or search with Java Paimon",
            feature=name.lower(),
        )


def scalar_of_call(session: Session, name: str, text: str) -> str:
    """The value of a call `sys.<name>(<text>)` in a query.

    Raises:
        UnsupportedFeatureError: a function that is not supported.
        InvalidInputError: there is no such function, or the argument is not one text.
        Others as `max_pt`.
    """
    lowered = name.lower()
    if lowered in _BLOBS:
        raise UnsupportedFeatureError(
            f"sys.{lowered} works on descriptors of blobs, which are not supported; read the file's path with "
            "__paimon_file_path, or use Java Paimon",
            feature=lowered,
        )
    if lowered in _BUCKETS:
        raise UnsupportedFeatureError(
            f"sys.{lowered} is not supported; the metadata column __paimon_bucket has the bucket of each row",
            feature=lowered,
        )
    if lowered != MAX_PT:
        raise InvalidInputError(f"there is no function sys.{name}; Paimon's is sys.{MAX_PT}", function=name)
    found = [parse_literal(a) for a in split_arguments(text)]
    if len(found) != 1 or not isinstance(found[0], str):
        raise InvalidInputError(f"sys.{MAX_PT} takes the name of a table as one text: sys.{MAX_PT}('db.t')")
    return max_pt(session, found[0])


def max_pt(where: Session | Catalog | CallContext, table: str) -> str:
    """The greatest non-null value of the first partition column among partitions with files, as text.

    Args:
        where: catalog or session of the table.
        table: its name.

    Raises:
        InvalidInputError: the table has no partition columns, or no partition with files.
        NotFoundError: there is no such table.
    """
    opened = CallContext.of(where).table(table, f"sys.{MAX_PT}")
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
