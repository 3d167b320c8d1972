"""The batch writer without a session: what Spark's planning worker, its executors and its commit worker do with it."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import types as st
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

import paimon_spark
from paimon_spark.engine.commit.committer import Committer
from paimon_spark.errors import CommitConflictError, CommitError, CommitOutcomeUnknownError, InvalidOptionError
from paimon_spark.spark import batch_write
from paimon_spark.spark.source import PaimonDataSource
from tests.harness.keywords import keywords
from tests.harness.real_tables import read

SCHEMA = st.StructType([st.StructField("id", st.LongType(), False), st.StructField("v", st.StringType())])
ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "v": ["a", "b", "c"]})


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_write, "TASKS_END_S", 0)


def writer(path: Path, *, overwrite: bool = False, **options: str) -> DataSourceArrowWriter:
    made = PaimonDataSource({"path": str(path), **options}).writer(SCHEMA, overwrite)
    assert isinstance(made, DataSourceArrowWriter)
    sent: DataSourceArrowWriter = pickle.loads(pickle.dumps(made))
    return sent


def files(path: Path) -> set[Path]:
    return {p for p in path.rglob("*") if p.is_file()}


def run(made: DataSourceArrowWriter) -> WriterCommitMessage:
    message: WriterCommitMessage = pickle.loads(pickle.dumps(made.write(iter(ROWS.to_batches()))))
    return message


def test_a_write_goes_from_worker_to_worker(tmp_path: Path) -> None:
    made = writer(tmp_path / "t", **keywords({"primary-key": "id", "bucket": "2"}))
    made.commit([run(made), made.write(iter(()))])
    assert read(paimon_spark.load_table(str(tmp_path / "t")), "id") == [1, 2, 3]
    assert [f.type.nullable for f in paimon_spark.load_table(str(tmp_path / "t")).row_type] == [False, True]
    again = writer(tmp_path / "t", overwrite=True)
    again.commit([again.write(iter(()))])
    assert read(paimon_spark.load_table(str(tmp_path / "t")), "id") == []


def test_nothing_is_committed_without_a_word_of_every_task(tmp_path: Path) -> None:
    made = writer(tmp_path / "t")
    with pytest.raises(CommitError, match="2 tasks, of which 1 sent no message"):
        made.commit([run(made), None])
    made.abort([None])
    assert not (tmp_path / "t").exists()


@pytest.mark.ci
def test_an_executor_needs_only_the_pickled_writer(tmp_path: Path) -> None:
    made = PaimonDataSource({"path": str(tmp_path / "t")}).writer(SCHEMA, False)
    sent = tmp_path / "sent"
    sent.write_bytes(pickle.dumps((made, ROWS.to_batches())))
    assert len(pickle.dumps(made)) < 8000
    script = """
import pickle, sys
from tests.harness.keywords import keywords, keywords
writer, batches = pickle.loads(open(sys.argv[1], "rb").read())
message = writer.write(iter(batches))
print(sum(f.row_count for m in message.messages for f in m.data.new_files))
heavy = ("pandas", "sqlglot", "pyspark.sql.connect", "paimon_spark.engine.commit.committer")
print([m for m in heavy if m in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-c", script, str(sent)], capture_output=True, text=True, timeout=240, check=False
    )
    assert done.stdout.split("\n")[:2] == ["3", "[]"], done.stdout + done.stderr


def test_an_abort_after_a_failed_task_removes_what_all_tasks_wrote(tmp_path: Path) -> None:
    writer(tmp_path / "t").commit([])
    before = files(tmp_path)
    made = writer(tmp_path / "t")
    heard = run(made)
    run(made)  # its message never arrives, as that of a task that Spark killed
    assert len(files(tmp_path)) == len(before) + 2
    made.abort([heard, None])
    assert files(tmp_path) == before


def test_a_conflict_removes_the_files_and_an_unknown_outcome_keeps_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = writer(tmp_path / "t")
    first.commit([run(first)])
    before = files(tmp_path)
    for error, left in ((CommitConflictError("no"), 0), (CommitOutcomeUnknownError("who knows"), 1)):

        def fail(*args: object, error: Exception = error, **options: object) -> None:
            raise error

        made = writer(tmp_path / "t")
        message = run(made)
        with monkeypatch.context() as m:
            m.setattr(Committer, "commit", fail)
            with pytest.raises(type(error)):
                made.commit([message])
        made.abort([message])  # Spark does so after every failed commit
        assert len(files(tmp_path) - before) == left
    assert read(paimon_spark.load_table(str(tmp_path / "t")), "id") == [1, 2, 3]


def test_a_path_is_needed(tmp_path: Path) -> None:
    for options in ({}, {"path": " "}, {"paths": '["a", "b"]'}):
        with pytest.raises(InvalidOptionError, match="no table is named"):
            PaimonDataSource(options).writer(SCHEMA, False)
