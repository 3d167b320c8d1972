"""Batches spilled to disk come back the same, after the source is drained, and errors say what to do."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.engine.merge.spill import SpillFile, spilled
from paimon_spark.errors import FileMissingError, StorageError

BATCHES = [pa.record_batch({"k": [n, None], "s": [["a"], [str(n)]]}) for n in range(5)]


def test_the_same_batches_come_back_and_nothing_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    source = iter(BATCHES)
    out = spilled(source)
    assert next(out) == BATCHES[0]
    assert next(source, None) is None
    assert list(out) == BATCHES[1:]
    assert list(tmp_path.iterdir()) == []
    assert list(spilled(iter([]))) == []


def test_runs_in_one_file_are_read_side_by_side() -> None:
    with closing(SpillFile()) as file:
        runs = [file.put(iter(BATCHES[n:])) for n in range(3)]
        for n, run in enumerate(runs):
            assert run is not None
            assert run.row_count == 2 * (5 - n)
        streams = [file.read(run) for run in runs if run is not None]
        assert [next(s) for s in streams] == BATCHES[:3]
        assert [list(s) for s in streams] == [BATCHES[n + 1 :] for n in range(3)]
        assert file.size_bytes == sum(run.size_bytes for run in runs if run is not None)
    assert file.size_bytes == 0


def test_a_full_disk_names_the_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(StorageError, match="TMPDIR"):
        list(spilled(iter(BATCHES)))


def test_errors_of_the_source_stay_what_they_are() -> None:
    def broken() -> Iterator[pa.RecordBatch]:
        yield BATCHES[0]
        raise FileMissingError("gone")

    with pytest.raises(FileMissingError, match="gone"):
        list(spilled(broken()))
