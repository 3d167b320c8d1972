"""Table functions for plain `spark.sql`, as Python UDTFs: tables, versions, and changes between versions.

Arguments are constants. Spark first asks for the columns (`analyze`, in a Python process beside the driver), then for
the rows (`eval`, in one task).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import SparkSession
from pyspark.sql.functions import udtf
from pyspark.sql.types import StructType
from pyspark.sql.udtf import AnalyzeArgument, AnalyzeResult

from paimon_spark.errors import InvalidInputError
from paimon_spark.options.scan import TIME_ZONE
from paimon_spark.spark.schema import arrow_schema, spark_schema
from paimon_spark.sql.call_context import CallContext
from paimon_spark.sql.functions import INCREMENTAL_FUNCTIONS, incremental_scan

if TYPE_CHECKING:
    from paimon_spark.api.catalog import Catalog
    from paimon_spark.jobs.scan import Scan

TABLE_FUNCTION: Final = "paimon_table"
OpenScan = Callable[[CallContext, Sequence[object]], "Scan"]


@dataclass
class Opened(AnalyzeResult):
    """The result of `analyze`, for `eval`: the scan at the version found."""

    scan: Any = None


def register_functions(catalog: Catalog, session: SparkSession | None = None, prefix: str = "") -> list[str]:
    """As `Catalog.register_functions`."""
    spark = session or SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()
    context = CallContext(catalog, time_zone=spark.conf.get("spark.sql.session.timeZone"))
    opens: dict[str, tuple[tuple[str, ...], OpenScan]] = {TABLE_FUNCTION: (("table", "version"), _table)}
    for name, incremental in INCREMENTAL_FUNCTIONS.items():
        opens[name] = ("table", *incremental.arguments), _changes(name)
    for name, (parameters, open_scan) in opens.items():
        function: Any = udtf(_handler(context, prefix + name, parameters, open_scan), useArrow=False)
        spark.udtf.register(prefix + name, function)
    return [prefix + name for name in opens]


def _table(context: CallContext, arguments: Sequence[object]) -> Scan:
    if not 1 <= len(arguments) <= 2 or arguments[0] is None:
        raise InvalidInputError(f"{TABLE_FUNCTION}(table, [version]) takes one or two arguments, found {arguments!r}")
    name = context.table_name(str(arguments[0]), TABLE_FUNCTION)
    version = arguments[1] if len(arguments) > 1 else None
    zone = {} if context.time_zone is None else {TIME_ZONE.key: context.time_zone}
    return context.catalog.table(name.text).scan(version=None if version is None else str(version), **zone)


def _changes(name: str) -> OpenScan:
    return lambda context, arguments: incremental_scan(context, name, arguments)


def _handler(context: CallContext, name: str, parameters: tuple[str, ...], open_scan: OpenScan) -> type:
    """The class that Spark calls. A local class, so that it is pickled by value with the catalog's options."""

    class Handler:
        def __init__(self, opened: Opened) -> None:
            self._scan: Scan = opened.scan

        @staticmethod
        def analyze(*arguments: AnalyzeArgument, **named: AnalyzeArgument) -> Opened:
            """The columns, and the version, resolved once. Beside the driver."""
            given = [*arguments, *(named.pop(p) for p in parameters[len(arguments) :] if p in named)]
            if named or not all(a.isConstantExpression for a in given):
                raise InvalidInputError(
                    f"{name}({', '.join(parameters)}) takes only these arguments, and only constants"
                )
            scan = open_scan(context, [a.value for a in given])
            return Opened(spark_schema(scan.row_type), scan=scan)

        def eval(self, *_: object, **named: object) -> Iterator[Any]:
            """The rows. One task."""
            return rows_of(self._scan, spark_schema(self._scan.row_type))

    return Handler


def rows_of(scan: Scan, schema: StructType) -> Iterator[Any]:
    """The rows of a scan as Python UDTFs return them."""
    import pyarrow as pa

    # Private to Spark, but Spark Connect makes its rows by it.
    from pyspark.sql.conversion import ArrowTableToRowsConversion

    from paimon_spark.format.casts.conformance import fit

    target = arrow_schema(schema)
    for batch in fit(scan.to_batches(), scan.row_type.names, target, scan.table_name):
        yield from ArrowTableToRowsConversion.convert(pa.Table.from_batches([batch]), schema, return_as_tuples=True)
