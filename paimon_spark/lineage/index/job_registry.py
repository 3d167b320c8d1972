"""Registry of jobs: owners of names, streaming queries, run numbers, forgotten jobs.

    _lineage/jobs/<name>.json         the query that owns the name; batch jobs share a name
    _lineage/jobs/<name>/<n>          run n of a batch job; only the newest few files stay
    _lineage/queries/<query id>.json  job, checkpoint and recorder of sources of a query; when it ended
    _lineage/forgotten/<name>.json    when a job was forgotten

A query that is started with a new checkpoint begins at batch 0 again, so the rows of two queries under one name would
replace each other. A name therefore belongs to the first query that took it, until its job is forgotten. Snapshots of a
forgotten job still name it: what is not newer than that moment is skipped by every search for missing rows.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from paimon_spark.errors import CorruptFileError, FileAlreadyThereError, FormatError
from paimon_spark.format.json_files import decode_object
from paimon_spark.lineage.index.tables import SINK_SNAPSHOT, SOURCE_SNAPSHOT, column_equals, newest_barrier
from paimon_spark.lineage.index.warehouse import (
    FILE_VERSION,
    Warehouse,
    encode_file,
    quote_name,
    warn_once,
)
from paimon_spark.metadata.retry import now_ms
from paimon_spark.metadata.small_files import find_decoded, numbered, read_existing
from paimon_spark.redaction import get_logger, without_user_password
from paimon_spark.storage.store import AtomicCreate

if TYPE_CHECKING:
    from paimon_spark.lineage.index.tables import Index

T = TypeVar("T")

_LOG = get_logger(__name__)
_SUFFIX: Final = ".json"
_KEPT_RUNS: Final = 16
"""Run files kept below the newest number."""
_SHORT: Final = 8
"""Characters of a query id in the name of a second query."""


@dataclass(frozen=True, slots=True)
class Registration:
    """A streaming query: its name in the lineage tables, and the URL of its checkpoint where that is known.

    Attributes:
        sink_records_sources: its sink writes the rows of its sources, so that they need not.
        ended_ms: when it was noticed to have ended, in epoch milliseconds; None while it runs, or may run.
        replays: the job that it runs again on a branch, with a checkpoint of its own; None for any other query.
    """

    job: str
    checkpoint: str | None = None
    sink_records_sources: bool = False
    ended_ms: int | None = None
    replays: str | None = None


@dataclass(frozen=True, slots=True)
class Owner:
    """Owner of a name: a streaming query, or batch jobs, which have no `query_id`."""

    job: str
    query_id: str | None


def claim_name(warehouse: Warehouse, wanted: str, query_id: str | None, replayed_on: str | None = None) -> str:
    """Claim the name under which a job is recorded: `wanted`, unless another has it. Of two that race one gets it.

    The other name is `<wanted>@<first 8 characters of the query id>`, or `<wanted>@batch` for batch jobs, which share
    a name and have no query id. The same query gets the same name each time. A query that runs the job `wanted` again
    on branch `replayed_on` is `<wanted>@<branch>` where that is free: its batches begin at 0 again, so that its rows
    must not be those of the job.

    Raises:
        StorageError, CorruptFileError: the file of the owner cannot be read or written.
    """
    wanted = wanted.encode("utf-8", "backslashreplace").decode()  # lone surrogates cannot be written
    for name in _candidate_names(wanted, query_id, replayed_on):
        owner = _claim(warehouse, name, query_id)
        if owner.query_id == query_id and owner.job == name:
            if name != wanted and replayed_on is None:
                taken_by = "streaming queries and batch jobs" if query_id is None else "another query or checkpoint"
                warn_once(
                    warehouse.url,
                    f"job name {wanted!r} belongs to {taken_by}; this job is recorded as {name!r}. Choose another name "
                    f"with option lineage.job, or free this one with catalog.lineage.forget_job({wanted!r})",
                )
            return name
    raise AssertionError("a query's name with its whole id is that query's")


def find_owner(warehouse: Warehouse, job: str) -> Owner | None:
    """The owner of a name; None when it is free. Raises as `claim_name`."""
    return find_decoded(warehouse.store, job_path(warehouse, job), _decode_owner)


def register_query(warehouse: Warehouse, query_id: str, registration: Registration) -> None:
    """Register a query, or update its registration. Safe to repeat.

    A known checkpoint is kept when the new registration has none. A URL with a password is not written. A query that
    had ended runs again, unless the new registration has its end.
    """
    try:
        before = find_registration(warehouse, query_id)
    except CorruptFileError:
        before = None
    given = registration.checkpoint
    given = given if given is None or without_user_password(given) == given else None
    checkpoint = given or (before.checkpoint if before and before.job == registration.job else None)
    replays = registration.replays or (before.replays if before and before.job == registration.job else None)
    new = replace(registration, checkpoint=checkpoint, replays=replays)
    if new != before:
        _write_registration(warehouse, query_id, new)


def mark_ended(warehouse: Warehouse, query_id: str, moment_ms: int | None) -> None:
    """Note when a query ended, in epoch milliseconds; None: it runs again. Nothing for a query that is not registered.

    Raises:
        StorageError, CorruptFileError: its registration cannot be read or written.
    """
    before = find_registration(warehouse, query_id)
    if before is not None and before.ended_ms != moment_ms:
        _write_registration(warehouse, query_id, replace(before, ended_ms=moment_ms))


def note_query(warehouse: Warehouse, query_id: str, *, ended: bool) -> None:
    """Note that a query of some session began or ended, if it is registered here. Never raises."""
    try:
        mark_ended(warehouse, query_id, now_ms() if ended else None)
    except Exception as e:  # noqa: BLE001 - the listeners of a session must go on
        warn_once(warehouse.url, f"cannot note that streaming query {query_id} {'ended' if ended else 'began'}", e)


def _write_registration(warehouse: Warehouse, query_id: str, new: Registration) -> None:
    ended: dict[str, Any] = {} if new.ended_ms is None else {"endedMs": new.ended_ms}
    ended |= {} if new.replays is None else {"replays": new.replays}
    data = encode_file(
        query=query_id, job=new.job, checkpoint=new.checkpoint, sinkRecordsSources=new.sink_records_sources, **ended
    )
    warehouse.store.write(query_path(warehouse, query_id), data)


def find_registration(warehouse: Warehouse, query_id: str) -> Registration | None:
    """The registration of a query; None when it has none. Raises CorruptFileError."""
    found = find_decoded(warehouse.store, query_path(warehouse, query_id), _decode_registration)
    return None if found is None else found[1]


def registrations(warehouse: Warehouse) -> dict[str, Registration]:
    """Registrations by query id; unreadable files are skipped."""
    return dict(_decoded_files(warehouse, f"{warehouse.lineage_dir}/queries", _decode_registration))


def release_name(warehouse: Warehouse, job: str) -> None:
    """Free a name, and remove the registration of the query that had it."""
    for query_id, registration in registrations(warehouse).items():
        if registration.job == job:
            warehouse.store.delete(query_path(warehouse, query_id))
    warehouse.store.delete(job_path(warehouse, job))


def job_path(warehouse: Warehouse, job: str) -> str:
    """The file of the owner of a name."""
    return f"{warehouse.lineage_dir}/jobs/{quote_name(job)}{_SUFFIX}"


def query_path(warehouse: Warehouse, query_id: str) -> str:
    """The file of the registration of a query."""
    return f"{warehouse.lineage_dir}/queries/{quote_name(query_id)}{_SUFFIX}"


def read_json_files(warehouse: Warehouse, directory: str) -> Iterator[tuple[str, bytes]]:
    """Paths and bytes of the JSON files of a directory."""
    store = warehouse.store
    paths = [f"{directory}/{i.name}" for i in store.list(directory) if not i.is_directory and i.name.endswith(_SUFFIX)]
    yield from read_existing(store, paths)


def _decoded_files(warehouse: Warehouse, directory: str, decode: Callable[[bytes, str], T]) -> Iterator[T]:
    """The decoded files of a directory, except for corrupt ones."""
    for path, data in read_json_files(warehouse, directory):
        try:
            found = decode(data, path)
        except CorruptFileError as e:
            _LOG.warning("skipping a file of lineage: %s", e)
            continue
        yield found


def _candidate_names(wanted: str, query_id: str | None, replayed_on: str | None) -> tuple[str, ...]:
    if query_id is None:
        return wanted, f"{wanted}@batch", f"{wanted}@batch@batch"
    of_branch = () if replayed_on is None else (f"{wanted}@{replayed_on}",)
    return wanted, *of_branch, f"{wanted}@{query_id[:_SHORT]}", f"{wanted}@{query_id}"


def _claim(warehouse: Warehouse, name: str, query_id: str | None) -> Owner:
    """The owner of a name, which is this job if it was free."""
    found = find_owner(warehouse, name)
    if found is not None:
        return found
    try:
        warehouse.store.create_exclusive(job_path(warehouse, name), encode_file(job=name, query=query_id))
    except FileAlreadyThereError:
        pass
    else:
        # Without exclusive creation two may have succeeded: the one whose bytes stayed has the name.
        if warehouse.store.atomic_create is not AtomicCreate.NONE:
            return Owner(name, query_id)
    return find_owner(warehouse, name) or Owner(name, query_id)


def _decode_owner(data: bytes, path: str) -> Owner:
    raw = checked_object(data, path)
    job, query = raw.get("job"), raw.get("query")
    if not isinstance(job, str) or not isinstance(query, str | None):
        raise _corrupt(path, "expected a job, and a query that is text or null")
    return Owner(job, query)


def _decode_registration(data: bytes, path: str) -> tuple[str, Registration]:
    raw = checked_object(data, path)
    query, job, checkpoint = raw.get("query"), raw.get("job"), raw.get("checkpoint")
    if not isinstance(query, str) or not isinstance(job, str) or not isinstance(checkpoint, str | None):
        raise _corrupt(path, "expected a query, a job, and a checkpoint that is text or null")
    ended_ms = raw.get("endedMs")
    if not isinstance(ended_ms, int | None):
        raise _corrupt(path, "expected the moment of an end as a number")
    replays = raw.get("replays")
    if not isinstance(replays, str | None):
        raise _corrupt(path, "expected the job that it replays as text")
    return query, Registration(job, checkpoint, raw.get("sinkRecordsSources") is True, ended_ms, replays)


def checked_object(data: bytes, path: str) -> dict[str, Any]:
    """The JSON object of a small file of lineage. Raises CorruptFileError."""

    def build(raw: dict[str, Any]) -> dict[str, Any]:
        if not isinstance(raw.get("version"), int) or raw["version"] > FILE_VERSION:
            raise FormatError(f"expected an object of version {FILE_VERSION}")
        return raw

    return decode_object(data, build, lambda why: _corrupt(path, why))


def _corrupt(path: str, why: str) -> CorruptFileError:
    message = f"{path} does not hold the owner of a lineage job's name: {why}; remove it to free the name"
    return CorruptFileError(message, path=path)


def draw_barrier(index: Index, job: str) -> int:
    """Draw the number of the next run of a batch job. No two processes draw the same; numbers may be skipped.

    The first one follows the newest barrier of the job in the lineage tables.
    """
    warehouse = index.warehouse
    folder = _runs_folder(warehouse, job)
    drawn = numbered(warehouse.store, folder, "")
    where = column_equals("job", job)
    mine = 1 + (drawn[-1] if drawn else max(newest_barrier(index, t, where) for t in (SINK_SNAPSHOT, SOURCE_SNAPSHOT)))
    while True:
        if not _create_run(warehouse, folder, mine):
            mine += 1
            continue
        drawn = numbered(warehouse.store, folder, "")
        newest_drawn = max(drawn, default=mine)
        if newest_drawn - mine < _KEPT_RUNS:
            if old := [f"{folder}/{n}" for n in drawn if n <= newest_drawn - _KEPT_RUNS]:
                warehouse.store.delete_many(old)
            return mine
        mine = newest_drawn + 1


def reserve_barrier(warehouse: Warehouse, job: str, barrier: int) -> None:
    """Make numbers that are drawn later greater than this one, which the user chose."""
    folder = _runs_folder(warehouse, job)
    drawn = numbered(warehouse.store, folder, "")
    if not drawn or drawn[-1] < barrier:
        _create_run(warehouse, folder, barrier)


def _create_run(warehouse: Warehouse, folder: str, number: int) -> bool:
    try:
        warehouse.store.create_exclusive(f"{folder}/{number}", uuid.uuid4().hex.encode())
    except FileAlreadyThereError:
        return False
    return True


def _runs_folder(warehouse: Warehouse, job: str) -> str:
    return f"{warehouse.lineage_dir}/jobs/{quote_name(job)}"


def forgotten_before_ms(warehouse: Warehouse, job: str) -> int | None:
    """When a job was forgotten, in epoch milliseconds; None when it was not."""
    try:
        found = find_decoded(warehouse.store, _forgotten_path(warehouse, job), _decode_forgotten)
    except CorruptFileError:
        return None
    return None if found is None else found[1]


def all_forgotten(warehouse: Warehouse) -> dict[str, int]:
    """Forgotten jobs, and when each was forgotten in epoch milliseconds."""
    return dict(_decoded_files(warehouse, f"{warehouse.lineage_dir}/forgotten", _decode_forgotten))


def mark_forgotten(warehouse: Warehouse, job: str, moment_ms: int) -> None:
    """Forget a job up to a moment, in epoch milliseconds; never less than before."""
    moment_ms = max(moment_ms, forgotten_before_ms(warehouse, job) or 0)
    warehouse.store.write(_forgotten_path(warehouse, job), encode_file(job=job, beforeMs=moment_ms))


def _forgotten_path(warehouse: Warehouse, job: str) -> str:
    return f"{warehouse.lineage_dir}/forgotten/{quote_name(job)}{_SUFFIX}"


def _decode_forgotten(data: bytes, path: str) -> tuple[str, int]:
    def build(raw: dict[str, Any]) -> tuple[str, int]:
        job, moment = raw["job"], raw["beforeMs"]
        if not isinstance(job, str) or not isinstance(moment, int):
            raise ValueError("expected a job and a moment")
        return job, moment

    return decode_object(
        data,
        build,
        lambda why: CorruptFileError(f"{path} does not hold when a lineage job was forgotten: {why}", path=path),
    )
