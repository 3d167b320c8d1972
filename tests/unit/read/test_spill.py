"""Batches put aside on disk come back the same, after the source is drained, and errors say what to do."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.errors import FileMissingError, StorageError
from paimon_spark.read.spill import spilled

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


def test_a_full_disk_names_the_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        closed = False

        def write(self, data: Any) -> int:
            raise OSError(28, "No space left on device")

        def __enter__(self) -> Full:
            return self

        def __exit__(self, *error: object) -> None:
            self.closed = True

        def flush(self) -> None:
            pass

        def close(self) -> None:
            self.closed = True

    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **_: Full())
    with pytest.raises(StorageError, match="TMPDIR"):
        list(spilled(iter(BATCHES)))


def test_errors_of_the_source_stay_what_they_are() -> None:
    def broken() -> Iterator[pa.RecordBatch]:
        yield BATCHES[0]
        raise FileMissingError("gone")

    with pytest.raises(FileMissingError, match="gone"):
        list(spilled(broken()))
