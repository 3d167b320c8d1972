"""Plan: the splits of a read, and why they were chosen. Plan one version of a table."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from paimon_spark.display import facts, grid, section
from paimon_spark.engine.scan.fallback import other_branch, plan_two_branches
from paimon_spark.engine.scan.one_branch import BranchPlan, output_of, plan_branch
from paimon_spark.engine.scan.query import PlanReport, ScanQuery, human_bytes
from paimon_spark.engine.scan.splits import ManySplits, SplitTotals, totals_of
from paimon_spark.engine.tasks import DataSplit, ReadRequest, SplitMode
from paimon_spark.errors import InvalidInputError
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.metadata.external_files import allowed_roots
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.manifests import CACHE
from paimon_spark.options.scan import FULL_SCAN
from paimon_spark.predicate.ast import show
from paimon_spark.redaction import get_logger
from paimon_spark.types import RowType

_LOG = get_logger(__name__)
_SPLIT_BYTES: Final = 400
_FILE_BYTES: Final = 700
"""What a split and a file of a plan are taken to occupy in memory."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The splits of a read. Immutable; `print` it to see what is skipped, and why.

    Attributes:
        table_name: how messages call the table.
        branch: the branch asked for; splits may come from a second one.
        snapshot: the snapshot planned from, the newer end of an incremental read; None when there is none.
        row_type: columns that come out.
        splits: units of reading, in no promised order.
        requests: per branch of the splits, what to make of them.
        report: what was kept and skipped.
    """

    table_name: str
    branch: str
    snapshot: Snapshot | None
    row_type: RowType
    splits: Sequence[DataSplit]
    requests: Mapping[str, ReadRequest]
    report: PlanReport
    query: ScanQuery

    def allowed(self, handle: TableHandle) -> Plan:
        """The plan itself, where option `read.allow.fullScan` of the table's handle allows it.

        Raises:
            InvalidInputError: it reads all files of a partitioned table.
        Source: Java `paimon-spark` `PaimonBaseScan.ensureNoFullScan`.
        """
        skipped = self.report.files_in_skipped + sum(s.files for s in self.report.skipped)
        keys = handle.schema.partition_keys
        if keys and self.splits and not skipped and not FULL_SCAN.get(handle.options.raw):
            raise InvalidInputError(
                f"the read takes all files of {handle.describe()}, which option {FULL_SCAN.key} = false forbids: give "
                f"it a condition on the partition columns, {', '.join(keys)}",
                table=handle.name,
                option=FULL_SCAN.key,
            )
        return self

    @property
    def size_bytes(self) -> int:
        """Bytes of the files to read."""
        return totals_of(self.splits).size_bytes

    @property
    def row_count(self) -> int:
        """Physical rows in the files to read; an upper bound of the rows returned."""
        return totals_of(self.splits).row_count

    def __str__(self) -> str:
        at = "no snapshot" if self.snapshot is None else f"snapshot {self.snapshot.id}"
        lines = [f"columns: {', '.join(self.row_type.names)}"]
        if self.query.predicate is not None:
            lines.append(f"where: {show(self.query.predicate)}")
        lines += self.report.lines()
        totals = totals_of(self.splits)
        lines.append(f"splits: {len(self.splits)}{_modes(totals)}, at most {totals.row_count} rows")
        if totals.largest_bytes:
            lines.append(f"largest split: {human_bytes(totals.largest_bytes)}")
        title = f"plan of {self.table_name}, branch {self.branch}, {at}"
        return "\n  ".join([title, *lines])

    def _repr_html_(self) -> str:
        at = "no snapshot" if self.snapshot is None else str(self.snapshot)
        report, totals = self.report, totals_of(self.splits)
        skipped = [(s.reason.value, s.files, human_bytes(s.size_bytes)) for s in report.skipped]
        return section(
            f"Plan of {self.table_name}",
            f"branch {self.branch}, {at}",
            facts(
                {
                    "columns": ", ".join(self.row_type.names),
                    "where": None if self.query.predicate is None else show(self.query.predicate),
                    "manifests": f"{report.manifests - report.manifests_skipped:,} of {report.manifests:,} opened",
                    "files": f"{report.files_kept:,} of {report.files:,} read, "
                    f"{human_bytes(report.bytes_kept)} of {human_bytes(report.size_bytes)}",
                    "splits": f"{len(self.splits):,}{_modes(totals)}, at most {totals.row_count:,} rows",
                }
            ),
            grid(("skipped by", "files", "size"), skipped) if skipped else "",
        )


def plan_batch(handle: TableHandle, snapshot: Snapshot | None, query: ScanQuery, *, travelled: bool = False) -> Plan:
    """Plan a read of one snapshot (None: an empty table). Driver only; safe to retry.

    Plans are cached by the names of the manifest lists, which are never used again. If `travelled`, the snapshot was
    named, not taken for being the head: a fallback branch is read as of its time.

    Raises:
        ColumnNotFoundError: a column of the query does not exist.
        UnsupportedFeatureError: the table or a column would be misread.
        CorruptFileError: metadata cannot be decoded.
        FileMissingError: metadata is gone; the snapshot may have expired meanwhile.
        SchemaMismatchError: the fallback branch has other columns.
    """
    other = other_branch(handle)
    if other is not None:
        parts = plan_two_branches(handle, snapshot, other, query, travelled=travelled)
        return assembled(handle, snapshot, query, parts)
    if snapshot is None or query.only is not None:
        return assembled(handle, snapshot, query, [plan_branch(handle, snapshot, query)])
    key = _cache_key(handle, snapshot, query)
    found: Plan | None = CACHE.get(key)
    if found is None:
        found = assembled(handle, snapshot, query, [plan_branch(handle, snapshot, query)])
        CACHE.put(key, found, 2000 + _size_of(found.splits))
    return found


def assembled(handle: TableHandle, snapshot: Snapshot | None, query: ScanQuery, parts: Sequence[BranchPlan]) -> Plan:
    """Combine the plans of branches; the first is the requested branch."""
    report = sum((part.report for part in parts[1:]), parts[0].report)
    if _LOG.isEnabledFor(logging.DEBUG):
        at = "no snapshot" if snapshot is None else f"snapshot {snapshot.id}"
        _LOG.debug("read of %s, %s: %s", handle.describe(), at, ", ".join(report.lines()))
    return Plan(
        handle.name,
        handle.branch,
        snapshot,
        output_of(handle, query),
        parts[0].splits if len(parts) == 1 else tuple(s for part in parts for s in part.splits),
        {part.request.branch: part.request for part in parts},
        report,
        query,
    )


def _cache_key(handle: TableHandle, snapshot: Snapshot, query: ScanQuery) -> tuple[Any, ...]:
    schema = handle.schema
    return (
        "plan",
        handle.store.identity,
        allowed_roots(handle.store),
        handle.layout,
        handle.name,
        schema.id,
        schema.row_type,
        schema.partition_keys,
        schema.primary_keys,
        tuple(sorted(handle.options.raw.items())),
        snapshot.id,
        snapshot.base_manifest_list,
        snapshot.delta_manifest_list,
        snapshot.index_manifest,
        query,
    )


def _size_of(splits: Sequence[DataSplit]) -> int:
    if isinstance(splits, ManySplits):
        return splits.nbytes
    return _SPLIT_BYTES * len(splits) + _FILE_BYTES * totals_of(splits).files


def _modes(totals: SplitTotals) -> str:
    shown = [f"{totals.modes[mode]} {mode.value}" for mode in SplitMode if mode in totals.modes]
    return f" ({', '.join(shown)})" if shown else ""
