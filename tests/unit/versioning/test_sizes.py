"""Sizes of branches, tags and savepoints: what deleting each really frees."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark import Table
from paimon_spark.metadata.manifests import CACHE
from paimon_spark.versioning.status import RefSize

REFS = {"snapshot", "tag", "schema", "branch", "changelog", "consumer"}


def data_files(table: Path) -> dict[str, int]:
    """Size by path of all files but refs."""
    return {
        str(path.relative_to(table)): path.stat().st_size
        for path in table.rglob("*")
        if path.is_file() and path.relative_to(table).parts[0] not in REFS and not path.name.startswith(".")
    }


def a_history(table: Table, random: Random) -> None:
    def write(on: Table) -> None:
        rows = pa.table({"id": [random.randrange(50) for _ in range(5)], "s": ["x" * random.randrange(100)] * 5})
        on.write(rows, mode=random.choice(["append", "append", "overwrite"]))

    write(table)
    for n in range(12):
        on = table.branch(random.choice(["main", *(b.name for b in table.branches(include_internal=True))]))
        match random.choice(["write", "write", "tag", "savepoint", "branch", "compact", "expire"]):
            case "write":
                write(on)
            case "tag":
                on.create_tag(f"t{n}", snapshot_id=random.choice(on.snapshots()).id)
            case "savepoint":
                on.create_savepoint()
            case "branch":
                table.create_branch(f"b{n}", snapshot_id=random.choice(table.snapshots()).id)
            case "compact":
                on.compact(full=True)
            case "expire":
                on.expire_snapshots(retain_max=1, retain_min=1)


def delete(table: Table, size: RefSize) -> None:
    match size.kind:
        case "branch":
            table.delete_branch(size.name)
        case "tag":
            table.branch(size.branch).delete_tag(size.name)
        case "savepoint":
            table.branch(size.branch).delete_savepoint(int(size.name))


@pytest.mark.parametrize("keyed", [True, False], ids=["keys", "append"])
@pytest.mark.parametrize("seed", range(4))
def test_sizes_are_what_deleting_frees(tmp_path: Path, seed: int, keyed: bool) -> None:
    catalog = paimon_spark.load_catalog(str(tmp_path / "wh"))
    catalog.create_database("d")
    given: dict[str, Any] = {"primary_keys": ["id"], "options": {"bucket": "1"}} if keyed else {}
    table = catalog.create_table("d.t", "id BIGINT, s STRING", **given)
    a_history(table, Random(seed))
    sizes = table.sizes()
    named = {(s.kind, s.name) for s in sizes}
    assert {("branch", b.name) for b in table.branches(include_internal=True)} <= named
    assert {("tag", t.name) for t in table.tags(include_internal=True) if t.kind == "tag"} <= named
    assert {("savepoint", str(s.id)) for s in table.savepoints()} <= named
    root = tmp_path / "wh" / "d.db" / "t"
    before = data_files(root)
    for number, size in enumerate(sizes):
        copied = tmp_path / f"copy{number}" / "d.db" / "t"
        shutil.copytree(root, copied)
        delete(paimon_spark.load_table(str(copied)), size)
        after = data_files(copied)
        gone = {path: n for path, n in before.items() if path not in after}
        assert size.bytes is not None and size.files == len(gone), size
        of_data = sum(n for path, n in gone.items() if "bucket-" in path)
        assert of_data <= size.bytes <= sum(gone.values()), size
        shutil.rmtree(copied.parents[1])


def test_what_cannot_be_told_says_why(tmp_path: Path) -> None:
    catalog = paimon_spark.load_catalog(str(tmp_path / "wh"))
    catalog.create_database("d")
    made = catalog.create_table("d.t", "id BIGINT")
    for i in range(2):
        made.write(pa.table({"id": [i]}))
    made.create_branch("fix")
    made.branch("fix").write(pa.table({"id": [3]}))
    assert [(s.kind, s.name, s.branch) for s in made.sizes()] == [("branch", "fix", "fix")]
    assert "alone keeps" in str(made.sizes()[0])
    assert made.sizes(["tag", "savepoint"]) == []
    manifest = tmp_path / "wh" / "d.db" / "t" / "manifest"
    for path in manifest.glob("manifest-list-*"):
        path.write_bytes(b"damaged")
    CACHE.clear()
    (size,) = made.sizes()
    assert (size.bytes, size.files, size.size_text) == (None, None, "unknown")
    assert size.unknown
    assert "unknown" in str(size)
