"""Reads whose snapshot expires under them say so, and only they."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.api.table import Table
from paimon_spark.engine.scan import plan as planning
from paimon_spark.errors import CorruptFileError, SnapshotExpiredError
from paimon_spark.metadata.manifests import CACHE
from tests.harness.real_tables import a_table


@pytest.fixture
def table(tmp_path: Path) -> Table:
    made = a_table("k INT", options={"bucket": "-1"}, where=tmp_path)
    made.write(pa.table({"k": pa.array([1], pa.int32())}))
    return made


def replace_all(table: Table, value: int = 2) -> None:
    """Other rows, and nothing left of the ones before."""
    table.write(pa.table({"k": pa.array([value], pa.int32())}), mode="overwrite")
    table.expire_snapshots(1)
    CACHE.clear()


def keys(rows: pa.Table) -> list[int]:
    return [r["k"] for r in rows.to_pylist()]


@pytest.mark.parametrize("read", [lambda scan: scan.to_arrow(), lambda scan: list(scan.to_batches())])
def test_a_read_whose_snapshot_expired_after_it_was_planned_says_so(table: Table, read: Callable[[Any], Any]) -> None:
    scan = table.scan()
    scan.plan()
    replace_all(table)
    with pytest.raises(SnapshotExpiredError, match=r"snapshot 1 of table db\.t expired while it was read.* again") as e:
        read(scan)
    assert isinstance(e.value.__cause__, CorruptFileError)
    assert keys(table.scan().to_arrow()) == [2]


def test_a_file_that_is_gone_from_a_living_snapshot_is_damage(table: Table) -> None:
    table.create_tag("v")
    next(Path(table.location.removeprefix("file://")).rglob("bucket-*/*")).unlink()
    with pytest.raises(CorruptFileError, match="is missing"):
        table.scan().to_arrow()
    table.write(pa.table({"k": pa.array([2], pa.int32())}), mode="overwrite")
    table.expire_snapshots(1)
    with pytest.raises(CorruptFileError, match="is missing"):
        table.at("tag-name.v").scan().to_arrow()


def test_a_tag_that_was_deleted_while_it_was_read_takes_its_snapshot_along(table: Table) -> None:
    table.create_tag("v")
    scan = table.at("tag-name.v").scan()
    scan.plan()
    replace_all(table)
    assert keys(scan.to_arrow()) == [1]
    table.delete_tag("v")
    with pytest.raises(SnapshotExpiredError, match="snapshot 1"):
        scan.to_arrow()


def before_planning(monkeypatch: pytest.MonkeyPatch, others: Callable[[], None], times: int) -> list[int]:
    plan, seen = planning.plan_batch, list[int]()

    def slow(handle: Any, snapshot: Any, *args: Any, **more: Any) -> Any:
        seen.append(snapshot.id)
        if len(seen) <= times:
            others()
        return plan(handle, snapshot, *args, **more)

    monkeypatch.setattr(planning, "plan_batch", slow)
    return seen


def test_a_head_that_expires_while_it_is_planned_gives_way_to_the_next(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = before_planning(monkeypatch, lambda: replace_all(table), 1)
    assert keys(table.scan().to_arrow()) == [2]
    assert seen[0] == 1 and len(seen) == 2


def test_heads_that_expire_every_time_are_given_up(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = before_planning(monkeypatch, lambda: replace_all(table), 100)
    with pytest.raises(SnapshotExpiredError, match="read again"):
        table.scan().to_arrow()
    assert len(seen) == 5


def test_a_snapshot_asked_for_that_expires_while_it_is_planned_says_so(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    scan = table.at("snapshot.1").scan()
    before_planning(monkeypatch, lambda: replace_all(table), 1)
    with pytest.raises(SnapshotExpiredError, match=r"snapshot 1 of table db\.t expired while it was read"):
        scan.to_arrow()
