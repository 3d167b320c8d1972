"""Tables whose manifests are Avro, ORC or Parquet, written by Java and by us in turn, and read by both."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import paimon_spark
from paimon_spark.api.table import Table
from paimon_spark.maintenance.orphan_files import orphans
from paimon_spark.metadata.manifests import CACHE
from tests.harness.table_files import missing_files
from tests.interop import our_hand
from tests.interop.comparing import disagreement, version_options
from tests.interop.java_paimon import JavaPaimon

pytestmark = pytest.mark.interop

FIELDS = [["k", "INT NOT NULL"], ["p", "STRING"], ["v", "STRING"]]
KINDS: dict[str, dict[str, Any]] = {
    "append": {"pk": [], "partition": ["p"], "tableOptions": {"deletion-vectors.enabled": "true"}},
    "tracked": {"pk": [], "partition": [], "tableOptions": {"row-tracking.enabled": "true"}},
    "keyed": {
        "pk": ["k", "p"],
        "partition": ["p"],
        "tableOptions": {"bucket": "2", "deletion-vectors.enabled": "true"},
    },
    "dynamic": {"pk": ["k"], "partition": [], "tableOptions": {"bucket": "-1"}},
    "logged": {"pk": ["k"], "partition": [], "tableOptions": {"bucket": "1", "changelog-producer": "lookup"}},
}
WE_CREATE = ("tracked", "keyed")
UNBRANCHED = ("logged",)
"""Java's expiry of main takes the changelogs of branches with it."""
MAGIC = {"avro": b"Obj", "orc": b"ORC", "parquet": b"PAR1"}
MERGING = {"manifest.merge-min-count": "2", "manifest.full-compaction-threshold-size": "1 b"}


def wrong_manifests(path: Path, manifest_format: str) -> list[str]:
    files = sorted((path / "manifest").iterdir())
    assert files
    return [f.name for f in files if not f.read_bytes().startswith(MAGIC[manifest_format])]


def opened(path: Path, **options: str) -> Table:
    CACHE.clear()
    return paimon_spark.load_table(str(path), **options)


def disagreements(java: JavaPaimon, path: Path) -> dict[str, str]:
    CACHE.clear()
    versions = java.call("versions", path=str(path))["versions"]
    assert not [label for label, read in versions.items() if "error" in read], versions
    found = {label: disagreement(str(path), read, options=version_options(label)) for label, read in versions.items()}
    return {label: text for label, text in found.items() if text is not None}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("manifest_format", MAGIC)
def test_java_and_we_take_turns_on_a_table(java: JavaPaimon, tmp_path: Path, manifest_format: str, kind: str) -> None:
    path, table = tmp_path / "t", KINDS[kind]
    options = {**table["tableOptions"], **MERGING, "manifest.format": manifest_format}
    turn = kind in WE_CREATE

    def step(op: str, **arguments: Any) -> None:
        nonlocal turn
        call = {"op": op, "path": str(path), **arguments}
        if turn:
            CACHE.clear()
            our_hand.do(call, str(path))
        else:
            java.call(**call)
        turn = not turn

    step("createTable", fields=FIELDS, comment=None, **{**table, "tableOptions": options})
    for n in range(6):
        step("write", rows=[[i, f"p{i % 2}", f"v{n}"] for i in range(2 * n, 2 * n + 8)])
        if n == 2:
            step("createTag", name="t2")
            if kind not in UNBRANCHED:
                step("createBranch", name="b", tag="t2")
    if kind != "dynamic":
        opened(path).delete("k = 3")
        if kind == "append":
            java.call("deleteRows", path=str(path), column="k", values=[5])
            opened(path).delete("k = 4")
    for n in range(0 if kind in UNBRANCHED else 2):
        step("write", branch="b", rows=[[100 + n, "p0", "branch"]])
    step("compact")
    step("write", rows=[[7, "p1", "last"]])
    step("compact")
    assert disagreements(java, path) == {}
    assert wrong_manifests(path, manifest_format) == []

    step("expireSnapshots", retain=4)
    step("write", rows=[[7, "p1", "later"]])
    step("expireSnapshots", retain=2)
    step("write", rows=[[8, "p1", "later"]])
    assert disagreements(java, path) == {}
    assert wrong_manifests(path, manifest_format) == []
    assert missing_files(opened(path).handle) == []
    found = {f.path for f in orphans(opened(path).handle)}
    removed = java.call("removeOrphans", path=str(path), olderThan=int(datetime.now(UTC).timestamp() * 1000))
    assert removed["removed"] == len(found)
    assert list(orphans(opened(path).handle)) == []
    assert missing_files(opened(path).handle) == []
    assert disagreements(java, path) == {}
