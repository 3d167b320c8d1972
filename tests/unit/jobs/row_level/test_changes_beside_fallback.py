"""Rows taken from a table that reads a fallback branch: what the change does not reach, or would reveal, is refused."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import paimon_spark
from paimon_spark.api.table import Table
from paimon_spark.errors import PaimonError, UnsupportedFeatureError
from paimon_spark.maintenance.partitions import expire_partitions
from tests.harness.real_tables import a_table, put, rows

READ = "are read from branch 'b' \\(scan.{}-branch\\); nothing was changed. Change them in Table.branch\\('b'\\)"
REVEALED = r"the rows that branch 'b' has of it would be read then \(scan.fallback-branch\); nothing was changed"
KINDS: dict[str, tuple[Sequence[str], dict[str, str]]] = {
    "append": ((), {}),
    "vectors": ((), {"deletion-vectors.enabled": "true"}),
    "keyed": (("dt", "k"), {"bucket": "1"}),
    "keyed_lookup": (("dt", "k"), {"bucket": "1", "changelog-producer": "lookup"}),
}


@pytest.fixture(params=KINDS)
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Table:
    """Main has 1 and 2 in x, 3 in m; branch b has 10 in x, which main's hide, and 20 and 21 in y, which are read."""
    keys, options = KINDS[request.param]
    return two_branches(tmp_path, keys, options, "fallback")


def two_branches(folder: Path, keys: Sequence[str], options: dict[str, str], which: str) -> Table:
    table = a_table("dt STRING, k INT", keys=keys, by="dt", options={"bucket": "-1", **options}, where=folder)
    table.create_branch("b", empty=True)
    table.alter(set_options={f"scan.{which}-branch": "b"})
    table = paimon_spark.load_table(table.location)
    put(table.branch("b"), ("x", 10), ("y", 20), ("y", 21))
    put(table, ("x", 1), ("x", 2), ("m", 3))
    return table


def seen(table: Table) -> list[int]:
    return sorted(paimon_spark.load_table(table.location).scan().to_arrow().column("k").to_pylist())


def refused(table: Table, act: Callable[[], Any], message: str) -> None:
    before = len(table.snapshots())
    with pytest.raises(UnsupportedFeatureError, match=message):
        act()
    assert seen(table) == [1, 2, 3, 20, 21] and len(table.snapshots()) == before


@pytest.mark.ci
def test_deletes_reach_what_is_read_from_their_branch_alone(table: Table) -> None:
    refused(table, lambda: table.delete("k >= 20"), f"partition dt=y of .* {READ.format('fallback')}")
    refused(table, lambda: table.delete("dt = 'y'"), READ.format("fallback"))
    refused(table, lambda: table.delete("true"), READ.format("fallback"))
    refused(table, lambda: table.delete("dt = 'x'"), f"partition dt=x of .* is to be emptied, and {REVEALED}")
    refused(table, lambda: table.delete("k < 3"), REVEALED)
    table.delete("k = 10")
    table.delete("k = 1")
    assert seen(table) == [2, 3, 20, 21]
    table.delete("dt = 'm'")
    assert seen(table) == [2, 20, 21]
    with pytest.raises(UnsupportedFeatureError, match=REVEALED):
        table.delete("k = 2")
    table.branch("b").drop_partitions([{"dt": "x"}])
    table.branch("b").delete("k = 20")
    table.delete("k = 2")
    table.compact(full=True)
    assert seen(table) == [21]


def test_partitions_are_not_emptied_where_the_other_branch_has_them(table: Table) -> None:
    nothing = rows(table)
    one = {"overwrite.partition": "dt=x"}
    refused(table, lambda: table.write(nothing, mode="overwrite", **one), REVEALED)
    refused(table, lambda: table.write(nothing, mode="overwrite", **{"overwrite.partition": "dt=y"}), "are read from")
    refused(table, lambda: table.write(nothing, mode="overwrite"), REVEALED)
    refused(table, lambda: put(table, ("m", 9), mode="overwrite"), REVEALED)
    refused(table, lambda: table.drop_partitions([{"dt": "x"}]), REVEALED)
    refused(table, lambda: table.drop_partitions([{"dt": "y"}]), "are read from")
    put(table, ("x", 7), mode="overwrite", **one)
    table.drop_partitions([{"dt": "m"}])
    assert seen(table) == [7, 20, 21]
    put(table, ("x", 8), ("y", 9), mode="overwrite", partitionOverwriteMode="dynamic")
    assert seen(table) == [8, 9]
    put(table, ("x", 1), ("y", 2), mode="overwrite")
    assert seen(table) == [1, 2]


def test_a_refused_overwrite_leaves_no_file(table: Table) -> None:
    def files() -> set[Path]:
        return set(Path(table.location).rglob("data-*"))

    before = files()
    refused(table, lambda: put(table, ("m", 9), mode="overwrite"), REVEALED)
    assert files() == before


def test_old_partitions_stay_while_the_other_branch_has_them(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    options = {"partition.expiration-time": "1 d", "partition.expiration-strategy": "update-time"}
    table = two_branches(tmp_path, (), options, "fallback")
    later = 2 * 10**13
    with caplog.at_level(logging.WARNING):
        gone = expire_partitions(table.handle, clock_ms=lambda: later)
    assert gone.partitions == ("dt=m",)
    assert "1 old partitions" in caplog.text and "such as dt=x: branch b also has them" in caplog.text
    expire_partitions(table.branch("b").handle, clock_ms=lambda: later)
    assert expire_partitions(table.handle, clock_ms=lambda: later).partitions == ("dt=x",)
    assert seen(table) == []


def test_a_compaction_that_takes_the_last_row_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table = two_branches(tmp_path, ("dt", "k"), {"bucket": "1"}, "fallback")
    gone = rows(table, ("x", 1, 3), ("x", 2, 3))
    table.write(gone)
    with caplog.at_level(logging.WARNING):
        table.compact(full=True)
    assert "a compaction left no row in partition dt=x" in caplog.text and "read from branch b now" in caplog.text


def test_partitions_of_a_primary_branch_are_changed_there(tmp_path: Path) -> None:
    table = two_branches(tmp_path, (), {}, "primary")
    assert seen(table) == [3, 10, 20, 21]
    for where in ("k = 10", "dt = 'x'", "k >= 20"):
        with pytest.raises(UnsupportedFeatureError, match=READ.format("primary")):
            table.delete(where)
    table.delete("k < 3")  # rows that nobody reads
    assert table.branch("b").scan().to_arrow().num_rows == 3 and seen(table) == [3, 10, 20, 21]
    table.delete("k = 3")
    assert seen(table) == [10, 20, 21]


def test_a_table_without_partitions_is_read_from_one_branch_as_a_whole(tmp_path: Path) -> None:
    table = a_table("dt STRING, k INT", where=tmp_path)
    table.create_branch("b", empty=True)
    table.alter(set_options={"scan.fallback-branch": "b"})
    table = paimon_spark.load_table(table.location)
    put(table.branch("b"), ("x", 10))
    with pytest.raises(UnsupportedFeatureError, match=r"^rows of table db.t are to be changed"):
        table.delete("k = 10")
    put(table, ("x", 1), ("x", 2))
    table.delete("k = 1")
    with pytest.raises(PaimonError, match=r"^table db.t is to be emptied"):
        table.delete("true")
    assert seen(table) == [2]


def test_the_branch_itself_is_changed_as_any_other(table: Table) -> None:
    table.branch("b").delete("dt = 'y'")
    put(table.branch("b"), mode="overwrite")
    assert seen(table) == [1, 2, 3]
