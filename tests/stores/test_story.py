"""The main job on each kind of server: a fault is corrected on a branch, published and undone, and nothing is lost."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime

import pyarrow as pa
import pytest

import paimon_spark
from tests.harness.table_files import missing_files, reachable_files

pytestmark = [pytest.mark.stores]


def rows(**amounts: int) -> pa.Table:
    return pa.table({"id": list(amounts), "amount": pa.array(amounts.values(), pa.int64())})


def found(table: paimon_spark.Table) -> dict[str, int]:
    return {r["id"]: r["amount"] for r in table.scan().to_arrow().to_pylist()}


def test_a_fault_is_corrected_published_and_undone(warehouse: tuple[str, dict[str, str]]) -> None:
    url, options = warehouse
    catalog = paimon_spark.load_catalog(f"{url}/{uuid.uuid4().hex}", **options)
    catalog.create_database("shop")
    table = catalog.create_table(
        "shop.sales", "id STRING NOT NULL, amount BIGINT", primary_keys=["id"], options={"bucket": "1"}
    )
    table.write(rows(a=1, b=2))
    table.create_tag("before")
    table.write(rows(b=-1, c=-1))
    table.create_branch("fix", tag="before")
    fix = catalog.table("shop.sales$branch_fix")
    fix.write(rows(b=3, c=4))
    table.write(rows(d=5))
    assert found(catalog.table("shop.sales")) == {"a": 1, "b": -1, "c": -1, "d": 5}
    assert found(fix) == {"a": 1, "b": 3, "c": 4}
    differing = catalog.table("shop.sales").diff("main", "fix", rows=True).to_arrow()
    assert set(differing["id"].to_pylist()) == {"b", "c", "d"}
    table.merge_branch("fix", if_main_moved="replace")
    assert found(catalog.table("shop.sales")) == {"a": 1, "b": 3, "c": 4}
    catalog.table("shop.sales").undo()
    assert found(catalog.table("shop.sales")) == {"a": 1, "b": -1, "c": -1, "d": 5}
    catalog.table("shop.sales").merge_branch("fix", if_main_moved="rebase", on_conflict="theirs")
    assert found(catalog.table("shop.sales")) == {"a": 1, "b": 3, "c": 4, "d": 5}
    assert found(catalog.table("shop.sales").at("before")) == {"a": 1, "b": 2}
    table = catalog.table("shop.sales")
    table.compact(full=True)
    table.expire_snapshots(retain_max=1, retain_min=1)
    table.remove_orphan_files(older_than=datetime.now(tz=UTC))
    assert missing_files(table.handle) == []
    assert reachable_files(table.handle)
    assert found(catalog.table("shop.sales")) == {"a": 1, "b": 3, "c": 4, "d": 5}
    assert found(catalog.table("shop.sales").at("before")) == {"a": 1, "b": 2}
    assert list(table.doctor()) == []
