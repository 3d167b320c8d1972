"""The same table twice: after one write Java lets expire what is old on one, and we on the other."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark.api.table import Table
from paimon_spark.maintenance.orphan_files import orphans
from paimon_spark.metadata.manifests import CACHE
from tests.harness.rows import rows_of
from tests.harness.table_files import missing_files
from tests.interop.java_paimon import JavaPaimon

pytestmark = pytest.mark.interop

FIELDS = [["k", "INT NOT NULL"], ["p", "STRING"], ["v", "STRING"]]
QUIET = {"write-only": "true", "num-sorted-run.compaction-trigger": "100"}
KEYED: dict[str, Any] = {"pk": ["k"], "partition": [], "tableOptions": {"bucket": "1", **QUIET}}
APPEND: dict[str, Any] = {"pk": [], "partition": ["p"], "tableOptions": QUIET}
LOGGED: dict[str, Any] = {
    **KEYED, "tableOptions": {"bucket": "1", "changelog-producer": "input", **QUIET},
}  # fmt: skip
FEW = {"snapshot.num-retained.min": "2", "snapshot.num-retained.max": "3"}
CHANGELOGS = {**FEW, "changelog.num-retained.min": "2", "changelog.num-retained.max": "5"}


def table_of(java: JavaPaimon, path: str, kind: dict[str, Any]) -> None:
    """Eight snapshots of which each takes away what the one before it brought; tags on the second and the fifth."""
    java.call("createTable", path=path, fields=FIELDS, comment=None, **kind)
    for n in range(1, 9):
        java.call("write", path=path, rows=[[n, "2020-01-01", f"v{n}"], [99, "new", f"v{n}"]], overwrite={})
    java.call("createTag", path=path, name="two", snapshot=2)
    java.call("createTag", path=path, name="five", snapshot=5)


def files_of(path: Path) -> set[str]:
    return {str(p.relative_to(path)) for p in path.rglob("*") if p.is_file() and "/." not in str(p)}


def refs_of(files: set[str], path: Path) -> dict[str, str]:
    """The refs and what the hints say."""
    refs = [f for f in files if f.split("/")[0] in ("snapshot", "changelog", "tag", "consumer")]
    return {f: (path / f).read_text().strip() if f.endswith(("LATEST", "EARLIEST")) else "" for f in refs}


def unneeded(table: Table) -> set[str]:
    return {f.path.removeprefix(f"{table.handle.layout.root}/") for f in orphans(table.handle)}


@pytest.mark.parametrize(
    ("kind", "options", "consumer"),
    [
        (KEYED, FEW, None),
        (APPEND, FEW, None),
        (KEYED, FEW, 4),
        (
            APPEND,
            {"snapshot.num-retained.min": "2", "snapshot.time-retained": "0 ms", "snapshot.expire.limit": "3"},
            None,
        ),
        (KEYED, {"snapshot.num-retained.min": "2", "snapshot.time-retained": "1 h"}, None),
        (LOGGED, FEW, None),
        (LOGGED, CHANGELOGS, None),
        (LOGGED, {**CHANGELOGS, "consumer.changelog-only": "true"}, 5),
        (KEYED, CHANGELOGS, None),
        (APPEND, CHANGELOGS, None),
        (APPEND, {"partition.expiration-time": "30 d", "partition.expiration-check-interval": "0"}, None),
    ],
)
def test_the_same_goes_by_javas_hand_and_by_ours(
    java: JavaPaimon, tmp_path: Path, kind: dict[str, Any], options: dict[str, str], consumer: int | None
) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    table_of(java, str(ours), kind)
    if consumer is not None:
        java.call("consumer", path=str(ours), name="c", next=consumer)
    shutil.copytree(ours, theirs)
    before = files_of(ours)
    CACHE.clear()
    odd = unneeded(paimon_spark.load_table(str(ours)))  # Java's overwrites leave changelog files behind
    now: dict[str, Any] = {**options, "write-only": "false"}
    java.call("write", path=str(theirs), rows=[[100, "new", "last"]], options=now)
    data = pa.table({"k": pa.array([100], pa.int32()), "p": ["new"], "v": ["last"]})
    table = paimon_spark.load_table(str(ours))
    table.write(data, **now)

    # Java notes the earliest snapshot even when nothing expired.
    assert {"snapshot/EARLIEST": "1"} | refs_of(files_of(ours), ours) == refs_of(files_of(theirs), theirs)
    assert missing_files(table.handle) == []
    assert unneeded(table) <= odd
    there = paimon_spark.load_table(str(theirs))
    types = {"k": "INT NOT NULL", "p": "STRING", "v": "STRING"}
    assert sorted(rows_of(table.scan().to_arrow(), types), key=str) == sorted(
        rows_of(there.scan().to_arrow(), types), key=str
    )
    left, left_by_java = before & files_of(ours), before & files_of(theirs)
    if options.get("changelog.num-retained.max") is None:  # the data of long-lived changelogs is kept by other rules
        assert left - odd == left_by_java - unneeded(there)
