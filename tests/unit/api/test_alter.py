"""Tables change their columns, options and comments in one new schema, or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import types as spark

import paimon_spark
from paimon_spark.api.table import Table
from paimon_spark.errors import AlreadyExistsError, ColumnNotFoundError, InvalidInputError, InvalidOptionError
from paimon_spark.metadata.schemas import list_schema_ids
from tests.harness.real_tables import a_table


@pytest.fixture
def table(tmp_path: Path) -> Table:
    columns = "k BIGINT, v STRING, n INT, s STRUCT<a: INT>"
    return a_table(columns, keys="k", options={"bucket": 1}, rows=[(1, "a", 1), (2, "b", 2)], where=tmp_path)


def test_everything_changes_in_one_new_schema(table: Table) -> None:
    changed = table.alter(
        add={"c": "INT COMMENT 'count' DEFAULT 5", "s.b": pa.string(), "d": spark.DateType()},
        drop=["v"],
        rename={"k": "id"},
        retype={"n": "BIGINT", "s.a": "BIGINT"},
        set_options={"snapshot.num-retained.min": 3, "write-only": True},
        comments={"id": "the key", "s.a": "inside"},
        defaults={"n": "7"},
        move={"c": "first", "d": "after id"},
        comment="all new",
    )
    assert [f"{f.name} {f.type}" for f in changed.row_type] == [
        "c INT",
        "id BIGINT NOT NULL",
        "d DATE",
        "n BIGINT",
        "s ROW<a BIGINT, b STRING>",
    ]
    assert changed.schema.id == 1
    assert changed.schema.options == {"bucket": "1", "snapshot.num-retained.min": "3", "write-only": "true"}
    assert changed.schema.comment == "all new"
    assert [f.default_value for f in changed.row_type] == ["5", None, None, "7", None]
    assert changed.handle.schema == changed.schema == table.schema
    assert list_schema_ids(table.handle.store, table.handle.layout) == [0, 1]
    assert sorted(r["id"] for r in changed.scan().to_arrow().to_pylist()) == [1, 2]


def test_rows_written_after_a_change_meet_those_before(table: Table) -> None:
    changed = table.alter(add={"c": "INT DEFAULT 5"}, retype={"n": "BIGINT"})
    changed.write(pa.table({"k": [3], "n": [2**40]}))
    rows = sorted(changed.scan(columns=["k", "n", "c"]).to_arrow().to_pylist(), key=lambda r: r["k"])
    assert rows == [{"k": 1, "n": 1, "c": None}, {"k": 2, "n": 2, "c": None}, {"k": 3, "n": 2**40, "c": 5}]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"drop": "v"}, InvalidInputError, "expected a list of names"),
        ({"unset_options": "bucket"}, InvalidInputError, "expected a list of names"),
        ({"drop": ["x"]}, ColumnNotFoundError, "table db.t: there is no column x"),
        ({"add": {"v": "INT"}}, AlreadyExistsError, "it exists already"),
        ({"add": {"x": 5}}, InvalidInputError, r"the type of column x .* found builtins\.int"),
        ({"add": {"x": "INT, y INT"}}, InvalidInputError, "is not the type of one column"),
        ({"retype": {"n": "BIGINT COMMENT 'x'"}}, InvalidInputError, "more than a type"),
        ({"move": {"n": "somewhere"}}, InvalidInputError, "say first, last, after"),
        ({"set_options": {"bucket": "x"}}, InvalidOptionError, "expected a whole number"),
        ({"drop": ["v"], "retype": {"k": "STRING"}}, InvalidInputError, "part of the primary key"),
    ],
)
def test_a_refused_change_changes_nothing(
    table: Table, arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    before = table.schema
    with pytest.raises(error, match=message):
        table.alter(**arguments)
    assert table.schema == before


def test_nothing_to_change_makes_no_schema(table: Table) -> None:
    assert table.alter().schema.id == 0
    assert table.alter(set_options={"bucket": 1}).schema.id == 0


def test_a_table_opened_with_options_keeps_them(table: Table) -> None:
    reopened = paimon_spark.load_table(table.location, **{"source.split.target-size": "1mb"})
    changed = reopened.alter(comment="x")
    assert changed.options.split_target_bytes == 1 << 20
    assert "source.split.target-size" not in changed.schema.options


@pytest.mark.parametrize("format_", ["parquet", "orc", "avro"])
def test_a_struct_whose_stored_fields_were_all_dropped_is_null_only_where_it_was(tmp_path: Path, format_: str) -> None:
    table = a_table(
        "id INT, s ROW<a INT, b ROW<x STRING>>, l ARRAY<ROW<a INT>>",
        keys="id",
        options={"bucket": "1", "file.format": format_},
        where=tmp_path,
    )
    schema = table.scan().arrow_schema
    given = [
        {"id": 1, "s": {"a": 1, "b": {"x": "y"}}, "l": [{"a": 1}, None]},
        {"id": 2, "s": None, "l": None},
        {"id": 3, "s": {"a": None, "b": None}, "l": []},
    ]
    table.write(pa.Table.from_pylist(given, schema))
    table = table.alter(add={"s.c": "INT", "l.element.c": "INT"}).alter(drop=["s.a", "s.b", "l.element.a"])
    wanted = [
        {"id": 1, "s": {"c": None}, "l": [{"c": None}, None]},
        {"id": 2, "s": None, "l": None},
        {"id": 3, "s": {"c": None}, "l": []},
    ]
    for _ in range(2):
        assert sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["id"]) == wanted
        table.compact(full=True)
