"""Consumers of streams over real files: nothing that a stream has yet to read goes, however hard others expire."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import paimon_spark
from paimon_spark.jobs.read.stream import open_stream
from tests.harness.keywords import keywords
from tests.harness.sinks import batch, rows_of

KEEPS_ONE = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "100", "snapshot.time-retained": "1 ms"}
KEYED: dict[str, Any] = {"primary-key": "id", "bucket": "1", **KEEPS_ONE}


def table(path: Path) -> paimon_spark.Table:
    return paimon_spark.load_table(str(path))


@pytest.mark.parametrize("options", [{"write-only": "true"}, {"deletion-vectors.enabled": "true"}])
def test_what_an_overwrite_took_away_is_kept_for_a_consumer_that_reads_overwrites(
    options: dict[str, Any], tmp_path: Path
) -> None:
    path = tmp_path / "t"
    batch(path, 0, rows_of(1, 2, 3), **KEYED, **options)
    asked = {"path": str(path), "consumer-id": "c", "streaming-read-overwrite": "true"}
    source = open_stream(str(path), asked)
    start = source.next(source.first())
    source.committed(start)
    table(path).write(rows_of(7), mode="overwrite")
    for n in range(3):
        table(path).write(rows_of(20 + n))
        table(path).expire_snapshots(retain_max=1, retain_min=1)
    files = [f for s in source.plan(start, source.next(start)).splits for f in (*s.before_files, *s.files)]
    assert files
    assert all(list(path.rglob(f.file_name)) for f in files)
    # Others see the snapshot that is held, and a query that begins anew reads the one after it.
    assert table(path).consumers()[0].next_snapshot == start.snapshot_id
    assert json.loads((path / "consumer" / "consumer-c").read_text())["hasRead"] is True
    assert open_stream(str(path), asked).first().snapshot_id == start.snapshot_id


def test_a_consumer_of_new_rows_alone_keeps_what_tells_them_from_old_ones(tmp_path: Path) -> None:
    path = tmp_path / "t"
    batch(
        path, 0, rows_of(1), **keywords({"row-tracking.enabled": "true", "data-evolution.enabled": "true", **KEEPS_ONE})
    )
    source = open_stream(str(path), {"path": str(path), "consumer-id": "c"})
    start = source.next(source.first())
    source.committed(start)
    for n in range(3):
        table(path).write(rows_of(20 + n))
    table(path).expire_snapshots(retain_max=1, retain_min=1)
    assert [s.id for s in table(path).snapshots()] == [1, 2, 3, 4]
    source.committed(source.next(start))
    table(path).expire_snapshots(retain_max=1, retain_min=1)
    assert [s.id for s in table(path).snapshots()] == [4]
