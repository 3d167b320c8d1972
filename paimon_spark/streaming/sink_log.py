"""Sink log: the batch that a streaming write is about to commit, noted in `sink/sink-<query id>` of the branch.

Snapshots name their query and batch, but a batch without rows makes none, and snapshots expire and are rolled back. So
before each commit the query notes the batch, and the head that includes all earlier batches. What follows that head
tells whether the batch was committed: few snapshots, however long the history.

The file is beside `snapshot/`, where other engines do not look. It moves with a renamed branch, is deleted with its
branch, and is copied by replace_main to the branch, and by a merge to main unless main's log is of a later batch; a new
branch starts without one. The branch's history always outweighs it (`batches.py`).

Source: own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from paimon_spark.errors import CorruptFileError, InvalidInputError, UnknownFormatVersionError
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.layout import is_file_name
from paimon_spark.metadata.small_files import find_decoded

_VERSION: Final = 1
SINK_PREFIX: Final = "sink-"


@dataclass(frozen=True, slots=True)
class Place:
    """A snapshot as it is told from one of another history.

    Attributes:
        made: name of its delta manifest list, which no two commits share.
    """

    snapshot_id: int
    made: str

    @staticmethod
    def of(snapshot: Snapshot) -> Place:
        return Place(snapshot.id, snapshot.delta_manifest_list)


@dataclass(frozen=True, slots=True)
class Landed:
    """The newest of some batches that made a snapshot.

    Attributes:
        place: the snapshot; None when it had expired before it was looked at.
    """

    batch_id: int
    place: Place | None


@dataclass(frozen=True, slots=True)
class SinkLog:
    """What a query noted before its newest commit to a branch.

    Attributes:
        query_id: of the query.
        commit_user: who commits its batches.
        batch_id: that was about to be committed; all before it had been.
        makes_snapshot: whether the batch makes a snapshot: False for one without rows.
        head: the branch's head at that moment; None when it had none.
        jobs: in the names of the files that were about to be committed.
        before: the newest batch before this one that made a snapshot; None when none did, or it does not matter.
    """

    query_id: str
    commit_user: str
    batch_id: int
    makes_snapshot: bool
    head: Place | None
    jobs: tuple[str, ...] = ()
    before: Landed | None = None


def log_path(handle: TableHandle, query_id: str) -> str:
    """Where the query's log lies. Raises InvalidInputError: the id cannot be part of a path."""
    if not is_file_name(query_id):
        raise InvalidInputError(f"{query_id!r} is no id of a streaming query", query_id=query_id)
    return f"{handle.layout.sink_dir}/{SINK_PREFIX}{query_id}"


def read_log(handle: TableHandle, query_id: str) -> SinkLog | None:
    """What the query noted last; None when it noted nothing.

    Raises:
        CorruptFileError: it cannot be understood.
        UnknownFormatVersionError: a later release wrote it.
        StorageError: it cannot be read.
    """
    return find_decoded(handle.store, log_path(handle, query_id), decode)


def write_log(handle: TableHandle, log: SinkLog) -> None:
    """Note what is about to be committed, over what was noted before. Raises StorageError: then nothing may be."""
    handle.store.write(log_path(handle, log.query_id), encode(log))


def encode(log: SinkLog) -> bytes:
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
    return json.dumps(raw, indent=2, ensure_ascii=False).encode()


def decode(data: bytes, path: str) -> SinkLog:
    """The log in the bytes of a file; `path` is for messages. Raises as `read_log`."""
    try:
        raw = json.loads(data)
        version = raw["version"]
        if isinstance(version, int) and version > _VERSION:
            raise UnknownFormatVersionError(
                f"{path} is of version {version}, known is {_VERSION}: a later release of paimon-spark wrote it; "
                "use that one",
                path=path,
            )
        before = raw.get("before")
        return SinkLog(
            _text(raw["query"]),
            _text(raw["user"]),
            _number(raw["batch"]),
            _flag(raw["makesSnapshot"]),
            _found(raw["head"]),
            tuple(_text(job) for job in raw["jobs"]),
            None if before is None else Landed(_number(before["batch"]), _found(before["place"])),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as e:
        raise CorruptFileError(
            f"{path} does not say which batch its query was about to commit ({e!r}); when it is removed, that is told "
            "from the snapshots alive",
            path=path,
        ) from e


def _place(place: Place | None) -> Mapping[str, Any] | None:
    return None if place is None else {"snapshot": place.snapshot_id, "made": place.made}


def _found(raw: Mapping[str, Any] | None) -> Place | None:
    return None if raw is None else Place(_number(raw["snapshot"]), _text(raw["made"]))


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"{value!r} is no text")
    return value


def _number(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{value!r} is no number")
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{value!r} is neither true nor false")
    return value
