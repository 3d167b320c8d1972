"""The statistics file of ANALYZE: what is written is read again, and what others may have written."""

from __future__ import annotations

import json

import pytest

from paimon_spark.errors import CorruptFileError
from paimon_spark.format.metadata_files.statistics import ColumnStatistics, Statistics, columns_json, decode, encode

FOUND = Statistics(1, 0, 1, 10, {"k": ColumnStatistics(0, 1, "1", "1", 0, 4, 4), "v": ColumnStatistics(1)})


def test_what_is_unknown_is_left_out_of_the_file() -> None:
    assert json.loads(encode(FOUND)) == {
        "snapshotId": 1,
        "schemaId": 0,
        "mergedRecordCount": 1,
        "mergedRecordSize": 10,
        "colStats": {
            "k": {"colId": 0, "distinctCount": 1, "min": "1", "max": "1", "nullCount": 0, "avgLen": 4, "maxLen": 4},
            "v": {"colId": 1},
        },
    }


@pytest.mark.parametrize(
    "statistics", [FOUND, Statistics(3, 1, None, None, None), Statistics(3, 1, 0, 0, {})], ids=["all", "none", "empty"]
)
def test_what_is_written_is_read_again(statistics: Statistics) -> None:
    assert decode(encode(statistics), "stats-1") == statistics
    assert (columns_json(statistics) is None) == (statistics.columns is None)


@pytest.mark.parametrize(
    "data",
    [b"", b"[]", b"{}", b'{"snapshotId": 1, "schemaId": 0, "colStats": {"k": {}}}',
     b'{"snapshotId": 1, "schemaId": 0, "colStats": {"k": {"colId": 0, "nullCount": "many"}}}',
     b'{"snapshotId": 1, "schemaId": 0, "colStats": [1]}', b"\xff"],
)  # fmt: skip
def test_a_damaged_file_is_refused_by_name(data: bytes) -> None:
    with pytest.raises(CorruptFileError, match="statistics file dir/stats-1 cannot be read"):
        decode(data, "dir/stats-1")
