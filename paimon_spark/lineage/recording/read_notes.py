"""Notes of reads: which tables a job or query has read, written by its tasks.

Only a task knows for which job or query it reads. The planner gives the first task of a plan a ticket with what is
read; the task adds what it runs for, and writes one small file, which becomes rows later:

    _lineage/notes/stream/<query id>/<batch>-<branch>-<last>.json   of a streaming query, one per batch and branch
    _lineage/notes/batch/<job>/<app id>-<branch>-<token>.json       of a batch job, one per read
    _lineage/notes/readers/<token>.json                             which query a stream's reader reads for

`<branch>` is a digest. Two sources of a query that read the same branch, but not as far, have a file each: the slower
one counts. The same ticket gives the same file in whichever task, so that a task that runs twice changes nothing. Files
that are unreadable are left alone. All functions here raise StorageError, except for `write_note`.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final

from paimon_spark.errors import CorruptFileError, FileMissingError
from paimon_spark.format.json_files import decode_object, find_object
from paimon_spark.jobs.lineage_port import TaskIdentity
from paimon_spark.lineage.index.provenance import SourceRange, TableRef
from paimon_spark.lineage.index.warehouse import Warehouse, quote_name, short_digest, warn_once
from paimon_spark.metadata.small_files import read_existing

_VERSION: Final = 1
_SUFFIX: Final = ".json"
_DIGITS: Final = 12
_STREAM_FILE: Final = re.compile(r"(\d+)-([0-9a-f]+)-(?:\d+|none)\.json")
_PROCESS: Final = uuid.uuid4().hex


@dataclass(frozen=True, slots=True)
class NoteTicket:
    """Read of a branch by a plan, for the task that writes the note. Picklable.

    Attributes:
        warehouse: of the branch; the note is written there.
        after, last, within: as in `SourceRange`.
        time_ms: epoch milliseconds of the planning.
        token: unique for each plan of a batch read.
        job: `lineage.job` of the read; a batch read always has one.
        reader: key under which a stream's reader finds its query, until it knows it.
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
    """A note in the file `path`: what was read, and what for.

    Attributes:
        is_recorded: its row is in the lineage tables.
        barrier: of a batch job that only read: the barrier of its row.
    """

    path: str
    ref: TableRef
    after: int | None
    last: int | None
    within: int | None
    time_ms: int
    job: str | None
    task: TaskIdentity
    is_recorded: bool = False
    barrier: int | None = None

    @property
    def range(self) -> SourceRange:
        """The source range, for a commit to the same warehouse."""
        return SourceRange(self.ref, after=self.after, last=self.last, within=self.within)

    def in_batch(self, batch_id: int) -> ReadNote:
        """The note of a stream as of its own or a later micro-batch, which has read nothing more."""
        return replace(self, after=self.last) if self.batch_id < batch_id else self

    @property
    def batch_id(self) -> int:
        """The micro-batch; -1 for the note of a batch job."""
        return -1 if self.task.batch_id is None else self.task.batch_id


def encode_note(note: ReadNote) -> bytes:
    """The content of the file of a note."""
    raw: dict[str, Any] = {"version": _VERSION, **note.ref.as_json, "time": note.time_ms}
    optional = {name: getattr(note, name) for name in ("after", "last", "within", "job", "barrier")}
    raw |= {name: value for name, value in optional.items() if value is not None}
    raw |= encode_identity(note.task)
    if note.is_recorded:
        raw["recorded"] = True
    return json.dumps(raw, separators=(",", ":")).encode()


def decode_note(path: str, data: bytes) -> ReadNote:
    """Decode a note. Raises CorruptFileError: it is unreadable."""

    def build(raw: dict[str, Any]) -> ReadNote:
        if raw["version"] > _VERSION:
            raise ValueError(f"version {raw['version']}, known is {_VERSION}")
        return ReadNote(
            path,
            TableRef.parse(_checked_text(raw["table"]), _optional_text(raw, "database")),
            time_ms=int(raw["time"]),
            job=_optional_text(raw, "job"),
            task=decode_identity(raw),
            is_recorded=bool(raw.get("recorded", False)),
            **{name: _checked_count(raw.get(name)) for name in ("after", "last", "within", "barrier")},
        )

    return decode_object(data, build, lambda why: CorruptFileError(f"{path} is not a note of a read: {why}", path=path))


def encode_identity(task: TaskIdentity) -> dict[str, Any]:
    """Encode what a task runs for."""
    return {key: value for key, value in zip(("app", "query", "batch", "name"), task, strict=True) if value is not None}


def decode_identity(raw: Any) -> TaskIdentity:
    """Decode what a task ran for. Raises KeyError, TypeError, ValueError, AttributeError: it is unreadable."""
    query_id, name = _optional_text(raw, "query"), _optional_text(raw, "name")
    return TaskIdentity(_checked_text(raw["app"]), query_id, _checked_count(raw.get("batch")), name)


def _optional_text(raw: Any, key: str) -> str | None:
    return None if raw.get(key) is None else _checked_text(raw[key])


def _checked_text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"expected text, found {value!r}")
    return value


def _checked_count(value: Any) -> int | None:
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"expected a snapshot or batch id, found {value!r}")
    return value


def write_note(ticket: NoteTicket, task: TaskIdentity) -> bool:
    """Write the note of a read; whether there is one now. Never raises: a failure is one warning for each process.

    A stream outside of a streaming query gets none.
    """
    warehouse = ticket.warehouse
    try:
        path = _path_of(ticket, task)
        if path is None:
            return False
        read = ticket.after, ticket.last, ticket.within
        note = ReadNote(path, ticket.ref, *read, ticket.time_ms, ticket.job, task, barrier=ticket.barrier)
        warehouse.store.write(path, encode_note(note))
        if ticket.reader is not None:
            warehouse.store.write(_of_reader(warehouse, ticket.reader), json.dumps(encode_identity(task)).encode())
    except Exception as e:  # noqa: BLE001 - no read fails for what is noted of it
        warn_once(warehouse.url, f"cannot note what is read of {ticket.ref.name}", e)
        return False
    return True


def _path_of(ticket: NoteTicket, task: TaskIdentity) -> str | None:
    """The file of the note of a read; None for one that gets no note."""
    branch = _digest(ticket.ref)
    if not ticket.is_stream:
        name = f"{quote_name(task.app_id)}-{branch}-{quote_name(ticket.token)}{_SUFFIX}"
        return None if ticket.job is None else f"{_of_job(ticket.warehouse, ticket.job)}/{name}"
    if task.query_id is None or task.batch_id is None:
        return None
    last = "none" if ticket.last is None else ticket.last
    return f"{_of_query(ticket.warehouse, task.query_id)}/{task.batch_id}-{branch}-{last}{_SUFFIX}"


def stream_notes(warehouse: Warehouse, query_id: str) -> list[ReadNote]:
    """The notes of a streaming query, older batches first."""
    found = _read_all(warehouse, _of_query(warehouse, query_id))
    return sorted((n for n in found if n.task.query_id == query_id), key=lambda n: (n.batch_id, n.path))


def newest_stream_notes(warehouse: Warehouse, query_id: str, batch_id: int) -> list[ReadNote]:
    """Newest notes of a query's reads by branch, as of the end of a micro-batch."""
    found = newest_per_source(n for n in stream_notes(warehouse, query_id) if n.batch_id <= batch_id)
    return [n.in_batch(batch_id) for n in found]


def stream_notes_of(warehouse: Warehouse, query_id: str, ref: TableRef, after: int = -1) -> list[ReadNote]:
    """Notes of one branch and of batches after `after`; other files are not read."""
    folder, wanted = _of_query(warehouse, query_id), _digest(ref)

    def is_wanted(name: str) -> bool:
        found = _STREAM_FILE.fullmatch(name)
        return found is not None and found.group(2) == wanted and int(found.group(1)) > after

    found = _read_all(warehouse, folder, is_wanted)
    return sorted((n for n in found if (n.task.query_id, n.ref) == (query_id, ref)), key=lambda n: (n.batch_id, n.path))


def batch_notes(warehouse: Warehouse, job: str, app_id: str | None = None) -> list[ReadNote]:
    """The notes of a batch job, older ones first; with `app_id` only those of an application are read."""
    start = "" if app_id is None else f"{quote_name(app_id)}-"
    found = _read_all(warehouse, _of_job(warehouse, job), lambda name: name.startswith(start))
    found = [n for n in found if app_id is None or n.task.app_id == app_id]
    return sorted((n for n in found if n.job == job), key=lambda n: (n.time_ms, n.path))


def old_batch_notes(warehouse: Warehouse, job: str, before_ms: int) -> list[ReadNote]:
    """Notes written before a moment, in epoch milliseconds; other files are not read."""
    folder = _of_job(warehouse, job)
    found = warehouse.store.list(folder)
    old = {i.name for i in found if i.modified_ms is not None and i.modified_ms < before_ms}
    return [n for n in _read_all(warehouse, folder, old.__contains__) if n.job == job] if old else []


def all_stream_queries(warehouse: Warehouse) -> list[str]:
    """Ids of the queries with notes."""
    return sorted({n.task.query_id for n in _one_note_each(warehouse, "stream") if n.task.query_id is not None})


def all_batch_jobs(warehouse: Warehouse) -> list[str]:
    """Names of the batch jobs with notes."""
    return sorted({n.job for n in _one_note_each(warehouse, "batch") if n.job is not None})


def query_of_reader(warehouse: Warehouse, reader: str) -> TaskIdentity | None:
    """The query of a stream's reader; None until one of its tasks has written it."""
    try:
        return find_object(warehouse.store.read(_of_reader(warehouse, reader)), decode_identity)
    except FileMissingError:
        return None


def forget_reader(warehouse: Warehouse, reader: str) -> None:
    """Delete the file with the query of a reader."""
    warehouse.store.delete(_of_reader(warehouse, reader))


def forget_old_readers(warehouse: Warehouse, before_ms: int) -> None:
    """Delete such files of readers that died before they looked."""
    folder = f"{_root(warehouse)}/readers"
    old = [i.name for i in warehouse.store.list(folder) if i.modified_ms is not None and i.modified_ms < before_ms]
    warehouse.store.delete_many([f"{folder}/{name}" for name in old])


def mark_recorded(warehouse: Warehouse, note: ReadNote) -> None:
    """Mark a note whose row is in the lineage tables, so that it is not written again."""
    warehouse.store.write(note.path, encode_note(replace(note, is_recorded=True)))


def give_barrier(warehouse: Warehouse, note: ReadNote, barrier: int) -> ReadNote:
    """Write the barrier of a read into its note before the row is, so that it survives a crash."""
    given = replace(note, barrier=barrier)
    warehouse.store.write(note.path, encode_note(given))
    return given


def delete_notes(warehouse: Warehouse, notes: Iterable[ReadNote]) -> None:
    """Delete notes."""
    paths = [n.path for n in notes]
    if paths:
        warehouse.store.delete_many(paths)


def newest_per_source(notes: Iterable[ReadNote]) -> list[ReadNote]:
    """The newest note of each branch; of two in one batch of a query that of the slower source."""
    newest: dict[TableRef, ReadNote] = {}
    for note in notes:
        known = newest.get(note.ref)
        if known is None or _newness(known) < _newness(note):
            newest[note.ref] = note
    return list(newest.values())


def this_process() -> TaskIdentity:
    """The identity of this process, for reads and writes without Spark."""
    return TaskIdentity(_PROCESS)


def _newness(note: ReadNote) -> tuple[int, int, int, str]:
    """Sort key: newer notes later; of one batch slower sources later."""
    if note.task.query_id is None:
        return note.batch_id, note.time_ms, 0, note.path
    return note.batch_id, -(note.last or 0), -int(note.within is not None), note.path


def _digest(ref: TableRef) -> str:
    return short_digest(ref.name, _DIGITS)


def _root(warehouse: Warehouse) -> str:
    return f"{warehouse.lineage_dir}/notes"


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
    return list(_read(warehouse, [f"{folder}/{name}" for name in _names(warehouse, folder) if is_wanted(name)]))


def _read(warehouse: Warehouse, paths: Sequence[str]) -> Iterator[ReadNote]:
    """The notes in files, without those that are gone or unreadable."""
    for path, data in read_existing(warehouse.store, paths):
        try:
            note = decode_note(path, data)
        except CorruptFileError as e:
            warn_once(warehouse.url, f"skipping {warehouse.store.url(path)}, which is not a note of a read", e)
            continue
        yield note


def _one_note_each(warehouse: Warehouse, kind: str) -> Iterator[ReadNote]:
    """One readable note of each query or job."""
    root = f"{_root(warehouse)}/{kind}"
    folders = [f"{root}/{info.name}" for info in warehouse.store.list(root) if info.is_directory]
    for folder in folders:
        one_by_one = (note for name in _names(warehouse, folder) for note in _read(warehouse, [f"{folder}/{name}"]))
        yield from islice(one_by_one, 1)
