"""Jobs that began on a history that their branch has no more when they commit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark.api.table import Table
from paimon_spark.engine.tasks import CommitMessage
from paimon_spark.errors import CommitConflictError
from paimon_spark.jobs.write.batch import WriteJob, place_of, plan_write
from paimon_spark.options.write_request import WriteMode, parse_batch_write_options
from tests.harness.real_tables import a_catalog, a_table
from tests.unit.versioning.publishing import SCHEMA, in_order, new_table, put, rows


def begun(table: Table, values: Mapping[int, str]) -> tuple[WriteJob, list[CommitMessage]]:
    """A job that has written its files."""
    data = pa.table({"k": pa.array(list(values), pa.int64()), "v": list(values.values())})
    options = parse_batch_write_options({}, WriteMode.APPEND)
    job = plan_write(place_of(table, options), options, WriteMode.APPEND, data.schema)
    return job, job.write(data.to_batches())


def merged(table: Table) -> None:
    table.merge_branch("fix", if_main_moved="replace")


def rolled_back(table: Table) -> None:
    """Back, and on again: the id that the job knows is another snapshot's now."""
    table.rollback_to(1)
    put(table, k5="new")


@pytest.mark.parametrize("meanwhile", [merged, rolled_back])
@pytest.mark.parametrize("bucket", ["1", "-1"])
def test_rows_with_keys_are_not_put_on_another_history(
    tmp_path: Path, bucket: str, meanwhile: Callable[[Table], None]
) -> None:
    """They were numbered after rows that are gone: the newer row of a key would be taken for the older one."""
    table = new_table(tmp_path, bucket=bucket)
    put(table, k1="a")
    table.create_branch("fix", snapshot_id=1)
    put(table, k2="main")
    fix = table.branch("fix")
    for _ in range(2):
        fix.write(pa.table({"k": pa.array(range(9, 40), pa.int64()), "v": ["fix"] * 31}))
    job, messages = begun(table, {9: "late"})
    meanwhile(table)
    before = rows(table)
    with pytest.raises(CommitConflictError, match=r"snapshot 2, .* is no longer in the branch's history.*write again"):
        job.commit(messages)
    assert rows(table) == before
    again, messages = begun(table, {9: "late"})
    again.commit(messages)
    assert rows(table)[9] == "late"
    in_order(table)


def test_appended_rows_come_after_any_others(tmp_path: Path) -> None:
    table = a_table(SCHEMA, where=tmp_path / "wh")
    put(table, k1="a")
    table.create_branch("fix", snapshot_id=1)
    put(table, k2="main")
    put(table.branch("fix"), k3="fix")
    job, messages = begun(table, {9: "late"})
    table.merge_branch("fix", if_main_moved="replace")
    job.commit(messages)
    assert rows(table) == {1: "a", 3: "fix", 9: "late"}


def test_a_base_that_expired_is_no_other_history(tmp_path: Path) -> None:
    from datetime import datetime

    table = new_table(tmp_path)
    put(table, k1="a")
    job, messages = begun(table, {9: "late"})
    put(table, k2="b")
    table.expire_snapshots(retain_max=1, retain_min=1, older_than=datetime.now(UTC))
    job.commit(messages)
    assert rows(table) == {1: "a", 2: "b", 9: "late"}


def test_a_table_that_was_emptied_of_its_history(tmp_path: Path) -> None:
    """By hand: another tool took the snapshots away."""
    table = new_table(tmp_path)
    put(table, k1="a")
    job, messages = begun(table, {9: "late"})
    for file in Path(table.handle.layout.snapshot_dir).iterdir():
        file.unlink()
    with pytest.raises(CommitConflictError, match="snapshot 1, which its writers continued from"):
        job.commit(messages)


def test_older_schemas_are_of_the_history_that_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Main is merged over after a scan found the head, and before it looks up the schemas of older files."""
    from paimon_spark.engine.scan import plan as planning

    table = new_table(tmp_path)
    put(table, k1="a")
    table.create_branch("fix", snapshot_id=1)
    table.alter(add={"other": "STRING"})
    table.write(pa.table({"k": pa.array([2], pa.int64()), "v": ["main"], "other": ["o"]}))
    table.alter(add={"more": "STRING"})
    fix = table.branch("fix")
    fix.alter(add={"n": "STRING"}, drop=["v"])
    fix.write(pa.table({"k": pa.array([3], pa.int64()), "n": ["fix"]}))
    scan, real = paimon_spark.load_table(table.location).scan(), planning.plan_batch

    def plan_batch(*given: Any, **named: Any) -> planning.Plan:
        monkeypatch.setattr(planning, "plan_batch", real)
        table.merge_branch("fix", if_main_moved="replace")
        return real(*given, **named)

    monkeypatch.setattr(planning, "plan_batch", plan_batch)
    assert sorted(scan.to_arrow().to_pylist(), key=lambda r: r["k"]) == [{"k": 1, "n": None}, {"k": 3, "n": "fix"}]


@pytest.mark.parametrize("more", [0, 1])
def test_buckets_are_compared_where_a_merge_replaced_the_snapshot_that_an_append_was_planned_on(
    tmp_path: Path, more: int
) -> None:
    """Its id is another snapshot's now, and no overwrite came after that one."""
    catalog = a_catalog(tmp_path / "wh")
    catalog.create_table("db.t", SCHEMA, options={"bucket": "2", "bucket-key": "k"})
    table = catalog.table("db.t")
    put(table, k1="a")
    table.create_branch("fix", snapshot_id=1)
    put(table, k2="main")
    put(table, k3="main")
    job, messages = begun(table, {9: "late"})
    fix = table.branch("fix")
    fix.alter(set_options={"bucket": "4"})
    fix = table.branch("fix")
    fix.write(pa.table({"k": pa.array([5], pa.int64()), "v": ["fix"]}), mode="overwrite")
    for n in range(1 + more):
        put(fix, **{f"k{6 + n}": "fix"})
    table.merge_branch("fix", if_main_moved="replace")
    before = rows(catalog.table("db.t"))
    with pytest.raises(CommitConflictError, match="has 4 buckets and the commit brings files for 2"):
        job.commit(messages)
    assert rows(catalog.table("db.t")) == before
