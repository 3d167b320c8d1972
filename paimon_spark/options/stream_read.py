"""Options of one streaming read: StreamReadOptions.

A table may store options of streams (`consumer-id`, `scan.mode`, `read.stream.*`); they count where the read gives
nothing else. A start given with the read replaces a stored one as a whole; given limits replace stored alignment, and
the reverse.

Source: Java `CoreOptions.startupMode`, `SchemaValidation.validateStartupMode`, `SparkConnectorOptions`,
`PaimonMicroBatchStream`; `read.stream.aligned` is this package's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from paimon_spark.errors import InvalidOptionError, UnsupportedFeatureError
from paimon_spark.options.descriptor import (
    InForce,
    Option,
    at_least_one,
    boolean,
    did_you_mean,
    duration_ms,
    enum_of,
    integer,
    memory_size,
    string,
)
from paimon_spark.options.lineage import FOLLOW, JOB
from paimon_spark.options.scan import (
    CREATION_TIME_KEY,
    FILE_TIME_KEY,
    INCREMENTAL_KEYS,
    OLD_KEYS,
    VERSION_AS_OF,
    ScanOptions,
    canonical,
    parse_scan_options,
)


class StartMode(StrEnum):
    """Where a new stream begins (`scan.mode`)."""

    LATEST_FULL = "latest-full"
    LATEST = "latest"
    COMPACTED_FULL = "compacted-full"
    FROM_TIMESTAMP = "from-timestamp"
    FROM_SNAPSHOT = "from-snapshot"
    FROM_SNAPSHOT_FULL = "from-snapshot-full"
    FROM_FILE_CREATION_TIME = "from-file-creation-time"
    FROM_CREATION_TIMESTAMP = "from-creation-timestamp"


class _ConsumerMode(StrEnum):
    """How exactly progress of a consumer is kept (`consumer.mode`)."""

    EXACTLY_ONCE = "exactly-once"
    AT_LEAST_ONCE = "at-least-once"


MODE: Option[str] = Option("scan.mode", string, "default", "Where a new stream starts.", ("log.scan",))
CONSUMER: Option[str | None] = Option(
    "consumer-id", string, None, "Name of the consumer whose progress the branch stores."
)
IGNORE_PROGRESS = Option(
    "consumer.ignore-progress",
    boolean,
    False,
    "Start a new stream as scan.mode says, even if the consumer has stored progress.",
)
CONSUMER_MODE = Option(
    "consumer.mode",
    enum_of(_ConsumerMode),
    _ConsumerMode.EXACTLY_ONCE,
    "For Flink readers; reads of this package are always exactly-once.",
)
BOUNDED_WATERMARK: Option[int | None] = Option(
    "scan.bounded.watermark", integer, None, "The stream ends before the first snapshot with a larger watermark."
)
DELAY: Option[int | None] = Option(
    "streaming.read.snapshot.delay", duration_ms, None, "Minimum age of a snapshot before it is read."
)
READ_OVERWRITE = Option(
    "streaming-read-overwrite", boolean, False, "Read the overwrites of a primary-key table as changes."
)
READ_APPEND_OVERWRITE = Option(
    "streaming-read-append-overwrite", boolean, False, "Read the rows that overwrites of an append table write."
)
MAX_FILES: Option[int | None] = Option(
    "read.stream.maxFilesPerTrigger", at_least_one(integer), None, "Soft limit of the number of files of a micro-batch."
)
MAX_BYTES: Option[int | None] = Option(
    "read.stream.maxBytesPerTrigger", at_least_one(memory_size), None, "Soft limit of the size of a micro-batch."
)
MAX_ROWS: Option[int | None] = Option(
    "read.stream.maxRowsPerTrigger", at_least_one(integer), None, "Soft limit of the number of rows of a micro-batch."
)
MIN_ROWS: Option[int | None] = Option(
    "read.stream.minRowsPerTrigger", at_least_one(integer), None, "Number of rows that a micro-batch waits for."
)
MAX_DELAY: Option[int | None] = Option(
    "read.stream.maxTriggerDelayMs",
    at_least_one(duration_ms),
    None,
    "Maximum time that a micro-batch waits for that number of rows.",
)
LIMITS: Final = (MAX_FILES, MAX_BYTES, MAX_ROWS, MIN_ROWS, MAX_DELAY)
ALIGNED = Option(
    "read.stream.aligned", boolean, False, "Each micro-batch reads exactly one snapshot that changed rows."
)
ALIGNED_SNAPSHOTS: Option[int | None] = Option(
    "read.stream.aligned.snapshots",
    at_least_one(integer),
    None,
    "Number of such snapshots that an aligned micro-batch reads.",
)
ALIGNMENT: Final = (ALIGNED, ALIGNED_SNAPSHOTS)
SCAN_KIND = Option("stream-scan-mode", string, "none", "For Paimon's compaction jobs.")
READ_MODE = Option(
    "streaming-read-mode", string, "file", "For tables with a log system, which Paimon no longer supports."
)

STREAM_OPTIONS: Final[tuple[Option[Any], ...]] = (
    *LIMITS, *ALIGNMENT, CONSUMER, IGNORE_PROGRESS, CONSUMER_MODE, BOUNDED_WATERMARK, DELAY, READ_OVERWRITE,
    READ_APPEND_OVERWRITE,
)  # fmt: skip
"""Options that only streams have."""

TIME_KEYS: Final = ("scan.timestamp", "scan.timestamp-millis", "timestampAsOf")
SNAPSHOT_KEYS: Final = (
    "scan.snapshot-id", "scan.tag-name", "scan.tag-id", "scan.savepoint-id", "scan.version", VERSION_AS_OF,
)  # fmt: skip
WATERMARK_KEY: Final = "scan.watermark"
MILLIS_KEYS: Final = ("scan.timestamp-millis", FILE_TIME_KEY, CREATION_TIME_KEY)
ID_KEYS: Final = ("scan.snapshot-id", "scan.tag-id", "scan.savepoint-id")
_MODES: Final = ", ".join(m.value for m in StartMode)
_BATCH_MODES: Final = ("incremental", "latest-delta")
_KEYS_OF: Final[Mapping[StartMode, tuple[str, ...]]] = {
    StartMode.FROM_TIMESTAMP: TIME_KEYS,
    StartMode.FROM_SNAPSHOT: SNAPSHOT_KEYS,
    StartMode.FROM_SNAPSHOT_FULL: SNAPSHOT_KEYS,
    StartMode.FROM_FILE_CREATION_TIME: (FILE_TIME_KEY,),
    StartMode.FROM_CREATION_TIMESTAMP: (CREATION_TIME_KEY,),
}
"""The options of which a mode needs one; other modes take none."""
_MODE_OF: Final[Mapping[str, StartMode]] = {
    **dict.fromkeys(TIME_KEYS, StartMode.FROM_TIMESTAMP),
    **dict.fromkeys(SNAPSHOT_KEYS, StartMode.FROM_SNAPSHOT),
    FILE_TIME_KEY: StartMode.FROM_FILE_CREATION_TIME,
    CREATION_TIME_KEY: StartMode.FROM_CREATION_TIMESTAMP,
}
"""What an option stands for where `scan.mode` is not given, or `default`."""
_START_KEYS: Final = (*_MODE_OF, WATERMARK_KEY, *INCREMENTAL_KEYS)


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """Limits of one micro-batch; None for no limit.

    Attributes:
        min_rows: rows that it waits for, at most `max_delay_ms`.
    """

    max_files: int | None = None
    max_bytes: int | None = None
    max_rows: int | None = None
    min_rows: int | None = None
    max_delay_ms: int | None = None

    @property
    def unlimited(self) -> bool:
        return self == _UNLIMITED


_UNLIMITED: Final = ReadLimits()


@dataclass(frozen=True, slots=True)
class StreamReadOptions:
    """Options of one streaming read.

    Attributes:
        rows: branch, columns and rows that are read; it names no version.
        mode: where a new stream begins; never `default`, which the other options decide.
        start: the option that `mode` needs, and its text; None for a mode that needs none.
        aligned: how many snapshots that changed something a micro-batch is; None for any number.
        follow: the job with which the stream keeps in step; None for none.
    """

    rows: ScanOptions = field(default_factory=ScanOptions)
    mode: StartMode = StartMode.LATEST_FULL
    start: tuple[str, str] | None = None
    consumer: str | None = None
    ignore_progress: bool = False
    bounded_watermark: int | None = None
    delay_ms: int | None = None
    read_overwrite: bool = False
    read_append_overwrite: bool = False
    limits: ReadLimits = _UNLIMITED
    aligned: int | None = None
    follow: str | None = None

    @property
    def created_since_ms(self) -> int | None:
        """Files made before are left out of a state with which the stream begins; None for all files."""
        if self.start is None or self.start[0] not in (FILE_TIME_KEY, CREATION_TIME_KEY):
            return None
        return int(self.start[1])


def check_stream_values(options: Mapping[str, str]) -> None:
    """Check the values of given options that only streams have. Raises InvalidOptionError: one is of the wrong type."""
    given = canonical(options)
    for known in STREAM_OPTIONS:
        known.get(given)


def parse_rows_options(options: Mapping[str, str]) -> ScanOptions:
    """Parse what a streaming read asks of the table before it is opened: branch, columns, rows.

    Raises:
        InvalidOptionError: an unknown option (the nearest name is offered), or a value of the wrong type.
        UnsupportedFeatureError: an option that this package does not have.
    """
    given = _renamed(canonical(options))
    return parse_scan_options({k: v for k, v in given.items() if k not in (*_START_KEYS, MODE.key)})


def parse_stream_options(options: Mapping[str, str], stored: Mapping[str, str] | None = None) -> StreamReadOptions:
    """Parse the options of a streaming read; keys that locate the table are ignored.

    Args:
        options: what the read gives, keys in any case.
        stored: the options of the table's schema (`handle.schema.options`), which count where the read gives nothing.

    Raises:
        InvalidOptionError: an unknown option (the nearest name is offered), a value of the wrong type, or options that
            contradict each other.
        UnsupportedFeatureError: a start or a kind of stream that this package does not have.
    """
    rows = parse_rows_options(options)
    given = _renamed(canonical(options))
    asked = _in_force(given, _renamed(stored or {}))
    _refuse_other_streams(asked, given)
    mode, start = _start(asked)
    consumer = asked.get(CONSUMER)
    if consumer is not None and not consumer.strip():
        raise InvalidOptionError(f"option {CONSUMER.key} is blank; leave it out for none", option=CONSUMER.key)
    asked.get(CONSUMER_MODE)  # a reader that Spark drives is exact whichever is asked
    return StreamReadOptions(
        rows=rows,
        mode=mode,
        start=start,
        consumer=consumer,
        ignore_progress=asked.get(IGNORE_PROGRESS),
        bounded_watermark=asked.get(BOUNDED_WATERMARK),
        delay_ms=asked.get(DELAY),
        read_overwrite=asked.get(READ_OVERWRITE),
        read_append_overwrite=asked.get(READ_APPEND_OVERWRITE),
        limits=_limits(asked),
        aligned=_aligned(asked),
        follow=_followed(asked, mode),
    )


def _renamed(options: Mapping[str, str]) -> dict[str, str]:
    """Old keys by their later names; where both are there, the later one counts."""
    old = {OLD_KEYS[k]: v for k, v in options.items() if k in OLD_KEYS}
    return old | {k: v for k, v in options.items() if k not in OLD_KEYS}


def _in_force(given: Mapping[str, str], stored: Mapping[str, str]) -> InForce:
    """Given options over stored ones, without those stored ones whose place given ones take."""
    dropped: set[str] = set()
    if any(key in given for key in _START_KEYS):
        dropped.update(_START_KEYS, (MODE.key,))
    elif MODE.key in given:
        mode = _mode_named(given[MODE.key])
        dropped.update(() if mode is None else set(_START_KEYS) - set(_KEYS_OF.get(mode, ())))
    if any(option.key in given for option in LIMITS):
        dropped.update(option.key for option in ALIGNMENT)
    if _wants_alignment(given):
        dropped.update(option.key for option in LIMITS)
    elif ALIGNED.key in given:
        dropped.add(ALIGNED_SNAPSHOTS.key)
    if FOLLOW.key in given:
        dropped.update(_ENDS, _START_KEYS, (MODE.key,))
    kept = {k: v for k, v in stored.items() if k not in given and k not in dropped}
    return InForce({**kept, **given}, frozenset(kept))


def _wants_alignment(options: Mapping[str, str]) -> bool:
    """Whether alignment is asked for, also by a number of snapshots alone."""
    return ALIGNED.get(options) or (ALIGNED.key not in options and ALIGNED_SNAPSHOTS.key in options)


def _mode_named(text: str) -> StartMode | None:
    """The mode of a text; None for `default`. Raises InvalidOptionError, UnsupportedFeatureError."""
    name = text.strip().lower().replace("_", "-")
    if name == "default":
        return None
    if name == "full":
        return StartMode.LATEST_FULL
    if name in _BATCH_MODES:
        raise UnsupportedFeatureError(
            f"scan.mode = {text!r} is not available in streams; give one of {_MODES}",
            feature=f"scan.mode = {name}",
        )
    try:
        return enum_of(StartMode)(name)
    except ValueError:
        raise InvalidOptionError(
            f"option scan.mode = {text!r}: expected one of default, {_MODES}"
            f"{did_you_mean(name, (m.value for m in StartMode))}",
            option=MODE.key,
            value=text,
        ) from None


def _start(asked: InForce) -> tuple[StartMode, tuple[str, str] | None]:
    keys = asked.found(_START_KEYS)
    if len(keys) > 1:
        raise InvalidOptionError(
            "only one option may say where a stream begins; found are " + " and ".join(map(asked.show, keys)),
            options=keys,
        )
    key = keys[0] if keys else None
    _refuse_batch_start(asked, key)
    named = _mode_named(asked.options[MODE.key]) if MODE.key in asked.options else None
    mode = named or (StartMode.LATEST_FULL if key is None else _MODE_OF[key])
    wanted = _KEYS_OF.get(mode, ())
    if key is None and not wanted:
        return mode, None
    if key is None or key not in wanted:
        needs = f"needs one of {', '.join(wanted)}" if wanted else "takes no other start"
        found = "none" if key is None else f"{asked.show(key)}; leave one of them out"
        raise InvalidOptionError(f"{asked.show(MODE.key)} {needs}; found {found}", option=key or MODE.key)
    return mode, (key, _start_text(asked, key))


def _refuse_batch_start(asked: InForce, key: str | None) -> None:
    if key is not None and key not in _MODE_OF:
        instead = "scan.timestamp-millis, scan.snapshot-id" if key == WATERMARK_KEY else f"scan.mode ({_MODES})"
        raise UnsupportedFeatureError(
            f"{asked.show(key)} cannot say where a stream begins; give {instead} with the read",
            feature=key,
        )


def _start_text(asked: InForce, key: str) -> str:
    text = asked.options[key].strip()
    if not text:
        raise InvalidOptionError(f"option {key} is blank", option=key, value=asked.options[key])
    if key not in (*MILLIS_KEYS, *ID_KEYS):
        return text
    number = asked.get(Option(key, integer, 0, ""))
    if key in ID_KEYS and number < 1:
        raise InvalidOptionError(f"option {asked.show(key)}: ids begin with 1", option=key, value=text)
    return str(number)


def _refuse_other_streams(asked: InForce, given: Mapping[str, str]) -> None:
    if asked.get(SCAN_KIND).strip().lower() not in ("none", ""):
        raise UnsupportedFeatureError(
            f"{asked.show(SCAN_KIND.key)} is of jobs that compact a table or watch its files, not of reads; "
            f"leave it out, or give {SCAN_KIND.key} = none",
            feature=SCAN_KIND.key,
        )
    if asked.get(READ_MODE).strip().lower() not in ("file", ""):
        raise UnsupportedFeatureError(
            f"{asked.show(READ_MODE.key)}: streams are read from the files of the table, not from a log system beside "
            f"it; leave the option out, or give {READ_MODE.key} = file",
            feature=READ_MODE.key,
        )
    ranges = [key for key in given if key.startswith("incremental-") and key not in _START_KEYS]
    if ranges:
        raise UnsupportedFeatureError(
            f"{asked.show(ranges[0])} is not available in streams; leave it out",
            feature=ranges[0],
        )


_ENDS: Final = (*(o.key for o in (*LIMITS, *ALIGNMENT)), BOUNDED_WATERMARK.key, DELAY.key)
"""Options that say where micro-batches end."""


def _followed(asked: InForce, mode: StartMode) -> str | None:
    job = asked.get(FOLLOW)
    if job is None:
        return None
    if not job.strip():
        raise InvalidOptionError(f"option {FOLLOW.key} is blank; name the job to follow", option=FOLLOW.key)
    given = asked.found((*_START_KEYS, *_ENDS))
    if given or mode is not StartMode.LATEST_FULL:
        other = given[0] if given else MODE.key
        raise InvalidOptionError(
            f"{asked.show(FOLLOW.key)} says where the stream begins and where its micro-batches end: as those of that "
            f"job; leave {asked.show(other)} out",
            option=FOLLOW.key,
        )
    name = asked.get(JOB)
    if name is None or name == job:
        found = "it is not given" if name is None else "it is the followed job itself"
        raise InvalidOptionError(
            f"{asked.show(FOLLOW.key)} needs option {JOB.key}, the name of the query that follows, on each of its "
            f"reads and on its write; {found}",
            option=JOB.key,
        )
    return job


def _limits(asked: InForce) -> ReadLimits:
    found = ReadLimits(*(asked.get(option) for option in LIMITS))
    if (found.min_rows is None) != (found.max_delay_ms is None):
        there, other = (MIN_ROWS, MAX_DELAY) if found.max_delay_ms is None else (MAX_DELAY, MIN_ROWS)
        raise InvalidOptionError(f"{asked.show(there.key)} needs {other.key} too; give both, or none", option=there.key)
    return found


def _aligned(asked: InForce) -> int | None:
    count = asked.get(ALIGNED_SNAPSHOTS)
    if not asked.get(ALIGNED) and (ALIGNED.key in asked.options or count is None):
        if count is not None:
            raise InvalidOptionError(
                f"{asked.show(ALIGNED_SNAPSHOTS.key)} contradicts {asked.show(ALIGNED.key)}; give one of them",
                option=ALIGNED_SNAPSHOTS.key,
            )
        return None
    limits = asked.found(option.key for option in LIMITS)
    if limits:
        aligned = ALIGNED.key if ALIGNED.key in asked.options else ALIGNED_SNAPSHOTS.key
        raise InvalidOptionError(
            f"{asked.show(aligned)} makes a micro-batch of whole snapshots, which {asked.show(limits[0])} cannot "
            "limit; leave one of them out",
            options=[aligned, *limits],
        )
    return 1 if count is None else count
