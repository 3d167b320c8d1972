"""ScanQuery, what a read asks of a plan; PlanReport, what was kept and skipped, and why."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.engine.scan.file_stats import Partitions
from paimon_spark.format.arrays.arrow_numpy import Bool, values
from paimon_spark.predicate.ast import Predicate


@dataclass(frozen=True, slots=True, eq=False)
class OnlyFiles:
    """The files that a plan is restricted to. Two are never equal.

    Attributes:
        places: pairs of a partition, as BinaryRow bytes, and a bucket.
        names: only files of these names; None: all files of the places.
    """

    places: frozenset[tuple[bytes, int]]
    names: pa.Array | None = None

    def wanted(self, entries: pa.RecordBatch, partitions: Partitions) -> Bool:
        """For each entry, whether it is one of the files."""
        codes = {row: code for code, row in enumerate(partitions.row_bytes)}
        buckets = values(entries.column("bucket")).astype(np.int64)
        low = int(buckets.min(initial=0))
        span = int(buckets.max(initial=0)) - low + 1
        known = [(codes[row], bucket) for row, bucket in self.places if row in codes and low <= bucket < low + span]
        places = np.array([code * span + bucket - low for code, bucket in known], np.int64)
        found: Bool = np.isin(partitions.codes.astype(np.int64) * span + buckets - low, places)
        if self.names is not None:
            found &= np.asarray(pc.is_in(entries.column("file_name"), value_set=self.names))
        return found


@dataclass(frozen=True, slots=True)
class ScanQuery:
    """Request of one read to the planner. Hashable; a key of the plan cache.

    Attributes:
        columns: output columns in order; None means all columns of the table.
        predicate: only rows for which it is true are wanted.
        with_row_kind: add a first column `rowkind` and keep retracts.
        limit: rows after which the caller stops; the plan may stop there too, never short of it.
        batch_rows: most rows in an output batch.
        threads: whether readers may use Arrow's thread pool.
        max_level_only: primary-key tables: read only files of the last level, without merging (`$ro`).
        created_since_ms: read only files made at or after this moment, in epoch milliseconds.
        only: read only these files; None for all.
    """

    columns: tuple[str, ...] | None = None
    predicate: Predicate | None = None
    with_row_kind: bool = False
    limit: int | None = None
    batch_rows: int = 65536
    threads: bool = False
    max_level_only: bool = False
    created_since_ms: int | None = None
    only: OnlyFiles | None = None


class Reason(StrEnum):
    """Why files were skipped; the value is the text shown."""

    POSTPONED = "postponed bucket, not compacted yet"
    LEVEL = "level that is not visible yet"
    CREATED = "made before the time asked for"
    PARTITION = "partition"
    OTHER_BRANCH = "partition is read from the other branch"
    BUCKET = "bucket"
    KEY_RANGE = "key range"
    STATISTICS = "file statistics"
    INDEX = "file indexes"
    UPDATED = "columns of rows that were there before"
    UNCHANGED = "same in both snapshots"
    LIMIT = "limit"


class _Skipped(NamedTuple):
    """Files skipped for one reason."""

    reason: Reason
    files: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class PlanReport:
    """Counts of a plan: manifests, files, partitions, buckets, and what was skipped.

    Attributes:
        manifests: manifests the snapshot has.
        manifests_skipped: how many of them were not opened.
        files_in_skipped: files those list, added less deleted; not part of the other counts.
        files, size_bytes: files alive in the manifests opened.
        skipped: files not read, by reason, in the order the reasons were tried.
    """

    manifests: int = 0
    manifests_skipped: int = 0
    files_in_skipped: int = 0
    files: int = 0
    size_bytes: int = 0
    skipped: tuple[_Skipped, ...] = ()

    @property
    def files_kept(self) -> int:
        return self.files - sum(s.files for s in self.skipped)

    @property
    def bytes_kept(self) -> int:
        return self.size_bytes - sum(s.size_bytes for s in self.skipped)

    def __add__(self, other: PlanReport) -> PlanReport:
        return PlanReport(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def lines(self) -> list[str]:
        """The report as lines of text."""
        out = [f"manifests: {self.manifests - self.manifests_skipped} of {self.manifests} opened"]
        if self.manifests_skipped:
            out[0] += f", {self.manifests_skipped} skipped by their statistics ({self.files_in_skipped} files)"
        out.append(
            f"files: {self.files_kept} of {self.files} read, "
            f"{human_bytes(self.bytes_kept)} of {human_bytes(self.size_bytes)}"
        )
        out += [f"  skipped by {s.reason.value}: {s.files} files, {human_bytes(s.size_bytes)}" for s in self.skipped]
        return out


@dataclass(slots=True)
class Tally:
    """Count skipped files while planning."""

    skipped: list[_Skipped] = field(default_factory=list)

    def skip(self, reason: Reason, gone: Bool, sizes: npt.NDArray[np.int64]) -> None:
        """Count the files where `gone` is True."""
        if gone.any():
            self.skip_counts(reason, int(np.count_nonzero(gone)), int(sizes[gone].sum()))

    def skip_counts(self, reason: Reason, files: int, size_bytes: int) -> None:
        if files:
            self.skipped.append(_Skipped(reason, files, size_bytes))

    def added_to(self, report: PlanReport) -> PlanReport:
        return replace(report, skipped=(*report.skipped, *self.skipped))


def human_bytes(size: int) -> str:
    """`12 bytes`, `3.4 MiB`."""
    if size < 1024:
        return f"{size} bytes"
    amount = float(size)
    for unit in ("KiB", "MiB", "GiB"):
        amount /= 1024
        if amount < 1024:
            return f"{amount:.1f} {unit}"
    return f"{amount / 1024:.1f} TiB"
