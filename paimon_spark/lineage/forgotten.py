"""Jobs that were forgotten: `_lineage/forgotten/<name>.json` says when.

Snapshots still say that they are of the job. So what is not newer than that moment is passed over by everything that
looks for missing rows, and a job that runs again is recorded anew.

Source: own.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from paimon_spark.errors import CorruptFileError
from paimon_spark.lineage.file_names import quoted
from paimon_spark.lineage.jobs import files, release
from paimon_spark.lineage.place import Warehouse
from paimon_spark.lineage.sql import is_
from paimon_spark.lineage.tables import JOB_STARTUP, SINK_JOB, SINK_SNAPSHOT, SOURCE_JOB, SOURCE_SNAPSHOT
from paimon_spark.metadata.small_files import find_decoded

if TYPE_CHECKING:
    from paimon_spark.lineage.tables import Index

_VERSION = 1
_TABLES = (SOURCE_SNAPSHOT, SINK_SNAPSHOT, SOURCE_JOB, SINK_JOB, JOB_STARTUP)


def forget(index: Index, job: str, now_ms: int | None = None) -> int:
    """Remove a job's rows, and its claim to its name. A job that no longer runs: one that does is recorded anew.

    Safe to repeat after a failure.

    Args:
        index: the lineage tables.
        job: as the lineage tables call it.
        now_ms: epoch milliseconds; everything not newer is forgotten.

    Returns:
        How many rows were removed.

    Raises:
        StorageError, CommitError: something could not be written; what was forgotten stays so.
    """
    from paimon_spark.lineage.recorder import forget_queued

    warehouse = index.warehouse
    moment = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    moment = max(moment, forgotten_before_ms(warehouse, job) or 0)
    raw = {"version": _VERSION, "job": job, "beforeMs": moment}
    warehouse.store.write(_path(warehouse, job), json.dumps(raw, ensure_ascii=True).encode())
    forget_queued(warehouse, job)
    gone = sum(index.delete(table, is_("job", job)) for table in _TABLES) if index.exists() else 0
    release(warehouse, job)
    return gone


def forgotten_before_ms(warehouse: Warehouse, job: str) -> int | None:
    """When a job was forgotten, in epoch milliseconds: its snapshots not newer than that are passed over.

    Returns:
        None when it was not, or when the file that says so cannot be understood.

    Raises:
        StorageError: it cannot be read.
    """
    try:
        found = find_decoded(warehouse.store, _path(warehouse, job), _decode)
    except CorruptFileError:
        return None
    return None if found is None else found[1]


def all_forgotten(warehouse: Warehouse) -> dict[str, int]:
    """When each forgotten job was forgotten, in epoch milliseconds. Raises StorageError."""
    out: dict[str, int] = {}
    for path, data in files(warehouse, f"{warehouse.own}/forgotten"):
        try:
            job, moment = _decode(data, path)
        except CorruptFileError:
            continue
        out[job] = moment
    return out


def _path(warehouse: Warehouse, job: str) -> str:
    return f"{warehouse.own}/forgotten/{quoted(job)}.json"


def _decode(data: bytes, path: str) -> tuple[str, int]:
    try:
        raw: Any = json.loads(data)
        job, moment = raw["job"], raw["beforeMs"]
        if not isinstance(job, str) or not isinstance(moment, int):
            raise ValueError("no job, or no moment")
    except (ValueError, KeyError, TypeError) as e:
        raise CorruptFileError(f"{path} does not say when a lineage job was forgotten: {e!r}", path=path) from e
    return job, moment
