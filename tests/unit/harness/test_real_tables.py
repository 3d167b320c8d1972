"""The builder of tables with files: rows as tuples, written and read back."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from paimon_spark.types import VALUE_KIND
from tests.harness.real_tables import a_catalog, a_table, put, read, rows

KEYED = {"bucket": "1"}


def test_a_table_begins_with_its_rows(tmp_path: Path) -> None:
    table = a_table(
        "p STRING, k INT, v STRING", keys="p k", by="p", options=KEYED, rows=[("x", 1, "a")], where=tmp_path
    )
    assert (table.name, len(table.snapshots()), read(table)) == ("db.t", 1, [("x", 1, "a")])
    assert (table.schema.primary_keys, table.schema.partition_keys) == (("p", "k"), ("p",))


def test_tables_in_memory_are_apart_unless_they_share_a_catalog() -> None:
    catalog = a_catalog()
    one, other = a_table(where=catalog, rows=[1]), a_table(where=catalog, name="db.other")
    assert (read(one, "k"), read(other), read(a_table())) == ([1], [], [])
    assert catalog.list_tables("db") == ["other", "t"]


def test_a_row_is_a_tuple_or_its_first_value_and_may_end_with_its_kind() -> None:
    table = a_table("k BIGINT, v STRING", keys="k", options=KEYED)
    put(table, 1, (2,), (3, "c"))
    assert read(table) == [(1, None), (2, None), (3, "c")]
    put(table, (1, None, 3), (4, "d", 0))
    assert read(table) == [(2, None), (3, "c"), (4, "d")]
    put(table, 5, mode="overwrite")
    assert read(table) == [(5, None)]


def test_rows_have_the_types_of_the_columns() -> None:
    found = rows("k INT NOT NULL, v STRING", (1, "a", 3))
    assert found.schema.names == ["k", "v", VALUE_KIND]
    assert found.schema.types == [pa.int32(), pa.string(), pa.int8()]
    assert rows(pa.schema([("a", pa.float32())])).num_rows == 0


def test_rows_are_read_in_order_nulls_first_and_by_condition_or_version() -> None:
    table = a_table("k INT, v ARRAY<INT>", rows=[(10, [1]), (2, None), None, (2, [3])])
    assert read(table) == [(None, None), (2, None), (2, [3]), (10, [1])]
    put(table, 7)
    assert read(table, "k") == [None, 2, 2, 7, 10]
    assert (read(table, "k", where="k > 5"), read(table, "k", version=1)) == ([7, 10], [None, 2, 2, 10])
