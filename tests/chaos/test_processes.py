"""Writers race on three branches of one table and are killed at random: what they said was done is there, whole."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from paimon_spark.errors import PaimonError
from tests.chaos.workload import Scenario, check, make_table, run
from tests.harness.s3_server import make_bucket, s3_server

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(1800)]

SIZE: dict[str, Any] = (
    {"processes": 8, "commits": 50, "kills": 40} if os.environ.get("PAIMON_SPARK_CHAOS") == "full" else {}
)
# Servers in memory answer one request at a time.
ON_S3: dict[str, Any] = SIZE or {"commits": 5, "kills": 3}
TABLES: dict[str, dict[str, Any]] = {
    "append": {"overwrites": True},
    "append-buckets": {"options": {"bucket": "2", "bucket-key": "k"}},
    "keys": {"keys": ("p", "k"), "options": {"bucket": "2"}, "overwrites": True},
    "keys-dynamic-buckets": {"keys": ("p", "k"), "options": {"bucket": "-1"}},
}


def survive(scenario: Scenario) -> None:
    make_table(scenario)
    run(scenario)
    print(scenario.url.partition("://")[0], check(scenario))


@pytest.mark.parametrize("table", TABLES)
def test_local_disk(table: str, tmp_path: Path) -> None:
    survive(Scenario(str(tmp_path / "t"), tmp_path, **TABLES[table], **SIZE))


def test_without_kills_nothing_is_left_over(tmp_path: Path) -> None:
    survive(Scenario(str(tmp_path / "t"), tmp_path, **TABLES["append"], **{**SIZE, "kills": 0}))


def test_the_check_notices_what_it_looks_for(tmp_path: Path) -> None:
    scenario = Scenario(str(tmp_path / "t"), tmp_path, processes=1, commits=3, kills=0)
    make_table(scenario)
    run(scenario)
    check(scenario)
    left_over = tmp_path / "t" / "manifest" / "manifest-x-0"
    left_over.write_bytes(b"")
    with pytest.raises(AssertionError, match="files were left"):
        check(scenario)
    left_over.unlink()
    head, log = tmp_path / "t" / "snapshot" / "snapshot-4", tmp_path / "writer-0.log"
    said = log.read_text()
    log.write_text(said.replace("done w-0-2", "failed w-0-2"))
    with pytest.raises(AssertionError, match="a commit that failed has landed"):
        check(scenario)
    log.write_text(said)
    content = head.read_bytes()
    head.unlink()
    with pytest.raises(AssertionError, match="a commit that succeeded is gone"):
        check(scenario)
    head.with_name("snapshot-6").write_text(json.dumps({**json.loads(content), "id": 6}))
    with pytest.raises(AssertionError, match="a hole among the ids"):
        check(scenario)
    head.with_name("snapshot-6").unlink()
    head.write_bytes(content)
    check(scenario)
    next((tmp_path / "t").rglob("data-*.parquet")).unlink()
    with pytest.raises((AssertionError, PaimonError)):
        check(scenario)


@pytest.fixture(scope="module")
def s3_options() -> Iterator[dict[str, str]]:
    with s3_server() as options:
        yield options


@pytest.mark.s3
@pytest.mark.parametrize("table", ["append", "keys"])
def test_s3(table: str, tmp_path: Path, s3_options: dict[str, str]) -> None:
    bucket = f"b-{uuid.uuid4().hex}"
    make_bucket(s3_options, bucket)
    survive(Scenario(f"s3://{bucket}/t", tmp_path, s3_options, commit_s=1, **TABLES[table], **ON_S3))
