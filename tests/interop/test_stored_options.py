"""Options stored in a table that say where its reads start: Java's reads beside ours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from paimon_spark.metadata.manifests import CACHE
from tests.interop.comparing import disagreement
from tests.interop.java_paimon import JavaPaimon

pytestmark = pytest.mark.interop


@pytest.mark.parametrize(
    "options",
    [
        {"scan.snapshot-id": "1"},
        {"scan.mode": "from-snapshot", "scan.snapshot-id": "2"},
        {"scan.tag-name": "two"},
        {"incremental-between": "1,2"},
        {"scan.mode": "latest"},
        {"log.scan": "from-timestamp", "log.scan.timestamp-millis": "9999999999999"},
        {"scan.watermark": "5"},
        {"consumer-id": "c"},
    ],
    ids=str,
)
def test_batch_reads_start_where_java_starts(java: JavaPaimon, tmp_path: Path, options: dict[str, str]) -> None:
    path = str(tmp_path / "t")
    table: dict[str, Any] = {"pk": [], "partition": [], "comment": None}
    java.call("createTable", path=path, fields=[["k", "INT"]], tableOptions=options, **table)
    java.call("write", path=path, rows=[[0]], watermark=1)
    java.call("write", path=path, rows=[[1]], watermark=9)
    java.call("createTag", path=path, name="two")
    java.call("write", path=path, rows=[[2]], watermark=20)
    CACHE.clear()
    assert disagreement(path, java.call("read", path=path), options={}) is None
