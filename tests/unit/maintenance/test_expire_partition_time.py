"""Times in partition values, parsed by the patterns of Java Paimon."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from paimon_spark.errors import InvalidOptionError
from paimon_spark.maintenance.partitions import parser_of, text_of

EPOCH = datetime(1970, 1, 1)


def read(text: str, formatter: str | None = None) -> str | None:
    found = parser_of(formatter)(text)
    return None if found is None else (EPOCH + timedelta(milliseconds=found)).isoformat(" ", "milliseconds")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # PartitionTimeExtractorTest.testDefault
        ("2023-01-01 20:08:08", "2023-01-01 20:08:08.000"),
        ("2023-1-1 20:08:08", "2023-01-01 20:08:08.000"),
        ("2023-01-01", "2023-01-01 00:00:00.000"),
        ("2023-1-1", "2023-01-01 00:00:00.000"),
        ("2023-01-01 1:2:3.123456789", "2023-01-01 01:02:03.123"),
        ("2024-02-29", "2024-02-29 00:00:00.000"),
        # lenient: fields beyond their range roll over
        ("2023-02-29", "2023-03-01 00:00:00.000"),
        ("2023-13-01", "2024-01-01 00:00:00.000"),
        ("2023-00-00", "2022-11-30 00:00:00.000"),
        ("2023-01-01 25:61:61", "2023-01-02 02:02:01.000"),
        ("12-1-1", "0012-01-01 00:00:00.000"),
        ("unknown", None),
        ("", None),
        ("20230101", None),
        ("2023-01-01 20:08", None),
        ("2023-01-01T20:08:08", None),
        ("2023-01-01 ", None),
        ("2023-001-01", None),
        ("２023-01-01", None),
    ],
)
def test_texts_are_read_as_paimon_reads_them(text: str, expected: str | None) -> None:
    assert read(text) == expected


@pytest.mark.parametrize(
    ("formatter", "text", "expected"),
    [
        # PartitionTimeExtractorTest.testFormatter and others
        ("yyyyMMdd", "20230101", "2023-01-01 00:00:00.000"),
        ("yyyyMMdd", "unknown", None),
        ("yyyyMMdd", "2023-01-01", None),
        ("MMyyyydd", "02202301", "2023-02-01 00:00:00.000"),
        ("yyyyMMddHH", "2023010107", "2023-01-01 07:00:00.000"),
        ("yyyy-MM-dd HH:mm:ss", "2023-01-01 07:08:09", "2023-01-01 07:08:09.000"),
        ("yyyy-MM-dd'T'HH:mm:ss.SSS", "2023-01-01T07:08:09.25", None),
        ("yyyy-MM-dd'T'HH:mm:ss.SSS", "2023-01-01T07:08:09.250", "2023-01-01 07:08:09.250"),
        ("uuuu/M/d", "2023/1/31", "2023-01-31 00:00:00.000"),
        ("yyMMdd", "230131", "2023-01-31 00:00:00.000"),
        ("yyyyDDD", "2023032", "2023-02-01 00:00:00.000"),
        ("yyyyDDD", "2023366", None),
        ("yyyy''MM''dd", "2023'01'02", "2023-01-02 00:00:00.000"),
        # smart: a day that the month lacks is its last; anything further is no time
        ("yyyyMMdd", "20230231", "2023-02-28 00:00:00.000"),
        ("yyyyMMdd", "20240431", "2024-04-30 00:00:00.000"),
        ("yyyyMMdd", "20230132", None),
        ("yyyyMMdd", "20231301", None),
        ("yyyyMMddHH", "2023010124", "2023-01-02 00:00:00.000"),
        ("yyyyMMddHH", "2023010125", None),
        ("yyyy-MM-dd HH:mm", "2023-01-01 24:01", None),
    ],
)
def test_texts_are_read_by_a_pattern_of_java(formatter: str, text: str, expected: str | None) -> None:
    assert read(text, formatter) == expected


@pytest.mark.parametrize(
    ("formatter", "why"),
    [
        ("yyyyMM", "it has no complete date"),
        ("yyyy-MMM-dd", "'MMM' is not supported"),
        ("yyyyMMdd hh", "the letter 'h' is not supported"),
        ("yyyyMMdd[HH]", r"'\[' is not supported"),
        ("yyyyMMdd'", "a quote is not closed"),
        ("yyyyMd", "'M' directly follows another number"),
        ("yyyy yyyy MM dd", "it has a field twice"),
    ],
)
def test_patterns_that_are_not_known_are_refused_by_name(formatter: str, why: str) -> None:
    with pytest.raises(InvalidOptionError, match=rf"option partition.timestamp-formatter = .*: {why}.* use yyyy"):
        parser_of(formatter)


@pytest.mark.parametrize(
    ("pattern", "texts", "expected"),
    [
        (None, {"dt": "2023-01-01", "h": "7"}, "2023-01-01"),
        (None, {"dt": None, "h": "7"}, None),
        ("$year-$month-$day 00:00:00", {"year": "2023", "month": "1", "day": None}, None),
        (
            "$year-$month-$day $hour:00:00",
            {"year": "2023", "month": "01", "day": "01", "hour": "01"},
            "2023-01-01 01:00:00",
        ),
        ("$dt", {"other": "dummy", "dt": "2023-01-01"}, "2023-01-01"),
        # PartitionTimeExtractorTest.testPatternWithPrefixVariableNames
        ("$dt1-$dt-$dt2 00:00:00", {"dt1": "2023", "dt": "01", "dt2": "02"}, "2023-01-02 00:00:00"),
        ("$t $t2:$t3:$t4", {"t": "2023-01-01", "t4": "03", "t2": "01", "t3": "02"}, "2023-01-01 01:02:03"),
        ("$a", {"a": "$b", "b": "x"}, "$b"),
        ("$nothing$", {"dt": "x"}, "$nothing$"),
    ],
)
def test_a_pattern_makes_one_text_of_columns(
    pattern: str | None, texts: dict[str, str | None], expected: str | None
) -> None:
    assert text_of(pattern, texts) == expected
