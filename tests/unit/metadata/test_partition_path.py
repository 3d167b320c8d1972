"""Partition directories: texts of values, escaping and default names."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from paimon_spark.errors import UnsupportedFeatureError
from paimon_spark.metadata.partition_path import escape, partition_path, value_text
from paimon_spark.options.table import parse_table_options
from paimon_spark.types import DataField, DataType, RowType, parse_type


@pytest.mark.parametrize(
    ("type_text", "value", "legacy", "cast"),
    [
        ("STRING", "a b", "a b", "a b"),
        ("BOOLEAN", True, "true", "true"),
        ("INT", -3, "-3", "-3"),
        ("DATE", date(2022, 1, 8), "19000", "2022-01-08"),
        ("DATE", 19000, "19000", "2022-01-08"),
        ("DATE", -1, "-1", "1969-12-31"),
        ("DECIMAL(10, 2)", Decimal("1.5"), "1.50", "1.50"),
        ("DECIMAL(30, 0)", Decimal("1E+20"), "100000000000000000000", "100000000000000000000"),
        ("DECIMAL(38, 38)", Decimal("0." + "9" * 38), "0." + "9" * 38, "0." + "9" * 38),
        ("DECIMAL(38, 2)", Decimal("-" + "9" * 36 + ".10"), "-" + "9" * 36 + ".10", "-" + "9" * 36 + ".10"),
        ("TIME(3)", 3_723_040, "3723040", "01:02:03.04"),
        ("TIME(0)", 3_723_040, "3723040", "01:02:03"),
        ("TIME(3)", 3_723_000, "3723000", "01:02:03.0"),
        ("TIMESTAMP(0)", datetime(2024, 1, 2, 3, 4), "2024-01-02T03:04", "2024-01-02 03:04:00"),
        ("TIMESTAMP(3)", datetime(2024, 1, 2, 3, 4), "2024-01-02T03:04", "2024-01-02 03:04:00.000"),
        ("TIMESTAMP(3)", datetime(2024, 1, 2, 3, 4, 5), "2024-01-02T03:04:05", "2024-01-02 03:04:05.000"),
        (
            "TIMESTAMP(3)",
            datetime(2024, 1, 2, 3, 4, 0, 120_000),
            "2024-01-02T03:04:00.120",
            "2024-01-02 03:04:00.120",
        ),
        ("TIMESTAMP(6)", (1, 2_000), "1970-01-01T00:00:00.001002", "1970-01-01 00:00:00.001002"),
        ("TIMESTAMP(9)", (-1, 5), "1969-12-31T23:59:59.999000005", "1969-12-31 23:59:59.999000005"),
        ("FLOAT", 0.1, "0.1", "0.1"),
        ("FLOAT", 1e-45, "1.4E-45", "1.4E-45"),
        ("FLOAT", 3.4028234663852886e38, "3.4028235E38", "3.4028235E38"),
        ("DOUBLE", 5e-324, "4.9E-324", "4.9E-324"),
        ("DOUBLE", 1e23, "1.0E23", "1.0E23"),
        ("DOUBLE", 1e7, "1.0E7", "1.0E7"),
        ("DOUBLE", 123456.0, "123456.0", "123456.0"),
        ("DOUBLE", 0.00012, "1.2E-4", "1.2E-4"),
        ("DOUBLE", -0.0, "-0.0", "-0.0"),
        ("DOUBLE", float("nan"), "NaN", "NaN"),
        ("DOUBLE", float("-inf"), "-Infinity", "-Infinity"),
    ],
)
def test_values_read_as_java_writes_them(type_text: str, value: Any, legacy: str, cast: str) -> None:
    data_type = parse_type(type_text)
    assert value_text(data_type, value, legacy=True) == legacy
    assert value_text(data_type, value, legacy=False) == cast


def test_an_instant_is_utc_in_the_internal_form() -> None:
    instant = datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)
    data_type = parse_type("TIMESTAMP(3) WITH LOCAL TIME ZONE")
    assert value_text(data_type, instant, legacy=True) == "2024-01-02T03:04:05"


@pytest.mark.parametrize("type_text", ["BYTES", "BLOB"])
def test_types_without_a_text_are_refused(type_text: str) -> None:
    data_type: DataType = parse_type(type_text)
    with pytest.raises(UnsupportedFeatureError, match=type_text):
        value_text(data_type, b"x", legacy=True)


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("a:b=c", "a%3Ab%3Dc"),
        ("2024-01-01 10:00:00", "2024-01-01 10%3A00%3A00"),
        ("\x00\x1f\x7f\"#%'*/?\\{}[]^", "%00%1F%7F%22%23%25%27%2A%2F%3F%5C%7B%7D%5B%5D%5E"),
        ("<>|~!,;&+@$()日本 ü", "<>|~!,;&+@$()日本 ü"),
    ],
)
def test_escaping(text: str, escaped: str) -> None:
    assert escape(text) == escaped


@pytest.mark.parametrize("value", [None, "", "  ", "\t\n", "\u2003"])
def test_null_and_blank_share_the_default_directory(value: str | None) -> None:
    partition_type = RowType(False, (DataField(0, "a=b", parse_type("STRING")),))
    assert partition_path(partition_type, [value], parse_table_options({})) == "a%3Db=__DEFAULT_PARTITION__"
    named = parse_table_options({"partition.default-name": "none"})
    assert partition_path(partition_type, [value], named) == "a%3Db=none"


def test_a_space_that_does_not_break_is_no_blank_to_java() -> None:
    partition_type = RowType(False, (DataField(0, "p", parse_type("STRING")),))
    assert partition_path(partition_type, ["\u00a0"], parse_table_options({})) == "p=\u00a0"


def test_levels_follow_the_partition_keys() -> None:
    partition_type = RowType(False, (DataField(3, "dt", parse_type("DATE")), DataField(1, "h", parse_type("INT"))))
    assert partition_path(partition_type, [19000, 7], parse_table_options({})) == "dt=19000/h=7"
    cast = parse_table_options({"partition.legacy-name": "false"})
    assert partition_path(partition_type, [19000, 7], cast) == "dt=2022-01-08/h=7"
