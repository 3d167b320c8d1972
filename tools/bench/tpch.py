"""Tables and queries like those of TPC-H, made here: the same shapes and sizes, other values."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa

_DAYS: Final = np.datetime64("1992-01-01")
_ORDERS: Final = 1_500_000
_LINES: Final = 6_000_000
_CUSTOMERS: Final = 150_000
_PARTS: Final = 200_000
_SUPPLIERS: Final = 10_000
_BATCHES: Final = 4
"""Files of the large tables."""

COLUMNS: Final = {
    "nation": "n_nationkey INT, n_name STRING, n_regionkey INT",
    "supplier": "s_suppkey INT, s_name STRING, s_nationkey INT, s_acctbal DECIMAL(12, 2)",
    "part": "p_partkey INT, p_type STRING, p_brand STRING, p_size INT",
    "customer": "c_custkey INT, c_name STRING, c_nationkey INT, c_mktsegment STRING, c_acctbal DECIMAL(12, 2)",
    "orders": "o_orderkey BIGINT, o_custkey INT, o_orderdate DATE, o_orderpriority STRING, o_totalprice DECIMAL(12, 2)",
    "lineitem": "l_orderkey BIGINT, l_partkey INT, l_suppkey INT, l_quantity INT, l_extendedprice DECIMAL(12, 2), "
    "l_discount DECIMAL(4, 2), l_tax DECIMAL(4, 2), l_returnflag STRING, l_linestatus STRING, l_shipdate DATE, "
    "l_commitdate DATE, l_receiptdate DATE, l_shipmode STRING",
}
"""Columns by table."""

QUERIES: Final = {
    "pricing summary (Q1)": """
SELECT l_returnflag, l_linestatus, sum(l_quantity), sum(l_extendedprice), sum(l_extendedprice * (1 - l_discount)),
  avg(l_quantity), avg(l_discount), count(*)
FROM {lineitem} WHERE l_shipdate <= DATE '1998-09-02' GROUP BY ALL ORDER BY ALL""",
    "shipping priority (Q3)": """
SELECT l_orderkey, sum(l_extendedprice * (1 - l_discount)) AS revenue, o_orderdate
FROM {customer} JOIN {orders} ON c_custkey = o_custkey JOIN {lineitem} ON l_orderkey = o_orderkey
WHERE c_mktsegment = 'BUILDING' AND o_orderdate < DATE '1995-03-15' AND l_shipdate > DATE '1995-03-15'
GROUP BY l_orderkey, o_orderdate ORDER BY revenue DESC, o_orderdate, l_orderkey LIMIT 10""",
    "local supplier volume (Q5)": """
SELECT n_name, sum(l_extendedprice * (1 - l_discount)) AS revenue
FROM {customer} JOIN {orders} ON c_custkey = o_custkey JOIN {lineitem} ON l_orderkey = o_orderkey
JOIN {supplier} ON l_suppkey = s_suppkey AND c_nationkey = s_nationkey JOIN {nation} ON s_nationkey = n_nationkey
WHERE n_regionkey = 2 AND o_orderdate >= DATE '1994-01-01' AND o_orderdate < DATE '1995-01-01'
GROUP BY n_name ORDER BY revenue DESC, n_name""",
    "forecast revenue change (Q6)": """
SELECT sum(l_extendedprice * l_discount) FROM {lineitem}
WHERE l_shipdate >= DATE '1994-01-01' AND l_shipdate < DATE '1995-01-01' AND l_discount BETWEEN 0.05 AND 0.07
AND l_quantity < 24""",
    "shipping modes (Q12)": """
SELECT l_shipmode, sum(CASE WHEN o_orderpriority IN ('1-URGENT', '2-HIGH') THEN 1 ELSE 0 END), count(*)
FROM {orders} JOIN {lineitem} ON o_orderkey = l_orderkey
WHERE l_shipmode IN ('MAIL', 'SHIP') AND l_commitdate < l_receiptdate AND l_shipdate < l_commitdate
AND l_receiptdate >= DATE '1994-01-01' AND l_receiptdate < DATE '1995-01-01' GROUP BY l_shipmode ORDER BY l_shipmode""",
    "promotion effect (Q14)": """
SELECT sum(CASE WHEN p_type LIKE 'PROMO%' THEN l_extendedprice * (1 - l_discount) ELSE 0 END)
FROM {lineitem} JOIN {part} ON l_partkey = p_partkey
WHERE l_shipdate >= DATE '1995-09-01' AND l_shipdate < DATE '1995-10-01'""",
}
"""Queries by name; `{table}` stands for a table."""


def batches(table: str, scale: float) -> Iterator[pa.RecordBatch]:
    """The rows of a table, a batch for each file."""
    rng = np.random.default_rng(len(table))
    counts = {"nation": 25, "supplier": _SUPPLIERS, "part": _PARTS, "customer": _CUSTOMERS}
    if table in counts:
        yield _small(table, rng, counts[table] if table == "nation" else int(counts[table] * scale) or 1, scale)
        return
    total = int((_ORDERS if table == "orders" else _LINES) * scale)
    bounds = np.linspace(0, total, _BATCHES + 1).astype(np.int64)
    for start, end in pairwise(bounds):
        rows = np.arange(start, end)
        yield _orders(rng, rows, scale) if table == "orders" else _lines(rng, rows, scale)


def _small(table: str, rng: np.random.Generator, count: int, scale: float) -> pa.RecordBatch:
    keys = np.arange(count, dtype=np.int32)
    match table:
        case "nation":
            return _batch(n_nationkey=keys, n_name=_texts("NATION", keys), n_regionkey=keys % np.int32(5))
        case "supplier":
            return _batch(
                s_suppkey=keys, s_name=_texts("Supplier", keys), s_nationkey=keys % np.int32(25),
                s_acctbal=_money(rng, count, 12),
            )  # fmt: skip
        case "part":
            types = _pick(rng, count, "PROMO BRASS", "PROMO TIN", "STANDARD STEEL", "ECONOMY COPPER", "SMALL NICKEL")
            sizes = rng.integers(1, 51, count).astype(np.int32)
            return _batch(p_partkey=keys, p_type=types, p_brand=_texts("Brand", keys % 25), p_size=sizes)
    segments = _pick(rng, count, "AUTOMOBILE", "BUILDING", "FURNITURE", "HOUSEHOLD", "MACHINERY")
    return _batch(
        c_custkey=keys, c_name=_texts("Customer", keys), c_nationkey=keys % np.int32(25), c_mktsegment=segments,
        c_acctbal=_money(rng, count, 12),
    )  # fmt: skip


def _orders(rng: np.random.Generator, rows: np.ndarray, scale: float) -> pa.RecordBatch:
    count = len(rows)
    customers = rng.integers(0, int(_CUSTOMERS * scale) or 1, count).astype(np.int32)
    priorities = _pick(rng, count, "1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW")
    return _batch(
        o_orderkey=rows, o_custkey=customers, o_orderdate=_dates(rng.integers(0, 2405, count)),
        o_orderpriority=priorities, o_totalprice=_money(rng, count, 12),
    )  # fmt: skip


def _lines(rng: np.random.Generator, rows: np.ndarray, scale: float) -> pa.RecordBatch:
    count = len(rows)
    shipped = rng.integers(1, 2526, count)
    committed = shipped + rng.integers(-60, 61, count)
    received = shipped + rng.integers(1, 31, count)
    return _batch(
        l_orderkey=rows // 4,
        l_partkey=rng.integers(0, int(_PARTS * scale) or 1, count).astype(np.int32),
        l_suppkey=rng.integers(0, int(_SUPPLIERS * scale) or 1, count).astype(np.int32),
        l_quantity=rng.integers(1, 51, count).astype(np.int32),
        l_extendedprice=_money(rng, count, 12),
        l_discount=_money(rng, count, 4, 0, 11),
        l_tax=_money(rng, count, 4, 0, 9),
        l_returnflag=_pick(rng, count, "A", "N", "R"),
        l_linestatus=_pick(rng, count, "F", "O"),
        l_shipdate=_dates(shipped),
        l_commitdate=_dates(committed),
        l_receiptdate=_dates(received),
        l_shipmode=_pick(rng, count, "AIR", "FOB", "MAIL", "RAIL", "REG AIR", "SHIP", "TRUCK"),
    )


def _batch(**columns: object) -> pa.RecordBatch:
    return pa.record_batch([c if isinstance(c, pa.Array) else pa.array(c) for c in columns.values()], names=[*columns])


def _texts(prefix: str, numbers: np.ndarray) -> pa.Array:
    return pa.array([f"{prefix}#{n:09d}" for n in numbers.tolist()])


def _pick(rng: np.random.Generator, count: int, *values: str) -> pa.Array:
    return pa.array(values).take(pa.array(rng.integers(0, len(values), count)))


def _money(rng: np.random.Generator, count: int, digits: int, low: int = 90_000, high: int = 10_500_000) -> pa.Array:
    """Hundredths between two bounds, as decimals."""
    words = np.zeros((count, 2), np.int64)
    words[:, 0] = rng.integers(low, high, count)
    return pa.Array.from_buffers(pa.decimal128(digits, 2), count, [None, pa.py_buffer(words)])


def _dates(days: np.ndarray) -> pa.Array:
    return pa.array(_DAYS + days.astype("timedelta64[D]"))
