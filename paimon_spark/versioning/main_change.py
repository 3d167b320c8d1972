"""Losses and gains of main by a publication: snapshots, and rows by partition.

Only metadata is read. Rows are counted as they are stored, in the files that commits of main and of the branch since
the fork added and removed. Compactions, which change no row, are left out. Where commits have expired, or are many, the
files of both heads are compared instead, and what only one side compacted counts as lost and gained.

Tests: tests/unit/versioning/test_main_change.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_spark.engine.scan.file_stats import Partitions
from paimon_spark.errors import PaimonError
from paimon_spark.format.arrays.arrow_numpy import values
from paimon_spark.format.metadata_files import table_schema as schema_file
from paimon_spark.format.metadata_files.snapshot import CommitKind, Snapshot
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.partition_path import partition_texts
from paimon_spark.metadata.resolve import Resolved
from paimon_spark.metadata.small_files import checked_number, checked_text
from paimon_spark.redaction import get_logger
from paimon_spark.text import counted, safe
from paimon_spark.versioning.compare import change_masks, changed_files, lost_definition
from paimon_spark.versioning.diff import PartitionDiff
from paimon_spark.versioning.publish import Publication

_LOG = get_logger(__name__)
MOST_PARTITIONS: Final = 5
"""Partitions that are told apart; the rest is counted."""
_MOST_COMMITS: Final = 1000
"""Commits of one side whose files are looked at one by one."""
_LONGEST_NAME: Final = 80
_MOST_CHANGES: Final = 4
"""Lost options and columns that are named; the rest is counted."""


@dataclass(frozen=True, slots=True)
class PartitionRows:
    """The rows of one partition, such as `dt=2024-01-01/region=eu`."""

    partition: str
    lost: int
    gained: int


@dataclass(frozen=True, slots=True)
class MainChange:
    """Losses and gains of main by a publication.

    Attributes:
        snapshots_lost, snapshots_gained: how many.
        rows_lost, rows_gained: in all partitions; None when unknown, as of the dry run of a rebase.
        partitions: those with most rows lost beyond those gained first, at most five; none in a table without
            partitions.
        more_partitions: how many others lose or gain rows.
        are_records: rows are counted as stored records, of which one row may have several, as in tables with keys.
        rebased_rows: rows that a rebase would write or delete; of dry runs.
        definition: options and columns that main got since the fork and would not have, such as
            `option snapshot.time-retained = 7 d`.
    """

    snapshots_lost: int = 0
    snapshots_gained: int = 0
    rows_lost: int | None = None
    rows_gained: int | None = None
    partitions: tuple[PartitionRows, ...] = ()
    more_partitions: int = 0
    are_records: bool = False
    rebased_rows: int | None = None
    definition: tuple[str, ...] = ()

    def rows_lines(self, *, would: bool, most: int = MOST_PARTITIONS) -> list[str]:
        """Definition and rows as text by line, with at most so many partitions; `would`: of a dry run."""
        out = self._rows_lines(would=would, most=most)
        if not self.definition:
            return out
        shown = [_short(text) for text in self.definition[:_MOST_CHANGES]]
        if len(self.definition) > _MOST_CHANGES:
            shown.append(f"{len(self.definition) - _MOST_CHANGES} more")
        return [f"definition: main {'would lose' if would else 'lost'} {', '.join(shown)}", *out]

    def _rows_lines(self, *, would: bool, most: int) -> list[str]:
        if self.rebased_rows is not None:
            return [f"rows: main would get {self.rebased_rows:,} by the rebase"]
        if self.rows_lost is None or self.rows_gained is None:
            return ["rows that main loses and gains are unknown, as metadata of its commits cannot be read"]
        if not self.rows_lost and not self.rows_gained:
            return ["rows: main would stay as it is" if would else "rows: main has the same as before"]
        pairs = [(self.rows_lost, "lose" if would else "lost"), (self.rows_gained, "gain" if would else "gained")]
        sums = " and ".join(f"{verb} {n:,}" for n, verb in pairs if n)
        how = " (stored records; a row may have several)" if self.are_records else ""
        out = [f"rows: main {'would ' if would else ''}{sums}{how}"]
        for part in self.partitions[:most]:
            pairs = [(part.lost, "lost"), (part.gained, "gained")]
            out.append(f"  {_short(part.partition)}: {', '.join(f'{n:,} {verb}' for n, verb in pairs if n)}")
        rest = self.more_partitions + len(self.partitions[most:])
        return [*out, *([f"  and {counted(rest, 'more partition', 'more partitions')}"] if rest else [])]

    @property
    def rows_text(self) -> str:
        """Lost and gained rows of the partitions in one line; empty without partitions."""
        found = [f"{_short(p.partition)} -{p.lost:,} +{p.gained:,}" for p in self.partitions]
        return "; ".join([*found, *([f"{self.more_partitions:,} more"] if self.more_partitions else [])])


def main_change(plan: Publication) -> MainChange:
    """Compute the losses and gains of main. Reads metadata; rows are unknown where it cannot be read."""
    done = plan.new_main
    counts = len(done.discarded_snapshots), len(done.moved_snapshots)
    before = plan.main.snapshots.get(plan.main.head)
    old = Resolved(plan.handle, None if before is None else before.snapshot, "main")
    new = Resolved(plan.on_branch, plan.head.snapshot, plan.source.name)
    definition = _lost_definition(plan)
    try:
        files = changed_files(old, new, _commits(plan))
    except PaimonError as e:
        _LOG.info("rows that main of table %s loses by a publication are unknown: %s", plan.handle.name, e)
        return MainChange(*counts, definition=definition)
    options = plan.handle.options
    are_records = bool(plan.handle.schema.primary_keys) or options.data_evolution
    lost, gained, partitions, more = _sums(plan.on_branch, files)
    return MainChange(*counts, lost, gained, partitions, more, are_records, definition=definition)


def _lost_definition(plan: Publication) -> tuple[str, ...]:
    """Options and columns of main since the fork that it does not keep."""
    done = plan.new_main
    if not done.discarded_schemas:
        return ()
    of_main, of_new = plan.main.schemas, done.state.schemas
    shared = [i for i, text in of_main.items() if of_new.get(i) == text]
    try:
        old, new = (schema_file.decode(texts[max(texts)].encode(), "") for texts in (of_main, of_new))
        base = schema_file.decode(of_main[max(shared)].encode(), "") if shared else None
    except PaimonError as e:
        _LOG.info("options that main of table %s loses by a publication are unknown: %s", plan.handle.name, e)
        return ()
    return lost_definition(old, new, base)


def _commits(plan: Publication) -> tuple[Sequence[Snapshot], Sequence[Snapshot]] | None:
    """Commits of main and of the branch since the fork, without compactions; None where some are not there."""
    done = plan.new_main
    if plan.breaks_off or not done.fork_is_known:
        return None
    found = []
    for state, head in ((plan.main, plan.main.head), (done.state, plan.source.head)):
        ids = range(done.fork_id + 1, head + 1)
        if len(ids) > _MOST_COMMITS or any(i not in state.snapshots for i in ids):
            return None
        snapshots = [state.snapshots[i].snapshot for i in ids]
        found.append([s for s in snapshots if s.commit_kind is not CommitKind.COMPACT])
    return found[0], found[1]


def _sums(handle: TableHandle, files: pa.Table) -> tuple[int, int, tuple[PartitionRows, ...], int]:
    """Lost and gained rows of all partitions, of the first ones, and how many more have any."""
    if len(files) == 0:
        return 0, 0, (), 0
    whole = files.combine_chunks()
    found = Partitions(handle, whole.column("partition").chunk(0))
    is_added, is_removed, is_changed = change_masks(whole)
    row_counts, deleted = (values(whole.column(name).chunk(0)) for name in ("row_count", "deleted_rows"))
    lost = _per_partition(found, np.where(is_removed, row_counts, np.where(is_changed, np.maximum(deleted, 0), 0)))
    gained = _per_partition(found, np.where(is_added, row_counts, np.where(is_changed, np.maximum(-deleted, 0), 0)))
    totals = int(lost.sum()), int(gained.sum())
    if not handle.schema.partition_keys:
        return *totals, (), 0
    order = np.lexsort((-lost, gained - lost))  # what only moved is told after what is lost
    order = order[(lost + gained)[order] > 0]
    first = [
        PartitionRows(
            PartitionDiff(partition_texts(handle, found.rows[i].as_py(), legacy=False)).name,
            int(lost[i]),
            int(gained[i]),
        )
        for i in order[:MOST_PARTITIONS].tolist()
    ]
    return *totals, tuple(first), max(len(order) - MOST_PARTITIONS, 0)


def _per_partition(found: Partitions, amounts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    out = np.zeros(len(found.rows), np.int64)
    np.add.at(out, found.codes, amounts)
    return out


def change_json(change: MainChange) -> dict[str, Any]:
    """The change as JSON values."""
    return {
        "snapshotsLost": change.snapshots_lost,
        "snapshotsGained": change.snapshots_gained,
        "rowsLost": change.rows_lost,
        "rowsGained": change.rows_gained,
        "partitions": [{"partition": p.partition, "lost": p.lost, "gained": p.gained} for p in change.partitions],
        "morePartitions": change.more_partitions,
        "areRecords": change.are_records,
        "definition": list(change.definition),
    }


def decode_change(raw: dict[str, Any]) -> MainChange:
    """The change that JSON values state. Raises ValueError, TypeError and KeyError for others."""
    lost, gained = (None if raw[key] is None else checked_number(raw[key]) for key in ("rowsLost", "rowsGained"))
    return MainChange(
        checked_number(raw["snapshotsLost"]),
        checked_number(raw["snapshotsGained"]),
        lost,
        gained,
        tuple(
            PartitionRows(checked_text(p["partition"]), checked_number(p["lost"]), checked_number(p["gained"]))
            for p in raw["partitions"][:MOST_PARTITIONS]
        ),
        checked_number(raw["morePartitions"]),
        raw["areRecords"] is True,
        definition=tuple(checked_text(text) for text in raw.get("definition", ())),
    )


def _short(name: str) -> str:
    found = safe(name)
    return found if len(found) <= _LONGEST_NAME else f"{found[: _LONGEST_NAME - 1]}…"
