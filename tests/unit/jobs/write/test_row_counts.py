"""The numbers of rows that writes in process report, compared with what the tables hold before and after."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark.engine.commit.committer import new_commit_user
from paimon_spark.engine.commit.overwrite import NamedPartitions, WholeTable
from paimon_spark.engine.tasks import UNKNOWN_ROWS, RowCounts
from paimon_spark.jobs.row_level import delete
from paimon_spark.jobs.row_level.delete import delete_partitions, partitions_where
from paimon_spark.jobs.write.batch import WriteJob, plan_path_write
from paimon_spark.jobs.write.commit import ROW_COUNTS, WriteResult, counted_rows
from paimon_spark.metadata.definition.from_arrow import row_type
from paimon_spark.options.write_request import WRITE_ID, WriteMode
from tests.harness.keywords import keywords

KINDS: dict[str, dict[str, Any]] = {
    "rewrite": {"partition": "dt"},
    "buckets": {"bucket": "2", "bucket-key": "id"},
    "vectors": {"partition": "dt", "deletion-vectors.enabled": "true"},
    "row_ids": {"partition": "dt", "row-tracking.enabled": "true"},
    "evolution": {
        "partition": "dt",
        "row-tracking.enabled": "true",
        "data-evolution.enabled": "true",
        "deletion-vectors.enabled": "true",
    },
    "keys": {"primary-key": "id,dt", "partition": "dt", "bucket": "2"},
    "dynamic": {"primary-key": "id,dt", "partition": "dt"},
    "keys_vectors": {
        "primary-key": "id,dt",
        "partition": "dt",
        "bucket": "1",
        "deletion-vectors.enabled": "true",
    },
    "postponed": {"primary-key": "id,dt", "partition": "dt", "bucket": "-2"},
}
KEYED = ("keys", "dynamic", "keys_vectors", "postponed")


@pytest.fixture(autouse=True)
def without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delete, "active_spark_jobs", lambda: None)


def rows_of(ids: range, **columns: Any) -> pa.Table:
    found = {"id": pa.array(ids, pa.int64()), "dt": [f"p{i % 3}" for i in ids], "v": [i * 2 for i in ids], **columns}
    return pa.table(found)


def job_of(path: Path, rows: pa.Table, mode: WriteMode = WriteMode.APPEND, **options: str) -> WriteJob:
    return plan_path_write({"path": str(path), **options}, mode, rows.schema, lambda: row_type(rows.schema))


def made(path: Path, **options: Any) -> paimon_spark.Table:
    """A table with ids 0 to 29 in two commits, 10 of them written by each of two tasks in the first."""
    first = rows_of(range(20))
    job = job_of(path, first, **options)
    job.commit([m for n in (0, 1) for m in job.write(first.slice(10 * n, 10).to_batches(), n, shares_buckets=True)])
    table = paimon_spark.load_table(str(path))
    table.write(rows_of(range(20, 30)))
    return table


def number_of(table: paimon_spark.Table, where: str | None = None) -> int:
    return int(table.scan(where=where).to_arrow().num_rows)


def counts(result: WriteResult) -> tuple[int | None, ...]:
    return result.inserted_rows, result.updated_rows, result.deleted_rows


@pytest.mark.parametrize("kind", KINDS)
def test_a_write_counts_the_rows_of_all_its_tasks(kind: str, tmp_path: Path) -> None:
    rows = rows_of(range(20))
    job = job_of(tmp_path / "t", rows, **KINDS[kind])
    messages = [m for n in (0, 1) for m in job.write(rows.slice(10 * n, 10).to_batches(), n, shares_buckets=True)]
    unknown = None if kind in KEYED else 0  # which rows replaced others
    assert counts(job.commit(messages)) == (20, unknown, 0)
    table = paimon_spark.load_table(str(tmp_path / "t"))
    assert counts(table.write(rows_of(range(15, 25)))) == (10, unknown, 0)
    assert counts(table.write(rows_of(range(0)))) == (0, 0, 0)
    assert counts(table.write(rows_of(range(3)), mode="overwrite")) == (3, 0, None)
    if kind != "postponed":
        assert number_of(table) == 3


def test_only_what_is_committed_counts(tmp_path: Path) -> None:
    """A task that Spark runs twice writes its rows twice; the messages of one run are committed."""
    rows = rows_of(range(20))
    job = job_of(tmp_path / "t", rows, **KINDS["buckets"])
    failed = job.write(rows.to_batches(), 0)
    assert counts(job.commit(job.write(rows.slice(0, 7).to_batches(), 0))) == (7, 0, 0)
    assert failed[0].rows == RowCounts(20)


def test_rows_of_a_changelog_count_by_their_kind(tmp_path: Path) -> None:
    table = made(tmp_path / "t", **KINDS["keys"])
    kinds = ["+I", "-U", "+U", "-D", "-D"]
    assert counts(table.write(rows_of(range(5), _VALUE_KIND=kinds))) == (2, None, None)
    assert counts(table.write(rows_of(range(5, 7), _VALUE_KIND=["-D", "-D"]))) == (0, 0, None)
    field: dict[str, Any] = {**KINDS["keys"], "rowkind.field": "kind"}
    job = job_of(tmp_path / "f", rows := rows_of(range(5), kind=kinds), **field)
    messages = job.write(rows.to_batches())
    assert RowCounts.total(m.rows for m in messages) == (1, 1, 2)
    assert counts(job.commit(messages)) == (2, None, None)


@pytest.mark.parametrize(("engine", "written"), [("deduplicate", 6), ("partial-update", 6), ("first-row", 3)])
def test_keys_that_move_count_once(engine: str, written: int, tmp_path: Path) -> None:
    path = tmp_path / "t"
    options: dict[str, Any] = {"primary-key": "id", "partition": "dt", "merge-engine": engine}
    job = job_of(path, rows := rows_of(range(10)), **options)
    job.commit(job.write(rows.to_batches()))
    table = paimon_spark.load_table(str(path))
    moved = rows_of(range(7, 13)).set_column(1, "dt", pa.array(["p9"] * 6))
    assert table.write(moved).inserted_rows == written  # first-row drops rows of keys that are elsewhere
    assert number_of(table) == 13


@pytest.mark.ci
@pytest.mark.parametrize("kind", [k for k in KINDS if k != "postponed"])
@pytest.mark.parametrize("where", ["id % 10 = 3 OR v > 50", "dt = 'p1'", "id > 1000", "true"])
def test_a_delete_counts_the_rows_that_go(kind: str, where: str, tmp_path: Path) -> None:
    table = made(tmp_path / "t", **KINDS[kind])
    assert counts(table.delete("id IN (4, 5)")) == (0, 0, 2)
    expected = number_of(table, where)
    assert counts(table.delete(where)) == (0, 0, expected)
    assert number_of(table) == 28 - expected


@pytest.mark.parametrize("kind", [k for k in KINDS if k != "postponed"])
def test_whole_partitions_count_by_their_metadata(kind: str, tmp_path: Path) -> None:
    table = made(tmp_path / "t", **KINDS[kind])

    def check(what: Any, *, is_known: bool) -> None:
        before = number_of(table)
        result = delete_partitions(table, what, "DELETE")
        gone = before - number_of(table)
        assert gone > 0
        assert result.deleted_rows == (gone if is_known else None)

    if kind in KEYED:
        table.write(rows_of(range(3)))  # updates, in more files of the same buckets
    else:
        table.delete("id IN (4, 5)")
    # Rows that wait for a merge are not counted; a table with vectors merges them right away.
    is_known = kind not in KEYED or kind == "keys_vectors"
    if table.schema.partition_keys:
        check(NamedPartitions(({"dt": "p0"},)), is_known=is_known)
        check(partitions_where(table, "dt = 'p1'", None), is_known=is_known)
        assert delete_partitions(table, NamedPartitions(({"dt": "p7"},)), "TRUNCATE").deleted_rows == 0
    if kind in KEYED:
        table.compact(full=True)
    check(WholeTable(), is_known=is_known or kind == "keys")


def test_numbers_are_those_of_the_snapshot_that_is_made(tmp_path: Path, monkeypatch: Any) -> None:
    """Another job writes after the plan: the partitions go with its rows, and the rows appended beside it count."""
    table = made(tmp_path / "t", **KINDS["vectors"])
    job = job_of(tmp_path / "t", rows := rows_of(range(100, 104)))
    messages = job.write(rows.to_batches())
    new_user = new_commit_user

    def late(options: Any) -> str:
        table.write(rows_of(range(30, 36)))
        return new_user(options)

    monkeypatch.setattr(delete, "new_commit_user", late)
    assert delete_partitions(table, NamedPartitions(({"dt": "p0"},)), "DELETE").deleted_rows == 12
    assert counts(job.commit(messages)) == (4, 0, 0)
    assert number_of(table) == 24 + 4


def test_the_number_of_rows_stays_unknown_where_no_metadata_says_it(tmp_path: Path, monkeypatch: Any) -> None:
    table = made(tmp_path / "t", **KINDS["vectors"])
    table.delete("id = 3")
    monkeypatch.setattr(delete, "find_snapshot", lambda *_: None)  # it has expired
    assert delete_partitions(table, WholeTable(), "TRUNCATE").deleted_rows is None
    assert number_of(table) == 0


def test_a_named_write_leaves_its_numbers_in_the_snapshot(tmp_path: Path) -> None:
    table = made(tmp_path / "t", **KINDS["keys"])
    assert all(ROW_COUNTS not in (s.properties or {}) for s in table.snapshots())
    rows = rows_of(range(2), _VALUE_KIND=["+U", "-D"])
    job = job_of(tmp_path / "t", rows, **keywords({WRITE_ID.key: "w"}))
    job.commit(job.write(rows.to_batches()))
    head = table.snapshots()[-1]
    assert counted_rows(head, "w") == (0, 1, 1)
    assert counted_rows(head, "another") is None


def test_results_read_as_a_line_with_the_numbers() -> None:
    assert str(WriteResult((3,), 1, 0, 2000)) == "wrote snapshot 3: 1 row inserted, 2,000 rows deleted"
    assert str(WriteResult((3, 4), 5, None, 0)) == "wrote snapshots 3, 4: 5 rows inserted"
    assert str(WriteResult((3,), *UNKNOWN_ROWS)) == "wrote snapshot 3"
    assert str(WriteResult()) == "nothing to write"
