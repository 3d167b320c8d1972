"""Note: what was read of a branch, for which query or job; as a value, and as JSON.

Source: own.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any, Final

from paimon_spark.lineage.model import SourceRange, TableRef
from paimon_spark.lineage.place import Warehouse

_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class TaskIdentity:
    """For whom a task runs.

    Attributes:
        app_id: the Spark application; in process a uuid of the process.
        query_id: of the streaming query; None outside of one.
        batch_id: its micro-batch.
        query_name: None for a query without a name.
    """

    app_id: str
    query_id: str | None = None
    batch_id: int | None = None
    query_name: str | None = None


@dataclass(frozen=True, slots=True)
class NoteTicket:
    """What a plan reads of a branch, for the task that notes it. Picklable.

    Attributes:
        warehouse: of the branch; the note goes there.
        is_stream: whether a stream reads.
        after: as in `SourceRange`.
        last: as in `SourceRange`.
        within: as in `SourceRange`.
        time_ms: epoch milliseconds of the planning.
        token: of a batch read another for each plan.
        job: `lineage.job` of the read; a batch read always has one.
        reader: of a stream that does not know its query yet, under which name it looks it up.
        barrier: `lineage.barrier` of a batch read.
    """

    warehouse: Warehouse
    ref: TableRef
    is_stream: bool
    after: int | None
    last: int | None
    within: int | None
    time_ms: int
    token: str = ""
    job: str | None = None
    reader: str | None = None
    barrier: int | None = None


@dataclass(frozen=True, slots=True)
class Note:
    """What was read, and for whom.

    Attributes:
        path: of the file.
        is_recorded: its row is in the lineage tables.
        barrier: of a batch job that only read: under which its row is written.
    """

    path: str
    ref: TableRef
    after: int | None
    last: int | None
    within: int | None
    time_ms: int
    job: str | None
    who: TaskIdentity
    is_recorded: bool = False
    barrier: int | None = None

    @property
    def range(self) -> SourceRange:
        """What was read, for the provenance of a commit to the same warehouse."""
        return SourceRange(self.ref, after=self.after, last=self.last, within=self.within)

    def in_batch(self, batch_id: int) -> Note:
        """What the note of a stream says of a micro-batch not older than its own: a later one has read nothing more."""
        return replace(self, after=self.last) if self.batch_id < batch_id else self

    @property
    def batch_id(self) -> int:
        """The micro-batch; -1 for the note of a batch job."""
        return -1 if self.who.batch_id is None else self.who.batch_id


def encode(note: Note) -> bytes:
    """A note as its file holds it."""
    raw: dict[str, Any] = {"version": _VERSION, **note.ref.told, "time": note.time_ms}
    optional = {"after": note.after, "last": note.last, "within": note.within, "job": note.job, "barrier": note.barrier}
    raw |= {k: v for k, v in optional.items() if v is not None}
    raw |= raw_of(note.who)
    if note.is_recorded:
        raw["recorded"] = True
    return json.dumps(raw, separators=(",", ":")).encode()


def decode(path: str, data: bytes) -> Note:
    """The note in a file. Raises KeyError, TypeError, ValueError, AttributeError: it cannot be understood."""
    raw = json.loads(data)
    if raw["version"] > _VERSION:
        raise ValueError(f"version {raw['version']}, known is {_VERSION}")
    return Note(
        path,
        TableRef.parse(_text(raw["table"]), None if raw.get("database") is None else _text(raw["database"])),
        _count(raw.get("after")),
        _count(raw.get("last")),
        _count(raw.get("within")),
        int(raw["time"]),
        None if raw.get("job") is None else _text(raw["job"]),
        who_of(raw),
        bool(raw.get("recorded", False)),
        _count(raw.get("barrier")),
    )


def raw_of(who: TaskIdentity) -> dict[str, Any]:
    """For whom a task runs, as JSON has it."""
    raw = {
        "app": who.app_id,
        "query": who.query_id,
        "batch": who.batch_id,
        "name": who.query_name,
    }
    return {k: v for k, v in raw.items() if v is not None}


def who_of(raw: Any) -> TaskIdentity:
    """For whom a task ran; other keys are passed over. Raises as `decode`."""
    query_id, name = (None if raw.get(k) is None else _text(raw[k]) for k in ("query", "name"))
    return TaskIdentity(_text(raw["app"]), query_id, _count(raw.get("batch")), name)


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"{value!r} is no text")
    return value


def _count(value: Any) -> int | None:
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{value!r} is no number of a snapshot or batch")
    return value
