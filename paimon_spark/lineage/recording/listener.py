"""The listener of reads and commits that jobs call through `jobs/lineage_port.py`."""

from paimon_spark.lineage.recording.batch_recording import batch_commit as batch_commit
from paimon_spark.lineage.recording.batch_recording import rebase_commit as rebase_commit
from paimon_spark.lineage.recording.read_recording import note_read as note_read
from paimon_spark.lineage.recording.read_recording import read_tickets as read_tickets
from paimon_spark.lineage.recording.stream_recording import stream_commit as stream_commit
from paimon_spark.lineage.recording.stream_recording import stream_committed_before as stream_committed_before
