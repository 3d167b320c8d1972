"""Rows that compactions leave out because they are too old."""

from __future__ import annotations

import random
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark.engine.compaction.run import compact_branch
from paimon_spark.errors import ColumnNotFoundError, InvalidOptionError
from paimon_spark.jobs.write.batch import plan_path_write
from paimon_spark.metadata.definition.from_arrow import row_type
from paimon_spark.options.write_request import WriteMode

NOW = int(time.time())
YOUNG, OLD = NOW - 100, NOW - 100_000
KEPT = {"record-level.expire-time": "1 h", "record-level.time-field": "t"}
INT_COLUMNS = pa.schema([("id", pa.int64()), ("t", pa.int32())])


@pytest.fixture(autouse=True)
def _at_that_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long after this module was loaded a test runs, its rows are as young as it says."""
    monkeypatch.setattr(time, "time", lambda: float(NOW))


def make(path: Path, columns: pa.Schema, **options: str) -> paimon_spark.Table:
    given = {"path": str(path), "primary-key": "id", "bucket": "1", "write-only": "true", **options}
    job = plan_path_write(given, WriteMode.APPEND, columns, lambda: row_type(columns))
    job.commit(job.write(()))
    return paimon_spark.load_table(str(path))


def ids(table: paimon_spark.Table) -> list[int]:
    return sorted(table.scan().to_arrow().column("id").to_pylist())


def at(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None)


@pytest.mark.parametrize(
    ("kind", "young", "old"),
    [
        (pa.int32(), YOUNG, OLD),
        (pa.int64(), YOUNG, OLD),
        (pa.int64(), YOUNG * 1000, OLD * 1000),
        (pa.timestamp("us"), at(YOUNG), at(OLD)),
        (pa.timestamp("ns"), at(YOUNG), at(OLD)),
        (pa.timestamp("us", "UTC"), at(YOUNG).replace(tzinfo=UTC), at(OLD).replace(tzinfo=UTC)),
    ],
    ids=["int32", "seconds", "milliseconds", "us", "ns", "zoned"],  # values are of the clock, and so differ by process
)
def test_old_rows_go_with_the_next_compaction(tmp_path: Path, kind: pa.DataType, young: Any, old: Any) -> None:
    columns = pa.schema([("id", pa.int64()), ("t", kind)])
    table = make(tmp_path / "t", columns, **KEPT)
    table.write(pa.table({"id": [1, 2, 3], "t": [young, old, None]}, schema=columns))
    assert ids(table) == [1, 2, 3]
    compact_branch(table.handle, full=True)
    assert ids(table) == [1, 3]
    assert compact_branch(table.handle, full=True).snapshot_ids == ()


ENGINES: dict[str, dict[str, str]] = {
    "deduplicate": {},
    "vectors": {"deletion-vectors.enabled": "true"},
    "lookup": {"changelog-producer": "lookup"},
    "full-compaction": {"changelog-producer": "full-compaction"},
    "partial-update": {"merge-engine": "partial-update"},
    "aggregation": {"merge-engine": "aggregation", "fields.t.aggregate-function": "last_value"},
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("between", ["nothing", "full", "partial"])
def test_a_row_that_is_old_when_written_hides_older_ones(tmp_path: Path, engine: str, between: str) -> None:
    """The newest version of a key is what expires, not only itself: what it hides must not come back."""
    options = {**KEPT, **ENGINES[engine], "write-only": "false" if engine == "vectors" else "true"}
    table = make(tmp_path / "t", INT_COLUMNS, **options)
    table.write(pa.table({"id": [1, 2, 3], "t": [YOUNG, YOUNG, YOUNG]}, schema=INT_COLUMNS))
    if between != "nothing":
        compact_branch(table.handle, full=between == "full")
    table.write(pa.table({"id": [1, 4], "t": [OLD, OLD]}, schema=INT_COLUMNS))
    compact_branch(table.handle, full=False)
    assert {2, 3} <= set(ids(table)) <= {1, 2, 3, 4}
    assert {1: YOUNG}.items() - read(table).items(), "an older version came back"
    compact_branch(table.handle, full=True)
    assert ids(table) == [2, 3]
    table.write(pa.table({"id": [1], "t": [YOUNG]}, schema=INT_COLUMNS))
    compact_branch(table.handle, full=True)
    assert ids(table) == [1, 2, 3]


def read(table: paimon_spark.Table) -> dict[int, int]:
    found = table.scan().to_arrow()
    return dict(zip(found["id"].to_pylist(), found["t"].to_pylist(), strict=True))


@pytest.mark.parametrize("producer", ["lookup", "full-compaction"])
def test_a_changelog_has_the_rows_that_readers_saw_and_no_longer_do(tmp_path: Path, producer: str) -> None:
    table = make(tmp_path / "t", INT_COLUMNS, **KEPT, **{"changelog-producer": producer})
    table.write(pa.table({"id": [1, 2], "t": [YOUNG, YOUNG]}, schema=INT_COLUMNS))
    compact_branch(table.handle, full=True)
    table.write(pa.table({"id": [1, 5], "t": [OLD, OLD]}, schema=INT_COLUMNS))
    compact_branch(table.handle, full=True)
    last = table.snapshots()[-1].id
    found = table.scan(**{"incremental-between": f"{last - 1},{last}", "incremental-between-scan-mode": "changelog"})
    kinds = found.with_options(**{"row-kind": "true"}) if hasattr(found, "with_options") else found
    assert [r["id"] for r in kinds.to_arrow().to_pylist()] in ([1], [])
    assert ids(table) == [2]


def test_the_first_row_of_a_key_expires(tmp_path: Path) -> None:
    table = make(tmp_path / "t", INT_COLUMNS, **KEPT, **{"merge-engine": "first-row", "write-only": "false"})
    table.write(pa.table({"id": [1, 2], "t": [OLD, YOUNG]}, schema=INT_COLUMNS))
    table.write(pa.table({"id": [1, 2], "t": [YOUNG, OLD]}, schema=INT_COLUMNS))
    compact_branch(table.handle, full=True)
    assert 2 in ids(table)
    assert read(table)[2] == YOUNG


def test_random_histories_are_what_the_merge_gives(tmp_path: Path) -> None:
    rng = random.Random(7)
    for number in range(8):
        table = make(tmp_path / str(number), INT_COLUMNS, **KEPT, **{"num-sorted-run.compaction-trigger": "3"})
        model: dict[int, int] = {}
        for _ in range(12):
            batch = {rng.randrange(6): rng.choice((YOUNG, OLD)) for _ in range(3)}
            table.write(pa.table({"id": list(batch), "t": list(batch.values())}, schema=INT_COLUMNS))
            model |= batch
            compact_branch(table.handle, full=rng.random() < 0.2)
            found = read(table)
            young = {k: t for k, t in model.items() if t == YOUNG}
            assert young.items() <= found.items() <= model.items()
        compact_branch(table.handle, full=True)
        assert read(table) == {k: t for k, t in model.items() if t == YOUNG}


def test_files_of_the_last_level_are_written_anew_when_rows_get_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(
        tmp_path / "t", INT_COLUMNS, **KEPT, **{"target-file-size": "1 b", "metadata.stats-dense-store": "true"}
    )
    for n in range(3):
        table.write(pa.table({"id": [n], "t": [NOW - 1000 * n]}, schema=INT_COLUMNS))
        compact_branch(table.handle, full=True)
    assert ids(table) == [0, 1, 2]
    with monkeypatch.context() as later:
        later.setattr(time, "time", lambda: NOW + timedelta(minutes=50).total_seconds())
        result = compact_branch(table.handle, full=True)
    assert (result.files_before, result.files_after) == (2, 0)
    assert ids(table) == [0]


def test_an_old_row_leaves_deletion_vectors_in_order(tmp_path: Path) -> None:
    table = make(tmp_path / "t", INT_COLUMNS, **KEPT, **{"deletion-vectors.enabled": "true", "write-only": "false"})
    table.write(pa.table({"id": range(10), "t": [YOUNG, OLD] * 5}, schema=INT_COLUMNS))
    assert ids(table) == [0, 2, 4, 6, 8]
    table.write(pa.table({"id": [4, 5], "t": [OLD, YOUNG]}, schema=INT_COLUMNS))
    assert ids(table) == [0, 2, 5, 6, 8], "an old row takes what it replaces with it"
    compact_branch(table.handle, full=True)
    assert ids(table) == [0, 2, 5, 6, 8]


def test_a_column_added_later_tells_nothing_of_older_files(tmp_path: Path) -> None:
    columns = pa.schema([("id", pa.int64()), ("v", pa.int32())])
    table = make(tmp_path / "t", columns)
    table.write(pa.table({"id": [1], "v": [OLD]}, schema=columns))
    table = table.alter(add={"t": "INT"}, move={"t": "after id"}, set_options=KEPT)
    table.write(pa.table({"id": [2, 3], "v": [1, 1], "t": pa.array([OLD, YOUNG], pa.int32())}))
    compact_branch(table.handle, full=True)
    assert ids(table) == [1, 3]


def test_a_time_without_its_column_is_refused(tmp_path: Path) -> None:
    table = make(tmp_path / "t", INT_COLUMNS)
    table.write(pa.table({"id": [1], "t": [OLD]}, schema=INT_COLUMNS))
    for options, error, message in (
        ({"record-level.expire-time": "1 h"}, InvalidOptionError, r"set record-level\.time-field"),
        ({**KEPT, "record-level.time-field": "x"}, ColumnNotFoundError, "no column 'x'"),
    ):
        handle = paimon_spark.load_table(str(tmp_path / "t"), **options).handle
        with pytest.raises(error, match=message):
            compact_branch(handle, full=True)
