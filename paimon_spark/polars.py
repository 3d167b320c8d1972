"""Read a table as a Polars LazyFrame: only the columns and files that a query needs.

Needs polars 1.20 or newer (`pip install polars`). Every other library that takes an Arrow stream reads a `Scan` itself.

Source: Polars, `polars.io.plugins.register_io_source`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any, Final

from paimon_spark.errors import InvalidInputError, PaimonError
from paimon_spark.format.arrays.arrow_types import no_rows
from paimon_spark.jobs.opened_table import OpenedTable
from paimon_spark.jobs.scan import Scan
from paimon_spark.jobs.table_scan import scan_of
from paimon_spark.predicate.ast import Predicate, conjunction
from paimon_spark.predicate.other_engines import TURNED, comparison
from paimon_spark.predicate.parse import parse_predicate
from paimon_spark.types import RowType, quoted

if TYPE_CHECKING:
    import polars as pl

_EPOCH: Final = date(1970, 1, 1)
_SIGNS: Final = {"Eq": "=", "NotEq": "<>", "Lt": "<", "LtEq": "<=", "Gt": ">", "GtEq": ">="}


def scan_paimon(source: OpenedTable | Scan) -> pl.LazyFrame:
    """The rows as a Polars LazyFrame, of the snapshot that is the newest now, or of the version that is named.

    Columns, and conditions that compare a column with a number, a text, a Boolean or a date, reach the files; Polars
    evaluates all conditions itself, too. Rows come in batches, with bounded memory.

    Args:
        source: a table, branch or version, or a read with columns and conditions of its own.

    Raises:
        InvalidInputError: polars is not installed.
        Others as `Scan.plan`; when the frame is collected as `Scan.to_batches`, inside an error of Polars.
    """
    try:
        import polars as pl
        from polars.io.plugins import register_io_source
    except ImportError as e:
        raise InvalidInputError("scan_paimon() needs polars 1.20 or newer: pip install polars") from e
    scan = (source if isinstance(source, Scan) else scan_of(source)).pinned()

    def read(
        columns: list[str] | None, predicate: pl.Expr | None, rows: int | None, batch_rows: int | None
    ) -> Iterator[pl.DataFrame]:
        wanted = list(scan.row_type.names) if columns is None else columns
        needed = wanted if predicate is None else [*dict.fromkeys((*wanted, *predicate.meta.root_names()))]
        asked = scan.project(needed or scan.row_type.names[:1])
        pushed = None if predicate is None else pushed_down(predicate, scan.schema.row_type)
        if pushed is not None and scan.max_rows is None:  # a limit comes before the conditions of Polars
            asked = asked.filtered([pushed])
        if rows is not None and predicate is None:
            asked = asked.limit(rows)
        left = rows
        for batch in asked.to_batches():
            frame = pl.DataFrame(batch) if batch.num_columns else pl.DataFrame()
            if predicate is not None:
                frame = frame.filter(predicate)
            if left is not None:
                frame = frame.head(left)
                left -= frame.height
            yield frame.select(wanted)
            if left == 0:
                return

    schema = pl.DataFrame(no_rows(scan.arrow_schema)).schema
    return register_io_source(read, schema=schema, is_pure=True)


def pushed_down(predicate: pl.Expr, columns: RowType) -> Predicate | None:
    """Part of a condition that can skip files, which every matching row satisfies; None for nothing.

    The serialized form of expressions is not stable between releases: what is not known is not pushed.
    """
    from polars.exceptions import PolarsError

    try:
        texts = _conjuncts(json.loads(predicate.meta.serialize(format="json")), columns)
        return conjunction([parse_predicate(text, columns) for text in texts])
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError, PaimonError, PolarsError):
        return None


def _conjuncts(node: Any, columns: RowType) -> list[str]:
    """The parts of a condition that are known, as SQL; all must hold."""
    binary = _binary(node)
    if binary is not None and binary["op"] in ("And", "LogicalAnd"):
        return [*_conjuncts(binary["left"], columns), *_conjuncts(binary["right"], columns)]
    text = _sql(node, columns)
    return [] if text is None else [text]


def _sql(node: Any, columns: RowType) -> str | None:
    """A condition as SQL; None for one that is not known."""
    binary = _binary(node)
    if binary is None:
        return _null_test(node, columns)
    left, right, op = binary["left"], binary["right"], binary["op"]
    if op in ("And", "LogicalAnd", "Or", "LogicalOr"):
        both = _sql(left, columns), _sql(right, columns)
        word = "AND" if "And" in op else "OR"
        return None if None in both else f"({both[0]} {word} {both[1]})"
    sign = _SIGNS.get(op)
    if sign is None:
        return None
    if "Column" in right:
        left, right, sign = right, left, TURNED[sign]
    name = left.get("Column")
    return comparison(name, sign, _value(right), columns) if isinstance(name, str) else None


def _null_test(node: Any, columns: RowType) -> str | None:
    found = node.get("Function") if isinstance(node, Mapping) else None
    if not found or len(found["input"]) != 1 or not isinstance(found["function"], Mapping):
        return None
    name = found["input"][0].get("Column")
    test = {"IsNull": "IS NULL", "IsNotNull": "IS NOT NULL"}.get(str(found["function"].get("Boolean")))
    return None if test is None or name not in columns.names else f"{quoted(name)} {test}"


def _binary(node: Any) -> Any:
    return node.get("BinaryExpr") if isinstance(node, Mapping) else None


def _value(node: Any) -> object:
    """The Python value of a literal; None for one that is not known."""
    found = node.get("Literal") if isinstance(node, Mapping) else None
    if not isinstance(found, Mapping):
        return None
    ((kind, value),) = (found.get("Dyn") or found.get("Scalar") or {"": None}).items()
    match kind, value:
        case "Date", int():
            return _EPOCH + timedelta(days=value)
        case "Boolean", bool():
            return value
        case "Int" | "Int8" | "Int16" | "Int32" | "Int64", int():
            return value
        case "Float" | "Float32" | "Float64", int() | float():
            return float(value)
        case "String", str():
            return value
    return None
