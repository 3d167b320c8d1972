"""Table.delete without Spark."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark.errors import CommitConflictError, InvalidInputError, PredicateSyntaxError, UnsupportedFeatureError
from paimon_spark.jobs.row_level import delete
from paimon_spark.jobs.row_level.write import is_cut_by_spark, plan_path_row_level
from paimon_spark.jobs.write.batch import plan_path_write
from paimon_spark.metadata.definition.from_arrow import row_type
from paimon_spark.options.write_request import ROW_LEVEL_BASE, WriteMode

ROWS = pa.table({"id": pa.array(range(10), pa.int64()), "dt": ["x", "y"] * 5})


@pytest.fixture(autouse=True)
def without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delete, "active_spark_jobs", lambda: None)


def table_of(path: Path, **options: str) -> paimon_spark.Table:
    job = plan_path_write({"path": str(path), **options}, WriteMode.APPEND, ROWS.schema, lambda: row_type(ROWS.schema))
    job.commit(job.write(ROWS.to_batches()))
    return paimon_spark.load_table(str(path))


def ids(table: paimon_spark.Table) -> list[int]:
    return sorted(table.scan().to_arrow().column("id").to_pylist())


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"partition": "dt"},
        {"deletion-vectors.enabled": "true"},
        {"primary-key": "id", "bucket": "2"},
        {"primary-key": "id", "bucket": "1", "deletion-vectors.enabled": "true"},
    ],
)
def test_rows_for_which_the_predicate_is_true_go(options: dict[str, str], tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", **options)
    head = table.snapshots()[-1].id
    assert table.delete("id >= 7 or id = 2").snapshot_ids[0] == head + 1
    assert ids(table) == [0, 1, 3, 4, 5, 6]
    assert table.delete("id > 100").snapshot_id is None
    table.delete("dt = 'x'")
    assert ids(table) == [1, 3, 5]
    table.delete("true")
    assert ids(table) == []


def test_what_cannot_be_deleted_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedFeatureError, match="ignore-delete"):
        table_of(tmp_path / "f", **{"primary-key": "id", "bucket": "1", "ignore-delete": "true"}).delete("id = 1")
    table = table_of(tmp_path / "t")
    with pytest.raises(PredicateSyntaxError):
        table.delete("id +")
    with pytest.raises(InvalidInputError, match="'true' means all"):
        table.delete(None)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="opened at version"):
        table.at(1).delete("id = 1")
    assert ids(table) == list(range(10))


@pytest.mark.parametrize("options", [{}, {"deletion-vectors.enabled": "true"}])
def test_what_changed_since_the_rows_were_read_is_a_conflict(options: dict[str, str], tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", **options)
    before = table.snapshots()[-1].id
    table.delete("id = 5")
    work = plan_path_row_level({"path": str(tmp_path / "t"), ROW_LEVEL_BASE.key: str(before)}, ROWS.schema, "UPDATE")
    name = work.deletes.splits[0].files[0].file_name
    outcome = work.deletes.drop(0, {name: np.array([5, 6], np.int64)})
    with pytest.raises(CommitConflictError):
        work.commit(work.rows.write(ROWS.slice(5, 2).to_batches()), [outcome])
    assert ids(table) == [0, 1, 2, 3, 4, 6, 7, 8, 9]


def test_types_that_spark_cuts_are_told() -> None:
    fine = row_type(pa.schema([("a", pa.list_(pa.struct([("t", pa.timestamp("ns"))])))]))
    coarse = row_type(pa.schema([("a", pa.map_(pa.string(), pa.timestamp("us", "UTC")))]))
    assert is_cut_by_spark(fine)
    assert not is_cut_by_spark(coarse)


@pytest.mark.ci
def test_a_delete_needs_no_pyspark(tmp_path: Path) -> None:
    table_of(tmp_path / "t")
    script = """
import sys, paimon_spark
paimon_spark.load_table(sys.argv[1]).delete("id > 3")
print("pyspark" in sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "t")], capture_output=True, text=True, timeout=240, check=False
    )
    assert done.stdout.strip() == "False", done.stderr
