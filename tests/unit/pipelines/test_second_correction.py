"""Where a correction starts after an earlier one was published, undone, or given up.

Jobs are batch jobs that append one day each, every run as an application of its own, so that provenance tells exactly
what each run read.
"""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import paimon_spark
from paimon_spark import Catalog
from paimon_spark.api.lineage_question import warehouse_of
from paimon_spark.lineage.index.job_registry import Registration, register_query
from paimon_spark.lineage.recording import read_notes
from tests.harness.keywords import keywords

JOBS: Final = {"daily": ("orders", "daily"), "report": ("daily", "report")}


class Shop:
    """orders → daily → report: rows are days, and negative where they are wrong."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._patch = monkeypatch
        self._numbers = count()
        self.catalog: Catalog = paimon_spark.load_catalog(str(folder / "wh"))
        self.catalog.create_database("shop")
        for name in ("orders", "daily", "report"):
            self.catalog.create_table(f"shop.{name}", "day BIGINT")
        self.catalog.lineage.enable()

    def order(self, *days: int, branch: str = "main") -> None:
        """Write orders, as a job without sources does."""
        rows = pa.table({"day": pa.array(days, pa.int64())})
        named = keywords({"lineage.job": "orders", "lineage.no-sources": "true"})
        self.catalog.table("shop.orders").branch(branch).write(rows, **named)

    def run(
        self, day: int, branch: str = "main", jobs: tuple[str, ...] = ("daily", "report"), suffix: str = ""
    ) -> None:
        """Run the jobs for one day, each in an application of its own; `suffix`: of their names."""
        for job in jobs:
            source, sink = JOBS[job]
            self._patch.setattr(read_notes, "_PROCESS", f"run-{next(self._numbers)}")
            named = keywords({"lineage.job": job + suffix})
            rows = self.catalog.table(f"shop.{source}").branch(branch).scan(**named).to_arrow()
            rows = rows.filter(pc.equal(pc.abs(rows["day"]), day))
            self.catalog.table(f"shop.{sink}").branch(branch).write(rows, **named)

    def days(self, table: str, branch: str = "main") -> list[int]:
        return sorted(self.catalog.table(f"shop.{table}").branch(branch).scan().to_arrow()["day"].to_pylist())

    def starts(self, wrong: int, name: str = "again") -> dict[str, int | None]:
        """Table → where its branch would start, before a snapshot of the orders."""
        made = self.catalog.pipeline("shop.orders").branch(name, before=("shop.orders", wrong), dry_run=True)
        return {table.removeprefix("shop."): start for table, start in made.tables.items()}

    def firsts(self, wrong: int) -> dict[str, tuple[int | None, tuple[int, ...]]]:
        """Table → its first snapshot with rows of a snapshot of the orders, and all of them, of main."""
        found = self.catalog.lineage.impact("shop.orders", snapshot=wrong)
        return {
            a.node.name.removeprefix("shop."): (a.first, a.snapshots) for a in found.tables if "$" not in a.node.name
        }


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """Three days, of which 2 and 3 are wrong."""
    made = Shop(tmp_path, monkeypatch)
    for day in (1, -2, -3):
        made.order(day)
        made.run(abs(day))
    return made


def unified(shop: Shop, *tables: str) -> dict[str, int]:
    found = shop.catalog.lineage.unified_version([f"shop.{table}" for table in tables])
    return {table.removeprefix("shop."): snapshot for table, snapshot in found.items()}


def note(shop: Shop, wrong: int) -> str:
    return shop.catalog.pipeline("shop.orders").branch("other", before=("shop.orders", wrong), dry_run=True).note


def correct(shop: Shop, suffix: str = "") -> None:
    """Run the wrong days again on the branch `fix`, from orders that one commit brings."""
    shop.catalog.pipeline("shop.orders").branch("fix", before=("shop.orders", 2))
    shop.order(2, 3, branch="fix")
    shop.run(2, "fix", suffix=suffix)
    shop.run(3, "fix", suffix=suffix)
    assert shop.days("report", "fix") == [1, 2, 3]


@pytest.mark.parametrize("deleted", [False, True])
@pytest.mark.parametrize("suffix", ["", "@fix"])
@pytest.mark.ci
def test_the_next_fault_after_main_was_replaced(shop: Shop, suffix: str, deleted: bool) -> None:
    """Batches of the replaced main read a snapshot 3 of orders that is gone: the present one is of day 4 alone."""
    correct(shop, suffix)
    fix = shop.catalog.pipeline_branch("fix")
    fix.publish(if_main_moved="replace")
    if deleted:
        fix.delete()
    shop.order(-4)
    shop.run(4)
    assert shop.firsts(3) == {"daily": (4, (4,)), "report": (4, (4,))}
    assert shop.starts(3) == {"orders": 2, "daily": 3, "report": 3}
    assert shop.firsts(2) == {"daily": (2, (2, 3, 4)), "report": (2, (2, 3, 4))}, "which the branch had read"
    assert shop.starts(2) == {"orders": 1, "daily": 1, "report": 1}
    shop.catalog.pipeline("shop.orders").branch("again", before=("shop.orders", 3))
    shop.order(4, branch="again")
    shop.run(4, "again")
    shop.catalog.pipeline_branch("again").publish(if_main_moved="replace")
    assert shop.days("report") == [1, 2, 3, 4]


@pytest.mark.parametrize("suffix", ["", "@fix"])
@pytest.mark.ci
def test_tables_have_a_unified_version_after_a_correction(shop: Shop, suffix: str) -> None:
    """Also where a query ran the job again under a name of its own: it took over from the job that it replays."""
    if suffix:
        for job in JOBS:
            register_query(warehouse_of(shop.catalog), job, Registration(job))
            register_query(warehouse_of(shop.catalog), f"{job}-2", Registration(f"{job}@fix", replays=job))
    correct(shop, suffix)
    shop.catalog.pipeline_branch("fix").publish(if_main_moved="replace")
    assert unified(shop, "orders", "daily", "report") == {"orders": 2, "daily": 3, "report": 3}
    shop.order(-4)
    shop.run(4, suffix=suffix)
    assert unified(shop, "orders", "daily", "report") == {"orders": 3, "daily": 4, "report": 4}
    assert note(shop, 3) == ""
    assert shop.starts(3) == {"orders": 2, "daily": 3, "report": 3}


def test_no_table_is_narrowed_to_before_a_rebase(shop: Shop) -> None:
    """No job would bring back what the rebase put on top of main."""
    correct(shop)
    shop.catalog.pipeline_branch("fix").publish(if_main_moved="rebase")
    shop.order(-4)
    shop.run(4)
    assert shop.starts(5) == {"orders": 4, "daily": 4, "report": 4}
    assert "no job of the pipeline made shop.daily, snapshot 4" in note(shop, 5)
    assert len(note(shop, 5)) < 200
    assert unified(shop, "orders", "daily", "report") == {"orders": 5, "daily": 5, "report": 5}


def test_the_next_fault_after_a_rebase(shop: Shop) -> None:
    correct(shop)
    shop.catalog.pipeline_branch("fix").publish(if_main_moved="rebase")
    assert shop.days("orders") == [-3, -2, 1, 2, 3]
    shop.order(-4)
    shop.run(4)
    assert shop.firsts(5) == {"daily": (5, (5,)), "report": (5, (5,))}
    assert shop.starts(5) == {"orders": 4, "daily": 4, "report": 4}
    assert shop.starts(3)["report"] == 2


def test_the_fault_again_and_the_next_one_after_an_undo(shop: Shop) -> None:
    """After an undo the wrong rows are back, in batches whose numbers are smaller than those of the replay."""
    correct(shop)
    release = shop.catalog.pipeline_branch("fix").publish(if_main_moved="replace")
    release.undo()
    assert shop.days("report") == [-3, -2, 1]
    assert shop.firsts(2) == {"daily": (2, (2, 3)), "report": (2, (2, 3))}
    assert shop.starts(2) == {"orders": 1, "daily": 1, "report": 1}
    assert shop.starts(3) == {"orders": 2, "daily": 2, "report": 2}
    shop.order(-4)
    shop.run(4)
    assert shop.firsts(4) == {"daily": (4, (4,)), "report": (4, (4,))}
    assert shop.starts(4) == {"orders": 3, "daily": 3, "report": 3}
    assert shop.starts(3) == {"orders": 2, "daily": 2, "report": 2}


def test_an_undo_after_a_run_that_read_an_older_position(shop: Shop) -> None:
    """Day 2 ran on the release, which has two snapshots of orders; the undone runs had read three."""
    correct(shop)
    release = shop.catalog.pipeline_branch("fix").publish(if_main_moved="replace")
    shop.run(2)
    release.undo(if_main_moved="replace")
    assert shop.days("report") == [-3, -2, 1]
    assert {table: first for table, (first, _) in shop.firsts(3).items()} == {"daily": 3, "report": 3}
    assert shop.starts(2) == {"orders": 1, "daily": 1, "report": 1}


def test_a_replay_that_was_never_published_changes_no_start(shop: Shop) -> None:
    before = shop.starts(2), shop.starts(3), shop.firsts(2), shop.firsts(3)
    correct(shop)
    assert (shop.starts(2), shop.starts(3), shop.firsts(2), shop.firsts(3)) == before
    shop.catalog.pipeline_branch("fix").delete()
    assert (shop.starts(2), shop.starts(3), shop.firsts(2), shop.firsts(3)) == before
