"""Records of pipeline branches and releases; complete interrupted changes.

    _pipelines/changes/<id>          decision of a change of several tables, until it is complete
    _pipelines/branches/<name>.json  a pipeline branch
    _pipelines/releases/<n>.json     a release; empty until its publication is complete

A decision holds the files to write and to delete once every table has its part. Each access to the records first
completes the changes of dead processes, so that what it returns is whole. Of a decision only records of this kind are
written and deleted: everything in it is checked before anything is done, as others may write to the warehouse too.

Source: own.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from paimon_spark.errors import (
    CorruptFileError,
    FileAlreadyThereError,
    FormatError,
    InvalidInputError,
    NotFoundError,
    OperationInProgressError,
)
from paimon_spark.format.json_files import decode_object
from paimon_spark.lineage.index.warehouse import Warehouse, quote_name
from paimon_spark.maintenance.change import check_there, recover
from paimon_spark.metadata.handle import open_table
from paimon_spark.metadata.journal.decision import (
    DIRECTORY,
    Decision,
    decision_path,
    find_decision,
    is_decision_id,
    is_table_path,
)
from paimon_spark.metadata.layout import MAIN, is_ref_name
from paimon_spark.metadata.retry import now_ms
from paimon_spark.metadata.small_files import checked_number, checked_text, find_decoded
from paimon_spark.options.descriptor import did_you_mean
from paimon_spark.options.location import DATABASE_SUFFIX
from paimon_spark.redaction import get_logger
from paimon_spark.versioning.main_change import MainChange, change_json, decode_change

_LOG = get_logger(__name__)
T = TypeVar("T")
_VERSION: Final = 1
_SUFFIX: Final = ".json"
_ABORTED_KEPT_MS: Final = 86_400_000
"""How long the decision that a change does not run is kept: longer than any process may still want to run it."""
_RECORD: Final = re.compile(
    rf"{re.escape(DIRECTORY)}/(?:branches/(?P<branch>[A-Za-z0-9_%~-]+)|releases/(?P<release>[1-9]\d{{0,17}})){_SUFFIX}",
    re.ASCII,
)
"""The path of a record below its warehouse, as `branch_path` and `release_path` make it."""


@dataclass(frozen=True, slots=True)
class BranchRecord:
    """A pipeline branch.

    Attributes:
        tables: table → the snapshot of main that its branch starts from; None: it starts empty.
        jobs: of the pipeline, in order.
        start: what it was made from, as text for users.
        created_ms: epoch milliseconds.
    """

    name: str
    tables: Mapping[str, int | None]
    jobs: tuple[str, ...] = ()
    start: str = ""
    created_ms: int = 0


@dataclass(frozen=True, slots=True)
class ReleaseRecord:
    """Record of one publication of several tables as main, or of its undo.

    Attributes:
        tables: table → the snapshot that became main's head.
        backups: table → the branch that keeps main as it was before; only of tables that changed.
        branch: the pipeline branch; of an undo that of the undone release.
        time_ms: epoch milliseconds.
        checks: names of the checks that passed.
        lost: table → what main lost, as text: snapshots, tags and schemas; only of tables that lost something.
        changes: table → what main lost and gained, in snapshots and rows; only of tables that changed. Records of
            releases of earlier versions lack it.
        undoes: the release that this one undid.
        undone_by: the release that undid this one.
    """

    id: int
    tables: Mapping[str, int]
    backups: Mapping[str, str] = field(default_factory=dict)
    branch: str = ""
    time_ms: int = 0
    checks: tuple[str, ...] = ()
    lost: Mapping[str, str] = field(default_factory=dict)
    undoes: int | None = None
    undone_by: int | None = None
    changes: Mapping[str, MainChange] = field(default_factory=dict)


def branch_path(warehouse: Warehouse, name: str) -> str:
    """The record of a pipeline branch."""
    return f"{warehouse.root}/{DIRECTORY}/branches/{quote_name(name)}{_SUFFIX}"


def release_path(warehouse: Warehouse, release_id: int) -> str:
    """The record of a release."""
    return f"{warehouse.root}/{DIRECTORY}/releases/{release_id}{_SUFFIX}"


def branch_json(record: BranchRecord) -> dict[str, Any]:
    """The record as JSON values."""
    return {
        "version": _VERSION,
        "name": record.name,
        "tables": dict(record.tables),
        "jobs": list(record.jobs),
        "start": record.start,
        "createdMs": record.created_ms,
    }


def release_json(record: ReleaseRecord) -> dict[str, Any]:
    """The record as JSON values."""
    return {
        "version": _VERSION,
        "id": record.id,
        "tables": dict(record.tables),
        "backups": dict(record.backups),
        "branch": record.branch,
        "timeMs": record.time_ms,
        "checks": list(record.checks),
        "lost": dict(record.lost),
        "undoes": record.undoes,
        "undoneBy": record.undone_by,
        "changes": {table: change_json(change) for table, change in record.changes.items()},
    }


def to_complete(files: Mapping[str, Mapping[str, Any] | None], warehouse: Warehouse) -> dict[str, Any]:
    """The record of a decision: files to write once every table is done, or to delete (None), by their paths."""
    root = f"{warehouse.root}/"
    record = {"files": {path.removeprefix(root): values for path, values in files.items()}}
    _files_of(record, warehouse.url)
    return record


def list_branch_records(warehouse: Warehouse) -> list[BranchRecord]:
    """The pipeline branches, by name. Completes interrupted changes first. Raises CorruptFileError, StorageError."""
    complete_changes(warehouse)
    directory = f"{warehouse.root}/{DIRECTORY}/branches"
    names = [i.name for i in warehouse.store.list(directory) if not i.is_directory and i.name.endswith(_SUFFIX)]
    found = [find_decoded(warehouse.store, f"{directory}/{name}", _decode_branch) for name in names]
    return sorted((record for record in found if record is not None), key=lambda record: record.name)


def get_branch_record(warehouse: Warehouse, name: str) -> BranchRecord:
    """The record of a pipeline branch. Raises NotFoundError, which names those that there are."""
    complete_changes(warehouse)
    found = find_decoded(warehouse.store, branch_path(warehouse, name), _decode_branch)
    if found is not None:
        return found
    names = [record.name for record in list_branch_records(warehouse)]
    there = f"; there are {', '.join(names)}" if names else "; there is none"
    raise NotFoundError(
        f"warehouse {warehouse.url} has no pipeline branch {name!r}{did_you_mean(name, names) or there}; "
        "catalog.pipeline(…).branch(…) makes one",
        branch=name,
    )


def list_release_records(warehouse: Warehouse) -> list[ReleaseRecord]:
    """The releases, oldest first. Completes interrupted changes first. Raises CorruptFileError, StorageError."""
    complete_changes(warehouse)
    ids = _release_ids(warehouse)
    found = [find_decoded(warehouse.store, release_path(warehouse, i), _decode_release) for i in ids]
    return [record for record in found if record is not None]


def get_release_record(warehouse: Warehouse, release_id: int) -> ReleaseRecord:
    """The record of a release. Raises NotFoundError, which names the newest ones."""
    for record in (records := list_release_records(warehouse)):
        if record.id == release_id:
            return record
    there = ", ".join(str(record.id) for record in records[-10:])
    raise NotFoundError(
        f"warehouse {warehouse.url} has no release {release_id!r}; "
        + (f"the newest are {there}" if there else "nothing was published as a release yet"),
        release=release_id,
    )


def in_force(records: Sequence[ReleaseRecord]) -> list[ReleaseRecord]:
    """The releases that published something and were not undone; an undo of an undo publishes again."""
    by_id = {record.id: record for record in records}

    def publishes(record: ReleaseRecord) -> bool:
        undone = None if record.undoes is None else by_id.get(record.undoes)
        return undone is None or not publishes(undone)

    return [record for record in records if record.undone_by is None and publishes(record)]


def reserve_release(warehouse: Warehouse) -> int:
    """Reserve the next number of a release. No two publications get the same; numbers may be skipped."""
    number = max(_release_ids(warehouse), default=0) + 1
    while not _reserve(warehouse, number):
        number += 1
    return number


def _reserve(warehouse: Warehouse, number: int) -> bool:
    # Bytes that no other process writes, as a store may take its own repeated request for a success.
    data = json.dumps({"version": _VERSION, "reserved": uuid.uuid4().hex}).encode()
    try:
        warehouse.store.create_exclusive(release_path(warehouse, number), data)
    except FileAlreadyThereError:
        return False
    return True


def complete_changes(warehouse: Warehouse) -> None:
    """Complete the changes of several tables that were decided and whose processes died. One listing for none.

    A change whose process still works on a table is left to it.

    Raises CorruptFileError: a file is no decision of this package, or has no plain records; nothing was done then.
    """
    store = warehouse.store
    directory = f"{warehouse.root}/{DIRECTORY}/changes"
    found: list[tuple[str, int | None, Decision]] = []
    for info in store.list(directory):
        if info.is_directory or info.name.startswith("."):
            continue
        if not is_decision_id(info.name):
            raise _corrupt(store.url(f"{directory}/{info.name}"), "its name is none that a change of tables has")
        decision = _find_decision(warehouse, info.name)
        if decision is not None:
            found.append((info.name, info.modified_ms, decision))
    for name, modified_ms, decision in found:
        if not decision.runs:
            if modified_ms is not None and now_ms() - modified_ms > _ABORTED_KEPT_MS:
                store.delete(decision_path(warehouse.root, name))
            continue
        try:
            for table in decision.tables:
                _recover_table(warehouse, table)
        except OperationInProgressError as e:
            _LOG.info("a change of several tables in %s is left to its process: %s", warehouse.url, e)
            continue
        complete(warehouse, name)


def complete(warehouse: Warehouse, decision_id: str) -> None:
    """Complete a change that every table has its part of: write its files, then delete the decision.

    Nothing where it is complete already: its files may have changed since. Raises CorruptFileError as
    `complete_changes`.
    """
    decision = _find_decision(warehouse, decision_id)
    if decision is None:
        return
    path_of_decision = decision_path(warehouse.root, decision_id)
    for path, values in _files_of(decision.record, warehouse.store.url(path_of_decision)).items():
        if values is None:
            warehouse.store.delete(f"{warehouse.root}/{path}")
        else:
            warehouse.store.write(f"{warehouse.root}/{path}", json.dumps(values, ensure_ascii=True).encode())
    warehouse.store.delete(path_of_decision)


def _find_decision(warehouse: Warehouse, decision_id: str) -> Decision | None:
    """A decision whose records are checked; None when it is gone. Raises CorruptFileError."""
    path = decision_path(warehouse.root, decision_id)
    decision = find_decision(warehouse.store, path)
    if decision is not None:
        _files_of(decision.record, warehouse.store.url(path))
    return decision


def _files_of(record: Mapping[str, Any], place: str) -> dict[str, dict[str, Any] | None]:
    """Path below the warehouse → the record to write there; None: to delete the one of a branch.

    Raises CorruptFileError: another file, or no record, as `place` should not hold.
    """
    files = record.get("files", {})
    if not isinstance(files, dict):
        raise _corrupt(place, "expected the files that complete a change")
    out: dict[str, dict[str, Any] | None] = {}
    for path, values in files.items():
        found = _RECORD.fullmatch(path)
        if found is None or (values is None and found["branch"] is None):
            raise _corrupt(place, f"it wants to {'delete' if values is None else 'write'} {path!r}")
        if values is None:
            out[path] = None
        elif found["branch"] is not None:
            out[path] = branch_json(_decode_branch(json.dumps(values).encode(), path))
        else:
            release = _decode_release(json.dumps(values).encode(), path)
            if release is None:
                raise _corrupt(place, f"it has no release for {path!r}")
            out[path] = release_json(release)
    return out


def _recover_table(warehouse: Warehouse, path: str) -> None:
    """Finish the part of one table. A table that is gone has none."""
    root = f"{warehouse.root}/{path}"
    try:
        handle = open_table(warehouse.store, root, MAIN)
        check_there(handle)
    except NotFoundError:
        return
    recover(handle, wait_ms=0)


def check_name(name: object) -> str:
    """Check that a pipeline branch may have this name; the rules of branches are checked by each table."""
    if not isinstance(name, str) or not name.strip():
        raise InvalidInputError(f"{name!r} is not the name of a pipeline branch; expected text that is not blank")
    return name


def _release_ids(warehouse: Warehouse) -> list[int]:
    return sorted(
        int(i.name.removesuffix(_SUFFIX))
        for i in warehouse.store.list(f"{warehouse.root}/{DIRECTORY}/releases")
        if i.name.endswith(_SUFFIX) and i.name.removesuffix(_SUFFIX).isdecimal()
    )


def _decode_branch(data: bytes, path: str) -> BranchRecord:
    def build(raw: dict[str, Any]) -> BranchRecord:
        record = BranchRecord(
            checked_text(raw["name"]),
            {_table(k): None if v is None else _snapshot_id(v) for k, v in raw["tables"].items()},
            tuple(map(checked_text, raw["jobs"])),
            str(raw["start"]),
            checked_number(raw["createdMs"]),
        )
        if path.rpartition("/")[2] != f"{quote_name(record.name)}{_SUFFIX}":
            raise FormatError(f"it is the record of another branch, {record.name!r}")
        return record

    return _decoded(data, path, build)


def _decode_release(data: bytes, path: str) -> ReleaseRecord | None:
    def build(raw: dict[str, Any]) -> ReleaseRecord | None:
        if "reserved" in raw:
            return None
        record = ReleaseRecord(
            checked_number(raw["id"]),
            {_table(k): _snapshot_id(v) for k, v in raw["tables"].items()},
            {_table(k): _branch(v) for k, v in raw["backups"].items()},
            str(raw["branch"]),
            checked_number(raw["timeMs"]),
            tuple(map(checked_text, raw["checks"])),
            {_table(k): str(v) for k, v in raw.get("lost", {}).items()},  # records of releases before 0.3 lack it
            undoes=None if raw["undoes"] is None else checked_number(raw["undoes"]),
            undone_by=None if raw["undoneBy"] is None else checked_number(raw["undoneBy"]),
            changes={_table(k): decode_change(v) for k, v in raw.get("changes", {}).items()},
        )
        if path.rpartition("/")[2] != f"{record.id}{_SUFFIX}":
            raise FormatError(f"it is the record of another release, {record.id}")
        return record

    return _decoded(data, path, build)


def _decoded(data: bytes, path: str, build: Callable[[dict[str, Any]], T]) -> T:
    def of_version(raw: dict[str, Any]) -> T:
        if raw.get("version") != _VERSION:
            raise FormatError(f"expected an object of version {_VERSION}")
        return build(raw)

    return decode_object(data, of_version, lambda why: _corrupt(path, why))


def _table(name: object) -> str:
    """Name of a table, `db.t`. Raises ValueError for another form."""
    database, _, table = checked_text(name).partition(".")
    if not is_table_path(f"{database}{DATABASE_SUFFIX}/{table}"):
        raise ValueError(f"{name!r} is not the name of a table")
    return f"{database}.{table}"


def _branch(name: object) -> str:
    if not isinstance(name, str) or not is_ref_name(name):
        raise ValueError(f"{name!r} is not the name of a branch")
    return name


def _snapshot_id(value: object) -> int:
    number = checked_number(value)
    if number < 0:
        raise ValueError(f"{number} is not the id of a snapshot")
    return number


def _corrupt(path: str, why: str) -> CorruptFileError:
    return CorruptFileError(
        f"{path} is not a readable record of pipelines: {why}; remove it if nothing needs it", path=path
    )
