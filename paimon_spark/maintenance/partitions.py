"""Expire old partitions by a commit, and write the `_SUCCESS` files of finished partitions.

The data files of expired partitions stay while snapshots need them.

Without a formatter, times in partition values are read as Paimon reads them: `yyyy-M-d[ H:m:s[.fraction]]`, where day
32 is the first of the next month. A formatter is a pattern of Java's `DateTimeFormatter`, with numbers only. Times are
local, in milliseconds since 1970 as if in UTC: years may be beyond the range of Python's dates.

Source: Java `operation/NormalPartitionExpire`, `partition/Partition*ExpireStrategy`,
`partition/PartitionTimeExtractor`, `partition/actions/SuccessFileMarkDoneAction`, `partition/file/SuccessFile`; JDK
`DateTimeFormatterBuilder.appendPattern`.
"""

from __future__ import annotations

import json
import re
from calendar import isleap, monthrange
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.display import ShownAsFacts, amount
from paimon_spark.engine.commit.committer import Committer, new_commit_user
from paimon_spark.engine.commit.entries import column, numbers, where
from paimon_spark.engine.commit.overwrite import ChosenPartitions
from paimon_spark.engine.scan.fallback import OtherPartitions, other_partitions
from paimon_spark.errors import CorruptFileError, InvalidInputError, InvalidOptionError, UnsupportedFeatureError
from paimon_spark.format.arrays.arrow_numpy import array_of, validity, values
from paimon_spark.format.json_files import decode_object
from paimon_spark.format.metadata_files.data_file import wall_clock_of
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.live_files import live_entries
from paimon_spark.metadata.manifests import data_manifests
from paimon_spark.metadata.partition_path import PartitionDirectories, partition_path_of, partition_texts
from paimon_spark.metadata.retry import now_ms
from paimon_spark.metadata.snapshots import latest_snapshot
from paimon_spark.options.retention import (
    PARTITION_EXPIRATION_TIME,
    PARTITION_STRATEGY,
    PARTITION_TIMESTAMP_FORMATTER,
    PARTITION_TIMESTAMP_PATTERN,
    PartitionExpiryOptions,
)
from paimon_spark.redaction import get_logger
from paimon_spark.text import counted, named

_LOG = get_logger(__name__)


@dataclass(frozen=True, slots=True, repr=False)
class ExpiredPartitions(ShownAsFacts):
    """The partitions that were dropped, or with a dry run would be.

    Attributes:
        partitions: as in paths, `dt=2024-01-01/hour=7`.
        snapshot_ids: of the commits that dropped them.
        rows: physical rows, before merging.
        bytes: of data files.
    """

    partitions: tuple[str, ...] = ()
    snapshot_ids: tuple[int, ...] = ()
    data_files: int = 0
    rows: int = 0
    bytes: int = 0

    @property
    def dry_run(self) -> bool:
        """Whether nothing was dropped."""
        return bool(self.partitions) and not self.snapshot_ids

    def text_lines(self) -> list[str]:
        if not self.partitions:
            return ["no partition is old enough"]
        found = f"{counted(self.rows, 'row')} in {counted(self.data_files, 'file')}, {amount(self.bytes)}"
        return [f"{'would drop' if self.dry_run else 'dropped'} {named(self.partitions, 'partition')}: {found}"]


def expire_partitions(
    handle: TableHandle, *, dry_run: bool = False, clock_ms: Callable[[], int] = now_ms
) -> ExpiredPartitions:
    """Drop the branch's partitions that are older than its options allow.

    Ages are checked again when the commit is made, so with `update-time` a partition written to meanwhile stays. A
    partition that a fallback branch also has stays, with a warning.
    """
    options = handle.options.partition_expiry
    if not handle.schema.partition_keys:
        raise InvalidInputError(
            f"{handle.describe()} has no partition columns, so no partition expires", table=handle.name
        )
    if options is None:
        raise InvalidInputError(
            f"partitions of {handle.describe()} never expire; set option {PARTITION_EXPIRATION_TIME.key}, or give "
            "expiration_time",
            table=handle.name,
        )
    ages = _Ages(handle, options, clock_ms())
    head = latest_snapshot(handle)
    if head is None:
        return ExpiredPartitions()
    entries = live_entries(handle, data_manifests(handle, head))
    going = ages.first(entries, other_partitions(handle, head))
    if not going:
        return ExpiredPartitions()
    found = _summary(handle, entries, going)
    return found if dry_run else replace(found, snapshot_ids=tuple(_drop(handle, options, ages, going)))


def _drop(handle: TableHandle, options: PartitionExpiryOptions, ages: _Ages, going: Sequence[bytes]) -> Iterator[int]:
    # A commit user of its own: a stream that looks for its last commit must not find this one.
    committer = Committer(handle, new_commit_user(handle.options))
    size = options.batch_size or len(going)
    for start in range(0, len(going), size):
        batch = frozenset(going[start : start + size])

        def choose(entries: pa.Table, batch: frozenset[bytes] = batch) -> list[bytes]:
            return [p for p in ages.expired(entries) if p in batch]

        yield from committer.overwrite([], partitions=ChosenPartitions(choose)).snapshot_ids


class _Ages:
    """Which partitions are old at one time."""

    def __init__(self, handle: TableHandle, options: PartitionExpiryOptions, at_ms: int) -> None:
        self._handle, self._options = handle, options
        # Times of files and times in values are both local.
        self._limit_ms = wall_clock_of(at_ms) - options.age_ms
        self._parse = parser_of(options.formatter)
        self._without_time: list[bytes] = []

    def first(self, entries: pa.Table, fallback: OtherPartitions | None) -> list[bytes]:
        """The partitions to drop now, in the order of their texts, up to the limit; not the fallback branch's."""
        going = sorted(self.expired(entries), key=self._sort_key)
        if self._without_time:
            _LOG.warning(
                "%d partitions of %s contain no time and never expire, such as %s; set %s and %s to the format of "
                "their values, or %s = update-time",
                len(self._without_time),
                self._handle.describe(),
                partition_path_of(self._handle, self._without_time[0]),
                PARTITION_TIMESTAMP_PATTERN.key,
                PARTITION_TIMESTAMP_FORMATTER.key,
                PARTITION_STRATEGY.key,
            )
        kept = [] if fallback is None else [p for p in going if p in fallback.behind]
        if fallback is not None and kept:
            _LOG.warning(
                "%d old partitions of %s stay, such as %s: branch %s also has them, and its rows would be read then; "
                "expire the partitions of that branch first",
                len(kept),
                self._handle.describe(),
                partition_path_of(self._handle, kept[0]),
                fallback.other.handle.branch,
            )
            going = [p for p in going if p not in fallback.behind]
        return going[: self._options.max_num]

    def expired(self, entries: pa.Table) -> list[bytes]:
        """The old partitions among those of the live files."""
        encoded = column(entries, "partition").dictionary_encode()
        partitions: list[bytes] = encoded.dictionary.to_pylist()
        if self._options.ages_by_values:
            return self._expired_by_value(partitions)
        files = column(entries, "creation_time_ms")
        # A file of unknown age counts as new.
        times = np.where(validity(files), values(files), np.iinfo(np.int64).max)
        newest = np.full(len(partitions), np.iinfo(np.int64).min)
        np.maximum.at(newest, values(encoded.indices), times)
        return [p for p, ms in zip(partitions, newest.tolist(), strict=True) if ms < self._limit_ms]

    def _expired_by_value(self, partitions: Sequence[bytes]) -> list[bytes]:
        found = []
        self._without_time = []
        for partition in partitions:
            text = text_of(self._options.pattern, self._texts(partition))
            time_ms = None if text is None else self._parse(text)
            if time_ms is None:
                self._without_time.append(partition)
            elif time_ms < self._limit_ms:
                found.append(partition)
        return found

    def _sort_key(self, partition: bytes) -> str:
        null = self._handle.options.partition_default_name
        return ",".join(null if text is None else text for text in self._texts(partition).values())

    def _texts(self, partition: bytes) -> dict[str, str | None]:
        """The values as text in Paimon's internal form: a DATE is a number of days."""
        return partition_texts(self._handle, partition, legacy=True)


def _summary(handle: TableHandle, entries: pa.Table, going: Sequence[bytes]) -> ExpiredPartitions:
    gone = where(entries, values(pc.is_in(column(entries, "partition"), value_set=array_of(going, pa.binary()))))
    return ExpiredPartitions(
        tuple(partition_path_of(handle, p) for p in going),
        (),
        len(gone),
        int(numbers(gone, "row_count").sum()),
        int(numbers(gone, "file_size").sum()),
    )


_ACTION: Final = "partition.mark-done-action"
_SUCCESS_FILE: Final = "success-file"


def mark_done(
    handle: TableHandle, partitions: Sequence[Mapping[str, object]], *, clock_ms: Callable[[], int] = now_ms
) -> None:
    """Write the `_SUCCESS` files of partitions; existing files get a new modification time."""
    actions = handle.options.expiry.mark_done_action
    if any(action.strip() != _SUCCESS_FILE for action in actions.split(",")):
        raise UnsupportedFeatureError(
            f"option {_ACTION} = {actions!r} of {handle.describe()} is not supported; only {_SUCCESS_FILE} is",
            feature=_ACTION,
        )
    directories = PartitionDirectories(handle)
    for path in [f"{handle.layout.root}/{directories.named(_texts(handle, p))}/_SUCCESS" for p in partitions]:
        now = clock_ms()
        created = _created_ms(handle, path) if handle.store.exists(path) else now
        text = json.dumps({"creationTime": created, "modificationTime": now}, indent=2)
        handle.store.write(path, text.encode())


def _texts(handle: TableHandle, partition: Mapping[str, object]) -> list[str]:
    keys = handle.schema.partition_keys[: len(partition)]
    if not partition or set(keys) != set(partition):
        raise InvalidInputError(
            f"a partition of {handle.describe()} needs values of {', '.join(handle.schema.partition_keys)}, or of the "
            f"first of them; found {', '.join(partition) or 'nothing'}",
            table=handle.name,
        )
    null = handle.options.partition_default_name
    return [null if partition[k] is None else str(partition[k]) for k in keys]


def _created_ms(handle: TableHandle, path: str) -> int:
    return decode_object(
        handle.store.read(path),
        lambda raw: int(raw["creationTime"]),
        lambda why: CorruptFileError(
            f"{handle.store.url(path)} has no creationTime ({why}); delete it and mark the partition again", path=path
        ),
    )


_DAY_MS: Final = 86_400_000
_DEFAULT: Final = re.compile(
    r"(-?\d{1,10})-(-?\d{1,2})-(-?\d{1,2})(?: (-?\d{1,2}):(-?\d{1,2}):(-?\d{1,2})(?:\.(\d{1,9}))?)?", re.ASCII
)
_TOKEN: Final = re.compile(r"'(?:[^']|'')*'|([A-Za-z])\1*|.", re.DOTALL)
_FIELDS: Final = {"y": "year", "u": "year", "M": "month", "L": "month", "d": "day", "D": "day of year",
                  "H": "hour", "m": "minute", "s": "second", "S": "fraction"}  # fmt: skip
_RESERVED: Final = "[]{}#"


def parser_of(formatter: str | None) -> Callable[[str], int | None]:
    """A function from text to a time in milliseconds, or None when it does not match. Raises InvalidOptionError."""
    return _default if formatter is None else _Pattern(formatter).parse


def text_of(pattern: str | None, texts: Mapping[str, str | None]) -> str | None:
    """The text to parse, from the texts of a partition's columns; None when a needed column is null.

    `pattern` has `$column` for the text of a column; None means the first column.
    """
    if pattern is None:
        return next(iter(texts.values()))
    columns = re.compile(r"\$(" + "|".join(map(re.escape, sorted(texts, key=len, reverse=True))) + ")")
    if any(texts[column] is None for column in columns.findall(pattern)):
        return None
    return columns.sub(lambda match: texts[match[1]] or "", pattern)


def _default(text: str) -> int | None:
    match = _DEFAULT.fullmatch(text)
    if match is None:
        return None
    year, month, day, hour, minute, second = (int(part or 0) for part in match.groups()[:6])
    time_ms = (hour * 3600 + minute * 60 + second) * 1000 + _millis(match[7])
    return _days(year, month, day) * _DAY_MS + time_ms


def _days(year: int, month: int, day: int) -> int:
    """Days since 1970, where month 13 is the first of the next year and day 0 the last of the previous month."""
    first = np.datetime64((year - 1970) * 12 + month - 1, "M").astype("datetime64[D]")
    return int(first.astype(np.int64)) + day - 1


def _millis(fraction: str | None) -> int:
    return int((fraction or "").ljust(3, "0")[:3])


class _Pattern:
    """A pattern of `DateTimeFormatter`, read as Java's SMART style does."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._fields: list[tuple[str, int]] = []
        parts = []
        follows_number = False
        for match in _TOKEN.finditer(text):
            part = match[0]
            if match[1]:
                parts.append(self._number(part, follows_number))
                follows_number = True
            else:
                parts.append(re.escape(self._literal(part)))
                follows_number = False
        names = [name for name, _ in self._fields]
        if len(set(names)) < len(names):
            raise self._refused("it has a field twice")
        if "year" not in names or not ({"month", "day"} <= set(names) or "day of year" in names):
            raise self._refused("it has no complete date")
        self._regex = re.compile("".join(parts), re.ASCII)

    def parse(self, text: str) -> int | None:
        match = self._regex.fullmatch(text)
        if match is None:
            return None
        found = {name: match[i] for i, (name, _) in enumerate(self._fields, 1)}
        year = int(found["year"]) + (2000 if dict(self._fields)["year"] == 2 else 0)
        days = _date(year, found)
        time_ms = _time_ms(found)
        return None if days is None or time_ms is None else days * _DAY_MS + time_ms

    def _number(self, part: str, follows_number: bool) -> str:
        name, count = _FIELDS.get(part[0]), len(part)
        if name is None:
            raise self._refused(f"the letter {part[0]!r} is not supported")
        self._fields.append((name, count))
        match name, count:
            case "fraction", 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 | 9:
                return rf"(\d{{{count}}})"
            case "year", 2:
                return r"(\d{2})"
            case "year", 4 | 5 | 6 | 7 | 8 | 9:
                varies, regex = False, rf"(\d{{{count}}}|\+\d{{{count + 1},10}})"
            case "year", 1 | 3:
                varies, regex = True, rf"(\d{{{count},10}})"
            case "day of year", 3:
                return r"(\d{3})"
            case "day of year", 2:
                varies, regex = True, r"(\d{2,3})"
            case (("month" | "day" | "hour" | "minute" | "second"), 2):
                return r"(\d{2})"
            case (("month" | "day" | "day of year" | "hour" | "minute" | "second"), 1):
                varies, regex = True, r"(\d{1,10})"
            case _:
                raise self._refused(f"{part!r} is not supported")
        if varies and follows_number:
            raise self._refused(f"{part!r} directly follows another number, so its first digit is unknown")
        return regex

    def _literal(self, part: str) -> str:
        if part == "''":
            return "'"
        if part == "'":
            raise self._refused("a quote is not closed")
        if part.startswith("'"):
            return part[1:-1].replace("''", "'")
        if part in _RESERVED:
            raise self._refused(f"{part!r} is not supported")
        return part

    def _refused(self, why: str) -> InvalidOptionError:
        return InvalidOptionError(
            f"option {PARTITION_TIMESTAMP_FORMATTER.key} = {self._text!r}: {why}; use yyyy, MM, dd, HH, mm, ss, other "
            "characters and 'quoted text', such as yyyyMMdd",
            option=PARTITION_TIMESTAMP_FORMATTER.key,
            value=self._text,
        )


def _date(year: int, found: Mapping[str, str]) -> int | None:
    """Days since 1970; the 31st of a month with 30 days is its last day, as in Java."""
    if "day of year" in found:
        of_year = int(found["day of year"])
        return _days(year, 1, 1) + of_year - 1 if 1 <= of_year <= 365 + isleap(year) else None
    month, day = int(found["month"]), int(found["day"])
    if not 1 <= month <= 12 or not 1 <= day <= 31:
        return None
    length = monthrange(2000 if isleap(year) else 2001, month)[1]
    return _days(year, month, min(day, length))


def _time_ms(found: Mapping[str, str]) -> int | None:
    """Milliseconds of the day; midnight when the pattern has no complete time."""
    given: Sequence[str] = [name for name in ("hour", "minute", "second", "fraction") if name in found]
    hour, minute, second = (int(found.get(name, 0)) for name in ("hour", "minute", "second"))
    if hour > 24 or minute > 59 or second > 59:
        return None
    millis = _millis(found.get("fraction"))
    if given != ["hour", "minute", "second", "fraction"][: len(given)]:
        return 0
    total = (hour * 3600 + minute * 60 + second) * 1000 + millis
    return total if total <= _DAY_MS else None
