"""Note: what was read of a branch, for which query or job; as a value, and as JSON.

Source: own.

Notes: what tasks that read tell of the query or job they read for; nobody beside the driver knows it.

A planner gives the first task of a plan a ticket: what is read, of which table. The task adds for whom, and writes one
small file. Later somebody who records takes what was noted from there:

    _lineage/notes/stream/<query id>/<batch>-<branch>-<last>.json   of a streaming query, one per batch and branch
    _lineage/notes/batch/<job>/<app id>-<branch>-<token>.json       of a batch job, one per read
    _lineage/notes/readers/<token>.json                             which query a stream's reader reads for

`<branch>` is a digest. Two sources of a query that read the same branch, but not as far, have a file each: the one that
has come less far counts.

The same ticket gives the same file in whichever task: one that runs twice changes nothing. Files that cannot be
understood are left alone.

Source: own.
"""

from __future__ import annotations

import json
import logging
import re
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from paimon_spark.errors import FileMissingError, PaimonError
from paimon_spark.jobs.lineage_port import TaskIdentity
from paimon_spark.lineage.provenance import SourceRange, TableRef
from paimon_spark.lineage.warehouse import Warehouse, quote_name, short_digest
from paimon_spark.metadata.small_files import read_those_there

_VERSION: Final = 1


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
class ReadNote:
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

    def in_batch(self, batch_id: int) -> ReadNote:
        """What the note of a stream says of a micro-batch not older than its own: a later one has read nothing more."""
        return replace(self, after=self.last) if self.batch_id < batch_id else self

    @property
    def batch_id(self) -> int:
        """The micro-batch; -1 for the note of a batch job."""
        return -1 if self.who.batch_id is None else self.who.batch_id


def encode_note(note: ReadNote) -> bytes:
    """A note as its file holds it."""
    raw: dict[str, Any] = {"version": _VERSION, **note.ref.told, "time": note.time_ms}
    optional = {"after": note.after, "last": note.last, "within": note.within, "job": note.job, "barrier": note.barrier}
    raw |= {k: v for k, v in optional.items() if v is not None}
    raw |= encode_identity(note.who)
    if note.is_recorded:
        raw["recorded"] = True
    return json.dumps(raw, separators=(",", ":")).encode()


def decode_note(path: str, data: bytes) -> ReadNote:
    """The note in a file. Raises KeyError, TypeError, ValueError, AttributeError: it cannot be understood."""
    raw = json.loads(data)
    if raw["version"] > _VERSION:
        raise ValueError(f"version {raw['version']}, known is {_VERSION}")
    return ReadNote(
        path,
        TableRef.parse(
            _checked_text(raw["table"]), None if raw.get("database") is None else _checked_text(raw["database"])
        ),
        _checked_count(raw.get("after")),
        _checked_count(raw.get("last")),
        _checked_count(raw.get("within")),
        int(raw["time"]),
        None if raw.get("job") is None else _checked_text(raw["job"]),
        decode_identity(raw),
        bool(raw.get("recorded", False)),
        _checked_count(raw.get("barrier")),
    )


def encode_identity(who: TaskIdentity) -> dict[str, Any]:
    """For whom a task runs, as JSON has it."""
    raw = {
        "app": who.app_id,
        "query": who.query_id,
        "batch": who.batch_id,
        "name": who.query_name,
    }
    return {k: v for k, v in raw.items() if v is not None}


def decode_identity(raw: Any) -> TaskIdentity:
    """For whom a task ran; other keys are passed over. Raises as `decode`."""
    query_id, name = (None if raw.get(k) is None else _checked_text(raw[k]) for k in ("query", "name"))
    return TaskIdentity(_checked_text(raw["app"]), query_id, _checked_count(raw.get("batch")), name)


def _checked_text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"{value!r} is no text")
    return value


def _checked_count(value: Any) -> int | None:
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{value!r} is no number of a snapshot or batch")
    return value


_LOG = logging.getLogger(__name__)
_SUFFIX: Final = ".json"
_DIGITS: Final = 12
_MOST_WARNED: Final = 1000
_STREAM_FILE: Final = re.compile(r"(\d+)-([0-9a-f]+)-(?:\d+|none)\.json")
_PROCESS: Final = uuid.uuid4().hex
_warned: set[tuple[str, str]] = set()
"""Warehouses of which this process has warned, and of what."""


def write_note(ticket: NoteTicket, who: TaskIdentity) -> bool:
    """Note what is read. Never raises: what goes wrong is one warning for each process and warehouse.

    Returns:
        Whether there is a note now; none is made for a stream outside of a streaming query.
    """
    try:
        return _write_note_file(ticket, who)
    except Exception as e:  # noqa: BLE001 - no read fails for what is noted of it
        _warn_once(ticket.warehouse, f"what is read of {ticket.ref.name} cannot be noted for its lineage", e)
        return False


def stream_notes(warehouse: Warehouse, query_id: str) -> list[ReadNote]:
    """The notes of a streaming query, older batches first. Raises StorageError."""
    found = _read_all(warehouse, _of_query(warehouse, query_id))
    return sorted((n for n in found if n.who.query_id == query_id), key=lambda n: (n.batch_id, n.path))


def stream_notes_of(warehouse: Warehouse, query_id: str, ref: TableRef, after: int = -1) -> list[ReadNote]:
    """Those of them that are of one branch, and of a batch after `after`; no others are read. Raises StorageError."""
    folder, wanted = _of_query(warehouse, query_id), _digest(ref)

    def is_wanted(name: str) -> bool:
        found = _STREAM_FILE.fullmatch(name)
        return found is not None and found.group(2) == wanted and int(found.group(1)) > after

    found = _read_all(warehouse, folder, is_wanted)
    return sorted((n for n in found if (n.who.query_id, n.ref) == (query_id, ref)), key=lambda n: (n.batch_id, n.path))


def batch_notes(warehouse: Warehouse, job: str, app_id: str | None = None) -> list[ReadNote]:
    """The notes of a batch job, older ones first. Raises StorageError.

    Args:
        warehouse: of the branches that were read.
        job: as the reads call it.
        app_id: only those of this application; others are not read.
    """
    start = "" if app_id is None else f"{quote_name(app_id)}-"
    found = _read_all(warehouse, _of_job(warehouse, job), lambda name: name.startswith(start))
    found = [n for n in found if app_id is None or n.who.app_id == app_id]
    return sorted((n for n in found if n.job == job), key=lambda n: (n.time_ms, n.path))


def old_batch_notes(warehouse: Warehouse, job: str, before_ms: int) -> list[ReadNote]:
    """Those that were written before a moment, in epoch milliseconds; others are not read. Raises StorageError."""
    folder = _of_job(warehouse, job)
    found = warehouse.store.list(folder)
    old = {i.name for i in found if i.modified_ms is not None and i.modified_ms < before_ms}
    return [n for n in _read_all(warehouse, folder, old.__contains__) if n.job == job] if old else []


def all_stream_queries(warehouse: Warehouse) -> list[str]:
    """Ids of the queries of which there are notes. Raises StorageError."""
    return sorted({n.who.query_id for n in _one_note_each(warehouse, "stream") if n.who.query_id is not None})


def all_batch_jobs(warehouse: Warehouse) -> list[str]:
    """Names of the batch jobs of which there are notes. Raises StorageError."""
    return sorted({n.job for n in _one_note_each(warehouse, "batch") if n.job is not None})


def query_of_reader(warehouse: Warehouse, reader: str) -> TaskIdentity | None:
    """For which query a stream's reader reads; None as long as none of its tasks has told. Raises StorageError."""
    path = _of_reader(warehouse, reader)
    try:
        data = warehouse.store.read(path)
    except FileMissingError:
        return None
    try:
        return decode_identity(json.loads(data))
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def forget_reader(warehouse: Warehouse, reader: str) -> None:
    """Remove what a reader has looked up. Raises StorageError."""
    warehouse.store.delete(_of_reader(warehouse, reader))


def forget_old_readers(warehouse: Warehouse, before_ms: int) -> None:
    """Remove what readers never looked up, because they died. Raises StorageError."""
    folder = f"{_root(warehouse)}/readers"
    old = [i.name for i in warehouse.store.list(folder) if i.modified_ms is not None and i.modified_ms < before_ms]
    warehouse.store.delete_many([f"{folder}/{name}" for name in old])


def mark_recorded(warehouse: Warehouse, note: ReadNote) -> None:
    """Keep a note whose row is in the lineage tables, so that nobody writes it once more. Raises StorageError."""
    warehouse.store.write(note.path, encode_note(replace(note, is_recorded=True)))


def give_barrier(warehouse: Warehouse, note: ReadNote, barrier: int) -> ReadNote:
    """Note under which barrier a read is recorded, before it is: whoever goes on after a crash takes it too.

    Raises:
        StorageError: it cannot be written.
    """
    given = replace(note, barrier=barrier)
    warehouse.store.write(note.path, encode_note(given))
    return given


def delete_notes(warehouse: Warehouse, notes: Iterable[ReadNote]) -> None:
    """Remove notes. Raises StorageError."""
    paths = [n.path for n in notes]
    if paths:
        warehouse.store.delete_many(paths)


def newest_per_source(notes: Iterable[ReadNote]) -> list[ReadNote]:
    """Of each branch the newest note. Of two sources of a query that read it, in the same batch, that of the slower."""
    newest: dict[TableRef, ReadNote] = {}
    for note in notes:
        known = newest.get(note.ref)
        if known is None or _newness(known) < _newness(note):
            newest[note.ref] = note
    return list(newest.values())


def this_process() -> TaskIdentity:
    """For whom reads and writes without Spark run."""
    return TaskIdentity(_PROCESS)


def now_ms() -> int:
    """Epoch milliseconds."""
    return time.time_ns() // 1_000_000


def _write_note_file(ticket: NoteTicket, who: TaskIdentity) -> bool:
    warehouse, branch = ticket.warehouse, _digest(ticket.ref)
    if ticket.is_stream:
        if who.query_id is None or who.batch_id is None:
            return False
        last = "none" if ticket.last is None else ticket.last
        path = f"{_of_query(warehouse, who.query_id)}/{who.batch_id}-{branch}-{last}{_SUFFIX}"
    else:
        if ticket.job is None:
            return False
        path = f"{_of_job(warehouse, ticket.job)}/{quote_name(who.app_id)}-{branch}-{quote_name(ticket.token)}{_SUFFIX}"
    note = ReadNote(
        path,
        ticket.ref,
        ticket.after,
        ticket.last,
        ticket.within,
        ticket.time_ms,
        ticket.job,
        who,
        barrier=ticket.barrier,
    )
    warehouse.store.write(path, encode_note(note))
    if ticket.reader is not None:
        warehouse.store.write(_of_reader(warehouse, ticket.reader), json.dumps(encode_identity(who)).encode())
    return True


def _newness(note: ReadNote) -> tuple[int, int, int, str]:
    """Sorts newer notes later; of one batch those of slower sources."""
    if note.who.query_id is None:
        return note.batch_id, note.time_ms, 0, note.path
    return note.batch_id, -(note.last or 0), -int(note.within is not None), note.path


def _digest(ref: TableRef) -> str:
    return short_digest(ref.name, _DIGITS)


def _root(warehouse: Warehouse) -> str:
    return f"{warehouse.own}/notes"


def _of_query(warehouse: Warehouse, query_id: str) -> str:
    return f"{_root(warehouse)}/stream/{quote_name(query_id)}"


def _of_job(warehouse: Warehouse, job: str) -> str:
    return f"{_root(warehouse)}/batch/{quote_name(job)}"


def _of_reader(warehouse: Warehouse, reader: str) -> str:
    return f"{_root(warehouse)}/readers/{quote_name(reader)}{_SUFFIX}"


def _names(warehouse: Warehouse, folder: str) -> list[str]:
    names = [i.name for i in warehouse.store.list(folder) if not i.is_directory]
    return [n for n in names if n.endswith(_SUFFIX) and not n.startswith((".", "_"))]


def _read_all(warehouse: Warehouse, folder: str, is_wanted: Callable[[str], bool] = lambda _: True) -> list[ReadNote]:
    paths = [f"{folder}/{name}" for name in _names(warehouse, folder) if is_wanted(name)]
    return [
        note
        for path, data in read_those_there(warehouse.store, paths)
        if (note := _decode(warehouse, path, data)) is not None
    ]


def _one_note_each(warehouse: Warehouse, kind: str) -> Iterator[ReadNote]:
    """Of each query or job a note that can be read."""
    root = f"{_root(warehouse)}/{kind}"
    for info in warehouse.store.list(root):
        if not info.is_directory:
            continue
        folder = f"{root}/{info.name}"
        for name in _names(warehouse, folder):
            path = f"{folder}/{name}"
            found = [
                n
                for p, data in read_those_there(warehouse.store, [path])
                if (n := _decode(warehouse, p, data)) is not None
            ]
            if found:
                yield found[0]
                break


def _decode(warehouse: Warehouse, path: str, data: bytes) -> ReadNote | None:
    try:
        return decode_note(path, data)
    except (KeyError, TypeError, ValueError, AttributeError) as e:
        _warn_once(warehouse, f"{warehouse.store.url(path)} is no note of a read and is left alone", e)
        return None


def _warn_once(warehouse: Warehouse, what: str, error: Exception) -> None:
    key = (warehouse.root, what if isinstance(error, PaimonError) else f"{what} {type(error).__name__}")
    if key not in _warned:
        if len(_warned) >= _MOST_WARNED:
            _warned.clear()
        _warned.add(key)
        _LOG.warning("%s: %s: %s", what, type(error).__name__, error)
