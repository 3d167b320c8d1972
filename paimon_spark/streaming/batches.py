"""Decide whether a batch of a streaming write is already committed; the sink log.

Spark commits the batches of a query in order, and repeats the last one after a crash. Evidence, strongest first: the
query's own snapshots, by commit user and identifier; the head in the sink log, when the branch still has it, as only
what follows it needs to be read; the expiry of what is missing.

A branch whose history was changed (a rollback, a merge, another main, an earlier copy) lost the batches that it lacks.
The requested batch is committed again; when earlier ones are missing, their rows are lost.

The sink log is the file `sink/sink-<query id>` of the branch. A batch without rows makes no snapshot, and snapshots
expire and are rolled back; so before each commit the query logs the batch, and the head that includes all earlier
batches. What follows that head tells whether the batch was committed: few snapshots, however long the history. Other
engines ignore the file. It moves with a renamed branch, is deleted with its branch, and is copied by replace_main to
the branch, and by a merge to main unless main's log is of a later batch; a new branch starts without one. The branch's
history always outweighs it.

Source: own; Java `FileStoreCommitImpl.filterCommitted` knows the newest snapshot of a user only.

Tests: tests/unit/streaming/test_batches.py, test_sink_log.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from paimon_spark.engine.commit.requests import BATCH_COMMIT_IDENTIFIER
from paimon_spark.errors import CorruptFileError, FileMissingError, InvalidInputError, UnknownFormatVersionError
from paimon_spark.format.json_files import decode_object, encode_value
from paimon_spark.format.metadata_files.snapshot import CommitKind, Snapshot
from paimon_spark.metadata.branches import list_branch_names
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.layout import MAIN, is_file_name
from paimon_spark.metadata.small_files import checked_number, checked_text, find_decoded
from paimon_spark.metadata.snapshots import (
    find_snapshot,
    latest_snapshot,
    list_snapshot_ids,
    read_alive,
    read_snapshots,
)
from paimon_spark.metadata.tags import list_tags
from paimon_spark.redaction import get_logger

_LOG = get_logger(__name__)

QUERY_PROPERTY: Final = "paimon-spark.query-id"
"""Property of the snapshots of a query whose commit user was given: others may commit by the same name."""
_TOGETHER: Final = 256
"""Snapshots read at once."""
_VERSION: Final = 1
SINK_PREFIX: Final = "sink-"


@dataclass(frozen=True, slots=True)
class Sink:
    """The query whose batches are searched; `is_named`: its commit user was given, not derived from its id."""

    query_id: str
    commit_user: str
    is_named: bool = False

    @property
    def properties(self) -> dict[str, str]:
        """Properties of its snapshots."""
        return {QUERY_PROPERTY: self.query_id} if self.is_named else {}


@dataclass(frozen=True, slots=True)
class SnapshotKey:
    """Identifies a snapshot across histories; `made` is the name of its delta manifest list, unique to its commit."""

    snapshot_id: int
    made: str

    @staticmethod
    def of(snapshot: Snapshot) -> SnapshotKey:
        return SnapshotKey(snapshot.id, snapshot.delta_manifest_list)


@dataclass(frozen=True, slots=True)
class LastBatch:
    """Newest of some batches that made a snapshot; `place` may be None, if it expired before it was read."""

    batch_id: int
    place: SnapshotKey | None


@dataclass(frozen=True, slots=True)
class SinkLog:
    """Log of a query before its newest commit to a branch.

    Attributes:
        batch_id: the batch to be committed; all earlier ones had been.
        makes_snapshot: False for a batch without rows.
        head: the branch's head at that moment; None when it had none.
        jobs: in the names of the files to be committed.
        before: the newest batch before this one that made a snapshot; None when none did, or it does not matter.
    """

    query_id: str
    commit_user: str
    batch_id: int
    makes_snapshot: bool
    head: SnapshotKey | None
    jobs: tuple[str, ...] = ()
    before: LastBatch | None = None


@dataclass(frozen=True, slots=True)
class NotCommitted:
    """The batch is not in the branch; all earlier ones that made a snapshot are."""


@dataclass(frozen=True, slots=True)
class AlreadyCommitted:
    """The batch is in the branch; `snapshot` has its rows, None when only later snapshots of the query are left."""

    snapshot: Snapshot | None = None


@dataclass(frozen=True, slots=True)
class BatchesMissing:
    """Earlier batches are no longer in the branch.

    Attributes:
        first: the first that may be missing; all with rows from there up to the requested one are.
        why: what was found.
        elsewhere: the branch to which the query wrote them, if it has a log there and none here; else empty.
    """

    first: int
    why: str
    elsewhere: str = ""


@dataclass(frozen=True, slots=True)
class OutcomeUnknown:
    """It is unknown whether the batch, or earlier ones, are in the branch.

    Attributes:
        is_doubtful: whether it is the batch itself that may be there.
        why: what was found.
        elsewhere: as of `BatchesMissing`.
    """

    is_doubtful: bool
    why: str
    elsewhere: str = ""


BatchOutcome: TypeAlias = NotCommitted | AlreadyCommitted | BatchesMissing | OutcomeUnknown


@dataclass(frozen=True, slots=True)
class BatchStatus:
    """The outcome of a batch.

    Attributes:
        head: the branch's head when it was read.
        before: the newest earlier batch that is known to have made a snapshot.
    """

    outcome: BatchOutcome
    head: Snapshot | None
    before: LastBatch | None = None


def find_batch(handle: TableHandle, sink: Sink, batch_id: int, *, complete: bool = False) -> BatchStatus:
    """The outcome of a batch on a branch. Six small reads where nothing unusual happened.

    `complete`: each batch replaces all rows of the table, so that no earlier one can be lost.
    """
    head = latest_snapshot(handle)
    search = _Search(handle, sink, batch_id, head)
    try:
        log = read_sink_log(handle, sink.query_id)
    except CorruptFileError as e:
        _LOG.warning("the log of query %s on %s counts as missing: %s", sink.query_id, handle.describe(), e)
        log = None
    outcome, before = search.without_log() if log is None else search.by_log(log)
    if complete and not isinstance(outcome, AlreadyCommitted):
        outcome = NotCommitted()
    return BatchStatus(outcome, head, before)


_Verdict: TypeAlias = tuple[BatchOutcome, LastBatch | None]


@dataclass(frozen=True, slots=True)
class _Search:
    """The search for one batch."""

    handle: TableHandle
    sink: Sink
    batch_id: int
    head: Snapshot | None

    def by_log(self, log: SinkLog) -> _Verdict:
        """The outcome when the query has a log on the branch."""
        later = _later(self.handle, log.head, self.head)
        if later is None:
            return self._in_another_history(log)
        snapshots, whole = later
        own = [s for s in snapshots if self._is_own(s)]
        landed = self._landed(own)
        if landed is not None:
            return landed, None
        if log.batch_id > self.batch_id:
            return AlreadyCommitted(), None
        before = self._before(own) or log.before
        if log.batch_id < self.batch_id - 1:
            return self._from_elsewhere(log, before, whole)
        is_missing = log.makes_snapshot and (before is None or before.batch_id < log.batch_id)
        if log.batch_id < self.batch_id and is_missing:
            if whole:
                return BatchesMissing(
                    log.batch_id, f"no snapshot of batch {log.batch_id} follows {_shown(log.head)}"
                ), None
            return NotCommitted(), LastBatch(log.batch_id, None)
        if log.batch_id == self.batch_id and log.makes_snapshot and not whole:
            tagged = self._landed(self._tagged())
            if tagged is not None:
                return tagged, None
            return OutcomeUnknown(
                True, f"snapshots after {_shown(log.head)} have expired, and the batch's may be among them"
            ), None
        return NotCommitted(), before

    def _in_another_history(self, log: SinkLog) -> _Verdict:
        """The outcome when the branch lacks the logged head."""
        own = self._everywhere()
        landed = self._landed(own)
        if landed is not None:
            return landed, None
        newest = self._before(own)
        if log.batch_id < self.batch_id - 1:
            return self._from_elsewhere(log, newest, True)
        needed, is_gone = log.before, False
        if log.batch_id < self.batch_id and log.makes_snapshot:
            needed, is_gone = LastBatch(log.batch_id, None), True  # it came after the head that is gone
        elif log.batch_id > self.batch_id:
            needed = LastBatch(self.batch_id - 1, None)
        if needed is None or (newest is not None and newest.batch_id >= needed.batch_id):
            return NotCommitted(), newest
        why = f"{_shown(log.head)}, which the query saw before batch {log.batch_id}, is not in its history"
        if is_gone or (needed.place is not None and not self._may_have_expired(needed.place)):
            return BatchesMissing(_after(newest), why), None
        return OutcomeUnknown(False, why), None

    def _from_elsewhere(self, log: SinkLog, newest: LastBatch | None, whole: bool) -> _Verdict:
        """The outcome when the query logged none of the last batches: it wrote to another branch meanwhile."""
        if newest is not None and newest.batch_id == self.batch_id - 1:
            return NotCommitted(), newest
        last = self.batch_id - 1
        why = f"the query logged nothing there after batch {log.batch_id}, and no snapshot of batch {last} is found"
        if whole:
            return BatchesMissing(max(_after(newest), log.batch_id + 1), why), None
        return OutcomeUnknown(False, f"{why}; snapshots have expired"), None

    def without_log(self) -> _Verdict:
        """The outcome when the query has no log, usually on a branch that is new to it."""
        own = self._everywhere()
        landed = self._landed(own)
        if landed is not None:
            return landed, None
        newest = self._before(own)
        if self.batch_id == 0 or (newest is not None and newest.batch_id == self.batch_id - 1):
            return NotCommitted(), newest
        why = f"the query has no log there, and no snapshot of batch {self.batch_id - 1} is found"
        ids = list_snapshot_ids(self.handle)
        elsewhere = self._other_branch()
        if not ids or ids[0] == 1:
            return BatchesMissing(_after(newest), why, elsewhere), None
        return OutcomeUnknown(False, f"{why}; snapshots before {ids[0]} have expired", elsewhere), None

    def _other_branch(self) -> str:
        """A branch where the query has a log, main first; empty without one."""
        names = dict.fromkeys((MAIN, *list_branch_names(self.handle)))
        others = (self.handle.on_branch_directory(name) for name in names if name != self.handle.branch)
        return next((o.branch for o in others if o.store.exists(sink_log_path(o, self.sink.query_id))), "")

    def _is_own(self, snapshot: Snapshot) -> bool:
        if snapshot.commit_identifier == BATCH_COMMIT_IDENTIFIER:
            return False
        query_id = self.sink.query_id
        is_user = snapshot.commit_user == query_id or snapshot.commit_user.endswith(f"_{query_id}")
        return is_user or (snapshot.properties or {}).get(QUERY_PROPERTY) == query_id

    def _landed(self, own: Sequence[Snapshot]) -> AlreadyCommitted | None:
        """The batch, or later ones, among snapshots of the query."""
        found = [s for s in own if s.commit_identifier >= self.batch_id]
        rows = (s for s in found if s.commit_identifier == self.batch_id and s.commit_kind is not CommitKind.COMPACT)
        return AlreadyCommitted(next(rows, None)) if found else None

    def _before(self, own: Sequence[Snapshot]) -> LastBatch | None:
        """The newest earlier batch, from snapshots of the query."""
        earlier = [s for s in own if s.commit_identifier < self.batch_id]
        # A compaction of a batch follows on its rows, which may be all that a copy of the branch has of it.
        newest = max(
            earlier, key=lambda s: (s.commit_identifier, s.commit_kind is not CommitKind.COMPACT, s.id), default=None
        )
        return None if newest is None else LastBatch(newest.commit_identifier, SnapshotKey.of(newest))

    def _everywhere(self) -> list[Snapshot]:
        """The query's snapshots that the branch holds, alive or in a tag."""
        alive = read_alive(self.handle, list_snapshot_ids(self.handle))
        return [*(s for s in alive if self._is_own(s)), *self._tagged()]

    def _tagged(self) -> list[Snapshot]:
        newest = 0 if self.head is None else self.head.id
        tagged = (tag.snapshot for tag in list_tags(self.handle))
        return [s for s in tagged if s.id <= newest and self._is_own(s) and not self._is_replaced(s)]

    def _is_replaced(self, snapshot: Snapshot) -> bool:
        """Whether the branch's history has another snapshot in its place."""
        found = find_snapshot(self.handle, snapshot.id)
        return found is not None and SnapshotKey.of(found) != SnapshotKey.of(snapshot)

    def _may_have_expired(self, place: SnapshotKey) -> bool:
        """Whether the snapshot is in the history, or expired from it as far as ids show."""
        ids = list_snapshot_ids(self.handle)
        if ids and place.snapshot_id < ids[0]:
            return True
        found = find_snapshot(self.handle, place.snapshot_id)
        return found is not None and SnapshotKey.of(found) == place


def _later(
    handle: TableHandle, logged: SnapshotKey | None, head: Snapshot | None
) -> tuple[Sequence[Snapshot], bool] | None:
    """The snapshots after a logged head, ascending, and whether none of them has expired.

    None when the branch does not hold that head, and it has not expired either.
    """
    if head is None:
        return ((), True) if logged is None else None
    first = 1 if logged is None else logged.snapshot_id
    if first > head.id:
        return None
    found: list[Snapshot] = []
    try:
        for start in range(first, head.id, _TOGETHER):
            found += read_snapshots(handle, range(start, min(start + _TOGETHER, head.id)))
        found.append(head)
    except (FileMissingError, CorruptFileError):
        alive = list_snapshot_ids(handle)
        found = read_alive(handle, [i for i in alive if i >= first])
        if alive and first < alive[0]:
            return found, False
        if len(found) < head.id + 1 - first:
            return None  # a hole: other engines leave one when they roll back
    if logged is None:
        return found, True
    return (found[1:], True) if SnapshotKey.of(found[0]) == logged else None


def _shown(place: SnapshotKey | None) -> str:
    return "the empty branch" if place is None else f"snapshot {place.snapshot_id}"


def _after(newest: LastBatch | None) -> int:
    """The first batch after the newest that is there."""
    return 0 if newest is None else newest.batch_id + 1


def sink_log_path(handle: TableHandle, query_id: str) -> str:
    """The path of the query's log. Raises InvalidInputError: the id cannot be part of a path."""
    if not is_file_name(query_id):
        raise InvalidInputError(f"{query_id!r} is not the id of a streaming query", query_id=query_id)
    return f"{handle.layout.sink_dir}/{SINK_PREFIX}{query_id}"


def read_sink_log(handle: TableHandle, query_id: str) -> SinkLog | None:
    """The query's log; None when it has none."""
    return find_decoded(handle.store, sink_log_path(handle, query_id), decode_sink_log)


def write_sink_log(handle: TableHandle, log: SinkLog) -> None:
    """Replace the query's log before a commit. Raises StorageError: then nothing may be committed."""
    handle.store.write(sink_log_path(handle, log.query_id), encode_sink_log(log))


def encode_sink_log(log: SinkLog) -> bytes:
    """The bytes of the file: small, JSON, with a version."""
    before = log.before
    raw = {
        "version": _VERSION,
        "query": log.query_id,
        "user": log.commit_user,
        "batch": log.batch_id,
        "makesSnapshot": log.makes_snapshot,
        "head": _place(log.head),
        "jobs": list(log.jobs),
        "before": None if before is None else {"batch": before.batch_id, "place": _place(before.place)},
    }
    return encode_value(raw, indent=2)


def decode_sink_log(data: bytes, path: str) -> SinkLog:
    """The log in the bytes of a file; `path` is for messages. Raises as `read_sink_log`."""

    def build(raw: dict[str, Any]) -> SinkLog:
        version = raw["version"]
        if isinstance(version, int) and version > _VERSION:
            raise UnknownFormatVersionError(
                f"{path} is of version {version}, known is {_VERSION}: a later release of paimon-spark wrote it; "
                "use that one",
                path=path,
            )
        before = raw.get("before")
        return SinkLog(
            checked_text(raw["query"]),
            checked_text(raw["user"]),
            checked_number(raw["batch"]),
            _flag(raw["makesSnapshot"]),
            _found(raw["head"]),
            tuple(checked_text(job) for job in raw["jobs"]),
            None if before is None else LastBatch(checked_number(before["batch"]), _found(before["place"])),
        )

    return decode_object(
        data,
        build,
        lambda why: CorruptFileError(
            f"{path} does not say which batch its query was about to commit ({why}); remove it, and the snapshots "
            "alive show that instead",
            path=path,
        ),
    )


def _place(place: SnapshotKey | None) -> Mapping[str, Any] | None:
    return None if place is None else {"snapshot": place.snapshot_id, "made": place.made}


def _found(raw: Mapping[str, Any] | None) -> SnapshotKey | None:
    return None if raw is None else SnapshotKey(checked_number(raw["snapshot"]), checked_text(raw["made"]))


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{value!r} is neither true nor false")
    return value
