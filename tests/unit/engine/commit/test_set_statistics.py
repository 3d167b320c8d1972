"""Statistics come with a snapshot of their own, stay while the schema does, and leave nothing when they fail."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from paimon_spark.api.table import Table
from paimon_spark.engine.commit import committer
from paimon_spark.engine.commit.committer import Committer
from paimon_spark.errors import CommitRetriesExhaustedError
from paimon_spark.format.metadata_files.statistics import ColumnStatistics, Statistics
from tests.harness.real_tables import a_table


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """A table of one row."""
    return a_table("k INT, v STRING", rows=[(1, "a")], where=tmp_path)


FOUND = Statistics(1, 0, 1, 10, {"k": ColumnStatistics(0, 1, "1", "1", 0, 4, 4), "v": ColumnStatistics(1)})


def kept(table: Table) -> list[str | None]:
    return [snapshot.statistics for snapshot in table.snapshots()]


def files(table: Table) -> list[str]:
    folder = Path(table.location.removeprefix("file://")) / "statistics"
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def test_later_snapshots_keep_them_until_the_schema_changes(table: Table) -> None:
    made = Committer(table.handle, "me").set_statistics(FOUND).snapshots[0]
    assert (made.id, made.commit_kind.value, made.total_record_count) == (2, "ANALYZE", 1)
    more = pa.table({"k": pa.array([2], pa.int32())})
    table.write(more)
    table.alter(add={"n": "INT"})
    table.write(more)
    assert kept(table) == [None, made.statistics, made.statistics, None]
    assert files(table) == [made.statistics]
    assert table.scan().to_arrow().num_rows == 3


def test_a_commit_that_fails_leaves_no_file(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise CommitRetriesExhaustedError("others were faster")

    monkeypatch.setattr(committer, "make_snapshot", refuse)
    with pytest.raises(CommitRetriesExhaustedError):
        Committer(table.handle, "me").set_statistics(FOUND)
    assert (kept(table), files(table)) == ([None], [])
