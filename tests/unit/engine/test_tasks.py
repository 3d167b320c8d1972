"""Output columns of a read: names, metadata columns, row tracking and row kinds."""

from __future__ import annotations

import pytest

from paimon_spark.engine.tasks import output_type
from paimon_spark.errors import ColumnNotFoundError, InvalidOptionError
from paimon_spark.format.metadata_files.table_schema import TableSchema
from paimon_spark.types import DataField, RowType, parse_type

SCHEMA = TableSchema(
    0,
    RowType(
        False,
        tuple(
            DataField(i, n, parse_type(t)) for i, (n, t) in enumerate([("dt", "STRING"), ("A", "INT"), ("a", "INT")])
        ),
    ),
    2,
    partition_keys=("dt",),
)


def names(*columns: str, **flags: bool) -> tuple[str, ...]:
    return output_type(SCHEMA, columns, table="t", **flags).names


def test_all_columns_come_by_default() -> None:
    assert output_type(SCHEMA, None, table="t") == RowType(False, SCHEMA.fields)


def test_names_match_exactly_first_and_in_any_case_when_that_is_clear() -> None:
    assert names("a", "A", "DT") == ("a", "A", "dt")


def test_metadata_columns_have_their_types() -> None:
    found = output_type(SCHEMA, ["__paimon_file_path", "__paimon_partition", "__paimon_bucket"], table="t")
    assert [str(f.type) for f in found] == ["STRING", "ROW<dt STRING> NOT NULL", "INT"]


def test_row_tracking_columns_exist_where_rows_are_tracked() -> None:
    assert names("_ROW_ID", "_SEQUENCE_NUMBER", tracks_rows=True) == ("_ROW_ID", "_SEQUENCE_NUMBER")
    with pytest.raises(ColumnNotFoundError, match="no column '_ROW_ID'"):
        names("_ROW_ID")


def test_row_kinds_come_first() -> None:
    assert names("a", row_kind=True) == ("rowkind", "a")


def test_an_unknown_column_offers_the_nearest() -> None:
    with pytest.raises(
        ColumnNotFoundError, match=r"t has no column '__paimon_buckets'; did you mean '__paimon_bucket'"
    ):
        names("__paimon_buckets")
    with pytest.raises(ColumnNotFoundError, match="its columns are dt, A, a"):
        names("zzz")


def test_a_column_comes_once() -> None:
    with pytest.raises(InvalidOptionError, match="'dt' is named twice"):
        names("dt", "Dt")
