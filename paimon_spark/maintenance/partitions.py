"""Expire old partitions by a commit, and write the `_SUCCESS` files of finished partitions.

The data files of expired partitions stay while snapshots need them.

Source: Java `operation/NormalPartitionExpire`, `partition/Partition*ExpireStrategy`,
`partition/actions/SuccessFileMarkDoneAction`, `partition/file/SuccessFile`.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.display import ShownAsFacts
from paimon_spark.engine.commit.committer import Committer, new_commit_user
from paimon_spark.engine.commit.entries import column, numbers, where
from paimon_spark.engine.commit.overwrite import ChosenPartitions
from paimon_spark.engine.scan.fallback import OtherPartitions, other_partitions
from paimon_spark.errors import CorruptFileError, InvalidInputError, UnsupportedFeatureError
from paimon_spark.format import binary_row
from paimon_spark.format.arrays.arrow_numpy import array_of, validity, values
from paimon_spark.maintenance.partition_time import parser_of, text_of
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.live_files import live_entries
from paimon_spark.metadata.manifests import data_manifests
from paimon_spark.metadata.partition_path import PartitionDirectories, partition_path_of, value_text
from paimon_spark.metadata.retry import now_ms
from paimon_spark.metadata.snapshots import latest_snapshot
from paimon_spark.options.retention import (
    PARTITION_EXPIRATION_TIME,
    PARTITION_STRATEGY,
    PARTITION_TIMESTAMP_FORMATTER,
    PARTITION_TIMESTAMP_PATTERN,
    PartitionExpiryOptions,
    PartitionStrategy,
)

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
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


def expire_partitions(
    handle: TableHandle, *, dry_run: bool = False, clock_ms: Callable[[], int] = now_ms
) -> ExpiredPartitions:
    """Drop the branch's partitions that are older than its options allow.

    What is old is looked at again when the commit is made, so a partition that was written to meanwhile stays where
    its last change counts. A partition that a fallback branch has too stays, with a warning.

    Args:
        handle: the branch.
        dry_run: only tell what would go.
        clock_ms: epoch milliseconds.

    Raises:
        InvalidInputError: the table has no partitions, or no age of theirs is known.
        InvalidOptionError: an option of theirs cannot be understood.
        CommitError: others were faster every time, or it is unknown whether a commit landed.
    """
    options = handle.options.partition_expiry
    if not handle.schema.partition_keys:
        raise InvalidInputError(f"{handle.describe()} has no partitions that could expire", table=handle.name)
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
    found = _told(handle, entries, going)
    return found if dry_run else replace(found, snapshot_ids=tuple(_drop(handle, options, ages, going)))


def _drop(handle: TableHandle, options: PartitionExpiryOptions, ages: _Ages, going: Sequence[bytes]) -> Iterator[int]:
    # A user of its own: a stream that looks for its last commit must not take this one for it.
    committer = Committer(handle, new_commit_user(handle.options))
    size = options.batch_size or len(going)
    for start in range(0, len(going), size):
        batch = frozenset(going[start : start + size])

        def choose(entries: pa.Table, batch: frozenset[bytes] = batch) -> list[bytes]:
            return [p for p in ages.expired(entries) if p in batch]

        yield from committer.overwrite([], partitions=ChosenPartitions(choose)).snapshot_ids


class _Ages:
    """Which partitions are old, at one moment."""

    def __init__(self, handle: TableHandle, options: PartitionExpiryOptions, at_ms: int) -> None:
        self._handle, self._options = handle, options
        self._types = [f.type for f in handle.schema.partition_type]
        # Times of files and those in values are both local wall clocks.
        self._limit_ms = at_ms + time.localtime(at_ms / 1000).tm_gmtoff * 1000 - options.age_ms
        self._parse = parser_of(options.formatter)
        self._nameless: list[bytes] = []

    def first(self, entries: pa.Table, beside: OtherPartitions | None) -> list[bytes]:
        """The partitions to drop now, of the live files: by their texts, as many as may go at a time.

        Those that another branch has too stay.
        """
        going = sorted(self.expired(entries), key=lambda p: ",".join(self._texts(p).values()))
        if self._nameless:
            _LOG.warning(
                "%d partitions of %s name no time and never expire, such as %s; set %s and %s to the way times are "
                "written there, or %s = update-time",
                len(self._nameless),
                self._handle.describe(),
                partition_path_of(self._handle, self._nameless[0]),
                PARTITION_TIMESTAMP_PATTERN.key,
                PARTITION_TIMESTAMP_FORMATTER.key,
                PARTITION_STRATEGY.key,
            )
        kept = [] if beside is None else [p for p in going if p in beside.behind]
        if beside is not None and kept:
            _LOG.warning(
                "%d old partitions of %s stay, such as %s: branch %s has them too, and its rows would be read then; "
                "expire the partitions of that branch first",
                len(kept),
                self._handle.describe(),
                partition_path_of(self._handle, kept[0]),
                beside.other.handle.branch,
            )
            going = [p for p in going if p not in beside.behind]
        return going[: self._options.max_num]

    def expired(self, entries: pa.Table) -> list[bytes]:
        """The partitions that are old, of the live files."""
        encoded = column(entries, "partition").dictionary_encode()
        partitions: list[bytes] = encoded.dictionary.to_pylist()
        if self._options.strategy is PartitionStrategy.VALUES_TIME:
            return self._named_old(partitions)
        files = column(entries, "creation_time_ms")
        # A file of unknown age is taken to be young.
        times = np.where(validity(files), values(files), np.iinfo(np.int64).max)
        newest = np.full(len(partitions), np.iinfo(np.int64).min)
        np.maximum.at(newest, values(encoded.indices), times)
        return [p for p, ms in zip(partitions, newest.tolist(), strict=True) if ms < self._limit_ms]

    def _named_old(self, partitions: Sequence[bytes]) -> list[bytes]:
        found = []
        self._nameless = []
        for partition in partitions:
            text = text_of(self._options.pattern, self._nullable_texts(partition))
            time_ms = None if text is None else self._parse(text)
            if time_ms is None:
                self._nameless.append(partition)
            elif time_ms < self._limit_ms:
                found.append(partition)
        return found

    def _texts(self, partition: bytes) -> dict[str, str]:
        null = self._handle.options.partition_default_name
        return {name: null if text is None else text for name, text in self._nullable_texts(partition).items()}

    def _nullable_texts(self, partition: bytes) -> dict[str, str | None]:
        """The values as Paimon's internal objects print: a DATE is a number of days."""
        found = binary_row.decode(partition, self._types, raw_timestamps=True)
        return {
            field.name: None if value is None else value_text(field.type, value, legacy=True)
            for field, value in zip(self._handle.schema.partition_type, found, strict=True)
        }


def _told(handle: TableHandle, entries: pa.Table, going: Sequence[bytes]) -> ExpiredPartitions:
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
    """Mark partitions of a table as done; those marked already get a new time of modification.

    Args:
        handle: the table.
        partitions: values by partition column, all of them or the first ones, as directories are named.
        clock_ms: epoch milliseconds.

    Raises:
        InvalidInputError: a partition is not named by its first columns.
        UnsupportedFeatureError: option `partition.mark-done-action` asks for more than the file.
        CorruptFileError: a file `_SUCCESS` that is there is none of Paimon's.
    """
    actions = handle.options.expiry.mark_done_action
    if any(action.strip() != _SUCCESS_FILE for action in actions.split(",")):
        raise UnsupportedFeatureError(
            f"partitions of {handle.describe()} cannot be marked done as option {_ACTION} = {actions!r} says: only "
            f"{_SUCCESS_FILE} is done here",
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
            f"a partition of {handle.describe()} is named by {', '.join(handle.schema.partition_keys)}, or the first "
            f"of them; found {', '.join(partition) or 'nothing'}",
            table=handle.name,
        )
    null = handle.options.partition_default_name
    return [null if partition[k] is None else str(partition[k]) for k in keys]


def _created_ms(handle: TableHandle, path: str) -> int:
    try:
        return int(json.loads(handle.store.read(path))["creationTime"])
    except (ValueError, KeyError, TypeError) as e:
        raise CorruptFileError(
            f"{handle.store.url(path)} does not say when the partition was done; delete it and mark anew", path=path
        ) from e
