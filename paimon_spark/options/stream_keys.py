"""The options of streaming reads, one by one.

Source: Java `CoreOptions`, `SparkConnectorOptions`; `read.stream.aligned` is this package's own.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from functools import wraps
from typing import Final

from paimon_spark.options.descriptor import Option, boolean, duration_ms, enum_of, integer, memory_size, string


class ConsumerMode(str, Enum):
    """How exactly progress of a consumer is kept (`consumer.mode`)."""

    EXACTLY_ONCE = "exactly-once"
    AT_LEAST_ONCE = "at-least-once"


def _at_least_one(parse: Callable[[str], int]) -> Callable[[str], int]:
    @wraps(parse)  # references name the kind of value by it
    def checked(text: str) -> int:
        value = parse(text)
        if value < 1:
            raise ValueError("expected at least 1")
        return value

    return checked


MODE: Option[str] = Option("scan.mode", string, "default", "Where a new stream begins.", ("log.scan",))
CONSUMER: Option[str | None] = Option(
    "consumer-id", string, None, "Name under which the branch keeps what the stream has yet to read."
)
IGNORE_PROGRESS = Option(
    "consumer.ignore-progress", boolean, False, "A new stream begins as scan.mode says, whatever its consumer has read."
)
CONSUMER_MODE = Option(
    "consumer.mode", enum_of(ConsumerMode), ConsumerMode.EXACTLY_ONCE, "Of Flink's readers; here all are exact."
)
BOUNDED_WATERMARK: Option[int | None] = Option(
    "scan.bounded.watermark", integer, None, "The stream ends before the first snapshot with a later watermark."
)
DELAY: Option[int | None] = Option(
    "streaming.read.snapshot.delay", duration_ms, None, "Age that a snapshot has to reach before it is read."
)
READ_OVERWRITE = Option(
    "streaming-read-overwrite", boolean, False, "Overwrites of a table with a primary key are read as changes."
)
READ_APPEND_OVERWRITE = Option(
    "streaming-read-append-overwrite", boolean, False, "Rows that overwrites of an append table write are read."
)
MAX_FILES: Option[int | None] = Option(
    "read.stream.maxFilesPerTrigger", _at_least_one(integer), None, "Files after which a micro-batch takes no more."
)
MAX_BYTES: Option[int | None] = Option(
    "read.stream.maxBytesPerTrigger", _at_least_one(memory_size), None, "Bytes after which a micro-batch takes no more."
)
MAX_ROWS: Option[int | None] = Option(
    "read.stream.maxRowsPerTrigger", _at_least_one(integer), None, "Rows after which a micro-batch takes no more."
)
MIN_ROWS: Option[int | None] = Option(
    "read.stream.minRowsPerTrigger", _at_least_one(integer), None, "Rows that a micro-batch waits for."
)
MAX_DELAY: Option[int | None] = Option(
    "read.stream.maxTriggerDelayMs", _at_least_one(duration_ms), None, "How long a micro-batch waits for them."
)
LIMITS: Final = (MAX_FILES, MAX_BYTES, MAX_ROWS, MIN_ROWS, MAX_DELAY)
ALIGNED = Option("read.stream.aligned", boolean, False, "A micro-batch is one snapshot that changed something.")
ALIGNED_SNAPSHOTS: Option[int | None] = Option(
    "read.stream.aligned.snapshots", _at_least_one(integer), None, "How many such snapshots an aligned micro-batch is."
)
ALIGNMENT: Final = (ALIGNED, ALIGNED_SNAPSHOTS)
SCAN_KIND = Option("stream-scan-mode", string, "none", "Of jobs that compact tables.")
READ_MODE = Option("streaming-read-mode", string, "file", "Of tables with a log system, which Paimon has no more.")

TIME_KEYS: Final = ("scan.timestamp", "scan.timestamp-millis", "timestampAsOf")
SNAPSHOT_KEYS: Final = (
    "scan.snapshot-id", "scan.tag-name", "scan.tag-id", "scan.savepoint-id", "scan.version", "versionAsOf",
)  # fmt: skip
FILE_TIME_KEY: Final = "scan.file-creation-time-millis"
CREATION_TIME_KEY: Final = "scan.creation-time-millis"
WATERMARK_KEY: Final = "scan.watermark"
MILLIS_KEYS: Final = ("scan.timestamp-millis", FILE_TIME_KEY, CREATION_TIME_KEY)
ID_KEYS: Final = ("scan.snapshot-id", "scan.tag-id", "scan.savepoint-id")
OLD_KEYS: Final = {"log.scan.timestamp-millis": "scan.timestamp-millis", "log.scan": "scan.mode"}
"""Keys of older releases, and what they are called now."""
