"""Partitions are dropped by one commit, on the branch that is open, and old snapshots keep them."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from paimon_spark.api.table import Table
from paimon_spark.errors import InvalidInputError, NotFoundError
from paimon_spark.jobs.upkeep.maintain import drop_partitions
from tests.harness.real_tables import a_table, read


@pytest.fixture
def table(tmp_path: Path) -> Table:
    one, two = date(2024, 1, 1), date(2024, 1, 2)
    rows = [(1, one, "a"), (2, one, "b"), (3, two, "a"), (4, None, None)]
    return a_table("v INT, d DATE, s STRING", by="d s", rows=rows, where=tmp_path)


def test_partitions_named_by_some_columns_or_all_go_by_one_commit(table: Table) -> None:
    done = table.drop_partitions([{"d": date(2024, 1, 2)}, {"D": "2024-01-01", "s": "b"}])
    assert done.partitions == ("d=19723/s=b", "d=19724/s=a")  # days, as in paths
    assert done.snapshot_id == 2
    assert read(table, "v") == [1, 4]
    assert read(table.at(1), "v") == [1, 2, 3, 4]
    assert table.drop_partitions({"d": None}).partitions == ("d=__DEFAULT_PARTITION__/s=__DEFAULT_PARTITION__",)
    assert read(table, "v") == [1]


def test_what_is_not_there_makes_no_commit(table: Table) -> None:
    assert table.drop_partitions("d=2030-01-01;s=zz") == type(table.drop_partitions({"s": "zz"}))((), None)
    with pytest.raises(NotFoundError, match="has no partition d=2030-01-01/s=a"):
        drop_partitions(table, {"d": "2030-01-01", "s": "a"}, must_exist=True)
    assert len(table.snapshots()) == 1


def test_a_branch_alone_loses_its_partitions(table: Table) -> None:
    table.create_tag("base")
    table.create_branch("fix", tag="base")
    assert table.branch("fix").drop_partitions({"s": "a"}).snapshot_id is not None
    assert read(table.branch("fix"), "v") == [2, 4]
    assert read(table, "v") == [1, 2, 3, 4]


@pytest.mark.parametrize("asked", [{"x": 1}, {"d": "no day"}, {}, [], "d"])
def test_partitions_named_wrongly_are_refused(table: Table, asked: object) -> None:
    with pytest.raises(InvalidInputError):
        table.drop_partitions(asked)  # type: ignore[arg-type]
    assert len(table.snapshots()) == 1
    with pytest.raises(InvalidInputError, match="opened at version"):
        table.at(1).drop_partitions({"s": "a"})
