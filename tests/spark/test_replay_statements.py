"""Statements that lineage recorded are run again on the branches of a pipeline."""

from __future__ import annotations

from pathlib import Path

import pytest

from paimon_spark import Catalog
from paimon_spark.errors import InvalidInputError, PaimonError
from tests.harness.command_line import CommandLine
from tests.harness.doors import Door

pytestmark = [pytest.mark.spark, pytest.mark.catalog_door]


@pytest.fixture
def catalog(door: Door, tmp_path: Path) -> Catalog:
    """raw → daily → top by statements, each for one day; day 2 of raw is wrong."""
    made = door.load_catalog(str(tmp_path / "wh"))
    made.create_database("shop")
    made.create_database("default")
    for name in ("raw", "daily", "top"):
        made.create_table(f"shop.{name}", "day BIGINT, n BIGINT")
    made.lineage.enable()
    run_day(made, 1, 10)
    run_day(made, 2, -20)
    run_day(made, 3, 30)
    return made


def run_day(catalog: Catalog, day: int, n: int) -> None:
    """Statements with literals, parameters, names of one part, and a MERGE-like correction by UPDATE."""
    catalog.sql(f"INSERT INTO paimon.shop.raw VALUES ({day}, {n})")
    catalog.sql(
        "INSERT INTO paimon.shop.daily SELECT day, n * 2 FROM paimon.shop.raw WHERE raw.day = :day", args={"day": day}
    )
    catalog.sql("UPDATE paimon.shop.daily SET n = n + 1 WHERE daily.day = ?", args=[day])
    catalog.sql("USE paimon.shop")
    catalog.sql(f"INSERT INTO top\n-- the best\nSELECT * FROM daily WHERE day = {day} AND n > 0")
    catalog.sql("USE paimon.default")


def correct(catalog: Catalog) -> None:
    """Write days 2 and 3 to the branch."""
    catalog.sql("INSERT INTO paimon.shop.raw$branch_fix VALUES (2, 20), (3, 30)")


def rows(catalog: Catalog, table: str, branch: str = "main") -> list[tuple[int, int]]:
    found = catalog.table(f"shop.{table}").branch(branch).scan().to_arrow().to_pylist()
    return sorted((row["day"], row["n"]) for row in found)


@pytest.mark.quick
def test_statements_are_run_again_on_the_branches(catalog: Catalog) -> None:
    assert rows(catalog, "top") == [(1, 21), (3, 61)]
    fix = catalog.pipeline("shop.raw").branch("fix", before=("shop.raw", 2))
    assert fix.tables == {"shop.raw": 1, "shop.daily": 2, "shop.top": 1}
    steps = fix.replay_plan()
    assert [(s.kind, s.statements) for s in steps] == [("batch", 2), ("batch", 1)]
    assert "2 recorded statements, which `pipeline rerun` runs again" in str(steps[0])
    found = fix.statements()
    assert [(s.table, s.snapshot_id, s.is_done) for s in found] == [
        ("shop.daily", 3, False),
        ("shop.daily", 4, False),
        ("shop.daily", 5, False),
        ("shop.daily", 6, False),
        ("shop.top", 2, False),
    ]
    assert found[0].sql.replace("(2)", "2").endswith("WHERE raw.day = 2"), "values of parameters are in the text"
    main = {t: rows(catalog, t) for t in ("raw", "daily", "top")}
    correct(catalog)
    with pytest.raises(InvalidInputError, match=r"statement of 1 job \(no such job\); those recorded are of shop"):
        fix.run_statements("no such job")
    job = found[0].job
    assert [s.snapshot_id for s in fix.run_statements(job)] == [3, 5]
    assert [s.is_done for s in fix.statements()] == [True, False, True, False, False]
    done = fix.run_statements()
    assert [(s.table, s.snapshot_id) for s in done] == [("shop.daily", 4), ("shop.daily", 6), ("shop.top", 2)]
    assert rows(catalog, "daily", "fix") == [(1, 21), (2, 41), (3, 61)]
    assert rows(catalog, "top", "fix") == [(1, 21), (3, 61)], "day 2 wrote no snapshot of main, so it is not recorded"
    assert {t: rows(catalog, t) for t in ("raw", "daily", "top")} == main
    assert fix.run_statements() == []


def test_a_statement_that_is_run_again_belongs_to_the_job_that_wrote_it(catalog: Catalog) -> None:
    """Named jobs and unnamed ones, run again whatever job the session has: the next plan counts them as one job."""
    catalog.sql("SET spark.paimon.lineage.job = named")
    catalog.sql("INSERT INTO paimon.shop.top SELECT * FROM paimon.shop.daily WHERE day = 3")
    catalog.sql("RESET spark.paimon.lineage.job")
    fix = catalog.pipeline("shop.raw").branch("fix", before=("shop.raw", 2))
    written_by = {s.table: s.job for s in fix.statements() if s.job != "named"}
    jobs = {s.job for s in fix.statements()}
    correct(catalog)
    catalog.sql("SET spark.paimon.lineage.job = other")
    fix.run_statements()
    catalog.sql("RESET spark.paimon.lineage.job")
    recorded = {job.name: set(job.sinks) for job in catalog.lineage.jobs()}
    assert all({f"{table}$branch_fix", table} <= recorded[job] for table, job in written_by.items())
    assert "other" not in recorded and recorded["named"] == {"shop.top", "shop.top$branch_fix"}
    catalog.sql("SET spark.paimon.branch = fix")
    catalog.sql("INSERT INTO paimon.shop.daily SELECT day, n * 2 FROM paimon.shop.raw WHERE raw.day = 2")
    catalog.sql("RESET spark.paimon.branch")
    assert set(recorded) == {job.name for job in catalog.lineage.jobs()}, "nor is one that somebody runs there"
    fix.publish(if_main_moved="replace")
    again = catalog.pipeline("shop.raw").branch("fix2", before=("shop.raw", 2))
    assert {s.job for s in again.statements()} == jobs
    steps = {s.job: s.statements for s in again.replay_plan()}
    assert sum(steps.values()) == len([s for s in again.statements() if s.job in steps])


def test_a_statement_that_fails_can_be_run_later(catalog: Catalog) -> None:
    fix = catalog.pipeline("shop.raw").branch("fix", before=("shop.raw", 2))
    correct(catalog)
    table = catalog.table("shop.top").branch("fix")
    table.alter(drop=["n"])
    with pytest.raises(PaimonError):
        fix.run_statements()
    assert [s.is_done for s in fix.statements()] == [True, True, True, True, False]
    table.alter(add={"n": "BIGINT"})
    assert [s.table for s in fix.run_statements()] == ["shop.top"]


def test_on_the_command_line(catalog: Catalog, capsys: pytest.CaptureFixture[str]) -> None:
    cli = CommandLine(Path(catalog.warehouse), capsys)
    catalog.pipeline("shop.raw").branch("fix", before=("shop.raw", 2))
    correct(catalog)
    shown = cli("pipeline", "statements", "fix")
    assert "shop.daily, snapshot 3" in shown.out and "INSERT INTO top -- the best SELECT" in shown.out
    ran = cli("pipeline", "rerun", "fix", "--yes")
    assert ran.code == 0 and ran.out.count("run again") == 5, ran
    again = cli("pipeline", "rerun", "fix", "--yes")
    assert again.out.strip() == "no statement is left to run"
