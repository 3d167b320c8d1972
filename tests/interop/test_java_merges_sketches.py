"""Sketches and bitmaps that Java merges, and that we merge: both hold the same, and each reads what the other wrote.

Bytes need not be equal (a container may be stored in several ways), what they hold must be.
"""

from __future__ import annotations

from typing import Any

import pytest

import paimon_spark
from paimon_spark.format import roaring
from tests.harness.bitmaps import bitmap_of, numbers_of
from tests.harness.rows import rows_of
from tests.interop.comparing import version_options
from tests.interop.java_tables import JavaTables
from tests.interop.table_script import TableScript

datasketches = pytest.importorskip("datasketches")
pytestmark = pytest.mark.interop

Numbers = range | list[int]
FUNCTIONS = {"r32": "rbm32", "r64": "rbm64", "hll": "hll_sketch", "theta": "theta_sketch"}


def hll(numbers: Numbers, lg_k: int = 12, kind: Any = datasketches.tgt_hll_type.HLL_4) -> str:
    sketch = datasketches.hll_sketch(lg_k, kind)
    for number in numbers:
        sketch.update(number)
    return bytes(sketch.serialize_compact()).hex()


def theta(numbers: Numbers, lg_k: int = 12) -> str:
    sketch = datasketches.update_theta_sketch(lg_k)
    for number in numbers:
        sketch.update(number)
    return bytes(sketch.compact().serialize()).hex()


def row(key: int, numbers: Numbers, **sketch: Any) -> list[Any]:
    low = bitmap_of(n & 0xFFFFFFFF for n in numbers)
    wide = bitmap_of(n & 0xFFFFFFFFFFFFFFFF for n in numbers)
    return [
        key, roaring.encode32(low).hex(), roaring.encode64(wide).hex(),
        hll(numbers, **sketch), theta(numbers, sketch.get("lg_k", 12)),
    ]  # fmt: skip


def empty(name: str) -> TableScript:
    options = {"bucket": "1", "merge-engine": "aggregation"}
    options.update({f"fields.{column}.aggregate-function": function for column, function in FUNCTIONS.items()})
    fields = [["k", "INT NOT NULL"], *([column, "BYTES"] for column in FUNCTIONS)]
    return TableScript(name, "sketches and bitmaps", fields, pk=["k"], options=options)


def script() -> TableScript:
    table = empty("pk_sketches")
    spread = [n << shift for shift in (0, 14, 16, 20, 24, 32, 40, 48, 56) for n in range(60)]
    hll_8 = datasketches.tgt_hll_type.HLL_8
    nothing: list[Any] = [None] * len(FUNCTIONS)
    table.pile(
        [
            row(1, range(5)), row(2, range(70_000)), row(3, [-1, 7, 2**31]), row(4, spread), row(5, []),
            row(6, range(3000), lg_k=10), row(7, range(20)), [8, *nothing],
        ]
    )  # fmt: skip
    table.pile(
        [
            row(1, range(3, 9)), row(2, range(0, 140_000, 2)), row(3, [-5, 2**40]), row(4, range(300)),
            row(5, [1, 2]), row(6, range(2000, 9000), lg_k=12), row(7, range(6000), kind=hll_8), row(8, [4]),
        ]
    )  # fmt: skip
    table.pile([row(2, range(65_536, 65_636)), row(6, range(9_000, 12_000), lg_k=8), row(8, [])])
    table.compact(full=True)
    # From here on, one side's merge reads what the other made.
    table.pile([row(k, range(k, 5000 * k, k), lg_k=12) for k in range(1, 9)])
    return table.pile([row(4, [n << 8 for n in range(70_000)]), row(2, [2**30]), [1, *nothing]])


def held(column: str, value: str | None) -> Any:
    """What a value holds, in a form to compare."""
    if value is None:
        return None
    data = bytes.fromhex(value)
    match FUNCTIONS[column]:
        case "rbm32":
            return numbers_of(roaring.decode32(data))
        case "rbm64":
            return numbers_of(roaring.decode64(data))
        case "hll_sketch":
            sketch = datasketches.hll_sketch.deserialize(data)
            return sketch.lg_config_k, round(sketch.get_estimate(), 6)
        case _:
            sketch = datasketches.compact_theta_sketch.deserialize(data)
            return sketch.theta64, sketch.is_ordered(), list(sketch)


def test_merged_sketches_hold_what_java_says(java_tables: JavaTables) -> None:
    table = java_tables.get(script())
    assert len(table.versions) >= 6
    for label, theirs in table.versions.items():
        assert "rows" in theirs, (label, theirs)
        scan = paimon_spark.load_table(table.path, **version_options(label)).scan()
        ours = rows_of(scan.to_arrow(), {name: type_ for _, name, type_ in theirs["schema"]})
        want, got = ({values_of(row)[0]: values_of(row) for row in rows} for rows in (theirs["rows"], ours))
        assert want.keys() == got.keys()
        for key, values in want.items():
            for place, column in enumerate(FUNCTIONS, 1):
                mine, other = got[key][place], values[place]
                assert held(column, mine) == held(column, other), (label, key, column)


def values_of(row: Any) -> list[Any]:
    return list(row.values()) if isinstance(row, dict) else list(row)


def test_java_reads_what_we_merged(java_tables: JavaTables) -> None:
    """Our merged bytes go into a new table, where Java merges them with others."""
    first = java_tables.get(script())
    merged = rows_of(
        paimon_spark.load_table(first.path).scan().to_arrow(),
        {name: type_ for _, name, type_ in first.versions["latest"]["schema"]},
    )
    second = empty("pk_sketches_again")
    second.pile([values_of(row) for row in merged]).pile([row(k, [1, 2**33 + k]) for k in range(1, 9)])
    theirs = java_tables.get(second).versions["latest"]["rows"]
    want = {values_of(r)[0]: values_of(r) for r in theirs}
    for before in map(values_of, merged):
        for place, column in enumerate(("r32", "r64"), 1):
            bits = 0xFFFFFFFF if column == "r32" else 0xFFFFFFFFFFFFFFFF
            expected = {*held(column, before[place]), 1, (2**33 + before[0]) & bits}
            assert held(column, want[before[0]][place]) == sorted(expected), (before[0], column)
