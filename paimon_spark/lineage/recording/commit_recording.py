"""Recording of one commit, prepared before it: provenance, and the recorder of its rows.

Tests: tests/unit/lineage/recording/test_batch_recording.py, tests/unit/lineage/recording/test_stream_recording.py
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from paimon_spark.format.metadata_files.snapshot import CommitKind
from paimon_spark.lineage.index.provenance import Provenance, encode_provenance
from paimon_spark.lineage.index.table_index import open_index
from paimon_spark.lineage.index.tables import LineageSettings, rows_of, settings_of
from paimon_spark.lineage.index.warehouse import is_lineage_table, warn_once
from paimon_spark.lineage.recording.recorder import Recorder, recorder_for

if TYPE_CHECKING:
    from paimon_spark.engine.commit.listeners import CommitEvent
    from paimon_spark.lineage.index.tables import Index
    from paimon_spark.lineage.index.warehouse import WarehouseTable


@dataclass(frozen=True, slots=True)
class CommitRecording:
    """Records one commit to the branch `home`; prepared before it. Nothing here raises or changes the commit."""

    provenance: Provenance
    home: WarehouseTable
    recorder: Recorder

    @property
    def properties(self) -> dict[str, str]:
        """Properties of the snapshot of the rows."""
        return encode_provenance(self.provenance)

    def on_commit(self, event: CommitEvent) -> None:
        """Record the snapshot made. A `CommitListener`."""
        record_commit(self.recorder, event)

    def record_reads(self) -> None:
        """Record what was read by a batch that made no snapshot."""
        try:
            self.recorder.add(rows_of(self.provenance, self.home.ref, None))
        except Exception as e:  # noqa: BLE001 - recording changes no outcome
            warn_once(self.home.ref.name, "cannot record the reads of a batch without rows", e)


def record_commit(recorder: Recorder, event: CommitEvent) -> None:
    """Queue the rows of a snapshot that holds provenance. Never raises."""
    # A compaction makes the same rows again, so it is no batch of a job.
    if event.kind is CommitKind.COMPACT:
        return
    try:
        recorder.on_commit(event)
    except Exception as e:  # noqa: BLE001 - the commit is done
        warn_once(f"table {event.table}", "cannot record its commits", e)


@dataclass(frozen=True, slots=True)
class RecordedBranch:
    """A branch that jobs write, whose warehouse records lineage, with the settings of this moment."""

    home: WarehouseTable
    index: Index
    settings: LineageSettings

    def recorder(
        self, job: str, flush_interval_ms: int | None, *, query_id: str | None = None, checkpoint: str | None = None
    ) -> Recorder:
        """The recorder for a commit of a job, which may set its flush interval. Other arguments as of `expect`."""
        recorder = recorder_for(self.index, self.settings.interval_ms(flush_interval_ms))
        recorder.expect(job, self.home.ref, query_id=query_id, checkpoint=checkpoint)
        return recorder


def recorded_branch(home: WarehouseTable) -> RecordedBranch | None:
    """The branch with its settings; None where nothing is recorded."""
    if is_lineage_table(home.ref):
        return None
    index = open_index(home.warehouse)
    settings = settings_of(index)
    return RecordedBranch(home, index, settings) if settings.table else None
