"""Branches that recorded jobs commit to, and how far each was searched for missing rows.

    _lineage/sinks/<branch>.json    a branch that recorded jobs commit to, and its head before the first of them did
    _lineage/walked/<branch>.json   the snapshot up to which every row is in the lineage tables
    _lineage/read/<query id>.json   the batch of a query's checkpoint up to which its source rows are

A file that is lost or unreadable only means that all is searched again.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from paimon_spark.errors import FileAlreadyThereError, FileMissingError
from paimon_spark.format.json_files import find_object
from paimon_spark.lineage.index.job_registry import read_json_files
from paimon_spark.lineage.index.provenance import TableRef
from paimon_spark.lineage.index.tables import SINK_JOB
from paimon_spark.lineage.index.warehouse import FILE_VERSION, encode_file, is_lineage_table, quote_name
from paimon_spark.lineage.recording.snapshot_provenance import read_snapshot_provenance

if TYPE_CHECKING:
    from paimon_spark.lineage.index.tables import Index
    from paimon_spark.lineage.index.warehouse import Warehouse

_PROBED: Final = 8
"""Newest snapshots that show whether a branch was recorded before: those of compactions hold no provenance."""


@dataclass(frozen=True, slots=True)
class SearchedTo:
    """A snapshot up to which all rows of a branch, or with `data` False those of jobs, are in the lineage tables.

    `made` is the name of its delta manifest list, which no two commits share.
    """

    snapshot_id: int
    made: str
    data: bool = True


def known_sinks(index: Index) -> set[TableRef]:
    """The branches that recorded jobs commit to."""
    recorded = index.read(SINK_JOB).select(["database", "table"]).group_by(["database", "table"]).aggregate([])
    files = read_json_files(index.warehouse, f"{index.warehouse.lineage_dir}/sinks")
    registered = [raw for _, data in files if _has_texts(raw := _decode(data), "database", "table")]
    refs = {TableRef(row["database"], row["table"]) for row in (*recorded.to_pylist(), *registered)}
    return {ref for ref in refs if not is_lineage_table(ref)}


def register_sink(index: Index, ref: TableRef) -> None:
    """Register a branch as a sink, before the first commit of a job to it. One small read, if it is registered.

    Later searches begin at its head of this moment; at its first snapshot when it was recorded before under another
    name, as a branch that was merged is.
    """
    store, path = index.warehouse.store, f"{index.warehouse.lineage_dir}/sinks/{quote_name(ref.name)}.json"
    try:
        store.read(path)
    except FileMissingError:
        newest = list(islice(index.snapshots(ref), _PROBED))
        head = newest[0] if newest and not any(map(read_snapshot_provenance, newest)) else None
        since = {} if head is None else {"snapshot": head.id, "made": head.delta_manifest_list}
        # The first file stays: a later process may see snapshots that an earlier one made.
        with suppress(FileAlreadyThereError):
            store.create_exclusive(path, encode_file(database=ref.database, table=ref.table, **since))


def read_searched_to(warehouse: Warehouse, ref: TableRef) -> SearchedTo | None:
    """Up to where a branch was searched; None when it was not."""
    name = quote_name(ref.name)
    raw = _read_file(warehouse, f"walked/{name}") or _read_file(warehouse, f"sinks/{name}")
    if isinstance(raw.get("snapshot"), int) and _has_texts(raw, "made"):
        return SearchedTo(raw["snapshot"], raw["made"], raw.get("data") is not False)
    return None


def read_searched_batch(warehouse: Warehouse, query_id: str) -> int:
    """The batch up to which a query's checkpoint was searched; -1 when it was not."""
    batch = _read_file(warehouse, f"read/{quote_name(query_id)}").get("batch")
    return batch if isinstance(batch, int) else -1


def write_searched_to(warehouse: Warehouse, ref: TableRef, to: SearchedTo) -> None:
    """Write up to where a branch was searched, once the rows found are written."""
    path = f"{warehouse.lineage_dir}/walked/{quote_name(ref.name)}.json"
    warehouse.store.write(path, encode_file(table=ref.name, snapshot=to.snapshot_id, made=to.made, data=to.data))


def write_searched_batch(warehouse: Warehouse, query_id: str, batch: int) -> None:
    """Write up to which batch a query's checkpoint was searched, once the rows found are written."""
    path = f"{warehouse.lineage_dir}/read/{quote_name(query_id)}.json"
    warehouse.store.write(path, encode_file(query=query_id, batch=batch))


def _read_file(warehouse: Warehouse, name: str) -> dict[str, Any]:
    try:
        return _decode(warehouse.store.read(f"{warehouse.lineage_dir}/{name}.json"))
    except FileMissingError:
        return {}


def _decode(data: bytes) -> dict[str, Any]:
    """The content of a file; empty when it is unreadable, so that everything is searched again."""
    raw = find_object(data, dict) or {}
    return raw if raw.get("version") == FILE_VERSION else {}


def _has_texts(raw: dict[str, Any], *names: str) -> bool:
    return all(isinstance(raw.get(n), str) for n in names)
