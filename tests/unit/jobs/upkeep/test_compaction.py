"""Table.compact and Table.compact_manifest without Spark: what is chosen, what is refused, what other branches keep."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark.engine.compaction.task import BucketTask
from paimon_spark.errors import ColumnNotFoundError, InvalidInputError, PaimonError, PredicateSyntaxError
from paimon_spark.format.metadata_files.snapshot import CommitKind
from paimon_spark.jobs.partition_specs import chosen_partitions
from paimon_spark.jobs.upkeep import compaction
from paimon_spark.jobs.write.batch import plan_path_write
from paimon_spark.metadata.definition.from_arrow import row_type
from paimon_spark.metadata.live_files import live_entries
from paimon_spark.metadata.manifests import data_manifests
from paimon_spark.metadata.partition_path import partition_path_of
from paimon_spark.metadata.snapshots import latest_snapshot
from paimon_spark.options.write_request import WriteMode

DAYS = [date(2024, 1, 1), date(2024, 1, 2), None]
ROWS = pa.table(
    {
        "id": pa.array(range(12), pa.int64()),
        "dt": pa.array(DAYS * 4),
        "hr": pa.array([i // 6 for i in range(12)], pa.int32()),
    }
)


@pytest.fixture(autouse=True)
def without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "active_spark_jobs", lambda: None)


def table_of(path: Path, writes: int = 3, **options: str) -> paimon_spark.Table:
    given = {"path": str(path), "partition": "dt,hr", "partition.legacy-name": "false", **options}
    job = plan_path_write(given, WriteMode.APPEND, ROWS.schema, lambda: row_type(ROWS.schema))
    job.commit(job.write(ROWS.to_batches()))
    table = paimon_spark.load_table(str(path))
    for _ in range(writes - 1):
        table.write(ROWS)
    return table


def files_of(path: Path) -> dict[str, int]:
    """How many files each partition has."""
    handle = paimon_spark.load_table(str(path)).handle
    head = latest_snapshot(handle)
    assert head is not None
    out: dict[str, int] = {}
    for partition in live_entries(handle, data_manifests(handle, head)).column("partition").to_pylist():
        place = partition_path_of(handle, partition)
        out[place] = out.get(place, 0) + 1
    return out


EVERY = {f"dt={d}/hr={h}" for d in ("2024-01-01", "2024-01-02", "__DEFAULT_PARTITION__") for h in (0, 1)}


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        ({}, EVERY),
        ({"partitions": {"dt": "2024-01-01", "hr": 1}}, {"dt=2024-01-01/hr=1"}),
        ({"partitions": [{"dt": date(2024, 1, 1)}]}, {"dt=2024-01-01/hr=0", "dt=2024-01-01/hr=1"}),
        ({"partitions": "dt=2024-01-01,hr=1; dt='2024-01-02',hr=0"}, {"dt=2024-01-01/hr=1", "dt=2024-01-02/hr=0"}),
        ({"partitions": ["dt=2024-01-01,hr=1", {"dt": None, "hr": 0}]},
         {"dt=2024-01-01/hr=1", "dt=__DEFAULT_PARTITION__/hr=0"}),
        ({"partitions": "hr=1;"}, {p for p in EVERY if p.endswith("hr=1")}),
        ({"partitions": "dt=__DEFAULT_PARTITION__,hr=1"}, {"dt=__DEFAULT_PARTITION__/hr=1"}),
        ({"where": "dt > '2024-01-01' and hr < 1"}, {"dt=2024-01-02/hr=0"}),
        ({"where": "dt is null or HR = 1"}, {p for p in EVERY if "DEFAULT" in p or p.endswith("hr=1")}),
        ({"where": "hr = 7"}, set()),
    ],
)  # fmt: skip
def test_partitions_are_chosen_by_values_or_by_a_condition(
    chosen: dict[str, Any], expected: set[str], tmp_path: Path
) -> None:
    table = table_of(tmp_path / "t")
    before = table.scan().to_arrow().sort_by("id")
    result = table.compact(full=True, **chosen)
    assert {p for p, n in files_of(tmp_path / "t").items() if n == 1} == expected
    assert (result.buckets, result.files_before, result.files_after) == (
        len(expected),
        3 * len(expected),
        len(expected),
    )
    assert table.scan().to_arrow().sort_by("id") == before


@pytest.mark.parametrize(
    ("chosen", "error", "message"),
    [
        ({"partitions": "hr=1", "where": "hr = 1"}, InvalidInputError, "give one of them"),
        ({"partitions": []}, InvalidInputError, "name at least one"),
        ({"partitions": [{}]}, InvalidInputError, "name at least one"),
        ({"partitions": ""}, InvalidInputError, r"named by values of dt, hr.*found ''"),
        ({"partitions": ";hr=1"}, InvalidInputError, "named by values of dt, hr"),
        ({"partitions": "hr"}, InvalidInputError, "named by values of dt, hr"),
        ({"partitions": "hr=1,hr=2"}, InvalidInputError, "each column once"),
        ({"partitions": [7]}, InvalidInputError, "found 7"),
        ({"partitions": {"day": "2024-01-01"}}, InvalidInputError, "'day' is not a partition column"),
        ({"partitions": "hr=one"}, InvalidInputError, "'one' is not a value of partition column 'hr'"),
        ({"where": "id = 1 and hr = 1"}, InvalidInputError, "names id, but only whole partitions"),
        ({"where": "hr +"}, PredicateSyntaxError, "hr +"),
        ({"where": "nothing = 1"}, ColumnNotFoundError, "nothing"),
        ({"where": 1}, InvalidInputError, "chosen by a condition as text, found 1"),
        ({"full": "yes"}, InvalidInputError, "full = 'yes': expected True or False"),
    ],
)
def test_what_is_asked_wrongly_is_refused_and_nothing_changes(
    chosen: dict[str, Any], error: type[PaimonError], message: str, tmp_path: Path
) -> None:
    table = table_of(tmp_path / "t", 2)
    with pytest.raises(error, match=message):
        table.compact(**chosen)
    assert len(table.snapshots()) == 2


def test_a_table_without_partitions_has_none_to_choose_and_a_version_cannot_be_compacted(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", 2, partition="")
    with pytest.raises(InvalidInputError, match="has no partitions to choose from"):
        table.compact(where="id = 1")
    for verb in (table.at(1).compact, table.at(1).compact_manifest):
        with pytest.raises(InvalidInputError, match="opened at version"):
            verb()
    assert len(table.snapshots()) == 2


def test_quotes_keep_semicolons_together(tmp_path: Path) -> None:
    rows = pa.table({"id": [1], "p": ["a;b"]})
    job = plan_path_write(
        {"path": str(tmp_path / "t"), "partition": "p"}, WriteMode.APPEND, rows.schema, lambda: row_type(rows.schema)
    )
    job.commit(job.write(rows.to_batches()))
    handle = paimon_spark.load_table(str(tmp_path / "t")).handle
    assert chosen_partitions(handle, "p='a;b';p=c", None).specs == ({"p": "a;b"}, {"p": "c"})


def test_an_empty_table_and_one_that_is_compact_stay_as_they_are(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", 1)
    result = table.compact(full=True)
    assert result.snapshot_ids == ()
    assert result.snapshot == table.snapshots()[-1]
    assert len(table.snapshots()) == 1
    assert table.compact_manifest() is None


def test_manifests_are_made_few(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", 5)
    made = table.compact_manifest()
    assert made is not None
    assert made == table.snapshots()[-1]
    assert made.commit_kind is CommitKind.COMPACT
    assert table.compact_manifest() is None
    assert table.scan().to_arrow().num_rows == 60


@pytest.mark.parametrize("keyed", [False, True])
def test_write_only_does_not_keep_a_table_from_being_compacted(keyed: bool, tmp_path: Path) -> None:
    given = {"primary-key": "id", "bucket": "1", "partition": ""} if keyed else {}
    table = table_of(tmp_path / "t", 5, **{"write-only": "true", **given})
    before = table.scan().to_arrow().sort_by("id")
    assert table.compact(full=True).files_after == (1 if keyed else 6)
    assert table.scan().to_arrow().sort_by("id") == before


def test_what_is_due_after_a_commit_is_done_for_writers_that_do_nothing_of_it(tmp_path: Path) -> None:
    options = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1"}
    table = table_of(tmp_path / "t", 3, **options, **{"write-only": "true"})
    assert [s.id for s in table.snapshots()] == [1, 2, 3]
    table.compact(full=True)
    assert [s.id for s in table.snapshots()] == [4]
    assert table.scan().to_arrow().num_rows == 36


@pytest.mark.parametrize("keys", [False, True])
def test_a_branch_is_compacted_by_itself(keys: bool, tmp_path: Path) -> None:
    path = tmp_path / "t"
    options = {"primary-key": "id", "bucket": "1", "partition": ""} if keys else {}
    table = table_of(path, 3, **options)
    before = table.scan().to_arrow().sort_by("id")
    files = {p for p in path.rglob("*") if p.is_file()}
    _branch(table, "b")
    branch = table.branch("b")
    result = branch.compact(full=True)
    assert len(result.snapshot_ids) == 1
    assert len(table.snapshots()) == 3
    assert {p for p in path.rglob("*") if p.is_file()} >= files, "main's files are all there"
    assert table.scan().to_arrow().sort_by("id") == before
    assert branch.scan().to_arrow().sort_by("id") == before
    assert len(branch.snapshots()) == 2
    table.compact(full=True)
    assert table.scan().to_arrow().sort_by("id") == before == branch.scan().to_arrow().sort_by("id")


def _branch(table: paimon_spark.Table, name: str) -> None:
    """A branch at the head, as every Paimon makes it: copies of the newest snapshot and of the schemas."""
    root = Path(table.location.removeprefix("file://"))
    target = root / "branch" / f"branch-{name}"
    head = table.snapshots()[-1].id
    (target / "snapshot").mkdir(parents=True)
    shutil.copy(root / "snapshot" / f"snapshot-{head}", target / "snapshot")
    (target / "snapshot" / "LATEST").write_text(str(head))
    (target / "snapshot" / "EARLIEST").write_text(str(head))
    shutil.copytree(root / "schema", target / "schema")


def test_small_jobs_run_here_and_others_in_spark(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    table = table_of(tmp_path / "t")
    ran: list[int] = []

    class Spark:
        @staticmethod
        def run_each(work: Any, tasks: Sequence[BucketTask], sweep: Any) -> Any:
            ran.append(len(tasks))
            return map(work, tasks)

    monkeypatch.setattr(compaction, "active_spark_jobs", lambda: Spark)
    table.compact(full=True, partitions="hr=0")
    assert ran == []
    monkeypatch.setattr(compaction, "HERE_BYTES", 0)
    table.compact(full=True)
    assert ran == [3]
    table.write(ROWS)
    table.compact(full=True, partitions={"dt": None, "hr": 1})
    assert ran == [3], "a single task is not worth a job"
