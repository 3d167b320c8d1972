"""Operations of users on a catalog and one of its tables, by name."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import pyarrow as pa

from paimon_spark.api.catalog import Catalog
from paimon_spark.api.table import Table
from paimon_spark.jobs.read.table_scan import statistics_of
from paimon_spark.maintenance.change import recover
from paimon_spark.system_tables.registry import NAMES
from tests.harness.streams import names, stream

_SYSTEM_TABLES: Final = [name for name in NAMES if name != "row_tracking"]
Verb = Callable[[Catalog, Table], object]


def rows(*keys: int, partition: str | None = None) -> pa.Table:
    """Rows of a table with columns k and v, and of one with a partition p."""
    columns: dict[str, Any] = {"k": pa.array(keys, pa.int64()), "v": pa.array([f"v{k}" for k in keys], pa.string())}
    if partition is not None:
        columns["p"] = pa.array([partition] * len(keys), pa.string())
    return pa.table(columns)


def _rows(table: Table, *keys: int) -> pa.Table:
    return rows(*keys, partition="a" if "p" in table.row_type.names else None)


def _now() -> int:
    return int(time.time() * 1000)


def _stream(table: Table) -> list[list[str]]:
    """The names of the files in each batch of a stream from the first snapshot."""
    source = stream(table.handle, scan__mode="from-snapshot", scan__snapshot_id="1")
    out, start = [], source.first()
    while (end := source.next(start)) != start:
        out.append(names(source, start, end))
        start = end
    return out


def _each(reads: Sequence[Callable[[], object]]) -> list[object]:
    """Call all of them, whether or not one raises; then raise what the first one raised."""
    out: list[object] = []
    failed: list[Exception] = []
    for read in reads:
        try:
            out.append(read())
        except Exception as e:  # noqa: BLE001 - raised below
            failed.append(e)
    if failed:
        raise min(failed, key=lambda e: type(e).__module__.startswith("paimon_spark"))
    return out


def _system_table(catalog: Catalog, table: Table, name: str) -> pa.Table:
    return catalog.table(f"{table.name}${name}").scan().to_arrow()


READS: Final[dict[str, Verb]] = {
    "read": lambda c, t: t.scan().to_arrow(),
    "read a tag": lambda c, t: t.scan(version="v1").to_arrow(),
    "read a snapshot": lambda c, t: t.scan(version=2).to_arrow(),
    "read a branch": lambda c, t: t.branch("fix").scan().to_arrow(),
    "read a difference": lambda c, t: t.scan(**{"incremental-between": "1,3"}).to_arrow(),
    "read a stream": lambda c, t: _stream(t),
    "filter": lambda c, t: t.scan(where="k > 1").to_arrow(),
    "statistics": lambda c, t: statistics_of(t.scan()),
    "diff": lambda c, t: t.diff(1, 3),
    "diff of rows": lambda c, t: t.diff(1, 3, rows=True).samples,
    "snapshots": lambda c, t: t.snapshots(),
    "refs": lambda c, t: _each([t.tags, t.branches, t.savepoints, t.consumers, t.sizes]),
    "status": lambda c, t: str(t.status(doctor=True, sizes=True)),
    "history": lambda c, t: str(t.history()),
    "doctor": lambda c, t: t.doctor(),
    "system tables": lambda c, t: _each([partial(_system_table, c, t, name) for name in _SYSTEM_TABLES]),
    "tables": lambda c, t: [c.list_tables(d) for d in c.list_databases()],
    "orphans, tried": lambda c, t: t.remove_orphan_files(_now(), dry_run=True),
}
"""They change nothing, but finish what another process began."""
WRITES: Final[dict[str, Verb]] = {
    "write": lambda c, t: t.write(_rows(t, 50)),
    "write to the branch": lambda c, t: t.branch("fix").write(_rows(t, 51)),
    "overwrite": lambda c, t: t.write(_rows(t, 60), mode="overwrite"),
    "delete": lambda c, t: t.delete("k = 1"),
    "compact": lambda c, t: t.compact(full=True),
    "rescale": lambda c, t: t.rescale(2),
    "compact_manifest": lambda c, t: t.compact_manifest(),
    "alter": lambda c, t: t.alter(set_options={"snapshot.time-retained": "2 h"}),
    "add a column": lambda c, t: t.alter(add={"more": "INT"}),
    "drop_partitions": lambda c, t: t.drop_partitions("p=a"),
    "expire_partitions": lambda c, t: t.expire_partitions("1 ms", expire_strategy="update-time"),
}
REFS: Final[dict[str, Verb]] = {
    "create_tag": lambda c, t: t.create_tag("v2", snapshot_id=2),
    "replace_tag": lambda c, t: t.replace_tag("v1", snapshot_id=2),
    "rename_tag": lambda c, t: t.rename_tag("v1", "v3"),
    "delete_tag": lambda c, t: t.delete_tag("v1"),
    "delete all tags": lambda c, t: t.delete_tag(_tags(t)),
    "expire_tags": lambda c, t: t.expire_tags(_now()),
    "create_automatic_tags": lambda c, t: t.create_automatic_tags(),
    "create_savepoint": lambda c, t: t.create_savepoint(),
    "create_branch": lambda c, t: t.create_branch("more", snapshot_id=2),
    "rename_branch": lambda c, t: t.rename_branch("fix", "mended"),
    "delete_branch": lambda c, t: t.delete_branch("fix"),
    "delete_branch x": lambda c, t: t.delete_branch("x"),
    "delete all branches": lambda c, t: _each(
        [partial(t.delete_branch, b.name) for b in t.branches(include_internal=True)]
    ),
    "append_branch": lambda c, t: t.append_branch("fix"),
    "merge_branch": lambda c, t: t.merge_branch("fix", if_main_moved="replace", backup=False),
    "rebase": lambda c, t: t.merge_branch("fix", if_main_moved="rebase", on_conflict="theirs"),
    "fast_forward": lambda c, t: t.fast_forward("fix", backup=False),
    "replace_main": lambda c, t: t.replace_main("fix"),
    "rollback": lambda c, t: t.rollback_to(2),
    "rollback to a tag": lambda c, t: t.rollback_to("v1", backup=True),
    "rollback_to_as_latest": lambda c, t: t.rollback_to_as_latest(2),
    "undo": lambda c, t: t.undo(if_main_moved="replace"),
    "reset_consumer": lambda c, t: t.reset_consumer("me", next_snapshot=1),
    "clear_consumers": lambda c, t: t.clear_consumers(),
    "recover": lambda c, t: recover(t.handle),
}
DELETIONS: Final[dict[str, Verb]] = {
    "orphans": lambda c, t: t.remove_orphan_files(),
    "orphans until now": lambda c, t: t.remove_orphan_files(_now()),
    "expire": lambda c, t: t.expire_snapshots(1, retain_min=1),
    "expire all there is": lambda c, t: _expire_all(t),
    "expire_changelogs": lambda c, t: t.expire_changelogs(delete_all=True),
    "repair": lambda c, t: t.doctor(repair=True),
    "purge": lambda c, t: t.purge(),
    "rename_table": lambda c, t: c.rename_table(t.name, "db.u"),
    "drop_table": lambda c, t: c.drop_table(t.name),
    "drop_database": lambda c, t: c.drop_database("db", cascade=True),
}
PIPELINES: Final[dict[str, Verb]] = {
    "lineage": lambda c, t: _each([lambda: str(c.lineage.jobs()), lambda: str(c.lineage.status())]),
    "upstream": lambda c, t: _each(
        [lambda: str(c.lineage.upstream(t.name)), lambda: str(c.lineage.impact(t.name, snapshot=1))]
    ),
    "graph": lambda c, t: c.lineage.graph(t.name).to_mermaid(),
    "sync": lambda c, t: c.lineage.sync(),
    "rebuild": lambda c, t: c.lineage.rebuild(),
    "forget_job": lambda c, t: c.lineage.forget_job("load"),
    "pipeline": lambda c, t: c.pipeline(t.name).branch("new"),
    "pipeline branches": lambda c, t: str(c.pipeline_branches()),
    "publish": lambda c, t: c.pipeline_branch("dev").publish(),
    "delete a pipeline branch": lambda c, t: c.pipeline_branch("dev").delete(),
    "releases": lambda c, t: str(c.releases()),
    "undo a release": lambda c, t: c.releases()[0].undo(if_main_moved="replace"),
}
"""They want a warehouse with lineage, a pipeline branch dev and a release."""


def _tags(table: Table) -> list[str]:
    """Names of the tags that guard no branch."""
    return [tag.name for tag in table.tags(include_internal=True) if not tag.name.startswith("branch-guard-")]


def _expire_all(table: Table) -> object:
    """Delete the branches and tags as far as that works, and expire all that they kept."""
    reads: list[Callable[[], object]] = [
        lambda: [table.delete_branch(b.name) for b in table.branches(include_internal=True)],
        lambda: table.delete_tag(_tags(table)),
        table.clear_consumers,
        lambda: table.expire_snapshots(1, retain_min=1, older_than=_now()),
        lambda: table.remove_orphan_files(_now()),
    ]
    return _each(reads)


VERBS: Final[dict[str, Verb]] = {**READS, **WRITES, **REFS, **DELETIONS}
"""They want a table with three snapshots or more, a tag v1, a branch fix and a consumer me."""
