"""Type changes of columns: which are allowed, as in Java Paimon."""

from __future__ import annotations

import pyarrow as pa
import pytest

from paimon_spark.engine.read.evolution import converter
from paimon_spark.errors import InvalidInputError, UnsupportedFeatureError
from paimon_spark.format.casts.defaults import check_default
from paimon_spark.format.casts.evolution import can_cast
from paimon_spark.types import DataType, parse_type

TYPES = [
    parse_type(t)
    for t in (
        "CHAR(3)", "VARCHAR(4)", "STRING", "BINARY(3)", "VARBINARY(3)", "BYTES", "BOOLEAN", "TINYINT", "SMALLINT",
        "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(10, 2)", "DATE", "TIME(3)", "TIMESTAMP(3)", "TIMESTAMP(9)",
        "TIMESTAMP_LTZ(6)", "VARIANT",
    )
]  # fmt: skip
NESTED = [
    parse_type({"type": "ARRAY", "element": "INT"}),
    parse_type({"type": "MAP", "key": "STRING NOT NULL", "value": "INT"}),
    parse_type({"type": "ROW", "fields": [{"id": 0, "name": "a", "type": "INT"}]}),
]


def _readable(source: DataType, target: DataType) -> bool:
    try:
        converter(source, target)
    except (UnsupportedFeatureError, pa.ArrowInvalid):
        return False
    return True


@pytest.mark.parametrize("source", [*TYPES, *NESTED], ids=str)
def test_a_column_changes_exactly_to_what_its_old_files_can_be_read_as(source: DataType) -> None:
    for target in (*TYPES, *NESTED):
        assert can_cast(source, target, explicit=True) == _readable(source, target), (str(source), str(target))


@pytest.mark.parametrize(
    ("source", "target", "implicit"),
    [
        ("TINYINT", "BIGINT", True),
        ("BIGINT", "INT", False),
        ("INT", "DECIMAL(3, 0)", True),
        ("DECIMAL(10, 2)", "DECIMAL(12, 4)", True),
        ("DOUBLE", "FLOAT", False),
        ("BIGINT", "FLOAT", True),
        ("CHAR(3)", "STRING", True),
        ("STRING", "CHAR(3)", False),
        ("STRING", "INT", False),
        ("INT", "STRING", False),
        ("BINARY(3)", "BYTES", True),
        ("BYTES", "BINARY(3)", False),
        ("TIMESTAMP(3)", "DATE", True),
        ("TIMESTAMP_LTZ(3)", "DATE", False),
        ("TIMESTAMP(3)", "TIMESTAMP_LTZ(6)", True),
        ("DATE", "TIMESTAMP(3)", False),
    ],
)
def test_implicit_casts_are_those_of_java(source: str, target: str, implicit: bool) -> None:
    old, new = parse_type(source), parse_type(target)
    assert can_cast(old, new, explicit=False) is implicit
    assert can_cast(old, new, explicit=True)
    assert can_cast(old, new.with_nullable(False), explicit=False) is implicit


@pytest.mark.parametrize(
    ("type", "good", "bad"),
    [
        ("INT", ["5", "-5", "2147483647", "'7'"], ["x", "2147483648", ""]),
        ("TINYINT", ["127"], ["128"]),
        ("DOUBLE", ["1e3", "NaN"], ["one"]),
        ("DECIMAL(5, 2)", ["1.25"], ["x", "NaN"]),
        ("BOOLEAN", ["true", "FALSE", "no"], ["2"]),
        ("STRING", ["", "anything"], []),
        ("BYTES", ["abc"], []),
        ("DATE", ["2024-01-02"], ["soon"]),
        ("TIME(3)", ["10:20:30.5"], ["soon"]),
        ("TIMESTAMP(6)", ["2024-01-02 03:04:05.678"], ["noon"]),
        ("VARIANT", [], ["1"]),
    ],
)
def test_a_default_is_a_value_of_its_column(type: str, good: list[str], bad: list[str]) -> None:
    for text in good:
        check_default("c", parse_type(type), text)
    for text in bad:
        with pytest.raises(InvalidInputError, match="is no value of type"):
            check_default("c", parse_type(type), text)
    check_default("c", parse_type(type), None)
