"""How far a warehouse was looked through for missing rows, and which branches are sinks.

    _lineage/sinks/<branch>.json    a branch that recorded jobs commit to, and its head before the first of them did
    _lineage/walked/<branch>.json   the snapshot up to which every row is in the lineage tables
    _lineage/read/<query id>.json   the batch of a query's checkpoint up to which its source rows are

Source: own.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from paimon_spark.errors import FileAlreadyThereError, FileMissingError
from paimon_spark.lineage.file_names import quoted
from paimon_spark.lineage.jobs import files
from paimon_spark.lineage.model import TableRef
from paimon_spark.lineage.said import said_by

if TYPE_CHECKING:
    from paimon_spark.lineage.place import Warehouse
    from paimon_spark.lineage.tables import Index

_VERSION: Final = 1
_LOOKED_AT: Final = 8
"""Snapshots that tell whether a branch was recorded before: those of compactions say nothing."""


@dataclass(frozen=True, slots=True)
class Walked:
    """A snapshot up to which all rows of a branch are in the lineage tables.

    Attributes:
        made: name of its delta manifest list, which no two commits share.
        data: whether rows of snapshots were written; False where only those of jobs were wanted.
    """

    snapshot_id: int
    made: str
    data: bool = True


def note_sink(index: Index, ref: TableRef) -> None:
    """Note that a branch is a sink, so that rows about it are looked for. One small read, if it is noted.

    Called before the first commit of a job to the branch: what is newer than its head at that moment is looked through.
    All of it is, when it was recorded before: under another name, as that of a branch that was merged.

    Raises:
        StorageError: it cannot be noted.
        CorruptFileError: the head cannot be decoded.
    """
    store, path = index.warehouse.store, f"{index.warehouse.own}/sinks/{quoted(ref.name)}.json"
    try:
        store.read(path)
    except FileMissingError:
        newest = list(islice(index.snapshots(ref), _LOOKED_AT))
        head = newest[0] if newest and not any(map(said_by, newest)) else None
        raw = {"database": ref.database, "table": ref.table}
        since = {} if head is None else {"snapshot": head.id, "made": head.delta_manifest_list}
        # Whoever is later than another knows of snapshots that the other has made.
        with suppress(FileAlreadyThereError):
            store.create_exclusive(path, _encode(raw | since))


def sinks(warehouse: Warehouse) -> set[TableRef]:
    """The branches that were noted as sinks. Raises StorageError."""
    found = (_decode(data) for _, data in files(warehouse, f"{warehouse.own}/sinks"))
    return {TableRef(raw["database"], raw["table"]) for raw in found if _texts(raw, "database", "table")}


def walked(warehouse: Warehouse, ref: TableRef) -> Walked | None:
    """Up to where a branch was looked through; None when it was not. Raises StorageError."""
    name = quoted(ref.name)
    raw = _read(warehouse, f"walked/{name}") or _read(warehouse, f"sinks/{name}")
    if isinstance(raw.get("snapshot"), int) and _texts(raw, "made"):
        return Walked(raw["snapshot"], raw["made"], raw.get("data") is not False)
    return None


def note_walked(warehouse: Warehouse, ref: TableRef, to: Walked) -> None:
    """Note up to where a branch was looked through. Raises StorageError."""
    raw = {"table": ref.name, "snapshot": to.snapshot_id, "made": to.made, "data": to.data}
    warehouse.store.write(f"{warehouse.own}/walked/{quoted(ref.name)}.json", _encode(raw))


def batch_read(warehouse: Warehouse, query_id: str) -> int:
    """The batch up to which a query's checkpoint was looked through; -1 when it was not. Raises StorageError."""
    batch = _read(warehouse, f"read/{quoted(query_id)}").get("batch")
    return batch if isinstance(batch, int) else -1


def note_batch_read(warehouse: Warehouse, query_id: str, batch: int) -> None:
    """Note up to which batch a query's checkpoint was looked through. Raises StorageError."""
    raw = {"query": query_id, "batch": batch}
    warehouse.store.write(f"{warehouse.own}/read/{quoted(query_id)}.json", _encode(raw))


def _encode(raw: dict[str, Any]) -> bytes:
    return json.dumps({"version": _VERSION, **raw}, ensure_ascii=True).encode()


def _read(warehouse: Warehouse, name: str) -> dict[str, Any]:
    try:
        return _decode(warehouse.store.read(f"{warehouse.own}/{name}.json"))
    except FileMissingError:
        return {}


def _decode(data: bytes) -> dict[str, Any]:
    """What a file says; nothing when it cannot be understood: then everything is looked through again."""
    try:
        raw = json.loads(data)
    except ValueError:
        return {}
    return raw if isinstance(raw, dict) and raw.get("version") == _VERSION else {}


def _texts(raw: dict[str, Any], *names: str) -> bool:
    return all(isinstance(raw.get(n), str) for n in names)
