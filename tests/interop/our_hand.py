"""A step of a `TableScript` done by this package instead of Java, where it is one that this package does."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import pyarrow as pa

import paimon_spark
from paimon_spark.api.table import Table
from paimon_spark.format.metadata_files.table_schema import TableSchema
from paimon_spark.metadata.definition.alter import alter_table
from paimon_spark.metadata.definition.create import create_table
from paimon_spark.storage.urls import open_store
from paimon_spark.types import DataField, RowKind, RowType, parse_type
from tests.harness.arrow_rows import arrow_rows
from tests.interop.our_changes import changes_of

_KINDS = {kind.symbol: int(kind) for kind in RowKind}
_LEFT_TO_JAVA = ("columns", "firstRowId", "identifier", "user", "ignoreEmpty", "waitCompaction")


_VERSION_CONTROL = frozenset(
    (
        "createTag", "deleteTag", "renameTag", "createBranch", "deleteBranch", "renameBranch", "fastForward",
        "mergeBranch", "rollback", "expireSnapshots", "expirePartitions", "removeOrphans", "compact",
        "compactManifests", "consumer",
    )
)  # fmt: skip
_DURATION = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:([\d.]+)S)?)?")


def can_do(call: dict[str, Any]) -> bool:
    """Whether `do` takes the call; deletes by values, statistics and commits of streams are left to Java."""
    if call["op"] == "write":
        named = any(isinstance(r, dict) and "bucket" in r for r in call["rows"])
        return not named and not any(key in call for key in _LEFT_TO_JAVA)
    return call["op"] in ("createTable", "alter", "truncate") or call["op"] in _VERSION_CONTROL


def do(call: dict[str, Any], path: str) -> None:
    """The call, on the table at `path`. Raises PaimonError."""
    match call["op"]:
        case "createTable":
            _create(call, path)
        case "alter":
            table = _open(call, path)
            alter_table(table.handle, changes_of(call["changes"]))
        case "truncate":
            _open(call, path).write(_empty(_open(call, path)), mode="overwrite")
        case "write":
            write(call, path)
        case "compact":
            _open(call, path).compact(full=call.get("full", True))
        case "compactManifests":
            _open(call, path).compact_manifest()
        case _:
            _change_versions(call, _open(call, path))


def _change_versions(call: dict[str, Any], table: Table) -> None:
    name = call.get("name", "")
    match call["op"]:
        case "createTag":
            retained = _duration(call["retained"]) if call.get("retained") else None
            table.create_tag(name, snapshot_id=call.get("snapshot"), time_retained=retained)
        case "deleteTag":
            table.delete_tag(name)
        case "renameTag":
            table.rename_tag(name, call["to"])
        case "createBranch":
            table.create_branch(name, tag=call.get("tag"), empty=call.get("tag") is None)
        case "deleteBranch":
            table.delete_branch(name)
        case "renameBranch":
            table.rename_branch(name, call["to"])
        case "fastForward":
            table.fast_forward(name)
        case "mergeBranch":
            table.append_branch(name, target=call.get("to", "main"))
        case "rollback":
            table.rollback_to(f"tag-name.{call['tag']}" if call.get("tag") else f"snapshot.{call['snapshot']}")
        case "expireSnapshots":
            retain, now = call.get("retain", 1), datetime.now(UTC)
            table.expire_snapshots(retain_max=retain, retain_min=call.get("retainMin", retain), older_than=now)
        case "expirePartitions":
            table.expire_partitions()
        case "removeOrphans":
            table.remove_orphan_files(older_than=datetime.now(UTC))
        case "consumer":
            table.reset_consumer(name, next_snapshot=call["next"])


def _duration(text: str) -> timedelta:
    days, hours, minutes, seconds = (float(part or 0) for part in _DURATION.fullmatch(text).groups())  # type: ignore[union-attr]
    return timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)


def _create(call: dict[str, Any], path: str) -> None:
    fields = []
    for number, (name, type_, *more) in enumerate(call["fields"]):
        comment, default = (*more, None, None)[:2]
        fields.append(DataField(number, name, parse_type(type_), comment, default))
    store, root = open_store(path)
    create_table(
        store,
        root,
        RowType(False, tuple(fields)),
        call["pk"],
        call["partition"],
        call["tableOptions"],
        comment=call["comment"],
    )


def write(call: dict[str, Any], path: str) -> None:
    """The rows of the call in one commit."""
    table = _open(call, path)
    options: dict[str, Any] = dict(call.get("options", {}))
    if "watermark" in call:
        options["end-input.watermark"] = call["watermark"]
    mode: Literal["append", "overwrite"] = "append"
    if "overwrite" in call:
        mode = "overwrite"
        if call["overwrite"]:
            options["overwrite.partition"] = ",".join(f"`{k}`='{v}'" for k, v in call["overwrite"].items())
        elif table.schema.partition_keys and options.get("dynamic-partition-overwrite") != "false":
            options["partitionOverwriteMode"] = "dynamic"
    table.write(batch_of(call["rows"], table.schema), mode=mode, **options)


def batch_of(rows: list[Any], schema: TableSchema) -> pa.Table:
    """Rows of a script as Arrow, with `_VALUE_KIND` where any has a kind."""
    values = [row["v"] if isinstance(row, dict) else row for row in rows]
    kinds = [row.get("$k", "+I") if isinstance(row, dict) else "+I" for row in rows]
    data = arrow_rows(values, schema.fields)
    if any(kind != "+I" for kind in kinds):
        data = data.append_column("_VALUE_KIND", pa.array([_KINDS[kind] for kind in kinds], pa.int8()))
    return data


def _empty(table: Table) -> pa.Table:
    return arrow_rows([], table.schema.fields)


def _open(call: dict[str, Any], path: str) -> Table:
    return paimon_spark.load_table(path, **({"branch": call["branch"]} if call.get("branch") else {}))
