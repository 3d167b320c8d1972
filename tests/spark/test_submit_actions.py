"""Actions as jobs of spark-submit: a branch is merged, and the buckets of a compaction are tasks of Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from paimon_spark import load_table
from tests.harness.command_line import orders, rows
from tests.harness.submitting import submitted

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.newest]


def test_actions_work_through_spark_submit_and_a_compaction_is_distributed(tmp_path: Path) -> None:
    warehouse, events = tmp_path / "wh", tmp_path / "events"
    events.mkdir()
    table = orders(warehouse)
    named = ("--warehouse", str(warehouse), "--database", "db", "--table", "orders")

    merged = submitted(tmp_path, "merge-branch", *named, "--name", "fix", "--json")
    assert merged.returncode == 0, merged.stderr[-2000:]
    assert json.loads(merged.stdout)["published_snapshot_id"] == 3
    assert ids(table.location) == [1, 2, 3, 6]

    table = load_table(table.location)
    for i in range(10, 14):
        table.write(rows(i, dt=f"2024-01-0{1 + i % 2}"))
    # So few bytes would be compacted by the driver itself.
    script = tmp_path / "job.py"
    script.write_text(
        "import sys\n"
        "from paimon_spark.jobs.upkeep import compaction\n"
        "compaction.HERE_BYTES = 0\n"
        "from paimon_spark.cli.job import run\n"
        "sys.exit(run())\n"
    )
    logged = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": str(events), "spark.eventLog.compress": "false"}
    done = submitted(tmp_path, "compact", *named, "--full", "--json", script=script, settings=logged)
    assert done.returncode == 0, done.stderr[-2000:]
    told = json.loads(done.stdout)
    assert (told["buckets"], told["files_after"]) == (2, 2)
    assert tasks(events, "mapInArrow") >= told["buckets"]
    assert load_table(table.location).status().files == 2
    assert ids(table.location) == [1, 2, 3, 6, *range(10, 14)]


def ids(location: str) -> list[Any]:
    return sorted(load_table(location).scan(columns=["id"]).to_arrow()["id"].to_pylist())


def tasks(events: Path, operation: str) -> int:
    """How many tasks ended well, in all, in Spark jobs that an event log has; each ran an operation."""
    files = [file for file in events.rglob("events_*") if file.is_file()]
    logged = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    stages = {
        stage["Stage ID"]
        for event in logged
        if event["Event"] == "SparkListenerJobStart"
        for stage in event["Stage Infos"]
        if operation.lower() in json.dumps(stage).lower()
    }
    return sum(
        event["Stage ID"] in stages and event["Task End Reason"] == {"Reason": "Success"}
        for event in logged
        if event["Event"] == "SparkListenerTaskEnd"
    )
