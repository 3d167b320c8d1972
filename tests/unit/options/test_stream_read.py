"""Options of a streaming read are parsed into one request, or refused."""

from __future__ import annotations

import pickle
import re

import pytest

from paimon_spark.errors import InvalidOptionError, UnsupportedFeatureError
from paimon_spark.options import stream_read as stream_keys
from paimon_spark.options.descriptor import Option
from paimon_spark.options.known import TABLE_OPTIONS
from paimon_spark.options.scan import INCREMENTAL_KEYS, VERSION_KEYS, ScanOptions, parse_scan_options
from paimon_spark.options.stream_read import (
    ReadLimits,
    StartMode,
    StreamReadOptions,
    parse_rows_options,
    parse_stream_options,
)

LATEST_FULL = StreamReadOptions()


def message(options: dict[str, str], stored: dict[str, str] | None = None) -> str:
    with pytest.raises(InvalidOptionError) as caught:
        parse_stream_options(options, stored)
    return caught.value.message


def test_nothing_asked_begins_with_all_rows_of_main_and_has_no_limits() -> None:
    asked = parse_stream_options({})
    assert asked == LATEST_FULL
    assert asked.mode is StartMode.LATEST_FULL
    assert asked.limits.unlimited


def test_what_a_batch_read_knows_of_rows_a_stream_knows_too() -> None:
    given = {
        "branch": "fix",
        "WHERE": "a > 1",
        "columns": "a,`b,c`",
        "time-zone": "UTC",
        "Read.Changelog": "true",
        "read.batch-size": "7",
        "s3.endpoint": "http://x",
        "source.split.target-size": "1 mb",
        "path": "/t",
    }
    asked = parse_stream_options(given)
    assert asked.rows == parse_scan_options(given) == parse_rows_options(given)
    assert (asked.rows.version, asked.rows.incremental) == (None, None)


def test_every_option_of_streams_is_a_known_table_option() -> None:
    options = [o for o in vars(stream_keys).values() if isinstance(o, Option)]
    assert len(options) > 10
    assert [o.key for o in options if o.key not in TABLE_OPTIONS] == []


@pytest.mark.parametrize("kind", [parse_stream_options, parse_scan_options])
@pytest.mark.parametrize(
    ("key", "nearest"),
    [
        ("maxFilesPerTrigger", "read.stream.maxFilesPerTrigger"),
        ("read.stream.max-files-per-trigger", "read.stream.maxFilesPerTrigger"),
        ("read.stream.alligned", "read.stream.aligned"),
        ("consumerid", "consumer-id"),
        ("scan.modus", "scan.mode"),
        ("startingVersion", None),
    ],
)
def test_an_unknown_option_is_refused_with_the_nearest_name(kind: object, key: str, nearest: str | None) -> None:
    with pytest.raises(InvalidOptionError) as caught:
        kind({key: "1"})  # type: ignore[operator]
    assert f"unknown read option {key!r}" in caught.value.message
    assert nearest is None or repr(nearest) in caught.value.message


@pytest.mark.parametrize(
    "options",
    [
        {"consumer-id": "etl"},
        {"consumer.ignore-progress": "true"},
        {"read.stream.maxFilesPerTrigger": "3"},
        {"read.stream.minRowsPerTrigger": "3"},
        {"read.stream.aligned": "true"},
        {"read.stream.aligned.snapshots": "2"},
        {"streaming.read.snapshot.delay": "1 min"},
        {"scan.bounded.watermark": "5"},
        {"streaming-read-overwrite": "true"},
    ],
)
def test_a_batch_read_passes_over_what_only_streams_have(options: dict[str, str]) -> None:
    assert parse_scan_options(options) == ScanOptions(table_options=options)


# Starts


@pytest.mark.parametrize("mode", [m for m in StartMode if not m.value.startswith("from-")])
def test_modes_without_an_option_are_taken_by_name(mode: StartMode) -> None:
    for text in (mode.value, mode.value.upper(), mode.value.replace("-", "_"), f" {mode.value} "):
        asked = parse_stream_options({"scan.mode": text})
        assert (asked.mode, asked.start) == (mode, None)


@pytest.mark.parametrize("mode", ["default", "full"])
def test_default_and_full_mean_all_rows(mode: str) -> None:
    assert parse_stream_options({"scan.mode": mode}) == LATEST_FULL


BY_KEY = {
    "scan.timestamp": ("2024-01-01", StartMode.FROM_TIMESTAMP),
    "scan.timestamp-millis": ("5", StartMode.FROM_TIMESTAMP),
    "timestampAsOf": ("2024-01-01 00:00:00", StartMode.FROM_TIMESTAMP),
    "scan.snapshot-id": ("5", StartMode.FROM_SNAPSHOT),
    "scan.tag-name": ("t", StartMode.FROM_SNAPSHOT),
    "scan.tag-id": ("5", StartMode.FROM_SNAPSHOT),
    "scan.savepoint-id": ("5", StartMode.FROM_SNAPSHOT),
    "scan.version": ("savepoint.5", StartMode.FROM_SNAPSHOT),
    "versionAsOf": ("t", StartMode.FROM_SNAPSHOT),
    "scan.file-creation-time-millis": ("5", StartMode.FROM_FILE_CREATION_TIME),
    "scan.creation-time-millis": ("5", StartMode.FROM_CREATION_TIMESTAMP),
}
REFUSED = ("scan.watermark", *INCREMENTAL_KEYS)


def test_every_way_to_name_a_version_is_a_start_or_refused() -> None:
    assert {*VERSION_KEYS, *INCREMENTAL_KEYS} <= {*BY_KEY, *REFUSED}


@pytest.mark.parametrize("key", BY_KEY)
def test_an_option_alone_tells_the_mode(key: str) -> None:
    text, mode = BY_KEY[key]
    for options in ({key: text}, {key.lower(): f" {text} "}, {key: text, "scan.mode": "default"}):
        asked = parse_stream_options(options)
        assert (asked.mode, asked.start) == (mode, (key, text))
    assert parse_stream_options({key: text, "scan.mode": mode.value}).mode is mode


@pytest.mark.parametrize("key", [k for k, (_, m) in BY_KEY.items() if m is StartMode.FROM_SNAPSHOT])
def test_any_version_can_be_read_in_full_first(key: str) -> None:
    asked = parse_stream_options({key: BY_KEY[key][0], "scan.mode": "from-snapshot-full"})
    assert (asked.mode, asked.start) == (StartMode.FROM_SNAPSHOT_FULL, (key, BY_KEY[key][0]))


@pytest.mark.parametrize("key", REFUSED)
def test_what_only_a_batch_can_read_is_refused_with_what_to_do(key: str) -> None:
    with pytest.raises(UnsupportedFeatureError) as caught:
        parse_stream_options({key: "1"})
    assert f"{key} = '1' cannot say where a stream begins" in caught.value.message
    assert "; give scan." in caught.value.message


@pytest.mark.parametrize("key", ["incremental-between-scan-mode", "incremental-between-tag-to-snapshot"])
def test_how_a_range_is_read_is_no_option_of_streams(key: str) -> None:
    with pytest.raises(UnsupportedFeatureError, match=f"{key} = .* not available in streams"):
        parse_stream_options({key: "diff"} if "mode" in key else {key: "true"})


@pytest.mark.parametrize("mode", ["incremental", "latest-delta", "Latest_Delta"])
def test_modes_of_batches_are_refused(mode: str) -> None:
    with pytest.raises(UnsupportedFeatureError, match=f"scan.mode = '{mode}' is not available in streams"):
        parse_stream_options({"scan.mode": mode})


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"scan.mode": "lates"}, "expected one of default, latest-full"),
        ({"scan.mode": "lates"}, "did you mean 'latest'"),
        ({"scan.mode": "from-timestamp"}, "needs one of scan.timestamp, scan.timestamp-millis, timestampAsOf; found n"),
        ({"scan.mode": "from-snapshot"}, "needs one of scan.snapshot-id"),
        ({"scan.mode": "from-snapshot-full", "scan.timestamp-millis": "1"}, "found scan.timestamp-millis = '1'; leave"),
        ({"scan.mode": "from-file-creation-time"}, "needs one of scan.file-creation-time-millis"),
        ({"scan.mode": "latest", "scan.snapshot-id": "1"}, "'latest' takes no other start; found scan.snapshot-id"),
        ({"scan.snapshot-id": "1", "scan.tag-name": "t"}, "scan.snapshot-id = '1' and scan.tag-name = 't'"),
        ({"scan.timestamp": "2024-01-01", "timestampasof": "2024-01-01"}, "only one option may say"),
        ({"scan.snapshot-id": "five"}, "scan.snapshot-id = 'five': expected a whole number"),
        ({"scan.snapshot-id": "0"}, "ids begin with 1"),
        ({"scan.savepoint-id": "-3"}, "ids begin with 1"),
        ({"scan.tag-name": " "}, "scan.tag-name is blank"),
        ({"scan.creation-time-millis": "yesterday"}, "expected a whole number"),
        ({"scan.timestamp-millis": "2024-01-01"}, "expected a whole number"),
    ],
)
def test_wrong_starts_say_what_is_wrong(options: dict[str, str], words: str) -> None:
    assert words in message(options)


def test_files_are_chosen_by_their_time_where_that_is_the_start() -> None:
    assert parse_stream_options({"scan.file-creation-time-millis": "7"}).created_since_ms == 7
    assert parse_stream_options({"scan.creation-time-millis": " -7 "}).created_since_ms == -7
    assert parse_stream_options({"scan.timestamp-millis": "7"}).created_since_ms is None
    assert LATEST_FULL.created_since_ms is None


# Limits and alignment


def test_limits_are_numbers_sizes_and_durations() -> None:
    asked = parse_stream_options(
        {
            "read.stream.maxFilesPerTrigger": "3",
            "read.stream.maxBytesPerTrigger": "1 mb",
            "read.stream.maxRowsPerTrigger": "4",
            "read.stream.minRowsPerTrigger": "5",
            "read.stream.maxTriggerDelayMs": "2 s",
        }
    )
    assert asked.limits == ReadLimits(3, 1 << 20, 4, 5, 2000)
    assert not asked.limits.unlimited
    plain = {"read.stream.maxBytesPerTrigger": "1000"}
    assert parse_stream_options(plain).limits == ReadLimits(max_bytes=1000)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"read.stream.maxFilesPerTrigger": "0"}, "expected at least 1"),
        ({"read.stream.maxFilesPerTrigger": "many"}, "expected a whole number"),
        ({"read.stream.maxRowsPerTrigger": "-1"}, "expected at least 1"),
        ({"read.stream.maxBytesPerTrigger": "1 parsec"}, "expected a size"),
        ({"read.stream.maxBytesPerTrigger": "0 mb"}, "expected at least 1"),
        ({"read.stream.maxTriggerDelayMs": "soon", "read.stream.minRowsPerTrigger": "1"}, "expected a duration"),
        ({"read.stream.minRowsPerTrigger": "1"}, "needs read.stream.maxTriggerDelayMs too; give both, or none"),
        ({"read.stream.maxTriggerDelayMs": "1"}, "needs read.stream.minRowsPerTrigger too; give both, or none"),
        ({"read.stream.aligned": "yes"}, "expected true or false"),
        ({"read.stream.aligned.snapshots": "0"}, "expected at least 1"),
        (
            {"read.stream.aligned": "true", "read.stream.maxRowsPerTrigger": "5"},
            "read.stream.aligned = 'true' makes a micro-batch of whole snapshots, which read.stream.maxRowsPerTrigger",
        ),
        (
            {"read.stream.aligned.snapshots": "2", "read.stream.maxBytesPerTrigger": "5"},
            "read.stream.aligned.snapshots = '2' makes a micro-batch of whole snapshots",
        ),
        (
            {"read.stream.aligned": "false", "read.stream.aligned.snapshots": "2"},
            "read.stream.aligned.snapshots = '2' contradicts read.stream.aligned = 'false'",
        ),
        ({"streaming.read.snapshot.delay": "late"}, "expected a duration"),
        ({"scan.bounded.watermark": "noon"}, "expected a whole number"),
        ({"consumer-id": " "}, "consumer-id is blank"),
        ({"consumer.ignore-progress": "no"}, "expected true or false"),
        ({"consumer.mode": "sloppy"}, "expected one of exactly-once, at-least-once"),
        ({"streaming-read-overwrite": "1"}, "expected true or false"),
    ],
)
def test_wrong_values_say_what_is_wrong(options: dict[str, str], words: str) -> None:
    assert words in message(options)


def test_alignment_is_one_snapshot_unless_a_number_is_given() -> None:
    assert parse_stream_options({"read.stream.aligned": "true"}).aligned == 1
    assert parse_stream_options({"read.stream.aligned": "true", "read.stream.aligned.snapshots": "3"}).aligned == 3
    assert parse_stream_options({"read.stream.aligned.snapshots": "3"}).aligned == 3
    assert parse_stream_options({"read.stream.aligned": "false"}).aligned is None


FOLLOW = {"lineage.follow": "etl 1", "lineage.job": "etl 2"}


def test_a_stream_that_follows_a_job_takes_no_stored_start_or_limits() -> None:
    stored = {"scan.mode": "latest", "read.stream.maxFilesPerTrigger": "1", "scan.bounded.watermark": "5"}
    assert parse_stream_options(FOLLOW, stored).follow == "etl 1"
    assert parse_stream_options(FOLLOW, stored) == parse_stream_options({**FOLLOW, "scan.mode": "latest-full"})
    assert parse_stream_options({"lineage.job": "etl 2"}).follow is None


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"lineage.follow": "etl 1"}, "needs option lineage.job, the name of the query that follows.*not given"),
        ({"lineage.follow": "j", "lineage.job": "j"}, "it is the followed job itself"),
        ({**FOLLOW, "lineage.follow": " "}, "lineage.follow is blank"),
        ({**FOLLOW, "scan.mode": "latest"}, "leave scan.mode = 'latest' out"),
        ({**FOLLOW, "scan.snapshot-id": "3"}, "leave scan.snapshot-id = '3' out"),
        ({**FOLLOW, "read.stream.aligned": "true"}, "leave read.stream.aligned = 'true' out"),
        ({**FOLLOW, "read.stream.maxRowsPerTrigger": "3"}, "leave read.stream.maxRowsPerTrigger = '3' out"),
        ({**FOLLOW, "streaming.read.snapshot.delay": "1 s"}, "leave streaming.read.snapshot.delay = '1 s' out"),
    ],
)
def test_a_stream_that_follows_a_job_begins_and_ends_its_batches_with_it(options: dict[str, str], words: str) -> None:
    assert re.search(words, message(options))


def test_the_rest_of_what_a_stream_can_be_asked() -> None:
    asked = parse_stream_options(
        {
            "consumer-id": "etl",
            "consumer.ignore-progress": "true",
            "consumer.mode": "at-least-once",
            "scan.bounded.watermark": "99",
            "streaming.read.snapshot.delay": "1 min",
            "streaming-read-overwrite": "true",
            "streaming-read-append-overwrite": "true",
        }
    )
    assert (asked.consumer, asked.ignore_progress) == ("etl", True)
    assert (asked.bounded_watermark, asked.delay_ms) == (99, 60_000)
    assert asked.read_overwrite
    assert asked.read_append_overwrite


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"stream-scan-mode": "file-monitor"}, "is of jobs that compact a table"),
        ({"stream-scan-mode": "compact-bucket-table"}, "stream-scan-mode = none"),
        ({"streaming-read-mode": "log"}, "not from a log system"),
        ({"scan.bucket": "1"}, "scan.bucket"),
    ],
)
def test_streams_of_another_kind_are_refused(options: dict[str, str], words: str) -> None:
    with pytest.raises(UnsupportedFeatureError) as caught:
        parse_stream_options(options)
    assert words in caught.value.message


def test_harmless_values_of_these_options_are_taken() -> None:
    assert parse_stream_options({"stream-scan-mode": "none", "streaming-read-mode": "FILE"}).mode is LATEST_FULL.mode


# What the table stores


def test_stored_options_count_where_the_read_gives_nothing() -> None:
    stored = {
        "consumer-id": "etl",
        "scan.mode": "latest",
        "read.stream.maxRowsPerTrigger": "5",
        "streaming.read.snapshot.delay": "1 s",
        "streaming-read-overwrite": "true",
        "bucket": "3",
    }
    asked = parse_stream_options({"consumer-id": "mine"}, stored)
    assert asked == StreamReadOptions(
        rows=ScanOptions(table_options={"consumer-id": "mine"}),
        mode=StartMode.LATEST,
        consumer="mine",
        delay_ms=1000,
        read_overwrite=True,
        limits=ReadLimits(max_rows=5),
    )


@pytest.mark.parametrize(
    ("given", "stored", "start"),
    [
        ({"scan.snapshot-id": "7"}, {"scan.mode": "latest"}, (StartMode.FROM_SNAPSHOT, ("scan.snapshot-id", "7"))),
        ({"scan.tag-name": "t"}, {"scan.snapshot-id": "1"}, (StartMode.FROM_SNAPSHOT, ("scan.tag-name", "t"))),
        ({"scan.mode": "latest-full"}, {"scan.timestamp-millis": "1"}, (StartMode.LATEST_FULL, None)),
        (
            {"scan.mode": "from-snapshot-full"},
            {"scan.mode": "from-snapshot", "scan.snapshot-id": "1"},
            (StartMode.FROM_SNAPSHOT_FULL, ("scan.snapshot-id", "1")),
        ),
        ({"scan.mode": "default"}, {"scan.tag-name": "t"}, (StartMode.FROM_SNAPSHOT, ("scan.tag-name", "t"))),
        ({}, {"log.scan": "latest"}, (StartMode.LATEST, None)),
        ({}, {"log.scan": "latest", "scan.mode": "full"}, (StartMode.LATEST_FULL, None)),
        ({}, {"log.scan.timestamp-millis": "4"}, (StartMode.FROM_TIMESTAMP, ("scan.timestamp-millis", "4"))),
        ({"scan.mode": "latest"}, {"incremental-between": "1,2"}, (StartMode.LATEST, None)),
    ],
)
def test_a_start_given_takes_the_place_of_a_stored_one(
    given: dict[str, str], stored: dict[str, str], start: tuple[StartMode, tuple[str, str] | None]
) -> None:
    asked = parse_stream_options(given, stored)
    assert (asked.mode, asked.start) == start


def test_given_limits_take_the_place_of_stored_alignment_and_the_reverse() -> None:
    limits, aligned = {"read.stream.maxRowsPerTrigger": "5"}, {"read.stream.aligned.snapshots": "2"}
    assert parse_stream_options(limits, aligned) == parse_stream_options(limits)
    assert parse_stream_options(aligned, limits) == parse_stream_options(aligned)
    assert parse_stream_options({"read.stream.aligned": "false"}, aligned).aligned is None
    assert parse_stream_options({"read.stream.aligned": "false"}, limits).limits == ReadLimits(max_rows=5)
    both = parse_stream_options({"read.stream.minRowsPerTrigger": "2"}, {"read.stream.maxTriggerDelayMs": "9"})
    assert both.limits == ReadLimits(min_rows=2, max_delay_ms=9)


def test_messages_say_which_option_the_table_stores() -> None:
    assert "scan.mode = 'latest' (stored in the table)" in message({}, {"scan.mode": "latest", "scan.tag-name": "t"})
    assert "the table stores this value" in message({}, {"read.stream.maxRowsPerTrigger": "x"})
    assert "stored" not in message({"read.stream.maxRowsPerTrigger": "x"}, {"read.stream.maxRowsPerTrigger": "5"})
    with pytest.raises(UnsupportedFeatureError, match=r"scan.watermark = '1' \(stored in the table\)"):
        parse_stream_options({}, {"scan.watermark": "1"})


def test_stored_options_of_other_engines_do_not_matter() -> None:
    assert parse_stream_options({}, {"my.engine": "x", "scan.bucket": "1"}) == LATEST_FULL


def test_what_needs_the_table_does_not_hinder_opening_it() -> None:
    given = {"scan.mode": "from-snapshot", "read.stream.minRowsPerTrigger": "2", "branch": "b"}
    assert parse_rows_options(given).branch == "b"
    stored = {"scan.snapshot-id": "3", "read.stream.maxTriggerDelayMs": "1 s"}
    assert parse_stream_options(given, stored).start == ("scan.snapshot-id", "3")


def test_options_pickle() -> None:
    asked = parse_stream_options({"scan.version": "v", "read.stream.aligned": "true"})
    assert pickle.loads(pickle.dumps(asked)) == asked
