"""Results of procedures that differ from those of Java's 0.9 connector, compared with the core of Java's 2.0.

Each is carried out by Java on one of two copies of a table, and by us on the other.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark.api.catalog import Catalog
from paimon_spark.sql.procedures import call
from tests.interop.java_paimon import JavaPaimon

pytestmark = pytest.mark.interop

OLD_S = 1_600_000_000
"""Epoch seconds at which orphans were last changed."""


def copies(tmp_path: Path) -> tuple[Catalog, str]:
    """Our catalog of `db.t`, and where Java finds its copy. Call it when the table is as both shall have it."""
    shutil.copytree(tmp_path / "ours", tmp_path / "theirs")
    return paimon_spark.load_catalog(str(tmp_path / "ours")), str(tmp_path / "theirs" / "db.db" / "t")


def told(catalog: Catalog, name: str, given: Mapping[str, object]) -> list[tuple[Any, ...]]:
    """The rows of our call."""
    return [tuple(row) for row in call(catalog, name, (), given).rows]


def head(java: JavaPaimon, path: str) -> int:
    return max(int(s["id"]) for s in java.call("listing", path=path)["snapshots"])


@pytest.mark.parametrize(
    ("fields", "rows"),
    [
        ([["s", "STRING"]], [["b"], ["a/b=c"], ["ü %41"], ["a"], [None]]),
        ([["s", "STRING"], ["n", "INT"]], [["b", 1], ["a", 10], ["a", 9], [None, 3], ["a", None]]),
        ([["d", "DATE"], ["b", "BOOLEAN"]], [["2024-01-05", True], ["1969-12-31", False], [None, None]]),
        ([["n", "DECIMAL(6, 2)"], ["t", "BIGINT"]], [["1.50", 7], ["-2.00", None]]),
    ],
    ids=["text", "two", "date", "decimal"],
)
@pytest.mark.parametrize("most", [None, 2])
def test_expired_partitions_are_told_in_javas_order_and_words(
    java: JavaPaimon, tmp_path: Path, fields: list[list[str]], rows: list[list[Any]], most: int | None
) -> None:
    path = str(tmp_path / "ours" / "db.db" / "t")
    names = [name for name, _ in fields]
    java.call("createTable", path=path, fields=[*fields, ["v", "INT"]], pk=[], partition=names, tableOptions={})
    java.call("write", path=path, rows=[[*row, 1] for row in rows])
    catalog, theirs = copies(tmp_path)
    options = {
        "partition.expiration-time": "1 ms",
        "partition.expiration-strategy": "update-time",
        "partition.expiration-check-interval": "0 ms",  # as ProcedureUtils.fillInPartitionOptions of Java has it
    }
    given: dict[str, Any] = {"table": "db.t", "expiration_time": "1 ms", "expire_strategy": "update-time"}
    if most is not None:
        options["partition.expiration-max-num"] = str(most)
        given["max_expires"] = most
    expected = java.call("expirePartitions", path=theirs, options=options)["partitions"]
    assert len(expected) == (most or len(rows))
    assert told(catalog, "expire_partitions", given) == [(text,) for text in expected]
    left = java.call("read", path=theirs)["rows"]
    assert len(left) == len(rows) - len(expected)
    assert sorted(java.call("read", path=path)["rows"], key=str) == sorted(left, key=str)
    again = java.call("expirePartitions", path=theirs, options={**options, "partition.expiration-time": "30 d"})
    assert again["partitions"] == []
    assert told(catalog, "expire_partitions", {**given, "expiration_time": "30 d"}) == [("No expired partitions.",)]


def test_orphans_are_counted_as_java_counts_them(java: JavaPaimon, tmp_path: Path) -> None:
    catalog = paimon_spark.load_catalog(str(tmp_path / "ours"))
    catalog.create_database("db")
    table = catalog.create_table("db.t", "k BIGINT, dt STRING", partition_keys=["dt"])
    table.write(pa.table({"k": [1, 2], "dt": ["a", "b"]}))
    table.create_branch("fix", snapshot_id=1)
    table.branch("fix").write(pa.table({"k": [3], "dt": ["c"]}))
    orphans = {
        "dt=a/bucket-0/data-00000000-0000-0000-0000-000000000001-0.parquet": 3,
        "dt=gone/bucket-0/data-00000000-0000-0000-0000-000000000002-0.orc": 50,
        "manifest/manifest-00000000-0000-0000-0000-000000000003-0": 700,
        "manifest/manifest-list-00000000-0000-0000-0000-000000000004-0": 11_000,
        "manifest/index-manifest-00000000-0000-0000-0000-000000000005-0": 130_000,
        "index/index-00000000-0000-0000-0000-000000000006-0": 1_700_000,
        "statistics/stat-00000000-0000-0000-0000-000000000007-0": 19,
    }
    for name, size in orphans.items():
        path = tmp_path / "ours" / "db.db" / "t" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * size)
        os.utime(path, (OLD_S, OLD_S))
    catalog, theirs = copies(tmp_path)
    replies = []
    for older_s, dry_run in ((OLD_S - 1000, False), (OLD_S + 1000, True), (OLD_S + 1000, False), (OLD_S + 1000, False)):
        reply = java.call("removeOrphans", path=theirs, olderThan=older_s * 1000, dryRun=dry_run)
        replies.append((reply["removed"], reply["bytes"]))
        given = {"table": "db.t", "older_than": str(older_s * 1000), "dry_run": dry_run}
        at = datetime.fromtimestamp(older_s, UTC)  # the moment that was understood, behind Java's columns
        assert told(catalog, "remove_orphan_files", given) == [(*replies[-1], at)]
    assert replies == [(0, 0), *[(len(orphans), sum(orphans.values()))] * 2, (0, 0)]
    for where in ("ours", "theirs"):
        root = tmp_path / where / "db.db" / "t"
        assert not [name for name in orphans if (root / name).exists()]


def test_rolling_back_tells_of_the_heads_that_java_has(java: JavaPaimon, tmp_path: Path) -> None:
    catalog = paimon_spark.load_catalog(str(tmp_path / "ours"))
    catalog.create_database("db")
    table = catalog.create_table("db.t", "k BIGINT")
    for k in range(1, 7):
        table.write(pa.table({"k": [k]}))
    for snapshot_id in (1, 2, 4):
        table.create_tag(f"v{snapshot_id}", snapshot_id=snapshot_id)
    table.expire_snapshots(retain_max=4, retain_min=4)
    assert [s.id for s in table.snapshots()] == [3, 4, 5, 6]
    catalog, theirs = copies(tmp_path)
    for given in ({"snapshot": 5}, {"tag": "v4"}, {"version": "3"}, {"version": "v2"}, {"tag": "v1"}):
        before = head(java, theirs)
        target = str(given.get("version", given.get("snapshot", "")))
        to = {"snapshot": int(target)} if target.isdigit() else {"tag": given.get("tag", target)}
        java.call("rollback", path=theirs, **to)
        after = head(java, theirs)
        assert before > after
        assert told(catalog, "rollback", {"table": "db.t", **given}) == [(before, after)], given
        assert sorted(catalog.table("db.t").scan().to_arrow()["k"].to_pylist()) == sorted(
            row["k"] for row in java.call("read", path=theirs)["rows"]
        )
