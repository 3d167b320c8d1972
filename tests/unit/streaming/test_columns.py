"""Streams over schema changes: columns that may change, and those that end the query."""

from __future__ import annotations

from dataclasses import replace

import pytest

from paimon_spark.errors import SchemaChangedError
from paimon_spark.format.metadata_files.table_schema import TableSchema
from paimon_spark.streaming.reader import QueryColumns
from paimon_spark.types import BIGINT, INT, STRING, ArrayType, DataField, DataType, MapType, MultisetType, RowType
from tests.harness.fault_store import FaultStore
from tests.harness.tables import MetadataTable, a_schema

INNER = RowType(True, (DataField(10, "x", INT), DataField(11, "y", STRING)))
WIDER = replace(INNER, fields=(*INNER.fields, DataField(12, "z", INT)))
FIELDS = (
    DataField(0, "k", BIGINT.with_nullable(False)),
    DataField(1, "v", STRING),
    DataField(2, "n", INNER),
    DataField(3, "unused", INT),
)
FIRST = a_schema(row_type=RowType(False, FIELDS), highest_field_id=20)


def changed(*fields: DataField, **more: object) -> TableSchema:
    return replace(FIRST, id=1, row_type=RowType(False, fields), **more)  # type: ignore[arg-type]


def check(schema: TableSchema, *names: str) -> None:
    handle = MetadataTable().schema(FIRST).open()
    QueryColumns.of(FIRST, names or ("k", "v", "n")).check_schema(handle, schema)


def column(i: int, **changes: object) -> DataField:
    return replace(FIELDS[i], **changes)  # type: ignore[arg-type]


def test_added_renamed_and_moved_columns_are_read_on() -> None:
    check(changed(*FIELDS, DataField(21, "more", STRING)))
    check(changed(FIELDS[2], column(1, name="renamed"), FIELDS[0]))
    check(changed(*FIELDS[:2], column(2, type=RowType(True, (DataField(11, "z", STRING), DataField(10, "x", INT))))))
    check(changed(FIELDS[0], column(1, type=STRING.with_nullable(False), description="d"), FIELDS[2]))


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ((FIELDS[0], FIELDS[2]), "column 'v' of .* was dropped"),
        ((FIELDS[0], DataField(21, "v", STRING), FIELDS[2]), "column 'v' of .* was dropped"),
        ((FIELDS[0], column(1, type=BIGINT), FIELDS[2]), "STRING when the query started, is now BIGINT"),
        ((column(0, type=BIGINT), *FIELDS[1:]), "BIGINT NOT NULL when the query started, is now BIGINT"),
        ((*FIELDS[:2], column(2, type=RowType(True, INNER.fields[:1]))), "column 'n'"),
        ((*FIELDS[:2], column(2, type=STRING)), "column 'n'"),
    ],
)
def test_dropped_and_retyped_columns_end_the_query(fields: tuple[DataField, ...], found: str) -> None:
    with pytest.raises(SchemaChangedError, match=found + ".*schema 1 changed it.*Restart the query"):
        check(changed(*fields))


@pytest.mark.parametrize(
    ("before", "after", "fine"),
    [
        (ArrayType(True, INT), ArrayType(True, INT.with_nullable(False)), True),
        (ArrayType(True, INT), ArrayType(True, BIGINT), False),
        (
            ArrayType(True, INNER),
            ArrayType(True, replace(INNER, fields=(*INNER.fields, DataField(12, "z", INT)))),
            True,
        ),
        (MapType(True, STRING, INT), MapType(True, STRING, BIGINT), False),
        (MapType(True, STRING, INNER), MapType(True, STRING, INNER), True),
        (MultisetType(True, INT), MultisetType(True, INT), True),
        (MultisetType(True, INT), MultisetType(True, BIGINT), False),
    ],
)
def test_nested_types_are_compared_to_the_bottom(before: DataType, after: DataType, fine: bool) -> None:
    handle = MetadataTable().schema(FIRST).open()
    columns = QueryColumns((column(1, type=before),))
    now = changed(FIELDS[0], column(1, type=after))
    if fine:
        columns.check_schema(handle, now)
    else:
        with pytest.raises(SchemaChangedError):
            columns.check_schema(handle, now)


def test_columns_that_the_query_does_not_read_do_not_matter_but_keys_do() -> None:
    check(changed(*FIELDS[:3]), "v")
    keyed = replace(FIRST, primary_keys=("k",), options={"bucket": "1"})
    handle = MetadataTable().schema(keyed).open()
    columns = QueryColumns.of(keyed, ["v", "__paimon_file_path"])
    assert [f.name for f in columns.fields] == ["k", "v"]
    with pytest.raises(SchemaChangedError, match="'k'"):
        columns.check_schema(handle, changed(column(0, type=INT), *FIELDS[1:]))


def test_each_later_schema_is_read_once_and_earlier_ones_never() -> None:
    table = MetadataTable().schema(FIRST).schema(changed(*FIELDS, DataField(21, "more", STRING)))
    latest = table.open()
    table.schema(replace(FIRST, id=2))
    store = FaultStore(latest.store)
    handle = replace(latest, store=store)
    columns = QueryColumns.of(latest.schema, ["v"])
    for _ in range(3):
        columns.check(handle, [0, 1, 2])
    assert [c.path.rpartition("/")[2] for c in store.calls] == ["schema-2"]
    columns.forget()
    columns.check(handle, [2])
    assert len(store.calls) == 2


def test_a_branch_given_another_history_has_to_call_columns_the_same() -> None:
    columns = QueryColumns.of(FIRST, ["v"])
    columns.check_other(MetadataTable().schema(changed(*FIELDS)).open())
    other = MetadataTable().schema(changed(FIELDS[0], column(1, name="w"))).open()
    with pytest.raises(SchemaChangedError, match="is now called 'w'"):
        columns.check_other(other)
