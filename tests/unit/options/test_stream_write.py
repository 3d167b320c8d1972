"""What a query's sink may be asked for, and what only single writes are."""

from __future__ import annotations

import pytest

from paimon_spark.errors import InvalidOptionError
from paimon_spark.options.batch_write import BatchWriteOptions
from paimon_spark.options.stream_write import LostBatches, StreamWriteOptions, parse_stream_write_options


def test_nothing_asked_fails_at_a_loss() -> None:
    for complete in (False, True):
        assert parse_stream_write_options({}, complete=complete) == StreamWriteOptions()


def test_options_go_where_they_belong_in_any_case() -> None:
    asked = parse_stream_write_options(
        {
            "path": "/t", "checkpointlocation": "/c", "queryname": "q", "WRITE.STREAM.LOST-BATCHES": "Continue",
            "Branch": "b", "commit.user": "me", "write.clustered": "true", "write.merge-schema": "true",
            "write-only": "true", "write.batch-size": "9", "fs.key": "k", "my-own": "x",
        },
        complete=False,
    )  # fmt: skip
    assert asked == StreamWriteOptions(
        BatchWriteOptions(
            branch="b",
            commit_user="me",
            clustered=True,
            table_options={"write.merge-schema": "true", "write-only": "true", "write.batch-size": "9"},
            storage_options={"fs.key": "k"},
            unknown_options={"my-own": "x"},
        ),
        LostBatches.CONTINUE,
        "q",
        "/c",
    )


@pytest.mark.parametrize("complete", [False, True])
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("overwrite.partition", "dt=x"),
        ("partitionOverwriteMode", "dynamic"),
        ("partitionoverwritemode", "static"),
        ("dynamic-partition-overwrite", "true"),
        ("write.row-level", "DELETE"),
        ("write.row-level-base", "3"),
        ("end-input.watermark", "17"),
        ("versionAsOf", "v1"),
        ("write.stream.lost-batches", "ignore"),
        ("write.stream.lost-batch", "continue"),
        ("commit.user", " "),
        ("commit.user", "team/etl"),
    ],
)
def test_what_is_of_single_writes_or_wrong_is_refused_by_name(key: str, value: str, complete: bool) -> None:
    with pytest.raises(InvalidOptionError, match=f"(?i){key}"):
        parse_stream_write_options({key: value}, complete=complete)
