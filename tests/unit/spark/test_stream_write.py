"""The streaming writer without a session: what Spark's planning worker, executors and commit worker do with it."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql import types as st
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

import paimon_spark
from paimon_spark.engine.commit.committer import Committer
from paimon_spark.errors import (
    BranchNotFoundError,
    CommitError,
    CommitOutcomeUnknownError,
    InvalidOptionError,
    SchemaMismatchError,
    StreamError,
)
from paimon_spark.spark import batch_write
from paimon_spark.spark.source import PaimonDataSource
from tests.harness.keywords import keywords
from tests.harness.real_tables import read

SCHEMA = st.StructType([st.StructField("id", st.LongType(), False), st.StructField("v", st.StringType())])
ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "v": ["a", "b", "c"]})

_END = """
import pickle, sys
source, schema, message = pickle.loads(open(sys.argv[1], "rb").read())
source.streamWriter(schema, False).commit([message], 0)
print([m for m in ("pandas", "sqlglot", "pyspark.sql.connect", "pyarrow.parquet") if m in sys.modules])
"""
_EXECUTOR = """
import pickle, sys
from paimon_spark.spark import stream_write
from tests.harness.keywords import keywords, keywords

class Task:
    def getLocalProperty(self, key):
        return {"sql.streaming.queryId": "query-1", "streaming.sql.batchId": "0"}[key]

    def partitionId(self):
        return 0

writer, batches = pickle.loads(open(sys.argv[1], "rb").read())
stream_write.TaskContext.get = Task
message = writer.write(iter(batches))
print(sum(f.row_count for m in message.rows.messages for f in m.data.new_files))
heavy = ("pandas", "sqlglot", "pyspark.sql.connect", "paimon_spark.engine.commit.committer")
print([m for m in heavy if m in sys.modules])
"""


class Task:
    """The context of a task, as far as the writer looks at it."""

    def __init__(self, batch_id: int | None, number: int = 0, query_id: str | None = "query-1") -> None:
        self._properties = {
            "sql.streaming.queryId": query_id,
            "streaming.sql.batchId": None if batch_id is None else str(batch_id),
        }
        self._number = number

    def getLocalProperty(self, key: str) -> str | None:
        return self._properties[key]

    def partitionId(self) -> int:
        return self._number


class Query:
    """A streaming query: makes writers as Spark does, and sends them and their messages from process to process."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, path: Path | str, *, complete: bool = False, **options: str):
        self._patch = monkeypatch
        self._complete = complete
        self._options = {"path": str(path), "checkpointlocation": "/somewhere", "queryname": "q", **options}

    def for_tasks(self, schema: st.StructType = SCHEMA) -> DataSourceStreamArrowWriter:
        made = _sent(PaimonDataSource(self._options).streamWriter(schema, self._complete))
        assert isinstance(made, DataSourceStreamArrowWriter)
        return made

    def for_end(self) -> DataSourceStreamArrowWriter:
        made = _sent(PaimonDataSource(self._options)).streamWriter(SCHEMA, self._complete)
        assert isinstance(made, DataSourceStreamArrowWriter)
        return made

    def task(self, context: Task, rows: pa.Table = ROWS) -> WriterCommitMessage:
        message: WriterCommitMessage = self.task_of(self.for_tasks(), context, rows)
        return message

    def task_of(self, made: DataSourceStreamArrowWriter, context: Task | None, rows: pa.Table = ROWS) -> Any:
        with self._patch.context() as m:
            m.setattr(TaskContext, "get", lambda: context)
            return _sent(made.write(iter(rows.to_batches())))

    def run(self, batch_id: int, rows: pa.Table = ROWS) -> None:
        self.for_end().commit(
            [self.task(Task(batch_id), rows), self.task(Task(batch_id, 1), rows.slice(0, 0))], batch_id
        )


def _sent(thing: Any) -> Any:
    return pickle.loads(pickle.dumps(thing))


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_write, "TASKS_END_S", 0)


def files(path: Path) -> set[Path]:
    return {p for p in path.rglob("*") if p.is_file()}


def test_batches_go_from_worker_to_worker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    query = Query(monkeypatch, tmp_path / "t", **keywords({"primary-key": "id", "bucket": "2"}))
    query.run(0)
    query.run(1, ROWS.slice(1).set_column(0, "id", pa.array([4, 5], pa.int64())))
    assert read(paimon_spark.load_table(str(tmp_path / "t")), "id") == [1, 2, 3, 4, 5]
    made = paimon_spark.load_table(str(tmp_path / "t")).snapshots()
    assert [(s.commit_user, s.commit_identifier) for s in made] == [("query-1", 0), ("query-1", 1)]


def test_a_batch_that_comes_again_is_there_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    query = Query(monkeypatch, tmp_path / "t")
    query.run(0)
    before = files(tmp_path / "t")
    query.run(0)
    assert read(paimon_spark.load_table(str(tmp_path / "t")), "id") == [1, 2, 3]
    assert files(tmp_path / "t") == before


def test_complete_mode_replaces_what_is_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    query = Query(monkeypatch, tmp_path / "t", complete=True)
    query.run(0)
    query.run(1, ROWS.slice(2))
    assert read(paimon_spark.load_table(str(tmp_path / "t")), "id") == [3]
    query.run(2, ROWS.slice(0, 0))
    assert read(paimon_spark.load_table(str(tmp_path / "t")), "id") == []


def test_what_is_wrong_is_told_before_tasks_start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    Query(monkeypatch, tmp_path / "t").run(0)
    before = files(tmp_path / "t")
    wider = st.StructType([*SCHEMA, st.StructField("more", st.LongType())])
    with pytest.raises(SchemaMismatchError, match="no column 'more'"):
        Query(monkeypatch, tmp_path / "t").for_tasks(wider)
    with pytest.raises(BranchNotFoundError, match="has no branch 'fixx'"):
        Query(monkeypatch, tmp_path / "t", branch="fixx").for_tasks()
    with pytest.raises(InvalidOptionError, match="replaces the whole table with every batch"):
        Query(monkeypatch, tmp_path / "t", **keywords({"overwrite.partition": "v=a"})).for_tasks()
    with pytest.raises(InvalidOptionError, match=r"start\(\) takes its location"):
        Query(monkeypatch, " ").for_tasks()
    assert files(tmp_path / "t") == before


def test_a_table_that_goes_meanwhile_is_not_made_by_the_end_of_a_batch(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    query = Query(monkeypatch, tmp_path / "t")
    message = query.task(Task(0))
    (tmp_path / "t").rename(tmp_path / "gone")
    with pytest.raises(paimon_spark.errors.TableNotFoundError):
        query.for_end().commit([message], 0)
    assert not (tmp_path / "t").exists()


def test_rows_whose_query_is_not_known_are_not_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    query = Query(monkeypatch, tmp_path / "t")
    made = query.for_tasks()
    before = files(tmp_path / "t")
    for context in (None, Task(None), Task(0, query_id=None)):
        with pytest.raises(StreamError, match="its query and micro-batch"):
            query.task_of(made, context)
    with pytest.raises(StreamError, match="made to end a micro-batch"):
        query.task_of(query.for_end(), Task(0))
    assert files(tmp_path / "t") == before


def test_nothing_is_committed_without_a_word_of_every_task(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    query = Query(monkeypatch, tmp_path / "t")
    message = query.task(Task(0))
    with pytest.raises(CommitError, match="2 tasks, of which 1 sent no message"):
        query.for_end().commit([message, None], 0)
    assert paimon_spark.load_table(str(tmp_path / "t")).snapshots() == []


def test_an_abort_after_a_failed_task_removes_what_all_tasks_of_the_batch_wrote(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    query = Query(monkeypatch, tmp_path / "t")
    query.run(0)
    before = files(tmp_path / "t")
    other = Query(monkeypatch, tmp_path / "t").task(Task(0, query_id="query-2"))
    kept = files(tmp_path / "t")
    made = query.for_tasks()
    heard = query.task_of(made, Task(1))
    query.task_of(made, Task(1, 1))  # its message never arrives, as that of a task that Spark killed
    assert len(files(tmp_path / "t")) == len(kept) + 2
    query.for_end().abort([heard, None], 1)
    assert files(tmp_path / "t") == kept > before
    Query(monkeypatch, tmp_path / "t").for_end().commit([other], 0)
    assert read(paimon_spark.load_table(str(tmp_path / "t")), "id") == [1, 1, 2, 2, 3, 3]


def test_an_abort_that_is_told_nothing_or_comes_after_a_commit_removes_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    query = Query(monkeypatch, tmp_path / "t")
    message = query.task(Task(0))
    written = files(tmp_path / "t")
    query.for_end().abort([None, None], 0)
    assert files(tmp_path / "t") == written

    def fail(*args: object, **options: object) -> None:
        raise CommitOutcomeUnknownError("who knows")

    with monkeypatch.context() as m:
        m.setattr(Committer, "commit", fail)
        with pytest.raises(CommitOutcomeUnknownError):
            query.for_end().commit([message], 0)
    query.for_end().abort([message], 0)  # Spark does so after every failed commit
    assert files(tmp_path / "t") >= written


@pytest.mark.ci
def test_an_executor_needs_only_the_pickled_writer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made = Query(monkeypatch, tmp_path / "t").for_tasks()
    sent = tmp_path / "sent"
    sent.write_bytes(pickle.dumps((made, ROWS.to_batches())))
    assert len(pickle.dumps(made)) < 8000
    done = subprocess.run(
        [sys.executable, "-c", _EXECUTOR, str(sent)], capture_output=True, text=True, timeout=240, check=False
    )
    assert done.stdout.split("\n")[:2] == ["3", "[]"], done.stdout + done.stderr


@pytest.mark.ci
def test_the_end_of_a_batch_loads_nothing_that_it_does_without(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    message = Query(monkeypatch, tmp_path / "t").task(Task(0))
    sent = tmp_path / "sent"
    sent.write_bytes(pickle.dumps((PaimonDataSource({"path": str(tmp_path / "t")}), SCHEMA, message)))
    done = subprocess.run(
        [sys.executable, "-c", _END, str(sent)], capture_output=True, text=True, timeout=240, check=False
    )
    assert done.stdout.strip() == "[]", done.stdout + done.stderr
    assert read(paimon_spark.load_table(str(tmp_path / "t")), "id") == [1, 2, 3]
