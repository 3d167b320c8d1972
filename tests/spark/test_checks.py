"""Checks run on exactly the rows that are published."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import paimon_spark
from paimon_spark import Catalog
from paimon_spark.errors import CheckFailedError, InvalidInputError
from paimon_spark.versioning.checks import PROPERTY
from tests.harness.command_line import CommandLine, orders
from tests.harness.real_tables import put

pytestmark = [pytest.mark.spark]

NO_NEGATIVE = {"no negative": "SELECT * FROM {table} WHERE v < 0"}


@pytest.fixture
def catalog(spark: SparkSession, tmp_path: Path) -> Catalog:
    made = paimon_spark.load_catalog(str(tmp_path / "wh"))
    made.create_database("shop")
    for name in ("a", "b"):
        made.create_table(f"shop.{name}", "k BIGINT, v BIGINT")
        put(made.table(f"shop.{name}"), (1, 1))
    return made


def negative(rows: DataFrame) -> DataFrame:
    return rows.where("v < 0")


@pytest.mark.quick
def test_checks_of_a_table_and_a_version(catalog: Catalog) -> None:
    table = catalog.table("shop.a")
    put(catalog.table("shop.a"), *((n, -n) for n in range(2, 10)))
    first, second = table.check({**NO_NEGATIVE, "by function": negative})
    assert (first.passed, first.rows, len(first.sample)) == (False, 8, 5)
    assert (second.name, second.rows) == ("by function", 8)
    assert "check no negative failed: 8 rows\n  k=" in str(first) and "Row(" not in str(first)
    assert [r.passed for r in table.at("snapshot.1").check(NO_NEGATIVE)] == [True]


@pytest.mark.quick
def test_a_failed_check_publishes_nothing(catalog: Catalog) -> None:
    table = catalog.table("shop.a")
    table.create_branch("fix")
    put(catalog.table("shop.a").branch("fix"), (2, -5))
    with pytest.raises(CheckFailedError, match=r"not published: check 'no negative' on shop\.a found 1 row .*v=-5"):
        table.merge_branch("fix", checks=NO_NEGATIVE)
    assert [s.id for s in table.snapshots()] == [1]
    table.branch("fix").delete("v < 0")
    table.merge_branch("fix", checks=NO_NEGATIVE)
    head = table.snapshots()[-1]
    assert json.loads((head.properties or {})[PROPERTY]) == [{"name": "no negative", "rows": 0}]
    assert table.merge_branch("fix").already_merged
    put(catalog.table("shop.a").branch("fix"), (3, 3))
    table.merge_branch("fix", checks={"all": negative})
    assert sorted(table.scan().to_arrow()["k"].to_pylist()) == [1, 3]


def test_what_is_published_is_what_was_checked(catalog: Catalog) -> None:
    """A commit to the branch during the checks is not published."""
    table = catalog.table("shop.a")
    table.create_branch("fix")
    put(catalog.table("shop.a").branch("fix"), (2, 2))

    def slow(rows: DataFrame) -> DataFrame:
        put(catalog.table("shop.a").branch("fix"), (3, -3))
        return rows.where("v < 0")

    done = table.fast_forward("fix", checks={"slow": slow})
    assert done.published_snapshot_id == 2
    assert sorted(table.scan().to_arrow()["k"].to_pylist()) == [1, 2]


def test_checks_of_a_rebase_see_the_rows_that_it_would_publish(catalog: Catalog) -> None:
    table = catalog.table("shop.a")
    table.create_branch("fix")
    put(catalog.table("shop.a").branch("fix"), (2, 2))
    put(catalog.table("shop.a"), (3, 3))
    two = {"at most two rows": "SELECT count(*) AS n FROM {table} HAVING n > 2"}
    assert table.branch("fix").check(two)[0].passed
    with pytest.raises(CheckFailedError, match=r"branch 'fix' of shop\.a was not published: .* found 1 row \(n=3\)"):
        table.merge_branch("fix", if_main_moved="rebase", checks=two)
    assert [s.id for s in table.snapshots()] == [1, 2]
    table.merge_branch("fix", if_main_moved="rebase", checks=NO_NEGATIVE)
    assert sorted(table.scan().to_arrow()["k"].to_pylist()) == [1, 2, 3]
    head = table.snapshots()[-1]
    assert json.loads((head.properties or {})[PROPERTY]) == [{"name": "no negative", "rows": 0}]
    assert [b.name for b in table.branches()] == ["fix"]


def test_checks_of_a_pipeline_that_is_rebased(catalog: Catalog) -> None:
    branch = catalog.pipeline("shop.a", "shop.b", downstream=False).branch("fix")
    for name in ("shop.a", "shop.b"):
        put(catalog.table(name).branch("fix"), (2, 2))
    put(catalog.table("shop.a"), (3, 3))
    same = {"same keys": "SELECT k FROM {shop.a} EXCEPT SELECT k FROM {shop.b}"}
    assert branch.check(same)[0].passed
    with pytest.raises(CheckFailedError, match=r"pipeline branch 'fix' was not published: .* found 1 row \(k=3\)"):
        branch.publish(if_main_moved="rebase", checks=same)
    assert catalog.releases() == []
    put(catalog.table("shop.b"), (3, 3))
    release = branch.publish(if_main_moved="rebase", checks=same)
    assert release.record.checks == ("same keys",)
    for name in ("shop.a", "shop.b"):
        assert sorted(catalog.table(name).scan().to_arrow()["k"].to_pylist()) == [1, 2, 3]
        assert {b.name for b in catalog.table(name).branches(include_internal=True)} == {"fix", release.backups[name]}


@pytest.mark.quick
def test_checks_of_a_pipeline(catalog: Catalog) -> None:
    branch = catalog.pipeline("shop.a", "shop.b", downstream=False).branch("fix")
    put(catalog.table("shop.a").branch("fix"), (2, 2))
    checks = {
        "same keys": "SELECT k FROM {shop.a} EXCEPT SELECT k FROM {shop.b}",
        "a": "SELECT * FROM {shop.a} WHERE v<0",
    }
    assert [r.passed for r in branch.check(checks)] == [False, True]
    with pytest.raises(CheckFailedError, match=r"'same keys' on shop\.a, shop\.b found 1 row"):
        branch.publish(checks=checks)
    assert catalog.releases() == []
    put(catalog.table("shop.b").branch("fix"), (2, 2))
    release = branch.publish(checks=checks)
    assert release.record.checks == ("same keys", "a")
    named = {
        name: [c["name"] for c in json.loads((catalog.table(name).snapshots()[-1].properties or {})[PROPERTY])]
        for name in ("shop.a", "shop.b")
    }
    assert named == {"shop.a": ["same keys", "a"], "shop.b": ["same keys"]}


@pytest.mark.parametrize(
    ("checks", "message"),
    [
        ({"w": "INSERT INTO {table} VALUES (1, 1)"}, "is not a query"),
        ({"w": "WITH x AS (SELECT 1) INSERT INTO {table} SELECT * FROM x"}, "is not a query"),
        ({"w": ""}, "is not a query"),
        ({"w": "SELECT 1"}, "names no table"),
        ({"w": "SELECT * FROM {shop.c}"}, r"names \{shop\.c\}.* may name \{shop\.a\} or \{table\}"),
        ({"w": lambda rows: 3}, "expected a DataFrame"),
        ({" ": "SELECT * FROM {table}"}, "expected a name"),
        (["SELECT"], "expected a mapping"),
    ],
)
def test_wrong_checks_are_refused(catalog: Catalog, checks: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        catalog.table("shop.a").check(checks)


def test_checks_on_the_command_line(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    orders(tmp_path)
    cli = CommandLine(tmp_path, capsys)
    good, bad = "ids=SELECT * FROM {table} WHERE id < 0", "few=SELECT id FROM {table} WHERE id > 1"
    passed = cli("check", "db.orders", "--check", good)
    assert (passed.code, passed.out) == (0, "check ids passed\n")
    failed = cli("check", "db.orders", "fix", "--check", good, "--check", bad, "--json")
    assert failed.code == 1
    assert [(r["name"], r["rows"] > 0) for r in failed.json] == [("ids", False), ("few", True)]
    merge = ("branch", "merge", "db.orders", "fix", "--if-main-moved", "replace", "--yes")
    refused = cli(*merge, "--check", bad)
    assert refused.code not in (0, 2)
    assert "check 'few' on db.orders found" in refused.err
    assert "passed" not in cli.done("branch", "list", "db.orders").out
    assert cli(*merge, "--check", good).code == 0
    for wrong in ("SELECT 1", "=SELECT 1", "name="):
        assert "--check takes NAME=SQL" in cli("check", "db.orders", "--check", wrong).err
    assert "two checks are called 'ids'" in cli("check", "db.orders", "--check", good, "--check", good).err
    assert "needs --check NAME=SQL" in cli("check", "db.orders").err
