"""Functions in queries: tables, versions, changes between versions, and `sys.max_pt`.

Queries of `catalog.sql` replace Paimon's functions before Spark sees them. For plain `spark.sql` they are Python UDTFs
with constant arguments: Spark first asks for the columns (`analyze`, in a Python process beside the driver), then for
the rows (`eval`, in one task).

Source: Java Spark connector, `PaimonTableValuedFunctions`, `ReplacePaimonFunctions`, `PaimonFunctions`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyspark.sql import SparkSession
from pyspark.sql.functions import udtf
from pyspark.sql.types import StructType
from pyspark.sql.udtf import AnalyzeArgument, AnalyzeResult

from paimon_spark.engine.scan.splits import totals_of
from paimon_spark.errors import InvalidInputError, SqlSyntaxError, UnsupportedFeatureError
from paimon_spark.foreign.statements import instead_of_statement
from paimon_spark.format import binary_row
from paimon_spark.jobs.row_diff import plan_row_diff
from paimon_spark.metadata.layout import MAIN
from paimon_spark.metadata.partition_path import value_text
from paimon_spark.options.scan import FULL_SCAN, TIME_ZONE
from paimon_spark.spark.schema import arrow_schema, spark_schema
from paimon_spark.spark.session import session_or_new
from paimon_spark.spark.worker_errors import errors_in_one_line
from paimon_spark.sql.cursor import Cursor
from paimon_spark.sql.literals import evaluate, parse_literal, split_arguments
from paimon_spark.sql.names import CallContext, resolve_name
from paimon_spark.sql.tokens import matching_bracket, tokenize

if TYPE_CHECKING:
    from paimon_spark.api.catalog import Catalog
    from paimon_spark.jobs.row_diff import RowComparison
    from paimon_spark.jobs.scan import Scan
    from paimon_spark.sql.session import Session


class IncrementalFunction(NamedTuple):
    """A table function of changes: the read option of the same meaning, and arguments after the name of the table."""

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
TABLE_DIFF: Final = "paimon_table_diff"
"""The table function of the rows that differ between two versions, as `Table.diff`."""
TABLE_FUNCTIONS: Final = (*INCREMENTAL_FUNCTIONS, TABLE_DIFF)
"""Names of all table functions that queries may call, in lower case."""
_SEARCH_FUNCTIONS: Final = ("vector_search", "hybrid_search", "full_text_search")
"""Also without the prefix `paimon_`, as in Paimon's connector."""
_REFUSED: Final = frozenset((*_SEARCH_FUNCTIONS, *(f"paimon_{name}" for name in _SEARCH_FUNCTIONS)))
MAX_PT: Final = "max_pt"
_CHANGES: Final = "table_changes"
"""Delta Lake's function of changes."""
_BLOBS: Final = (
    "path_to_descriptor", "descriptor_to_string", "blob_view", "descriptor_to_presigned_url",
    "try_descriptor_to_presigned_url",
)  # fmt: skip
_BUCKETS: Final = ("bucket", "mod_bucket", "hive_bucket")
TABLE_FUNCTION: Final = "paimon_table"
OpenRead = Callable[[CallContext, Sequence[object]], "Scan | RowComparison"]


def read_of_call(session: Session, name: str, text: str) -> Scan | RowComparison:
    """Read of a table function that a query calls.

    `text` has the arguments: literals, expressions without columns, parameters of the query. Raises as
    `table_function`; SqlSyntaxError: the arguments cannot be parsed.
    """
    refuse_search(name)
    arguments = evaluate(session, split_arguments(text))
    return table_function(session_of_table(tuple(session.each()), arguments), name, arguments)


def session_of_table(sessions: Sequence[Session], arguments: Sequence[object]) -> Session:
    """The session of the catalog that the first argument of a function begins with, else the first one."""
    table = str(arguments[0]) if arguments else ""
    first = table.partition(".")[0].strip("`").lower()
    return next((s for s in sessions if table.count(".") > 1 and s.catalog_name.lower() == first), sessions[0])


def table_function(
    where: Session | Catalog | CallContext, name: str, arguments: Sequence[object]
) -> Scan | RowComparison:
    """Read of a table function, with current database, time zone and `SET spark.paimon.…` of a session.

    The arguments are the name of a table, then the ends: snapshot ids, tags, or versions as `Table.at` takes them; of
    `paimon_incremental_between_timestamp` epoch milliseconds or text such as `2025-03-12 00:00:00`. The second version
    of `paimon_table_diff` may be left out: it is the head of main.

    Raises:
        UnsupportedFeatureError: a function that is not supported.
        InvalidInputError: too many or too few arguments, or one is null.
        NotFoundError: there is no such table. A missing version is reported when the scan is planned.
    """
    refuse_search(name)
    function = INCREMENTAL_FUNCTIONS.get(name.lower())
    expected = ("table", *(("old", "new") if function is None else function.arguments))
    fewest = len(expected) - (function is None)
    if not fewest <= len(arguments) <= len(expected) or None in arguments:
        found = ", ".join("NULL" if a is None else repr(a) for a in arguments)
        signature = f"{name.lower()}({', '.join(expected)})"
        raise InvalidInputError(
            f"{signature} takes {'2 or ' if function is None else ''}{len(expected)} arguments, none of them null; "
            f"found ({found})",
            function=name,
        )
    context = CallContext.of(where)
    if function is None:
        return plan_row_diff(context.table(str(arguments[0]), name.lower()), *map(str, [*arguments[1:], MAIN][:2]))
    table = context.table_name(str(arguments[0]), name.lower())
    zone = {} if context.time_zone is None else {TIME_ZONE.key: context.time_zone}
    given: dict[str, Any] = {**zone, **context.options(table)}
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


def refuse_foreign(sessions: Callable[[], Sequence[Session]], sql: str) -> None:
    """Refuse `table_changes('t', 1, 2)` of Delta Lake, of a table of a catalog. Raises UnsupportedFeatureError."""
    if _CHANGES not in sql.lower():
        return
    tokens = tokenize(sql)
    for i, word in enumerate(tokens[:-2]):
        end = matching_bracket(tokens, i + 1) if word.keyword == _CHANGES.upper() else None
        if end is None or tokens[i + 1].keyword != "(":
            continue
        table, *versions = split_arguments(sql[tokens[i + 1].end : tokens[end].start]) or [""]
        given = parse_literal(table)
        parts = _parts(given if isinstance(given, str) else table)
        for session in sessions():
            name = resolve_name(session, parts) if parts else None
            if name is None or not session.has_table(name.database, name.table):
                continue
            text = _changes_instead(".".join(parts), [v.strip() for v in versions])
            raise UnsupportedFeatureError(f"{_CHANGES} is not supported for table {name}. {text}", feature=_CHANGES)


def _changes_instead(table: str, ends: Sequence[str]) -> str:
    """The equivalent of `table_changes`, whose ends are versions or, as text, times."""
    start, *after = ends or ["…"]
    if any(isinstance(value := parse_literal(end), str) and not value.strip().isdigit() for end in ends):
        return instead_of_statement(
            f"{_CHANGES} TIMESTAMPS", table=table, before=start, end=(after or ["'2099-12-31'"])[0]
        )
    before = str(int(start) - 1) if start.isdigit() else start
    return instead_of_statement(_CHANGES, table=table, before=before, end=(after or [f"'{MAIN}'"])[0])


def _parts(text: str) -> tuple[str, ...]:
    """The parts of the name of a table; () of another text."""
    try:
        cursor = Cursor(text)
        parts = cursor.name()
        cursor.end()
    except SqlSyntaxError:
        return ()
    return parts


def scalar_of_call(session: Session, name: str, text: str) -> str:
    """The value of a call `sys.<name>(<text>)` in a query. Raises as `max_pt`.

    Raises:
        UnsupportedFeatureError: a function that is not supported.
        InvalidInputError: there is no such function, or the argument is not one text.
    """
    check_scalar(name)
    found = [parse_literal(a) for a in split_arguments(text)]
    if len(found) != 1 or not isinstance(found[0], str):
        raise InvalidInputError(f"sys.{MAX_PT} takes the name of a table as one text: sys.{MAX_PT}('db.t')")
    return max_pt(session, found[0])


def check_scalar(name: str) -> None:
    """Check that a function of the database `sys` is `max_pt`.

    Raises UnsupportedFeatureError: one of Paimon's that is not supported; InvalidInputError: there is no such function.
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


def refuse_columns(sql: str) -> None:
    """Check that calls of `sys.max_pt` in a query name no columns. Raises InvalidInputError."""
    if MAX_PT not in sql.lower():
        return
    tokens = tokenize(sql)
    for i, token in enumerate(tokens[:-1]):
        end = matching_bracket(tokens, i + 1) if token.keyword == MAX_PT.upper() else None
        inner = () if end is None else tokens[i + 2 : end]
        after = (*inner[1:], *tokens[end : None if end is None else end + 1])
        for before, name, following in zip((tokens[i + 1], *inner), inner, after, strict=False):
            if name.is_name and not name.is_number and following.keyword != "(" and before.keyword not in (":", "."):
                raise InvalidInputError(
                    f"sys.{MAX_PT} takes constants, found the column {name.text}; it is sys.{MAX_PT}('db.t')"
                )


def max_pt(where: Session | Catalog | CallContext, table: str) -> str:
    """The greatest non-null value of the first partition column among partitions with files, as text.

    Raises:
        InvalidInputError: the table has no partition columns, or no partition with files.
        NotFoundError: there is no such table.
    """
    opened = CallContext.of(where).table(table, f"sys.{MAX_PT}")
    columns = opened.handle.schema.partition_type.fields
    if not columns:
        raise InvalidInputError(f"sys.{MAX_PT}: {opened.handle.describe()} has no partition columns", table=opened.name)
    # No file is read.
    plan = opened.scan(columns=[columns[0].name], **{FULL_SCAN.key: True}).plan()
    types = [c.type for c in columns]
    values = {binary_row.decode(p, types, raw_timestamps=True)[0] for p in totals_of(plan.splits).partitions}
    values.discard(None)
    if not values:
        raise InvalidInputError(
            f"sys.{MAX_PT}: {opened.handle.describe()} has no partitions that hold data", table=opened.name
        )
    largest = max(values, key=lambda v: (v != v, v))  # NaN is larger than any other
    return value_text(columns[0].type, largest, legacy=False)


@dataclass
class Opened(AnalyzeResult):
    """The result of `analyze`, for `eval`: the read of the versions found."""

    read: Any = None


def register_functions(catalog: Catalog, session: SparkSession | None = None, prefix: str = "") -> list[str]:
    """As `Catalog.register_functions`."""
    spark = session_or_new(session)
    context = CallContext(catalog, time_zone=spark.conf.get("spark.sql.session.timeZone"))
    opens: dict[str, tuple[tuple[str, ...], OpenRead]] = {
        TABLE_FUNCTION: (("table", "version"), _table),
        TABLE_DIFF: (("table", "old", "new"), _read(TABLE_DIFF)),
    }
    for name, incremental in INCREMENTAL_FUNCTIONS.items():
        opens[name] = ("table", *incremental.arguments), _read(name)
    for name, (parameters, open_read) in opens.items():
        function: Any = udtf(_handler(context, prefix + name, parameters, open_read), useArrow=False)
        spark.udtf.register(prefix + name, function)
    return [prefix + name for name in opens]


def _table(context: CallContext, arguments: Sequence[object]) -> Scan:
    if not 1 <= len(arguments) <= 2 or arguments[0] is None:
        raise InvalidInputError(f"{TABLE_FUNCTION}(table, [version]) takes one or two arguments, found {arguments!r}")
    name = context.table_name(str(arguments[0]), TABLE_FUNCTION)
    version = arguments[1] if len(arguments) > 1 else None
    zone = {} if context.time_zone is None else {TIME_ZONE.key: context.time_zone}
    return context.catalog.table(name.text).scan(version=None if version is None else str(version), **zone)


def _read(name: str) -> OpenRead:
    return lambda context, arguments: table_function(context, name, arguments)


def _handler(context: CallContext, name: str, parameters: tuple[str, ...], open_read: OpenRead) -> type:
    """The class that Spark calls. A local class, so that it is pickled by value with the catalog's options."""

    @errors_in_one_line
    class Handler:
        def __init__(self, opened: Opened) -> None:
            self._read: Scan | RowComparison = opened.read

        @staticmethod
        def analyze(*arguments: AnalyzeArgument, **named: AnalyzeArgument) -> Opened:
            """The columns, and the version, resolved once. Beside the driver."""
            given = [*arguments, *(named.pop(p) for p in parameters[len(arguments) :] if p in named)]
            if named or not all(a.isConstantExpression for a in given):
                raise InvalidInputError(
                    f"{name}({', '.join(parameters)}) takes only these arguments, and only constants"
                )
            read = open_read(context, [a.value for a in given])
            return Opened(spark_schema(read.row_type), read=read)

        def eval(self, *_: object, **named: object) -> Iterator[Any]:
            """The rows. One task."""
            yield from rows_of(self._read, spark_schema(self._read.row_type))

    return Handler


def rows_of(read: Scan | RowComparison, schema: StructType) -> Iterator[Any]:
    """The rows of a read as Python UDTFs return them."""
    import pyarrow as pa

    # Private to Spark, but Spark Connect makes its rows by it.
    from pyspark.sql.conversion import ArrowTableToRowsConversion

    from paimon_spark.format.casts.conformance import fit

    target = arrow_schema(schema)
    for batch in fit(read.to_batches(), read.row_type.names, target, read.table_name):
        yield from ArrowTableToRowsConversion.convert(pa.Table.from_batches([batch]), schema, return_as_tuples=True)
