"""Who a job is: which streaming query a name belongs to, and what is known of each query.

    _lineage/jobs/<name>.json        whose the name is: the query's id; of batch jobs, which share a name, none
    _lineage/queries/<query id>.json what of a query was registered: its job, its checkpoint, who records its sources

A query that is started with a new checkpoint begins at batch 0 again. So the rows of two queries under one name would
replace each other, and a name belongs to the first query that took it, until its job is forgotten.

Source: own.

Numbers of the runs of a batch job: `_lineage/jobs/<name>/<n>`, made exclusively, so that no two draw the same.

Only the newest few files stay. Whoever drew a number that could have been taken and pruned before draws again.

Source: own.
"""

from __future__ import annotations

import json
import logging
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from paimon_spark.errors import CorruptFileError, FileAlreadyThereError
from paimon_spark.lineage.tables import SINK_SNAPSHOT, SOURCE_SNAPSHOT, column_equals, newest_barrier
from paimon_spark.lineage.warehouse import Warehouse, quote_name, without_password
from paimon_spark.metadata.small_files import find_decoded, numbered, read_those_there
from paimon_spark.storage.store import AtomicCreate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from paimon_spark.lineage.tables import Index

_LOG = logging.getLogger(__name__)
_VERSION: Final = 1
_SUFFIX: Final = ".json"
_SHORT: Final = 8
"""Characters of a query id that tell queries of one name apart."""
_warned: set[tuple[tuple[str, str], str, str | None]] = set()
"""Warehouses, names and queries that this process has warned of."""


@dataclass(frozen=True, slots=True)
class Registration:
    """What is known of a streaming query.

    Attributes:
        job: its name in the lineage tables.
        checkpoint: URL of its checkpoint; None when it is not known.
        sink_records_sources: whether its sink writes the rows of its sources, so that they need not.
    """

    job: str
    checkpoint: str | None = None
    sink_records_sources: bool = False


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose a name is.

    Attributes:
        query_id: of the streaming query; None for batch jobs.
    """

    job: str
    query_id: str | None


def claim_name(where: Index | Warehouse, wanted: str, query_id: str | None) -> str:
    """The name under which a job is recorded: `wanted` if nobody else has it. Of two that race one gets it.

    Args:
        where: the warehouse that records the job.
        wanted: what the job calls itself; any text.
        query_id: of a streaming query. None for a batch job: all of one name share it.

    Returns:
        `wanted`, else `<wanted>@<first 8 characters of the query id>`, `<wanted>@batch` for a batch job. The same for
        the same query each time.

    Raises:
        StorageError: the file that says whose the name is can be neither read nor made.
        CorruptFileError: it cannot be understood.
    """
    warehouse = _warehouse(where)
    wanted = wanted.encode("utf-8", "backslashreplace").decode()  # half characters can be written nowhere
    for name in _candidate_names(wanted, query_id):
        owner = _claim(warehouse, name, query_id)
        if owner.query_id == query_id and owner.job == name:
            if name != wanted:
                _warn_of_other_name(warehouse, wanted, name, query_id)
            return name
    raise AssertionError("a query's name with its whole id is that query's")


def find_owner(where: Index | Warehouse, job: str) -> Owner | None:
    """Whose a job's name is; None when nobody took it. Raises as `own`."""
    warehouse = _warehouse(where)
    return find_decoded(warehouse.store, job_path(warehouse, job), _decode_owner)


def register_query(where: Index | Warehouse, query_id: str, registration: Registration) -> None:
    """Write down what is known of a query, where it is not written yet. Safe to repeat.

    A checkpoint that was known stays known when the new registration has none. One whose URL holds a password is not
    written down.

    Raises:
        StorageError: it cannot be written.
    """
    warehouse = _warehouse(where)
    try:
        known = find_registration(warehouse, query_id)
    except CorruptFileError:
        known = None
    given = registration.checkpoint
    given = given if given is None or without_password(given) == given else None
    checkpoint = given or (known.checkpoint if known and known.job == registration.job else None)
    wanted = Registration(registration.job, checkpoint, registration.sink_records_sources)
    if wanted != known:
        warehouse.store.write(query_path(warehouse, query_id), _encode(query_id, wanted))


def find_registration(where: Index | Warehouse, query_id: str) -> Registration | None:
    """What is known of a query; None when it was never registered.

    Raises:
        StorageError: it cannot be read.
        CorruptFileError: it cannot be understood.
    """
    warehouse = _warehouse(where)
    found = find_decoded(warehouse.store, query_path(warehouse, query_id), _decode_registration)
    return None if found is None else found[1]


def registrations(where: Index | Warehouse) -> dict[str, Registration]:
    """What is known of every query, by its id. Files that cannot be understood are passed over. Raises StorageError."""
    warehouse = _warehouse(where)
    out: dict[str, Registration] = {}
    for path, data in read_json_files(warehouse, f"{warehouse.own}/queries"):
        try:
            query_id, registration = _decode_registration(data, path)
        except CorruptFileError as e:
            _LOG.warning("a query's registration is passed over: %s", e)
            continue
        out[query_id] = registration
    return out


def release_name(where: Index | Warehouse, job: str) -> None:
    """Let whoever comes next take a job's name; the query that had it is no longer registered. Raises StorageError."""
    warehouse = _warehouse(where)
    for query_id, registration in registrations(warehouse).items():
        if registration.job == job:
            warehouse.store.delete(query_path(warehouse, query_id))
    warehouse.store.delete(job_path(warehouse, job))


def job_path(warehouse: Warehouse, job: str) -> str:
    """The file that says whose a name is."""
    return f"{warehouse.own}/jobs/{quote_name(job)}{_SUFFIX}"


def query_path(warehouse: Warehouse, query_id: str) -> str:
    """The file that says what is known of a query."""
    return f"{warehouse.own}/queries/{quote_name(query_id)}{_SUFFIX}"


def read_json_files(warehouse: Warehouse, directory: str) -> Iterator[tuple[str, bytes]]:
    """The JSON files of a directory with their bytes, but for those removed meanwhile. Raises StorageError."""
    store = warehouse.store
    paths = [f"{directory}/{i.name}" for i in store.list(directory) if not i.is_directory and i.name.endswith(_SUFFIX)]
    yield from read_those_there(store, paths)


def _warehouse(where: Index | Warehouse) -> Warehouse:
    return where if isinstance(where, Warehouse) else where.warehouse


def _candidate_names(wanted: str, query_id: str | None) -> tuple[str, ...]:
    if query_id is None:
        return wanted, f"{wanted}@batch", f"{wanted}@batch@batch"
    return wanted, f"{wanted}@{query_id[:_SHORT]}", f"{wanted}@{query_id}"


def _claim(warehouse: Warehouse, name: str, query_id: str | None) -> Owner:
    """Whose the name is now: ours if it was nobody's."""
    found = find_owner(warehouse, name)
    if found is not None:
        return found
    path = job_path(warehouse, name)
    raw = {"version": _VERSION, "job": name, "query": query_id}
    try:
        warehouse.store.create_exclusive(path, json.dumps(raw, ensure_ascii=True).encode())
    except FileAlreadyThereError:
        pass
    else:
        # A store that makes nothing exclusively may have let two in: the one whose bytes stayed has the name.
        if warehouse.store.atomic_create is not AtomicCreate.NONE:
            return Owner(name, query_id)
    return find_owner(warehouse, name) or Owner(name, query_id)


def _encode(query_id: str, r: Registration) -> bytes:
    raw: dict[str, Any] = {"version": _VERSION, "query": query_id, "job": r.job, "checkpoint": r.checkpoint}
    return json.dumps(raw | {"sinkRecordsSources": r.sink_records_sources}, ensure_ascii=True).encode()


def _decode_owner(data: bytes, path: str) -> Owner:
    raw = _checked_object(data, path)
    job, query = raw.get("job"), raw.get("query")
    if not isinstance(job, str) or not (query is None or isinstance(query, str)):
        raise _corrupt(path, "it has no job, or a query that is no text")
    return Owner(job, query)


def _decode_registration(data: bytes, path: str) -> tuple[str, Registration]:
    raw = _checked_object(data, path)
    query, job, checkpoint = raw.get("query"), raw.get("job"), raw.get("checkpoint")
    if (
        not isinstance(query, str)
        or not isinstance(job, str)
        or not (checkpoint is None or isinstance(checkpoint, str))
    ):
        raise _corrupt(path, "it has no query or job, or a checkpoint that is no text")
    return query, Registration(job, checkpoint, raw.get("sinkRecordsSources") is True)


def _checked_object(data: bytes, path: str) -> dict[str, Any]:
    try:
        raw = json.loads(data)
    except ValueError as e:
        raise _corrupt(path, str(e)) from e
    if not isinstance(raw, dict) or not isinstance(raw.get("version"), int) or raw["version"] > _VERSION:
        raise _corrupt(path, f"expected an object of version {_VERSION}")
    return raw


def _corrupt(path: str, why: str) -> CorruptFileError:
    return CorruptFileError(
        f"{path} does not say whose the name of a lineage job is: {why}; when it is removed, whoever runs next under "
        "that name takes it",
        path=path,
    )


def _warn_of_other_name(warehouse: Warehouse, wanted: str, name: str, query_id: str | None) -> None:
    key = (warehouse.identity, wanted, query_id)
    if key in _warned:
        return
    _warned.add(key)
    whose = (
        "streaming queries and batch jobs"
        if query_id is None
        else "another query (or this one with another checkpoint)"
    )
    _LOG.warning(
        "lineage in %s: the name %r belongs to %s; this job is recorded as %r. Choose a name of its own with the "
        "option lineage.job, or free the name with catalog.lineage.forget_job(%r).",
        warehouse.url, wanted, whose, name, wanted,
    )  # fmt: skip


_KEPT_RUNS: Final = 16
"""Files kept below the newest number."""


def draw_barrier(index: Index, job: str) -> int:
    """The next number of a batch job's runs. No two processes draw the same; some numbers may be left out.

    The first one follows the newest barrier of the job in the lineage tables.

    Raises:
        StorageError: the numbers cannot be listed or made.
    """
    warehouse = index.warehouse
    folder = _runs_folder(warehouse, job)
    drawn = numbered(warehouse.store, folder, "")
    mine = drawn[-1] + 1 if drawn else _first_run(index, job)
    while True:
        try:
            warehouse.store.create_exclusive(f"{folder}/{mine}", uuid.uuid4().hex.encode())
        except FileAlreadyThereError:
            mine += 1
            continue
        drawn = numbered(warehouse.store, folder, "")
        newest_drawn = max(drawn, default=mine)
        if newest_drawn - mine < _KEPT_RUNS:
            _prune_runs(warehouse, folder, [n for n in drawn if n <= newest_drawn - _KEPT_RUNS])
            return mine
        mine = newest_drawn + 1


def reserve_barrier(warehouse: Warehouse, job: str, barrier: int) -> None:
    """Numbers drawn later are greater than this one, which the user chose. Raises StorageError."""
    folder = _runs_folder(warehouse, job)
    drawn = numbered(warehouse.store, folder, "")
    if drawn and drawn[-1] >= barrier:
        return
    try:
        warehouse.store.create_exclusive(f"{folder}/{barrier}", uuid.uuid4().hex.encode())
    except FileAlreadyThereError:
        return


def _runs_folder(warehouse: Warehouse, job: str) -> str:
    return f"{warehouse.own}/jobs/{quote_name(job)}"


def _first_run(index: Index, job: str) -> int:
    where = column_equals("job", job)
    return 1 + max(newest_barrier(index, SINK_SNAPSHOT, where), newest_barrier(index, SOURCE_SNAPSHOT, where))


def _prune_runs(warehouse: Warehouse, folder: str, numbers: list[int]) -> None:
    if numbers:
        warehouse.store.delete_many([f"{folder}/{n}" for n in numbers])


def forgotten_before_ms(warehouse: Warehouse, job: str) -> int | None:
    """When a job was forgotten, in epoch milliseconds: its snapshots not newer than that are passed over.

    Returns:
        None when it was not, or when the file that says so cannot be understood.

    Raises:
        StorageError: it cannot be read.
    """
    try:
        found = find_decoded(warehouse.store, _forgotten_path(warehouse, job), _decode_forgotten)
    except CorruptFileError:
        return None
    return None if found is None else found[1]


def all_forgotten(warehouse: Warehouse) -> dict[str, int]:
    """When each forgotten job was forgotten, in epoch milliseconds. Raises StorageError."""
    out: dict[str, int] = {}
    for path, data in read_json_files(warehouse, f"{warehouse.own}/forgotten"):
        try:
            job, moment = _decode_forgotten(data, path)
        except CorruptFileError:
            continue
        out[job] = moment
    return out


def mark_forgotten(warehouse: Warehouse, job: str, moment_ms: int) -> None:
    """Forget a job up to a moment, in epoch milliseconds; never less than before. Raises StorageError."""
    moment_ms = max(moment_ms, forgotten_before_ms(warehouse, job) or 0)
    raw = {"version": _VERSION, "job": job, "beforeMs": moment_ms}
    warehouse.store.write(_forgotten_path(warehouse, job), json.dumps(raw, ensure_ascii=True).encode())


def _forgotten_path(warehouse: Warehouse, job: str) -> str:
    return f"{warehouse.own}/forgotten/{quote_name(job)}.json"


def _decode_forgotten(data: bytes, path: str) -> tuple[str, int]:
    try:
        raw: Any = json.loads(data)
        job, moment = raw["job"], raw["beforeMs"]
        if not isinstance(job, str) or not isinstance(moment, int):
            raise ValueError("no job, or no moment")
    except (ValueError, KeyError, TypeError) as e:
        raise CorruptFileError(f"{path} does not say when a lineage job was forgotten: {e!r}", path=path) from e
    return job, moment
