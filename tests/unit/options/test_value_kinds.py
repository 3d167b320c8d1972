from __future__ import annotations

import pytest

from paimon_spark.errors import InvalidOptionError
from paimon_spark.options.known import is_table_option
from paimon_spark.options.table import parse_table_options
from paimon_spark.options.value_kinds import _PARSERS, check_values, per_level


@pytest.mark.parametrize("key", sorted(_PARSERS))
def test_every_typed_option_is_one_of_paimon(key: str) -> None:
    assert is_table_option(key)


@pytest.mark.parametrize("key", sorted(_PARSERS))
def test_every_typed_option_refuses_text_that_is_no_value(key: str) -> None:
    with pytest.raises(InvalidOptionError, match=f"option {key} = 'no such value'"):
        check_values({key: "no such value"})


def test_values_of_every_kind_are_accepted() -> None:
    check_values(
        {
            "bucket": "-1",
            "dynamic-bucket.target-row-num": "9000000000",
            "lookup.hash-load-factor": "0.75",
            "snapshot.time-retained": "1 h",
            "target-file-size": "128 MB",
            "deletion-vectors.enabled": "TRUE",
            "merge-engine": "PARTIAL_UPDATE",
            "tag.period-formatter": "without_dashes",
            "metadata.stats-mode": "truncate(32)",
            "metadata.stats-mode.per.level": "0:none,5:full",
            "file.format.per.level": "0:avro, 5:orc",
            "some.tool": "anything",
        }
    )


def test_numbers_end_where_java_s_do() -> None:
    with pytest.raises(InvalidOptionError, match="up to 2147483647"):
        check_values({"bucket": "2147483648"})


def test_levels_have_a_value_each() -> None:
    assert per_level(" 0:avro ,5: parquet,") == {0: "avro", 5: "parquet"}
    for text in ("avro", "0:", "x:avro"):
        with pytest.raises(ValueError, match="expected <level>:<value>"):
            per_level(text)


def test_values_that_pass_are_those_that_the_tables_options_parse() -> None:
    text = {"merge-engine": "First_Row", "bucket": " 3 ", "source.split.target-size": "1gb", "ignore-delete": "False"}
    check_values(text)
    parse_table_options(text)
