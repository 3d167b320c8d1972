"""Files of a failed Spark job are removed once the tasks that Spark stops have ended, however long that takes."""

from __future__ import annotations

import os
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyspark import TaskContext
from pyspark.sql import SparkSession

from paimon_spark.errors import CorruptFileError
from paimon_spark.spark import batch_write
from paimon_spark.spark.tasks import run_each

pytestmark = [pytest.mark.spark, pytest.mark.newest]


def fail_beside_another(folder: Path, item: int) -> int:
    """Fail as item 0, once item 1 has made a file; item 1 makes files until its process is killed. Executor."""
    if item == 1:
        (folder / "pid").write_text(str(os.getpid()))
        number = 0
        while True:
            (folder / f"data-{number}").touch()
            number += 1
            time.sleep(0.01)
    while item == 0 and not (folder / "data-0").exists():
        time.sleep(0.01)
    raise CorruptFileError(f"the file of item {item} is damaged")


def is_running(process_id: int) -> bool:
    try:
        status = Path(f"/proc/{process_id}/stat").read_text()
    except FileNotFoundError:
        return False
    return status.rpartition(") ")[2][0] != "Z"


def test_each_item_has_a_task_of_its_own(spark: SparkSession) -> None:
    def partition(_: int) -> int:
        context = TaskContext.get()
        assert context is not None
        return context.partitionId()

    tasks = list(run_each(partition, range(7)))
    assert sorted(tasks) == list(range(7))


def test_files_are_removed_after_the_last_task_has_ended(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[bool] = []

    def sweep() -> int:
        found.append(is_running(int((tmp_path / "pid").read_text())))
        files = list(tmp_path.glob("data-*"))
        for file in files:
            file.unlink()
        return len(files)

    monkeypatch.setattr(batch_write, "TASKS_END_S", None)  # a wait by the clock would fail
    with pytest.raises(CorruptFileError, match="item 0"):
        list(run_each(partial(fail_beside_another, tmp_path), [0, 1], sweep))
    assert not found[-1], "the worker went on after the last look for its files"
    assert [p.name for p in tmp_path.iterdir()] == ["pid"]
    assert not spark.sparkContext.getJobTags()


def test_a_thread_whose_tasks_spark_interrupts_waits_by_the_clock(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    monkeypatch.setattr(batch_write, "time", SimpleNamespace(sleep=waits.append))
    removed = iter([3, 1, 0])
    spark.sparkContext.setLocalProperty("spark.job.interruptOnCancel", "true")
    try:
        with pytest.raises(CorruptFileError):
            list(run_each(partial(fail_beside_another, tmp_path / "none"), [2, 3], partial(next, removed)))
    finally:
        spark.sparkContext.setLocalProperty("spark.job.interruptOnCancel", None)  # type: ignore[arg-type]  # unsets it
    assert waits == [batch_write.TASKS_END_S] * 2
