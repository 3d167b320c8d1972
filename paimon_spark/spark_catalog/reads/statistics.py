"""Estimates of a scan for the optimizer: rows, bytes, and what ANALYZE found in columns.

Source: Spark `connector/read/Statistics.java`; Paimon's `PaimonStatistics` of its Spark connector.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta
from typing import Any, Final

from pyspark.sql.types import StructType

from paimon_spark.engine.scan.one_branch import certain_rows
from paimon_spark.errors import PaimonError
from paimon_spark.jobs.read.scan import Scan
from paimon_spark.jobs.read.table_scan import statistics_of
from paimon_spark.redaction import get_logger
from paimon_spark.spark_catalog.jvm.gateway import Gateway
from paimon_spark.types import AtomicType, DataType, DecimalType, TimestampType

_LOG: Final = get_logger("paimon_spark")
_ROW_BYTES: Final = 8
"""What Spark takes a row to need besides its values."""
_DEFAULT_BYTES: Final = {
    "boolean": 1, "byte": 1, "short": 2, "integer": 4, "long": 8, "float": 4, "double": 8, "date": 4, "timestamp": 8,
    "timestamp_ntz": 8, "string": 20, "binary": 100, "struct": 40, "array": 100, "map": 200,
}  # fmt: skip
_EPOCH: Final = date(1970, 1, 1)


def estimated(gateway: Gateway, scan: Scan, schema: StructType, java_schema: Any) -> Any:
    """Spark's `Statistics` of a scan with these columns; nothing is known of a system table. Raises as `Scan.plan`."""
    make = gateway.java_code("Statistics").statistics
    if scan.is_system:
        return make("", "", java_schema, "")
    plan = scan.plan()
    rows = 0
    for split in plan.splits:
        certain = certain_rows(split, keys=bool(plan.requests[split.branch].schema.primary_keys))
        rows += split.row_count if certain is None else certain
    return make(str(rows * _row_bytes(schema)), str(rows), java_schema, "\0".join(_columns(scan, rows)))


def _row_bytes(schema: StructType) -> int:
    """Bytes of a row as Spark estimates them: by the default sizes of the types."""
    return _ROW_BYTES + sum(_DEFAULT_BYTES.get(f.dataType.typeName(), 20) for f in schema.fields)


def _columns(scan: Scan, rows: int) -> Iterator[str]:
    """Name and statistics of each column that ANALYZE looked at, as `java/Statistics.java` takes them.

    A statistics file that cannot be read is ignored: it only estimates. Timestamps are left out: Spark's estimation
    fails on comparisons of TIMESTAMP_NTZ columns, and Java stores the others in a time zone that is unknown here.
    """
    try:
        found = statistics_of(scan)
    except PaimonError as e:
        _LOG.warning("statistics of %s are ignored: %s", scan.table_name, e)
        return
    if found is None or found.columns is None:
        return
    by_id = {c.column_id: c for c in found.columns.values()}
    for field in scan.row_type:
        known = by_id.get(field.id)
        if known is None or isinstance(field.type, TimestampType):
            continue
        bounds = [_bound(text, field.type) for text in (known.minimum, known.maximum)]
        if None in bounds and known.distinct_count != 0 and isinstance(field.type, AtomicType | DecimalType):
            continue  # Spark would estimate that no row meets a condition
        # Rows of the scan may be fewer than those that ANALYZE counted.
        counts = (None if n is None else min(n, rows) for n in (known.distinct_count, known.null_count))
        found_texts = (*counts, known.average_length, known.longest, *bounds)
        yield from (field.name, *("" if v is None else str(v) for v in found_texts))


def _bound(text: str | None, t: DataType) -> str | None:
    """A bound as Spark's `CatalogColumnStat` reads it; None where `text` is not of the type."""
    if text is None or not (isinstance(t, AtomicType) and t.name == "DATE"):
        return text
    try:
        return str(_EPOCH + timedelta(days=int(text)))  # Java counts days
    except (ValueError, OverflowError):
        return None
