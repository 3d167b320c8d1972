"""Tables that branches are published in, and what must hold of them at any time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from paimon_spark.api.table import Table
from paimon_spark.maintenance.orphan_files import orphans
from tests.harness.real_tables import a_table
from tests.harness.table_files import missing_files

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.string())])


def new_table(root: Path, **options: str) -> Table:
    return a_table(SCHEMA, keys="k", options={"bucket": "1", **options}, where=root / "wh")


def put(table: Table, **rows: str) -> None:
    """Upsert rows given as k1="a"."""
    keys = [int(name[1:]) for name in rows]
    table.write(pa.table({"k": pa.array(keys, pa.int64()), "v": list(rows.values())}))


def rows(table: Table) -> dict[int, Any]:
    found = table.scan().to_arrow()
    return dict(zip(found["k"].to_pylist(), found["v"].to_pylist(), strict=True))


def ids(table: Table) -> list[int]:
    return [s.id for s in table.snapshots()]


def tags(table: Table) -> list[str]:
    return sorted(t.name for t in table.tags(include_internal=True) if not t.name.startswith("branch-guard-"))


def files(table: Table) -> dict[str, bytes]:
    """All that lies below the table, directories too, with what is in it."""
    root = Path(table.handle.layout.root)
    return {str(p.relative_to(root)): p.read_bytes() if p.is_file() else b"" for p in root.rglob("*")}


def in_order(table: Table) -> None:
    """All that something needs is there, and nothing else is."""
    assert missing_files(table.handle) == []
    assert [f.path for f in orphans(table.handle) if "/intent/" not in f.path] == []
    for name in ("main", *(b.name for b in table.branches(include_internal=True))):
        branch = table.branch(name)
        for version in [
            *(f"snapshot.{i}" for i in ids(branch)),
            *(f"tag-name.{t.name}" for t in branch.tags(include_internal=True)),
        ]:
            branch.at(version).scan().to_arrow()
