"""Run by pypaimon's own interpreter: answers calls, a JSON line each, until its input ends. See pypaimon_peer.

The calls, by `op` (every one takes `path`, of the form …/<database>.db/<table>, or `catalog`, options, and `table`;
`branch` where it makes sense):
    createTable(columns, primaryKeys, tableOptions), with types of pyarrow
    write(rows, overwrite?); read(options?) -> rows, schema; versions -> label -> read, of every head, snapshot and tag
    createTag(name, snapshot?) deleteTag(name) renameTag(name, to) replaceTag(name, snapshot?)
    createBranch(name, tag?) deleteBranch(name) renameBranch(name, to) fastForward(name) rollback(target)
    listing -> tags, branches; consumers -> name -> next snapshot
    stream(restore?, consumer?) -> plans of rows with _KIND, next: until nothing new comes
A call that fails answers {"error": …}.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.harness.rows import rows_of
from tests.interop.pypaimon_writer import describe

_QUIET_S = 0.3
"""How long a stream is waited for; it looks for snapshots every ten milliseconds."""


def answer(call: dict[str, Any]) -> Any:
    """The reply to one call."""
    from pypaimon import CatalogFactory

    path = Path(call.get("path", ""))
    catalog = CatalogFactory.create(call.get("catalog", {"warehouse": str(path.parent.parent)}))
    name = call.get("table", f"{path.parent.name.removesuffix('.db')}.{path.name}")

    def table(branch: str | None = call.get("branch"), options: dict[str, str] | None = None) -> Any:
        found = catalog.get_table(name + (f"$branch_{branch}" if branch and branch != "main" else ""))
        return found.copy(options) if options else found

    match call["op"]:
        case "createTable":
            _create(catalog, name, call["columns"], call["primaryKeys"], call["tableOptions"])
        case "write":
            _write(table(), call["rows"], call.get("overwrite"))
        case "read":
            return describe(table(options=call.get("options")))
        case "versions":
            return _versions(path, table)
        case "createTag":
            table().create_tag(call["name"], snapshot_id=call.get("snapshot"))
        case "deleteTag":
            return {"deleted": table().delete_tag(call["name"])}
        case "renameTag":
            table().rename_tag(call["name"], call["to"])
        case "replaceTag":
            table().replace_tag(call["name"], snapshot_id=call.get("snapshot"))
        case "createBranch":
            catalog.create_branch(name, call["name"], call.get("tag"))
        case "deleteBranch":
            catalog.drop_branch(name, call["name"])
        case "renameBranch":
            catalog.rename_branch(name, call["name"], call["to"])
        case "fastForward":
            catalog.fast_forward(name, call["name"])
        case "rollback":
            table().rollback_to(call["target"])
        case "listing":
            return {"tags": sorted(table().list_tags()), "branches": sorted(catalog.list_branches(name))}
        case "consumers":
            return {"consumers": _consumers(table()).consumers()}
        case "stream":
            return asyncio.run(_stream(table(), call.get("restore"), call.get("consumer")))
        case other:
            raise ValueError(f"no such call: {other}")
    return {}


def _create(catalog: Any, name: str, columns: dict[str, str], keys: list[str], options: dict[str, str]) -> None:
    from pypaimon import Schema

    fields = [pa.field(column, pa.type_for_alias(kind), column not in keys) for column, kind in columns.items()]
    catalog.create_database(name.partition(".")[0], True)
    catalog.create_table(name, Schema.from_pyarrow_schema(pa.schema(fields), primary_keys=keys, options=options), False)


def _write(table: Any, rows: list[list[Any]], overwrite: dict[str, str] | None) -> None:
    from pypaimon.schema.data_types import PyarrowFieldParser

    schema = PyarrowFieldParser.from_paimon_schema(table.fields)
    builder = table.new_batch_write_builder()
    if overwrite is not None:
        builder = builder.overwrite(overwrite)
    writer, commit = builder.new_write(), builder.new_commit()
    writer.write_arrow(pa.Table.from_pylist([dict(zip(schema.names, r, strict=True)) for r in rows], schema=schema))
    commit.commit(writer.prepare_commit())
    writer.close()
    commit.close()


async def _stream(table: Any, restore: int | None, consumer: str | None) -> dict[str, Any]:
    builder = table.new_stream_read_builder().with_poll_interval_ms(10).with_include_row_kind()
    if consumer is not None:
        builder = builder.with_consumer_id(consumer)
    scan, read = builder.new_streaming_scan(), builder.new_read()
    scan.next_snapshot_id = restore
    plans, coming = list[list[dict[str, Any]]](), scan.stream()
    while True:
        try:
            plan = await asyncio.wait_for(coming.__anext__(), _QUIET_S)
        except TimeoutError:
            return {"plans": plans, "next": scan.next_snapshot_id}
        rows = rows_of(read.to_arrow(plan.splits())) if plan.splits() else []
        plans.append([{**{k: v for k, v in r.items() if k != "_row_kind"}, "_KIND": r["_row_kind"]} for r in rows])


def _consumers(table: Any) -> Any:
    from pypaimon.consumer.consumer_manager import ConsumerManager

    return ConsumerManager(table.file_io, table.table_path)


def _versions(path: Path, table: Any) -> dict[str, Any]:
    replies = {}
    for branch in [None, *sorted(p.name.removeprefix("branch-") for p in path.glob("branch/branch-*"))]:
        home = path / "branch" / f"branch-{branch}" if branch else path
        labels: dict[str, dict[str, str]] = {f"branch={branch}" if branch else "latest": {}}
        prefix = f"branch={branch}," if branch else ""
        for kind, option in (("snapshot", "scan.snapshot-id"), ("tag", "scan.tag-name")):
            for file in sorted(home.glob(f"{kind}/{kind}-*")):
                value = file.name.removeprefix(f"{kind}-")
                labels[f"{prefix}{kind}={value}"] = {option: value}
        for label, options in labels.items():
            replies[label] = _tried(lambda b=branch, o=options: describe(table(b, o)))
    return replies


def _tried(call: Any) -> Any:
    try:
        return call()
    except Exception as error:  # noqa: BLE001  # whatever the peer raises is its reply
        return {"error": f"{type(error).__name__}: {error}"[:500]}


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(_tried(lambda text=line: answer(json.loads(text)))), flush=True)
