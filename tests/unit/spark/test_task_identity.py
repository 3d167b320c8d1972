"""For whom a task runs, from what Spark tells it."""

from __future__ import annotations

import pytest
from pyspark import TaskContext

from paimon_spark.jobs.lineage_port import TaskIdentity
from paimon_spark.spark.task_read import task_identity

ID = "11111111-2222-3333-4444-555555555555"
STREAM = {"spark.app.id": "local-1", "sql.streaming.queryId": ID, "streaming.sql.batchId": "7"}


class Context:
    def __init__(self, properties: dict[str, str]) -> None:
        self.getLocalProperty = properties.get


def told(monkeypatch: pytest.MonkeyPatch, properties: dict[str, str]) -> TaskIdentity | None:
    monkeypatch.setattr(TaskContext, "get", lambda: Context(properties))
    return task_identity()


def test_there_is_none_outside_of_tasks() -> None:
    assert task_identity() is None


def test_a_batch_job_has_an_application_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    properties = {"spark.app.id": "local-1", "spark.job.description": f"x\nid = {ID}", "streaming.sql.batchId": "3"}
    assert told(monkeypatch, properties) == TaskIdentity("local-1")
    assert told(monkeypatch, {}) is None


@pytest.mark.parametrize(
    ("description", "name"),
    [
        (f"my query\nid = {ID}\nrunId = r\nbatch = 7", "my query"),
        (f"two\nlines\nid = {ID}\nrunId = r\nbatch = 7", "two\nlines"),
        (f"\nid = {ID}\nrunId = r\nbatch = 7", None),
        ("what the user says of it", None),
        ("another\nid = 1", None),
        (None, None),
    ],
)
def test_a_query_s_name_stands_before_its_id(
    monkeypatch: pytest.MonkeyPatch, description: str | None, name: str | None
) -> None:
    properties = STREAM if description is None else {**STREAM, "spark.job.description": description}
    assert told(monkeypatch, properties) == TaskIdentity("local-1", ID, 7, name)
